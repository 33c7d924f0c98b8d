"""
What came after 2017, at equal loss: n·Var from the formulas of each scheme, for docs/explanation/comparison.md.

Losses are between devices of the same pattern for schemes that remember, between any two histories for the others.
"""

from __future__ import annotations

from math import comb, exp, log2, sqrt, tanh

import numpy as np

from reticent_paper.claims import ExperimentResult, Rows, Setting, table

BUCKETS = 32
LOSSES = (1.0, 2.0, 4.0, 8.0, 16.0)
LARGEST_HASH = 64
TIMES = 256


def bits_of(epsilon: float, width: int, buckets: int = BUCKETS) -> float:
    """n·Var of an average bucket: d of k buckets, symmetric, the ratio estimator; d = 1 uses the whole ε."""
    half = epsilon if width == 1 else epsilon / 2
    noise = exp(half) / (exp(half) - 1) ** 2
    share = 1 / buckets
    return buckets / width * (noise + share * (1 - share) * (1 - width / buckets))


def unary(epsilon: float) -> float:
    """n·Var of a light bucket with all k bits, p = 1/2 and q = 1/(e^ε + 1) (OUE, Wang et al. 2017)."""
    return 4 * exp(epsilon) / (exp(epsilon) - 1) ** 2


def hashing(epsilon: float, size: int, buckets: int = BUCKETS) -> float:
    """n·Var of an average bucket with a hash to g values, then randomized response (LOLOHA without its second)."""
    p = exp(epsilon) / (exp(epsilon) + size - 1)
    q = 1 / size
    share = 1 / buckets
    return ((1 - share) * q * (1 - q) + share * p * (1 - p)) / (p - q) ** 2


def best_hash(loss: float) -> tuple[int, float]:
    """The best g at g·ε = loss, by search."""
    return min(
        ((size, hashing(loss / size, size)) for size in range(2, LARGEST_HASH + 1)), key=lambda own: own[1]
    )


@table("equal-loss")
def equal_loss() -> Rows:
    """Histograms that remember: n·Var of an average bucket at an equal same-pattern loss (k = 32, all visited)"""
    for loss in LOSSES:
        size, best = best_hash(loss)
        yield {
            "loss": loss,
            "RAPPOR-like, L-OUE": unary(loss / BUCKETS),
            "4BitFlipPM": bits_of(loss / 4, 4),
            "2BitFlipPM": bits_of(loss / 2, 2),
            "1BitFlipPM, tight": bits_of(loss / 2, 1),
            "Hadamard bit = LOLOHA, g = 2": hashing(loss / 2, 2),
            "LOLOHA, best g": best,
            "g": size,
        }


def annulus_gap(changes: int, epsilon: float) -> float:
    """
    The largest gap P(right) - P(wrong) of one bit of FutureRand's composed randomizer (Ohrimenko, Wirth, Wu 2022).

    Each of c bits is flipped independently; if the number of flips is outside a band, a sequence outside the band
    is drawn uniformly instead. Noise and band are the best ε-LDP ones, by search.
    """
    flips = np.arange(changes + 1)
    ways = np.array([float(comb(changes, number)) for number in flips])
    best = 0.0
    for own in np.geomspace(epsilon / changes, 2 * epsilon, 40):
        rate = 1 / (exp(own) + 1)
        plain = rate**flips * (1 - rate) ** (changes - flips)
        for low in range(changes // 2 + 1):
            for high in range(low, changes + 1):
                inside = (flips >= low) & (flips <= high)
                many = ways[~inside].sum()
                law = np.where(inside, plain, (ways * plain)[~inside].sum() / many if many else 0.0)
                if law.max() <= exp(epsilon) * law.min() * (1 + 1e-12):
                    best = max(best, float((ways * law * (1 - 2 * flips / changes)).sum()))
    return best


@table("streams")
def streams() -> Rows:
    """Schemes for any history with at most c changes: n·Var of a share in one of 256 rounds (ε = 1 over all rounds)"""
    levels = log2(TIMES) * (1 + log2(TIMES))
    for changes in (1, 4, 16, 32):
        yield {
            "changes c": changes,
            "hierarchical (Erlingsson et al. 2019)": levels / tanh(1 / (2 * changes)) ** 2,
            "FutureRand (2022)": levels / annulus_gap(changes, 1) ** 2,
            "sampled, one window of 256 rounds": TIMES / (4 * tanh(0.5) ** 2),
            "remembered, no flips (same pattern only)": 1 / (4 * tanh(0.5) ** 2),
        }


@table("central")
def central() -> Rows:
    """ε = 2 per device and week, any history: standard error of a week's mean, % of the range"""
    for devices in (10_000, 1_000_000, 100_000_000):
        yield {
            "devices": devices,
            "local: sampled, one answer per week": 100 / (2 * tanh(1) * sqrt(devices)),
            "central: a trusted sum and Laplace noise (as Mayfly)": 100 * sqrt(2) / 2 / devices,
            "ratio": devices / (2 * tanh(1) * sqrt(devices)) * sqrt(2),
        }


def run(setting: Setting) -> ExperimentResult:
    """All tables; nothing is drawn."""
    return ExperimentResult(
        "after",
        "What came after 2017",
        "Formulas of later schemes at equal loss; docs/explanation/comparison.md explains them.",
        (equal_loss(), streams(), central()),
    )
