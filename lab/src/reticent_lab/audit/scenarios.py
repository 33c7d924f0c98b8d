"""Histories to tell apart: what a device is made to live through, and what many of them sent."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ReportError
from reticent.mechanisms import COHORTS, Mechanism
from reticent.plan import Metric, Plan
from reticent.reports import Report, answers_asked, from_json
from reticent_lab.audit.clients import AuditedClient, Values
from reticent_lab.audit.enumeration import SHORT, worst_pair

Value = int | Fraction
Aim = Value | str
"""A value, or "first" or "second": the two values of a metric that differ most, given the cohort."""

LONG = 0.08
MOVING = 0.2
MIDDLE = 0.2
"""How many devices live through all rounds, move, and hold middle values; as shares of a main history's."""

_BITS = re.compile(rb'"bits":"([A-Za-z0-9_-]+)"')
_ID = re.compile(rb'"id":"([A-Za-z0-9_-]{22})"')


@dataclass(frozen=True)
class World:
    """
    A way to live: the states between which devices move, and for how many rounds.

    With several states and no path, devices come in pairs with mirrored histories: they start in one state and in
    the next, and change places in three rounds out of four, drawn at random.
    """

    states: tuple[Mapping[str, Aim], ...]
    rounds: int
    weight: float = 1.0  #: How many devices live it, as a share of those of the main histories
    path: tuple[int, ...] = ()  #: The state of every device in each round, where all live the same history

    def paths(self, devices: int, seed: Sequence[int]) -> NDArray[np.int16]:
        """In which state each device is in each round; fixed by `seed`, before anything is answered."""
        if self.path:
            return np.tile(np.array(self.path, np.int16), (devices, 1))
        coins = np.random.default_rng(seed)
        pairs = (devices + 1) // 2
        here = coins.integers(len(self.states), size=(pairs, 1, 1))
        sides = np.cumsum(coins.integers(4, size=(pairs, 1, self.rounds)) > 0, axis=2) % 2
        moved = here + np.concatenate([sides, 1 - sides], axis=1)
        return np.asarray(moved % len(self.states), np.int16).reshape(2 * pairs, self.rounds)[:devices]


def resolved(mechanism: Mechanism, aim: Aim, cohort: int | None) -> Value | None:
    """The value that an aim stands for (None for none); without a cohort, that of the first that distinguishes two."""
    if not isinstance(aim, str):
        return aim.numerator if aim.denominator == 1 else aim
    pairs = (mechanism.extremes(number) for number in (range(COHORTS) if cohort is None else (cohort,)))
    pair = next((pair for pair in pairs if pair is not None), None)
    return 0 if pair is None else pair[aim == "second"]


def as_recorded(plan: Plan, values: Mapping[str, Value | None]) -> Values:
    """Values as a program records them: a choice by its label, and nothing where there is no value."""
    return {
        name: plan.by_name[name].labels[int(value)] if plan.by_name[name].labels else value
        for name, value in values.items()
        if value is not None
    }


@lru_cache(maxsize=256)
def informative(mechanism: Mechanism, *, cohort_known: bool) -> NDArray[np.bool_]:
    """
    For each cohort, whether the first two answer bits distinguish the two values of `resolved`.

    A cohort that is drawn in each window is not known before values are chosen: all devices hold the same two.
    """
    if cohort_known:
        return np.array([mechanism.extremes(cohort) is not None for cohort in range(COHORTS)])
    pair = [resolved(mechanism, aim, None) for aim in ("first", "second")]
    answers = [
        [mechanism.thresholds(mechanism.memo_class(value, 0, cohort), cohort)[:2] for value in pair]
        for cohort in range(COHORTS)
    ]
    reference = next((cohort for cohort in range(COHORTS) if mechanism.extremes(cohort)), None)
    return np.array([reference is not None and answer == answers[reference] for answer in answers])


@dataclass(frozen=True)
class Histories:
    """All worlds of an audit, and which of them are compared for what."""

    worlds: Sequence[World]
    steady: int  #: How many of the first worlds never change, and differ for single metrics
    joint: tuple[int, int]  #: The two worlds that differ most in the groups, and in everything else
    long: int = 0
    """How far behind each of the worlds above stands the same one over all rounds; 0: they have them all."""
    moving: int | None = None  #: The world whose devices move between the steady ones
    middle: int | None = None  #: The world where metrics hold what each device rounds in its own way

    def of_metric(self, plan: Plan, metric: Metric) -> tuple[int, int]:
        """The steady worlds in which a metric holds its first and its second value."""
        for group in plan.groups:
            if metric.name in group.metrics and len(group.metrics) > 1:
                place = group.metrics.index(metric.name)
                return place, (place + 1) % self.steady
        return 0, 1


def steady_histories(plan: Plan, rounds: int) -> Histories:
    """
    Histories without a change.

    In steady world j, member j (mod its size) of each group holds all it may, the others 0; a metric in no group
    holds its first value in even worlds, its second in odd ones.
    """
    count = max([2, *(len(group.metrics) for group in plan.groups)])
    states: list[dict[str, Aim]] = [_steady(plan, number) for number in range(count)]
    worst = [(group, worst_pair(plan, group, flips=True)) for group in plan.groups]
    sides = []
    for first, second in ((dict(states[0]), dict(states[1])), (dict(states[1]), dict(states[0]))):
        for group, pair in worst:
            first |= dict(zip(group.metrics, pair.likelier, strict=True))
            second |= dict(zip(group.metrics, pair.rarer, strict=True))
        sides.append((first, second))
    joint = next((pair for pair in sides if all(aims in states for aims in pair)), sides[0])
    worlds = [World((aims,), rounds) for aims in states]
    for aims in joint:
        if aims not in states:
            states.append(aims)
            worlds.append(World((aims,), rounds, weight=0.5))
    return Histories(worlds, count, (states.index(joint[0]), states.index(joint[1])))


def histories(plan: Plan, rounds: int) -> Histories:
    """
    The histories that an audit of `plan` plays.

    Most devices live two rounds in a steady world, which reveals most about ε. Some live so for all `rounds`,
    some move between states, some hold values between two cells.
    """
    short = steady_histories(plan, min(rounds, SHORT))
    worlds = list(short.worlds)
    long = 0
    if rounds > SHORT:
        long = len(worlds)
        worlds += [replace(world, rounds=rounds, weight=world.weight * LONG) for world in short.worlds]
    moving = middle = None
    if rounds > 1:
        moving = len(worlds)
        states = tuple(world.states[0] for world in short.worlds[: short.steady])
        worlds.append(World(states, rounds, weight=MOVING))
    if sum(metric.bits for metric in plan.metrics) > 1:
        middle = len(worlds)
        worlds.append(World((_middle(plan),), min(rounds, 3), weight=MIDDLE))
    return replace(short, worlds=worlds, long=long, moving=moving, middle=middle)


def window_histories(plan: Plan) -> Histories:
    """The histories of a plan with sampled answers: two windows each, steady, moving within and between windows."""
    window = plan.answers.window
    steady = steady_histories(plan, 2 * window)
    states = steady.worlds[0].states + steady.worlds[1].states
    alternating = (0, 1) * window
    switched = (0,) * window + (1,) * window
    worlds = [
        *steady.worlds,
        World(states, 2 * window, 0.5, alternating),
        World(states, 2 * window, 0.5, switched),
        World((_middle(plan),), 2 * window, MIDDLE),
    ]
    return replace(steady, worlds=worlds, middle=len(worlds) - 1)


def _steady(plan: Plan, number: int) -> dict[str, Aim]:
    aims: dict[str, Aim] = {metric.name: ("first", "second")[number % 2] for metric in plan.metrics}
    for group in plan.groups:
        if len(group.metrics) > 1:
            for place, name in enumerate(group.metrics):
                most = min(Fraction(plan.by_name[name].max_value), Fraction(group.max_total))
                aims[name] = most if number % len(group.metrics) == place else Fraction(0)
    return aims


def _middle(plan: Plan) -> dict[str, Aim]:
    """Each mean halfway between two cells, within the limits of its groups; histograms at their first value."""
    aims: dict[str, Aim] = {}
    for metric in plan.metrics:
        points = metric.mechanism.grid.points if metric.mechanism.grid else ()
        shares = [
            Fraction(group.max_total) / len(group.metrics)
            for group in plan.groups
            if metric.name in group.metrics
        ]
        halfway = [Fraction(low + high) / 2 for low, high in pairwise(points)]
        most = min([Fraction(metric.max_value) / 2, *shares])
        aims[metric.name] = max((x for x in halfway if x <= most), default=most) if points else "first"
    return aims


@dataclass
class Sample:
    """What the devices of one world sent: a row per device, a column per round, or per window of sampled answers."""

    states: NDArray[np.int16]  #: In which state of the world each device was, in each round
    bits: NDArray[np.uint8]  #: The answer bytes; 0 where nothing came
    silent: NDArray[np.bool_]
    sizes: NDArray[np.int32]  #: Bytes of each report; 0 where nothing came
    cohorts: NDArray[np.uint8]
    asked: NDArray[np.uint8]  #: The bytes that say which metrics are answered; none where all are
    picks: NDArray[np.int32]  #: In which round of a window its report came; 0 where nothing came
    ids: NDArray[np.uint8]  #: Of the first report
    faults: dict[str, int]  #: Reports that are none, or not of this plan, by kind

    @property
    def devices(self) -> int:
        """How many."""
        return len(self.bits)

    def answered(self, position: int, wanted: int) -> NDArray[np.bool_]:
        """Where the answer bit at a place came, and was `wanted`."""
        column = self.bits[:, :, position // 8] >> (7 - position % 8) & 1
        return np.asarray((column == wanted) & ~self.silent)

    def informed(self, plan: Plan, name: str, column: int = 0) -> NDArray[np.bool_]:
        """Which devices answered a metric in a column, in a cohort that tells its two values apart."""
        metric = plan.by_name[name]
        usable = informative(metric.mechanism, cohort_known=not plan.answers.sampled)
        shown = usable[self.cohorts[:, column]]
        if not plan.asked_bytes:
            return shown
        place = plan.metrics.index(metric)
        return np.asarray(shown & (self.asked[:, column, place // 8] >> (7 - place % 8) & 1 == 1))

    @staticmethod
    def together(parts: Sequence[Sample]) -> Sample:
        """Several samples of one world as one."""
        faults: Counter[str] = Counter()
        for part in parts:
            faults.update(part.faults)
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("states", "bits", "silent", "sizes", "cohorts", "asked", "picks", "ids")
        }
        return Sample(**columns, faults=dict(faults))


def collect(
    client: AuditedClient, plan: Plan, world: World, first_round: int, devices: int, seed: Sequence[int]
) -> Sample:
    """
    Let fresh devices live through a world, and keep what they send.

    Where a cohort lasts, each device first answers one round of zeros, which shows it and is otherwise left out.
    """
    window = plan.answers.window
    shows_cohort = plan.uses_cohort and not window
    width = plan.report_bytes
    columns = world.rounds // (window or 1)
    states = world.paths(devices, seed)
    bits = bytearray(devices * columns * width)
    ids = bytearray(devices * 16)
    sizes, picks = np.zeros((devices, columns), np.int32), np.zeros((devices, columns), np.int32)
    cohorts = np.zeros((devices, columns), np.uint8)
    asked = np.zeros((devices, columns, plan.asked_bytes), np.uint8)
    faults: Counter[str] = Counter()
    values: dict[int | None, list[Values]] = {}
    nothing = {metric.name: 0 for metric in plan.metrics if not metric.labels}
    for device in range(devices):
        participant = client.start(plan, first_round)
        cohort = None if window else 0
        if shows_cohort:
            shown = parsed(participant.answer(first_round, nothing))
            if shown is None or shown.cohort is None:
                faults["no cohort"] += 1
            else:
                cohorts[device] = cohort = shown.cohort
        if cohort not in values:
            values[cohort] = [_recorded(plan, aims, cohort) for aims in world.states]
        lived = values[cohort]
        for place, state in enumerate(states[device]):
            sent = participant.answer(first_round + (not window) + place, lived[state])
            if sent is None:
                continue
            column, pick = divmod(place, window or 1)
            if sizes[device, column]:
                faults["second report in a window"] += 1
                continue
            sizes[device, column], picks[device, column] = len(sent), pick
            usual = None if window else _BITS.search(sent)  # reading the whole report takes longer
            report = None if usual else parsed(sent)
            answer = _decoded(usual[1]) if usual else report.bits if report else b""
            if len(answer) != width or (window and report and not answers_asked(report, plan)):
                faults["wrong size of the bits" if len(answer) != width else "wrong metrics"] += 1
                answer = answer[:width].ljust(width, b"\0")
            elif window and report:
                cohorts[device, column] = report.cohort or 0
                asked[device, column] = list(report.asked or b"")
            start = (device * columns + column) * width
            bits[start : start + width] = answer
            if column == 0:
                identity = _ID.search(sent)
                ids[device * 16 : device * 16 + 16] = _decode(identity[1]) if identity else bytes(16)
        participant.close()
    return Sample(
        states=states,
        bits=np.frombuffer(bytes(bits), np.uint8).reshape(devices, columns, width),
        silent=sizes == 0,
        sizes=sizes,
        cohorts=cohorts,
        asked=asked,
        picks=picks,
        ids=np.frombuffer(bytes(ids), np.uint8).reshape(devices, 16),
        faults=dict(faults),
    )


def _recorded(plan: Plan, aims: Mapping[str, Aim], cohort: int | None) -> Values:
    """What a device of a cohort records in a state of the world."""
    return as_recorded(
        plan, {metric.name: resolved(metric.mechanism, aims[metric.name], cohort) for metric in plan.metrics}
    )


def parsed(sent: bytes | None) -> Report | None:
    """The report, if these bytes are one."""
    if sent is None:
        return None
    try:
        return from_json(sent)
    except ReportError:
        return None


def _decode(text: bytes) -> bytes:
    try:
        return urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except ValueError:  # no number of bytes has so many letters
        return b""


_decoded: Callable[[bytes], bytes] = lru_cache(maxsize=4096)(_decode)
