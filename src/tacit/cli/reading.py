"""`tacit rounds`, `tacit estimate` and `tacit export`: what a store knows."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from tacit.cli.options import opened_store, store_option
from tacit.cli.output import as_json, console, figure, print_json, table
from tacit.errors import TacitError

plan_option = click.option("--plan", help="Of this plan only.")
last_option = click.option(
    "--last", type=click.IntRange(1), default=10, show_default=True, help="Latest rounds."
)


@click.command()
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
      tacit rounds --store sqlite:///tacit.db --seal
    """
    from tacit.collector.reading import Reader
    from tacit.collector.sealing import seal_due

    with opened_store(store) as opened:
        sealed = seal_due(opened, time.time()) if seal else []
        found = Reader(opened).rounds(plan, last)
    if as_json:
        print_json({"rounds": found, "sealed": len(sealed)})
        return
    shown = table("plan", "round", "from", "to", "state", "reports")
    for each in found:
        shown.add_row(
            each["plan"], str(each["round"]), _time(each["start"]), _time(each["end"]), each["state"],
            f"{each['reports']:,}",
        )  # fmt: skip
    console().print(shown)
    if seal:
        console().print(f"{len(sealed)} sealed just now.")


def _found(store: str, **asked: Any) -> Any:
    from tacit.collector.reading import Reader

    with opened_store(store) as opened:
        reader = Reader(opened)
        plan = asked.pop("plan") or _only_plan(list(reader.plans()))
        return reader.estimates(plan, **asked)


def _only_plan(names: list[str]) -> str:
    if len(names) != 1:
        raise TacitError(f"name a plan with --plan; this store has {', '.join(names) or 'none'}.")
    return names[0]


def _segment(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    if not all(":" in pair for pair in pairs):
        raise click.BadParameter("expected NAME:TAG")
    return dict(pair.split(":", 1) for pair in pairs)


segment_option = click.option("--segment", multiple=True, callback=_segment, metavar="NAME:TAG",
                              help="Devices with this tag only.")  # fmt: skip


@click.command()
@store_option
@plan_option
@click.option("--metric", help="This metric only.")
@last_option
@segment_option
@click.option("--by", metavar="NAME", help="Estimate the tags of this segment apart.")
@click.option(
    "--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95, show_default=True
)
@as_json
def estimate(
    store: str,
    plan: str | None,
    metric: str | None,
    last: int,
    segment: dict[str, str],
    by: str | None,
    confidence: float,
    as_json: bool,
) -> None:
    """
    Show estimates with their intervals, latest round first. Open rounds are provisional.

    \b
    Example:
      tacit estimate --store sqlite:///tacit.db --metric editor_seconds --last 4
    """
    found = _found(store, plan=plan, metric=metric, last=last, segment=segment, by=by, confidence=confidence)
    if as_json:
        print_json({"estimates": [each.to_dict() for each in found]})
        return
    shown = table(
        "metric", "round", "from", "segment", "estimate", f"{confidence:.0%} interval", "reports", ""
    )
    for each in found:
        for number in getattr(each.estimate, "buckets", [each.estimate]):
            place = "" if number.edges is None else f" [{number.edges[0]:g}, {number.edges[1]:g})"
            shown.add_row(
                each.metric.name + place,
                str(each.round),
                _time(each.start),
                ", ".join(f"{name}:{tag}" for name, tag in each.segment.items()),
                f"{figure(number.value)} ± {figure(number.half_width)}",
                f"{figure(number.lower)} to {figure(number.upper)}",
                f"{number.reports:,}",
                "" if each.state == "sealed" else "provisional",
            )
    console().print(shown)


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@store_option
@plan_option
@click.option("--metric", help="This metric only.")
@click.option("--last", type=click.IntRange(1), help="Latest rounds; all when left out.")
@segment_option
@click.option("--by", metavar="NAME", help="Estimate the tags of this segment apart.")
@click.option(
    "--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95, show_default=True
)
@as_json
def export(
    path: Path,
    store: str,
    plan: str | None,
    metric: str | None,
    last: int | None,
    segment: dict[str, str],
    by: str | None,
    confidence: float,
    as_json: bool,
) -> None:
    """
    Write estimates to FILE as a table: .csv or .parquet. A histogram is a row per bucket.

    \b
    Example:
      tacit export estimates.csv --store sqlite:///tacit.db --plan app-usage
    """
    from tacit.collector.formats import arrow_table, csv_text

    if path.suffix not in (".csv", ".parquet"):
        raise click.BadParameter("expected a name that ends in .csv or .parquet", param_hint="FILE")
    found = _found(store, plan=plan, metric=metric, last=last, segment=segment, by=by, confidence=confidence)
    if path.suffix == ".csv":
        path.write_text(csv_text(found))
    else:
        arrow = arrow_table(found)
        from pyarrow import parquet

        parquet.write_table(arrow, path)
    if as_json:
        print_json({"file": str(path), "estimates": len(found)})
    else:
        click.echo(f"{len(found)} estimates written to {path}.")


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
