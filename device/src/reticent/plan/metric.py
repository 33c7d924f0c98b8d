"""The parts of a plan: metrics, groups that share a limit, public tags, and how devices answer."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cached_property
from typing import Literal

from reticent.errors import ParameterError
from reticent.frozen import frozen
from reticent.hashes import sha256
from reticent.mechanisms import Buckets, Channel, Flip, Mechanism
from reticent.times import FIRST_MONDAY, first_round_from, start_of

MetricKind = Literal["mean", "histogram", "choice", "flag", "split"]
Pick = Literal["last", "first"]

OTHER = "other"
"""The tag of a device whose own tag is not in the plan's closed set."""
ABSENT = "absent"
"""The name of the bucket of devices that have no value."""
UNUSED = "unused"
"""The name of what the parts of a split leave of its range."""


@frozen()
class JointLimit:
    """The values of a group's metrics are scaled so that their sum is at most `max_total`."""

    max_total: int | Fraction
    max_values: tuple[tuple[str, int | Fraction], ...]  #: By name, sorted


@frozen()
class Metric:
    """
    One question: its name, unit, range and the mechanism that answers it.

    A choice is a histogram whose buckets are its labels, and one more for nothing chosen. A flag is a mean of
    zeros and ones. A split is answered as a choice: the part that was in front at a moment that the device's secret
    picks. Everything that a remembered answer depends on is inside `mechanism`, `joint_limit`, `labels`, `pick`,
    `parts` and `max_total`; `flip` is drawn again each round.

    >>> from reticent.mechanisms import Buckets, HadamardBit
    >>> Metric("command", HadamardBit(1, Buckets(range(3), absent=True)), labels=("build", "test")).bucket_labels
    ('build', 'test', 'absent')
    """

    name: str
    mechanism: Mechanism
    flip: Flip = Flip()
    unit: str = ""
    description: str = ""
    joint_limit: JointLimit | None = None  #: That of its group; a `Plan` fills it in
    labels: tuple[str, ...] = ()  #: What a choice is made from: label i is the value i
    pick: Pick = "last"  #: Which of several choices in a round counts
    is_flag: bool = False  #: Whether it is asked if something happened at all: the share of devices with a 1
    parts: tuple[str, ...] = ()  #: What a split has an amount of each: that of part i answers as the value i
    max_total: int | Fraction = 0  #: What the amounts of a split add up to at most

    def __post_init__(self) -> None:
        names = self.labels or self.parts
        if names and self.mechanism.buckets != Buckets(range(len(names) + 1), absent=True):
            expected = "a bucket for each, and one for " + ("the rest" if self.parts else "nothing chosen")
            raise ParameterError("labels", expected, names)
        if (self.max_total > 0) != bool(self.parts) or (self.parts and self.labels):
            raise ParameterError("max_total", "a number > 0 for a split, and 0 for others", self.max_total)
        if self.is_flag and (self.mechanism.grid is None or self.mechanism.points != (0, 1)):
            raise ParameterError("is_flag", "a mean of values from 0 to 1", self.mechanism.title)

    @property
    def kind(self) -> MetricKind:
        """What is asked: "mean", "histogram", "choice", "flag" or "split"."""
        if self.labels or self.parts:
            return "choice" if self.labels else "split"
        return "flag" if self.is_flag else self.mechanism.kind

    @property
    def absent(self) -> bool:
        """Whether a device without a value says so; otherwise it counts as 0."""
        return self.mechanism.buckets is not None and self.mechanism.buckets.absent

    @property
    def bucket_labels(self) -> tuple[str, ...]:
        """The label of each bucket, in order; empty for a bucket between two numbers, and for a mean."""
        if self.parts:
            return (*self.parts, UNUSED)
        last = (ABSENT,) if self.absent else ()
        return (*(self.labels or ("",) * (self.mechanism.intervals - len(last))), *last)

    @property
    def is_named(self) -> bool:
        """Whether every bucket has a name of its own."""
        return bool(self.labels or self.parts)

    @property
    def recorded(self) -> tuple[str, ...]:
        """The names that programs record it by: its own, or METRIC/PART for each part of a split."""
        return tuple(f"{self.name}/{part}" for part in self.parts) or (self.name,)

    @property
    def bits(self) -> int:
        """Answer bits per report."""
        return self.mechanism.bits

    @property
    def max_value(self) -> int | Fraction:
        """The top of the range, or the last label; devices clamp larger numbers to it."""
        if self.parts:
            return self.max_total
        return len(self.labels) - 1 if self.labels else self.mechanism.max_value

    @property
    def top(self) -> float:
        """The largest estimate there can be: of an amount the top of its range, of a share 1."""
        return float(self.max_total) if self.parts else self.mechanism.top

    def range_in_words(self, top: str) -> str:
        """The possible answers, for people; `top` is the top of the range with its unit."""
        if self.parts:
            return f"0 to {top}, split into {', '.join(self.parts)}"
        if self.labels:
            return ", ".join(self.labels)
        if self.is_flag:
            return "yes or no"
        return f"0 to {top}, or absent" if self.absent else f"0 to {top}"

    @cached_property
    def digest(self) -> bytes:
        """
        SHA-256 of everything that decides which remembered answer a value gets, and of nothing else.

        The same digest means the same memo. A new one is a fresh memo, which costs privacy again: hence no
        description, date or unit in it, and not the flip probability, whose noise is fresh every round.

        A joint limit is in it: values are scaled to it before they are rounded, so another limit moves a value
        that has not changed to another remembered answer. So are the labels of a choice and which one counts,
        the parts of a split and their limit, and whether there is a bucket for no value.
        """
        parameters = self.mechanism.parameters
        if self.labels:
            parameters = [parameters, "choice", list(self.labels), self.pick]
        elif self.parts:
            parameters = [parameters, "split", list(self.parts), str(self.max_total)]
        elif self.absent:
            parameters = [parameters, ABSENT]
        if self.joint_limit is not None:
            members = [[name, str(max_value)] for name, max_value in self.joint_limit.max_values]
            parameters = [parameters, str(self.joint_limit.max_total), members]
        return sha256(json.dumps(parameters, separators=(",", ":")).encode()).digest()

    @property
    def question(self) -> tuple[Mechanism, Flip]:
        """All that its loss depends on, but for a joint limit."""
        return self.mechanism, self.flip

    @property
    def channel(self) -> Channel:
        """What the collector sees of a truth: the mechanism's channel after the flip."""
        return self.mechanism.channel(self.flip)


@frozen()
class Group:
    """Mean metrics whose values share a limit: their sum is clamped to `max_total` on the device."""

    name: str
    metrics: tuple[str, ...]
    max_total: int | Fraction


@frozen()
class Segment:
    """A public tag with a closed set of values; anything else becomes "other"."""

    name: str
    values: tuple[str, ...]

    @property
    def tags(self) -> tuple[str, ...]:
        """Every tag that may be in a report: the declared ones, then "other"."""
        return (*self.values, OTHER)

    def tag(self, value: object) -> str:
        """The tag for what a device calls itself."""
        return value if isinstance(value, str) and value in self.values else OTHER


@frozen()
class Answers:
    """
    How a device answers, from the plan's table `[answers]`.

    Remembered (the default): one report per round, from answers that are drawn once and kept. Sampled: one
    report per window of rounds, in a round that the device's secret picks, with draws that are fresh in each
    window. With `metrics` a report answers so many of the plan's metrics, which the secret picks: once per
    epoch for remembered answers, in each window for sampled ones.

    >>> Answers().sampled, Answers(window=28, metrics=1).sampled
    (False, True)
    """

    window: int = 0  #: Rounds of a window; 0 where answers are remembered
    metrics: int | None = None  #: Metrics that a report answers; None: all of them

    def __post_init__(self) -> None:
        if self.window < 0:
            raise ParameterError("window", "a number of rounds, or 0 for remembered answers", self.window)
        if self.metrics is not None and self.metrics < 1:
            raise ParameterError("metrics", "at least 1", self.metrics)

    @property
    def sampled(self) -> bool:
        """Whether a device answers once per window, with fresh draws."""
        return self.window > 0

    def windows_touched(self, rounds: int) -> int:
        """
        The most windows that so many consecutive rounds can touch: ⌈(rounds - 1) / window⌉ + 1.

        >>> [Answers(window=28).windows_touched(rounds) for rounds in (1, 28, 1460)]
        [1, 2, 54]
        """
        if rounds < 1 or not self.sampled:
            raise ParameterError("rounds", "at least 1, of a plan with sampled answers", rounds)
        return -(-(rounds - 1) // self.window) + 1

    def window_of(self, round_number: int, round_seconds: int) -> Window | None:
        """The window of a round; None where answers are remembered, and before the first window."""
        origin = first_round_from(FIRST_MONDAY, round_seconds)
        if not self.sampled or round_number < origin:
            return None
        first = round_number - (round_number - origin) % self.window
        return Window(start_of(first, round_seconds), first, self.window)


@frozen()
class Window:
    """A run of rounds in which a device with sampled answers sends at most one report."""

    start: int  #: Unix seconds: what every draw of the window is keyed by
    first: int  #: The number of its first round
    rounds: int
