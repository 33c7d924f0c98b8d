"""Read estimates back from the tables of `reticent_collector.estimates.table`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reticent.errors import ParameterError
from reticent_collector.columns import SUBJECT, seconds_of
from reticent_collector.estimates import Estimate, HistogramEstimate
from reticent_collector.estimates.from_rows import estimate_from_rows
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
            json.loads(segment), int(first), int(last), estimate_from_rows(rows),
        )
        for (plan, version, metric, every, start, end, state, segment, first, last), rows in groups.items()
    ]  # fmt: skip


def from_frame(frame: Any) -> Estimate | HistogramEstimate:
    """The one estimate in a frame of PyArrow, pandas or Polars; the inverse of its `to_frame`."""
    return estimate_from_rows(frame_rows(frame))
