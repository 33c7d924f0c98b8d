"""
One answer about a metric in a period: a `Result`, `Withheld` where there are too few reports, or a `Change`.

A change is one period less the one before it (docs/how-to/read-an-interval.md). Compared are sealed rounds, over all
versions of a plan in which the metric has the same parameters, at the same places of two successive periods: the
second round of a day with the second round of the day before. A round that one of them lacks is left out of both, so
a collector that was down in the evening, or an unfinished week, does not look like a change of the devices. The
interval is that of `estimates.difference`; its rule says where it is about the devices that answered only. A change
is clear when its interval does not hold 0. For a histogram or choice all intervals hold at once: where nothing
changed, no bucket is clear in at least 95 of 100 cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any

from reticent.plan import Metric, Plan
from reticent_collector.columns import time_text
from reticent_collector.counts import ABOUT, Counts
from reticent_collector.estimates import Estimate, HistogramEstimate, cumulative
from reticent_collector.estimates.cohort_balance import Balance, balance
from reticent_collector.estimates.distribution import CumulativeEstimate, Quantile
from reticent_collector.estimates.table import subject_row
from reticent_collector.figures import Unit
from reticent_collector.results.periods import Every, Period, PeriodState


@dataclass(frozen=True, slots=True)
class Subject:
    """What a figure is about: a metric, in a period, in a segment."""

    period: Period
    metric: Metric
    segment: Mapping[str, str]  #: the chosen tags; empty for the whole fleet

    # These have the names that tables use.

    @property
    def plan(self) -> str:
        """The name of the plan."""
        return self.period.plan.name

    @property
    def version(self) -> int:
        """The newest version of the plan with reports in the period."""
        return self.period.plan.version

    @property
    def every(self) -> Every:
        """What kind of period it is."""
        return self.period.every

    @property
    def round(self) -> int:
        """The first round of the period."""
        return self.period.first

    @property
    def to(self) -> int:
        """The last round of the period."""
        return self.period.last

    @property
    def start(self) -> int:
        """When the period begins, in unix seconds."""
        return self.period.start

    @property
    def end(self) -> int:
        """When the period ends, in unix seconds."""
        return self.period.end

    @property
    def state(self) -> PeriodState:
        """Whether it is "open" (provisional: reports still come in), "sealed" (final) or "damaged"."""
        return self.period.state

    def to_dict(self) -> dict[str, Any]:
        """The subject as in `GET /v1/estimates`, without the figure."""
        return {**subject_row(self), "kind": self.metric.kind}


@dataclass(frozen=True, slots=True)
class Result(Subject):
    """The estimate of one metric in one period and segment: a figure of the table of results, or one like it."""

    estimate: Estimate | HistogramEstimate
    rounds: int  #: that it is made of
    median: Quantile | None = None  #: of a histogram
    balance: Balance | None = None
    """The reports of each row against chance; None for several rounds with memoization, where rows repeat."""
    by_round: Mapping[int, Counts] = field(default_factory=dict)
    """The counts that it is made of, by round; none where it was read from the table: see `Results.with_counts`."""
    added: tuple[int, ...] = ()  #: the versions of the plan whose counts are in it, in order; empty: its own

    @classmethod
    def of_counts(
        cls,
        period: Period,
        metric: Metric,
        segment: Mapping[str, str],
        estimate: Estimate | HistogramEstimate,
        by_round: Mapping[int, Counts],
        added: tuple[int, ...] = (),
    ) -> Result:
        """All that is said of a figure, from its counts."""
        result = cls(period, metric, segment, estimate, len(by_round), by_round=by_round, added=added)
        has_balance = len(by_round) == 1 or period.plan.answers.sampled
        return replace(
            result,
            median=result.cumulative.quantile(0.5) if metric.kind == "histogram" else None,
            balance=balance(metric, result.counts) if has_balance else None,
        )

    @property
    def counts(self) -> Counts:
        """The counts of all its rounds. With memoization, they are not that many independent reports."""
        return reduce(add, self.by_round.values())

    @property
    def rounds_missing(self) -> int:
        """Rounds of the period that are not in it: without enough reports, or not over yet."""
        return self.period.possible_rounds - self.rounds

    @property
    def cumulative(self) -> CumulativeEstimate:
        """The cumulative histogram, for quantiles; only for histograms, and with counts."""
        return cumulative(
            self.metric, self.by_round, self.estimate.confidence, self.period.plan, self.estimate
        )

    # The columns `FIGURE` of tables

    @property
    def versions(self) -> str:
        """The versions of the plan whose counts are in it: "1,2"."""
        return ",".join(map(str, self.added or (self.version,)))

    @property
    def median_lower(self) -> float | None:
        """The lower end of the median's interval."""
        return self.median.lower if self.median else None

    @property
    def median_upper(self) -> float | None:
        """The upper end of the median's interval."""
        return self.median.upper if self.median else None

    @property
    def cohort_p_value(self) -> float | None:
        """The probability that honest devices answer the rows of a histogram as unevenly."""
        return self.balance.p_value if self.balance else None

    def to_dict(self) -> dict[str, Any]:
        """The answer of `GET /v1/estimates`."""
        median = {"median_lower": self.median_lower, "median_upper": self.median_upper} if self.median else {}
        return {
            **Subject.to_dict(self),
            "versions": list(self.added or (self.version,)),
            "rounds": self.rounds,
            "rounds_missing": self.rounds_missing,
            **median,
            **self.estimate.to_dict(),
            **({"balance": self.balance.to_dict()} if self.balance else {}),
        }


@dataclass(frozen=True, slots=True)
class Withheld(Subject):
    """A figure that is not shown, since there are too few reports for it, or none."""

    @property
    def estimate(self) -> None:
        """There is none."""

    @property
    def reason(self) -> str:
        """Why, in the same words for any number of reports that is too small."""
        if self.period.possible_rounds == 1:
            return reason_of(self.period.plan, self.state)
        yet = "" if self.state == "sealed" else " to show yet"
        return f"no round has {self.period.plan.min_reports:,} reports{yet}"

    def to_dict(self) -> dict[str, Any]:
        """The entry in `withheld` of `GET /v1/estimates`."""
        return {**Subject.to_dict(self), "unit": self.metric.unit, "reports": None, "reason": self.reason}


def reason_of(plan: Plan, state: PeriodState) -> str:
    """Why nothing is shown of a round, in the same words for any number of reports that is too small."""
    if state == "damaged":
        return "damaged: see reticent store check"
    least = f"{plan.min_reports:,} reports"
    return (
        f"fewer than {least}" if state == "sealed" else f"an open round is shown in steps of at least {least}"
    )


class Estimates(list[Result]):
    """Estimates, latest first, and the `withheld` figures."""

    def __init__(self, figures: Iterable[Result | Withheld] = ()) -> None:
        self.withheld: list[Withheld] = []
        for shown in figures:
            if isinstance(shown, Result):
                self.append(shown)
            else:
                self.withheld.append(shown)

    def to_dict(self) -> dict[str, Any]:
        """The answer of `GET /v1/estimates`."""
        estimates, withheld = ([shown.to_dict() for shown in figures] for figures in (self, self.withheld))
        return {"about": ABOUT, "estimates": estimates, "withheld": withheld}

    @property
    def rows(self) -> list[Result | Withheld]:
        """All figures, for a table; withheld ones come last."""
        return [*self, *self.withheld]


@dataclass(frozen=True, slots=True)
class Change:
    """How a metric changed from one period to the next, in one segment."""

    after: Result  #: the later period, of the rounds that are compared
    before: Result
    estimate: (
        Estimate | HistogramEstimate
    )  #: the later value less the earlier; for a histogram, of each bucket

    @property
    def numbers(self) -> tuple[Estimate, ...]:
        """The changes as single numbers: one for a mean, one per bucket for a histogram."""
        return (self.estimate,) if isinstance(self.estimate, Estimate) else self.estimate.buckets

    @property
    def clear(self) -> bool:
        """Whether the interval, or that of any bucket, does not hold 0."""
        return any(map(is_clear, self.numbers))

    @property
    def brief(self) -> str:
        """The change in a few words; of a histogram, in how many buckets it is clear."""
        if isinstance(self.estimate, Estimate):
            return change_in_words(self.estimate)
        clear, count = sum(map(is_clear, self.numbers)), len(self.numbers)
        return (
            f"clear change in {clear} of {count} buckets"
            if clear
            else f"no clear change in any of {count} buckets"
        )

    @property
    def part(self) -> str:
        """How many rounds are compared, unless it is all of them."""
        compared, possible = self.after.rounds, self.after.period.possible_rounds
        return f"{compared:,} of {possible:,} rounds compared" if compared < possible else ""

    @property
    def words(self) -> str:
        """The change in words: "↑ 240 ± 470 seconds: no clear change"."""
        buckets = ""
        if self.clear and isinstance(self.estimate, HistogramEstimate):
            names = zip(self.estimate.names, self.numbers, strict=True)
            clear = (f"{name} {_number_in_words(number)}" for name, number in names if is_clear(number))
            buckets = f": {'; '.join(clear)}"
        return f"{self.brief}{buckets}{f' ({self.part})' if self.part else ''}"

    def to_dict(self) -> dict[str, Any]:
        """The answer of `GET /v1/changes`."""
        plain = self.estimate.to_dict()
        if isinstance(self.estimate, HistogramEstimate):
            plain["buckets"] = [
                {**bucket, "clear": is_clear(number), "words": change_in_words(number)}
                for bucket, number in zip(plain["buckets"], self.numbers, strict=True)
            ]
        before = self.before
        times = {"start_time": time_text(before.start), "end_time": time_text(before.end)}
        return {
            **Subject.to_dict(self.after),
            "versions": list(self.after.added),
            "before": {**times, **_values(before.estimate)},
            "after": _values(self.after.estimate),
            **plain,
            "clear": self.clear,
            "words": self.words,
            "rounds": self.after.rounds,
            "rounds_missing": self.after.rounds_missing,
        }


def _values(estimate: Estimate | HistogramEstimate) -> Mapping[str, Any]:
    """A value with its interval, or the values of the buckets alone."""
    plain = estimate.to_dict()
    if isinstance(estimate, Estimate):
        return {name: plain[name] for name in ("value", "lower", "upper", "half_width")}
    return {"values": [bucket["value"] for bucket in plain["buckets"]]}


def is_clear(change: Estimate) -> bool:
    """Whether a change has an interval that does not hold 0."""
    return change.lower > 0 or change.upper < 0


def change_in_words(change: Estimate) -> str:
    """A change of one number in words."""
    return f"{_number_in_words(change)}: {'clear change' if is_clear(change) else 'no clear change'}"


def _number_in_words(change: Estimate) -> str:
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
