"""Distinguishing attacks: an event chosen beforehand, how often it happens in two histories, a bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from reticent.lab.audit.bounds import SURE, expected_lower, ratio_bound
from reticent.lab.audit.enumeration import ONE_ROUND, STAYED, SWITCHED, constant_over, halves, same_pattern
from reticent.lab.audit.figures import Enumerated
from reticent.lab.audit.joint import remembered
from reticent.lab.audit.worlds import Histories, Sample, World, informative
from reticent.mechanisms import SCALE
from reticent.plan import Metric, Plan

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
    losses = {(each.subject, each.what): each for each in exact}
    found: list[Attack] = []
    for metric in plan.metrics:
        first, second = told.of_metric(plan, metric)
        marks = _marks(plan, metric, told.worlds[first], told.worlds[second])
        whats = [(ONE_ROUND, (1, 0))]
        if rounds > 1:
            whats.append((constant_over(rounds), halves(rounds)))
        for what, parts in whats:
            loss = losses[metric.name, what]
            found += _both(Attack(metric.name, what, loss.claim, loss.loss, first, second, parts, marks))
        if told.switched is not None:
            found += _switch_attacks(plan, metric, told, rounds, losses)
    return found + list(_joint_attacks(plan, told, rounds, losses))


def _both(attack: Attack) -> list[Attack]:
    return [attack, _reversed(attack)]


def _reversed(attack: Attack) -> Attack:
    """The same bits the other way round: what speaks for the second history."""
    return replace(attack, first=attack.second, second=attack.first, marks=_turned(attack.marks))


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
        found = expected_lower(here, devices, there, other_devices, together, luck=SURE)
        return bool(found > self.attack.claim)


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
        found = _carry_out(attack, samples, informed, together)
        known = best.get((attack.subject, attack.what))
        if known is None or (found.lower, found.estimate) > (known.lower, known.estimate):
            best[attack.subject, attack.what] = found
    return list(best.values())


def _carry_out(
    attack: Attack,
    samples: Sequence[Sample],
    informed: Mapping[str, NDArray[np.bool_]],
    together: int,
) -> Attacked:
    pair = samples[attack.first], samples[attack.second]
    usable = np.logical_and.reduce([informed[mark.metric] for mark in attack.marks])
    masks = [usable[sample.cohorts] for sample in pair]
    counts = [int(mask.sum()) for mask in masks]
    event = Event(attack, max(counts[0], 1), max(counts[1], 1), together)
    hits = [event.hits(sample, mask) for sample, mask in zip(pair, masks, strict=True)]
    bound = ratio_bound(hits[0], counts[0], hits[1], counts[1], together)
    return Attacked(
        attack.subject, attack.what, attack.claim, attack.exact,
        bound.estimate, bound.lower, bound.upper, min(counts), bound.lower > attack.claim,
        smallest_excess(event) if math.isfinite(attack.claim) else None,
    )  # fmt: skip


def smallest_excess(event: Event) -> float | None:
    """By which share ε must be larger to be noticed, by bisection; None beyond sixteen times."""
    if not event.notices(_MOST_EXCESS):
        return None
    below, above = 0.0, _MOST_EXCESS
    while above - below > 1e-3:
        middle = (below + above) / 2
        below, above = (below, middle) if event.notices(middle) else (middle, above)
    return above
