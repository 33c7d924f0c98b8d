"""`reticent simulate`: a plan on your own data, before it ships."""

from __future__ import annotations

import csv
import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reticent.cli.options import confidence_option
from reticent.cli.output import (
    as_json,
    console,
    counted,
    figure,
    found_problems,
    make_folder,
    plan_file,
    print_json,
    progress,
    table,
)
from reticent.plan import Plan
from reticent.privacy import CLAIMS, printed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from rich.table import Table

    from reticent.lab.simulate import MetricEstimates, Simulation

FALSE_ALARM = 1e-6
"""How often sound intervals end with exit code 3."""
READING = f"""\
Losses compare {CLAIMS["lifetime"].compares}. A lonely device
shares its pattern with at most one other; flips blur it. docs/how-to/simulate.md says how to read this."""

DEVICES, ROUNDS = 100_000, 31
DAY = 86_400


@click.command(short_help="Run a plan on values of your own.")
@click.argument("path", metavar="PLAN", type=plan_file)
@click.option("--values", "files", multiple=True, metavar="[METRIC=]FILE",
              help="CSV or Parquet with individual, day, value; for all metrics, or one each.")  # fmt: skip
@click.option("--population", "name", metavar="NAME", help="Made-up values instead; named above.")
@click.option("--devices", type=click.IntRange(1, 100_000_000), metavar="N",
              help="As many as there are individuals in the file, or 100,000.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 100_000), metavar="N",
              help="As many as there are days in the file, or 31.")  # fmt: skip
@click.option("--repetitions", type=click.IntRange(1, 100_000), default=20, show_default=True, metavar="N",
              help="The same values with other chance, to see how often intervals hold.")  # fmt: skip
@confidence_option
@click.option("--seed", type=click.IntRange(0, 2**31), metavar="SEED",
              help="Repeat a run; drawn anew when left out.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Write pictures, CSV and JSON there.")  # fmt: skip
@as_json
def simulate(
    path: Path,
    files: tuple[str, ...],
    name: str | None,
    devices: int | None,
    rounds: int | None,
    repetitions: int,
    confidence: float,
    seed: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """
    Run PLAN on values of your own and show what it would have told: each metric's truth beside its
    estimate, how often the intervals hold, and what the people in the data would have given away.

    One day of a file is one round, whatever the plan's rounds are. Devices answer as the SDK does, bit for
    bit.

    \b
    Populations:
      age-in-days, constant, editor, forza-horizon-4, gran-turismo-sport, the-crew-2, truncated-normal,
      uniform

    \b
    Example:
      reticent simulate examples/plan.toml --population editor --devices 20000 --out simulated

    Exit code 3 when intervals miss the truth more often than they promise, by more than chance allows.
    """
    from reticent.lab.simulate import simulate as run

    plan = Plan.load(path)
    make_folder(out)
    chosen = secrets.randbelow(2**31) if seed is None else seed
    values = _values(plan, files, name, devices, rounds, chosen)
    with progress("Simulating", as_json) as tell:
        simulation = run(plan, values, repetitions, chosen, confidence, tell)
    if out is not None:
        _write(simulation, out)
    if as_json:
        print_json(simulation.to_dict())
    else:
        _show(simulation, out)
    held = [*simulation.metrics.values(), *simulation.windows.values()]
    if any(metric.misses_too_often(FALSE_ALARM / len(held)) for metric in held):
        found_problems()


def _values(
    plan: Plan, files: tuple[str, ...], name: str | None, devices: int | None, rounds: int | None, seed: int
) -> dict[str, Any]:
    """A table of values per metric."""
    import numpy as np

    from reticent.lab.fleet import Population, Recorded, population, read_values, taken_by

    if bool(files) == bool(name):
        raise click.UsageError("Give either --values FILE, or --population NAME.")
    sources: dict[str, Population] = {}
    if name is not None:
        per_day = max(1, DAY // plan.round_seconds)
        sources = {
            metric.name: population(name, metric.mechanism.max_value, per_day)  # of a choice: its labels
            for metric in plan.metrics
        }
    else:
        by_metric = _by_metric(plan, files)
        by_file = {file: read_values(file) for file in dict.fromkeys(by_metric.values())}
        sources = {metric: by_file[file] for metric, file in by_metric.items()}
    recorded = [source for source in sources.values() if isinstance(source, Recorded)]
    count = devices or min((len(recording.individuals) for recording in recorded), default=DEVICES)
    length = rounds or min((len(recording.days) for recording in recorded), default=ROUNDS)
    # Metrics of one file keep each individual together: all of them draw alike.
    return {
        metric: taken_by(
            plan.by_name[metric],
            source.values(count, length, np.random.default_rng([seed, 0 if recorded else place])),
        )
        for place, (metric, source) in enumerate(sources.items())
    }


def _by_metric(plan: Plan, files: tuple[str, ...]) -> dict[str, str]:
    """The file of each metric."""
    named: dict[str, str] = {}
    rest: list[str] = []
    for option in files:
        metric, equals, file = option.partition("=")
        if equals and metric in plan.by_name:
            named[metric] = file
        elif equals and not Path(option).exists():
            raise click.UsageError(
                f"--values {option}: no metric {metric}; there are {', '.join(plan.by_name)}."
            )
        else:
            rest.append(option)
    missing = [name for name in plan.by_name if name not in named]
    if len(rest) > 1:
        raise click.UsageError(f"--values {rest[1]}: say for which metric: --values {missing[0]}={rest[1]}")
    if missing and not rest:
        raise click.UsageError(f"No values for {', '.join(missing)}: add --values {missing[0]}=FILE.")
    return {name: named.get(name) or rest[0] for name in plan.by_name}


def _show(simulation: Simulation, out: Path | None) -> None:
    screen = console()
    sizes = (
        f"{simulation.devices:,} devices, {counted(simulation.rounds, 'round')},"
        f" {counted(simulation.repetitions, 'repetition')}"
    )
    title = f"{simulation.plan.name}: {sizes}, seed {simulation.seed}"
    screen.print(_accuracy("over all rounds", title, simulation.metrics))
    if simulation.windows:
        screen.print(_accuracy("over all windows", "The rounds of a window together", simulation.windows))
    promised = next(iter(simulation.metrics.values())).confidence
    screen.print(f"Promised: at least {promised:.1%}, of a histogram for all buckets at once.\n")
    if simulation.people:
        _show_people(simulation, screen)
    else:
        card = simulation.card
        screen.print(
            f"Between any two histories a window loses {printed(card.window or 0)} at most;"
            f" {counted(simulation.rounds, 'round')} touch up to {counted(card.windows or 0, 'window')}:"
            f" {printed(card.any_history)}."
        )
    for name, kept in simulation.kept.items():
        if kept < 0.9995:
            screen.print(
                f"{name}: {1 - kept:.1%} of all that was counted is above its range or a joint limit: cut."
            )
    if out is not None:
        other = "windows.csv" if simulation.windows else "people.csv"
        screen.print(f"\nPictures, rounds.csv, {other} and results.json are in {out}.")
    else:
        screen.print("\nAdd --out DIR for pictures and every round.")


def _accuracy(over: str, title: str, metrics: Mapping[str, MetricEstimates]) -> Table:
    """Each metric's estimates beside the truth."""
    accuracy = table(over, "truth", "estimate", "error", "half-width", "covered", title=title)
    for name, metric in metrics.items():
        low, high = metric.coverage_interval
        mean = metric.truth.shape[1] == 1
        accuracy.add_row(
            name if mean else f"{name}, {metric.truth.shape[1]} buckets",
            figure(float(metric.truth.mean())) if mean else "",
            figure(float(metric.value[0].mean())) if mean else "",
            figure(float(metric.absolute_error.mean())),
            f"±{figure(float(metric.half_width.mean()))}",
            f"{metric.inside.mean():.1%} ({low:.1%} to {high:.1%})",
        )
    return accuracy


def _show_people(simulation: Simulation, screen: Console) -> None:
    columns = ("never change", "lonely", "widest", "constant loss", "mean loss", "largest loss")
    lost = table("over these rounds", *columns, title="What the people in the data give away")
    for name, people in simulation.people.items():
        lost.add_row(
            name,
            f"{people.supports.share_constant:.1%}",
            f"{people.supports.share_lonely:.1%}",
            str(max(people.share_by_width)),
            printed(people.constant_loss),
            printed(people.mean_loss),
            printed(max(people.loss_by_width.values())),
        )
    screen.print(lost)
    screen.print(READING)


def _write(simulation: Simulation, out: Path) -> None:
    from reticent.lab.simulate import pictures
    from reticent.plots import save

    (out / "results.json").write_text(json.dumps(simulation.to_dict(), indent=1) + "\n")
    _write_csv(out / "rounds.csv", [row for metric in simulation.metrics.values() for row in metric.rows()])
    if simulation.windows:
        _write_csv(
            out / "windows.csv", [row for metric in simulation.windows.values() for row in metric.rows()]
        )
    else:
        _write_csv(
            out / "people.csv",
            [
                {"metric": name, "width": width, "share": share, "loss": people.loss_by_width[width]}
                for name, people in simulation.people.items()
                for width, share in people.share_by_width.items()
            ],
        )
    for name, draw in pictures(simulation).items():
        save(draw(), out, name)


def _write_csv(file: Path, rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with file.open("w", newline="", encoding="utf-8") as text:
        writer = csv.DictWriter(text, names, restval="")
        writer.writeheader()
        writer.writerows(rows)
