"""`reticent doctor`: what to fix on this machine. It checks, and changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from reticent_collector.cli.options import given_store
from reticent_collector.cli.output import VerbCommand, as_json, counted, found_problems, show

if TYPE_CHECKING:
    from reticent_collector.cli.doctor.machine import Check

COLORS = {"ok": "green", "note": "yellow", "problem": "red"}
_file = click.Path(path_type=Path)


@click.command(cls=VerbCommand, short_help="Check an installation, and tell what to fix.")
@click.option("--store", envvar="RETICENT_STORE", callback=given_store, metavar="URL",
              help="A store to check; or RETICENT_STORE, or the file that RETICENT_STORE_FILE names.")  # fmt: skip
@click.option("--plan", type=_file, metavar="PLAN", help="A plan to check.")
@click.option("--endpoint", metavar="URL", help="A collector, as devices reach it.")
@click.option("--state", type=_file, metavar="STATE", help="A device's state file.")
@click.option("--tls-cert", envvar="RETICENT_TLS_CERT", type=_file, metavar="FILE",
              help="The certificate of reticent serve.")  # fmt: skip
@click.option(
    "--tls-key", envvar="RETICENT_TLS_KEY", type=_file, metavar="FILE", help="The key of that certificate."
)
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
    Check an installation and tell what to fix: Python, libraries, the machine, and the plan, store, state file,
    certificate and collector that are given.

    Each line is ok, a note or a problem, with what to do. Nothing is made or changed, and no secret, key, id
    or value is shown.

    \b
    Example:
      reticent doctor
      reticent doctor --store sqlite:///reticent.db --plan examples/plan.toml --endpoint http://127.0.0.1:8000

    Exit code 3 when there is a problem; notes alone leave it at 0.
    """
    from reticent_collector.cli.doctor import deployment, machine

    checks = [*machine.installation(), *machine.machine()]
    asked = None
    if plan is not None:
        asked, of_plan = deployment.check_plan(plan)
        checks += of_plan
    if store is not None:
        checks += deployment.check_store(store)
    if state is not None:
        checks += _of_file("device", deployment.check_state(state, asked))
    if tls_cert is not None or tls_key is not None:
        checks += _of_file("tls", machine.tls(tls_cert, tls_key))
    if endpoint is not None:
        checks += deployment.check_endpoint(endpoint)
    area = ""
    shown = Table(box=None, pad_edge=False, show_header=False)
    for wraps in (False, False, True):
        shown.add_column(no_wrap=not wraps)
    for check in checks:
        if check.area != area:
            area = check.area
            shown.add_row(Text(area, "bold"))
        text = Text.assemble(check.message, (f"\n{check.hint}" if check.hint else "", "dim"))
        shown.add_row(f"  {check.name}", Text(check.state, COLORS[check.state]), text)
    tally = Counter(check.state for check in checks)
    parts = [counted(tally["problem"], "problem"), counted(tally["note"], "note"), f"{tally['ok']} ok"]
    counts = {"ok": tally["ok"], "notes": tally["note"], "problems": tally["problem"]}
    answer = {**counts, "checks": [check._asdict() for check in checks]}
    show(as_json, answer, shown, f"\n{', '.join(parts)}.")
    if tally["problem"]:
        found_problems()


def _of_file(area: str, checks: Iterator[Check]) -> Iterator[Check]:
    """Checks of a file; one that this user cannot read is a problem, and ends these checks only."""
    from reticent_collector.cli.doctor.machine import Check

    try:
        yield from checks
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
        yield Check(area, "access", "problem", message, "give a file that this user can read")
