"""Plan, Metric, Group, Segment, Round: what is asked, of whom, how often and how privately."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from functools import cached_property
from hashlib import sha256

from reticent.mechanisms import Channel, Flip, Kind, Mechanism

OTHER = "other"
"""The tag of a device whose own tag is not in the plan's closed set."""


@dataclass(frozen=True)
class Metric:
    """
    One counter: its name, unit, range and the mechanism that answers for it.

    Everything that a remembered answer depends on is inside `mechanism`; `flip` is drawn anew each round.
    """

    name: str
    mechanism: Mechanism
    flip: Flip = field(default_factory=Flip)
    unit: str = ""
    description: str = ""

    @property
    def kind(self) -> Kind:
        """What is asked about the counter: its "mean" or its "histogram"."""
        return self.mechanism.kind

    @property
    def bits(self) -> int:
        """Answer bits per report."""
        return self.mechanism.bits

    @property
    def max_value(self) -> int | Fraction:
        """The top of the range; larger values are clamped to it on the device."""
        return self.mechanism.max_value

    @cached_property
    def digest(self) -> bytes:
        """
        SHA-256 of everything a remembered answer depends on, and of nothing else.

        The same digest means the same memo. A new one is a fresh memo, which costs privacy anew: hence no
        description, date or unit in it, and not the flip probability, whose noise is fresh every round.
        """
        return sha256(json.dumps(self.mechanism.parameters, separators=(",", ":")).encode()).digest()

    @property
    def channel(self) -> Channel:
        """What the collector sees of a truth: the mechanism's channel after the flip."""
        return self.mechanism.channel(self.flip)


@dataclass(frozen=True, slots=True)
class Group:
    """Mean metrics whose values share a limit: their sum is clamped to `max_total` on the device."""

    name: str
    metrics: tuple[str, ...]
    max_total: int | Fraction


@dataclass(frozen=True, slots=True)
class Segment:
    """A public tag with a closed set of values; anything else becomes "other"."""

    name: str
    values: tuple[str, ...]

    @property
    def tags(self) -> tuple[str, ...]:
        """Every tag that may stand in a report: the declared ones, then "other"."""
        return (*self.values, OTHER)

    def tag(self, value: object) -> str:
        """The tag for what a device calls itself."""
        return value if isinstance(value, str) and value in self.values else OTHER


@dataclass(frozen=True, slots=True)
class Round:
    """One collection: round *number* lasts from `start` to `end` (unix seconds, end excluded)."""

    number: int
    start: int
    end: int
    closes: int
    """When late reports stop counting: `end` plus the plan's grace."""


@dataclass(frozen=True)
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
    text: str = field(default="", repr=False, compare=False)
    """The plan.toml this was read from; a device keeps it to answer a round under the plan it began with."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan.toml file; raises `PlanError` with every problem in it."""
        from reticent.plan.reading import load_plan

        return load_plan(path)

    @classmethod
    def from_toml(cls, text: str) -> Plan:
        """Read a plan from the text of a plan.toml; raises `PlanError` with every problem in it."""
        from reticent.plan.reading import read_plan

        return read_plan(text)

    @cached_property
    def by_name(self) -> Mapping[str, Metric]:
        """The metrics by name."""
        return {metric.name: metric for metric in self.metrics}

    @cached_property
    def max_values(self) -> Mapping[str, int | Fraction]:
        """The top of each metric's range, by name and in plan order."""
        return {metric.name: metric.max_value for metric in self.metrics}

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

    def offset(self, name: str) -> int:
        """The place of a metric's first bit in a report."""
        place = 0
        for metric in self.metrics:
            if metric.name == name:
                return place
            place += metric.bits
        raise KeyError(name)

    def round_at(self, unix_seconds: float) -> int:
        """The number of the round that is under way at a time."""
        return int(unix_seconds // self.round_seconds)

    def round(self, number: int) -> Round:
        """Start, end and closing time of a round."""
        start = number * self.round_seconds
        end = start + self.round_seconds
        return Round(number, start, end, end + self.grace_seconds)

    def _repr_html_(self) -> str:
        from reticent.plan.html import plan_html

        return plan_html(self)

    def tags(self, segment: Mapping[str, object]) -> dict[str, str]:
        """The public tags of a device, one per declared segment, in plan order."""
        return {each.name: each.tag(segment.get(each.name)) for each in self.segments}


__all__ = ["OTHER", "Group", "Metric", "Plan", "Round", "Segment"]
