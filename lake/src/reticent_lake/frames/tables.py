"""Read estimates back from the tables of `reticent_collector.estimates.table`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

from reticent.errors import ParameterError
from reticent_collector.columns import COLUMNS, SUBJECT, seconds_of
from reticent_collector.estimates import Estimate, HistogramEstimate
from reticent_collector.estimates.table import frame_rows


@dataclass(frozen=True, slots=True)
class Estimated:
    """The estimate of one metric in one period and segment, from the rows of a table."""

    plan: str
    version: int
    metric: str
    every: str  #: what it is of: "round", "window", "day", "week" or "month"
    start: int  #: unix seconds
    end: int
    state: str  #: "open": provisional; "sealed": final
    segment: Mapping[str, str]  #: the tags it is about; empty for the whole fleet
    round: int  #: the number of the first round
    to: int  #: the number of the last round
    estimate: Estimate | HistogramEstimate


def estimates_from_frame(frame: Any) -> list[Estimated]:
    """The estimates of a frame of `estimates_to_frame`, in the order of their rows, without withheld figures."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in frame_rows(frame):
        missing = [name for name in SUBJECT if row.get(name) is None]
        if missing:
            raise ParameterError("frame", f"the columns {', '.join(SUBJECT)}", f"no {', '.join(missing)}")
        if row.get("reports") is not None:  # else it was withheld
            groups.setdefault(tuple(row[name] for name in SUBJECT), []).append(row)
    return [
        Estimated(
            plan, int(version), metric, every, seconds_of(start), seconds_of(end), state,
            json.loads(segment), int(first), int(last), _estimate(rows),
        )
        for (plan, version, metric, every, start, end, state, segment, first, last), rows in groups.items()
    ]  # fmt: skip


def from_frame(frame: Any) -> Estimate | HistogramEstimate:
    """The one estimate in a frame of PyArrow, pandas or Polars; the inverse of its `to_frame`."""
    return _estimate(frame_rows(frame))


def _estimate(rows: Sequence[Mapping[str, Any]]) -> Estimate | HistogramEstimate:
    """The estimate of some rows: a number, or a histogram with all its buckets."""
    names = [column.name for column in COLUMNS]
    missing = [name for name in names if rows and name not in rows[0]]
    if missing or not rows:
        raise ParameterError(
            "rows of an estimate", f"the columns {', '.join(names)}", f"no {', '.join(missing) or 'rows'}"
        )
    if len(rows) == 1 and rows[0]["bucket"] is None:
        return _number(rows[0], rows[0]["unit"] or "")
    ordered = sorted(rows, key=lambda row: -1 if row["bucket"] is None else int(row["bucket"]))
    places = [None if row["bucket"] is None else int(row["bucket"]) for row in ordered]
    if places != list(range(len(rows))):
        raise ParameterError("bucket", f"each of 0 to {len(rows) - 1} once", places)
    first = ordered[0]
    return HistogramEstimate(
        tuple(_number(row, "") for row in ordered),  # shares have no unit
        int(first["devices"]),
        first["confidence"],
        first["unit"] or "",
    )


def _number(row: Mapping[str, Any], unit: str) -> Estimate:
    same = ("lower", "upper", "confidence", "noise_share", "paper_bound", "manipulation")
    return Estimate(
        value=nan if row["value"] is None else row["value"],
        **{name: row[name] for name in same},
        **{name: int(row[name]) for name in ("reports", "devices", "together")},
        rule=row["rule"],
        kind=row["kind"],
        label=row["label"] or "",
        unit=unit,
        span=(row["span_lower"], row["span_upper"]),
        uncut=(row["uncut_lower"], row["uncut_upper"]),
        edges=None if row["bucket_low"] is None else (row["bucket_low"], row["bucket_high"]),
    )
