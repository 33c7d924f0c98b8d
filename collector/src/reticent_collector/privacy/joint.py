"""Joint losses of metrics: counters whose values share a limit, and one report with fresh draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Literal

from reticent.errors import ParameterError
from reticent.frozen import frozen
from reticent.losses import compose
from reticent.mechanisms import Flip, Mechanism, Number, exact
from reticent_collector.privacy.loss import bit_loss, loss_per_round
from reticent_collector.privacy.rounding import decimal, precise, upward

OneOrAllRounds = Literal["one", "all"]
Question = tuple[Mechanism, Flip]
"""What the loss of a metric depends on, but for a joint limit."""
MOST_SUBSETS = 256  # most subsets of a group of unlike counters for which the loss is computed one by one


def joint_limit_loss(
    mechanisms: Sequence[Mechanism],
    flips: Sequence[Flip],
    max_total: Number,
    *,
    rounds: OneOrAllRounds = "one",
) -> float:
    """
    What t means lose together when their values add up to `max_total` at most (Theorem 7, exact).

    Claim: for every pair of vectors x, y with 0 ≤ x_i, y_i ≤ m_i and Σx_i, Σy_i ≤ M, and every vector of
    answers, probabilities differ by a factor of at most e^loss. `rounds="one"`: one round, with τ_i the loss
    of counter i in one round. `rounds="all"`: any number of rounds of devices whose whole vector never
    changes, with τ_i = ε_i.

    When all counters share m and τ, the figure is exact. Of answers with r ones, the best numerator spreads
    the limit evenly over the ones (the logarithm is concave there), the best denominator heaps it on as few
    zeros as possible (convex there), and as these are different counters both are attained together:

        max over r of   ⌊b⌋τ - ln(1 - {b}(1-e^-τ))  +  r ln(1 + min(B, r)(e^τ-1)/r),

    with B = M/m, b = min(B, t-r) and {b} = b - ⌊b⌋. For M = m this is τ + (t-1) ln(1 + (e^τ-1)/(t-1)), below
    the paper's τ + e^τ - 1. Otherwise it is the Lagrangian bound: for any prices λ, μ ≥ 0 of the two limits,

        (λ + μ) M + Σ_i max( max_x ln(1 + (x/m_i)(e^τ_i-1)) - λx,   max_y -ln(1 - (y/m_i)(1-e^-τ_i)) - μy )

    is not below the truth; good prices are searched for. Both prices 0 give Σ τ_i, so it never exceeds that.
    Theorems `joint_bound_of_alike` and `joint_bound_of_unlike` of proofs/.

    Conditions: alphas, memos and flips are independent between counters, the limit is enforced on the device, and
    alphas and inner thresholds are rounded down, so that a value never weighs more than Eq. 1 (`OneBitMean`).
    Observer: sees all counters of the round (or rounds), not the alphas: *given* alphas, rounded values need not
    keep the limit. Not covered: vectors that change over rounds; for those losses add over counters and over
    their changes.

    >>> from reticent.mechanisms import OneBitMean
    >>> apps = [OneBitMean(1, 21_600)] * 10
    >>> round(joint_limit_loss(apps, [Flip(0.2)] * 10, 21_600), 3)
    1.306
    """
    if not mechanisms or len(mechanisms) != len(flips):
        raise ParameterError(
            "flips", f"one for each of {len(mechanisms)} mechanisms (at least 1)", len(flips)
        )
    for mechanism in mechanisms:
        if mechanism.kind != "mean":
            raise ParameterError("mechanisms", "means, which alone can share a limit", mechanism.title)
    limit = exact(max_total, "max_total")
    if limit <= 0:
        raise ParameterError("max_total", "a number > 0", max_total)
    ranges = [Fraction(mechanism.max_value) for mechanism in mechanisms]
    taus = [_single_loss(mechanism, flip, rounds) for mechanism, flip in zip(mechanisms, flips, strict=True)]
    if len(set(ranges)) == len(set(taus)) == 1:
        loss = _shared(taus[0], len(taus), limit / ranges[0])
    else:
        loss = _lagrangian([_Counter(*pair) for pair in zip(ranges, taus, strict=True)], limit)
    return min(upward(loss), upward(sum((mechanism.epsilon for mechanism in mechanisms), Fraction(0))))


def joint_limit_prices(
    mechanisms: Sequence[Mechanism],
    flips: Sequence[Flip],
    max_total: Number,
    *,
    rounds: OneOrAllRounds = "one",
) -> tuple[Fraction, Fraction]:
    """The prices λ and μ of `joint_limit_loss` for unlike counters: what a certificate of its figure needs."""
    counters = [
        _Counter(Fraction(mechanism.max_value), _single_loss(mechanism, flip, rounds))
        for mechanism, flip in zip(mechanisms, flips, strict=True)
    ]
    one, zero = _best_prices(counters, exact(max_total, "max_total"))
    return Fraction(one), Fraction(zero)


@precise
def paper_joint_limit_loss(mechanism: Mechanism, flip: Flip, *, rounds: OneOrAllRounds = "one") -> float:
    """
    τ + e^τ - 1: the paper's bound for any number of counters like this one whose values add up to m.

    Claim, conditions and limits as for `joint_limit_loss` with M = m, which tends to it as t grows.

    >>> from reticent.mechanisms import OneBitMean
    >>> round(paper_joint_limit_loss(OneBitMean(1, 21_600), Flip(0.2)), 4)
    1.3367
    """
    tau = _single_loss(mechanism, flip, rounds)
    return upward(tau + tau.exp() - 1)


def _single_loss(mechanism: Mechanism, flip: Flip, rounds: OneOrAllRounds) -> Decimal:
    if rounds not in ("one", "all"):
        raise ParameterError("rounds", '"one" or "all"', repr(rounds))
    return bit_loss(mechanism.epsilon, flip.probability if rounds == "one" else Fraction(0))


@precise
def _shared(tau: Decimal, counters: int, share: Fraction) -> Decimal:
    """The exact worst case of `counters` alike with a limit of `share` times their range."""
    growth = tau.exp() - 1
    decay = 1 - (-tau).exp()

    def with_ones(ones: int) -> Decimal:
        heaped = min(share, Fraction(counters - ones))
        whole = math.floor(heaped)
        zeros = whole * tau - (1 - decimal(heaped - whole) * decay).ln()
        return zeros + ones * (1 + decimal(min(share, Fraction(ones)) / max(ones, 1)) * growth).ln()

    return max(with_ones(ones) for ones in range(counters + 1))


@frozen()
class _Counter:
    top: Fraction
    tau: Decimal

    @precise
    def best_one(self, price: Decimal, limit: Fraction) -> Decimal:
        """The most that an answer 1 can gain, less the price of the value that makes it: concave."""
        slope = (self.tau.exp() - 1) / decimal(self.top)
        top = decimal(min(self.top, limit))
        value = top if price * top * slope <= slope - price else max(1 / price - 1 / slope, Decimal(0))
        return (1 + slope * value).ln() - price * value

    @precise
    def best_zero(self, price: Decimal, limit: Fraction) -> Decimal:
        """The same for an answer 0: convex, so nothing or all."""
        top = min(self.top, limit)
        share = decimal(top / self.top)
        return max(Decimal(0), -(1 - share * (1 - (-self.tau).exp())).ln() - price * decimal(top))


@precise
def _lagrangian(counters: Sequence[_Counter], limit: Fraction) -> Decimal:
    """The bound at the best prices found; any prices give a bound, so the search need not be exact."""
    return _bound_at(counters, limit, _best_prices(counters, limit))


@precise
def _bound_at(counters: Sequence[_Counter], limit: Fraction, prices: tuple[Decimal, Decimal]) -> Decimal:
    one, zero = prices
    gains = (max(counter.best_one(one, limit), counter.best_zero(zero, limit)) for counter in counters)
    return (one + zero) * decimal(limit) + sum(gains, Decimal(0))


def _best_prices(counters: Sequence[_Counter], limit: Fraction) -> tuple[Decimal, Decimal]:
    def rough(one: float, zero: float) -> float:
        """The bound in floating point, for the search."""
        gains = []
        for slope, top, of_zero in sketch:
            value = top if one <= 0 else min(max(1 / one - 1 / slope, 0.0), top)
            gains.append(max(math.log1p(slope * value) - one * value, of_zero - zero * top))
        return (one + zero) * float(limit) + math.fsum(gains)

    sketch = [
        (
            math.expm1(float(counter.tau)) / float(counter.top),
            float(min(counter.top, limit)),
            float(counter.best_zero(Decimal(0), limit)),
        )
        for counter in counters
    ]
    highest = max(slope for slope, _, _ in sketch)
    one = _lowest(lambda price: rough(price, _lowest(lambda other: rough(price, other), highest)), highest)
    zero = _lowest(lambda price: rough(one, price), highest)
    found = (Decimal(one), Decimal(zero))
    free = (Decimal(0), Decimal(0))
    return min(found, free, key=lambda prices: _bound_at(counters, limit, prices))


def _lowest(function: Callable[[float], float], highest: float) -> float:
    """Where a convex function on [0, highest] is least, by golden section."""
    ratio = (math.sqrt(5) - 1) / 2
    left = 0.0
    right = highest
    inner = right - ratio * right
    outer = ratio * right
    at_inner, at_outer = function(inner), function(outer)
    for _ in range(48):
        if at_inner <= at_outer:
            right = outer
            outer = inner
            at_outer = at_inner
            inner = right - ratio * (right - left)
            at_inner = function(inner)
        else:
            left = inner
            inner = outer
            at_inner = at_outer
            outer = left + ratio * (right - left)
            at_outer = function(outer)
    return (left + right) / 2


def loss_of_asked(
    alone: Sequence[Question],
    groups: Sequence[tuple[Sequence[Question], Number]],
    asked: int,
    *,
    rounds: OneOrAllRounds = "one",
) -> float:
    """
    What a plan loses whose reports answer `asked` of all metrics, a set that does not depend on values.

    Claim: a device's secret picks the set A of metrics that it answers. For every pair of vectors of values in one
    round (`rounds="one"`), or that never change over any number of rounds (`rounds="all"`), and every observation,
    which includes A, probabilities differ by a factor of at most e^loss, the largest over all sets of so many
    metrics of

        Σ over groups of joint_limit_loss(A and the group)  +  Σ of the losses of the other metrics in A.

    Proof: A is the same whatever the values are, so condition on it; given A, the report is that of a plan that asks
    the metrics of A alone. Attained where counters of a group are alike. Theorem `loss_of_asked` of proofs/.

    For a group of unlike counters with many subsets, a subset counts as the lesser of its sum of losses and the
    whole group's figure, neither of which is below the truth.

    `alone` are the metrics without a group, each a mechanism and its flip, `groups` the members of each group and
    their limit. Observer: as for `joint_limit_loss`. Not covered: a set that is drawn again (a `forget`), whose
    loss adds; that a device is on, tags, and the address.

    >>> from reticent.mechanisms import OneBitMean
    >>> loss_of_asked([(OneBitMean(1, 24), Flip(0)), (OneBitMean("0.5", 24), Flip(0))], [], asked=1)
    1.0
    """
    ordered = _ordered(alone, rounds)
    best = {size: compose(ordered[:size]) for size in range(len(ordered) + 1)}
    metrics = len(alone) + sum(len(members) for members, _ in groups)
    for members, limit in groups:
        least = len(members) - max(
            0, min(metrics - asked, len(members))
        )  # so many are asked, whatever the set is
        sizes = range(least, len(members) + 1)
        of_group = {size: _largest(members, limit, size, rounds) for size in sizes}
        together: dict[int, float] = {}
        for size, loss in best.items():
            for more, added in of_group.items():
                total = compose([loss, added])
                together[size + more] = max(together.get(size + more, 0.0), total)
        best = together
    return max(loss for size, loss in best.items() if size <= asked)


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
    Theorems `loss_of_asked` and `loss_of_windows` of proofs/.

    `alone` are the metrics without a group, `groups` the members of each group and their limit. Observer:
    sees the window, or all windows, linked. Not covered: that a device is on, tags, and the address.

    >>> from reticent.mechanisms import OneBitMean
    >>> loss_of_window([OneBitMean(1, 24), OneBitMean("0.5", 24)], [], asked=1)
    1.0
    """
    fresh = [([(member, Flip(0)) for member in members], limit) for members, limit in groups]
    return loss_of_asked([(mechanism, Flip(0)) for mechanism in alone], fresh, asked)


def _ordered(questions: Sequence[Question], rounds: OneOrAllRounds) -> list[float]:
    """The loss of each metric, the largest first; over all rounds a flip no longer hides anything."""
    flips = [flip if rounds == "one" else Flip(0) for _, flip in questions]
    losses = (loss_per_round(mechanism, flip) for (mechanism, _), flip in zip(questions, flips, strict=True))
    return sorted(losses, reverse=True)


def _largest(members: Sequence[Question], limit: Number, size: int, rounds: OneOrAllRounds) -> float:
    if not size:
        return 0.0
    alike = {(Fraction(mechanism.max_value), mechanism.epsilon, flip) for mechanism, flip in members}
    if len(alike) == 1:
        return _joint(tuple(members[:size]), limit, rounds)
    if comb(len(members), size) <= MOST_SUBSETS:
        return max(_joint(chosen, limit, rounds) for chosen in combinations(members, size))
    return min(compose(_ordered(members, rounds)[:size]), _joint(tuple(members), limit, rounds))


@lru_cache(maxsize=1024)
def _joint(members: tuple[Question, ...], limit: Number, rounds: OneOrAllRounds) -> float:
    mechanisms = [mechanism for mechanism, _ in members]
    return joint_limit_loss(mechanisms, [flip for _, flip in members], limit, rounds=rounds)
