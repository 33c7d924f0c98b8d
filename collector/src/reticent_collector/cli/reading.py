"""`reticent rounds`, `reticent estimate` and `reticent export`: what a store or a collector knows."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from reticent.errors import ReticentError
from reticent_collector.cli import options
from reticent_collector.cli.output import VerbCommand, as_json, date_and_time, show, table
from reticent_collector.columns import seconds_of
from reticent_collector.counts import ABOUT
from reticent_collector.figures import Unit

if TYPE_CHECKING:
    import asyncio

    from rich.table import Table

    from reticent.plan import Plan
    from reticent_collector.http import Client
    from reticent_collector.stores import Store

MOST_ROUNDS = 10_000
"""As many as a collector shows at once."""
SHOWN = {
    "rounds": {"plan", "round", "start", "end", "state", "reports"},
    "estimates": {"version", "metric", "kind", "unit", "every", "start_time", "end_time", "segment", "state", "rounds",
                  "rounds_missing"},
    "changes": {"version", "metric", "start_time", "segment"},
    "withheld": {"state", "reason"},
}  # fmt: skip
"""What is shown of each object in a collector's answers; an older collector may lack some of it."""
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
    with _source(store, url, key) as source:
        plans = source.plans()
        if plan is not None:
            options.check_name("plan", plan, plans)
        if seal and isinstance(source, _Local):
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
@as_json
def estimate(store: str | None, url: str | None, key: str | None, as_json: bool, **selection: Any) -> None:
    """
    Show estimates with their intervals, latest first, and how each changed against the period before.

    They come from a store or from a running collector. Each figure is for a day, unless --every is given, or the
    plan's rounds are longer than a day or shorter than a minute. Provisional figures can still change.

    \b
    Example:
      reticent estimate --store sqlite:///reticent.db --metric editor_seconds --every week --last 4
      reticent estimate --store sqlite:///reticent.db --since 2026-11-01 --until 2026-12-01
    """
    last_from = click.get_current_context().get_parameter_source("last")
    with _source(store, url, key) as source:
        if selection["since"] is not None and last_from is ParameterSource.DEFAULT:
            selection["last"] = None
        selection = _checked(source, **selection)
        answer, changes = source.estimates(**selection), source.changes(**selection)
    whole = {"about": ABOUT, **answer, "changes": changes}
    rows, withheld = answer["estimates"], Counter(row["reason"] for row in answer["withheld"])
    if not rows:
        reason = next(iter(withheld), "there are no reports for this selection")
        advice = []
        if not withheld:
            advice.append(NO_REPORTS)
        elif any(row["state"] == "open" for row in answer["withheld"]):
            advice.append(LATER)
        show(as_json, whole, f"No estimates: {reason}.", *advice)
        return
    interval = f"{selection['confidence']:.0%} interval"
    shown = table("metric", "when", "segment", "estimate", interval, "change", "reports", "")
    changed = {_about(change): change for change in changes}
    for row in rows:
        change = changed.get(_about(row), {})
        changes_of = change.get("buckets", [change])
        notes = [] if row["state"] == "sealed" else ["provisional"]
        if row["rounds_missing"]:
            notes.append(f"{row['rounds']:,} of {row['rounds'] + row['rounds_missing']:,} rounds")
        for place_of, number in enumerate(row.get("buckets", [row])):
            place = f" {number['label']}" if "label" in number else ""
            if "bucket_low" in number:
                place = f" [{number['bucket_low']:g}, {number['bucket_high']:g})"
            # JSON has no infinity: null is a number without a bound.
            half_width, lower, upper = (
                math.inf if number[name] is None else number[name]
                for name in ("half_width", "lower", "upper")
            )
            value = number["value"] or 0.0
            unit = Unit.of(row["unit"] if row["kind"] == "mean" else "", max(abs(value), half_width))
            shown.add_row(
                row["metric"] + place,
                _when(row),
                ", ".join(f"{name}:{tag}" for name, tag in row["segment"].items()),
                unit.figure(value, half_width) if number["reports"] else "unknown",
                " to ".join(unit.ends(lower, upper)),
                changes_of[place_of].get("words", "") if change else "",
                f"{number['reports']:,}",
                ", ".join(notes),
            )
    left_out = [f"{count:,} withheld: {reason}." for reason, count in withheld.items()]
    show(as_json, whole, shown, *left_out, ABOUT)


def _when(row: dict[str, Any]) -> str:
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
@options.selection_options()
@as_json
def export(
    path: Path, store: str | None, url: str | None, key: str | None, as_json: bool, **selection: Any
) -> None:
    """
    Write estimates to FILE as a table: .csv or .parquet. A histogram is a row per bucket. - is CSV on standard
    output.

    \b
    Example:
      reticent export estimates.csv --store sqlite:///reticent.db --plan app-usage --every week
    """
    to_output = str(path) == "-"
    if not to_output and path.suffix not in (".csv", ".parquet"):
        raise click.BadParameter("expected a name that ends in .csv or .parquet, or -.", param_hint="FILE")
    if to_output and as_json:
        raise click.UsageError("- is CSV on standard output: reticent estimate --json answers in JSON.")
    with _source(store, url, key) as source:
        selection = _checked(source, **selection)
        if to_output:
            click.echo(source.csv(**selection), nl=False)
            return
        if path.suffix == ".csv":
            text = source.csv(**selection)
            path.write_text(text)
            table_rows = [(row["bucket"], row["reports"]) for row in csv.DictReader(io.StringIO(text))]
        else:
            arrow = source.arrow(**selection)
            from pyarrow import parquet

            parquet.write_table(arrow, path)
            table_rows = [tuple(row.values()) for row in arrow.select(["bucket", "reports"]).to_pylist()]
    # A histogram has a row per bucket, of which the first is counted; what is withheld has no reports.
    written = sum(
        bucket in (None, "", 0, "0") and reports not in (None, "") for bucket, reports in table_rows
    )
    show(as_json, {"file": str(path), "estimates": written}, f"{written} estimates written to {path}.")


def _checked(source: _Local | _Remote, plan: str | None, **selection: Any) -> dict[str, Any]:
    """The selection, with the plan if there is one only; raises `ReticentError` for unknown names."""
    from reticent_collector.results import Results

    since, until = selection["since"], selection["until"]
    if since is not None and until is not None and until <= since:
        raise ReticentError("--until: expected a time after --since.")
    plans = source.plans()
    options.check_name("plan", plan, plans)
    if plan is None and len(plans) > 1:
        raise ReticentError(
            f"plan: expected one of {', '.join(plans)}, got none.\n  Hint: --plan {next(iter(plans))}"
        )
    chosen = plans[plan or next(iter(plans))]
    segments = [segment.name for segment in chosen.segments]
    options.check_name("metric", selection["metric"], chosen.by_name)
    options.check_name("by", selection["by"], segments)
    for name in selection["segment"]:
        options.check_name("segment", name, segments)
    Results.check(chosen, selection["metric"], selection["segment"], selection["by"], selection["confidence"])
    return {"plan": chosen.name, **selection}


@contextmanager
def _source(store: str | None, url: str | None, key: str | None) -> Iterator[_Local | _Remote]:
    options.one_source(store, url)
    if url is not None:
        with options.opened_client(url, key) as (client, runner):
            yield _Remote(client, runner)
    else:
        with options.opened_store(str(store)) as opened:
            yield _Local(opened)


class _Local:
    """What a store knows."""

    def __init__(self, store: Store) -> None:
        from reticent_collector.results import Results

        self.store = store
        self._results = results = Results(store)
        self.plans, self.rounds = results.plans, results.rounds

    def estimates(self, **selection: Any) -> dict[str, list[dict[str, Any]]]:
        return self._results.estimates(**selection).to_dict()

    def changes(self, **selection: Any) -> list[dict[str, Any]]:
        return [change.to_dict() for change in self._results.changes(**selection)]

    def csv(self, **selection: Any) -> str:
        from reticent_collector.estimates import csv_text

        return csv_text(self._results.estimates(**selection).rows)

    def arrow(self, **selection: Any) -> Any:
        from reticent_collector.estimates import estimates_to_frame

        return estimates_to_frame(self._results.estimates(**selection).rows)


class _Remote:
    """What a running collector knows: the same, by HTTP."""

    def __init__(self, client: Client, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def plans(self) -> dict[str, Plan]:
        from reticent.plan import Plan

        rows = self._lists("plans", [])["plans"]
        if not all(isinstance(row.get("toml"), str) for row in rows):
            raise ReticentError(f"{self._client.url}: the collector is too old to be read by this version.")
        return {plan.name: plan for plan in (Plan.from_toml(row["toml"]) for row in rows)}

    def rounds(self, plan: str | None, last: int) -> list[dict[str, Any]]:
        return self._lists("rounds", [("last", str(last)), *([("plan", plan)] if plan else [])])["rounds"]

    def estimates(self, **selection: Any) -> dict[str, list[dict[str, Any]]]:
        return self._lists("estimates", self._query(**selection), "withheld")

    def changes(self, **selection: Any) -> list[dict[str, Any]]:
        return self._lists("changes", self._query(**selection))["changes"]

    def csv(self, **selection: Any) -> str:
        return self._body("estimates", [*self._query(**selection), ("format", "csv")]).decode()

    def arrow(self, **selection: Any) -> Any:
        from pyarrow import ipc

        body = self._body("estimates", [*self._query(**selection), ("format", "arrow")])
        try:
            return ipc.open_stream(body).read_all()
        except (ValueError, OSError):
            raise self._unlike_a_collector() from None

    def _query(
        self, plan: str, last: int | None, segment: dict[str, str], **others: object
    ) -> list[tuple[str, str]]:
        if last is None and others["since"] is None:  # with a time, the collector takes all or refuses
            last = MOST_ROUNDS
            if len(self.rounds(plan, MOST_ROUNDS)) >= MOST_ROUNDS:
                raise ReticentError(
                    f"{self._client.url}: there are more rounds than a collector shows at once.\n"
                    "  Hint: --last N picks the latest"
                )
        return [
            ("plan", plan),
            *((name, str(value)) for name, value in {"last": last, **others}.items() if value is not None),
            *(("segment", f"{name}:{tag}") for name, tag in segment.items()),
        ]

    def _lists(
        self, name: str, query: list[tuple[str, str]], *others: str
    ) -> dict[str, list[dict[str, Any]]]:
        """The lists of objects in the collector's answer, by name."""
        try:
            document = json.loads(self._body(name, query))
            lists = {key: document[key] for key in (name, *others)}
            if all(
                isinstance(rows, list)
                and all(isinstance(row, dict) and row.keys() >= SHOWN.get(key, set()) for row in rows)
                for key, rows in lists.items()
            ):
                return lists
        except (ValueError, KeyError, TypeError):
            pass
        raise self._unlike_a_collector()

    def _unlike_a_collector(self) -> ReticentError:
        return ReticentError(f"{self._client.url}: what answers is not a collector, or one that is too old.")

    def _body(self, name: str, query: list[tuple[str, str]]) -> bytes:
        response = self._runner.run(self._client.get(f"/v1/{name}", query))
        if response.status != 200:
            raise ReticentError(self._client.problem(response))
        return response.body
