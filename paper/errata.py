"""The errata of the paper in a line each: the headings of docs/explanation/errata.md, for other pages."""

from __future__ import annotations

TITLES = (
    "0.686 should be 0.569",
    "1.672 should be 1.337",
    "Weights in the proof of the rounding theorem",
    "A factor 2 in a tail bound",
    "The number of answers about a bucket is upside down",
    "Theorem 2 fails for tiny fleets",
    "The order of magnitude of Theorem 2 needs small ε",
    "One bit of dBitFlip uses half of its ε",
    "Change times are hidden better than printed",
    "γ = 1/2 is not allowed; the estimator with flips is missing",
    "ε′ is for a single round",
    "The loss of several counters, exactly",
    'The loss of several counters is not "minor"',
    '"Non-zero" for "non-negative"',
    "Integer α is biased for real values",
    "A step that does not divide the range breaks privacy",
    "The extra cell above m is harmless",
    "The lifetime bound is loose on fine grids",
    '"b(U)" for its width',
    "How many buckets share a response",
    "γ = 1/3 replaces the value, it does not add to it",
    "One bit is not always better than Laplace",
    "BinFlip is not always best",
    "BinFlip+ is not limited to ε ≤ 2",
    '"Maximum over x" of the error',
    "Small things",
)
"""In order: the first is E1."""


def title(erratum: str) -> str:
    """
    What an erratum is about.

    >>> title("E1")
    '0.686 should be 0.569'
    """
    return TITLES[int(erratum.removeprefix("E")) - 1]
