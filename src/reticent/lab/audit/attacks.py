"""Distinguishing attacks: an event chosen beforehand, how often it happens in two histories, a bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from reticent.estimates import clopper_pearson
from reticent.lab.audit.enumeration import (
    ONE_ROUND,
    STAYED,
    SWITCHED,
    constant_over,
    halves,
    remembered,
    same_pattern,
)
from reticent.lab.audit.exact import Enumerated
from reticent.lab.audit.scenarios import Histories, Sample, World, informative
from reticent.mechanisms import SCALE
from reticent.plan import Metric, Plan

FALSE_ALARM = 1e-6
"""How often an audit flags a client that keeps every claim, over all its events together."""

SURE = 2.3263478740408408
"""The 99 % point of the normal distribution: what "would notice" means."""


@dataclass(frozen=True, slots=True)
class Bound:
    """ln of the ratio of an event's chances under two histories: an estimate, and where it must lie."""

    estimate: float
    lower: float
    """Never below 0: so much is lost at least, at the declared confidence."""
    upper: float


def ratio_bound(
    hits: int,
    devices: int,
    other_hits: int,
    other_devices: int,
    together: int,
    false_alarm: float = FALSE_ALARM,
) -> Bound:
    """
    A loss of at least `lower`, from an event that was chosen before these devices were looked at.

    With P and Q the chances of the event under the two histories, every claim of ε says P ≤ e^ε Q. From
    `hits` of `devices` and `other_hits` of `other_devices`, Clopper-Pearson gives P ≥ P_lo and Q ≤ Q_hi, each
    wrong with chance α/(2E), α = `false_alarm` and E = `together` events. So ln(P_lo/Q_hi) exceeds the true
    loss in any of the E events with chance α at most (Bonferroni; the events need not be independent).

    >>> ratio_bound(700, 1000, 300, 1000, together=1).lower < math.log(7 / 3)
    True
    """
    if not devices or not other_devices:
        return Bound(0.0, 0.0, math.inf)
    confidence = 1 - false_alarm
    low, high = (float(end) for end in clopper_pearson(hits, devices, confidence, together))
    other_low, other_high = (
        float(end) for end in clopper_pearson(other_hits, other_devices, confidence, together)
    )
    estimate = _log(hits * other_devices, other_hits * devices)
    return Bound(estimate, max(0.0, _log(low, other_high)), _log(high, other_low))


def _log(above: float, below: float) -> float:
    if below <= 0:
        return math.inf if above > 0 else 0.0
    return math.log(above / below) if above > 0 else -math.inf


def expected_lower(
    chance: NDArray[np.float64] | float,
    devices: int,
    other: NDArray[np.float64] | float,
    other_devices: int,
    together: int,
    *,
    luck: float = 0.0,
) -> NDArray[np.float64]:
    """
    The bound that so many devices would give, for events of these chances (numbers or arrays); may be < 0.

    `luck` 0 is the middle of what may come; at `SURE` the bound is at least this with chance 0.98 (both
    counts within their 99 % points, normal approximation).
    """
    first = _typical(chance, devices, -luck)
    second = _typical(other, other_devices, luck)
    low, _ = clopper_pearson(first, devices, 1 - FALSE_ALARM, together)
    _, high = clopper_pearson(second, other_devices, 1 - FALSE_ALARM, together)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(low) - np.log(high))


def _typical(chance: Any, devices: int, luck: float) -> NDArray[np.float64]:
    share = np.asarray(chance, dtype=np.float64)
    count = devices * share + luck * np.sqrt(devices * share * (1 - share))
    return np.asarray(np.clip(count, 0, devices))


Floats = NDArray[np.float64]
Memo = tuple[float, float | None]
"""The chance that the wanted answer is remembered, before and after the middle; None: the same memo."""

_LEVELS = 200
_MOST_EXCESS = 16.0


@dataclass(frozen=True, slots=True)
class Mark:
    """One answer bit that an event looks at."""

    metric: str
    position: int
    """Its place in the report."""
    wanted: int
    """The answer that speaks for the first history."""
    flip: float
    first: Memo
    second: Memo


@dataclass(frozen=True, slots=True)
class Attack:
    """
    Two histories, a claim, and the bits to look at.

    The event is the most powerful one there is for a client that keeps its claim: that the likelihood ratio
    of each bit's answers, by their number in each part, reaches a level (Neyman & Pearson 1933). The level
    is the one that promises the largest bound. All of this follows from the plan, so the event is fixed
    before a single report is seen. With too few devices for any bound, the event is the
    one whose chances differ most.
    """

    subject: str
    what: str
    claim: float
    exact: float
    first: int
    second: int
    parts: tuple[int, int]
    """Rounds looked at, before and after the middle."""
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Attacked:
    """What an attack found: a loss of at least `lower`, at the audit's confidence."""

    subject: str
    what: str
    claim: float
    exact: float | None
    """What enumeration says; None for what must not depend on values at all."""
    estimate: float
    lower: float
    upper: float
    devices: int
    """Per history."""
    above: bool
    notice: float | None = None
    """The smallest excess of ε that so many devices show with chance 0.98, as a share of ε; None: none."""

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return asdict(self)


def attacks_on(plan: Plan, told: Histories, rounds: int, exact: Sequence[Enumerated]) -> list[Attack]:
    """Every attack on the answer bits, in both directions."""
    losses = {(loss.subject, loss.what): loss for loss in exact}
    attacks: list[Attack] = []
    for metric in plan.metrics:
        first, second = told.of_metric(plan, metric)
        marks = _marks(plan, metric, told.worlds[first], told.worlds[second])
        whats = [(ONE_ROUND, (1, 0))]
        if rounds > 1:
            whats.append((constant_over(rounds), halves(rounds)))
        for what, parts in whats:
            loss = losses[metric.name, what]
            attacks += _both(Attack(metric.name, what, loss.claim, loss.loss, first, second, parts, marks))
        if told.switched is not None:
            attacks += _switch_attacks(plan, metric, told, rounds, losses)
    return attacks + list(_joint_attacks(plan, told, rounds, losses))


def _both(attack: Attack) -> list[Attack]:
    """An attack, and the same bits the other way round: what speaks for the second history."""
    turned = replace(attack, first=attack.second, second=attack.first, marks=_turned(attack.marks))
    return [attack, turned]


def _turned(marks: Sequence[Mark]) -> tuple[Mark, ...]:
    return tuple(replace(mark, first=mark.second, second=mark.first) for mark in marks)


def _marks(plan: Plan, metric: Metric, first: World, second: World) -> tuple[Mark, ...]:
    """The bits of a metric whose chances differ between the beginnings of two worlds."""
    offset, gamma = plan.offset(metric.name), float(metric.flip.probability)
    memos: tuple[Memo, Memo] = (_chance_in(metric, first), None), (_chance_in(metric, second), None)
    marks = [Mark(metric.name, offset, 1, gamma, *memos)]
    if metric.bits > 1:
        marks.append(Mark(metric.name, offset + 1, 0, gamma, *memos))
    return tuple(marks)


def _chance_in(metric: Metric, world: World) -> float:
    """The chance that the first value's answer is remembered in a world."""
    aim, low = world.before[metric.name], metric.mechanism.response.low / SCALE
    if isinstance(aim, str):
        return 1 - low if aim == "first" else low
    return remembered(metric.mechanism, aim) / SCALE**2


def _switch_attacks(
    plan: Plan, metric: Metric, told: Histories, rounds: int, losses: Mapping[tuple[str, str], Enumerated]
) -> Iterator[Attack]:
    """The history that switches against the two it switches between, and against its mirror image."""
    if told.switched is None:
        return
    before, after = (_marks(plan, metric, told.worlds[place], told.worlds[place]) for place in (0, 1))
    if before == after:
        return
    for steady, marks in ((0, before), (1, after)):
        both = tuple(
            replace(mark, first=(early.first[0], late.first[0]))
            for mark, early, late in zip(marks, before, after, strict=True)
        )
        for what, turned in ((SWITCHED, False), (STAYED, True)):
            loss = losses[metric.name, what]
            worlds = (steady, told.switched) if turned else (told.switched, steady)
            yield Attack(
                metric.name, what, loss.claim, loss.loss, *worlds, halves(rounds),
                _turned(both) if turned else both,
            )  # fmt: skip
    loss_of_pattern = losses.get((metric.name, same_pattern(2)))
    if loss_of_pattern and told.switched_back is not None:
        mirrored = tuple(
            replace(early, first=(early.first[0], late.first[0]), second=(late.first[0], early.first[0]))
            for early, late in zip(before, after, strict=True)
        )
        yield from _both(
            Attack(
                metric.name,
                same_pattern(2),
                loss_of_pattern.claim,
                loss_of_pattern.loss,
                told.switched,
                told.switched_back,
                halves(rounds),
                mirrored,
            )
        )


def _joint_attacks(
    plan: Plan, told: Histories, rounds: int, losses: Mapping[tuple[str, str], Enumerated]
) -> Iterator[Attack]:
    """Groups, and all bits of the report together."""
    first, second = told.joint
    worlds = told.worlds[first], told.worlds[second]
    marks = {metric.name: _marks(plan, metric, *worlds) for metric in plan.metrics}
    subjects = {f"group {group.name}": group.metrics for group in plan.groups}
    if len(plan.metrics) > 1:
        subjects["whole plan"] = tuple(marks)
    whats = [(ONE_ROUND, (1, 0))]
    if rounds > 1:
        whats.append(("constant, all rounds", halves(rounds)))
    for subject, names in subjects.items():
        bits = tuple(mark for name in names for mark in marks[name])
        for what, parts in whats:
            loss = losses[subject, what]
            yield from _both(Attack(subject, what, loss.claim, loss.loss, first, second, parts, bits))


class Event:
    """The event of an attack, for so many devices in each history."""

    def __init__(self, attack: Attack, devices: int, other_devices: int, together: int) -> None:
        self.attack = attack
        self.sizes = devices, other_devices, together
        first = [_law(mark, mark.first, attack.parts) for mark in attack.marks]
        second = [_law(mark, mark.second, attack.parts) for mark in attack.marks]
        ranks = [_ranks(*laws) for laws in zip(first, second, strict=True)]
        levels = min(_LEVELS, max(int(rank.max()) for rank in ranks) + 1)
        tries = [
            [rank >= round(level * rank.max() / max(levels - 1, 1)) for rank in ranks]
            for level in range(levels)
        ]
        chances = [(_chance(first, accepted), _chance(second, accepted)) for accepted in tries]
        here, there = (np.array(column) for column in zip(*chances, strict=True))
        promised = expected_lower(here, devices, there, other_devices, together)
        best = promised if promised.max() > 0 else here - there
        self.accepted = tries[int(np.argmax(best))]

    def hits(self, sample: Sample, informed: NDArray[np.bool_]) -> int:
        """How many of the informed devices show the event."""
        before, after = self.attack.parts
        shown = informed.copy()
        for mark, accepted in zip(self.attack.marks, self.accepted, strict=True):
            agrees = sample.answered(mark.position, mark.wanted)
            early, late = agrees[:, :before].sum(axis=1), agrees[:, before : before + after].sum(axis=1)
            shown &= accepted[early, late]
        return int(shown.sum())

    def notices(self, excess: float) -> bool:
        """Whether a client whose every ε is larger by this share would be found out with chance 0.98."""
        marks, parts = self.attack.marks, self.attack.parts
        here = _chance([_law(m, _stretched(m.first, excess), parts) for m in marks], self.accepted)
        there = _chance([_law(m, _stretched(m.second, excess), parts) for m in marks], self.accepted)
        devices, other_devices, together = self.sizes
        lower = expected_lower(here, devices, there, other_devices, together, luck=SURE)
        return bool(lower > self.attack.claim)


def _law(mark: Mark, memo: Memo, parts: tuple[int, int]) -> Floats:
    """The chance of so many wanted answers in each part."""
    kept = [binom.pmf(np.arange(count + 1), count, 1 - mark.flip) for count in parts]
    turned = [binom.pmf(np.arange(count + 1), count, mark.flip) for count in parts]
    chance, later = memo
    if later is None:
        return np.asarray(chance * np.outer(*kept) + (1 - chance) * np.outer(*turned))
    return np.outer(chance * kept[0] + (1 - chance) * turned[0], later * kept[1] + (1 - later) * turned[1])


def _ranks(first: Floats, second: Floats) -> NDArray[np.int64]:
    """
    Outcomes by likelihood ratio: 0 for the smallest.

    What is impossible in both histories (a change, without flips) ranks as what it is nearest to, by majority
    in each part: no chance is added for a client that keeps its word, much for one that does not.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.round(np.log(first) - np.log(second), 9)
    corners = [np.where(2 * np.arange(size) >= size, size - 1, 0) for size in ratio.shape]
    ratio = np.where(np.isnan(ratio), ratio[np.ix_(*corners)], ratio)
    most = 2 * np.add.outer(*(np.arange(size) for size in ratio.shape)) >= sum(ratio.shape) - 1
    ratio = np.where(np.isnan(ratio), np.where(most, ratio[-1, -1], ratio[0, 0]), ratio)
    return np.searchsorted(np.unique(ratio), ratio)


def _chance(laws: Sequence[Floats], accepted: Sequence[NDArray[np.bool_]]) -> float:
    return min(1.0, math.prod(float(law[kept].sum()) for law, kept in zip(laws, accepted, strict=True)))


def _stretched(memo: Memo, excess: float) -> Memo:
    """The memo of a client whose ε is larger by a share: odds to a power."""

    def one(chance: float) -> float:
        return 1 / (1 + math.exp((1 + excess) * math.log((1 - chance) / chance)))

    return one(memo[0]), None if memo[1] is None else one(memo[1])


def carry_out(
    attacks: Sequence[Attack], plan: Plan, samples: Sequence[Sample], together: int
) -> list[Attacked]:
    """Count each event in both of its histories; of attacks with one name, keep the one that found most."""
    informed = {metric.name: informative(metric.mechanism) for metric in plan.metrics}
    best: dict[tuple[str, str], Attacked] = {}
    for attack in attacks:
        pair = samples[attack.first], samples[attack.second]
        usable = np.logical_and.reduce([informed[mark.metric] for mark in attack.marks])
        masks = [usable[sample.cohorts] for sample in pair]
        counts = [int(mask.sum()) for mask in masks]
        event = Event(attack, max(counts[0], 1), max(counts[1], 1), together)
        hits = [event.hits(sample, mask) for sample, mask in zip(pair, masks, strict=True)]
        bound = ratio_bound(hits[0], counts[0], hits[1], counts[1], together)
        result = Attacked(
            attack.subject, attack.what, attack.claim, attack.exact,
            bound.estimate, bound.lower, bound.upper, min(counts), bound.lower > attack.claim,
            smallest_excess(event) if math.isfinite(attack.claim) else None,
        )  # fmt: skip
        known = best.get((attack.subject, attack.what))
        if known is None or (result.lower, result.estimate) > (known.lower, known.estimate):
            best[attack.subject, attack.what] = result
    return list(best.values())


def smallest_excess(event: Event) -> float | None:
    """By which share ε must be larger to be noticed, by bisection; None beyond sixteen times."""
    if not event.notices(_MOST_EXCESS):
        return None
    below, above = 0.0, _MOST_EXCESS
    while above - below > 1e-3:
        middle = (below + above) / 2
        below, above = (below, middle) if event.notices(middle) else (middle, above)
    return above
