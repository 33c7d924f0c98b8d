"""`reticent demo`: a collector, a fleet and a dashboard on this machine, truth beside estimates."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from reticent.errors import ReticentError
from reticent_collector.cli.options import check_free
from reticent_collector.cli.output import (
    VerbCommand,
    as_json,
    console,
    figure,
    found_problems,
    make_folder,
    print_json,
)

if TYPE_CHECKING:
    from reticent.plan import Plan
    from reticent_lab.demo import TruthBeside

HEAD = f"""
{{name}}, and how many of all true figures are inside their intervals:

[bold]{"round":>6}  {"truth":>8}  {"estimate":>16}  {"95 % interval":>18}  {"":8}  all figures[/bold]"""
LASTING = "Misses come in runs: remembered answers do not average out, so an error lasts for rounds."


@click.command(cls=VerbCommand, short_help="Run the whole system on this machine.")
@click.argument("plan", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--devices", type=click.IntRange(100, 5_000_000), default=200_000, show_default=True,
              metavar="N", help="Simulated devices; a few of them run the real SDK.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 1000), default=31, show_default=True, metavar="N",
              help="Rounds to simulate.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, metavar="PORT",
              help="Port of the dashboard; 0 for any that is free.")  # fmt: skip
@click.option("--once", is_flag=True, help="Exit when done instead of serving the dashboard.")
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Keep the store there."
)
@click.option("--seed", type=click.IntRange(0), metavar="SEED",
              help="Repeat a run's values and noise; random when left out.")  # fmt: skip
@as_json
def demo(
    plan: Path | None,
    devices: int,
    rounds: int,
    port: int,
    once: bool,
    keep: Path | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """
    Run the whole system on this machine: a collector on an embedded store, a fleet of simulated devices, and
    the dashboard. Time is sped up: a round of six hours takes a moment. PLAN is your own, or one of six-hour
    rounds where it is left out; the values of the devices are made up.

    Each device sends a few noisy bits per round. As rounds are sealed, the true figures, which no collector ever
    sees, are shown beside the estimates.

    \b
    Example:
      reticent demo --devices 200000 --once
      reticent demo plan.toml --devices 20000

    Exit code 3 when truth and estimates differ by more than chance allows, once in a million runs.
    """
    screen = Console(quiet=True) if as_json else console()
    chosen = secrets.randbelow(2**32) if seed is None else seed
    check_free("127.0.0.1", port, "--port; 0 takes any that is free")
    with _folder(keep) as folder:
        from reticent.plan import Plan
        from reticent_collector.privacy.card import duration
        from reticent_lab.demo import Demo

        with Demo(folder, devices, rounds, port, chosen, Plan.load(plan) if plan else None) as running:
            screen.print(
                f"{devices:,} devices, {running.sdk_devices} of them with the real SDK; {rounds} rounds"
                f" of {duration(running.plan.round_seconds)}; {running.plan.bits} noisy bits per report"
                f" [dim](seed {chosen})[/dim]"
            )
            screen.print(f"Collector and dashboard: [bold]{running.url}[/bold]")
            screen.print(f"Truth beside estimates, live: [bold]{running.url}/demo[/bold]")
            screen.print(HEAD.format(name=_first_figure(running.plan)))
            rows = []
            for sealed in running.play():
                rows += sealed
                _print_round(screen, sealed)
            if as_json:
                answer = {"seed": chosen, "devices": devices, "rounds": rounds, "url": running.url}
                print_json({**answer, "rows": [row.to_dict() for row in rows]})
            inside = sum(row.inside for row in rows)
            screen.print(f"\n{inside} of {len(rows)} true figures are inside their 95 % intervals.")
            screen.print(f"[dim]{LASTING}[/dim]")
            if not once:
                screen.print(
                    f"\nThe demo goes on at [bold]{running.url}/demo[/bold], the dashboard is at "
                    f"[bold]{running.url}[/bold]  (Ctrl-C ends the demo)"
                )
                with suppress(KeyboardInterrupt):
                    for _ in running.live():
                        pass
                    while True:
                        time.sleep(3600)
    if any(row.absurd for row in rows):
        screen.print("[red]Some figures are further off than chance allows.[/red]")
        found_problems()


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        make_folder(keep)
        if (keep / "collector.db").exists():
            raise ReticentError(f"{keep}: holds an earlier demo.\n  Hint: give --keep another folder")
        yield keep
    else:
        with tempfile.TemporaryDirectory(prefix="reticent-demo-") as folder:
            yield Path(folder)


def _first_figure(plan: Plan) -> str:
    """What the first figure of a round is about; of a choice, its first label."""
    metric = plan.metrics[0]
    return f"{metric.name}, {metric.labels[0]}" if metric.labels else metric.name


def _print_round(screen: Console, rows: list[TruthBeside]) -> None:
    first = rows[0]  # of a histogram or a choice: its first bucket
    estimate = first.estimate
    mark = "[green]inside[/green]  " if first.inside else "[yellow]outside[/yellow] "
    screen.print(
        f"{first.round:>6}  {figure(first.truth):>8}  "
        f"{figure(estimate['value']) + ' ± ' + figure(estimate['half_width']):>16}  "
        f"{figure(estimate['lower']) + ' to ' + figure(estimate['upper']):>18}  {mark}  "
        f"{sum(row.inside for row in rows)} of {len(rows)}"
    )
