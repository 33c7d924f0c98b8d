"""Lives of a device: the events that an audited client is driven through, made for one plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise, product
from random import Random
from typing import Any

from reticent.mechanisms import SCALE
from reticent.plan import Metric, Plan
from reticent_lab.rules import interpreter, reference

Event = dict[str, Any]
"""What happens to a device at a time, as spec/transitions.md has it."""

FAMILIES = (
    "values", "restarts", "gaps", "choices", "versions", "clock", "collector", "host", "expiry", "everything",
)  # fmt: skip
ODD: tuple[object, ...] = (-1, -3.5, -1_000_000_000, "NaN", "Infinity", "-Infinity", None)
"""Values that are no amounts: below the range, no numbers, and without end."""
HUGE = (2**31, 2**53 + 1, 2**64, 10**30)
ANSWERS: tuple[dict[str, object], ...] = (
    {"status": 503}, {"status": 429, "code": "rate_limited"}, {"status": 400}, {"status": 404}, {"status": 200},
    {"status": 400, "code": "malformed"}, {"status": 400, "code": "late"}, {"status": 400, "code": "early"},
    {"status": 404, "code": "unknown_plan"}, {"status": 404, "code": "not_found"}, {"status": 413, "code": "too_large"},
)  # fmt: skip
"""Of a collector, or of something before it."""
SECRETS = 50
"""Of each life: with one secret for all, what a metric remembers might be alike for every value."""
_SHORT = 12  # Rounds of a life of remembered answers
_LONG = 60  # Rounds of the first life of a family
_MOST = 40  # Rounds of one life in which something happens, where windows are long


@dataclass(frozen=True)
class AuditLife:
    """One device from its first start on."""

    family: str
    name: str
    events: tuple[Event, ...]
    secret: int = 0  #: The number of its first secret; `forget` draws the next one


def lives_of(plan: Plan, count: int, first_round: int) -> list[AuditLife]:
    """
    So many lives of each family, the same ones in every audit of a plan.

    A life of remembered answers has a dozen rounds, one of sampled answers two windows; the first life of a family
    is longer. Where two windows have more than 60 rounds, there are fewer lives. Lives of the family "expiry" begin
    shortly before the plan expires.
    """
    lives: list[AuditLife] = []
    usual = 2 * plan.answers.window or _SHORT
    count = max(1, min(count, count * _LONG // usual))
    for number, family in product(range(count), families_of(plan)):
        source = Random(f"{plan.fingerprint!r}/{family}/{number}")  # noqa: S311
        rounds = usual
        if number == 0:
            rounds *= max(1, _LONG // usual, 2 * (usual <= _LONG))
        begin = first_round - 1
        if family == "expiry":
            begin = max(0, last_round_of(plan) - source.randrange(1, rounds))
        secret = SECRETS * len(lives)
        builder = LifeBuilder(plan, source, begin, secret)
        builder.live(family, rounds + 1)
        lives.append(AuditLife(family, f"{family} {number + 1}", tuple(builder.events), secret))
    return lives


def families_of(plan: Plan) -> tuple[str, ...]:
    """The families of lives of a plan; one that does not expire has no lives in which it does."""
    return tuple(family for family in FAMILIES if family != "expiry" or plan.expires is not None)


def last_round_of(plan: Plan) -> int:
    """The round in which a plan expires."""
    if plan.expires is None:
        raise ValueError("the plan does not expire")
    end = datetime(plan.expires.year, plan.expires.month, plan.expires.day, tzinfo=UTC)
    return plan.round_at(end.timestamp() - 1)


class LifeBuilder:
    """Makes one life, round after round."""

    def __init__(self, plan: Plan, source: Random, first: int, secret: int) -> None:
        self.plan = plan
        sampled = plan.answers.sampled
        self.turns: dict[str, list[Fraction]] = {} if sampled else turns_of(plan, secret)
        self.source = source
        self.first = first
        self.round = first
        self.events: list[Event] = []
        self.version = plan.version + source.randrange(3)

    def add(self, share: float, do: str, **more: Any) -> None:
        """One more event, this far into the round."""
        at = self.plan.round(self.round).start + int(share * self.plan.round_seconds)
        self.events.append({"at": at, "do": do, **more})

    def start(self, share: float, text: str = "") -> None:
        """The program starts, with the tags that the device has then, and its own plan or this one."""
        tags = {
            segment.name: self.source.choice([*segment.values, "unknown"]) for segment in self.plan.segments
        }
        self.add(share, "open", plan=text or self.text, consent="granted", policy="unlimited", segment=tags)

    @property
    def text(self) -> str:
        """The plan of the program: with each second version its first question is another one."""
        text = of_version(self.plan, self.version)
        return with_another_question(text) if self.version % 4 >= 2 else text

    def live(self, family: str, rounds: int) -> None:
        """Rounds in which values are recorded, with what is special about the family between them."""
        end = self.round + rounds
        longest = min(-(-rounds // _MOST), max(1, self.plan.grace_seconds // self.plan.round_seconds))
        self.start(0.1)
        while self.round < end:
            self.record()
            if self.source.random() < 0.5:
                getattr(self, f"_{family}")()
                if self.source.random() < 0.5:
                    self.record(0.8)
            self.round += self.source.randint(1, longest)
            if family == "host":
                self.take()
            else:
                self.flush(family)
        self.round += 1
        self.add(0.05, "flush")

    def flush(self, family: str) -> None:
        """The device answers and sends; some attempts fail."""
        answers: list[dict[str, object]] = []
        if family == "collector":
            answers = [self.source.choice(ANSWERS) for _ in range(self.source.randrange(4))]
        elif family != "values" and self.source.random() < 0.2:
            answers = [{"status": 503}]
        if answers and self.source.random() < 0.3:
            answers[0] = {"status": 503, "retry_after": self.plan.round_seconds * 3 // 2}
        self.add(self.source.choice((0, 0.05)), "flush", answers=answers)
        if self.source.random() < 0.1:
            self.add(0.06, "report")

    def take(self) -> None:
        """The host takes the bytes, and now and then leaves them to the device."""
        do = self.source.choice(("report", "report", "report", "flush", "nothing"))
        if do != "nothing":
            self.add(0.05, do)
        if self.source.random() < 0.1:
            self.add(0.06, "report")

    def record(self, share: float = 0.3) -> None:
        """What a program records this far into a round: nothing, everything, or some of it."""
        pattern = self.source.choice(
            ("nothing", "zero", "top", "above", "odd", "point", "some", "some", "some", "some")
        )
        for metric in self.plan.metrics:
            if pattern == "nothing" or (pattern == "some" and self.source.random() < 0.3):
                continue
            if metric.labels:
                labels = [*metric.labels, "no such label"]
                for _ in range(self.source.choice((1, 1, 2))):
                    self.add(share, "choose", metric=metric.name, label=self.source.choice(labels))
                continue
            for name in metric.recorded:
                if pattern != "some":
                    self.add(share, "set", metric=name, value=self.amount(metric, pattern))
                    continue
                for _ in range(self.source.choice((1, 1, 2, 3))):
                    do, given = self.source.choice((("set", "value"), ("add", "amount")))
                    amount = self.amount(metric, self.source.choice(_AMOUNTS))
                    self.add(share, do, metric=name, **{given: amount})
        if pattern == "some" and self.source.random() < 0.1:
            self.add(share, "add", metric="no_such_metric", amount=1)

    def amount(self, metric: Metric, pattern: str) -> object:
        """An amount that a metric is given."""
        top = Fraction(metric.max_value)
        if pattern == "zero":
            return 0
        if pattern == "odd":
            return self.source.choice(ODD)
        if pattern == "huge":
            return self.source.choice(HUGE)
        share = {"top": Fraction(1), "above": Fraction(3)}.get(
            pattern, Fraction(self.source.randrange(43), 42)
        )
        value = top * share
        if pattern == "point" and not metric.parts:
            points: Sequence[int | Fraction] = self.turns.get(metric.name) or points_of(metric)
            value = Fraction(self.source.choice(points))
        return value.numerator if value.denominator == 1 else str(value)

    def _values(self) -> None:
        """Nothing but values."""

    def _collector(self) -> None:
        """Nothing but what it answers."""

    def _restarts(self) -> None:
        self.add(0.5, self.source.choice(("close", "kill")))
        self.start(0.6)

    def _gaps(self) -> None:
        longest = 2 + self.plan.grace_seconds // self.plan.round_seconds
        self.add(0.5, self.source.choice(("close", "close", "kill")))
        self.round += self.source.choice((1, 1, 2, 3, min(longest, 40)))
        self.start(0.01)
        if self.source.random() < 0.5:
            self.add(0.02, "flush")

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
            self._wait()
            self.add(0.7, "resume")
        else:
            self.add(0.5, "consent", choice=choice)
            self._wait()
            self.add(0.7, "consent", choice="granted")

    def _wait(self) -> None:
        """Some rounds, in which the program goes on as ever."""
        for _ in range(self.source.choice((0, 1, 2))):
            self.record()
            self.round += 1
            self.add(0.05, "flush")

    def _versions(self) -> None:
        self.add(0.5, "close")
        kind = self.source.choice(("next", "next", "older", "other"))
        if kind == "next":
            self.version += 1
            self.start(0.6)
        elif kind == "older":
            self.start(0.6, of_version(self.plan, max(1, self.version - 1)))
        else:
            self.start(0.6, with_another_question(self.text))

    def _clock(self) -> None:
        self.add(0.4, "flush")
        self.round -= 1
        self.record(0.85)
        self.add(0.9, "flush")
        self.round += 1

    def _host(self) -> None:
        if self.round > self.first:
            self.add(0.5, "report", current=True)

    def _expiry(self) -> None:
        if self.source.random() < 0.3:
            self._restarts()

    def _everything(self) -> None:
        special = self.source.choice(("restarts", "gaps", "choices", "versions", "clock"))
        getattr(self, f"_{special}")()


_AMOUNTS = ("share", "share", "point", "zero", "top", "odd", "odd", "huge")


def turns_of(plan: Plan, secret: int) -> dict[str, list[Fraction]]:
    """
    The values of each mean between which its remembered answer changes, with those just below.

    A client that rounds a value, or computes with floating point, answers some of them in another way.
    """
    answers = reference.answer(plan.text, interpreter.secret(secret), 0, 0, {})["answers"]
    turns: dict[str, list[Fraction]] = {}
    for metric in plan.metrics:
        if metric.mechanism.grid is None or metric.name not in answers:
            continue
        alpha = int(answers[metric.name]["alpha"])
        turns[metric.name] = []
        for low, high in pairwise(map(Fraction, metric.mechanism.grid.points)):
            turn = high - alpha * (high - low) / SCALE
            turns[metric.name] += [low, turn, turn - (high - low) / SCALE / 2]
        turns[metric.name].append(Fraction(metric.max_value))
    return turns


def points_of(metric: Metric) -> Sequence[int | Fraction]:
    """The values at which a metric's answer may change: points that are rounded to, or edges of buckets."""
    mechanism = metric.mechanism
    if mechanism.grid is not None:
        return mechanism.grid.points
    return mechanism.buckets.edges if mechanism.buckets is not None else (0, metric.max_value)


def of_version(plan: Plan, version: int) -> str:
    """The text of a plan under another version."""
    return re.sub(r"(?m)^version\s*=\s*\d+", f"version = {version}", plan.text, count=1)


def with_another_question(text: str) -> str:
    """A plan whose first metric has half of its epsilon."""
    return re.sub(
        r"(\bepsilon\s*=\s*)([\d.]+)", lambda found: f"{found[1]}{float(found[2]) / 2:g}", text, count=1
    )
