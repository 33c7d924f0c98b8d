"""
The table of results: the finished figures of a store, written after each seal for programs that read SQL or Parquet.

It holds what `Results` shows of every sealed round, window, day, week and month, for the whole fleet and for each
tag of each segment, at a confidence of 95 %. A withheld figure has no row. The table is derived from the counts and
can be rebuilt.

A period is written once all of it is final, and then never changes. One exception: where a clock was ahead and a
round comes after all, its seal, or the pass that overlooked it, removes the periods that it is in, and they are written
again. A store keeps which periods are completely written, so an interrupted pass is completed by the next one, in any
process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from math import isclose
from typing import Any

from reticent.errors import ParameterError
from reticent_collector.columns import time_text
from reticent_collector.estimates.table import table_rows
from reticent_collector.results.periods import EVERY, Period
from reticent_collector.results.reader import Results
from reticent_collector.results.result import Result
from reticent_collector.results.rows import CONFIDENCE, key_of
from reticent_collector.results.selection import Selection
from reticent_collector.stores import PeriodKey, ResultsTable, Store


def write_results(
    store: Store,
    clock: Callable[[], float] = time.time,
    *,
    rebuild: bool = False,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[float, float], None] = lambda done, all_of_them: None,
) -> int:
    """
    Write the figures of every finished period that is not in the table yet; returns how many periods.

    The newest come first, and of those that end together the shorter ones. `rebuild` removes and writes all of them
    again, one after the other. The pass ends when `stop()` is true before a period; `progress(done, total)` is called
    before each.
    """
    table = store.table
    if table is None:
        return 0
    results = Results(store, clock)
    periods = _unwritten(results, table, rebuild)
    done: dict[PeriodKey, Period] = {}
    for place, (key, period) in enumerate(periods.items()):
        progress(place, len(periods))
        if stop():
            break
        if not results.is_readable(period, period.metrics):
            continue  # a period with a damaged round waits for its repair
        rows: Iterable[dict[str, Any]] = _rows(results, period)
        if rebuild:
            rows = list(rows)
            table.drop_results(key)
        table.put_results(key, rows)
        done[key] = period
    _drop_overtaken(results, store, table, done)
    return len(done)


def _unwritten(results: Results, table: ResultsTable, rebuild: bool) -> dict[PeriodKey, Period]:
    """The periods to write, newest first; with `rebuild` all, after those that are no longer final were dropped."""
    periods: dict[PeriodKey, Period] = {}
    for plan in results.plans():
        finished = dict(_finished(results, plan))
        written = table.written(plan)
        for key in sorted(written - finished.keys()) if rebuild else ():
            if not _is_damaged(results, key):  # else it could not be written again
                table.drop_results(key)
        periods |= {key: period for key, period in finished.items() if rebuild or key not in written}
    return dict(sorted(periods.items(), key=lambda item: (-item[0].end, -item[0].start)))


def _drop_overtaken(
    results: Results, store: Store, table: ResultsTable, done: Mapping[PeriodKey, Period]
) -> None:
    """Drop the periods that a round joined while they were written: it was sealed before they were put."""
    rounds = {info.key for plan in {key.plan for key in done} for info in store.rounds(plan)}
    for key, period in done.items():
        alike = {version.version for version in results.alike(period.plan)}
        now = {one for one in rounds if one.plan == key.plan and one.version in alike}
        if any(
            period.first <= one.round <= period.last for one in now - {info.key for info in period.rounds}
        ):
            table.drop_results(key)


def problems(store: Store, clock: Callable[[], float] = time.time) -> Iterator[str]:
    """Differences between the table and the counts, a sentence each; a period not yet written is none."""
    table = store.table
    if table is None:
        return
    results = Results(store, clock)
    for plan in results.plans():
        finished = dict(_finished(results, plan))
        for key in sorted(table.written(plan)):
            where = f"results of the {key.every} from {time_text(key.start)} of {key.plan} version {key.version}: "
            if key not in finished:
                yield f"{where}there are no final counts for them"
                continue
            expected = {_place(row): row for row in _rows(results, finished[key])}
            kept = {_place(row): row for row in table.results(key)}
            missing, more = expected.keys() - kept.keys(), kept.keys() - expected.keys()
            changed = [
                place for place in expected.keys() & kept.keys() if not _same(expected[place], kept[place])
            ]
            for rows, what in ((missing, "missing"), (more, "too many"), (changed, "changed")):
                if rows:
                    yield f"{where}{len(rows)} of {len(expected)} rows are {what}"


def _finished(results: Results, plan: str) -> Iterator[tuple[PeriodKey, Period]]:
    """The periods of a plan that are final."""
    for every in EVERY:
        with suppress(ParameterError):  # the plan has no such periods
            for period in results.periods(Selection(plan, every=every)):
                # A version whose rounds are longer than a day has rounds in place of days.
                if period.state == "sealed" and period.every == every:
                    yield key_of(period), period


def _is_damaged(results: Results, key: PeriodKey) -> bool:
    """Whether a round of a period cannot be read."""
    plan = results.versions(key.plan)[key.version]
    alike = {version.version for version in results.alike(plan)}
    return any(
        row["version"] in alike and key.start <= plan.round(row["round"]).start < key.end
        for row in results.damaged(key.plan)
    )


def _rows(results: Results, period: Period) -> Iterator[dict[str, Any]]:
    """The rows of a period: the whole fleet, then each segment's tags."""
    segments = {segment.name: None for version in period.versions for segment in version.segments}
    for by in (None, *segments):
        selection = Selection(period.plan.name, by=by, confidence=CONFIDENCE)
        figures = results.computed(period, period.metrics, selection)
        yield from table_rows(figure for figure in figures if isinstance(figure, Result))


_LATER = {f"p{percent}_{end}" for percent in (10, 25, 75, 90, 99) for end in ("lower", "upper")}
"""Columns that rows of older versions lack: no difference from the counts."""


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["metric"], row["versions"], row["segment"], row["bucket"]


def _same(expected: Mapping[str, Any], kept: Mapping[str, Any]) -> bool:
    """Whether two rows are equal, up to the last digits, which versions of a library round differently."""
    return all(
        isclose(cell, kept[name], rel_tol=1e-6, abs_tol=1e-9)
        if isinstance(cell, float) and kept[name] is not None
        else cell == kept[name]
        for name, cell in expected.items()
        if name not in _LATER or kept[name] is not None
    )
