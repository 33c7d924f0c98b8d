"""
Shares that look like shares: opt-in, biased, for display.

Raw estimates are unbiased, may be negative and need not add up to 1. Each function here trades that away for
a smaller squared error. None of them touches an interval: intervals come from the raw estimate alone.

Squared error as a part of the raw one, Hadamard bit, k = 32, ε = 1, from 20 to 200 thousand devices:

    population                          flat   85 % in one bucket   geometric or bell-shaped
    clip                                 1.0        .55 - .77              .7 - .8
    norm_sub                             .95        .3  - .7               .6 - .8
    expectation_maximisation             .95        .25 - .65              .55 - .75
    the same with smoothing = 1          .25         2  - 24               .2 - .45

Clipping and then dividing by the sum is not offered: with 85 % in one bucket it doubles the largest error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reticent.errors import ParameterError
from reticent.plan import Metric
from reticent_collector.counts import HistogramCounts
from reticent_collector.estimates.estimator import HistogramEstimate
from reticent_collector.estimates.interval import Floats


def clip(histogram: HistogramEstimate) -> tuple[float, ...]:
    """Each share cut to its range, 0 where no device was asked. Biased upwards on light buckets; its sum is above 1."""
    return tuple(np.clip(np.nan_to_num(histogram.values), *histogram.buckets[0].span).tolist())


def norm_sub(histogram: HistogramEstimate) -> tuple[float, ...]:
    """
    The nearest histogram: the Euclidean projection of the raw shares onto {h ≥ 0, Σ h = 1}.

    Amounts of a split add up to its range instead of 1. One number is subtracted from every share and negative ones
    become 0, such that the rest adds up. A bucket that no device was asked about counts as 0. Biased, most of all on
    light buckets.
    """
    shares = np.nan_to_num(histogram.values)
    falling = np.sort(shares)[::-1]
    whole = histogram.buckets[0].span[1]
    excess = (np.cumsum(falling) - whole) / np.arange(1, len(falling) + 1)
    subtracted = excess[np.nonzero(falling > excess)[0][-1]]
    return tuple(np.maximum(shares - subtracted, 0.0).tolist())


@dataclass(frozen=True, slots=True)
class Fitted:
    """The result of `expectation_maximisation`."""

    shares: tuple[float, ...]
    iterations: int
    gap: float  #: Nats that the log-likelihood can still gain at most; nan with smoothing


def expectation_maximisation(
    metric: Metric,
    counts: HistogramCounts,
    smoothing: float = 0.0,
    gap: float = 0.01,
    most_iterations: int = 20_000,
) -> Fitted:
    """
    The histogram under which the counts are most likely.

    A device in bucket u says 1 in row r with a known probability A[r, u]. Starting from equal shares,

        h_u  ←  h_u · g_u,     g_u = 1/N · Σ_r ( ones_r · A[r,u]/(A h)_r + zeros_r · (1-A[r,u])/(1-(A h)_r) ),

    never lowers the likelihood, keeps h ≥ 0 and Σ h = 1, and converges to the maximum, since the
    log-likelihood is concave; N (max_u g_u - 1) bounds what is left to gain, and the iteration stops when
    that is below `gap` nats. Steps are short where bits are noisy, so g is raised to a power that grows as
    long as the likelihood does, and falls back to 1 when it does not. For the Hadamard bit this is the
    likelihood of what was received. For dBitFlip and subset selection the bits of a report are taken as if
    from as many devices (a composite likelihood): still consistent.

    With `smoothing` = b > 0 every step also averages neighbours ("EMS"), for ordered buckets whose shares
    change slowly: each keeps 1 - 2w and gives w to either side. One step brings the shares only a part ρ of
    the way to the maximum, ρ = h/(n·Var) for a share h = 1/k, and there are hundreds of steps; so
    w = b² ρ, which blurs over about b buckets in the end, whatever ε. (The fixed w = 1/4 of other mechanisms
    would blur over 6 of 32 buckets here at ε = 1.) A spike is blurred all the same. Biased either way.
    """
    if metric.mechanism.kind == "mean":
        raise ParameterError(metric.name, "a histogram or a choice", f"a {metric.kind}")
    if not smoothing >= 0:
        raise ParameterError("smoothing", "a number of buckets >= 0", smoothing)
    if smoothing and any(metric.bucket_labels):
        raise ParameterError("smoothing", "0, since buckets with a name have no neighbours", smoothing)
    mechanism = metric.mechanism
    one = mechanism.row_chances(metric.flip)
    zero = 1 - one  # [row, bucket]: the chance of a 0 in the row from a device in the bucket
    ones = np.array(counts.ones, dtype=np.float64)
    zeros = np.array(counts.reports, dtype=np.float64) - ones
    total = float(ones.sum() + zeros.sum())
    if len(ones) != len(one) or total == 0:
        expected = f"{len(one)} rows with reports"
        given = f"{len(ones)} rows with {total:g} answers"
        raise ParameterError(f"counts of {metric.name}", expected, given)

    def log_likelihood(shares: Floats) -> float:
        return float(ones @ np.log(one @ shares) + zeros @ np.log(zero @ shares))

    count = mechanism.intervals
    noise, sampling = mechanism.variances(metric.flip, 1 / count)
    progress = 1 / count / float((noise + sampling) * (count if mechanism.rows_are_buckets else 1))  # ρ
    weight = min(smoothing**2 * progress, 0.25)
    shares = np.full(count, 1 / count)
    iterations = 0
    left = float("inf")
    power = 1.0
    while iterations < most_iterations:
        iterations += 1
        gain = (one.T @ (ones / (one @ shares)) + zero.T @ (zeros / (zero @ shares))) / total
        left = total * float(gain.max() - 1)
        if weight:
            previous = shares
            stepped = shares * gain
            # The ends keep what has nowhere to go, so the sum stays 1.
            padded = np.concatenate((stepped[:1], stepped, stepped[-1:]))
            shares = weight * padded[:-2] + (1 - 2 * weight) * padded[1:-1] + weight * padded[2:]
            if np.abs(shares - previous).max() < 1e-5 * progress:
                break
            continue
        if left < gap:
            break
        exponent = power * np.log(gain)
        further = shares * np.exp(
            np.maximum(exponent - exponent.max(), -5.0)
        )  # none shrinks below e⁻⁵ of itself
        further /= further.sum()
        rises = log_likelihood(further) > log_likelihood(shares)
        shares, power = (further, power * 1.5) if rises else (shares * gain, 1.0)
    return Fitted(tuple(shares.tolist()), iterations, float("nan") if weight else left)
