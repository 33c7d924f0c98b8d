"""What one report with fresh draws loses: the loss of a window where answers are sampled."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import comb

from reticent.mechanisms import Flip, Mechanism, Number
from reticent.privacy.joint import joint_limit_loss
from reticent.privacy.loss import loss_per_round
from reticent.privacy.rounding import compose

MOST_SUBSETS = 256
"""Most subsets of a group of unlike counters for which the loss is computed one by one."""


def loss_of_window(
    alone: Sequence[Mechanism], groups: Sequence[tuple[Sequence[Mechanism], Number]], asked: int
) -> float:
    """
    What one window loses between any two histories, where a report answers `asked` of all metrics.

    Claim: a device answers in one round of a window, which its secret picks, about `asked` metrics that its
    secret picks, and with draws that serve no other window. For every pair of histories of the window's
    values, and every observation of the window, probabilities differ by a factor of at most e^loss, the largest
    over all sets A of so many metrics of

        Σ over groups of joint_limit_loss(A and the group)  +  Σ of ε of the other metrics in A.

    Proof: round, metrics, cohort and id do not depend on values; given them, the report is that of one round
    without flips, whose loss is `loss_per_round`, or `joint_limit_loss` for the members of a group. Attained,
    by histories that hold the worst values throughout, where counters of a group are alike. V windows have
    independent draws and lose V times as much, also attained.

    For a group of unlike counters with many subsets, a subset counts as the lesser of its sum of ε and the
    whole group's figure, neither of which is below the truth.

    `alone` are the metrics without a group, `groups` the members of each group and their limit. Observer:
    sees the window, or all windows, linked. Not covered: that a device is on, tags, and the address.

    >>> from reticent.mechanisms import OneBitMean
    >>> loss_of_window([OneBitMean(1, 24), OneBitMean("0.5", 24)], [], asked=1)
    1.0
    """
    ordered = sorted((loss_per_round(mechanism, Flip(0)) for mechanism in alone), reverse=True)
    best = {size: compose(ordered[:size]) for size in range(len(ordered) + 1)}
    for members, limit in groups:
        of_group = [_largest(members, limit, size) for size in range(len(members) + 1)]
        together: dict[int, float] = {}
        for size, loss in best.items():
            for more, added in enumerate(of_group):
                total = compose([loss, added])
                together[size + more] = max(together.get(size + more, 0.0), total)
        best = together
    return max(loss for size, loss in best.items() if size <= asked)


def _largest(members: Sequence[Mechanism], limit: Number, size: int) -> float:
    """The largest joint loss of `size` members of a group."""
    if not size:
        return 0.0

    def joint(chosen: Sequence[Mechanism]) -> float:
        return joint_limit_loss(chosen, [Flip(0)] * len(chosen), limit)

    alike = len({(Fraction(each.max_value), each.epsilon) for each in members}) == 1
    if alike:
        return joint(members[:size])
    if comb(len(members), size) <= MOST_SUBSETS:
        return max(joint(chosen) for chosen in combinations(members, size))
    ordered = sorted((loss_per_round(mechanism, Flip(0)) for mechanism in members), reverse=True)
    return min(compose(ordered[:size]), joint(members))
