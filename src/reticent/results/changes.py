"""
Changes: one period less the one before it, by the one rule for comparing (docs/how-to/read-an-interval.md).

The rounds that are compared are sealed, of one version of a plan, and lie at the same places of two periods that
follow each other: the second round of a day with the second round of the day before. A round that one of them
lacks is left out of both. So a collector that was down in the evening, or a week that is not over, does not look
like a change of the devices.

The interval is that of `reticent.estimates.difference`. It speaks of the devices that answered. A change is clear
when its interval does not hold 0; for a histogram or choice all intervals hold at once, so where nothing changed,
no bucket is clear in at least 95 of 100 cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reticent.columns import time_text
from reticent.estimates import Estimate, HistogramEstimate, figure

if TYPE_CHECKING:
    from reticent.results.reader import Result


@dataclass(frozen=True, slots=True)
class Change:
    """How a metric changed from one period to the next, in one segment."""

    after: Result  #: the later period; of its rounds those that are compared
    before: Result
    estimate: Estimate | HistogramEstimate
    """The later value less the earlier, with its interval; of each bucket for a histogram or choice."""

    @property
    def numbers(self) -> tuple[Estimate, ...]:
        """The changes one by one: one of a mean, one per bucket of a histogram."""
        return (self.estimate,) if isinstance(self.estimate, Estimate) else self.estimate.buckets

    @property
    def clear(self) -> bool:
        """Whether 0 is outside of the interval, or of that of any bucket."""
        return any(map(is_clear, self.numbers))

    @property
    def words(self) -> str:
        """The change in words: "↑ 240 ± 470 seconds: no clear change"."""
        compared, possible = len(self.after.by_round), self.after.period.possible_rounds
        part = f" ({compared:,} of {possible:,} rounds compared)" if compared < possible else ""
        if isinstance(self.estimate, Estimate):
            return change_in_words(self.estimate) + part
        clear = [
            f"{name} {_number_in_words(number)}"
            for name, number in zip(self.estimate.names, self.estimate.buckets, strict=True)
            if is_clear(number)
        ]
        if not clear:
            return f"no clear change in any of {len(self.numbers)} buckets{part}"
        return f"clear change in {len(clear)} of {len(self.numbers)} buckets: {'; '.join(clear)}{part}"

    def to_dict(self) -> dict[str, Any]:
        """What `GET /v1/changes` answers."""
        plain = self.estimate.to_dict()
        if isinstance(self.estimate, HistogramEstimate):
            plain["buckets"] = [
                {**bucket, "clear": is_clear(number), "words": change_in_words(number)}
                for bucket, number in zip(plain["buckets"], self.numbers, strict=True)
            ]
        before = self.before.period
        return {
            **self.after.about(),
            "before": {
                "start_time": time_text(before.start),
                "end_time": time_text(before.end),
                **_values(self.before.estimate),
            },
            "after": _values(self.after.estimate),
            **plain,
            "clear": self.clear,
            "words": self.words,
            "rounds": len(self.after.by_round),
            "rounds_missing": self.after.period.possible_rounds - len(self.after.by_round),
        }


def _values(estimate: Estimate | HistogramEstimate) -> Mapping[str, Any]:
    """A value, or those of the buckets, without their intervals: those are in `GET /v1/estimates`."""
    plain = estimate.to_dict()
    if isinstance(estimate, Estimate):
        return {name: plain[name] for name in ("value", "lower", "upper", "half_width")}
    return {"values": [bucket["value"] for bucket in plain["buckets"]]}


def is_clear(change: Estimate) -> bool:
    """Whether a change has an interval that does not hold 0."""
    return change.lower > 0 or change.upper < 0


def change_in_words(change: Estimate) -> str:
    """A change of one number as people read it."""
    return f"{_number_in_words(change)}: {'clear change' if is_clear(change) else 'no clear change'}"


def _number_in_words(change: Estimate) -> str:
    if not change.reports:
        return "unknown"
    is_share = bool(change.label or change.edges or change.kind == "flag")
    scale, unit = (100, "percentage points") if is_share else (1, change.unit)
    arrow = "↑ " if change.value > 0 else "↓ " if change.value < 0 else ""
    return arrow + figure(abs(scale * change.value), scale * change.half_width, unit)
