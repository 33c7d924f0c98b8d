"""
Attacks on devices that change: the round of a change, a change against none, and values that return.

Devices of the moving world come in pairs with mirrored histories h and h'. An answer *agrees* if it speaks for
the value that its device holds. "All agree" under h is the event "all disagree" under h', so it is counted among
the even devices, and reversed among the odd ones: P ≤ e^ε Q also holds for the shares of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reticent.plan import Metric, Plan
from reticent.privacy import loss_by_width
from reticent_lab.audit.attacks import chance_of_first
from reticent_lab.audit.blind import learned_event
from reticent_lab.audit.bounds import Fault, HistoryComparison, compare
from reticent_lab.audit.enumeration import ONE_ROUND, SHORT, same_pattern, switched_over
from reticent_lab.audit.exact import Enumerated
from reticent_lab.audit.scenarios import Sample, World

AT_CHANGE = f"{ONE_ROUND}, in which the value changes"
NO_CHANGE = f"{ONE_ROUND}, in which the value stays"

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Moves:
    agrees: Bools  # Of each device, round and bit
    disagrees: Bools  # Not the opposite: silence does neither
    changed: Bools
    """Of each device and round but the first: whether the value is another than in the round before."""
    mirrored: Bools  # Whether it is the second of its pair
    learning: Bools  # Whether its pair is one of the first half
    sure: float  # How often an answer bit speaks for the value before it is flipped


def compare_changes(
    plan: Plan, world: World, sample: Sample, exact: Sequence[Enumerated]
) -> Iterator[HistoryComparison]:
    """Every metric in every round of the moving world, and over all of them."""
    losses = {(loss.subject, loss.what): loss for loss in exact}
    for metric in plan.metrics:
        moves = _moves_of(plan, metric, world, sample)
        agree, disagree = (np.asarray(moved.all(axis=2)) for moved in (moves.agrees, moves.disagrees))
        one_round = losses[metric.name, ONE_ROUND]
        sure = moves.sure
        flip = float(metric.flip.probability)
        bits = moves.agrees.shape[2]
        unflipped = Fault("does not flip in the round of a change", sure**bits, (1 - sure) ** bits)
        followed_both = (sure**2 * (1 - flip) + (1 - sure) ** 2 * flip) ** bits
        one_flip = Fault("flips two rounds together", followed_both, 0.0)
        for place in range(1, agree.shape[1]):
            now = moves.changed[:, place - 1]
            before = place - 1
            for what, which, fault in ((AT_CHANGE, now, unflipped), (NO_CHANGE, ~now, None)):
                shown = agree[which & ~moves.mirrored, place]
                other = disagree[which & moves.mirrored, place]
                yield compare(
                    metric.name,
                    what,
                    one_round.claim,
                    one_round.loss,
                    shown,
                    other,
                    fault=fault if flip else None,
                )
            # Two rounds that tell values apart, against two rounds of either of them; then the other way round.
            followed = agree[:, before] & agree[:, place]
            first_only = agree[:, before] & disagree[:, place]
            second_only = disagree[:, before] & agree[:, place]
            for what, which, fault in zip(switched_over(SHORT), (now, ~now), (one_flip, None), strict=True):
                claimed = losses[metric.name, what].claim, losses[metric.name, what].loss
                for other in (first_only[~which], second_only[~which]):
                    yield compare(
                        metric.name, what, *claimed, followed[which], other, fault=fault if flip else None
                    )
        yield _compare_returns(metric, moves, losses.get((metric.name, same_pattern(2))))


def _compare_returns(metric: Metric, moves: _Moves, loss: Enumerated | None) -> HistoryComparison:
    """
    All rounds of a history that changes against those of its mirror image, which has the same pattern.

    A client that draws again when a value returns agrees more often than two memos allow.
    """
    here, there = moves.agrees.sum(axis=(1, 2)), moves.disagrees.sum(axis=(1, 2))
    changing = moves.changed.any(axis=1)
    learning, judging = (
        (here[half & changing & ~moves.mirrored], there[half & changing & moves.mirrored])
        for half in (moves.learning, ~moves.learning)
    )
    event = learned_event(*learning, outcomes=moves.agrees.shape[1] * moves.agrees.shape[2] + 1)
    shown, other = (event[counts] for counts in judging)
    # What devices would show that draw again whenever their value changes.
    coins = np.random.default_rng(1)
    flip = float(metric.flip.probability)
    visit = np.cumsum(np.pad(moves.changed[changing].astype(np.int64), ((0, 0), (1, 0))), axis=1)
    drawn = coins.random((*visit.shape, moves.agrees.shape[2])) < moves.sure
    memo = np.take_along_axis(drawn, visit[:, :, None], axis=1)
    spoke = (memo ^ (coins.random(memo.shape) < flip)).sum(axis=(1, 2))
    chances = [
        float(event[counts].mean()) if len(counts) else 0.0 for counts in (spoke, event.size - 1 - spoke)
    ]
    claim = loss.claim if loss else loss_by_width(metric.mechanism, 2)
    fault = Fault("draws its answer again when a value returns", *chances)
    exact = loss.loss if loss else None
    return compare(metric.name, f"{same_pattern(2)}, returning", claim, exact, shown, other, fault=fault)


def _moves_of(plan: Plan, metric: Metric, world: World, sample: Sample) -> _Moves:
    chances = np.array([chance_of_first(metric, state[metric.name]) for state in world.states])
    mirror = sample.states.reshape(-1, 2, world.rounds)[:, ::-1].reshape(-1, world.rounds)
    held = chances[sample.states]
    other = chances[mirror]
    moving = (held != other).all(axis=1) & sample.informed(plan, metric.name)
    first = (held > other)[moving]
    offset = plan.offset(metric.name)
    bits = range(min(metric.bits, 2))
    for_first = np.stack([sample.answered(offset + bit, 1 - bit)[moving] for bit in bits], axis=2)
    for_second = np.stack([sample.answered(offset + bit, bit)[moving] for bit in bits], axis=2)
    number = np.arange(sample.devices)[moving]
    return _Moves(
        agrees=np.where(first[:, :, None], for_first, for_second),
        disagrees=np.where(first[:, :, None], for_second, for_first),
        changed=first[:, 1:] != first[:, :-1],
        mirrored=number % 2 == 1,
        learning=number // 2 < sample.devices // 4,
        sure=float(np.where(first, held[moving], 1 - held[moving]).mean()) if moving.any() else 0.5,
    )
