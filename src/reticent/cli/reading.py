"""`reticent rounds`, `reticent estimate` and `reticent export`: what a store or a file of counts knows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from reticent.cli.options import (
    by_option,
    confidence_option,
    counts_option,
    either_store_option,
    last_option,
    metric_option,
    near_names,
    opened_store,
    plan_option,
    segment_option,
    store_option,
)
from reticent.cli.output import as_json, console, figure, print_json, table
from reticent.errors import ParameterError, ReticentError

if TYPE_CHECKING:
    from reticent.results import Result, Results


@click.command(short_help="List the rounds of a store, or seal them.")
@store_option
@plan_option
@last_option
@click.option("--seal", is_flag=True, help="First seal every round whose grace is over.")
@as_json
def rounds(store: str, plan: str | None, last: int, seal: bool, as_json: bool) -> None:
    """
    List the rounds of a store, latest first; with --seal, seal those that are due.

    \b
    Example:
      reticent rounds --store sqlite:///reticent.db --seal
    """
    from reticent.collector import seal_due
    from reticent.results import Results

    with opened_store(store) as opened:
        reader = Results(opened)
        names = list(reader.plans())
        if plan is not None and plan not in names:
            with near_names(plan=names):
                raise ParameterError("plan", "a plan of this store", plan)
        sealed = seal_due(opened, time.time()) if seal else []
        found = reader.rounds(plan, last)
    if as_json:
        print_json({"rounds": found, "sealed": len(sealed)})
        return
    _show_rounds(found)
    if seal:
        click.echo(f"{len(sealed)} sealed just now.")


def _show_rounds(found: list[dict[str, Any]]) -> None:
    if not found:
        click.echo("No rounds yet: no report has come in.")
        return
    shown = table("plan", "round", "from", "to", "state", "reports")
    for each in found:
        shown.add_row(
            each["plan"], str(each["round"]), _time(each["start"]), _time(each["end"]), each["state"],
            f"{each['reports']:,}",
        )  # fmt: skip
    console().print(shown)


@click.command()
@either_store_option
@counts_option
@plan_option
@metric_option
@last_option
@segment_option
@by_option
@confidence_option
@as_json
def estimate(store: str | None, counts: Path | None, as_json: bool, **asked: Any) -> None:
    """
    Show estimates with their intervals, latest round first. Open rounds are provisional.

    They come from a store, or from the counts that reticent count wrote to a file.

    \b
    Example:
      reticent estimate --store sqlite:///reticent.db --metric editor_seconds --last 4
      reticent estimate --counts counts.parquet --by os
    """
    found = _found(store, counts, **asked)
    if as_json:
        print_json({"estimates": [each.to_dict() for each in found]})
        return
    if not found:
        click.echo("No estimates: no report has come in for what was asked.")
        return
    interval = f"{asked['confidence']:.0%} interval"
    shown = table("metric", "round", "from", "segment", "estimate", interval, "reports", "")
    for each in found:
        for row in _rows(each):
            shown.add_row(*row)
    console().print(shown)


def _rows(found: Result) -> Iterator[tuple[str, ...]]:
    for number in getattr(found.estimate, "buckets", [found.estimate]):
        place = "" if number.edges is None else f" [{number.edges[0]:g}, {number.edges[1]:g})"
        yield (
            found.metric.name + place,
            str(found.round),
            _time(found.start),
            ", ".join(f"{name}:{tag}" for name, tag in found.segment.items()),
            f"{figure(number.value)} ± {figure(number.half_width)}",
            f"{figure(number.lower)} to {figure(number.upper)}",
            f"{number.reports:,}",
            "" if found.state == "sealed" else "provisional",
        )


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@either_store_option
@counts_option
@plan_option
@metric_option
@click.option("--last", type=click.IntRange(1), metavar="N", help="Latest rounds; all when left out.")
@segment_option
@by_option
@confidence_option
@as_json
def export(path: Path, store: str | None, counts: Path | None, as_json: bool, **asked: Any) -> None:
    """
    Write estimates to FILE as a table: .csv or .parquet. A histogram is a row per bucket.

    \b
    Example:
      reticent export estimates.csv --store sqlite:///reticent.db --plan app-usage
    """
    from reticent.estimates import estimates_to_frame
    from reticent.estimates.table import csv_text

    if path.suffix not in (".csv", ".parquet"):
        raise click.BadParameter("expected a name that ends in .csv or .parquet.", param_hint="FILE")
    found = _found(store, counts, **asked)
    if path.suffix == ".csv":
        path.write_text(csv_text(found))
    else:
        arrow = estimates_to_frame(found)
        from pyarrow import parquet

        parquet.write_table(arrow, path)
    if as_json:
        print_json({"file": str(path), "estimates": len(found)})
    else:
        click.echo(f"{len(found)} estimates written to {path}.")


def _found(store: str | None, counts: Path | None, **asked: Any) -> list[Result]:
    with _reader(store, counts) as reader:
        plans = reader.plans()
        plan = asked.pop("plan") or _only_plan(list(plans))
        segments = [each.name for each in plans[plan].segments] if plan in plans else []
        metrics = list(plans[plan].by_name) if plan in plans else []
        with near_names(plan=list(plans), metric=metrics, segment=segments, by=segments):
            return reader.estimates(plan, **asked)


@contextmanager
def _reader(store: str | None, counts: Path | None) -> Iterator[Results]:
    """What reads the store, or the file: the file, when the store is only a variable of the environment."""
    from reticent.results import Results

    source = click.get_current_context().get_parameter_source("store")
    if counts is not None and source is ParameterSource.COMMANDLINE:
        raise click.UsageError("Give either --store URL or --counts COUNTS.")
    if counts is not None:
        from reticent.frames import read_counts

        yield Results(read_counts(counts))
    elif store is not None:
        with opened_store(store) as opened:
            yield Results(opened)
    else:
        raise click.UsageError("Give --store URL, or --counts COUNTS.")


def _only_plan(names: list[str]) -> str:
    if len(names) > 1:
        raise ReticentError(f"plan: expected one of {', '.join(names)}, got none.\n  Hint: --plan {names[0]}")
    if not names:
        raise ReticentError("no plan is known here yet.\n  Hint: reticent serve PLAN takes it up")
    return names[0]


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
