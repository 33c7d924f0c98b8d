"""
`Difference`: one figure less another, over the rounds that both have.

A change is a figure in one period less the same in an earlier one (docs/how-to/read-an-interval.md). Compared are
sealed rounds, over all versions of a plan in which the metric has the same parameters, at the same places of the two
periods: the second round of a day with the second round of the other day. The difference of two tags is about one
period. A round that one side lacks is left out of both, so a collector that was down in the evening, or an unfinished
week, does not look like a change of the devices.

The interval is that of `estimates.difference`, from the counts of each round; its rule says where it is about the
devices that answered only. A difference is clear when its interval does not hold 0. For a histogram or choice all
intervals hold at once: where nothing differs, no bucket is clear in at least 95 of 100 cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple

from reticent.plan import Metric
from reticent_collector.columns import COMPARISON, time_text
from reticent_collector.counts import Counts
from reticent_collector.estimates import Estimate, HistogramEstimate
from reticent_collector.estimates.pooling import compared
from reticent_collector.estimates.table import subject_row
from reticent_collector.figures import Unit
from reticent_collector.results.periods import Period
from reticent_collector.results.result import Result, Subject

OTHER_DEVICES = (
    "Devices with another tag are other devices: a difference of versions is not the effect of a version."
)
"""What to say beside a difference of tags."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure less another: in another period, or of devices with another tag."""

    figure: Result  #: of the rounds that are compared
    baseline: Result  #: what is subtracted, of the rounds that are compared
    estimate: Estimate | HistogramEstimate  #: the figure less the baseline; for a histogram, of each bucket

    @property
    def of_tags(self) -> bool:
        """Whether it compares tags, and not periods."""
        return self.figure.segment != self.baseline.segment

    @property
    def numbers(self) -> tuple[Estimate, ...]:
        """The differences as single numbers: one for a mean, one per bucket for a histogram."""
        return numbers_of(self.estimate)

    @property
    def clear(self) -> bool:
        """Whether the interval, or that of any bucket, does not hold 0."""
        return any(map(is_clear, self.numbers))

    @property
    def brief(self) -> str:
        """The difference in a few words; of a histogram, in how many buckets it is clear."""
        noun = "difference" if self.of_tags else "change"
        if isinstance(self.estimate, Estimate):
            return change_in_words(self.estimate, noun)
        clear, count = sum(map(is_clear, self.numbers)), len(self.numbers)
        return (
            f"clear {noun} in {clear} of {count} buckets"
            if clear
            else f"no clear {noun} in any of {count} buckets"
        )

    @property
    def part(self) -> str:
        """How many rounds are compared, unless it is all of them."""
        rounds, possible = self.figure.rounds, self.figure.period.possible_rounds
        return f"{rounds:,} of {possible:,} rounds compared" if rounds < possible else ""

    @property
    def words(self) -> str:
        """The difference in words: "↑ 240 ± 470 seconds: no clear change"."""
        buckets = ""
        if self.clear and isinstance(self.estimate, HistogramEstimate):
            names = zip(self.estimate.names, self.numbers, strict=True)
            clear = (f"{name} {number_in_words(number)}" for name, number in names if is_clear(number))
            buckets = f": {'; '.join(clear)}"
        return f"{self.brief}{buckets}{f' ({self.part})' if self.part else ''}"

    def to_dict(self) -> dict[str, Any]:
        """An entry of `GET /v1/changes` and `GET /v1/differences`."""
        plain = self.estimate.to_dict()
        if isinstance(self.estimate, HistogramEstimate):
            noun = "difference" if self.of_tags else "change"
            plain["buckets"] = [
                {**bucket, "clear": is_clear(number), "words": change_in_words(number, noun)}
                for bucket, number in zip(plain["buckets"], self.numbers, strict=True)
            ]
        baseline = self.baseline
        times = {"start_time": time_text(baseline.start), "end_time": time_text(baseline.end)}
        subtracted = {"segment": dict(baseline.segment), **times, **_values(baseline.estimate)}
        names = ("figure", "baseline") if self.of_tags else ("after", "before")
        return {
            **Subject.to_dict(self.figure),
            "versions": list(self.figure.added),
            **dict(zip(names, (_values(self.figure.estimate), subtracted), strict=True)),
            **plain,
            "clear": self.clear,
            "words": self.words,
            "rounds": self.figure.rounds,
            "rounds_missing": self.figure.rounds_missing,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """The difference as rows of a table, one for a mean and one per bucket of a histogram."""
        baseline = self.baseline
        shared = {
            **subject_row(self.figure),
            "kind": self.figure.metric.kind,
            "baseline_segment": dict(baseline.segment),
            "baseline_start_time": time_text(baseline.start),
            "baseline_end_time": time_text(baseline.end),
            "rounds": self.figure.rounds,
            "rounds_missing": self.figure.rounds_missing,
            "versions": ",".join(map(str, sorted({*self.figure.added, *baseline.added}))),
        }
        sides = (numbers_of(side.estimate) for side in (self.figure, baseline))
        rows = []
        for place, (number, figure, subtracted) in enumerate(zip(self.numbers, *sides, strict=True)):
            low, high = number.edges or (None, None)
            rows.append(
                {
                    **shared,
                    "unit": number.unit,
                    "bucket": None if isinstance(self.estimate, Estimate) else place,
                    "bucket_low": low,
                    "bucket_high": high,
                    "label": number.label or None,
                    "figure": _known(figure.value),
                    "baseline": _known(subtracted.value),
                    "difference": _known(number.value),
                    "lower": number.lower,
                    "upper": number.upper,
                    "half_width": number.half_width,
                    "confidence": number.confidence,
                    "clear": is_clear(number),
                    "reports": number.reports,
                    "rule": number.rule,
                }
            )
        return rows


ROW = tuple(column.name for column in COMPARISON if column.name != "against")
"""The columns of differences in CSV."""


class Side(NamedTuple):
    """What a difference is made of, on one side."""

    period: Period
    tags: Mapping[str, str]
    rounds: Mapping[int, Counts]  #: by number
    versions: Sequence[int]  #: of the plan, whose counts are in them


def difference_of(metric: Metric, figure: Side, baseline: Side, confidence: float) -> Difference | None:
    """One side less the other, over the rounds that both have; None where there is none."""
    shift = figure.period.first - baseline.period.first
    numbers = [number for number in sorted(figure.rounds) if number - shift in baseline.rounds]
    if not numbers:
        return None
    plan = figure.period.plan
    kept = {number: figure.rounds[number] for number in numbers}
    subtracted = {number - shift: baseline.rounds[number - shift] for number in numbers}

    of_figure, of_baseline, estimate = compared(metric, kept, subtracted, confidence, plan)

    def result(side: Side, rounds: Mapping[int, Counts], average: Estimate | HistogramEstimate) -> Result:
        versions = tuple(side.versions)
        return Result(side.period, metric, side.tags, average, len(rounds), by_round=rounds, added=versions)

    return Difference(result(figure, kept, of_figure), result(baseline, subtracted, of_baseline), estimate)


def numbers_of(estimate: Estimate | HistogramEstimate) -> tuple[Estimate, ...]:
    """An estimate as single numbers: one for a mean, one per bucket for a histogram."""
    return (estimate,) if isinstance(estimate, Estimate) else estimate.buckets


def is_clear(difference: Estimate) -> bool:
    """Whether a difference has an interval that does not hold 0."""
    return difference.lower > 0 or difference.upper < 0


def change_in_words(change: Estimate, noun: str = "change") -> str:
    """A difference of one number in words."""
    return f"{number_in_words(change)}: {'clear' if is_clear(change) else 'no clear'} {noun}"


def number_in_words(change: Estimate) -> str:
    """A difference with its direction: "↑ 240 ± 470 seconds"."""
    if not change.reports:
        return "unknown"
    value = abs(change.value)
    unit = Unit.of(change.unit, max(value, change.half_width))
    text = (unit if change.kind in ("mean", "split") else Unit(0.01, "percentage points")).figure(
        value, change.half_width
    )
    if not text.partition(" ")[0].strip("0."):  # it is rounded to 0, which has no direction
        return text
    return ("↑ " if change.value > 0 else "↓ ") + text


def _known(value: float) -> float | None:
    """A number for a table; nothing where no device was asked."""
    return None if isnan(value) else value


def _values(estimate: Estimate | HistogramEstimate) -> Mapping[str, Any]:
    """A value with its interval, or the values of the buckets alone."""
    plain = estimate.to_dict()
    if isinstance(estimate, Estimate):
        return {name: plain[name] for name in ("value", "lower", "upper", "half_width")}
    return {"values": [bucket["value"] for bucket in plain["buckets"]]}
