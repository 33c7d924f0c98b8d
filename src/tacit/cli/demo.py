"""`tacit demo`: a small fleet in one process, truth beside estimates."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import click
from rich.console import Console
from rich.progress import track

from tacit.cli.output import as_json, console, figure, found_problems, print_json, table
from tacit.plan import Metric, Plan

FALSE_ALARM = 1e-6
"""How often a sound demo ends with exit code 3, over all its figures together."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of the demo: what is true, what was estimated, and whether the interval holds it."""

    round: int
    metric: str
    bucket: int | None
    truth: float
    estimate: dict[str, Any]
    inside: bool
    absurd: bool
    """Outside even an interval that chance leaves once in a million demos."""


@click.command()
@click.option("--devices", type=click.IntRange(10, 200_000), default=10_000, show_default=True)
@click.option("--rounds", type=click.IntRange(1, 1000), default=8, show_default=True)
@click.option("--seed", type=int, help="Repeat a run; drawn anew when left out.")
@as_json
def demo(devices: int, rounds: int, seed: int | None, as_json: bool) -> None:
    """
    Simulate a small fleet: each device sends a few noisy bits per round, and the truth is shown beside
    what the bits say.

    \b
    Example:
      tacit demo --devices 20000 --rounds 4

    Exit code 3 when truth and estimates disagree by more than chance allows (once in a million runs).
    """
    chosen = secrets.randbelow(2**32) if seed is None else seed
    plan = Plan.from_toml(files("tacit.fleet").joinpath("demo.toml").read_text())
    rows: list[Row] = []
    screen = console()
    if not as_json:
        screen.print(
            f"{devices:,} devices, {rounds} rounds of six hours, {plan.bits} bits per report "
            f"[dim](seed {chosen})[/dim]\n"
        )
    for row in _simulate(plan, devices, rounds, chosen, quiet=as_json):
        rows.append(row)
    wrong = [row for row in rows if row.absurd]
    if as_json:
        print_json(
            {"seed": chosen, "devices": devices, "rounds": rounds, "rows": [_plain(row) for row in rows]}
        )
    else:
        _print_means(screen, rows)
        _print_histogram(screen, rows, plan.by_name["editor_spread"], rounds)
        inside = sum(row.inside for row in rows)
        screen.print(f"\n{inside} of {len(rows)} true figures are inside their 95 % intervals.")
        screen.print("[dim]Next: tacit plan check examples/plan.toml --devices 100000[/dim]")
    if wrong:
        screen.print(f"[red]{len(wrong)} figures are further off than chance allows.[/red]")
        found_problems()


def _simulate(plan: Plan, devices: int, rounds: int, seed: int, quiet: bool) -> Iterator[Row]:
    import numpy as np

    from tacit.counts import count_reports
    from tacit.fleet import SmallFleet, app_usage

    generator = np.random.default_rng(seed)
    values = app_usage(devices, rounds, int(plan.metrics[0].max_value), generator)
    systems = [{"os": "linux" if device % 3 else "windows"} for device in range(devices)]
    fleet = SmallFleet(plan, devices, seed, systems)
    figures = rounds * sum(len(_truths(metric, values[0])) for metric in plan.metrics)
    for number in track(range(rounds), "Rounds", disable=quiet, transient=True):
        column = values[number].tolist()
        counted = count_reports(fleet.reports(number, {each.name: column for each in plan.metrics}), plan)
        for metric in plan.metrics:
            total: Any = sum(cell[metric.name] for cell in counted.values())
            yield from _rows(metric, number + 1, values[number], total, figures)


def _rows(metric: Metric, number: int, values: Any, counts: Any, figures: int) -> Iterator[Row]:
    from tacit.estimates import estimate

    usual, strict = estimate(metric, counts), estimate(metric, counts, confidence=1 - FALSE_ALARM / figures)
    buckets = getattr(usual, "buckets", [usual]), getattr(strict, "buckets", [strict])
    for place, (truth, found, sure) in enumerate(zip(_truths(metric, values), *buckets, strict=True)):
        yield Row(
            number,
            metric.name,
            None if metric.kind == "mean" else place,
            truth,
            found.to_dict(),
            found.lower <= truth <= found.upper,
            not sure.lower <= truth <= sure.upper,
        )


def _truths(metric: Metric, values: Any) -> list[float]:
    import numpy as np

    if metric.kind == "mean":
        return [float(values.mean())]
    edges = [float(edge) for edge in metric.mechanism.buckets.edges]  # type: ignore[union-attr]
    shares: list[float] = (np.histogram(values, edges)[0] / len(values)).tolist()
    return shares


def _print_means(screen: Console, rows: list[Row]) -> None:
    means = table("round", "truth", "estimate", "95 % interval", "", title="Mean seconds in the editor")
    for row in rows:
        if row.bucket is None:
            found = row.estimate
            means.add_row(
                str(row.round),
                figure(row.truth),
                f"{figure(found['value'])} ± {figure(found['half_width'])}",
                f"{figure(found['lower'])} to {figure(found['upper'])}",
                _mark(row),
            )
    screen.print(means)


def _print_histogram(screen: Console, rows: list[Row], metric: Metric, last: int) -> None:
    title = f"\nHow the seconds are spread in round {last}, by one Hadamard bit per device"
    shares = table("bucket", "truth", "estimate", "interval (all at once)", "", title=title)
    shares.columns[-1].justify = "left"
    for row in rows:
        if row.metric == metric.name and row.round == last:
            left, right = row.estimate["edges"]
            bar = "█" * round(max(0.0, row.estimate["value"]) * 40)
            shares.add_row(
                f"{left:,.0f} to {right:,.0f}",
                f"{row.truth:.1%}",
                f"{row.estimate['value']:.1%}",
                f"{row.estimate['lower']:.1%} to {row.estimate['upper']:.1%}",
                f"{_mark(row)} [cyan]{bar}[/cyan]",
            )
    screen.print(shares)


def _mark(row: Row) -> str:
    return "[green]inside[/green] " if row.inside else "[yellow]outside[/yellow]"


def _plain(row: Row) -> dict[str, object]:
    place = {} if row.bucket is None else {"bucket": row.bucket}
    return {
        "round": row.round,
        "metric": row.metric,
        **place,
        "truth": row.truth,
        "inside": row.inside,
        **row.estimate,
    }
