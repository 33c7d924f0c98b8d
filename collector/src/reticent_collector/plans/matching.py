"""How well reports of one device can be matched across rounds: remembered answers are a pseudonym."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from reticent.mechanisms import COHORTS
from reticent.plan import Plan
from reticent_collector.privacy import CLAIMS
from reticent_collector.privacy.card import share

MOST_SCORES = 100_000
"""Most similarities distinguished; beyond, all bits get the least flip, which matches more."""


@dataclass(frozen=True, slots=True)
class Tracking:
    """
    The share of devices whose report of one round can be found among those of another, no address needed.

    `two_rounds` is for a matcher who sees two rounds, `many_rounds` for one who has linked so many earlier
    rounds that the remembered answers are known. Both judge one report of the second round at a time. One who
    compares all reports at once, and gives none to two devices, may find more, but no matcher more than `together`.
    All three are means over the answers.
    """

    devices: int
    two_rounds: float
    many_rounds: float
    together: float


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

    `together` is that of `most_matched`. Devices are taken as drawn alike and independently. Not covered: addresses,
    times, devices that stand out.

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
    return Tracking(
        devices,
        _right(devices, cells, two_sided),
        _right(devices, cells, exact),
        most_matched(devices, cells, noisy_bits),
    )


def most_matched(devices: int, cells: int, noisy_bits: Mapping[Fraction, int]) -> float:
    """
    The share of n = `devices` that no matcher exceeds on average, whatever it sees of marks, memories and reports.

    **Theorem.** For every number b of noisy bits that are taken as known, least noisy first, at most X/m, with
    m = n/(cells · 2^b) and X the largest number up to m such that

        X ≤ 1    or    X ln X - X + 1 ≤ m C,      C = Σ over the other bits of ln 2 - H(γ),

    H(γ) = -γ ln γ - (1-γ) ln(1-γ). *Proof.* Give the matcher the first b remembered bits of each report. Within a
    class of m' devices alike in mark and those bits the order σ of reports is uniform; X is the expected number
    found. Donsker and Varadhan: λX ≤ I(σ; reports | memories) + ln E₀ e^(λX), where E₀ has σ independent of the
    answer; E₀ binomial(X, j) ≤ 1/j! for any answer, so the last term is at most e^λ - 1. Take λ = ln X ≥ 0. And
    I ≤ H(reports) - H(flips) ≤ m'C. That bound is concave in m', so unequal classes have no more in all. ∎

    It is loose, and says nothing (1) where bits are many.

    >>> [round(most_matched(10**6, marks, {Fraction(1, 5): 10}), 4) for marks in (1, 256)]
    [0.001, 0.2621]
    """
    flips = sorted(gamma for gamma, bits in noisy_bits.items() for _ in range(bits))
    open_nats = [math.log(2) - _entropy(float(gamma)) for gamma in flips]
    least = 1.0
    for known in range(len(flips) + 1):
        alike = devices / (cells << known)
        if alike <= 1:
            break
        least = min(least, _most_found(alike, math.fsum(open_nats[known:])) / alike)
    return least


def _entropy(chance: float) -> float:
    return -chance * math.log(chance) - (1 - chance) * math.log1p(-chance)


def _most_found(alike: float, nats: float) -> float:
    """The largest number X up to `alike` that is 1 at most, or has X ln X - X + 1 ≤ alike · nats."""
    found = 1.0
    too_many = alike
    if alike * math.log(alike) - alike + 1 <= alike * nats:
        return alike
    while too_many - found > 1e-12 * too_many:
        middle = (found + too_many) / 2
        if middle * math.log(middle) - middle + 1 <= alike * nats:
            found = middle
        else:
            too_many = middle
    return too_many


def _right(devices: int, cells: int, noisy_bits: Mapping[Fraction, int]) -> float:
    outcomes = []
    for disagreeing in product(*(range(bits + 1) for bits in noisy_bits.values())):
        weight = 0.0
        own = 0.0
        other = -math.log(cells)
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
    """
    How well reports of one device can be matched across rounds, in a fleet of this size (`tracking`).

    Where devices answer k of t metrics, the set is one more mark, with C(t, k) values, and each device has as many bits
    with as little noise as the set that has most: bits that are added or less noisy never help the matcher less.
    """
    marks = math.prod(len(segment.tags) for segment in plan.segments)
    if plan.answers.sampled:  # all but the tags is drawn again in each window
        return tracking(devices, marks, {})
    marks *= COHORTS if plan.uses_cohort else 1
    marks *= math.comb(len(plan.metrics), plan.asked)
    noisy: dict[Fraction, int] = {}
    for gamma in sorted({metric.flip.probability for metric in plan.metrics}):
        sizes = sorted(metric.bits for metric in plan.metrics if metric.flip.probability <= gamma)
        noisy[gamma] = sum(sizes[-plan.asked :]) - sum(noisy.values())
    marks <<= noisy.pop(Fraction(0), 0)
    return tracking(devices, marks, noisy)


def tracking_in_words(seen: Tracking) -> str:
    """
    The claim about tracking, for people.

    >>> print(tracking_in_words(tracking(20_000, cells=1, noisy_bits={Fraction(1, 5): 20})))
    Of 20,000 devices that keep their values, one who judges reports one by one finds at most 8.4 % again on average; one who compares all reports at once may find more, on average never above 47.3 %.
    """  # noqa: E501
    together = (
        f"may find more, on average never above {share(seen.together)}"
        if seen.together < 1
        else "may find all"
    )
    return CLAIMS["tracking"].sentence.format(
        devices=f"{seen.devices:,}", share=share(seen.many_rounds), together=together
    )
