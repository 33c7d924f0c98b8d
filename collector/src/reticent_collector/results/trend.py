"""
Trends: does a metric rise or fall over the periods that are shown?

The last sealed period is compared with those 1, 2, 4, 8, ... steps before it, among those that are shown. A step is a
week for periods shorter than that, so that a Sunday is compared with Sundays; else the period itself. Each difference
has the interval of `results.difference` with confidence 1 - (1 - c)/(F·K), for K comparisons of each of F figures, all
metrics and tags that are shown. So with confidence c all intervals of a page hold at once, whatever the dependence, as
with remembered answers (Bonferroni): where nothing changed, a page says of no metric that it rises or falls in at
least 95 of 100 cases. How many comparisons there are depends on which periods have reports, never on an answer.

A figure rises since a period if it is clearly higher than then, and than in most of the compared periods before that:
one outlier makes no trend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from reticent.times import first_round_from
from reticent_collector.columns import time_text
from reticent_collector.estimates import Estimate
from reticent_collector.results.against import WEEK, length_of, months_before
from reticent_collector.results.difference import Difference, is_clear, number_in_words
from reticent_collector.results.periods import Period, Span, span_of
from reticent_collector.results.result import Result, Subject

Direction = Literal["rises", "falls"]

TREND_METHOD = (
    "A trend compares the last period with those 1, 2, 4, 8, ... weeks (or longer periods) before it. All intervals "
    "of all metrics shown hold at once, so where nothing changed, none is said to rise or fall in 95 of 100 cases."
)


@dataclass(frozen=True, slots=True)
class Trend:
    """Whether one number rises or falls: a mean, or the share of a bucket."""

    figure: Result  #: of the last period
    place: int  #: of the number among those of the figure
    differences: tuple[Difference, ...]  #: of the last period to earlier ones, latest first
    confidence: float  #: with which nothing is said of any number that is shown, where nothing changed

    @property
    def number(self) -> Estimate:
        """The number in the last period."""
        estimate = self.figure.estimate
        return estimate if isinstance(estimate, Estimate) else estimate.buckets[self.place]

    @property
    def since(self) -> Difference | None:
        """The difference to the latest period since which it rises or falls."""
        for place, compared in enumerate(self.differences):
            side = _side(compared.numbers[self.place])
            earlier = [_side(one.numbers[self.place]) for one in self.differences[place:]]
            if side and 2 * earlier.count(side) > len(earlier):
                return compared
        return None

    @property
    def direction(self) -> Direction | None:
        """Which way; None where no trend is clear."""
        since = self.since
        if since is None:
            return None
        return "rises" if _side(since.numbers[self.place]) > 0 else "falls"

    @property
    def whole(self) -> Difference | None:
        """The difference to the earliest period from which it clearly differs in this direction."""
        since = self.since
        if since is None:
            return None
        side = _side(since.numbers[self.place])
        return next(one for one in reversed(self.differences) if _side(one.numbers[self.place]) == side)

    @property
    def words(self) -> str:
        """The trend in words: "rises since 17 Aug 2026: ↑ 13 ± 3 percentage points against 2 Mar 2026"."""
        since = self.since
        whole = self.whole
        if since is None or whole is None:
            return "no clear trend"
        size = number_in_words(whole.numbers[self.place])
        against = _date(whole.baseline.period)
        return f"{self.direction} since {_date(since.baseline.period)}: {size} against {against}"

    def to_dict(self) -> dict[str, Any]:
        """An entry of `GET /v1/trends`."""
        since = self.since
        whole = self.whole
        number = self.number
        known = number.label or None
        return {
            **Subject.to_dict(self.figure),
            "versions": list(self.figure.added),
            **({} if isinstance(self.figure.estimate, Estimate) else {"bucket": self.place, "label": known}),
            "unit": number.unit,
            "direction": self.direction,
            "since": None if since is None else _compared(since, self.place),
            "whole": None if whole is None else _compared(whole, self.place),
            "compared": len(self.differences),
            "confidence": self.confidence,
            "words": self.words,
        }

    def to_row(self) -> dict[str, Any]:
        """The trend as a row of a table."""
        plain = self.to_dict()
        for name in ("since", "whole"):
            compared = plain[name] or {}
            plain |= {f"{name}_{part}": compared.get(part) for part in ("start_time", *_NUMBER)}
        return plain


_NUMBER = ("difference", "lower", "upper", "half_width")
ROW = (
    "plan", "version", "metric", "kind", "unit", "every", "start_time", "end_time", "segment", "bucket", "label",
    "direction", *(f"{name}_{part}" for name in ("since", "whole") for part in ("start_time", *_NUMBER)), "compared",
    "confidence", "words",
)  # fmt: skip
"""The columns of trends in CSV."""


def earlier_spans(last: Period, since: int) -> Iterator[Span]:
    """The periods 1, 2, 4, 8, ... steps before one, down to those that begin at a time."""
    plan, every = last.plan, last.every
    length = length_of(plan, every)
    step = WEEK if length < WEEK and not WEEK % length else length
    steps = 1
    while True:
        if every == "month":
            number = months_before(plan, last, steps)
        else:
            number = first_round_from(last.start - steps * step, plan.round_seconds)
        span = span_of(plan, number, every)
        if span.start < since:
            return
        yield span
        steps *= 2


def trends_of(differences: Sequence[Difference], confidence: float) -> Iterator[Trend]:
    """The trend of each number of a figure, from its differences to earlier periods, latest first."""
    for place in range(len(differences[0].numbers)):
        yield Trend(differences[0].figure, place, tuple(differences), confidence)


def _side(number: Estimate) -> int:
    """1 where a difference is clearly above 0, -1 where it is below; else 0."""
    return (1 if number.lower > 0 else -1) if is_clear(number) else 0


def _compared(difference: Difference, place: int) -> dict[str, Any]:
    number = difference.numbers[place]
    return {
        "start_time": time_text(difference.baseline.start),
        "end_time": time_text(difference.baseline.end),
        "difference": number.value,
        **{name: getattr(number, name) for name in _NUMBER[1:]},
        "rounds": difference.figure.rounds,
    }


def _date(period: Period) -> str:
    begins = datetime.fromtimestamp(period.start, UTC)
    return f"{begins.day} {begins:%b %Y}"
