"""Histories to tell apart: what a device is made to live through, and what many of them sent."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ReportError
from reticent.lab.audit.clients import Client, Values
from reticent.lab.audit.enumeration import JointPair, halves, worst_pair
from reticent.mechanisms import Mechanism
from reticent.plan import Metric, Plan
from reticent.reports import Report, from_json

Value = int | Fraction
Aim = Value | str
"""A value, or "first" or "second": the two values of a metric that differ most, given the cohort."""

_BITS = re.compile(rb'"bits":"([A-Za-z0-9_-]+)"')
_ID = re.compile(rb'"id":"([A-Za-z0-9_-]{22})"')


@dataclass(frozen=True)
class World:
    """A history: what each metric holds before and after the middle."""

    name: str
    before: Mapping[str, Aim]
    after: Mapping[str, Aim]
    weight: float = 1.0
    """How many devices live it, as a share of those of the main histories."""

    def values(self, plan: Plan, cohort: int) -> tuple[Values, Values]:
        """What a device of a cohort is given, before and after the middle."""
        return tuple(
            {metric.name: resolved(metric.mechanism, aims[metric.name], cohort) for metric in plan.metrics}
            for aims in (self.before, self.after)
        )  # type: ignore[return-value]


def resolved(mechanism: Mechanism, aim: Aim, cohort: int) -> Value:
    """The value that an aim stands for; 0 where no two values differ."""
    if not isinstance(aim, str):
        return aim.numerator if aim.denominator == 1 else aim
    pair = mechanism.extremes(cohort)
    return 0 if pair is None else pair[aim == "second"]


def informative(mechanism: Mechanism) -> NDArray[np.bool_]:
    """For each cohort, whether any two values answer differently."""
    return np.array([mechanism.extremes(cohort) is not None for cohort in range(256)])


@dataclass(frozen=True)
class Histories:
    """All histories of an audit, and which of them are compared for what."""

    worlds: Sequence[World]
    steady: int
    """How many of the first worlds never change."""
    switched: int | None
    """The world that goes over from the first steady one to the second."""
    switched_back: int | None
    """The world that goes over from the second steady one to the first."""
    joint: tuple[int, int]
    """The two worlds that differ most in the groups, and in everything else."""
    pairs: Mapping[str, JointPair] = field(default_factory=dict)
    """The worst pair of each group."""

    def of_metric(self, plan: Plan, metric: Metric) -> tuple[int, int]:
        """The steady worlds in which a metric holds its first and its second value."""
        for group in plan.groups:
            if metric.name in group.metrics and len(group.metrics) > 1:
                place = group.metrics.index(metric.name)
                return place, (place + 1) % self.steady
        return 0, 1


def histories(plan: Plan, rounds: int) -> Histories:
    """
    The histories that an audit of `plan` plays.

    In steady world j, the counters of a group take turns: member j (mod its size) holds all it may, the
    others 0; what is in no group holds its first value in even worlds, its second in odd ones.
    """
    sizes = [len(group.metrics) for group in plan.groups]
    steady: list[dict[str, Aim]] = [_steady(plan, number) for number in range(max([2, *sizes]))]
    worlds = [World(f"steady {number}", aims, aims) for number, aims in enumerate(steady)]
    switched = None
    if rounds > 1:
        switched = len(worlds)
        worlds.append(World("switched", steady[0], steady[1], weight=0.1))
        worlds.append(World("switched back", steady[1], steady[0], weight=0.1))
    pairs = {group.name: worst_pair(plan, group, flips=True) for group in plan.groups}
    sides = [_joint_aims(plan, pairs, steady, turned) for turned in (False, True)]
    joint = next((pair for pair in sides if all(aims in steady for aims in pair)), sides[0])
    places = []
    for aims in joint:
        if aims not in steady:
            steady.append(aims)
            worlds.append(World("joint", aims, aims, weight=0.5))
        places.append(
            next(place for place, world in enumerate(worlds) if world.before == world.after == aims)
        )
    back = None if switched is None else switched + 1
    return Histories(worlds, max([2, *sizes]), switched, back, (places[0], places[1]), pairs)


def _joint_aims(
    plan: Plan, pairs: Mapping[str, JointPair], steady: Sequence[Mapping[str, Aim]], turned: bool
) -> tuple[dict[str, Aim], dict[str, Aim]]:
    """Each group's worst pair, and for the rest its first and second values (or the other way round)."""
    first, second = dict(steady[turned]), dict(steady[not turned])
    for group in plan.groups:
        first |= dict(zip(group.metrics, pairs[group.name].likelier, strict=True))
        second |= dict(zip(group.metrics, pairs[group.name].rarer, strict=True))
    return first, second


def _steady(plan: Plan, number: int) -> dict[str, Aim]:
    aims: dict[str, Aim] = {metric.name: ("first", "second")[number % 2] for metric in plan.metrics}
    for group in plan.groups:
        if len(group.metrics) > 1:
            for place, name in enumerate(group.metrics):
                most = min(Fraction(plan.by_name[name].max_value), Fraction(group.max_total))
                aims[name] = most if number % len(group.metrics) == place else Fraction(0)
    return aims


@dataclass
class Sample:
    """What the devices of one world sent: a row per device, a column per round."""

    bits: NDArray[np.uint8]
    """The answer bytes; 0 where nothing came."""
    silent: NDArray[np.bool_]
    sizes: NDArray[np.int32]
    """Bytes of each report; 0 where nothing came."""
    cohorts: NDArray[np.uint8]
    ids: NDArray[np.uint8]
    """Of the first round."""
    faults: dict[str, int]
    """Reports that are none, or not of this plan, by kind."""

    @property
    def devices(self) -> int:
        """How many."""
        return len(self.bits)

    def answered(self, position: int, wanted: int) -> NDArray[np.bool_]:
        """Where the answer bit at a place came, and was `wanted`."""
        column = self.bits[:, :, position // 8] >> (7 - position % 8) & 1
        return np.asarray((column == wanted) & ~self.silent)

    @staticmethod
    def together(parts: Sequence[Sample]) -> Sample:
        """Several samples of one world as one."""
        faults: dict[str, int] = {}
        for part in parts:
            for kind, count in part.faults.items():
                faults[kind] = faults.get(kind, 0) + count
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("bits", "silent", "sizes", "cohorts", "ids")
        }
        return Sample(**columns, faults=faults)


def collect(client: Client, plan: Plan, world: World, rounds: int, first_round: int, devices: int) -> Sample:
    """
    Let fresh devices live through a world, and keep what they send.

    Where the plan has a cohort, each device first answers one round of zeros, which shows its cohort and is
    otherwise left out: what values differ most depends on the cohort, which is public.
    """
    width, before = plan.report_bytes, halves(rounds)[0] if rounds > 1 else 1
    bits, ids = bytearray(devices * rounds * width), bytearray(devices * 16)
    sizes = np.zeros((devices, rounds), np.int32)
    cohorts = np.zeros(devices, np.uint8)
    faults: dict[str, int] = {}
    values: dict[int, tuple[Values, Values]] = {}
    nothing = dict.fromkeys(plan.by_name, 0)
    for device in range(devices):
        participant = client.start(plan, first_round)
        cohort = 0
        if plan.uses_cohort:
            cohort = _cohort(participant.answer(first_round, nothing), faults)
            cohorts[device] = cohort
        if cohort not in values:
            values[cohort] = world.values(plan, cohort)
        early, late = values[cohort]
        for place in range(rounds):
            sent = participant.answer(first_round + 1 + place, early if place < before else late)
            if sent is None:
                continue
            sizes[device, place] = len(sent)
            answer = _answer_bytes(sent)
            if len(answer) != width:
                faults["wrong size of the bits"] = faults.get("wrong size of the bits", 0) + 1
                answer = answer[:width].ljust(width, b"\0")
            start = (device * rounds + place) * width
            bits[start : start + width] = answer
            if place == 0:
                ids[device * 16 : device * 16 + 16] = _id_bytes(sent)
        participant.close()
    return Sample(
        bits=np.frombuffer(bytes(bits), np.uint8).reshape(devices, rounds, width),
        silent=sizes == 0,
        sizes=sizes,
        cohorts=cohorts,
        ids=np.frombuffer(bytes(ids), np.uint8).reshape(devices, 16),
        faults=faults,
    )


def _cohort(sent: bytes | None, faults: dict[str, int]) -> int:
    report = parsed(sent)
    if report is None or report.cohort is None:
        faults["no cohort"] = faults.get("no cohort", 0) + 1
        return 0
    return report.cohort


def parsed(sent: bytes | None) -> Report | None:
    """The report, if these bytes are one."""
    if sent is None:
        return None
    try:
        return from_json(sent)
    except ReportError:
        return None


def _answer_bytes(sent: bytes) -> bytes:
    """The bits of a report; found without reading all of it where it is written in the usual way."""
    usual = _BITS.search(sent)
    if usual:
        return _decoded(usual[1])
    report = parsed(sent)
    return report.bits if report else b""


def _id_bytes(sent: bytes) -> bytes:
    usual = _ID.search(sent)
    return _decode(usual[1]) if usual else bytes(16)


def _decode(text: bytes) -> bytes:
    return urlsafe_b64decode(text + b"=" * (-len(text) % 4))


_decoded: Callable[[bytes], bytes] = lru_cache(maxsize=4096)(_decode)
