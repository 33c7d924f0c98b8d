"""`reticent doctor`: what to fix on this machine. It looks, and changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from reticent.cli.completing import PlanFile, StoreUrl
from reticent.cli.doctor.check import Area, Check
from reticent.cli.doctor.endpoint import endpoint as check_endpoint
from reticent.cli.doctor.installation import installation
from reticent.cli.doctor.machine import machine
from reticent.cli.doctor.state import state as check_state
from reticent.cli.doctor.store import store as check_store
from reticent.cli.doctor.tls import tls
from reticent.cli.options import given_store
from reticent.cli.output import as_json, console, counted, found_problems, print_json
from reticent.errors import PlanError
from reticent.plan import Plan
from reticent.plan.lint import lint

MARKS = {"ok": "[green]ok[/green]", "note": "[yellow]note[/yellow]", "problem": "[red]problem[/red]"}
_file = click.Path(path_type=Path)


@click.command(short_help="Look at an installation, and say what to fix.")
@click.option("--store", envvar="RETICENT_STORE", callback=given_store, type=StoreUrl(), metavar="URL",
              help="A store to look at; RETICENT_STORE_FILE may hold it.")  # fmt: skip
@click.option("--plan", type=PlanFile(path_type=Path), metavar="PLAN", help="A plan to check.")
@click.option("--endpoint", metavar="URL", help="A collector, as devices reach it.")
@click.option("--state", type=_file, metavar="STATE", help="A device's state file.")
@click.option("--tls-cert", envvar="RETICENT_TLS_CERT", type=_file, metavar="FILE",
              help="The certificate of reticent serve.")  # fmt: skip
@click.option("--tls-key", envvar="RETICENT_TLS_KEY", type=_file, metavar="FILE", help="And its key.")
@as_json
def doctor(
    store: str | None,
    plan: Path | None,
    endpoint: str | None,
    state: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    as_json: bool,
) -> None:
    """
    Look at an installation and say what to fix: Python, libraries, the machine, and whatever is named of a
    plan, a store, a device's state file, a certificate and a collector.

    Each line is ok, a note or a problem, with what to do. Nothing is made or changed, and no secret, key, id
    or value is shown.

    \b
    Example:
      reticent doctor
      reticent doctor --store sqlite:///reticent.db --plan examples/plan.toml --endpoint http://127.0.0.1:8000

    Exit code 3 when there is a problem; notes alone leave it at 0.
    """
    found = [*installation(), *machine()]
    asked = None
    if plan is not None:
        asked, checks = check_plan(plan)
        found += checks
    if store is not None:
        found += check_store(store)
    if state is not None:
        found += check_state(state, asked)
    if tls_cert is not None or tls_key is not None:
        found += tls(tls_cert, tls_key)
    if endpoint is not None:
        found += check_endpoint(endpoint)
    tally: Counter[str] = Counter(each.state for each in found)
    if as_json:
        counted = {f"{each}s" if each != "ok" else each: tally[each] for each in ("ok", "note", "problem")}
        print_json({**counted, "checks": [each.to_dict() for each in found]})
    else:
        _show(found, tally)
    if tally["problem"]:
        found_problems()


def check_plan(path: Path) -> tuple[Plan | None, list[Check]]:
    """The plan, if it can be used, and what the linter says about it."""
    area = Area("plan")
    try:
        plan = Plan.load(path)
    except PlanError as error:
        return None, [
            area.failure("rules", problem, f"reticent plan check {path}") for problem in _each(error)
        ]
    warnings = lint(plan, today=datetime.now(UTC).date())
    said = [area.note("advice", f"{each.where}: {each.message.rstrip('.')}", each.hint) for each in warnings]
    return plan, [area.ok("rules", f"{plan.name} version {plan.version} breaks none"), *said]


def _each(error: PlanError) -> Iterator[Exception]:
    """Each problem of a plan by itself."""
    return (PlanError([problem]) for problem in error.problems)


def _show(found: list[Check], tally: Counter[str]) -> None:
    screen = console()
    area = ""
    shown = Table(box=None, pad_edge=False, show_header=False)
    shown.add_column(no_wrap=True)
    shown.add_column(no_wrap=True)
    shown.add_column()
    for each in found:
        if each.area != area:
            area = each.area
            shown.add_row(f"[bold]{area}[/bold]")
        hint = f"\n[dim]{escape(each.hint)}[/dim]" if each.hint else ""
        shown.add_row(f"  {escape(each.name)}", MARKS[each.state], f"{escape(each.message)}{hint}")
    screen.print(shown)
    counts = [counted(tally["problem"], "problem"), counted(tally["note"], "note"), f"{tally['ok']} ok"]
    screen.print(f"\n{', '.join(counts)}.")
