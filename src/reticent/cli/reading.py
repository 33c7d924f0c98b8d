"""`reticent rounds`, `reticent estimate` and `reticent export`: what a store or a file of counts knows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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
    period_option,
    plan_option,
    segment_option,
    store_option,
)
from reticent.cli.output import as_json, console, date_and_time, figure, print_json, table
from reticent.errors import ParameterError, ReticentError

if TYPE_CHECKING:
    from reticent.results import Estimates, Results


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
        results = Results(opened)
        names = list(results.plans())
        if plan is not None and plan not in names:
            with near_names(plan=names):
                raise ParameterError("plan", "a plan of this store", plan)
        sealed = seal_due(opened, time.time()) if seal else []
        rows = results.rounds(plan, last)
    if as_json:
        print_json({"rounds": rows, "sealed": len(sealed)})
        return
    if rows:
        shown = table("plan", "round", "from", "to", "state", "reports")
        for row in rows:
            shown.add_row(
                row["plan"], str(row["round"]), date_and_time(row["start"]), date_and_time(row["end"]),
                row["state"], row.get("reason") or f"{row['reports']:,}",
            )  # fmt: skip
        console().print(shown)
    else:
        click.echo("No rounds yet: no report has come in.")
    if seal:
        click.echo(f"{len(sealed)} sealed just now.")


@click.command()
@either_store_option
@counts_option
@plan_option
@metric_option
@period_option
@last_option
@segment_option
@by_option
@confidence_option
@as_json
def estimate(store: str | None, counts: Path | None, as_json: bool, **asked: Any) -> None:
    """
    Show estimates with their intervals, latest first. Those of open rounds are provisional.

    They come from a store, or from the counts that reticent count wrote to a file. A figure is of a round, or of
    a window where answers are sampled.

    \b
    Example:
      reticent estimate --store sqlite:///reticent.db --metric editor_seconds --last 4
      reticent estimate --counts counts.parquet --by os
    """
    results = _estimates(store, counts, **asked)
    if as_json:
        print_json(results.to_dict())
        return
    if not results:
        reason = (
            results.withheld[0].reason if results.withheld else "no report has come in for what was asked"
        )
        click.echo(f"No estimates: {reason}.")
        return
    interval = f"{asked['confidence']:.0%} interval"
    shown = table("metric", "round", "from", "to", "segment", "estimate", interval, "reports", "")
    for result in results:
        for number in getattr(result.estimate, "buckets", [result.estimate]):
            place = "" if number.edges is None else f" [{number.edges[0]:g}, {number.edges[1]:g})"
            place = f" {number.label}" if number.label else place
            shown.add_row(
                result.metric.name + place,
                str(result.round) if result.round == result.to else f"{result.round}-{result.to}",
                date_and_time(result.start),
                date_and_time(result.end),
                ", ".join(f"{name}:{tag}" for name, tag in result.segment.items()),
                f"{figure(number.value)} ± {figure(number.half_width)}" if number.reports else "unknown",
                f"{figure(number.lower)} to {figure(number.upper)}",
                f"{number.reports:,}",
                "" if result.state == "sealed" else "provisional",
            )
    console().print(shown)
    for reason, number in Counter(one.reason for one in results.withheld).items():
        click.echo(f"{number:,} withheld: {reason}.")


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@either_store_option
@counts_option
@plan_option
@metric_option
@period_option
@click.option(
    "--last", type=click.IntRange(1), metavar="N", help="Latest rounds or windows; all when left out."
)
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
    from reticent.estimates import csv_text, estimates_to_frame

    if path.suffix not in (".csv", ".parquet"):
        raise click.BadParameter("expected a name that ends in .csv or .parquet.", param_hint="FILE")
    results = _estimates(store, counts, **asked)
    if path.suffix == ".csv":
        path.write_text(csv_text(results.rows))
    else:
        arrow = estimates_to_frame(results.rows)
        from pyarrow import parquet

        parquet.write_table(arrow, path)
    if as_json:
        print_json({"file": str(path), "estimates": len(results)})
    else:
        click.echo(f"{len(results)} estimates written to {path}.")


def _estimates(store: str | None, counts: Path | None, **asked: Any) -> Estimates:
    with _results(store, counts) as results:
        plans = results.plans()
        plan = asked.pop("plan")
        if plan is None and len(plans) > 1:
            first = next(iter(plans))
            raise ReticentError(
                f"plan: expected one of {', '.join(plans)}, got none.\n  Hint: --plan {first}"
            )
        if plan is None and not plans:
            raise ReticentError("no plan is known here yet.\n  Hint: reticent serve PLAN takes it up")
        plan = plan or next(iter(plans))
        segments = [segment.name for segment in plans[plan].segments] if plan in plans else []
        metrics = list(plans[plan].by_name) if plan in plans else []
        with near_names(plan=list(plans), metric=metrics, segment=segments, by=segments):
            return results.estimates(plan, **asked)


@contextmanager
def _results(store: str | None, counts: Path | None) -> Iterator[Results]:
    """Of the store, or of the file: the file, when the store is only a variable of the environment."""
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
