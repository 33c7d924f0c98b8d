"""How well reports of one device can be matched across rounds: remembered answers are a pseudonym."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from reticent.mechanisms import COHORTS
from reticent.plan import Plan

MOST_SCORES = 100_000
"""Most similarities distinguished; beyond, all bits get the least flip, which matches more."""


@dataclass(frozen=True, slots=True)
class Tracking:
    """
    The share of devices whose report of one round can be found among those of another, no address needed.

    `two_rounds` is for a matcher who sees two rounds, `many_rounds` for one who has linked so many earlier
    rounds that the remembered answers are known.
    """

    devices: int
    two_rounds: float
    many_rounds: float


def tracking(devices: int, cells: int, noisy_bits: Mapping[Fraction, int]) -> Tracking:
    """
    How often the likeliest of n = `devices` reports is the right one, for devices that keep their values.

    A report shows one of `cells` marks that its device never changes (cohort, tags, bits without flips), and
    `noisy_bits`, the number of bits by flip probability γ > 0. The matcher takes a report with the same mark
    whose bits agree best, each disagreement weighing ln((1-g)/g); among equals, any. Two reports of one
    device disagree in a bit with g = 2γ(1-γ); a report and a remembered answer with g = γ. Another device's
    bit disagrees half of the time. Sort all outcomes by weight, let p_k be the chance of outcome k for the
    device itself, t_k for another device (with the same mark, hence over `cells`), and S_k the chance that
    another device agrees no better than k. The n-1 others are independent, so the right report is picked with
    probability

        Σ_k p_k · E[ 1/(1 + ties) ; nobody better ]  =  Σ_k p_k · (S_k^n - S_{k+1}^n) / (n · t_k).

    This is for marks that are equally common and remembered bits that are 0 or 1 alike, and no other
    population is matched more often by one who knows the remembered answers. Proof: with μ the law of what a
    device remembers and w_x(m) the chance of report x from memory m, the best matcher is right with chance
    1/n · Σ_x E max_j w_x(m_j) = 1/n · Σ_x ∫ 1 - μ(w_x ≤ t)^n dt, which is concave in μ; turning over any
    bits or renaming marks for all devices changes nothing, and the mean of μ over all of these is uniform.
    Without flips both figures agree and the proof covers both. With flips, `two_rounds` for other populations
    was computed for small cases, where it is never larger; `many_rounds` bounds it in any case.

    Devices are taken as drawn alike and independently. Not covered: addresses, times, devices that stand out.

    >>> seen = tracking(20_000, cells=2**20, noisy_bits={})
    >>> round(seen.two_rounds, 4)
    0.9905
    >>> seen = tracking(20_000, cells=1, noisy_bits={Fraction(1, 5): 20})
    >>> round(seen.two_rounds, 4), round(seen.many_rounds, 4)
    (0.0073, 0.0832)
    """
    exact = {gamma: bits for gamma, bits in noisy_bits.items() if bits}
    if math.prod(bits + 1 for bits in exact.values()) > MOST_SCORES:
        exact = {min(exact): sum(exact.values())}
    two_sided = {2 * gamma * (1 - gamma): bits for gamma, bits in exact.items()}
    return Tracking(devices, _right(devices, cells, two_sided), _right(devices, cells, exact))


def _right(devices: int, cells: int, noisy_bits: Mapping[Fraction, int]) -> float:
    outcomes = []
    for disagreeing in product(*(range(bits + 1) for bits in noisy_bits.values())):
        weight, own, other = 0.0, 0.0, -math.log(cells)
        for (rate, bits), count in zip(noisy_bits.items(), disagreeing, strict=True):
            chance = float(rate)
            ways = math.lgamma(bits + 1) - math.lgamma(count + 1) - math.lgamma(bits - count + 1)
            weight += count * math.log((1 - chance) / chance)
            own += ways + count * math.log(chance) + (bits - count) * math.log1p(-chance)
            other += ways - bits * math.log(2)
        outcomes.append((weight, math.exp(own), math.exp(other)))
    total, nobody_better = 0.0, 1.0
    for _, own, tied in sorted(outcomes):
        # S^n - (S-t)^n, without cancellation: most t are tiny and n is large
        share = min(tied / nobody_better, 1.0)
        if devices * share < 1e-12:
            alike = 1.0
        else:
            alike = (
                -math.expm1(devices * math.log1p(-share)) / (devices * share) if share < 1 else 1 / devices
            )
        total += own * nobody_better ** (devices - 1) * alike
        nobody_better -= tied
        if nobody_better <= 0:
            break
    return min(total, 1.0)


def plan_tracking(plan: Plan, devices: int) -> Tracking:
    """How well reports of one device can be matched across rounds, in a fleet of this size (`tracking`)."""
    marks = math.prod(len(segment.tags) for segment in plan.segments)
    if plan.answers.sampled:  # all but the tags is drawn again in each window
        return tracking(devices, marks, {})
    marks *= COHORTS if plan.uses_cohort else 1
    noisy: dict[Fraction, int] = {}
    for metric in plan.metrics:
        gamma = metric.flip.probability
        if gamma:
            noisy[gamma] = noisy.get(gamma, 0) + metric.bits
        else:
            marks <<= metric.bits
    return tracking(devices, marks, noisy)
