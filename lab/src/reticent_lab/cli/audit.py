"""`reticent audit`: the claims of a plan, and whether a client keeps them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from reticent.plan import Plan
from reticent.privacy import printed
from reticent_collector.cli import output
from reticent_collector.cli.options import input_file
from reticent_collector.cli.output import VerbCommand, figure, table

if TYPE_CHECKING:
    from reticent_lab.audit import Audit, AuditedClient

NOT_ENOUGH_REPORTS = 4
"""Not 0: a pipeline that reads only the exit code must not take an inconclusive run for a pass."""

NOT_COVERED = "Not covered: timing, side channels of the machine, a collector that changes the plan"
PATTERNS = ", and devices whose values repeat in different patterns"


@click.command(cls=VerbCommand, short_help="Test a plan's privacy claim on the real code.")
@click.argument("path", metavar="PLAN", type=input_file)
@click.option("--reports", type=click.IntRange(1000, 10**8), default=1_200_000, show_default=True,
              metavar="N", help="Reports of the black-box attacks.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 100), default=10, show_default=True, metavar="N",
              help="Rounds that each device answers.")  # fmt: skip
@click.option("--sdk-devices", type=click.IntRange(2, 10**6), default=2000, show_default=True, metavar="N",
              help="Complete devices with state files, in addition.")  # fmt: skip
@click.option("--client", metavar="COMMAND",
              help="Audit this program instead of the SDK, as docs/how-to/audit.md describes.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Write a picture there (PNG and SVG).")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), metavar="SEED",
              help="Repeat the secrets of the attacked devices; random when left out.")  # fmt: skip
@output.quiet
@output.as_json
def audit(
    path: Path, client: str | None, out: Path | None, quiet: bool, as_json: bool, **sizes: int | None
) -> None:
    """
    Compute every loss of PLAN exactly, attack the SDK as a black box, and compare both with the claims.

    The exact part enumerates all outputs and involves no chance. The black box runs fresh devices through
    histories that differ, and proves a lower bound on the loss of their reports. A client that keeps its claims
    is flagged at most once in a million audits.

    \b
    Example:
      reticent audit examples/plan.toml --out pictures

    Exit code 3 when anything is above its claim, or a check fails; 4 when nothing is, but the reports are
    too few to notice an epsilon twice the plan's.
    """
    from reticent_lab.audit import audit as audit_plan

    plan = Plan.load(path)
    output.make_folder(out)
    workers: Any = {**sizes, "workers": min(4, os.cpu_count() or 1)}
    with _client(client) as chosen, output.progress("Attacking", quiet) as tell:
        result = audit_plan(plan, client=chosen, progress=tell, **workers)
    files: list[Path] = []
    if out:
        from reticent_collector.plots import save
        from reticent_lab.audit.run import draw_audit

        files = save(draw_audit(result), out, "audit")
    if as_json:
        output.print_json({**result.to_dict(), "files": [str(file) for file in files]})
    else:
        _print(output.console(), result, files)
    if result.problems:
        output.found_problems()
    if not result.sound:
        raise SystemExit(NOT_ENOUGH_REPORTS)


@contextmanager
def _client(command: str | None) -> Iterator[AuditedClient | None]:
    """The program of --client, ended afterwards; None for the SDK."""
    if command is None:
        yield None
        return
    from reticent_lab.audit import CommandClient

    try:
        words = shlex.split(command)
    except ValueError:  # a quotation mark without its other half
        words = []
    if not words:
        raise click.BadParameter("expected a program and its arguments", param_hint="--client")
    with closing(CommandClient(words)) as client:
        yield client


def _print(screen: Console, audit: Audit, files: list[Path]) -> None:
    from reticent_lab.audit.bounds import at_least

    title = f"Losses of {audit.plan} (version {audit.version})"
    exact = table("exact, by enumeration", "claim", "loss", "", title=title, words=[-1])
    for place, loss in enumerate(audit.exact):
        if place and loss.subject != audit.exact[place - 1].subject:
            exact.add_section()
        figures = printed(loss.claim), printed(loss.loss)
        exact.add_row(f"{escape(loss.subject)}: {loss.what}", *figures, _verdict(loss.above))
    screen.print(exact)
    rows: list[tuple[str, ...]] = [
        (
            f"{escape(attack.subject)}: {attack.what}",
            printed(attack.claim),
            "" if attack.exact is None else printed(attack.exact),
            figure(max(0.0, attack.estimate)),
            at_least(attack.lower),
            f"{attack.devices:,}",
            _verdict(attack.above),
        )
        for attack in audit.attacks
    ]
    heads = ("black box", "claim", "exact", "estimate", "at least", "devices", "")
    screen.print(
        table(*heads, rows=rows, title="\nBounds proved by attacks (devices per history)", words=[-1])
    )
    marks = {True: "[green]ok[/green]", False: "[red]FAILS[/red]", None: "[yellow]see[/yellow]"}
    rows = [
        (f"{escape(check.subject)}: {check.what}", marks[check.holds], f"[dim]{escape(check.detail)}[/dim]")
        for check in audit.checks
    ]
    screen.print(table("checks without chance", "", "", rows=rows, title="\nInvariants", words=[1, 2]))
    screen.print(
        f"\n{audit.reports:,} reports of {escape(' and '.join(audit.clients))} in {audit.seconds:,.0f} s. "
        f"All bounds hold together with confidence 1 - {audit.false_alarm:g}: a client that keeps its claims "
        "is flagged at most once in a million audits."
    )
    for file in files:
        click.echo(f"Wrote {file}")
    patterns = "" if audit.sampled else PATTERNS
    screen.print(
        f"[dim]{NOT_COVERED}{patterns}. docs/how-to/audit.md explains what each line proves.[/dim]\n"
    )
    excess = ", ".join(f"{subject} {_share(share)}" for subject, share in audit.power.items())
    screen.print(f"With probability 0.98 this run detects an epsilon that is larger by: {escape(excess)}.")
    rows = [
        (what, "needs more reports" if share is None else _share(share))
        for what, share in audit.faults.items()
    ]
    screen.print(
        table(
            "with probability 0.98, it also detects a device that", "if this share does", rows=rows, title=""
        )
    )
    screen.print()
    for problem in audit.problems:
        screen.print(f"[red]ABOVE CLAIM[/red] {escape(problem)}")
    if audit.sound:
        screen.print(
            f"[green]ok[/green]: nothing is above its claim; {_share(audit.notices)} too much in any metric "
            "would have been detected."
        )
    elif not audit.problems:
        screen.print(
            "[yellow]NOT ENOUGH REPORTS[/yellow]: nothing is above its claim, but an epsilon twice the plan's "
            "would not be detected in every metric. Give more --reports."
        )


def _share(share: float | None) -> str:
    """Rounded up: the run detects so much, and may detect less."""
    if share is None:
        return "(no excess)"
    return f"{Decimal(100 * share).quantize(Decimal('0.1'), ROUND_CEILING)} %"


def _verdict(above: bool) -> str:
    return "[red]ABOVE CLAIM[/red]" if above else "[green]ok[/green]"
