"""Reports to counts, in one expression for every kind of frame: columns packed into a few whole numbers."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pyarrow as pa

from reticent.errors import ParameterError, ReportError, ReticentError
from reticent.plan import Metric, Plan
from reticent.reports import (
    MAX_ROUND,
    NO_ANSWERS,
    Report,
    answers_asked,
    packed_header,
    record_width,
    to_packed,
)
from reticent_collector.counts import Counts, Slice, fold
from reticent_collector.stores.records import ROUND_BYTES
from reticent_lake.store import Columns, asked_place, bit_place

IDS = ["id_high", "id_low"]
ROUND = "round"
REPORTS, LEAST = "reports", "least"
WORD_BITS = 62  # a number below 2⁶² has no sign in any engine, nor has twice it
INVALID = -1  # the word of a row that is not a report: the smallest word is kept, so it remains

# By cohort: reports, and ones at each place of the report, then of the metrics asked.
Tally = tuple[dict[int, int], dict[int, list[int]]]

_HINTS = {
    "plan": "filter the frame first: each plan is counted with its own metrics",
    "version": "filter the frame first: each version is counted with its own metrics",
    ROUND: "filter the frame first, or leave out round=…: then each round is counted by itself",
}


class FrameError(ReticentError):
    """A frame does not hold the reports of a plan: a column is missing, of another type, or out of range."""

    def __init__(self, where: str, expected: str, got: object, hint: str = "") -> None:
        super().__init__(f"{where}: expected {expected}, got {got}." + (f"\n  Hint: {hint}" if hint else ""))


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
    lake (`docs/reference/lake.md`; `to_arrow` makes them from reports). Columns `plan`, `version` and `round`,
    which readers of a lake find in its paths, are checked if present. Without a column `round`, pass its number.

    A duplicate report counts once: within a round each id counts by its smallest row, comparing columns from
    left to right. The engine of the frame does the work; only a table with a row per round, segment and cohort
    comes back. Several `passes` count a share of the ids each, with less memory, and read the frame as often.

    Raises `FrameError` when the frame does not hold reports on `plan`, and counts nothing then.

    >>> from reticent_lake.frames import to_arrow
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
    packing = Packing(plan)
    source = _plain(frame)
    shape = Shape(source.collect_schema(), packing, round)
    tallies: dict[Slice, Tally] = {}
    for share in (source,) if passes == 1 else (source.filter(chosen) for chosen in shares(passes)):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "DataFrame is highly fragmented")  # pandas, of small results
            rows = _rows(_tallied(_distinct(share, packing, shape), packing, shape))
        for row in rows:
            if row[LEAST] < 0:
                raise shape.refusal(source)
            _add(tallies, row, packing, round)
    counts = {}
    for cell, (reports, ones) in sorted(tallies.items()):
        asked = {cohort: tally[plan.bits :] for cohort, tally in ones.items()}
        counts[cell] = fold(plan, reports, ones, asked if plan.asked_bytes else None)
    return counts


def _plain(frame: Any) -> Any:
    """The frame for every engine alike, with columns of plain types: none of categories or dictionaries."""
    source: Any = nw.from_native(frame)
    if source.implementation.is_pandas():
        if any(hasattr(dtype, "pyarrow_dtype") for dtype in frame.dtypes):
            source = nw.from_native(source.to_arrow())  # pandas has no remainders of Arrow's columns
        else:
            source = nw.from_native(frame.astype(_plain_types(frame)))
    if source.implementation.is_pyarrow():
        table = source.to_native()
        plain = [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in table.schema
        ]
        source = nw.from_native(table.cast(pa.schema(plain)))
    return source


def _plain_types(frame: Any) -> dict[str, Any]:
    """The types of the values of columns that pandas keeps as categories, as it does with those from paths."""
    categories = {
        name: dtype.categories.dtype for name, dtype in frame.dtypes.items() if hasattr(dtype, "categories")
    }
    return {name: "Int64" if dtype.kind in "iu" else object for name, dtype in categories.items()}


def shares(passes: int) -> Iterator[nw.Expr]:
    """Whether an id is in the first share, the second, and so on, by random divisors that senders do not know."""
    high, low = (secrets.randbelow(1 << 30) * 2 + (1 << 31) + 1 for _ in IDS)
    halves = [nw.col(name).fill_null(0) % number for name, number in zip(IDS, (high, low), strict=True)]
    share = ((halves[0] + halves[1]) % passes).abs()
    for turn in range(passes):
        yield share == turn


def _distinct(source: Any, packing: Packing, shape: Shape) -> Any:
    """One row of words per report."""
    first, *others = packing.words
    checked = nw.when(shape.valid()).then(first.expression()).otherwise(nw.lit(INVALID, nw.Int64))
    rows = source.select(
        *shape.group, checked.alias(first.name), *(word.expression().alias(word.name) for word in others)
    )
    if not others:
        return rows.group_by(shape.group).agg(nw.col(first.name).min())
    return rows.unique(shape.group, keep="first", order_by=packing.names)


def _tallied(distinct: Any, packing: Packing, shape: Shape) -> Any:
    """
    Reports, and ones at each place, per round, segment and cohort.

    The bit at place *s* of a word *w* is 1 when w mod 2^(s+1) >= 2^s: every engine computes a remainder and a
    comparison of 64-bit numbers exactly. (Spark divides as floating point.)
    """
    rounds = [ROUND] if shape.has_round else []
    keys = [word.key().alias(f"key_{word.name}") for word in packing.words]
    bits = [
        (nw.col(word) % (2 << place) >= (1 << place)).cast(nw.Int64).alias(f"bit_{number}")
        for number, (word, place) in enumerate(packing.bits)
    ]
    return (
        distinct.select(*rounds, *keys, nw.col(packing.names[0]).alias(LEAST), *bits)
        .group_by(*rounds, *(f"key_{name}" for name in packing.names))
        .agg(
            nw.len().alias(REPORTS),
            nw.col(LEAST).min(),
            *(nw.col(f"bit_{number}").sum() for number in range(len(packing.bits))),
        )
    )


def _rows(frame: Any) -> list[dict[str, Any]]:
    """The rows of a small result; some engines return sums as decimals."""
    options = {"engine": "streaming"} if frame.implementation.is_polars() else {}
    table = frame.collect(backend="pyarrow", **options) if isinstance(frame, nw.LazyFrame) else frame
    rows: list[dict[str, Any]] = table.to_arrow().to_pylist()
    return rows


def _add(
    tallies: dict[Slice, Tally], row: dict[str, Any], packing: Packing, round_number: int | None
) -> None:
    """Add a row of the result to the tally of its round and tags, by its cohort."""
    plan = packing.plan
    head = {
        slot.column: int(row[f"key_{word.name}"]) >> slot.shift & slot.largest
        for word in packing.words
        for slot in word.head
    }
    tags = tuple(
        segment.tags[min(head[f"segment_{segment.name}"], len(segment.tags) - 1)] for segment in plan.segments
    )
    cell = int(row[ROUND]) if ROUND in row else int(round_number or 0), tags
    reports, ones = tallies.setdefault(cell, ({}, {}))
    cohort = head.get("cohort", 0)
    reports[cohort] = reports.get(cohort, 0) + int(row[REPORTS])
    known = ones.get(cohort, [0] * len(packing.bits))
    ones[cohort] = [number + int(row[f"bit_{place}"]) for place, number in enumerate(known)]


class Slot(NamedTuple):
    """A column inside a word: its value times 2^shift."""

    column: str
    bits: int
    shift: int

    @property
    def largest(self) -> int:
        """The largest value that fits."""
        return (1 << self.bits) - 1


@dataclass(frozen=True, slots=True)
class Word:
    """
    Neighbouring columns as one number, the leftmost in the highest bits.

    Rows compare from left to right by their columns exactly as they do by their words, so the smallest row of
    an id is the smallest word where one is enough, which is the common case.
    """

    name: str
    slots: tuple[Slot, ...]

    def expression(self) -> nw.Expr:
        """The word of each row."""
        terms = [nw.col(slot.column).cast(nw.Int64) * (1 << slot.shift) for slot in self.slots]
        return sum(terms[1:], start=terms[0])

    @property
    def head(self) -> tuple[Slot, ...]:
        """The cohort and tags in this word, by which reports are grouped."""
        return tuple(slot for slot in self.slots if not slot.column.startswith(("bits_", "asked_")))

    def key(self) -> nw.Expr:
        """The word without its answer bits, and without the bits of metrics asked."""
        answers = sum(slot.bits for slot in self.slots if slot.column.startswith("bits_"))
        key = nw.col(self.name) - nw.col(self.name) % (1 << answers)
        for slot in self.slots:
            if slot.column.startswith("asked_"):
                below = nw.col(self.name) % (1 << slot.shift)
                key = key - (nw.col(self.name) % (1 << slot.shift + slot.bits) - below)
        return key


class Packing:
    """The words of a plan's reports, and where in them each answer bit is."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.words = _words(plan)
        self.names = [word.name for word in self.words]
        self.slots = [slot for word in self.words for slot in word.slots]  # all columns but the id, in order
        starts = {slot.column: (word.name, slot.shift) for word in self.words for slot in word.slots}
        # The column of each answer bit, then of each metric that may be asked, and its place in the column.
        self.columns = [bit_place(plan, bit) for bit in range(plan.bits)]
        if plan.asked_bytes:
            self.columns += [asked_place(plan, metric) for metric in range(len(plan.metrics))]
        # The same by word.
        self.bits = [(starts[column][0], starts[column][1] + shift) for column, shift in self.columns]


def _words(plan: Plan) -> list[Word]:
    """The columns of a plan's reports in as few words as hold them."""
    groups: list[list[tuple[str, int]]] = [[]]
    for field in Columns(plan).fields[2:]:  # all but the two halves of the id
        size = 8 * (field.stop - field.start)
        if sum(bits for _, bits in groups[-1]) + size > WORD_BITS:
            groups.append([])
        groups[-1].append((field.name, size))
    words: list[Word] = []
    for group in groups:
        shift = sum(bits for _, bits in group)
        slots = []
        for column, bits in group:
            shift -= bits
            slots.append(Slot(column, bits, shift))
        words.append(Word(f"word_{len(words)}", tuple(slots)))
    return words


class Shape:
    """
    The columns and values that a frame of a plan's reports must have.

    Columns are checked before anything runs, values while they are counted: a row that is not a report gets a word
    below 0, which is smaller than all others and so remains to the end, where `refusal` explains it. A valid frame
    is read once.
    """

    def __init__(self, schema: nw.Schema, packing: Packing, round_number: int | None) -> None:
        self.plan = packing.plan
        self._columns = packing.columns
        self.has_round = ROUND in schema
        self.group = [ROUND, *IDS] if self.has_round else IDS  # identifies a report
        self._ranges = {slot.column: (0, slot.largest) for slot in packing.slots}  # lowest and highest number
        if self.has_round:
            self._ranges[ROUND] = (0, MAX_ROUND - 1) if round_number is None else (round_number, round_number)
        if "version" in schema:
            self._ranges["version"] = (self.plan.version, self.plan.version)
        self._has_plan = "plan" in schema
        for name in [*IDS, *self._ranges]:
            if name not in schema:
                raise FrameError(
                    name,
                    f"a column, as reports on {self.plan.name} version {self.plan.version} have it",
                    f"the columns {', '.join(schema)}",
                    "docs/reference/lake.md has the schema; reticent_lake.frames.to_arrow makes such a table",
                )
            if not schema[name].is_integer():
                raise FrameError(name, "a column of whole numbers", schema[name])
        if not self.has_round and round_number is None:
            hint = "count(frame, plan, round=81652)"
            raise FrameError(ROUND, "a column, or the number of the one round", "neither", hint)

    def valid(self) -> nw.Expr:
        """Whether a row is a report on this plan: nothing null, all in range, of this version and round."""
        conditions = [~nw.col(name).is_null() for name in IDS]
        for name, (lowest, highest) in self._ranges.items():
            number = nw.col(name).cast(nw.Int64).fill_null(-1)
            conditions.append((number >= lowest) & (number <= highest))
        if self._has_plan:
            conditions.append(nw.col("plan").cast(nw.String).fill_null("") == self.plan.name)
        bits = [
            (nw.col(column).cast(nw.Int64).fill_null(0) % (2 << place) >= (1 << place)).cast(nw.Int64)
            for column, place in self._columns
        ]
        asked = bits[self.plan.bits :]
        if asked:
            conditions += self._answers_asked(bits, asked)
        for place, metric in enumerate(self.plan.metrics):
            if metric.mechanism.ones is not None:
                ones = self._ones(bits, metric)
                due = metric.mechanism.ones
                conditions.append(ones == asked[place] * due if asked else ones == due)
        return nw.all_horizontal(*conditions, ignore_nulls=False)

    def _ones(self, bits: Sequence[nw.Expr], metric: Metric) -> nw.Expr:
        offset = self.plan.offset(metric.name)
        answers = bits[offset : offset + metric.bits]
        return sum(answers[1:], start=answers[0])

    def _answers_asked(self, bits: Sequence[nw.Expr], asked: Sequence[nw.Expr]) -> Iterator[nw.Expr]:
        """As many metrics are asked as in the plan, and bits of others are 0."""
        yield sum(asked[1:], start=asked[0]) == self.plan.asked
        spare = 8 * self.plan.asked_bytes - len(asked)
        if spare:
            yield nw.col(self._columns[-1][0]).cast(nw.Int64).fill_null(0) % (1 << spare) == 0
        for place, metric in enumerate(self.plan.metrics):
            yield self._ones(bits, metric) <= asked[place] * metric.bits

    def refusal(self, source: Any) -> FrameError:
        """Why a frame has invalid rows, by the nulls and ranges of its columns."""
        seen = self._seen(source)
        for name in [*IDS, *self._ranges, "plan"]:
            if seen.get(f"{name}__nulls"):
                return FrameError(name, "a value in every row", f"null in {seen[f'{name}__nulls']}")
        for name, (lowest, highest) in self._ranges.items():
            if seen[f"{name}__min"] < lowest or seen[f"{name}__max"] > highest:
                expected = f"whole numbers from {lowest} to {highest}"
                if lowest == highest:
                    expected = f"{lowest} in every row"
                return FrameError(name, expected, _range(seen, name), _HINTS.get(name, ""))
        got = _range(seen, "plan") if self._has_plan else self.plan.name
        if self.plan.asked_bytes and got == self.plan.name:
            expected = f"{self.plan.asked} metrics in every row, and no answers about others"
            return FrameError("asked_0", expected, "other rows")
        if self.plan.fixed_ones and got == self.plan.name:
            expected = "answers with as many ones in every row as their metric has"
            return FrameError(self._columns[0][0], expected, "other rows")
        return FrameError("plan", f"{self.plan.name} in every row", got, _HINTS["plan"])

    def _seen(self, source: Any) -> dict[str, Any]:
        """How many nulls each column has, and its smallest and largest value."""
        texts = ["plan"] if self._has_plan else []
        ends = [*map(nw.col, self._ranges), *(nw.col(name).cast(nw.String) for name in texts)]
        (row,) = _rows(
            source.select(
                *(column.null_count().name.suffix("__nulls") for column in [*map(nw.col, IDS), *ends]),
                *(column.min().name.suffix("__min") for column in ends),
                *(column.max().name.suffix("__max") for column in ends),
            )
        )
        return row


def _range(seen: Mapping[str, Any], column: str) -> str:
    low = seen[f"{column}__min"]
    high = seen[f"{column}__max"]
    return str(low) if low == high else f"{low} to {high}"


def to_arrow(reports: Iterable[Report] | bytes, plan: Plan) -> pa.Table:
    """
    Reports, or a packed batch of them, as an Arrow table: `round` and the columns of a lake.

    Duplicates stay; `count` takes each id once. Raises `ReportError` for reports on another plan.

    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> plan = Plan("demo", 1, 3600, 0, (Metric("minutes", OneBitMean(1, 60)),))
    >>> sent = Report("demo", 1, round=7, id=bytes([0] * 7 + [1] * 9), bits=b"\\x80")
    >>> to_arrow([sent], plan).to_pylist()
    [{'round': 7, 'id_high': 1, 'id_low': 72340172838076673, 'bits_0': 128}]
    """
    if not isinstance(reports, bytes):
        reports = list(reports)
        for report in reports:
            if len(report.bits) != plan.report_bytes:
                raise ReportError(
                    "malformed", f"bits: expected {plan.report_bytes} bytes, got {len(report.bits)}."
                )
            if not answers_asked(report, plan):
                raise ReportError("malformed", NO_ANSWERS.format(plan.asked) + ".")
            if plan.uses_cohort and report.cohort is None:
                raise ReportError("malformed", "cohort: expected a whole number from 0 to 255, got None.")
    packed = reports if isinstance(reports, bytes) else to_packed(reports, plan)
    header = packed_header(packed)
    if (header.plan, header.version, header.width) != (plan.name, plan.version, record_width(plan)):
        raise ReportError(
            "version_mismatch",
            f"batch: expected records of {plan.name} version {plan.version} ({record_width(plan)} bytes), "
            f"got {header.plan} version {header.version} ({header.width} bytes).",
        )
    rows = np.frombuffer(packed, dtype=np.uint8, offset=header.start).reshape(-1, header.width)
    rounds = np.ascontiguousarray(rows[:, :ROUND_BYTES]).view(">u8").reshape(-1).astype(np.int64)
    return Columns(plan).table(rows[:, ROUND_BYTES:]).add_column(0, ROUND, pa.array(rounds))
