"""Metric, Group, Segment: what a plan asks about each counter, which limits they share, and public tags."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from hashlib import sha256

from reticent.mechanisms import Channel, Flip, Kind, Mechanism

OTHER = "other"
"""The tag of a device whose own tag is not in the plan's closed set."""


@dataclass(frozen=True, slots=True)
class JointLimit:
    """What a group does to the values of its metrics: they are scaled so that their sum is at most this."""

    max_total: int | Fraction
    max_values: tuple[tuple[str, int | Fraction], ...]
    """The name and the top of the range of each metric of the group, sorted by name."""


@dataclass(frozen=True)
class Metric:
    """
    One counter: its name, unit, range and the mechanism that answers for it.

    Everything that a remembered answer depends on is inside `mechanism` and `joint_limit`; `flip` is drawn
    anew each round.
    """

    name: str
    mechanism: Mechanism
    flip: Flip = field(default_factory=Flip)
    unit: str = ""
    description: str = ""
    joint_limit: JointLimit | None = None
    """The limit of the group that the metric is in; a `Plan` fills it in from its groups."""

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
        SHA-256 of everything that decides which remembered answer a value gets, and of nothing else.

        The same digest means the same memo. A new one is a fresh memo, which costs privacy anew: hence no
        description, date or unit in it, and not the flip probability, whose noise is fresh every round.

        A joint limit is in it: values are scaled to it before they are rounded, so another limit moves a
        value that has not changed to another remembered answer.
        """
        parameters = self.mechanism.parameters
        if self.joint_limit is not None:
            members = [[name, str(max_value)] for name, max_value in self.joint_limit.max_values]
            parameters = [parameters, str(self.joint_limit.max_total), members]
        return sha256(json.dumps(parameters, separators=(",", ":")).encode()).digest()

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
