"""Reports to counts, in one expression for every kind of frame."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterator
from typing import Any

import narwhals as nw

from reticent.counts import Counts
from reticent.counts.model import fold
from reticent.counts.reports import Slice
from reticent.errors import ParameterError
from reticent.frames.schema import IDS, ROUND, Shape
from reticent.frames.words import Words
from reticent.plan import Plan

REPORTS, LEAST = "reports", "least"
INVALID = -1
"""The word of a row that is no report: below all words, so it survives the choice of the smallest."""

Tallies = dict[Slice, dict[int, tuple[int, list[int]]]]
"""Per round and tags, per cohort: reports, and ones at each place of the report."""


def count(
    frame: Any,
    plan: Plan,
    *,
    round: int | None = None,  # noqa: A002 - the word for it
    passes: int = 1,
) -> dict[Slice, dict[str, Counts]]:
    """
    The counts of every metric, per round and segment, from a frame with a row per report.

    `frame` is a frame of pandas, Polars (eager or lazy), PyArrow, DuckDB or PySpark, with the columns of a
    lake (`docs/reference/lake.md`; `to_arrow` makes them of reports). Columns `plan`, `version` and `round`,
    which readers of a lake find in its paths, are checked where they are there. Without a column `round`, say
    which one it is.

    A report that comes twice counts once: within a round each id counts by its smallest row, comparing
    columns from left to right. The work is done where the frame is; a table with a row per round, segment and
    cohort is all that comes back. With several `passes` it is done for a share of the ids at a time, which
    takes less memory and reads the frame as often.

    Raises `FrameError` when the frame does not hold reports on `plan`, and counts nothing then.

    >>> from reticent.frames import to_arrow
    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> from reticent.reports import Report
    >>> plan = Plan("demo", 1, 3600, 0, (Metric("minutes", OneBitMean(1, 60)),))
    >>> sent = Report("demo", 1, round=7, id=bytes(16), bits=b"\\x80")
    >>> count(to_arrow([sent, sent], plan), plan)
    {(7, ()): {'minutes': MeanCounts(reports=1, ones=1)}}
    """
    if passes < 1:
        raise ParameterError("passes", "a whole number >= 1", passes)
    words = Words(plan)
    source = _opened(frame)
    shape = Shape(source.collect_schema(), words, round)
    tallies: Tallies = {}
    for part in (source,) if passes == 1 else (source.filter(share) for share in shares(passes)):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "DataFrame is highly fragmented")  # pandas, of small results
            rows = _rows(_tallied(_distinct(part, words, shape), words, shape))
        for row in rows:
            if row[LEAST] < 0:
                raise shape.refuse(_rows(source.select(*shape.looked_at()))[0])
            _add(tallies, row, words, round)
    return {cell: _folded(plan, by_cohort) for cell, by_cohort in sorted(tallies.items())}


def _opened(frame: Any) -> Any:
    """A frame for narwhals; pandas has no remainders of columns that are Arrow's, but Arrow has."""
    source: Any = nw.from_native(frame)
    if source.implementation.is_pandas() and any(hasattr(each, "pyarrow_dtype") for each in frame.dtypes):
        return nw.from_native(source.to_arrow())
    return source


def _distinct(source: Any, words: Words, shape: Shape) -> Any:
    """One row of words per report."""
    checked = nw.when(shape.valid()).then(words.words[0].expression()).otherwise(nw.lit(INVALID, nw.Int64))
    rows = source.select(
        *shape.group,
        checked.alias(words.names[0]),
        *(word.expression().alias(word.name) for word in words.words[1:]),
    )
    if len(words.names) == 1:
        return rows.group_by(shape.group).agg(nw.col(words.names[0]).min())
    return rows.unique(shape.group, keep="first", order_by=words.names)


def _tallied(distinct: Any, words: Words, shape: Shape) -> Any:
    """
    Reports, and ones at each place, per round, segment and cohort.

    The bit at place *s* of a word *w* is 1 when w mod 2^(s+1) >= 2^s: of what every engine does exactly with
    64-bit numbers, a remainder and a comparison are the least. (Spark divides as floating point.)
    """
    rounds = [ROUND] if shape.has_round else []
    keys = [word.key().alias(f"key_{word.name}") for word in words.words]
    bits = [
        (nw.col(word) % (2 << place) >= (1 << place)).cast(nw.Int64).alias(f"bit_{number}")
        for number, (word, place) in enumerate(words.bits)
    ]
    return (
        distinct.select(*rounds, *keys, nw.col(words.names[0]).alias(LEAST), *bits)
        .group_by(*rounds, *(f"key_{name}" for name in words.names))
        .agg(
            nw.len().alias(REPORTS),
            nw.col(LEAST).min(),
            *(nw.col(f"bit_{number}").sum() for number in range(len(words.bits))),
        )
    )


def shares(passes: int) -> Iterator[nw.Expr]:
    """
    Whether a row's id is in the first share, in the second, and so on: each id is in one of them.

    Shares are found by remainders of two random numbers. Whoever picks ids does not know these, so cannot
    crowd ids into one share.
    """
    high, low = (secrets.randbelow(1 << 30) * 2 + (1 << 31) + 1 for _ in IDS)
    halves = [nw.col(name).fill_null(0) % number for name, number in zip(IDS, (high, low), strict=True)]
    share = ((halves[0] + halves[1]) % passes).abs()
    for turn in range(passes):
        yield share == turn


def _rows(frame: Any) -> list[dict[str, Any]]:
    """The rows of a small result; an engine may hand sums out as decimals."""
    options = {"engine": "streaming"} if frame.implementation.is_polars() else {}
    table = frame.collect(backend="pyarrow", **options) if isinstance(frame, nw.LazyFrame) else frame
    rows: list[dict[str, Any]] = table.to_arrow().to_pylist()
    return rows


def _add(tallies: Tallies, row: dict[str, Any], words: Words, round_number: int | None) -> None:
    """Sort a row of the result in: what its keys say is a cohort and tags."""
    plan = words.plan
    head = {part.column: part.of(int(row[f"key_{word.name}"])) for word in words.words for part in word.head}
    tags = tuple(
        segment.tags[min(head[f"segment_{segment.name}"], len(segment.tags) - 1)] for segment in plan.segments
    )
    cell = int(row[ROUND]) if ROUND in row else int(round_number or 0), tags
    by_cohort = tallies.setdefault(cell, {})
    reports, ones = by_cohort.get(head.get("cohort", 0), (0, [0] * plan.bits))
    by_cohort[head.get("cohort", 0)] = (
        reports + int(row[REPORTS]),
        [known + int(row[f"bit_{number}"]) for number, known in enumerate(ones)],
    )


def _folded(plan: Plan, by_cohort: dict[int, tuple[int, list[int]]]) -> dict[str, Counts]:
    reports = {cohort: found for cohort, (found, _) in by_cohort.items()}
    ones = {cohort: found for cohort, (_, found) in by_cohort.items()}
    return {metric.name: fold(metric, plan.offset(metric.name), reports, ones) for metric in plan.metrics}
