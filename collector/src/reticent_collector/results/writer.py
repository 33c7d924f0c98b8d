"""
The tables of results and comparisons: finished figures of a store, and their differences, written after each seal for
programs that read SQL or Parquet.

It holds what `Results` shows of every sealed round, window, day, week and month, for the whole fleet and for each
tag of each segment, at a confidence of 95 %. A withheld figure has no row. Beside each period but rounds that a day
holds are its comparisons with earlier final periods, and of its tags with the largest ones. The tables are derived from
the counts and can be rebuilt.

A period is written once all of it is final, and then never changes. One exception: where a clock was ahead and a
round comes after all, its seal, or the pass that overlooked it, removes the periods that it is in, and they are written
again. Whenever a period is written after those that are compared with it, these get what they lack in the same pass,
before it. A store keeps which periods are completely written, so an interrupted pass is completed by the next one, in
any process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from reticent.errors import ParameterError
from reticent_collector.columns import COMPARISON, segment_text, time_text
from reticent_collector.estimates.table import table_rows
from reticent_collector.estimates.versions import rhythm
from reticent_collector.results.against import against_choices, earlier_span
from reticent_collector.results.periods import EVERY, SHORTEST, Every, Period
from reticent_collector.results.reader import Results
from reticent_collector.results.result import Result
from reticent_collector.results.rows import CONFIDENCE, key_of
from reticent_collector.results.selection import Selection
from reticent_collector.stores import PeriodKey, ResultsTable, RoundKey, Store


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
    sealed = _sealed(store, results.plans())
    finished = {plan: dict(_finished(results, plan)) for plan in results.plans()}
    spans = {plan: _by_span(periods) for plan, periods in finished.items()}
    periods = _unwritten(results, table, finished, spans, rebuild)
    done: dict[PeriodKey, Period] = {}
    for place, (key, period) in enumerate(periods.items()):
        progress(place, len(periods))
        if stop():
            break
        if not results.is_readable(period, period.metrics):
            continue  # a period with a damaged round waits for its repair
        rows: Iterable[dict[str, Any]] = _rows(results, period)
        comparisons: Iterable[dict[str, Any]] = _comparisons(results, period, spans[key.plan])
        if rebuild:
            rows, comparisons = list(rows), list(comparisons)
            table.drop_results(key)
        table.put_results(key, rows, comparisons)
        done[key] = period
    _drop_overtaken(results, store, table, done, sealed)
    return len(done)


Finished = Mapping[PeriodKey, Period]  # the periods of a plan that are final


Spans = Mapping[tuple[object, Every, int], Period]  # by their rhythm, kind and first round


def _unwritten(
    results: Results,
    table: ResultsTable,
    finished: Mapping[str, Finished],
    spans: Mapping[str, Spans],
    rebuild: bool,
) -> dict[PeriodKey, Period]:
    """The periods to write, newest first; with `rebuild` all, after those that are no longer final were dropped."""
    periods: dict[PeriodKey, Period] = {}
    for plan, of_plan in finished.items():
        written = table.written(plan)
        for key in sorted(written - of_plan.keys()) if rebuild else ():
            if not _is_damaged(results, key):  # else it could not be written again
                table.drop_results(key)
        new = {key: period for key, period in of_plan.items() if rebuild or key not in written}
        periods |= new | _compared_with(new, of_plan, spans[plan])
    return dict(sorted(periods.items(), key=lambda item: (-item[0].end, -item[0].start)))


def _compared_with(new: Finished, finished: Finished, spans: Spans) -> dict[PeriodKey, Period]:
    """The later periods that are compared with one of the new ones: they may have been written without it."""
    oldest = min((key.start for key in new), default=math.inf)
    return {
        key: period
        for key, period in finished.items()
        if key.start > oldest and any(key_of(one) in new for one in _earlier(period, spans).values())
    }


def _by_span(periods: Finished) -> Spans:
    return {(rhythm(one.plan), one.every, one.first): one for one in periods.values()}


def _is_compared(period: Period) -> bool:
    """Whether the table has comparisons of a period: all but rounds of which a day has several."""
    return period.every != "round" or period.plan.round_seconds > SHORTEST["day"]


def _earlier(period: Period, among: Spans) -> dict[str, Period]:
    """Those of some periods with which one is compared, by what they are against."""
    earlier = {}
    for against in against_choices(period.plan, period.every) if _is_compared(period) else ():
        span = earlier_span(period, against)
        other = among.get((rhythm(period.plan), span.every, span.first))
        if other is not None and span.first != period.first:
            earlier[against] = other
    return earlier


def _comparisons(results: Results, period: Period, among: Spans) -> Iterator[dict[str, Any]]:
    """The rows of comparisons of a period."""
    if not _is_compared(period):
        return
    for against, difference in results.comparisons(period, _earlier(period, among)):
        for row in difference.to_rows():
            row |= {name: segment_text(row[name]) for name in ("segment", "baseline_segment")}
            row["against"] = against
            yield {column.name: row[column.name] for column in COMPARISON}


def _sealed(store: Store, plans: Iterable[str]) -> set[RoundKey]:
    return {info.key for plan in plans for info in store.rounds(plan) if info.state == "sealed"}


def _drop_overtaken(
    results: Results,
    store: Store,
    table: ResultsTable,
    done: Mapping[PeriodKey, Period],
    sealed: Collection[RoundKey],
) -> None:
    """
    Drop the periods that a round joined while they were written: it was sealed before they were put.

    So are those after a round that was sealed meanwhile: they are compared with what it is in.
    """
    plans = {key.plan for key in done}
    rounds = {info.key for plan in plans for info in store.rounds(plan)}
    meanwhile = _sealed(store, plans) - {*sealed}
    for key, period in done.items():
        alike = {version.version for version in results.alike(period.plan)}
        own = {one for one in rounds if one.plan == key.plan and one.version in alike}
        joined = own - {info.key for info in period.rounds}
        if any(period.first <= one.round <= period.last for one in joined) or any(
            one.round < period.first for one in own & meanwhile
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
        spans = _by_span(finished)
        for key in sorted(table.written(plan)):
            where = f"results of the {key.every} from {time_text(key.start)} of {key.plan} version {key.version}: "
            if key not in finished:
                yield f"{where}there are no final counts for them"
                continue
            period = finished[key]
            for found in _differing(_rows(results, period), table.results(key), _place):
                yield where + found
            compared = table.comparisons(key)
            if compared:  # a period that an older version wrote has none
                expected = _comparisons(results, period, spans)
                for found in _differing(expected, compared, _place_of_comparison):
                    yield f"{where}of the comparisons {found}"


def _differing(
    expected: Iterable[dict[str, Any]],
    kept: Iterable[dict[str, Any]],
    place: Callable[[Mapping[str, Any]], tuple[Any, ...]],
) -> Iterator[str]:
    """How the rows of a period differ from those that its counts give."""
    ours, theirs = ({place(row): row for row in rows} for rows in (expected, kept))
    missing, more = ours.keys() - theirs.keys(), theirs.keys() - ours.keys()
    changed = [known for known in ours.keys() & theirs.keys() if not _same(ours[known], theirs[known])]
    for rows, what in ((missing, "missing"), (more, "too many"), (changed, "changed")):
        if rows:
            yield f"{len(rows)} of {len(ours)} rows are {what}"


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


def _place_of_comparison(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return *_place(row), row["against"], row["baseline_segment"]


def _same(expected: Mapping[str, Any], kept: Mapping[str, Any]) -> bool:
    """Whether two rows are equal, up to the last digits, which versions of a library round differently."""
    return all(
        math.isclose(cell, kept[name], rel_tol=1e-6, abs_tol=1e-9)
        if isinstance(cell, float) and kept[name] is not None
        else cell == kept[name]
        for name, cell in expected.items()
        if name not in _LATER or kept[name] is not None
    )
