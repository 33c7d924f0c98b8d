"""Estimates from the rows of the results table, as `reticent_collector.estimates.table` makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

from reticent.errors import ParameterError
from reticent_collector.columns import NUMBER
from reticent_collector.estimates.estimator import Estimate, HistogramEstimate


def estimate_from_rows(rows: Sequence[Mapping[str, Any]]) -> Estimate | HistogramEstimate:
    """The estimate of some rows, each with the columns `NUMBER`: a number, or a histogram with all its buckets."""
    missing = [name for name in NUMBER if rows and name not in rows[0]]
    if missing or not rows:
        raise ParameterError(
            "rows of an estimate", f"the columns {', '.join(NUMBER)}", f"no {', '.join(missing) or 'rows'}"
        )
    if len(rows) == 1 and rows[0]["bucket"] is None:
        return _number(rows[0], rows[0]["unit"] or "")
    ordered = sorted(rows, key=lambda row: -1 if row["bucket"] is None else int(row["bucket"]))
    places = [None if row["bucket"] is None else int(row["bucket"]) for row in ordered]
    if places != list(range(len(rows))):
        raise ParameterError("bucket", f"each of 0 to {len(rows) - 1} once", places)
    first = ordered[0]
    return HistogramEstimate(
        tuple(_number(row, (row["unit"] or "") if row["kind"] == "split" else "") for row in ordered),
        int(first["devices"]),
        first["confidence"],
        first["unit"] or "",
    )


def _number(row: Mapping[str, Any], unit: str) -> Estimate:
    return Estimate(
        value=nan if row["value"] is None else row["value"],
        lower=row["lower"],
        upper=row["upper"],
        confidence=row["confidence"],
        reports=int(row["reports"]),
        devices=int(row["devices"]),
        unit=unit,
        span=(row["span_lower"], row["span_upper"]),
        uncut=(row["uncut_lower"], row["uncut_upper"]),
        noise_share=row["noise_share"],
        paper_bound=row["paper_bound"],
        manipulation=row["manipulation"],
        together=int(row["together"]),
        kind=row["kind"],
        rule=row["rule"],
        label=row["label"] or "",
        edges=None if row["bucket_low"] is None else (row["bucket_low"], row["bucket_high"]),
    )
