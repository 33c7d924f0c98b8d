"""
What a plan can tell of a device: one bound on each loss, the same double in Python and JavaScript (`losses.js`).

    spec/losses.md      what each figure bounds, and how every step is rounded; spec/losses.json has figures

A draw is compared with integers, so every chance is a fraction of integers and every loss the logarithm of one.
Figures are never below the truth: logarithms are computed with 200 bits and raised by more than their error. They are
the exact ones, but for means on an uneven grid and for groups of unlike counters or those of which a report answers
some, where a simpler bound is counted. `reticent_collector.privacy` has the exact figures, and what each means.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from reticent.mechanisms import SCALE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reticent.mechanisms import Mechanism
    from reticent.plan import Metric, Plan

_BITS = 200
_SLACK = (
    1 << 16
)  # units of 2^-200: each of some 300 steps loses less than one, times the exponent at most 2,000


def _twice_atanh(numerator: int, denominator: int) -> int:
    """2·atanh(numerator / denominator) in units of 2^-200, for a ratio from 0 to 1/3."""
    power = (numerator << (_BITS + 1)) // denominator
    total = 0
    odd = 1
    while power:
        total += power // odd
        power = power * numerator * numerator // (denominator * denominator)
        odd += 2
    return total


_LN2 = _twice_atanh(1, 3)


@lru_cache(maxsize=4096)
def ln(numerator: int, denominator: int) -> int:
    """An upper bound of the logarithm of a ratio of 1 or more, in units of 2^-200, within 2^-180."""
    exponent = 0
    while numerator >= 2 * denominator:
        denominator *= 2
        exponent += 1
    return _twice_atanh(numerator - denominator, numerator + denominator) + exponent * _LN2 + _SLACK


def rounded_up(number: Fraction) -> float:
    """
    The least double that is not below a number.

    >>> rounded_up(Fraction(1)), rounded_up(Fraction(3, 10))
    (1.0, 0.30000000000000004)
    """
    nearest = float(number)
    return nearest if nearest >= number else math.nextafter(nearest, math.inf)


def _nats(units: int) -> float:
    return rounded_up(Fraction(units, 1 << _BITS))


def compose(losses: Iterable[float]) -> float:
    """
    The loss of several answers together: the sum of their losses, rounded up (sequential composition).

    Claim: if each of several answers is ε_i-LDP over some pairs of inputs, and their coins are independent,
    then all of them together are (Σ ε_i)-LDP over inputs that differ in any or all of these pairs. The coins
    of different metrics and epochs are independent, so this covers metrics that do not share a limit, and
    epochs of one metric. Counters that share a limit lose less: `loss_of_report`. Not covered: rounds of
    one remembered answer, whose coins are *not* independent; those have figures of their own.

    >>> compose([0.5, 0.25]), compose([0.1] * 10) >= 1
    (0.75, True)
    """
    terms = list(losses)
    if any(math.isinf(term) for term in terms):
        return math.inf
    return rounded_up(sum((Fraction(term) for term in terms), Fraction(0)))


def printed(loss: float, digits: int = 4) -> str:
    """
    A loss for people, rounded up to `digits` significant digits, to within 1e-15 of the loss.

    A float here was itself rounded up from the loss it stands for (ε = 0.3 is 0.30000000000000004), by at most
    a few units in its last place: so far, 1e-15 of it, it is taken back first. A loss that exceeds a short figure
    by less than that is printed as that figure: 1.0000000000000005 as 1.0.

    >>> [printed(loss) for loss in (0.569441, 2.0, 1014.6, 12_345.1, math.inf)]
    ['0.5695', '2.0', '1,015', '12,346', 'infinite']
    """
    from decimal import ROUND_CEILING, Context, Decimal, localcontext

    if math.isinf(loss):
        return "infinite"
    with localcontext(Context(prec=100)):
        exact = Decimal(loss) * (1 - Decimal("1e-15"))
        if not exact:
            return "0.0"
        unit = Decimal(1).scaleb(min(exact.adjusted() + 1 - digits, 0))
        rounded = exact.quantize(unit, ROUND_CEILING).normalize()
        if rounded >= 10 or rounded != rounded.to_integral():
            return f"{rounded:,f}"
        return f"{rounded:.1f}"


# One metric


def _ratio(mechanism: Mechanism, turned: int = 0) -> tuple[int, int]:
    """How much likelier one remembered bit can be from one truth than from another, after a flip."""
    more, less = mechanism.odds
    whole = SCALE - turned
    return more * whole + less * turned, less * whole + more * turned


@lru_cache(maxsize=1024)
def loss_of_answer(mechanism: Mechanism) -> float:
    """ε of a metric, which a policy limits: of one remembered answer, where the paper's variant counts as printed."""
    parts = int(mechanism.epsilon / mechanism.response.epsilon)
    return _nats(parts * ln(*_ratio(mechanism)))


def loss_of_round(metric: Metric) -> float:
    """Between any two values, in one round."""
    return _nats(_of_round(metric))


def _of_round(metric: Metric) -> int:
    return metric.mechanism.changed_bits(1) * ln(*_ratio(metric.mechanism, metric.flip.threshold))


@lru_cache(maxsize=1024)
def loss_of_classes(mechanism: Mechanism, used: int) -> float:
    """
    Between two devices whose rounded values repeat in the same pattern with so many different ones, all rounds.

    For a mean it is the sum of the largest |ln P/(1-P)|: exact on even grids, a bound on others.
    """
    if mechanism.kind != "mean":
        return _nats(mechanism.changed_bits(used) * ln(*_ratio(mechanism)))
    ones = (mechanism.thresholds(memo_class, 0)[0] for memo_class in range(mechanism.classes))
    likelier = sorted((max(one, SCALE - one) for one in ones), reverse=True)
    return _nats(sum(ln(more, SCALE - more) for more in likelier[:used]))


def loss_for_life(mechanism: Mechanism) -> float:
    """`loss_of_classes` of a device that uses every answer it can remember."""
    return loss_of_classes(mechanism, mechanism.classes)


# A plan


def loss_of_report(plan: Plan) -> float:
    """
    Of one report between any two values; where answers are sampled, between any two histories of its window.

    Metrics are answered with independent randomness, so their losses add; those of a group with a joint limit lose
    less than their sum. Where a report answers some of the metrics, it is the largest over all sets of so many.
    """
    best = _sums(_of_round(metric) for metric in plan.metrics if metric.joint_limit is None)
    for group in plan.groups:
        members = [plan.by_name[name] for name in group.metrics]
        whole = _joint(members, Fraction(group.max_total))
        # A part of a group loses no more than the whole, and no more than the sum of its largest.
        parts = [min(loss, whole) for loss in _sums(map(_of_round, members))]
        joined = [0] * (len(best) + len(parts) - 1)
        for count, loss in enumerate(best):
            for more, added in enumerate(parts):
                joined[count + more] = max(joined[count + more], loss + added)
        best = joined
    return _nats(max(best[: plan.asked + 1]))


def lifetime_of(plan: Plan) -> float:
    """Of remembered answers, however long it goes on: of the metrics asked that cost most; 0 of sampled answers."""
    if plan.answers.sampled:
        return 0.0
    losses = sorted((loss_for_life(metric.mechanism) for metric in plan.metrics), reverse=True)
    return compose(losses[: plan.asked])


def _sums(losses: Iterable[int]) -> list[int]:
    """The sums of the largest 0, 1, 2, … of some losses."""
    totals = [0]
    for loss in sorted(losses, reverse=True):
        totals.append(totals[-1] + loss)
    return totals


def _joint(members: Sequence[Metric], limit: Fraction) -> int:
    """What the means of a group lose together in one round; those that are not alike are counted as their sum."""
    kinds = {
        (Fraction(member.mechanism.max_value), Fraction(*_ratio(member.mechanism, member.flip.threshold)))
        for member in members
    }
    if len(kinds) > 1:
        return sum(map(_of_round, members))
    [(top, ratio)] = kinds
    return _alike(ratio, len(members), limit / top)


def _alike(ratio: Fraction, counters: int, share: Fraction) -> int:
    """
    Of so many means alike whose values add up to `share` times their range at most, with e^τ the `ratio`: exact.

    Of answers with r ones, the best numerator spreads the limit evenly over the ones, the best denominator heaps it on
    as few zeros as possible. Theorem `joint_bound_of_alike` of proofs/.
    """
    growth = ratio - 1
    decay = growth / ratio
    alone = ln(ratio.numerator, ratio.denominator)
    worst = 0
    for ones in range(counters + 1):
        heaped = min(share, Fraction(counters - ones))
        rest = 1 - heaped % 1 * decay
        loss = math.floor(heaped) * alone + ln(rest.denominator, rest.numerator)
        if ones:
            spread = 1 + min(share, Fraction(ones)) / ones * growth
            loss += ones * ln(spread.numerator, spread.denominator)
        worst = max(worst, loss)
    return worst
