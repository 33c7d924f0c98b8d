"""`reticent audit`: the promises of a plan, and a client that keeps them or does not."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from reticent.cli.output import (
    as_json,
    console,
    figure,
    found_problems,
    make_folder,
    plan_file,
    print_json,
    table,
)
from reticent.plan import Plan

if TYPE_CHECKING:
    from reticent.lab.audit import Audit, Client
    from reticent.lab.audit.auditing import Progress as Tell

NOT_COVERED = """\
Not covered: timing, side channels of the machine, a collector that changes the plan, and devices that change
at different times. docs/how-to/audit.md says what each line proves."""


@click.command(short_help="Hold a plan's privacy claim against the code.")
@click.argument("path", metavar="PLAN", type=plan_file)
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
    help="Repeat the secrets of the attacked devices; drawn anew when left out.",
)
@as_json
def audit(
    path: Path,
    reports: int,
    rounds: int,
    sdk_devices: int,
    client: str | None,
    out: Path | None,
    seed: int | None,
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

    Exit code 3 when anything is above its claim, or a check fails.
    """
    from reticent.lab.audit import audit as audit_plan

    plan = Plan.load(path)
    make_folder(out)
    with _client(client) as chosen, _progress(as_json) as tell:
        found = audit_plan(
            plan, client=chosen, reports=reports, rounds=rounds, sdk_devices=sdk_devices, seed=seed,
            workers=min(4, os.cpu_count() or 1), progress=tell,
        )  # fmt: skip
    files = _draw(found, out) if out else []
    if as_json:
        print_json({**found.to_dict(), "files": [str(file) for file in files]})
    else:
        _print(console(), found, files)
    if not found.sound:
        found_problems()


@contextmanager
def _client(command: str | None) -> Iterator[Client | None]:
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


@contextmanager
def _progress(silent: bool) -> Iterator[Tell]:
    """A bar for people, on standard error; nothing for scripts and files."""
    from reticent.lab.audit.auditing import quiet

    screen = Console(stderr=True)
    if silent or not screen.is_terminal:
        yield quiet
        return
    columns = (
        TextColumn("attacking"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("devices", total=1.0)
        yield lambda done, total: bar.update(task, completed=done / total)


def _draw(found: Audit, out: Path) -> list[Path]:
    from reticent.lab.audit.picture import draw
    from reticent.plots import save

    return save(draw(found), out, "audit")


def _print(screen: Console, found: Audit, files: list[Path]) -> None:
    screen.print(_exact_table(found))
    screen.print(_attack_table(found))
    screen.print(_check_table(found))
    screen.print()
    _print_power(screen, found)
    screen.print(
        f"{found.reports:,} reports of {escape(' and '.join(found.clients))} in {found.seconds:,.0f} s. "
        f"All bounds hold together with confidence 1 - {found.false_alarm:g}: a client that keeps its claims "
        "is flagged at most once in a million audits."
    )
    for file in files:
        screen.print(f"Wrote {escape(str(file))}")
    screen.print(f"[dim]{NOT_COVERED}[/dim]\n")
    for problem in found.problems:
        screen.print(f"[red]ABOVE CLAIM[/red] {escape(problem)}")
    if found.sound:
        screen.print("[green]ok[/green]: nothing is above its claim.")


def _exact_table(found: Audit) -> object:
    rows = table(
        "exact, by enumeration",
        "claim",
        "loss",
        "",
        title=f"What {found.plan} (version {found.version}) loses",
    )
    rows.columns[-1].justify = "left"
    subject = None
    for each in found.exact:
        if subject not in (None, each.subject):
            rows.add_section()
        rows.add_row(
            f"{escape(each.subject)}: {each.what}", _loss(each.claim), _loss(each.loss), _verdict(each.above)
        )
        subject = each.subject
    return rows


def _attack_table(found: Audit) -> object:
    rows = table(
        "black box", "claim", "exact", "estimate", "at least", "devices", "",
        title="\nWhat attacks proved (devices per history)",
    )  # fmt: skip
    rows.columns[-1].justify = "left"
    for each in found.attacks:
        rows.add_row(
            f"{escape(each.subject)}: {each.what}",
            _loss(each.claim),
            "" if each.exact is None else _loss(each.exact),
            _loss(max(0.0, each.estimate)),
            _loss(each.lower),
            f"{each.devices:,}",
            _verdict(each.above),
        )
    return rows


def _check_table(found: Audit) -> object:
    rows = table("checks without chance", "", "", title="\nWhat must hold")
    rows.columns[1].justify = rows.columns[2].justify = "left"
    marks = {True: "[green]ok[/green]", False: "[red]FAILS[/red]", None: "[yellow]see[/yellow]"}
    for each in found.checks:
        rows.add_row(
            f"{escape(each.subject)}: {each.what}", marks[each.holds], f"[dim]{escape(each.detail)}[/dim]"
        )
    return rows


def _print_power(screen: Console, found: Audit) -> None:
    smallest: dict[str, float] = {}
    for each in found.attacks:
        if each.notice is not None:
            smallest[each.subject] = min(each.notice, smallest.get(each.subject, each.notice))
    if smallest:
        words = ", ".join(f"{name} {share:.1%}" for name, share in smallest.items())
        screen.print(f"So many devices would notice an epsilon that is larger by: {escape(words)}.")


def _verdict(above: bool) -> str:
    return "[red]ABOVE CLAIM[/red]" if above else "[green]ok[/green]"


def _loss(number: float) -> str:
    return f"{number:.4f}" if number < 1000 else figure(number)
