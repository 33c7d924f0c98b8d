"""Clients that break a promise each, and the plans they answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random

import pytest

from reticent.device import SecretDraws, answer
from reticent.lab.audit import CoreParticipant
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Group, Metric, Plan
from reticent.reports import Report, to_json


@pytest.fixture(autouse=True)
def _tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that runs the tests may not want to be tracked; these devices must not know."""
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)


def a_plan(*metrics: Metric, groups: tuple[Group, ...] = ()) -> Plan:
    return Plan("audited", 1, 3600, 3600, metrics, groups)


@pytest.fixture(scope="session")
def plans() -> Mapping[str, Plan]:
    """Plans by what is in them."""
    flip, buckets = Flip("0.2"), Buckets.even(8, 8)
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
        "group without flips": a_plan(
            *(replace(each, flip=Flip(0)) for each in counters),
            groups=(Group("apps", ("app0", "app1", "app2"), 100),),
        ),
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
        return Crooked(self.plan, self.secret, self.twist, self.source)

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
        replace(each, mechanism=OneBitMean(each.mechanism.epsilon * 11 / 10, each.max_value))
        for each in plan.metrics
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


class Lazy(SecretDraws):
    """Takes one draw where there should be several."""

    def __init__(self, secret: bytes, plan: Plan, *, per_cell: bool, per_metric: bool) -> None:
        super().__init__(secret, plan.name, 0)
        self._first, self._per_cell, self._per_metric = plan.metrics[0], per_cell, per_metric

    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        return super().memo(metric if self._per_metric else self._first, memo_class if self._per_cell else 0)


def one_draw_for_all_metrics(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
    draws = Lazy(device.secret, device.plan, per_cell=True, per_metric=False)
    return to_json(answer(draws, device.plan, number, values).report)


def one_draw_for_all_cells(device: Crooked, number: int, values: Mapping[str, object]) -> bytes | None:
    draws = Lazy(device.secret, device.plan, per_cell=False, per_metric=True)
    return to_json(answer(draws, device.plan, number, values).report)


TWISTS = [
    honest, redraws_on_each_call, redraws_each_round, forgets_the_flip, a_tenth_too_much, silent_at_nothing,
    seldom_silent, id_tells, size_tells, one_draw_for_all_metrics, one_draw_for_all_cells,
]  # fmt: skip


@pytest.fixture(scope="session")
def crooked() -> Callable[..., CrookedClient]:
    """Makes a client that breaks one promise, by the name of the twist."""
    twists = {twist.__name__: twist for twist in TWISTS}
    return lambda name, seed=1: CrookedClient(twists[name], seed)


@pytest.fixture
def participant(plans: Mapping[str, Plan]) -> CoreParticipant:
    return CoreParticipant(plans["mean"], os.urandom(32))
