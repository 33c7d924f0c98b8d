"""
Estimates as rows of the results table (`reticent_collector.columns`): JSON, CSV, Arrow, frames.

`reticent_lake.frames.estimates_from_frame` reads such a table back.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from importlib import import_module
from itertools import islice
from math import isnan
from typing import TYPE_CHECKING, Any

from reticent.errors import MissingPackageError, ParameterError
from reticent_collector.columns import COLUMNS, FIGURE, NUMBER, QUANTILES, SUBJECT, segment_text, time_text

if TYPE_CHECKING:
    from reticent_collector.estimates.distribution import Quantile
    from reticent_collector.estimates.estimator import Estimate, HistogramEstimate

BACKENDS = ("pyarrow", "pandas", "polars")
ROWS_AT_ONCE = 1000
_EMPTY: dict[str, Any] = dict.fromkeys(column.name for column in COLUMNS)
_TIMES = tuple(column.name for column in COLUMNS if column.type == "timestamp")


Figure = Any  # a `Result`, `Subject` or `Withheld` of the results, an `Estimated` of `reticent_lake.frames`


def subject_row(figure: Figure) -> dict[str, Any]:
    """What a figure is about, by column, ready for JSON."""
    return {
        "plan": figure.plan,
        "version": figure.version,
        "metric": getattr(figure.metric, "name", figure.metric),
        "every": figure.every,
        "start_time": time_text(figure.start),
        "end_time": time_text(figure.end),
        "state": figure.state,
        "segment": dict(figure.segment),
        "round": figure.round,
        "last_round": figure.to,
    }


def number_rows(estimate: Estimate | HistogramEstimate) -> Iterator[dict[str, Any]]:
    """The numbers of an estimate, by column: one for a mean, one per bucket of a histogram."""
    buckets = getattr(estimate, "buckets", None)
    for place, number in enumerate([estimate] if buckets is None else buckets):
        low, high = number.edges or (None, None)
        known = {
            "unit": estimate.unit,
            "label": number.label or None,
            "bucket": None if buckets is None else place,
            "bucket_low": low,
            "bucket_high": high,
            "value": None if isnan(number.value) else number.value,
            "span_lower": number.span[0],
            "span_upper": number.span[1],
            "uncut_lower": number.uncut[0],
            "uncut_upper": number.uncut[1],
        }
        yield {name: known[name] if name in known else getattr(number, name) for name in NUMBER}


def quantile_columns(quantiles: Iterable[Quantile]) -> dict[str, float]:
    """The ends of the intervals of some quantiles, by column."""
    return {
        f"{QUANTILES[quantile.level]}_{end}": getattr(quantile, end)
        for quantile in quantiles
        for end in ("lower", "upper")
    }


def table_rows(estimates: Iterable[Figure]) -> Iterator[dict[str, Any]]:
    """The rows of estimates, with a value for each of `COLUMNS`; withheld ones without numbers."""
    for figure in estimates:
        about = {**subject_row(figure), "segment": segment_text(figure.segment)}
        numbers: Iterable[dict[str, Any]] = [{}]
        if figure.estimate is None:
            about |= {"kind": figure.metric.kind, "unit": figure.metric.unit}
        else:
            about |= {name: getattr(figure, name, None) for name in FIGURE}
            about |= quantile_columns(getattr(figure, "quantiles", ()))
            numbers = number_rows(figure.estimate)
        for number in numbers:
            yield _EMPTY | about | number


# Frames


def to_frame(estimate: Estimate | HistogramEstimate, backend: str = "pyarrow") -> Any:
    """One estimate as a frame of `backend`: "pyarrow", "pandas" or "polars". Columns of the subject stay empty."""
    return _frame((dict.fromkeys((*SUBJECT, *FIGURE)) | number for number in number_rows(estimate)), backend)


def estimates_to_frame(estimates: Iterable[Figure], backend: str = "pyarrow") -> Any:
    """Estimates as a frame of `backend` ("pyarrow", "pandas" or "polars"): a row per number."""
    return _frame(table_rows(estimates), backend)


def _frame(rows: Iterable[dict[str, Any]], backend: str) -> Any:
    if backend not in BACKENDS:
        raise ParameterError("backend", f"one of {', '.join(BACKENDS)}", backend)
    pa = _module("pyarrow")
    types = {
        "text": pa.string(),
        "json": pa.string(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "timestamp": pa.timestamp("s", "UTC"),
    }
    schema = pa.schema([(column.name, types[column.type]) for column in COLUMNS])
    rows = iter(rows)
    parts = []
    # Some at a time: all at once would keep every other thread of a collector waiting.
    while some := list(islice(rows, ROWS_AT_ONCE)):
        for row in some:  # what comes from one estimate alone has no times
            row |= {name: row[name] and datetime.fromisoformat(row[name]) for name in _TIMES}
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
    try:
        return import_module(name)
    except ImportError as missing:
        raise MissingPackageError("reticent-collector[arrow]", name) from missing


def arrow_bytes(estimates: Iterable[Figure]) -> bytes:
    """The table as an Arrow stream."""
    table = estimates_to_frame(estimates)
    pa = _module("pyarrow")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


# CSV

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\0", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Those of ASCII, and their full-width forms."""


def csv_text(estimates: Iterable[Figure]) -> str:
    """The table as CSV, with a header line; texts are safe in a spreadsheet, numbers unchanged."""
    return rows_as_csv([column.name for column in COLUMNS], table_rows(estimates))


def rows_as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """
    Rows as CSV; what is a list or an object becomes JSON, and nothing where there is no number.

    >>> row = {"tags": {"os": "linux"}, "text": "=1+1", "n": float("nan")}
    >>> print(rows_as_csv([*row], [row]), end="")
    tags,text,n
    "{""os"":""linux""}",'=1+1,
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in columns])
    return text.getvalue()


def _cell(content: Any) -> Any:
    if isinstance(content, str):
        return safe_text(content)
    if isinstance(content, float):
        return None if isnan(content) else content
    if isinstance(content, list | dict):
        return json.dumps(content, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return content


@lru_cache(maxsize=4096)
def safe_text(text: str) -> str:
    """
    A text with an apostrophe before it where a spreadsheet would take it for a formula (OWASP ASVS 5.0,
    1.2.10).

    A carriage return becomes a line feed: Python's `csv` does not quote it, and what follows would begin a
    cell.

    >>> safe_text("minute"), safe_text("=1+1"), safe_text("a\\r=1+1")
    ('minute', "'=1+1", 'a\\n=1+1')
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{lines}" if text.startswith(_FORMULA) else lines
