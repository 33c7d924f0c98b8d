"""Estimates as rows of a table, and back: one row per number, so a histogram is a row per bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reticent.errors import MissingExtraError, ParameterError
from reticent.estimates.estimate import Estimate, HistogramEstimate

WHOLE = ("bucket", "reports", "devices", "together")
TEXTS = ("unit", "edge_unit")
COLUMNS = (
    "bucket", "left", "right", "value", "lower", "upper", "confidence", "reports", "devices", "unit",
    "edge_unit", "span_lower", "span_upper", "uncut_lower", "uncut_upper", "half_width", "noise_share",
    "paper_bound", "manipulation", "together",
)  # fmt: skip
"""
What a row holds. `bucket` counts from 0 and is null for a number that is no bucket of a histogram; `left`
and `right` are its edges, in `edge_unit`. The rest are the fields of `Estimate` and its half-width.
"""
BACKENDS = ("pyarrow", "pandas", "polars")


def to_rows(estimate: Estimate | HistogramEstimate) -> list[dict[str, Any]]:
    """The rows of an estimate."""
    if isinstance(estimate, Estimate):
        return [_row(estimate, None, None)]
    return [_row(bucket, place, estimate.unit) for place, bucket in enumerate(estimate.buckets)]


def _row(number: Estimate, bucket: int | None, edge_unit: str | None) -> dict[str, Any]:
    left, right = number.edges or (None, None)
    return {
        "bucket": bucket,
        "left": left,
        "right": right,
        "value": number.value,
        "lower": number.lower,
        "upper": number.upper,
        "confidence": number.confidence,
        "reports": number.reports,
        "devices": number.devices,
        "unit": number.unit,
        "edge_unit": edge_unit,
        "span_lower": number.span[0],
        "span_upper": number.span[1],
        "uncut_lower": number.uncut[0],
        "uncut_upper": number.uncut[1],
        "half_width": number.half_width,
        "noise_share": number.noise_share,
        "paper_bound": number.paper_bound,
        "manipulation": number.manipulation,
        "together": number.together,
    }


def from_rows(rows: Sequence[Mapping[str, Any]]) -> Estimate | HistogramEstimate:
    """The estimate that such rows hold: a number, or a histogram of which all buckets are there."""
    missing = [name for name in COLUMNS if rows and name not in rows[0]]
    if missing or not rows:
        raise ParameterError(
            "rows of an estimate", f"the columns {', '.join(COLUMNS)}", f"no {', '.join(missing) or 'rows'}"
        )
    if len(rows) == 1 and rows[0]["bucket"] is None:
        return _number(rows[0])
    ordered = sorted(rows, key=lambda row: -1 if row["bucket"] is None else int(row["bucket"]))
    places = [None if row["bucket"] is None else int(row["bucket"]) for row in ordered]
    if places != list(range(len(rows))):
        raise ParameterError("bucket", f"each of 0 to {len(rows) - 1} once", places)
    first = ordered[0]
    return HistogramEstimate(
        tuple(_number(row) for row in ordered),
        int(first["devices"]),
        first["confidence"],
        first["edge_unit"] or "",
    )


def _number(row: Mapping[str, Any]) -> Estimate:
    return Estimate(
        value=row["value"],
        lower=row["lower"],
        upper=row["upper"],
        confidence=row["confidence"],
        reports=int(row["reports"]),
        devices=int(row["devices"]),
        unit=row["unit"] or "",
        span=(row["span_lower"], row["span_upper"]),
        uncut=(row["uncut_lower"], row["uncut_upper"]),
        noise_share=row["noise_share"],
        paper_bound=row["paper_bound"],
        manipulation=row["manipulation"],
        together=int(row["together"]),
        edges=None if row["left"] is None else (row["left"], row["right"]),
    )


def to_frame(estimate: Estimate | HistogramEstimate, backend: str = "pyarrow") -> Any:
    """An estimate as a frame of `backend`: "pyarrow", "pandas" or "polars"."""
    return frame_of(to_rows(estimate), {}, backend)


def from_frame(frame: Any) -> Estimate | HistogramEstimate:
    """The one estimate that a frame of any of these libraries holds; the inverse of `to_frame`."""
    return from_rows(rows_of(frame))


def frame_of(rows: Sequence[Mapping[str, Any]], before: Mapping[str, str], backend: str = "pyarrow") -> Any:
    """Rows as a frame: first the columns `before`, by name and Arrow type, then those of an estimate."""
    if backend not in BACKENDS:
        raise ParameterError("backend", f"one of {', '.join(BACKENDS)}", backend)
    pa = _module("pyarrow")
    types = {**dict.fromkeys(WHOLE, "int64"), **dict.fromkeys(TEXTS, "string")}
    named = {**before, **{name: types.get(name, "float64") for name in COLUMNS}}
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in named.items()])
    table = pa.Table.from_pylist(list(rows), schema=schema)
    if backend == "pandas":
        pandas = _module("pandas")
        frame = table.to_pandas()
        return frame.assign(bucket=pandas.array(table["bucket"].to_pylist(), dtype="Int64"))
    return _module("polars").from_arrow(table) if backend == "polars" else table


def rows_of(frame: Any) -> list[dict[str, Any]]:
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
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as missing:
        raise MissingExtraError("arrow", name) from missing
