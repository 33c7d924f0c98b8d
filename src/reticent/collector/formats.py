"""Estimates as a flat table: CSV and Arrow. A histogram is one row per bucket."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from reticent.errors import MissingExtraError
from reticent.estimates import Estimate
from reticent.results import Result

COLUMNS = [
    "plan",
    "version",
    "metric",
    "kind",
    "unit",
    "round",
    "start",
    "end",
    "state",
    "segment",
    "bucket_low",
    "bucket_high",
    "value",
    "lower",
    "upper",
    "confidence",
    "reports",
    "half_width",
    "noise_half_width",
    "sampling_half_width",
    "paper_bound",
    "manipulation",
]

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\0", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Those of ASCII, and their full-width forms."""


def rows(found: Iterable[Result]) -> Iterator[dict[str, Any]]:
    """One row per number."""
    for each in found:
        numbers = [each.estimate] if isinstance(each.estimate, Estimate) else each.estimate.buckets
        for number in numbers:
            low, high = number.edges or (None, None)
            yield {
                "plan": each.plan,
                "version": each.version,
                "metric": each.metric.name,
                "kind": each.metric.kind,
                "unit": each.metric.unit,
                "round": each.round,
                "start": each.start,
                "end": each.end,
                "state": each.state,
                "segment": ";".join(f"{name}:{tag}" for name, tag in each.segment.items()),
                "bucket_low": low,
                "bucket_high": high,
                **{name: getattr(number, name) for name in COLUMNS[12:]},
            }


def csv_text(found: Iterable[Result]) -> str:
    """The table as CSV, with a header line."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_safe(row) for row in rows(found))
    return text.getvalue()


def arrow_table(found: Iterable[Result]) -> Any:
    """The table as a `pyarrow.Table`."""
    try:
        import pyarrow as pa
    except ImportError as missing:
        raise MissingExtraError("arrow", "pyarrow") from missing
    texts = dict.fromkeys(("plan", "metric", "kind", "unit", "state", "segment"), pa.string())
    whole = dict.fromkeys(("version", "round", "start", "end", "reports"), pa.int64())
    schema = pa.schema([(name, {**texts, **whole}.get(name, pa.float64())) for name in COLUMNS])
    return pa.Table.from_pylist(list(rows(found)), schema=schema)


def arrow_bytes(found: Iterable[Result]) -> bytes:
    """The table as an Arrow stream."""
    table = arrow_table(found)
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _safe(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose texts are texts to a spreadsheet too; numbers stay as they are, negative ones as well."""
    return {name: _text(value) if isinstance(value, str) else value for name, value in row.items()}


def _text(text: str) -> str:
    """
    A text with an apostrophe before it where a spreadsheet would take it for a formula.

    That is OWASP's advice (ASVS 5.0, 1.2.10), and so is the list of what such a text begins with. A carriage
    return becomes a line feed: Python's `csv` does not quote it, and what follows would begin a cell.

    >>> _text("minute"), _text("=1+1"), _text("a\\r=1+1")
    ('minute', "'=1+1", 'a\\n=1+1')
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{lines}" if text.startswith(_FORMULA) else lines
