"""`reticent audit`: the claims of a plan, and whether a client sends what the rules say."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape

from reticent.losses import printed
from reticent.plan import Plan
from reticent_collector.cli import output
from reticent_collector.cli.options import input_file
from reticent_collector.cli.output import VerbCommand, table

if TYPE_CHECKING:
    from reticent_lab.audit import Audit, AuditedClient

NOT_DECIDED = 4
"""Not 0: a pipeline that reads only the exit code must not take an undecided audit for a pass."""

NOT_COVERED = (
    "Not covered: a fault whose trigger no life reached, damaged state, two processes at once, limits of a policy, "
    "rules of the environment, HTTP around the bodies (headers, compression), the moment within a round at which a "
    "report is sent, timing and other side channels, a collector that changes the plan. docs/how-to/audit.md has "
    "the list."
)


@click.command(
    cls=VerbCommand,
    short_help="Test a plan's claims, and a client's bytes.",
)
@click.argument("path", metavar="PLAN", type=input_file)
@click.option("--lives", type=click.IntRange(1, 10_000), default=25, show_default=True, metavar="N",
              help="Lives of each family that the client is driven through.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 100), default=10, show_default=True, metavar="N",
              help="Rounds over which losses are enumerated.")  # fmt: skip
@click.option("--client", metavar="COMMAND",
              help="Audit this program instead of the SDK, as docs/how-to/audit.md describes.")  # fmt: skip
@output.quiet
@output.as_json
def audit(path: Path, client: str | None, lives: int, rounds: int, quiet: bool, as_json: bool) -> None:
    """
    Compute every loss of PLAN exactly, and compare all that leaves a client with the rules, byte by byte.

    The client gets test secrets and lives through values, restarts, gaps, choices of the person, plan versions,
    wrong clocks, refusals and expiry. Nothing depends on chance. The first difference is shown with a short life
    that leads to it.

    \b
    Example:
      reticent audit examples/plan.toml

    Exit code 3 when a loss is above its claim, a check fails or a byte differs; 4 when nothing is wrong, but the
    client takes no test secret or the rules do not know the plan.
    """
    from reticent_lab.audit import audit as audit_plan

    plan = Plan.load(path)
    with _client(client) as chosen, output.progress("Comparing", quiet) as tell:
        result = audit_plan(plan, client=chosen, lives=lives, rounds=rounds, progress=tell)
    if as_json:
        output.print_json(result.to_dict())
    else:
        _print(output.console(), result)
    if result.problems:
        output.found_problems()
    if not result.sound:
        raise SystemExit(NOT_DECIDED)


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


def _print(screen: Console, audit: Audit) -> None:
    title = f"Losses of {audit.plan} (version {audit.version})"
    exact = table("exact, by enumeration", "claim", "loss", "", title=title, words=[-1])
    for place, loss in enumerate(audit.exact):
        if place and loss.subject != audit.exact[place - 1].subject:
            exact.add_section()
        verdict = "[red]ABOVE CLAIM[/red]" if loss.above else "[green]ok[/green]"
        exact.add_row(
            f"{escape(loss.subject)}: {loss.what}", printed(loss.claim), printed(loss.loss), verdict
        )
    screen.print(exact)
    marks = {True: "[green]ok[/green]", False: "[red]FAILS[/red]", None: "[yellow]see[/yellow]"}
    rows = [
        (f"{escape(check.subject)}: {check.what}", marks[check.holds], f"[dim]{escape(check.detail)}[/dim]")
        for check in audit.checks
    ]
    screen.print(table("checks of the plan's integers", "", "", rows=rows, title="", words=[1, 2]))
    screen.print(
        f"\n{escape(audit.client)}: {audit.reports:,} reports of {audit.lives:,} lives compared with the rules, "
        f"{audit.events:,} events ({', '.join(audit.families)}), in {audit.seconds:,.0f} s. "
        f"{audit.left_open:,} events were not compared."
    )
    screen.print(f"[dim]{NOT_COVERED}[/dim]\n")
    for problem in audit.problems:
        screen.print(f"[red]WRONG[/red] {escape(problem)}")
    if audit.difference is not None:
        for line in audit.difference.lines():
            click.echo(f"  {line}")
    elif audit.sound:
        screen.print("[green]ok[/green]: every claim holds, and every byte is that of the rules.")
    elif audit.undecided:
        screen.print(f"[yellow]NOT DECIDED[/yellow]: {escape(audit.undecided)}.")
