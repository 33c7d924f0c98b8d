"""`reticent rounds`, `reticent estimate` and `reticent export`: what a store or a collector knows."""

from __future__ import annotations

import csv
import io
import math
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from reticent_collector.cli import options
from reticent_collector.cli.output import VerbCommand, as_json, date_and_time, show, table
from reticent_collector.cli.sources import TABLES, Local, checked, opened_source
from reticent_collector.columns import seconds_of
from reticent_collector.counts import ABOUT
from reticent_collector.figures import Unit

if TYPE_CHECKING:
    from rich.table import Table


NO_REPORTS = "Devices send reports to reticent serve; reticent ingest takes them from a file."
LATER = "After its grace a round is sealed, and all its reports are shown if they are enough."


@click.command(cls=VerbCommand, short_help="List the rounds of a store, or seal them.")
@options.source_options
@options.plan_option
@click.option(
    "--last", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="Latest rounds."
)
@click.option("--seal", is_flag=True, help="First seal every round of the store whose grace is over.")
@as_json
def rounds(
    store: str | None,
    url: str | None,
    key: str | None,
    plan: str | None,
    last: int,
    seal: bool,
    as_json: bool,
) -> None:
    """
    List the rounds of a store or a running collector, latest first; with --seal, seal those that are due.

    \b
    Example:
      reticent rounds --store sqlite:///reticent.db --seal
    """
    from reticent_collector.http import seal_due
    from reticent_collector.results import write_results

    if seal and url is not None:
        raise click.UsageError("--seal goes with --store: a running collector seals by itself.")
    sealed = []
    with opened_source(store, url, key) as source:
        plans = source.plans()
        if plan is not None:
            options.check_name("plan", plan, plans)
        if seal and isinstance(source, Local):
            try:
                sealed = seal_due(source.store, time.time())
            finally:  # also when a round is damaged: the others are sealed
                write_results(source.store)
        rows = source.rounds(plan, last)
    listed = table(
        "plan",
        "round",
        "from",
        "to",
        "state",
        "reports",
        rows=[
            (
                row["plan"],
                row["round"],
                date_and_time(row["start"]),
                date_and_time(row["end"]),
                row["state"],
                row.get("reason") or f"{row['reports']:,}",
            )
            for row in rows
        ],
    )
    parts: list[str | Table] = [listed] if rows else ["No rounds yet: no reports have arrived.", NO_REPORTS]
    if seal:
        parts.append(f"{len(sealed)} sealed just now.")
    show(as_json, {"rounds": rows, "sealed": len(sealed)}, *parts)


@click.command(cls=VerbCommand, short_help="Show estimates with their intervals and changes.")
@options.selection_options(default=10, show_default=True)
@options.against_option
@as_json
def estimate(store: str | None, url: str | None, key: str | None, as_json: bool, **selection: Any) -> None:
    """
    Show estimates with their intervals, latest first, and how each changed against the period before.

    They come from a store or from a running collector. Each figure is for a week, unless --every is given, or the
    plan's rounds are longer than a day or shorter than a minute. Provisional figures can still change. What rises or
    falls over all of them is said below: where nothing changed, of no metric in at least 95 of 100 cases.

    \b
    Example:
      reticent estimate --store sqlite:///reticent.db --metric editor_seconds --last 4 --against 4-weeks
      reticent estimate --store sqlite:///reticent.db --since 2026-11-01 --until 2026-12-01
    """
    last_from = click.get_current_context().get_parameter_source("last")
    with opened_source(store, url, key) as source:
        if selection["since"] is not None and last_from is ParameterSource.DEFAULT:
            selection["last"] = None
        asked = checked(source, **selection)
        answer = source.estimates(asked)
        changes = source.changes(asked)
        trends = source.trends(asked)
    whole = {"about": ABOUT, **answer, "changes": changes, "trends": trends}
    withheld = Counter(row["reason"] for row in answer["withheld"])
    if not answer["estimates"]:
        show(as_json, whole, *_why_none(answer["withheld"]))
        return
    shown = _estimates_table(answer["estimates"], changes, asked.confidence)
    left_out = [f"{count:,} withheld: {reason}." for reason, count in withheld.items()]
    show(as_json, whole, shown, *left_out, *trend_lines(trends), *map(str, answer.get("remarks", [])), ABOUT)


def trend_lines(trends: list[dict[str, Any]]) -> list[str]:
    """What rises or falls, in a line each."""
    clear = [trend for trend in trends if trend.get("direction")]
    lines = [f"{_named(trend)} {trend['words']}." for trend in clear]
    return lines or (["No clear trend."] if trends else [])


def _named(trend: dict[str, Any]) -> str:
    """What a trend is of: a metric, a label or bucket of it, and devices."""
    tags = ", ".join(f"{name}:{tag}" for name, tag in trend["segment"].items())
    part = trend.get("label") or (f"bucket {trend['bucket']}" if trend.get("bucket") is not None else "")
    return " ".join(filter(None, [trend["metric"], part, f"({tags})" if tags else ""]))


def _why_none(withheld: list[dict[str, Any]]) -> list[str]:
    """Why there is no estimate, and what to do."""
    if not withheld:
        return ["No estimates: there are no reports for this selection.", NO_REPORTS]
    told = [f"No estimates: {withheld[0]['reason']}."]
    if any(row["state"] == "open" for row in withheld):
        told.append(LATER)
    return told


def _estimates_table(rows: list[dict[str, Any]], changes: list[dict[str, Any]], confidence: float) -> Table:
    """A line for each mean or bucket, with its change."""
    shown = table(
        "metric", "when", "segment", "estimate", f"{confidence:.0%} interval", "change", "reports", ""
    )
    changed: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for change in changes:
        changed.setdefault(_about(change), []).append(change)
    figures = Counter(_about(row) for row in rows)
    for row in rows:
        # Where parameters changed, there are figures of a period for each, of different versions.
        of_versions = (
            change
            for change in changed.get(_about(row), [])
            if not {*row["versions"]}.isdisjoint(change["versions"])
        )
        change = next(of_versions, {})
        changes_of = change.get("buckets", [change])
        notes = [] if row["state"] == "sealed" else ["provisional"]
        if row["rounds_missing"]:
            notes.append(f"{row['rounds']:,} of {row['rounds'] + row['rounds_missing']:,} rounds")
        if figures[_about(row)] > 1:
            notes.append(f"plan version {', '.join(map(str, row['versions']))}")
        for place, number in enumerate(row.get("buckets", [row])):
            estimate, interval = figure_and_interval(row, number)
            shown.add_row(
                row["metric"] + bucket_name(number),
                period_name(row),
                ", ".join(f"{name}:{tag}" for name, tag in row["segment"].items()),
                estimate,
                interval,
                changes_of[place].get("words", "") if change else "",
                f"{number['reports']:,}",
                ", ".join(notes),
            )
    return shown


def bucket_name(number: dict[str, Any]) -> str:
    """Which bucket or label a number is of; nothing for a mean."""
    if "bucket_low" in number:
        return f" [{number['bucket_low']:g}, {number['bucket_high']:g})"
    return f" {number['label']}" if "label" in number else ""


def figure_and_interval(row: dict[str, Any], number: dict[str, Any]) -> tuple[str, str]:
    """A number of an estimate with its half width, and its interval."""
    # JSON has no infinity: null is a number without a bound.
    half_width, lower, upper = (
        math.inf if number[name] is None else number[name] for name in ("half_width", "lower", "upper")
    )
    value = number["value"] or 0.0
    unit = Unit.of(row["unit"] if row["kind"] == "mean" else "", max(abs(value), half_width))
    figure = unit.figure(value, half_width) if number["reports"] else "unknown"
    return figure, " to ".join(unit.ends(lower, upper))


def period_name(row: dict[str, Any]) -> str:
    """A period: 2026-11-02, 2026-11-02 to 2026-11-08, 2026-11, or two times."""
    first, end = (datetime.fromtimestamp(seconds_of(row[name]), UTC) for name in ("start_time", "end_time"))
    if row["every"] == "day":
        return f"{first:%Y-%m-%d}"
    if row["every"] == "month":
        return f"{first:%Y-%m}"
    if row["every"] == "week":
        return f"{first:%Y-%m-%d} to {end - timedelta(days=1):%Y-%m-%d}"
    return f"{first:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"


def _about(row: dict[str, Any]) -> tuple[Any, ...]:
    """What an estimate or change is of."""
    return (*(row[name] for name in ("version", "metric", "start_time")), *sorted(row["segment"].items()))


@click.command(cls=VerbCommand, short_help="Write estimates as a table.")
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--table", "kind", type=click.Choice(["estimates", *TABLES]), default="estimates", show_default=True,
              help="What is written. Rounds take --plan and --last; plans (a row per metric) take --plan.")  # fmt: skip
@options.selection_options()
@options.against_option
@options.baseline_option
@as_json
def export(
    path: Path,
    kind: str,
    store: str | None,
    url: str | None,
    key: str | None,
    as_json: bool,
    **selection: Any,
) -> None:
    """
    Write estimates to FILE as a table: .csv or .parquet. A histogram is a row per bucket. - is CSV on standard
    output. --table writes what compares them, or the rounds or metrics of a plan, as CSV.

    \b
    Example:
      reticent export estimates.csv --store sqlite:///reticent.db --plan app-usage --every week
      reticent export rounds.csv --table rounds --store sqlite:///reticent.db
    """
    to_output = str(path) == "-"
    forms = (".csv", ".parquet") if kind == "estimates" else (".csv",)
    if not to_output and path.suffix not in forms:
        raise click.BadParameter(
            f"expected a name that ends in {' or '.join(forms)}, or -.", param_hint="FILE"
        )
    if to_output and as_json:
        raise click.UsageError("- is CSV on standard output: reticent estimate --json answers in JSON.")
    with opened_source(store, url, key) as source:
        asked = checked(source, **selection)
        if path.suffix == ".parquet":
            arrow = source.arrow(asked)
            from pyarrow import parquet

            parquet.write_table(arrow, path)
            table_rows = [tuple(row.values()) for row in arrow.select(["bucket", "reports"]).to_pylist()]
        else:
            text = source.csv(asked) if kind == "estimates" else source.listing(TABLES[kind], asked)
            if to_output:
                click.echo(text, nl=False)
                return
            path.write_text(text)
            lines = [*csv.DictReader(io.StringIO(text))]
            if kind != "estimates":
                show(
                    as_json,
                    {"file": str(path), "rows": len(lines)},
                    f"{len(lines):,} rows written to {path}.",
                )
                return
            table_rows = [(row["bucket"], row["reports"]) for row in lines]
    # A histogram has a row per bucket, of which the first is counted; what is withheld has no reports.
    written = sum(
        bucket in (None, "", 0, "0") and reports not in (None, "") for bucket, reports in table_rows
    )
    show(as_json, {"file": str(path), "estimates": written}, f"{written} estimates written to {path}.")
