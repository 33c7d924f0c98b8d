"""`reticent audit`: the promises of a plan, and a client that keeps them or does not."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape

from reticent.cli.options import input_file
from reticent.cli.output import (
    as_json,
    console,
    figure,
    found_problems,
    make_folder,
    print_json,
    progress,
    quiet_option,
    table,
)
from reticent.plan import Plan
from reticent.privacy import printed

if TYPE_CHECKING:
    from reticent.lab.audit import Audit, Client

NOT_ENOUGH_REPORTS = 4
"""Not 0: a pipeline that reads nothing but the exit code must not take a run that saw too little for a pass."""

NOT_COVERED = "Not covered: timing, side channels of the machine, a collector that changes the plan"
PATTERNS = ", and devices whose values repeat in different patterns"


@click.command(short_help="Test a plan's privacy claim on the real code.")
@click.argument("path", metavar="PLAN", type=input_file)
@click.option("--reports", type=click.IntRange(1000, 10**8), default=1_200_000, show_default=True,
              metavar="N", help="Reports of the black-box attacks.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 100), default=10, show_default=True, metavar="N",
              help="Rounds that each device answers.")  # fmt: skip
@click.option("--sdk-devices", type=click.IntRange(2, 10**6), default=2000, show_default=True, metavar="N",
              help="Whole devices with files of their own, besides.")  # fmt: skip
@click.option("--client", metavar="COMMAND",
              help="Audit this program instead of the SDK, as docs/how-to/audit.md describes.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Write a picture there (PNG and SVG).")  # fmt: skip
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="SEED",
    help="Repeat the secrets of the attacked devices; random when left out.",
)
@quiet_option
@as_json
def audit(
    path: Path,
    reports: int,
    rounds: int,
    sdk_devices: int,
    client: str | None,
    out: Path | None,
    seed: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """
    Compute every loss of PLAN exactly, attack the SDK as a black box, and hold both against the claims.

    The exact part goes through all outputs and involves no chance. The black box lets fresh devices live
    through histories that differ, and proves a lower bound on what their reports tell. A client that keeps
    its claims is flagged at most once in a million audits.

    \b
    Example:
      reticent audit examples/plan.toml --out pictures

    Exit code 3 when anything is above its claim, or a check fails; 4 when nothing is, but the reports are
    too few to notice an epsilon twice the plan's.
    """
    from reticent.lab.audit import audit as audit_plan

    plan = Plan.load(path)
    make_folder(out)
    with _client(client) as chosen, progress("Attacking", quiet) as tell:
        result = audit_plan(
            plan, client=chosen, reports=reports, rounds=rounds, sdk_devices=sdk_devices, seed=seed,
            workers=min(4, os.cpu_count() or 1), progress=tell,
        )  # fmt: skip
    files: list[Path] = []
    if out:
        from reticent.lab.audit import draw
        from reticent.plots import save

        files = save(draw(result), out, "audit")
    if as_json:
        print_json({**result.to_dict(), "files": [str(file) for file in files]})
    else:
        _print(console(), result, files)
    if result.problems:
        found_problems()
    if not result.sound:
        raise SystemExit(NOT_ENOUGH_REPORTS)


@contextmanager
def _client(command: str | None) -> Iterator[Client | None]:
    """The program of --client, ended afterwards; None for the SDK."""
    if command is None:
        yield None
        return
    from reticent.lab.audit import CommandClient

    words = shlex.split(command)
    if not words:
        raise click.BadParameter("expected a program and its arguments", param_hint="--client")
    client = CommandClient(words)
    try:
        yield client
    finally:
        client.close()


def _print(screen: Console, audit: Audit, files: list[Path]) -> None:
    screen.print(_exact_table(audit))
    screen.print(_attack_table(audit))
    rows = table("checks without chance", "", "", title="\nWhat must hold")
    rows.columns[1].justify = rows.columns[2].justify = "left"
    marks = {True: "[green]ok[/green]", False: "[red]FAILS[/red]", None: "[yellow]see[/yellow]"}
    for check in audit.checks:
        rows.add_row(
            f"{escape(check.subject)}: {check.what}", marks[check.holds], f"[dim]{escape(check.detail)}[/dim]"
        )
    screen.print(rows)
    screen.print()
    screen.print(
        f"{audit.reports:,} reports of {escape(' and '.join(audit.clients))} in {audit.seconds:,.0f} s. "
        f"All bounds hold together with confidence 1 - {audit.false_alarm:g}: a client that keeps its claims "
        "is flagged at most once in a million audits."
    )
    for file in files:
        screen.print(f"Wrote {escape(str(file))}")
    patterns = "" if audit.sampled else PATTERNS
    screen.print(f"[dim]{NOT_COVERED}{patterns}. docs/how-to/audit.md says what each line proves.[/dim]\n")
    excess = ", ".join(f"{subject} {_share(share)}" for subject, share in audit.power.items())
    screen.print(f"With chance 0.98 this run notices an epsilon that is larger by: {escape(excess)}.")
    faults = table("with chance 0.98, it also notices a device that", "if so many do", title="")
    for what, share in audit.faults.items():
        faults.add_row(what, "needs more reports" if share is None else _percent(share))
    screen.print(faults)
    screen.print()
    for problem in audit.problems:
        screen.print(f"[red]ABOVE CLAIM[/red] {escape(problem)}")
    if audit.sound:
        screen.print(
            f"[green]ok[/green]: nothing is above its claim; {_share(audit.notices)} too much in any metric "
            "would have been noticed."
        )
    elif not audit.problems:
        screen.print(
            "[yellow]NOT ENOUGH REPORTS[/yellow] to tell: nothing is above its claim, but an epsilon twice the "
            "plan's would not be noticed in every metric. Take more --reports."
        )


def _share(excess: float | None) -> str:
    return "(no excess)" if excess is None else _percent(excess)


def _percent(share: float) -> str:
    """Rounded up: the run notices so much, and may notice less."""
    return f"{Decimal(100 * share).quantize(Decimal('0.1'), ROUND_CEILING)} %"


def _exact_table(audit: Audit) -> object:
    rows = table(
        "exact, by enumeration",
        "claim",
        "loss",
        "",
        title=f"What {audit.plan} (version {audit.version}) loses",
    )
    rows.columns[-1].justify = "left"
    subject = None
    for loss in audit.exact:
        if subject not in (None, loss.subject):
            rows.add_section()
        rows.add_row(
            f"{escape(loss.subject)}: {loss.what}",
            printed(loss.claim),
            printed(loss.loss),
            _verdict(loss.above),
        )
        subject = loss.subject
    return rows


def _attack_table(audit: Audit) -> object:
    from reticent.lab.audit import at_least

    rows = table(
        "black box", "claim", "exact", "estimate", "at least", "devices", "",
        title="\nWhat attacks proved (devices per history)",
    )  # fmt: skip
    rows.columns[-1].justify = "left"
    for attack in audit.attacks:
        rows.add_row(
            f"{escape(attack.subject)}: {attack.what}",
            printed(attack.claim),
            "" if attack.exact is None else printed(attack.exact),
            figure(max(0.0, attack.estimate)),
            at_least(attack.lower),
            f"{attack.devices:,}",
            _verdict(attack.above),
        )
    return rows


def _verdict(above: bool) -> str:
    return "[red]ABOVE CLAIM[/red]" if above else "[green]ok[/green]"
