"""Plan and Round: what is asked, how often and how privately."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from fractions import Fraction
from functools import cached_property

from reticent.errors import ParameterError, PlanError, Problem
from reticent.frozen import freeze, frozen, replace
from reticent.hashes import sha256
from reticent.plan.metric import Answers, Group, JointLimit, Metric, Segment, Window
from reticent.plan.parse import MAX_TEXT, MIN_REPORTS, parse
from reticent.times import round_at, start_of


@frozen()
class Round:
    """One collection: round *number* lasts from `start` to `end` (unix seconds, end excluded)."""

    number: int
    start: int
    end: int
    closes: int  #: When late reports stop counting: `end` plus the plan's grace


@frozen("text")
class Plan:
    """
    A versioned set of metrics that are asked together, one report per device and round.

    Read one with `Plan.load("plan.toml")`; reading checks everything and names each problem with its place.
    """

    name: str
    version: int
    round_seconds: int
    grace_seconds: int
    metrics: tuple[Metric, ...]
    groups: tuple[Group, ...] = ()
    segments: tuple[Segment, ...] = ()
    owner: str = ""
    expires: date | None = None
    answers: Answers = Answers()
    min_reports: int = MIN_REPORTS  #: Readers see only groups of at least so many reports
    text: str = ""  #: The plan.toml this was read from

    def __post_init__(self) -> None:
        if self.answers.sampled and any(metric.flip.probability for metric in self.metrics):
            raise ParameterError(
                "flip", "0, since answers are sampled", "a flip", "fresh draws need no flips"
            )
        for metric in self.metrics:
            if metric.mechanism.sampled_only and not self.answers.sampled:
                hint = "remembered, it would lose epsilon for every bucket that a device visits"
                raise ParameterError("mechanism", "sampled answers for it", metric.mechanism.title, hint)
        if self.answers.metrics is not None and self.answers.metrics > len(self.metrics):
            raise ParameterError("answers.metrics", f"at most {len(self.metrics)}", self.answers.metrics)
        ranges = {metric.name: metric.max_value for metric in self.metrics}
        limits = {
            name: JointLimit(
                group.max_total, tuple((member, ranges[member]) for member in sorted(group.metrics))
            )
            for group in self.groups
            for name in group.metrics
        }
        metrics = tuple(
            metric
            if metric.joint_limit == limits.get(metric.name)
            else replace(metric, joint_limit=limits.get(metric.name))
            for metric in self.metrics
        )
        freeze(self, metrics=metrics)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan.toml file; raises `PlanError` with every problem in it."""
        try:
            with open(path, "rb") as file:
                text = file.read(MAX_TEXT + 1).decode()
        except UnicodeDecodeError as error:
            problem = Problem(str(path), "syntax", f"is not UTF-8 text (byte {error.start}).")
            raise PlanError([problem]) from None
        except OSError as error:
            raise PlanError([Problem(str(path), "file", f"cannot be read: {error.strerror}.")]) from None
        try:
            return cls.from_toml(text)
        except PlanError as error:
            raise PlanError(error.problems, f"{path}: ") from None

    @classmethod
    def from_toml(cls, text: str) -> Plan:
        """Read a plan from the text of a plan.toml; raises `PlanError` with every problem in it."""
        return cls(**parse(text))

    @cached_property
    def by_name(self) -> Mapping[str, Metric]:
        """The metrics by name."""
        return {metric.name: metric for metric in self.metrics}

    @cached_property
    def recorded(self) -> Mapping[str, Metric]:
        """The metrics by the names that programs record them by (`Metric.recorded`), in plan order."""
        return {name: metric for metric in self.metrics for name in metric.recorded}

    @cached_property
    def max_values(self) -> Mapping[str, int | Fraction]:
        """The top of the range of each name that programs record, in plan order."""
        return {name: metric.max_value for name, metric in self.recorded.items()}

    @cached_property
    def limits(self) -> tuple[tuple[tuple[str, ...], int | Fraction], ...]:
        """Recorded names whose values add up to a limit at most: those of each group, and of each split."""
        splits = [(metric.recorded, metric.max_total) for metric in self.metrics if metric.parts]
        return (*((group.metrics, group.max_total) for group in self.groups), *splits)

    @cached_property
    def bits(self) -> int:
        """Answer bits per report, all metrics together."""
        return sum(metric.bits for metric in self.metrics)

    @property
    def report_bytes(self) -> int:
        """Bytes that the bits of a report take: fixed by the plan, whatever the values."""
        return (self.bits + 7) // 8

    @cached_property
    def uses_cohort(self) -> bool:
        """Whether reports carry a cohort."""
        return any(metric.mechanism.uses_cohort for metric in self.metrics)

    @cached_property
    def fixed_ones(self) -> tuple[tuple[int, int], ...]:
        """The answers that always have the same number of ones: their places in a report's bits, and how many."""
        fixed = []
        left = 8 * self.report_bytes
        for metric in self.metrics:
            left -= metric.bits
            if metric.mechanism.ones is not None:
                fixed.append((((1 << metric.bits) - 1) << left, metric.mechanism.ones))
        return tuple(fixed)

    @property
    def asked(self) -> int:
        """How many of the metrics a report answers."""
        return self.answers.metrics or len(self.metrics)

    @property
    def is_divided(self) -> bool:
        """Whether a device answers some of the metrics for as long as it remembers, and never the others."""
        return not self.answers.sampled and self.asked < len(self.metrics)

    @property
    def asked_bytes(self) -> int:
        """Bytes of the bitmap of the metrics that a report answers; 0 where it answers all of them."""
        return (len(self.metrics) + 7) // 8 if self.asked < len(self.metrics) else 0

    def window_of(self, round_number: int) -> Window | None:
        """The window of a round; None where answers are remembered, and before the first window."""
        return self.answers.window_of(round_number, self.round_seconds)

    def offset(self, name: str) -> int:
        """The place of a metric's first bit in a report."""
        place = 0
        for metric in self.metrics:
            if metric.name == name:
                return place
            place += metric.bits
        raise KeyError(name)

    def has_expired(self, unix_seconds: float) -> bool:
        """Whether devices have stopped answering: they do at 00:00 UTC of the day `expires`."""
        return (
            self.expires is not None
            and unix_seconds >= datetime.combine(self.expires, time.min, UTC).timestamp()
        )

    def round_at(self, unix_seconds: float) -> int:
        """The number of the round that is under way at a time."""
        return round_at(unix_seconds, self.round_seconds)

    def round(self, number: int) -> Round:
        """Start, end and closing time of a round."""
        start = start_of(number, self.round_seconds)
        end = start + self.round_seconds
        return Round(number, start, end, end + self.grace_seconds)

    @cached_property
    def fingerprint(self) -> bytes:
        """
        SHA-256 of all that decides what a report of this plan means and costs.

        Wider than a metric's digest (the flip, the groups, the segments and the way of answering are in it),
        and like it without words: another description, owner, expiry, grace or `min_reports` is no new plan.
        Under one name and version it must never change.
        """
        parts: list[object] = [
            self.name,
            self.version,
            self.round_seconds,
            [[metric.name, metric.digest.hex(), str(metric.flip.threshold)] for metric in self.metrics],
            [[group.name, list(group.metrics), str(group.max_total)] for group in self.groups],
            [[segment.name, list(segment.values)] for segment in self.segments],
        ]
        if self.answers.sampled:
            parts.append(["sampled", self.answers.window, self.asked])
        elif self.is_divided:
            parts.append(["remembered", self.asked])
        return sha256(json.dumps(parts, separators=(",", ":")).encode()).digest()

    def tags(self, values: Mapping[str, object]) -> dict[str, str]:
        """The public tags of a device, one per declared segment, in plan order."""
        return {segment.name: segment.tag(values.get(segment.name)) for segment in self.segments}
