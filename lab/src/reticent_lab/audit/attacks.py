"""Attacks with an event fixed beforehand: the one that tells most about a device that never changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from reticent.mechanisms import SCALE
from reticent.plan import Metric, Plan
from reticent_lab.audit.bounds import SURE, Fault, Floats, HistoryComparison, compare, expected_lower
from reticent_lab.audit.enumeration import (
    ALL_ROUNDS,
    ONE_ROUND,
    ONE_WINDOW,
    SHORT,
    TWO_WINDOWS,
    constant_over,
    remembered,
)
from reticent_lab.audit.exact import Enumerated
from reticent_lab.audit.scenarios import Aim, Histories, Sample

_LEVELS = 200


@dataclass(frozen=True, slots=True)
class AnswerBit:
    """One answer bit that an event looks at."""

    metric: str
    position: int  #: Its place in the report
    wanted: int  #: The answer that speaks for the first history
    flip: float
    first: float  #: The chance that the wanted answer is remembered in the first history
    second: float
    column: int = 0  #: The first round it is looked at; of sampled answers, the window


def marks_of(plan: Plan, metric: Metric, first: Aim, second: Aim, column: int) -> tuple[AnswerBit, ...]:
    """The bits of a metric whose chances differ between two of its values: the first two, or the only one."""
    chances = chance_of_first(metric, first), chance_of_first(metric, second)
    offset = plan.offset(metric.name)
    flip = float(metric.flip.probability)
    return tuple(
        AnswerBit(metric.name, offset + bit, 1 - bit, flip, *chances, column)
        for bit in range(min(metric.bits, 2))
    )


def chance_of_first(metric: Metric, aim: Aim) -> float:
    """The chance that what speaks for the first value is remembered by a device that holds `aim`."""
    low = metric.mechanism.response.low / SCALE
    if isinstance(aim, str):
        return 1 - low if aim == "first" else low
    return remembered(metric.mechanism, aim) / SCALE**2


@dataclass(frozen=True, slots=True)
class Attack:
    """
    Two histories without a change, a claim, and the bits to look at.

    The event is the most powerful one for a client that keeps its claim (Neyman & Pearson 1933), at the level
    with the largest expected bound. It follows from the plan alone, so it is fixed before a report is seen.
    """

    loss: Enumerated
    first: int
    second: int
    rounds: int
    marks: tuple[AnswerBit, ...]


def attacks_on(plan: Plan, scenarios: Histories, exact: Sequence[Enumerated]) -> Iterator[Attack]:
    """
    Every attack on devices that never change, in both directions.

    Where a report answers some metrics only, those of the largest ε stand for the whole plan.
    """
    losses = {(loss.subject, loss.what): loss for loss in exact}
    short = scenarios.worlds[0].rounds
    long = scenarios.worlds[scenarios.long].rounds
    sampled = plan.answers.sampled

    def both(
        subject: str, what: str, metrics: Sequence[Metric], rounds: int, far: int = 0, columns: int = 1
    ) -> Iterator[Attack]:
        loss = losses[subject, what]
        pair = scenarios.of_metric(plan, metrics[0]) if subject in plan.by_name else scenarios.joint
        for first, second in (pair, pair[::-1]):
            here, there = scenarios.worlds[first].states[0], scenarios.worlds[second].states[0]
            marks = [
                mark
                for column in range(columns)
                for metric in metrics
                for mark in marks_of(plan, metric, here[metric.name], there[metric.name], column)
            ]
            yield Attack(loss, first + far, second + far, rounds, tuple(marks))

    subjects: dict[str, Sequence[Metric]] = {metric.name: [metric] for metric in plan.metrics}
    if plan.asked == len(plan.metrics):
        for group in plan.groups:
            subjects[f"group {group.name}"] = [plan.by_name[name] for name in group.metrics]
    if len(plan.metrics) > 1:
        by_loss = sorted(plan.metrics, key=lambda metric: -metric.mechanism.epsilon)
        subjects["whole plan"] = by_loss[: plan.asked] if sampled else plan.metrics
    for subject, metrics in subjects.items():
        if sampled:
            for columns, what in ((1, ONE_WINDOW), (2, TWO_WINDOWS)):
                yield from both(subject, what, metrics, 1, columns=columns)
            continue
        yield from both(subject, ONE_ROUND, metrics, 1)
        if subject in plan.by_name:
            for rounds, far in dict.fromkeys([(short, 0), (long, scenarios.long)]):
                if rounds > 1:
                    yield from both(subject, constant_over(rounds), metrics, rounds, far)
        elif long > 1:
            yield from both(subject, ALL_ROUNDS, metrics, long, scenarios.long)


class Event:
    """The event of an attack, for so many devices in each history."""

    def __init__(self, attack: Attack, devices: int, other_devices: int) -> None:
        self.attack = attack
        self.devices, self.other_devices = max(devices, 1), max(other_devices, 1)
        first = [_law(mark.flip, mark.first, attack.rounds) for mark in attack.marks]
        second = [_law(mark.flip, mark.second, attack.rounds) for mark in attack.marks]
        ranks = [_ranks(*laws) for laws in zip(first, second, strict=True)]
        levels = min(_LEVELS, max(int(rank.max()) for rank in ranks) + 1)
        tries = [
            [rank >= round(level * rank.max() / max(levels - 1, 1)) for rank in ranks]
            for level in range(levels)
        ]
        chances = [(_chance(first, accepted), _chance(second, accepted)) for accepted in tries]
        here, there = (np.array(column) for column in zip(*chances, strict=True))
        promised = expected_lower(here, self.devices, there, self.other_devices)
        best = promised if promised.max() > 0 else here - there
        self.accepted = tries[int(np.argmax(best))]

    def shown(self, sample: Sample, informed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the informed devices show the event."""
        shown = np.ones(sample.devices, np.bool_)
        for mark, accepted in zip(self.attack.marks, self.accepted, strict=True):
            looked_at = slice(mark.column, mark.column + self.attack.rounds)
            agrees = sample.answered(mark.position, mark.wanted)[:, looked_at]
            shown &= accepted[agrees.sum(axis=1)]
        return shown[informed]

    def notices(self, excess: float, together: int) -> bool:
        """Whether a client whose every ε is larger by this share would be found out with chance 0.98."""

        def chance(memos: Sequence[float]) -> float:
            stretched = [1 / (1 + math.exp((1 + excess) * math.log((1 - memo) / memo))) for memo in memos]
            laws = [
                _law(mark.flip, memo, self.attack.rounds)
                for mark, memo in zip(self.attack.marks, stretched, strict=True)
            ]
            return _chance(laws, self.accepted)

        here = chance([mark.first for mark in self.attack.marks])
        there = chance([mark.second for mark in self.attack.marks])
        lower = expected_lower(here, self.devices, there, self.other_devices, together, luck=SURE)
        return bool(lower > self.attack.loss.claim)

    def redrawn(self) -> Fault:
        """The chances of the event if each round had an answer of its own."""
        chances = []
        for side in ("first", "second"):
            laws = []
            for mark in self.attack.marks:
                memo = getattr(mark, side)
                shown = memo * (1 - mark.flip) + (1 - memo) * mark.flip
                laws.append(binom.pmf(np.arange(self.attack.rounds + 1), self.attack.rounds, shown))
            chances.append(_chance(laws, self.accepted))
        return Fault("draws its answers again in each round", *chances)


def _law(flip: float, memo: float, rounds: int) -> Floats:
    count = np.arange(rounds + 1)
    kept = binom.pmf(count, rounds, 1 - flip)
    turned = binom.pmf(count, rounds, flip)
    return np.asarray(memo * kept + (1 - memo) * turned)


def _ranks(first: Floats, second: Floats) -> NDArray[np.int64]:
    """Likelihood ranks, 0 the smallest; what is impossible in both histories ranks with its majority."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.round(np.log(first) - np.log(second), 9)
    most = 2 * np.arange(len(ratio)) >= len(ratio)
    ratio = np.where(np.isnan(ratio), np.where(most, ratio[-1], ratio[0]), ratio)
    return np.searchsorted(np.unique(ratio), ratio)


def _chance(laws: Sequence[Floats], accepted: Sequence[NDArray[np.bool_]]) -> float:
    return min(1.0, math.prod(float(law[kept].sum()) for law, kept in zip(laws, accepted, strict=True)))


def compare_steady(
    plan: Plan, attacks: Sequence[Attack], samples: Sequence[Sample]
) -> Iterator[HistoryComparison]:
    """Count each event in both of its histories, among devices whose cohort tells the values apart."""
    for attack in attacks:
        pair = samples[attack.first], samples[attack.second]
        masks = [
            np.logical_and.reduce([sample.informed(plan, mark.metric, mark.column) for mark in attack.marks])
            for sample in pair
        ]
        event = Event(attack, *(int(mask.sum()) for mask in masks))
        shown, other = (event.shown(sample, mask) for sample, mask in zip(pair, masks, strict=True))
        yield compare(
            attack.loss.subject, attack.loss.what, attack.loss.claim, attack.loss.loss, shown, other,
            event.notices if math.isfinite(attack.loss.claim) else None,
            event.redrawn() if attack.rounds > SHORT else None,
        )  # fmt: skip
