"""`reticent simulate`: a plan on your own data, before it ships."""

from __future__ import annotations

import csv
import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reticent.losses import printed
from reticent.plan import Plan
from reticent_collector.cli import output
from reticent_collector.cli.options import confidence_option, input_file
from reticent_collector.cli.output import VerbCommand, counted, figure, table
from reticent_collector.privacy import CLAIMS
from reticent_lab.cli.values import recorded_values, values_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from reticent_lab.fleet import Population, Recorded
    from reticent_lab.simulate import MetricEstimates, Simulation

FALSE_ALARM = 1e-6
"""How often sound intervals end with exit code 3."""
READING = f"""\
Losses compare {CLAIMS["lifetime"].compares}. A lonely device
shares its pattern with at most one other; flips blur it. See docs/how-to/simulate.md."""
DEVICES = 100_000
ROUNDS = 31
DAY = 86_400
MOST_INDIVIDUALS = 100_000
LONG = 800_000_000
"""
Values that take about a minute on two cores: individuals × rounds × metrics × (repetitions + 1), as drawing values
takes about as long as a repetition.
"""


@click.command(cls=VerbCommand, short_help="Run a plan on values of your own.")
@click.argument("path", metavar="PLAN", type=input_file)
@click.option("--values", "files", multiple=True, metavar="[METRIC=]FILE",
              help="CSV or Parquet of values per individual and day; for all metrics, or one each. - is CSV "
                   "from standard input.")  # fmt: skip
@click.option("--population", "names", multiple=True, metavar="[METRIC=]NAME",
              help="Synthetic values, named above; for all metrics, or one each.")  # fmt: skip
@click.option("--devices", type=click.IntRange(1, 10**12), metavar="N",
              help="Number of devices; the individuals in the file, or 100,000, when left out.")  # fmt: skip
@click.option("--individuals", type=click.IntRange(1, 10**9), metavar="N",
              help="Histories of values that the devices share; all of the file, or as many as devices but at"
                   " most 100,000, and fewer where the run would be long.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 100_000), metavar="N",
              help="Number of rounds; the days in the file, or 31, when left out.")  # fmt: skip
@click.option("--repetitions", type=click.IntRange(1, 100_000), default=20, show_default=True, metavar="N",
              help="The same values with other noise, to see how often intervals hold.")  # fmt: skip
@confidence_option
@click.option("--seed", type=click.IntRange(0, 2**31), metavar="SEED",
              help="Repeat a run; random when left out.")  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Write pictures, CSV and JSON there.")  # fmt: skip
@click.option("--memory", type=click.FloatRange(0.01, 10_000), default=1.0, show_default=True, metavar="GIB",
              help="Refuse a run that needs more than this.")  # fmt: skip
@output.quiet
@output.as_json
def simulate(
    path: Path,
    files: tuple[str, ...],
    names: tuple[str, ...],
    devices: int | None,
    individuals: int | None,
    rounds: int | None,
    repetitions: int,
    confidence: float,
    seed: int | None,
    out: Path | None,
    memory: float,
    quiet: bool,
    as_json: bool,
) -> None:
    """
    Run PLAN on values of your own and show the result: each metric's truth beside its estimate, how often the
    intervals hold, and the privacy loss of the people in the data.

    One day of a file is one round; where days are dates and rounds are longer, the days of a round are added up.
    Reports are counted without simulating each
    device, by the exact law of the SDK's answers: any number of devices takes the same time. A file has the
    columns individual, day, value; or individual, day and one named as each metric, with the labels of a choice as
    text; or one row per individual and a column per day; or one column of values.

    \b
    Populations:
      age-in-days, constant, editor, forza-horizon-4, gran-turismo-sport, the-crew-2, truncated-normal,
      uniform

    \b
    Example:
      reticent simulate examples/plan.toml --population editor --devices 20000 --out simulated
      reticent simulate examples/plan.toml --population editor --devices 1500000000

    Exit code 3 when intervals miss the truth more often than their confidence allows, by more than chance.
    """
    from reticent_lab.crowd import Crowd
    from reticent_lab.fleet import Recorded
    from reticent_lab.simulate import simulate as run

    plan = Plan.load(path)
    output.make_folder(out)
    chosen = secrets.randbelow(2**31) if seed is None else seed
    sources = _sources(plan, files, names)
    recorded = [source for source in sources.values() if isinstance(source, Recorded)]
    people = min((len(recording.individuals) for recording in recorded), default=None)
    length = rounds or min((len(recording.days) for recording in recorded), default=ROUNDS)
    count = devices or individuals or people or DEVICES
    if individuals is None:
        quick = max(1000, LONG // (length * len(plan.metrics) * (repetitions + 1)))
        individuals = min(count, people or min(MOST_INDIVIDUALS, quick))
    crowd = Crowd.drawn(plan, sources, length, individuals, count, chosen)
    with output.progress("Simulating", quiet) as tell:
        simulation = run(plan, crowd, repetitions, chosen, confidence, tell, int(memory * 2**30))
    if out is not None:
        _write(simulation, out)
    if as_json:
        output.print_json(simulation.to_dict())
    else:
        _show(simulation, out)
    held = [*simulation.metrics.values(), *simulation.windows.values()]
    if any(metric.misses_too_often(FALSE_ALARM / len(held)) for metric in held):
        output.found_problems()


def _sources(plan: Plan, files: tuple[str, ...], names: tuple[str, ...]) -> dict[str, Population]:
    """Where the values of each metric come from."""
    from reticent_lab.fleet import population

    by_file = _by_metric(plan, "--values", files)
    by_name = _by_metric(plan, "--population", names)
    _check_sources(plan, by_file, by_name)
    per_day = max(1, DAY // plan.round_seconds)
    days = max(1, plan.round_seconds // DAY)
    recordings = {file: _recordings(plan, file, days) for file in dict.fromkeys(by_file.values())}
    sources: dict[str, Population] = {}
    for name, metric in plan.recorded.items():
        own = name if name in by_file or name in by_name else None
        if own in by_file:
            file, of_file = by_file[own], recordings[by_file[own]]
            if name not in of_file:
                raise click.UsageError(
                    f"--values {file}: expected a column for each metric; missing: {name}. Add it, or"
                    f" --values {name}=FILE or --population {name}=NAME."
                )
            sources[name] = of_file[name]
        else:  # of a choice: its labels
            top = metric.max_value if metric.parts else metric.mechanism.max_value
            sources[name] = population(by_name[own], top, per_day)
    return sources


def _recordings(plan: Plan, file: str, days: int) -> dict[str, Recorded]:
    """The values of each metric in a file: of a table of metrics its own, else one for all."""
    from reticent_lab.fleet import metrics_in, read_values

    path = values_file(file)
    columns = metrics_in(path, list(plan.recorded))
    if columns:
        tables = {name: read_values(path, column=(name, plan.recorded[name])) for name in columns}
    else:
        tables = dict.fromkeys(plan.recorded, recorded_values(path))
    if plan.round_seconds >= DAY:
        for table in tables.values():
            table.check_days()
    return {name: table.in_rounds(days) for name, table in tables.items()}


def _check_sources(plan: Plan, by_file: dict[str | None, str], by_name: dict[str | None, str]) -> None:
    """Raise `UsageError` unless each metric has one source."""
    if (not by_file and not by_name) or (None in by_file and None in by_name):
        raise click.UsageError(
            "Give either --values FILE, or --population NAME, for the metrics without their own."
        )
    both = [name for name in plan.recorded if name in by_file and name in by_name]
    if both:
        raise click.UsageError(f"{both[0]}: give either --values or --population, not both.")
    missing = [name for name in plan.recorded if not {name, None} & {*by_file, *by_name}]
    if missing:
        raise click.UsageError(
            f"No values for {', '.join(missing)}: add --values {missing[0]}=FILE or --population {missing[0]}=NAME."
        )


def _by_metric(plan: Plan, option: str, given: tuple[str, ...]) -> dict[str | None, str]:
    """The source of each metric, and under None that of the others."""
    named: dict[str | None, str] = {}
    for text in given:
        metric, equals, source = text.partition("=")
        key = metric if equals and metric in plan.recorded else None
        if key is None:
            if equals and not Path(text).exists():
                raise click.UsageError(
                    f"{option} {text}: no metric {metric}; there are {', '.join(plan.recorded)}."
                )
            source = text
        if key in named:
            hint = (
                "the metric has one already" if key else f"give the metric as well: {option} METRIC={source}"
            )
            raise click.UsageError(f"{option} {text}: {hint}.")
        named[key] = source
    return named


def _show(simulation: Simulation, out: Path | None) -> None:
    screen = output.console()
    card = simulation.card
    rounds, repetitions = counted(simulation.rounds, "round"), counted(simulation.repetitions, "repetition")
    sizes = f"{simulation.devices:,} devices, {rounds}, {repetitions}"
    title = f"{simulation.plan.name}: {sizes}, seed {simulation.seed}"
    screen.print(_accuracy("over all rounds", title, simulation.metrics))
    if simulation.windows:
        screen.print(_accuracy("over all windows", "The rounds of a window together", simulation.windows))
    promised = next(iter(simulation.metrics.values())).confidence
    screen.print(f"Confidence: at least {promised:.1%}, of a histogram for all buckets at once.\n")
    if simulation.people:
        columns = ("never change", "lonely", "widest", "constant loss", "mean loss", "largest loss")
        lost = table("over these rounds", *columns, title="Privacy loss of the people in the data")
        for name, people in simulation.people.items():
            losses = people.constant_loss, people.mean_loss, max(people.loss_by_width.values())
            shares = people.supports.share_constant, people.supports.share_lonely
            lost.add_row(
                name,
                *(f"{share:.1%}" for share in shares),
                str(max(people.share_by_width)),
                *map(printed, losses),
            )
        screen.print(lost)
        screen.print(READING)
    else:
        screen.print(
            f"Between any two histories a window loses {printed(card.window or 0)} at most;"
            f" {rounds} touch up to {counted(card.windows or 0, 'window')}: {printed(card.any_history)}."
        )
    if simulation.individuals < simulation.devices:
        screen.print(
            f"Each of {counted(simulation.individuals, 'individual')} stands for about"
            f" {simulation.devices / simulation.individuals:,.0f} devices, which share its values. Intervals and"
            " errors are those of all devices."
        )
        if simulation.people:
            screen.print(
                "Losses and lonely devices are counted over one device per individual: so few histories do not show"
                " how many of all devices are lonely."
            )
    for name, kept in simulation.kept.items():
        # A choice, a flag and a histogram have no total: what is above their range is in the last bucket.
        if kept < 0.9995 and simulation.plan.by_name[name].kind == "mean":
            screen.print(
                f"{name}: {1 - kept:.1%} of the total is above its range or a joint limit, and is clipped."
            )
    if out is not None:
        other = "windows.csv" if simulation.windows else "people.csv"
        click.echo(f"\nPictures, rounds.csv, {other} and results.json are in {out}.")
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


def _write(simulation: Simulation, out: Path) -> None:
    from reticent_collector.plots import save
    from reticent_lab.simulate.pictures import pictures

    (out / "results.json").write_text(json.dumps(simulation.to_dict(), indent=1) + "\n")
    tables = {"rounds.csv": [row for metric in simulation.metrics.values() for row in metric.rows()]}
    if simulation.windows:
        tables["windows.csv"] = [row for metric in simulation.windows.values() for row in metric.rows()]
    else:
        tables["people.csv"] = [
            {"metric": name, "width": width, "share": share, "loss": people.loss_by_width[width]}
            for name, people in simulation.people.items()
            for width, share in people.share_by_width.items()
        ]
    for name, rows in tables.items():
        with (out / name).open("w", newline="", encoding="utf-8") as text:
            writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)), restval="")
            writer.writeheader()
            writer.writerows(rows)
    for name, draw in pictures(simulation).items():
        save(draw(), out, name)
