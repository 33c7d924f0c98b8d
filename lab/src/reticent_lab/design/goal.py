"""What a privacy engineer knows and wants: range, fleet, precision, and the promise to devices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, Number, exact
from reticent.plan import Answers
from reticent.plan.parse import MAX_NUMBER, MIN_NUMBER
from reticent_collector.estimates import check_confidence
from reticent_collector.plans.linter import LARGE_EPSILON

LEAST_EPSILON = Fraction(1, 1000)
MOST_EPSILON = Fraction(20)
"""What a plan takes for epsilon."""

MOST_FLIP = Fraction(499, 1000)  # What a plan takes for flip, at most
USUAL_FLIP = Fraction(1, 5)  # What Windows uses (§5 of the paper)
LEAST_CHANGE = Fraction("0.00401")  # Λ of the largest flip, in three digits
MOST_CHANGE = Fraction(20)
MOST_LIFETIME = Fraction(10_000)
MOST_YEAR = Fraction(10**12)
MOST_DEVICES = 10**12
MOST_BUCKETS = 256
MOST_METRICS = 1000
DAY = 86_400
WEEK = 7 * DAY
YEAR_SECONDS = 365 * DAY

Promise = Literal["constant", "any-history"]


_EXACT = frozenset(
    ("max_value", "half_width", "epsilon", "lifetime", "year", "flip", "change_time", "expected", "bias")
)
"""The parts of a goal that are taken as rationals, as written."""


@dataclass(frozen=True, slots=True, init=False)
class Goal:
    """
    A counter in [0, `max_value`], a fleet, how precise its figures are to be, and what devices are promised.

    Asked is the mean, the histogram of `buckets` or between `edges`, a choice among `labels`, or a `flag`; the
    plan has `metrics` of them. `half_width` is that of the interval at `confidence`, of `period` rounds together
    (one round or one window if left out): in the counter's unit, or as a share for all buckets at once; None asks
    for the narrowest. Each of `segments` equal parts of the fleet is to be that precise. `expected` is the mean
    or share to be precise about (the worst if left out); `bias` is what the range cuts off, which half-widths
    include.

    `promise` is whom the promise covers, and with it how devices answer. Its limit is for all metrics together:

        "constant"      devices that keep their value; remembered answers. Limited by one of
                        `epsilon`    what a constant device loses over all rounds; the same limit as `lifetime` = 2ε;
                        `lifetime`   what devices whose rounded values repeat in the same pattern lose.
        "any-history"   any two histories; sampled answers. Limited by one of
                        `epsilon`    what they lose in one window;
                        `year`       what they lose in all windows that a year can touch.

    Without a limit epsilon is 4, above which `reticent plan check` warns. `flip` (0.2 if left out) hides the time
    of a change, or `change_time`, the most that may be lost per round by which a change is moved (d·ln((1-γ)/γ)).
    `window`, in rounds, and `asked`, metrics per report, are chosen if left out.

    >>> Goal(max_value=21_600, devices=100_000, half_width=240, epsilon=1).limit
    Fraction(2, 1)
    >>> Goal(max_value=21_600, devices=100_000, promise="any-history", year=53, window=7).limit
    Fraction(1, 1)
    """

    max_value: Fraction
    devices: int
    half_width: Fraction | None
    promise: Promise
    epsilon: Fraction | None
    lifetime: Fraction | None
    year: Fraction | None
    flip: Fraction | None
    change_time: Fraction | None
    window: int | None
    asked: int | None
    period: int | None
    round_seconds: int
    buckets: int | None
    edges: tuple[Fraction, ...]
    labels: tuple[str, ...]
    flag: bool
    metrics: int
    confidence: float
    segments: int
    expected: Fraction | None
    bias: Fraction
    name: str
    unit: str

    def __init__(
        self,
        max_value: Number | None,
        devices: int,
        half_width: Number | None = None,
        promise: Promise = "constant",
        epsilon: Number | None = None,
        lifetime: Number | None = None,
        year: Number | None = None,
        flip: Number | None = None,
        change_time: Number | None = None,
        window: int | None = None,
        asked: int | None = None,
        period: int | None = None,
        round_seconds: int = DAY,
        buckets: int | None = None,
        edges: Iterable[Number] = (),
        labels: Iterable[str] = (),
        flag: bool = False,
        metrics: int = 1,
        confidence: float = 0.95,
        segments: int = 1,
        expected: Number | None = None,
        bias: Number = 0,
        name: str = "counter",
        unit: str = "",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self"}
        if flip is None and change_time is None:
            given["flip"] = USUAL_FLIP if promise == "constant" else 0
        given["labels"] = labels = tuple(labels)
        given["edges"] = edges = Buckets(edges).edges if (edges := tuple(edges)) else ()
        if edges:
            given |= {"max_value": edges[-1], "buckets": len(edges) - 1}
        elif labels:
            given |= {"max_value": len(labels), "buckets": len(labels) + 1}
        elif flag or max_value is None:
            given["max_value"] = 1 if flag else 0
        for key, value in given.items():
            number = key in _EXACT and value is not None
            object.__setattr__(self, key, exact(value, key) if number else value)
        self._check_question()
        self._check_privacy()

    @property
    def kind(self) -> str:
        """What is asked about the counter: a "mean", a "histogram", a "choice" or a "flag"."""
        if self.labels or self.flag:
            return "choice" if self.labels else "flag"
        return "mean" if self.buckets is None else "histogram"

    @property
    def top(self) -> Fraction:
        """The largest truth there can be: the range for a mean, 1 for the share of a bucket."""
        return self.max_value if self.buckets is None else Fraction(1)

    @property
    def reports(self) -> int:
        """How many devices one estimate has."""
        return self.devices // self.segments

    @property
    def answering(self) -> int:
        """How many of them answer a metric, in a round or in a window."""
        return max(1, self.reports * (self.answers.metrics or self.metrics) // self.metrics)

    @property
    def together(self) -> int:
        """The rounds that the half-width is about."""
        return self.period or self.answers.window or 1

    @property
    def period_name(self) -> str:
        """What those rounds are called."""
        if self.period is None:
            return "a window" if self.sampled else "a round"
        names = {self.round_seconds: "a round", DAY: "a day", WEEK: "a week"}
        return names.get(self.period * self.round_seconds, f"{self.period} rounds")

    @property
    def sampled(self) -> bool:
        """Whether answers are sampled: remembered ones promise nothing to a device that changes at will."""
        return self.promise == "any-history"

    @property
    def answers(self) -> Answers:
        """How devices answer; in windows of about a week, about one metric, where nothing else is given."""
        if not self.sampled:
            return Answers()
        window = max(1, WEEK // self.round_seconds) if self.window is None else self.window
        return Answers(window, (self.asked or 1) if self.metrics > 1 else None)

    @property
    def rounds(self) -> int:
        """How many rounds a year has."""
        return -(-YEAR_SECONDS // self.round_seconds)

    @property
    def limit(self) -> Fraction:
        """The most that the loss behind the promise may be: of the same pattern, or of one window."""
        if self.lifetime is not None:
            return self.lifetime
        if self.year is not None:
            return self.year / self.answers.windows_touched(self.rounds)
        return self.answers_of_a_device * (LARGE_EPSILON if self.epsilon is None else self.epsilon)

    @property
    def answers_of_a_device(self) -> int:
        """The fewest answers, of ε each, that one loss is about: two remembered ones, or one in a window."""
        return 1 if self.sampled else 2

    def in_windows(self, rounds: int, epsilon: Fraction) -> Goal:
        """The same goal with windows of so many rounds, limited by their epsilon alone."""
        return replace(self, window=rounds, epsilon=epsilon, year=None)

    def _check_question(self) -> None:
        _check("max_value", self.max_value, MIN_NUMBER, MAX_NUMBER)
        if self.buckets is not None:
            _check("buckets", self.buckets, 2, MOST_BUCKETS)
        _check("devices", self.devices, 1, MOST_DEVICES)
        _check("segments", self.segments, 1, self.devices, "each part of the fleet needs a device")
        _check("round_seconds", self.round_seconds, 60, YEAR_SECONDS)
        _check("metrics", self.metrics, 1, MOST_METRICS)
        _check("period", self.together, 1, self.rounds, "a period has at least one round and at most a year")
        check_confidence(self.confidence)
        if self.expected is not None:
            _check("expected", self.expected, 0, self.top)
        if self.half_width is None:
            if self.epsilon is None and self.lifetime is None and self.year is None:
                raise ParameterError(
                    "half_width",
                    "a half-width, or a limit on privacy",
                    "neither",
                    "give half_width for the least loss that reaches it, or a limit such as epsilon for the "
                    "narrowest interval within it",
                )
        elif not 0 < self.half_width < self.top / 2:
            raise ParameterError(
                "half_width",
                f"a number above 0 and below {float(self.top / 2):g}, half the range",
                f"{float(self.half_width):g}",
                "an interval as wide as the range is known before any device answers",
            )

    def _check_privacy(self) -> None:
        if self.promise not in ("constant", "any-history"):
            raise ParameterError("promise", "constant or any-history", self.promise)
        if self.sampled:
            others: tuple[str, ...] = ("lifetime", "change_time")
            hint = "only remembered answers have them"
            if self.flip:
                raise ParameterError(
                    "flip",
                    "no flip with promise any-history",
                    f"{float(self.flip):g}",
                    "fresh draws need no flips",
                )
        else:
            others = ("year", "window", "asked")
            hint = "only promise any-history has them"
        for name in others:
            if getattr(self, name) is not None:
                raise ParameterError(
                    name, f"none with promise {self.promise}", _short(getattr(self, name)), hint
                )
        for name in ("lifetime", "year"):
            if self.epsilon is not None and getattr(self, name) is not None:
                raise ParameterError(
                    "epsilon", f"either epsilon or {name}", "both", "one determines the other"
                )
        if self.flip is not None and self.change_time is not None:
            raise ParameterError("flip", "either flip or change_time", "both", "one determines the other")
        self._check_bounds()

    def _check_bounds(self) -> None:
        bounds: dict[str, tuple[Fraction | int, Fraction | int, str]] = {
            "epsilon": (LEAST_EPSILON, MOST_EPSILON, ""),
            "lifetime": (2 * LEAST_EPSILON, MOST_LIFETIME, ""),
            "flip": (0, MOST_FLIP, "at 1/2 the answer is pure noise"),
            "change_time": (
                LEAST_CHANGE,
                MOST_CHANGE,
                "the least is a flip of 0.499; a limit that needs no flips is no limit: give flip = 0",
            ),
            "window": (1, self.rounds, "a window has at least one round and at most a year"),
            "asked": (1, self.metrics, "a report answers at least one metric"),
        }
        for name, (low, high, hint) in bounds.items():
            if getattr(self, name) is not None:
                _check(name, getattr(self, name), low, high, hint)
        if self.year is not None:
            least = LEAST_EPSILON * self.answers.windows_touched(self.rounds)
            _check("year", self.year, least, MOST_YEAR, "each window that a year touches loses epsilon")
        shared = self.answers.metrics or self.metrics
        if self.limit < LEAST_EPSILON * self.answers_of_a_device * shared:
            raise ParameterError(
                "metrics", "fewer metrics, or a larger limit", shared, "each answer needs an epsilon of 0.001"
            )


def _check(
    name: str, number: Fraction | int, low: Fraction | int, high: Fraction | int, hint: str = ""
) -> None:
    if not low <= number <= high:
        raise ParameterError(name, f"a number from {_short(low)} to {_short(high)}", _short(number), hint)


def _short(number: Fraction | int) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{float(number):g}"
