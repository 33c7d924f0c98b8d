"""Many estimates as one table, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from reticent.errors import ParameterError
from reticent.estimates import Estimate, HistogramEstimate
from reticent.estimates.frame import frame_of, from_rows, rows_of, to_rows

ABOUT = {"plan": "string", "version": "int64", "round": "int64", "metric": "string", "segment": "string"}
"""What stands before the columns of each estimate (`reticent.estimates.frame.COLUMNS`); `segment` is JSON."""


class HasEstimate(Protocol):
    """An estimate and what it is of: `Estimated`, or what `Results.estimates` gives."""

    @property
    def plan(self) -> str: ...  # noqa: D102
    @property
    def version(self) -> int: ...  # noqa: D102
    @property
    def metric(self) -> Any: ...  # noqa: D102
    @property
    def round(self) -> int: ...  # noqa: D102
    @property
    def segment(self) -> Mapping[str, str]: ...  # noqa: D102
    @property
    def estimate(self) -> Estimate | HistogramEstimate: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Estimated:
    """The estimate of one metric in one round and segment."""

    plan: str
    version: int
    metric: str
    round: int
    estimate: Estimate | HistogramEstimate
    segment: Mapping[str, str] = field(default_factory=dict)
    """The tags it is about; empty for the whole fleet."""


def estimates_to_frame(found: Iterable[HasEstimate], backend: str = "pyarrow") -> Any:
    """
    Estimates as a frame of `backend` ("pyarrow", "pandas" or "polars"): a row per number.

    Takes what `CountsFile.estimates` and `Results.estimates` give.
    """
    return frame_of([row for each in found for row in _rows(each)], ABOUT, backend)


def _rows(found: HasEstimate) -> list[dict[str, Any]]:
    about = {
        "plan": found.plan,
        "version": found.version,
        "round": found.round,
        "metric": getattr(found.metric, "name", found.metric),
        "segment": json.dumps(dict(found.segment), ensure_ascii=False),
    }
    return [{**about, **row} for row in to_rows(found.estimate)]


def estimates_from_frame(frame: Any) -> list[Estimated]:
    """The estimates of such a frame, in the order in which they first stand there."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows_of(frame):
        if missing := [name for name in ABOUT if name not in row]:
            raise ParameterError("frame", f"the columns {', '.join(ABOUT)}", f"no {', '.join(missing)}")
        groups.setdefault(tuple(row[name] for name in ABOUT), []).append(row)
    return [
        Estimated(plan, int(version), metric, int(number), from_rows(rows), json.loads(segment))
        for (plan, version, number, metric, segment), rows in groups.items()
    ]
