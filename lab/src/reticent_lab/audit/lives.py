"""Lives of a device: the events that an audited client is driven through, made for one plan."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

from reticent.plan import Metric, Plan

Event = dict[str, Any]
"""What happens to a device at a time, as spec/transitions.md has it."""

FAMILIES = ("values", "restarts", "gaps", "choices", "versions", "clock")
ODD: tuple[object, ...] = (-1, -3.5, -1_000_000_000, "NaN", "Infinity", "-Infinity", None)
"""Values that are no amounts: below the range, no numbers, and without end."""


@dataclass(frozen=True)
class AuditLife:
    """One device from its first start on."""

    family: str
    name: str
    events: tuple[Event, ...]


def lives_of(plan: Plan, count: int, first_round: int) -> list[AuditLife]:
    """
    So many lives of each family, the same ones in every audit of a plan.

    A life of remembered answers has a dozen rounds, one of sampled answers two windows; the first life of a family
    is longer.
    """
    lives = []
    for family in FAMILIES:
        for number in range(count):
            source = Random(f"{plan.fingerprint!r}/{family}/{number}")  # noqa: S311
            rounds = 2 * plan.answers.window or 12
            if number == 0:
                rounds *= max(1, 60 // rounds)
            builder = LifeBuilder(plan, source, first_round - 1)
            builder.live(family, rounds + 1)
            lives.append(AuditLife(family, f"{family} {number + 1}", tuple(builder.events)))
    return lives


class LifeBuilder:
    """Makes one life, round after round."""

    def __init__(self, plan: Plan, source: Random, first: int) -> None:
        self.plan = plan
        self.source = source
        self.first = first
        self.round = first
        self.events: list[Event] = []
        self.version = plan.version
        self.segment = {
            segment.name: source.choice([*segment.values, "unknown"]) for segment in plan.segments
        }

    def add(self, share: float, do: str, **more: Any) -> None:
        """One more event, this far into the round."""
        at = self.plan.round(self.round).start + int(share * self.plan.round_seconds)
        self.events.append({"at": at, "do": do, **more})

    def start(self, share: float) -> None:
        """The program starts."""
        self.add(share, "open", plan=of_version(self.plan, self.version), consent="granted", policy="unlimited",
                 segment=self.segment)  # fmt: skip

    def live(self, family: str, rounds: int) -> None:
        """Rounds in which values are recorded, with what is special about the family between them."""
        self.start(0.1)
        for _ in range(rounds):
            self.record()
            if self.source.random() < 0.5:
                getattr(self, f"_{family}")()
            self.round += 1
            failed = [{"status": 503}] if family != "values" and self.source.random() < 0.2 else []
            self.add(0.05, "flush", answers=failed)
            if self.source.random() < 0.1:
                self.add(0.06, "report")
        self.round += 1
        self.add(0.05, "flush")

    def record(self) -> None:
        """What a program records in a round: nothing, everything, or some of it."""
        pattern = self.source.choice(("nothing", "zero", "top", "above", "odd", "some", "some", "some"))
        for metric in self.plan.metrics:
            if pattern == "nothing" or (pattern == "some" and self.source.random() < 0.3):
                continue
            if metric.labels:
                labels = [*metric.labels, "no such label"]
                for _ in range(self.source.choice((1, 1, 2))):
                    self.add(0.3, "choose", metric=metric.name, label=self.source.choice(labels))
                continue
            for name in metric.recorded:
                self.add(0.3, "set", metric=name, value=self.amount(metric, pattern))
                if pattern == "some" and self.source.random() < 0.2:
                    self.add(0.31, "set", metric=name, value=self.amount(metric, pattern))
                if pattern == "some" and self.source.random() < 0.4:
                    self.add(0.31, "add", metric=name, amount=self.amount(metric, pattern))

    def amount(self, metric: Metric, pattern: str) -> object:
        """An amount that a metric is given."""
        top = Fraction(metric.max_value)
        if pattern == "zero":
            return 0
        if pattern == "odd":
            return self.source.choice(ODD)
        share = {"top": Fraction(1), "above": Fraction(3)}.get(
            pattern, Fraction(self.source.randrange(43), 42)
        )
        value = top * share
        return value.numerator if value.denominator == 1 else str(value)

    def _values(self) -> None:
        """Nothing but values."""

    def _restarts(self) -> None:
        self.add(0.5, self.source.choice(("close", "kill")))
        self.start(0.6)

    def _gaps(self) -> None:
        longest = 2 + self.plan.grace_seconds // self.plan.round_seconds
        self.add(0.5, "close")
        self.round += self.source.choice((1, 2, 3, min(longest, 40)))
        self.start(0.01)

    def _choices(self) -> None:
        choices = ["pause", "forget", "denied", "local", "unset"]
        if self.round > self.first:  # whether a host gets the round of enrolment is left to the device
            choices.append("current")
        choice = self.source.choice(choices)
        if choice == "current":
            self.add(0.5, "report", current=True)
        elif choice == "forget":
            self.add(0.5, "forget")
        elif choice == "pause":
            self.add(0.5, "pause")
            self.round += self.source.choice((0, 1, 2))
            self.add(0.7, "resume")
        else:
            self.add(0.5, "consent", choice=choice)
            self.round += self.source.choice((0, 1, 2))
            self.add(0.7, "consent", choice="granted")

    def _versions(self) -> None:
        self.add(0.5, "close")
        self.version += 1
        self.start(0.6)

    def _clock(self) -> None:
        self.add(0.4, "flush")
        self.round -= 1
        self.add(0.9, "flush")
        self.round += 1


def of_version(plan: Plan, version: int) -> str:
    """The text of a plan under another version."""
    return re.sub(r"(?m)^version\s*=\s*\d+", f"version = {version}", plan.text, count=1)
