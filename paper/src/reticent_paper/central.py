"""
The central guarantee: what the *published counts* lose of one device, when nothing but counts leaves.

Every other device's noise then hides one device too. Who runs the collector sees reports, not counts, and
is bound by the local figures of the other modules.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import binom

from reticent.errors import ParameterError
from reticent.losses import compose
from reticent.mechanisms import Channel, Flip, Mechanism
from reticent_collector.privacy import change_odds, upward

Floats = NDArray[np.float64]

SPREAD = 14.0  # How many standard deviations of a count are looked at; what lies beyond is added to δ
ALL_SPLITS = 600
"""Up to so many devices, every split of the others into holders of 1 and holders of 0 is looked at."""

_MARGIN = 40.0  # Added to that, for counts whose standard deviation is small
_BEYOND = 1e-24
"""Above 4e⁻⁶⁰, which by Bernstein's inequality bounds what two binomials leave out on both sides."""

_ERROR = 1e-12  # Relative error of a computed binomial probability, generously


def central_loss_one_round(mechanism: Mechanism | Channel, flip: Flip, devices: int, delta: float) -> float:
    """
    ε such that one published count of `devices` answers is (ε, δ)-differentially private.

    Claim: change the value of one device in any way; whatever the other devices hold, every set of counts
    has a probability of at most e^ε times the old one plus δ. `devices` is the number of answers that the
    count adds up (one metric, one round, one segment, one row), is public, and is not changed.

    With low and high the least and greatest chance of an answer 1, the worst law of the others is
    N = Bin(j, high) + Bin(n-1-j, low) for some j, and ε solves

        δ = max over j and both directions of  Σ_k max(0, P(k) - e^ε Q(k)),

    with P the law of Bern(high) + N and Q that of Bern(low) + N.

    *Proved:* that extreme values are worst (the divergence is convex in each device's chance of a 1); that
    the sum over k is a tail of N (N is log-concave). *Checked, not proved:* which j is worst. Up to
    `ALL_SPLITS` devices every j is tried. With more, those near n-1 are, where the maximum lies up to a
    ripple of the lattice unless δ is large, and 9 more over the whole range, or 129 where counts vary little;
    the largest δ is then raised by 4/(n·low·high), at most 1 %, which is at least ten times what the
    others added wherever all were tried.

    The result is the upper end of a bisection, after mass beyond 14 standard deviations and rounding errors
    are added to δ, and never more than the local loss.

    Not covered: a second round (`central_loss`), an observer of reports. For dBitFlip with d ≥ 2 bits two
    counts change, and the figure is twice that of one count at δ/2.

    >>> from reticent.mechanisms import OneBitMean
    >>> round(central_loss_one_round(OneBitMean(1, 24), Flip(0), devices=10_000, delta=1e-6), 4)
    0.0357
    """
    _check(devices, delta)
    if isinstance(mechanism, Channel):
        seen = mechanism
        counts = 1
    else:
        seen = flip.channel(mechanism.response)
        counts = min(mechanism.bits, 2)
    low, high = seen.low, seen.high
    if not 0 < low < high < 1:
        raise ParameterError("channel", "0 < low < high < 1", f"low = {low}, high = {high}")
    # The loss of a single answer bounds that of a count.
    local = math.nextafter(math.log(max(high / low, (1 - low) / (1 - high))), math.inf)
    curve = _largest_delta(float(low), float(high), devices)

    def excess(epsilon: float) -> float:
        return curve(epsilon) * (1 + 1e-9) + _BEYOND

    return upward(counts * Fraction(_least(excess, delta / counts, local)))


def central_loss(flip: Flip, devices: int, rounds: int, delta: float) -> float:
    """
    ε such that the published counts of `rounds` rounds together are (ε, δ)-differentially private.

    Claim: change the values of one device in any rounds and in any way, and its memo with them; whatever the
    other devices hold and remember, every set of sequences of counts has a probability of at most e^ε times
    the old one plus δ. It holds for arbitrary histories, because it uses fresh noise alone: given all memos,
    each round's count is Bern(γ or 1-γ) + Bin(j, 1-γ) + Bin(n-1-j, γ), again each round.

    A certificate: per round, the largest δ(ε) over both directions and over splits j is computed on a grid of
    ε and joined by straight lines in e^ε, which lie above it (it is convex) and are the curve of a discrete
    privacy loss that dominates each round's (Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022; Zhu, Dong &
    Wang 2022); that is composed with itself by Fourier transform. Truncated and wrapped mass (by Chernoff's
    bound) and rounding errors are added to δ. Which splits j are tried, and what is proved about them, is as
    in `central_loss_one_round`. It comes close to the Gaussian limit with
    μ = √T (1-2γ)/√(n γ(1-γ)), which is *not* a bound.

    Without flips it is infinite: counts of remembered answers carry no fresh noise, so the difference of two
    rounds shows the change of a single device. (One round alone has the noise of the memos, which this
    function leaves out of account: `central_loss_one_round`.) Not covered: an observer of reports;
    several metrics (compose); dBitFlip with d bits, whose rounds count d-fold; counts whose number of devices
    depends on values.

    >>> round(central_loss(Flip(0.2), devices=10_000, rounds=365, delta=1e-6), 2)
    1.24
    """
    _check(devices, delta)
    if rounds < 1:
        raise ParameterError("rounds", "a whole number >= 1", rounds)
    error = rounds * _ERROR + 1e-10
    if delta < 10 * error:
        raise ParameterError("delta", f"at least {10 * error:.1e} for {rounds} rounds", delta)
    if flip.probability == 0:
        return math.inf
    gamma = float(flip.probability)
    local = upward(change_odds(flip.probability))
    scale = (1 - 2 * gamma) / math.sqrt(devices * gamma * (1 - gamma))
    step = min(scale / 20, local / 100)
    reach = min(local, (SPREAD + scale) * scale) + step
    losses: Floats = step * np.arange(math.ceil(reach / step) + 1, dtype=np.float64)
    curve = _largest_delta(gamma, 1 - gamma, devices)
    deltas = np.array([curve(loss) for loss in losses.tolist()]) * (1 + _ERROR) + _BEYOND
    if deltas[0] > 1:  # flips so rare that others hide nothing
        return compose([local] * rounds)
    masses, infinite = _joined(losses, deltas)
    total, wrapped = _self_composed(masses, step, rounds)
    missed = rounds * infinite + wrapped + error
    grid = step * (np.arange(len(total)) - len(total) // 2)

    def excess(epsilon: float) -> float:
        above = grid > epsilon
        return float(np.sum(total[above] * -np.expm1(epsilon - grid[above]))) + missed

    return math.nextafter(_least(excess, delta, rounds * local), math.inf)


Curve = Callable[[float], float]  # δ as a function of ε


def _largest_delta(low: float, high: float, devices: int) -> Curve:
    """
    δ(ε) = max over splits, directions and k of (high - e^ε low) Pr[N = k-1] - (e^ε - 1) Pr[N ≥ k].

    For P(k) - e^ε Q(k) is positive from some k on, and this is its sum from k on. The other direction is the
    same with 0 and 1 swapped; with high + low = 1 that only exchanges j and n-1-j, and one direction will do.
    """
    directions = [(low, high)]
    if not math.isclose(low + high, 1, rel_tol=0, abs_tol=1e-15):
        directions.append((1 - high, 1 - low))
    laws = [(a, b, _others(a, b, devices)) for a, b in directions]
    margin = 1.0
    if devices > ALL_SPLITS:  # for splits not tried: ten times what they were ever seen to add
        margin += max(min(0.01, 4 / (devices * a * b)) for a, b in directions)
    tails = [np.cumsum(others[:, ::-1], axis=1)[:, ::-1] - others for _, _, others in laws]

    def delta(epsilon: float) -> float:
        growth = math.expm1(epsilon)
        return margin * max(
            0.0,
            *(
                float(np.max((b - a - a * growth) * others - growth * tail))
                for (a, b, others), tail in zip(laws, tails, strict=True)
            ),
        )

    return delta


def _others(low: float, high: float, devices: int) -> Floats:
    """The law of the other devices' ones, a row per split that is looked at, without far tails."""
    others = devices - 1
    splits = list(range(others + 1))
    if others >= ALL_SPLITS:  # the last few and some over the whole range
        parts = 128 if others * low * high < 400 else 8
        spread = (round(others * part / parts) for part in range(parts + 1))
        splits = sorted({*spread, *range(others - 24, others + 1)})
    laws = [np.convolve(_binomial(ones, high), _binomial(others - ones, low)) for ones in splits]
    stacked = np.zeros((len(laws), max(map(len, laws))))
    for row, law in zip(stacked, laws, strict=True):
        row[: len(law)] = law
    return stacked


def _binomial(trials: int, chance: float) -> Floats:
    """Binomial probabilities within `SPREAD` standard deviations, or all of them when few."""
    middle = trials * chance
    width = SPREAD * math.sqrt(trials * chance * (1 - chance)) + _MARGIN
    counts = np.arange(max(0, math.floor(middle - width)), min(trials, math.ceil(middle + width)) + 1)
    return np.asarray(binom.pmf(counts, trials, chance), dtype=np.float64)


def _joined(losses: Floats, curve: Floats) -> tuple[Floats, float]:
    """
    The discrete privacy loss on -losses and losses whose curve joins the given points.

    In x = e^ε its slope jumps at each point by the point's mass under Q. Below ε = 0 the curve of both
    directions together is δ(-ε) = 1 - e^-ε + e^-ε δ(ε).
    """
    below = -np.expm1(-losses[:0:-1]) + np.exp(-losses[:0:-1]) * curve[:0:-1]
    values = np.concatenate([[1.0], below, curve])
    places = np.concatenate([[0.0], np.exp(-losses[:0:-1]), np.exp(losses)])
    slopes = np.append(np.diff(values) / np.diff(places), 0.0)
    jumps = np.maximum(np.diff(slopes), 0.0)
    return jumps * places[1:], float(curve[-1])


def _self_composed(masses: Floats, step: float, rounds: int) -> tuple[Floats, float]:
    """The law of the sum of `rounds` losses around 0, and a bound on the mass that wrapped around."""
    half = len(masses) // 2
    losses: Floats = step * (np.arange(len(masses), dtype=np.float64) - half)
    mean = float(np.sum(losses * masses))
    deviation = math.sqrt(float(np.sum(losses**2 * masses)))
    reach = rounds * abs(mean) + SPREAD * math.sqrt(rounds) * deviation + losses[-1]
    size = 1 << max(math.ceil(math.log2(2 * min(reach, rounds * losses[-1]) / step + 4)), 1)
    size = max(size, 1 << len(masses).bit_length())
    circle = np.zeros(size)
    circle[(np.arange(len(masses)) - half) % size] = masses
    total = np.fft.irfft(np.fft.rfft(circle) ** rounds, size)
    edge = step * (size // 2)
    return np.maximum(np.roll(total, size // 2), 0.0), _mass_above(masses, losses, rounds, edge)


def _mass_above(masses: Floats, losses: Floats, rounds: int, edge: float) -> float:
    """Chernoff's bound on the chance that the sum of `rounds` losses reaches `edge`."""
    if rounds * losses[-1] < edge:
        return 0.0
    mean = float(np.sum(losses * masses))
    square = float(np.sum(losses**2 * masses))
    tilts = np.geomspace(0.1, 10, 41) * (edge - rounds * mean) / (rounds * square)
    bounds = [rounds * float(logsumexp(tilt * losses, b=masses)) - tilt * edge for tilt in tilts]
    return math.exp(min(0.0, *bounds))


def _least(excess: Curve, delta: float, highest: float) -> float:
    """The least ε whose excess is at most δ, from above; `highest` where none below is known to do."""
    left = 0.0
    right = highest
    if excess(left) <= delta:
        return left
    while right - left > 1e-6 * right:
        middle = (left + right) / 2
        if excess(middle) <= delta:
            right = middle
        else:
            left = middle
    return right


def _check(devices: int, delta: float) -> None:
    if devices < 1:
        raise ParameterError("devices", "a whole number >= 1", devices)
    if not 0 < delta < 1:
        raise ParameterError("delta", "a number between 0 and 1", delta)
