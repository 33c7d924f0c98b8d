"""Clients that break a promise each, and the plans they answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

import pytest

from reticent.device import SecretDraws, answer
from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Answers, Group, Metric, Plan
from reticent.reports import Report, to_json
from reticent_lab.audit import Audit
from reticent_lab.audit.clients import CoreParticipant


def a_plan(*metrics: Metric, groups: tuple[Group, ...] = ()) -> Plan:
    return Plan("audited", 1, 3600, 3600, metrics, groups)


def in_windows(
    *metrics: Metric, window: int = 2, asked: int | None = None, groups: tuple[Group, ...] = ()
) -> Plan:
    return Plan("audited", 1, 3600, 3600, metrics, groups, answers=Answers(window, asked))


@pytest.fixture(scope="session")
def plans() -> Mapping[str, Plan]:
    """Plans by what is in them."""
    flip, buckets = Flip("0.2"), Buckets.even(8, 8)
    two = Metric("a", OneBitMean(1, 100)), Metric("b", OneBitMean(1, 100))
    counters = tuple(Metric(f"app{number}", OneBitMean(1, 100), flip) for number in range(3))
    return {
        "mean": a_plan(Metric("saves", OneBitMean(1, 100), flip)),
        "mean without flips": a_plan(Metric("saves", OneBitMean(1, 100))),
        "fine mean": a_plan(Metric("saves", OneBitMean(2, 100, 25), Flip("0.1"))),
        "hadamard": a_plan(Metric("shape", HadamardBit(1, buckets), flip)),
        "two bits": a_plan(Metric("shape", DBitFlip(2, buckets, 2), flip)),
        "one bit, paper": a_plan(Metric("shape", DBitFlip(2, buckets, 1, "paper"))),
        "all buckets": a_plan(Metric("shape", DBitFlip(2, buckets, 8), flip)),
        "group": a_plan(*counters, groups=(Group("apps", ("app0", "app1", "app2"), 100),)),
        "group of two": a_plan(*counters[:2], groups=(Group("apps", ("app0", "app1"), 100),)),
        "group without flips": a_plan(
            *(replace(counter, flip=Flip(0)) for counter in counters),
            groups=(Group("apps", ("app0", "app1", "app2"), 100),),
        ),
        "sampled": in_windows(Metric("a", OneBitMean(1, 100))),
        "sampled group": in_windows(*two, window=1, groups=(Group("both", ("a", "b"), 100),)),
        "sampled, one of two": in_windows(*two, asked=1),
        "sampled histogram": in_windows(Metric("shape", HadamardBit(2, Buckets.even(3, 3)))),
        "mixed": a_plan(
            Metric("saves", OneBitMean("0.5", 100)),
            Metric("opens", OneBitMean(1, 50), flip),
            Metric("shape", HadamardBit(2, buckets), Flip("0.1")),
            groups=(Group("all", ("saves", "opens"), 70),),
        ),
    }


Twist = Callable[["Crooked", int, Mapping[str, object]], "bytes | None"]


@dataclass
class Crooked:
    """A device that keeps the law, except for what `twist` does."""

    plan: Plan
    secret: bytes
    twist: Twist
    source: Random
    draws: tuple[bytes, SecretDraws] | None = None
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)

    def report(
        self, round_number: int, values: Mapping[str, object], plan: Plan | None = None, secret: bytes = b""
    ) -> Report:
        """What the law says, for another plan or another secret if need be."""
        asked, key = plan or self.plan, secret or self.secret
        if self.draws is None or self.draws[0] != key:
            self.draws = key, SecretDraws(key, asked.name, 0)
        return answer(self.draws[1], asked, round_number, values).report

    def answer(self, round_number: int, values: Mapping[str, object]) -> bytes | None:
        return self.twist(self, round_number, values)

    def restart(self) -> None:
        pass

    def copy(self) -> Crooked:
        return Crooked(self.plan, self.secret, self.twist, self.source, memory=dict(self.memory))

    def close(self) -> None:
        pass


@dataclass
class CrookedClient:
    """Starts crooked devices, from a seed."""

    twist: Twist
    seed: int = 1
    name: str = "crooked"

    def __post_init__(self) -> None:
        self.source = Random(self.seed)

    def start(self, plan: Plan, first_round: int) -> Crooked:
        return Crooked(plan, self.source.randbytes(32), self.twist, self.source)


def honest(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
    return to_json(device.report(number, values))


def redraws_on_each_call(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
    report = device.report(number, values, secret=device.source.randbytes(32))
    return to_json(replace(report, id=device.report(number, values).id))


def redraws_each_round(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
    """Repeats itself within a round; remembers nothing beyond it."""
    fresh = bytes(byte ^ number % 251 for byte in device.secret[:31]) + bytes([number % 256])
    own = device.report(number, values)
    return to_json(replace(device.report(number, values, secret=fresh), id=own.id, cohort=own.cohort))


def forgets_the_flip(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
    return to_json(device.report(number, values, plan=calmer(device.plan)))


def a_tenth_too_much(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
    return to_json(device.report(number, values, plan=louder(device.plan)))


@cache
def louder(plan: Plan) -> Plan:
    """The same plan of means with ε larger by a tenth."""
    metrics = [
        replace(metric, mechanism=OneBitMean(metric.mechanism.epsilon * 11 / 10, metric.max_value))
        for metric in plan.metrics
    ]
    return replace(plan, metrics=tuple(metrics))


@cache
def calmer(plan: Plan) -> Plan:
    """The same plan without flips."""
    return replace(plan, metrics=tuple(replace(metric, flip=Flip(0)) for metric in plan.metrics))


def silent_at_nothing(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
    return honest(device, number, values) if any(values.values()) else None


def seldom_silent(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
    """Leaves out one round in four when there is nothing to tell."""
    return (
        None
        if not any(values.values()) and (device.secret[0] + number) % 4 == 0
        else honest(device, number, values)
    )


def id_tells(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
    report = device.report(number, values)
    return to_json(replace(report, id=report.id[:15] + bytes([report.id[15] & 0xFE | any(values.values())])))


def size_tells(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
    sent = to_json(device.report(number, values))
    return sent + b" " * bool(any(values.values()))


class Bent(SecretDraws):
    """Draws with one fault: each subclass has its own. Memory is what a faulty device would have stored."""

    def __init__(self, device: Crooked) -> None:
        super().__init__(device.secret, device.plan.name, 0)
        self.device, self.first = device, device.plan.metrics[0]


class OneDrawForAllMetrics(Bent):
    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        return super().memo(self.first, memo_class)


class OneDrawForAllCells(Bent):
    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        return super().memo(metric, 0)


class MemoOfSevenRounds(Bent):
    """Draws its answers anew every seven rounds."""

    now = 0

    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        return super().memo(metric, memo_class + 1000 * (self.now // 7))


class BiasedCoin(Bent):
    """Memo draws are 3 % too small."""

    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        return [draw * 97 // 100 for draw in super().memo(metric, memo_class)]


class OneFlipForEver(Bent):
    def flips(self, metric: Metric, round_number: int) -> Sequence[int]:
        return super().flips(metric, 0)


class OneFlipForFourRounds(Bent):
    def flips(self, metric: Metric, round_number: int) -> Sequence[int]:
        return super().flips(metric, round_number // 4)


class OnlyTheLatestClass(Bent):
    """Remembers one class: when a value returns, its answer is drawn again."""

    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        latest, times = self.device.memory.get(metric.name, (memo_class, 0))
        self.device.memory[metric.name] = memo_class, times + (latest != memo_class)
        return super().memo(metric, memo_class + 1000 * self.device.memory[metric.name][1])


class NoFlipAtAChange(Bent):
    """Sends the remembered answer as it is in a round whose class is another than the one before."""

    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        self.memo_class = memo_class
        return super().memo(metric, memo_class)

    def flips(self, metric: Metric, round_number: int) -> Sequence[int]:
        memory, before = self.device.memory, f"{metric.name} before {round_number}"
        if before not in memory:
            memory[before] = memory.get(metric.name, (self.memo_class, 0))
        memory[metric.name] = self.memo_class, 0
        changed = memory[before][0] != self.memo_class
        return [SCALE - 1] * metric.bits if changed else super().flips(metric, round_number)


class SharedAlpha(Bent):
    """All counters round up or down together."""

    def alpha(self, metric: Metric) -> int:
        return super().alpha(self.first)


def bent(kind: type[Bent]) -> Twist:
    """The law with the draws of `kind`."""

    def twist(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
        if device.draws is None:
            device.draws = device.secret, kind(device)
        draws = device.draws[1]
        if isinstance(draws, MemoOfSevenRounds):
            draws.now = number
        return to_json(answer(draws, device.plan, number, values).report)

    return twist


class OneDrawForAllWindows(SecretDraws):
    """Every window has the draws of the first."""

    def __init__(self, secret: bytes, plan: str, epoch: int, window: int) -> None:
        super().__init__(secret, plan, epoch, 0)
        self.now = window

    window = property(lambda self: self.now)  # type: ignore[assignment]


class Fresh(SecretDraws):
    """Those of the SDK."""


def keeps(kind: str) -> Callable[..., SecretDraws]:
    """Draws of which one kind is kept from window to window, like those of remembered answers."""

    def draws(secret: bytes, plan: str, epoch: int, window: int) -> SecretDraws:
        fresh = Fresh(secret, plan, epoch, window)
        setattr(fresh, kind, getattr(SecretDraws(secret, plan, epoch), kind))
        return fresh

    return draws


def sampled(
    kind: Callable[..., SecretDraws] = Fresh,
    picks: Callable[[Crooked, SecretDraws, int, Mapping[str, object]], bool] | None = None,
    asks: Callable[[Mapping[str, object]], tuple[bool, ...]] | None = None,
    change: Callable[[Report], Report] = lambda report: report,
) -> Twist:
    """The law of sampled answers, with one of its parts replaced."""

    def twist(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
        window = device.plan.window_of(number)
        draws = kind(device.secret, device.plan.name, 0, window.start)
        answers = picks(device, draws, number, values) if picks else draws.picked_round(window) == number
        if not answers:
            return None
        draws.picked_round = lambda window: number
        if asks:
            draws.asked = lambda plan: asks(values)
        return to_json(change(answer(draws, device.plan, number, values).report))

    return twist


def waits_for_a_value(device: Crooked, draws: SecretDraws, number: int, values: Mapping[str, object]) -> bool:
    """Answers the first round with a value, or the last of the window."""
    window = device.plan.window_of(number)
    name = f"window {window.start}"
    if name not in device.memory and (any(values.values()) or number == window.first + window.rounds - 1):
        device.memory[name] = number, 0
    return device.memory.get(name, (None, 0))[0] == number


def answers_louder(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
    honest_device = Crooked(
        louder(louder(louder(louder(device.plan)))), device.secret, device.twist, device.source
    )
    return sampled()(honest_device, number, values)


SAMPLED: dict[str, Twist] = {
    "honest in windows": sampled(),
    "answers in every round": sampled(picks=lambda *_: True),
    "one draw for all windows": sampled(OneDrawForAllWindows),
    "memo remembered": sampled(keeps("memo")),
    "round remembered": sampled(keeps("picked_round")),
    "cohort remembered": sampled(keeps("cohort")),
    "metrics remembered": sampled(keeps("asked")),
    "round by value": sampled(picks=waits_for_a_value),
    "metrics by value": sampled(asks=lambda values: (bool(values["a"]), not values["a"])),
    "metrics not said": sampled(change=lambda report: replace(report, bits=b"\xc0")),
    "half too much": answers_louder,
}

TWISTS: dict[str, Twist] = SAMPLED | {
    twist.__name__: twist
    for twist in (
        honest, redraws_on_each_call, redraws_each_round, forgets_the_flip, a_tenth_too_much,
        silent_at_nothing, seldom_silent, id_tells, size_tells,
    )
} | {
    "one_draw_for_all_metrics": bent(OneDrawForAllMetrics),
    "one_draw_for_all_cells": bent(OneDrawForAllCells),
    "memo of seven rounds": bent(MemoOfSevenRounds),
    "coin biased by 3 %": bent(BiasedCoin),
    "one flip for ever": bent(OneFlipForEver),
    "one flip for four rounds": bent(OneFlipForFourRounds),
    "only the latest class": bent(OnlyTheLatestClass),
    "no flip at a change": bent(NoFlipAtAChange),
    "shared alpha": bent(SharedAlpha),
}  # fmt: skip


@pytest.fixture(scope="session")
def crooked() -> Callable[..., CrookedClient]:
    """Makes a client that breaks one promise, by the name of the twist."""
    return lambda name, seed=1: CrookedClient(TWISTS[name], seed)


@pytest.fixture(scope="session")
def flagged() -> Callable[[Audit], set[str]]:
    """What an audit complains about, without the figures."""
    return lambda result: (
        {f"{attack.subject}: {attack.what}" for attack in result.attacks if attack.above}
        | {check.what for check in result.checks if check.holds is False}
    )


@pytest.fixture
def participant(plans: Mapping[str, Plan]) -> CoreParticipant:
    return CoreParticipant(plans["mean"], os.urandom(32))
