"""What a privacy engineer knows and wants: range, fleet, precision, and what may be lost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from reticent.errors import ParameterError
from reticent.estimates import check_confidence
from reticent.mechanisms import Number, exact
from reticent.plan.linter import LARGE_EPSILON
from reticent.plan.parse import MAX_NUMBER, MIN_NUMBER

LEAST_EPSILON, MOST_EPSILON = Fraction(1, 1000), Fraction(20)
"""What a plan takes for epsilon."""

MOST_FLIP = Fraction(499, 1000)
"""What a plan takes for flip, at most."""

USUAL_FLIP = Fraction(1, 5)
"""What Windows uses (§5 of the paper)."""

LEAST_CHANGE = Fraction("0.00401")
"""Λ of the largest flip, in three digits."""

MOST_CHANGE = Fraction(20)
MOST_LIFETIME = Fraction(10_000)
MOST_DEVICES = 10**12
MOST_BUCKETS = 256


@dataclass(frozen=True, slots=True, init=False)
class Wish:
    """
    A counter in [0, `max_value`], a fleet, and what is wanted of one round.

    `half_width` is that of the interval at `confidence`: in the counter's unit for a mean, as a share for the
    buckets of a histogram (all of them at once); None asks for the narrowest there is within the limit.
    `segments` splits the fleet into so many equal parts, each of which is to be that precise. `expected` is
    the mean or the share to be precise about, the worst there can be when left out.

    Privacy is limited by one of two figures of the privacy card:

        `epsilon`    what a constant device loses over all rounds, ε ≤ E, and 2E at most by `lifetime`, which is
                     what a mechanism with two remembered answers loses;
        `lifetime`   what devices whose rounded values repeat in the same pattern lose over all rounds, L.

    As every mechanism that may be chosen has a same-pattern loss of 2ε or more, E is the same limit as L = 2E.

    Without either, E is 4, above which `reticent plan check` warns. How well the time of a change is hidden is
    either `flip`, the flip probability γ of every answer bit (0.2 when left out), or `change_time`, the most
    that may be lost per round by which a change is moved (d·ln((1-γ)/γ)).

    >>> Wish(max_value=21_600, devices=100_000, half_width=240, epsilon=1).limit
    Fraction(2, 1)
    """

    max_value: Fraction
    devices: int
    half_width: Fraction | None
    epsilon: Fraction | None
    lifetime: Fraction | None
    flip: Fraction | None
    change_time: Fraction | None
    buckets: int | None
    confidence: float
    segments: int
    expected: Fraction | None
    name: str
    unit: str

    def __init__(
        self,
        max_value: Number,
        devices: int,
        half_width: Number | None = None,
        epsilon: Number | None = None,
        lifetime: Number | None = None,
        flip: Number | None = None,
        change_time: Number | None = None,
        buckets: int | None = None,
        confidence: float = 0.95,
        segments: int = 1,
        expected: Number | None = None,
        name: str = "counter",
        unit: str = "",
    ) -> None:
        if flip is None and change_time is None:
            flip = USUAL_FLIP
        given = {
            "max_value": exact(max_value, "max_value"),
            "devices": devices,
            "half_width": _exact(half_width, "half_width"),
            "epsilon": _exact(epsilon, "epsilon"),
            "lifetime": _exact(lifetime, "lifetime"),
            "flip": _exact(flip, "flip"),
            "change_time": _exact(change_time, "change_time"),
            "buckets": buckets,
            "confidence": confidence,
            "segments": segments,
            "expected": _exact(expected, "expected"),
            "name": name,
            "unit": unit,
        }
        for key, value in given.items():
            object.__setattr__(self, key, value)
        self._check_question()
        self._check_half_width()
        self._check_privacy()

    @property
    def kind(self) -> str:
        """What is asked about the counter: its "mean" or its "histogram"."""
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
    def limit(self) -> Fraction:
        """The largest same-pattern loss."""
        if self.lifetime is not None:
            return self.lifetime
        return 2 * (LARGE_EPSILON if self.epsilon is None else self.epsilon)

    def _check_question(self) -> None:
        _check("max_value", self.max_value, MIN_NUMBER, MAX_NUMBER)
        if self.buckets is not None:
            _check("buckets", self.buckets, 2, MOST_BUCKETS)
        _check("devices", self.devices, 1, MOST_DEVICES)
        _check("segments", self.segments, 1, self.devices, "each part of the fleet needs a device")
        check_confidence(self.confidence)
        if self.expected is not None:
            _check("expected", self.expected, 0, self.top)

    def _check_half_width(self) -> None:
        if self.half_width is None:
            if self.epsilon is None and self.lifetime is None:
                raise ParameterError(
                    "half_width",
                    "a half-width, or a limit on privacy",
                    "neither",
                    "give half_width for the least loss that reaches it, or epsilon or lifetime for the "
                    "narrowest interval within it",
                )
        elif not 0 < self.half_width < self.top / 2:
            raise ParameterError(
                "half_width",
                f"a number above 0 and below {float(self.top / 2):g}, half the range",
                f"{float(self.half_width):g}",
                "an interval as wide as the range is known before anybody answers",
            )

    def _check_privacy(self) -> None:
        if self.epsilon is not None and self.lifetime is not None:
            raise ParameterError(
                "epsilon", "either epsilon or lifetime", "both", "with two answers, lifetime is twice epsilon"
            )
        if self.flip is not None and self.change_time is not None:
            raise ParameterError("flip", "either flip or change_time", "both", "the one gives the other")
        if self.epsilon is not None:
            _check("epsilon", self.epsilon, LEAST_EPSILON, MOST_EPSILON)
        if self.lifetime is not None:
            _check("lifetime", self.lifetime, 2 * LEAST_EPSILON, MOST_LIFETIME)
        if self.flip is not None:
            _check("flip", self.flip, 0, MOST_FLIP, "at 1/2 the answer is pure noise")
        if self.change_time is not None:
            hint = "the least is a flip of 0.499; a limit that needs no flips is no limit: give flip = 0"
            _check("change_time", self.change_time, LEAST_CHANGE, MOST_CHANGE, hint)


def _exact(number: Number | None, name: str) -> Fraction | None:
    return None if number is None else exact(number, name)


def _check(
    name: str, number: Fraction | int, low: Fraction | int, high: Fraction | int, hint: str = ""
) -> None:
    if not low <= number <= high:
        raise ParameterError(name, f"a number from {_short(low)} to {_short(high)}", _short(number), hint)


def _short(number: Fraction | int) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{float(number):g}"
