"""
Estimates as one table: the same columns as CSV, Arrow, Parquet and data frame.

A row is a number with its error, so a histogram is a row per bucket. `reticent.frames.estimates_from_frame`
reads such a table back.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from reticent.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from reticent.estimates.estimator import Estimate, HistogramEstimate

BACKENDS = ("pyarrow", "pandas", "polars")
ROWS_AT_ONCE = 1000


class Column(NamedTuple):
    """A column of the table: its name, its type as Arrow calls it, and what it says."""

    name: str
    type: str
    meaning: str


COLUMNS = (
    Column("plan", "string", "the plan's name"),
    Column("version", "int64", "its version"),
    Column("metric", "string", "the metric's name"),
    Column("kind", "string", "mean, histogram, choice or flag"),
    Column("unit", "string", "of a mean, or of a bucket's ends; shares have none"),
    Column("round", "int64", "the round's number; the first one's of a window"),
    Column("start", "int64", "when the round or window began, unix seconds"),
    Column("end", "int64", "when it ended"),
    Column("state", "string", "open: provisional; sealed: final"),
    Column("segment", "string", "NAME:TAG, several with ; between; empty for the whole fleet"),
    Column("bucket_low", "float64", "where a bucket begins; nothing for a mean"),
    Column("bucket_high", "float64", "where it ends"),
    Column("value", "float64", "the unbiased mean, or share of devices; nothing where nobody was asked"),
    Column("lower", "float64", "the interval, cut to the range that the truth is known to be in"),
    Column("upper", "float64", "its other end"),
    Column("confidence", "float64", "the probability with which the interval holds the truth"),
    Column("reports", "int64", "reports that speak of this number; nothing where the figure is withheld"),
    Column("half_width", "float64", "half of the interval before it was cut"),
    Column("noise_half_width", "float64", "the part of it that privacy costs"),
    Column("sampling_half_width", "float64", "the part of it that would remain without privacy"),
    Column("paper_bound", "float64", "the half-width that the paper's theorem would give"),
    Column("manipulation", "float64", "how far dishonest reports move the value, per unit of their share"),
    Column("bucket", "int64", "the bucket's place, from 0; nothing for a mean"),
    Column("devices", "int64", "reports altogether"),
    Column("span_lower", "float64", "the range that the truth is known to be in"),
    Column("span_upper", "float64", "its other end"),
    Column("uncut_lower", "float64", "the interval before it was cut"),
    Column("uncut_upper", "float64", "its other end"),
    Column("noise_share", "float64", "the share of the variance that privacy costs"),
    Column("together", "int64", "so many intervals hold at once with this confidence"),
    Column("rule", "string", "where the interval comes from"),
    Column("label", "string", "the bucket's name, of a choice; absent for devices without a value"),
    Column(
        "to", "int64", "the last round's number, where counts are those of a window; else the same as round"
    ),
)
"""All columns, in their order; new ones go to the end."""
ABOUT = ("plan", "version", "metric", "round", "to", "start", "end", "state", "segment")
"""What an estimate is of; the other columns are the estimate itself."""


class HasEstimate(Protocol):
    """
    An estimate and what it is of: a `Result` of `reticent.results`, an `Estimated` of `reticent.frames`.

    Or what there is no estimate of: a `Withheld`, which is one row without numbers.
    """

    @property
    def plan(self) -> str: ...  # noqa: D102
    @property
    def version(self) -> int: ...  # noqa: D102
    @property
    def metric(self) -> Any: ...  # noqa: D102
    @property
    def round(self) -> int: ...  # noqa: D102
    @property
    def to(self) -> int: ...  # noqa: D102
    @property
    def start(self) -> int: ...  # noqa: D102
    @property
    def end(self) -> int: ...  # noqa: D102
    @property
    def state(self) -> str: ...  # noqa: D102
    @property
    def segment(self) -> Mapping[str, str]: ...  # noqa: D102
    @property
    def estimate(self) -> Estimate | HistogramEstimate | None: ...  # noqa: D102


def table_rows(estimates: Iterable[HasEstimate]) -> Iterator[dict[str, Any]]:
    """The rows of estimates, with a value for each of `COLUMNS`."""
    for estimated in estimates:
        about = {
            **{name: getattr(estimated, name) for name in ABOUT},
            "metric": getattr(estimated.metric, "name", estimated.metric),
            "segment": ";".join(f"{name}:{tag}" for name, tag in estimated.segment.items()),
        }
        if estimated.estimate is None:
            about |= {"kind": estimated.metric.kind, "unit": estimated.metric.unit}
            yield {name: about.get(name) for name, _, _ in COLUMNS}
        else:
            yield from _number_rows(estimated.estimate, about)


def _number_rows(
    estimate: Estimate | HistogramEstimate, about: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """A row for each number of an estimate."""
    buckets = getattr(estimate, "buckets", None)
    for place, number in enumerate([estimate] if buckets is None else buckets):
        low, high = number.edges or (None, None)
        known = {
            **about,
            "label": number.label or None,
            "unit": estimate.unit,
            "bucket": None if buckets is None else place,
            "bucket_low": low,
            "bucket_high": high,
            "value": None if isnan(number.value) else number.value,
            "span_lower": number.span[0],
            "span_upper": number.span[1],
            "uncut_lower": number.uncut[0],
            "uncut_upper": number.uncut[1],
        }
        yield {name: known[name] if name in known else getattr(number, name) for name, _, _ in COLUMNS}


# Frames


def to_frame(estimate: Estimate | HistogramEstimate, backend: str = "pyarrow") -> Any:
    """One estimate as a frame of `backend`: "pyarrow", "pandas" or "polars". What it is of stays empty."""
    return _frame(_number_rows(estimate, dict.fromkeys(ABOUT)), backend)


def estimates_to_frame(estimates: Iterable[HasEstimate], backend: str = "pyarrow") -> Any:
    """
    Estimates as a frame of `backend` ("pyarrow", "pandas" or "polars"): a row per number.

    Takes what `estimates` of `reticent.results.Results` gives, and what `estimates_from_frame` read.
    """
    return _frame(table_rows(estimates), backend)


def _frame(rows: Iterable[Mapping[str, Any]], backend: str) -> Any:
    if backend not in BACKENDS:
        raise ParameterError("backend", f"one of {', '.join(BACKENDS)}", backend)
    pa = _module("pyarrow")
    schema = pa.schema([(column.name, pa.type_for_alias(column.type)) for column in COLUMNS])
    rows, parts = iter(rows), []
    # Some at a time: all at once would keep every other thread of a collector waiting.
    while some := list(islice(rows, ROWS_AT_ONCE)):
        parts.append(pa.Table.from_pylist(some, schema=schema))
    table = pa.concat_tables(parts) if parts else schema.empty_table()
    if backend == "pandas":  # whole numbers that may be null: a column's type is the same whatever it holds
        return table.to_pandas(types_mapper={pa.int64(): _module("pandas").Int64Dtype()}.get)
    return _module("polars").from_arrow(table) if backend == "polars" else table


def frame_rows(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame of PyArrow, pandas or Polars; what is not there is None."""
    pa = _module("pyarrow")
    if type(frame).__module__.partition(".")[0] == "pandas":
        frame = pa.Table.from_pandas(frame, preserve_index=False)
    elif hasattr(frame, "to_arrow"):
        frame = frame.to_arrow()
    if not isinstance(frame, pa.Table):
        raise ParameterError("frame", f"a frame of {', '.join(BACKENDS)}", type(frame).__name__)
    rows: list[dict[str, Any]] = frame.to_pylist()
    return rows


def _module(name: str) -> Any:
    """A library that is asked for when it is needed."""
    try:
        return import_module(name)
    except ImportError as missing:
        raise MissingExtraError("arrow", name) from missing


def arrow_bytes(estimates: Iterable[HasEstimate]) -> bytes:
    """The table as an Arrow stream."""
    table, pa = estimates_to_frame(estimates), _module("pyarrow")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


# CSV

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\0", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Those of ASCII, and their full-width forms."""


def csv_text(estimates: Iterable[HasEstimate]) -> str:
    """
    The table as CSV, with a header line.

    Texts are texts to a spreadsheet too; numbers stay as they are, negative ones as well.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, [column.name for column in COLUMNS], lineterminator="\n")
    writer.writeheader()
    for row in table_rows(estimates):
        writer.writerow(
            {name: safe_text(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
        )
    return text.getvalue()


def safe_text(text: str) -> str:
    """
    A text with an apostrophe before it where a spreadsheet would take it for a formula.

    That is OWASP's advice (ASVS 5.0, 1.2.10), and so is the list of what such a text begins with. A carriage
    return becomes a line feed: Python's `csv` does not quote it, and what follows would begin a cell.

    >>> safe_text("minute"), safe_text("=1+1"), safe_text("a\\r=1+1")
    ('minute', "'=1+1", 'a\\n=1+1')
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{lines}" if text.startswith(_FORMULA) else lines
