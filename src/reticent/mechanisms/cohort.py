"""
The cohort: one public byte per device and plan, which says what its histogram bits are about.

It is drawn from the device's secret, never from a value, and is the same for every histogram of the
plan and in every round: it tells the collector 8 bits about which device this is, for ever, and no more.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

COHORTS = 256


def hadamard_row(cohort: int, size: int) -> int:
    """The row of a size × size Hadamard matrix; `size` divides 256, so rows are equally likely."""
    return cohort % size


@lru_cache(maxsize=4096)
def bucket_window(label: str, buckets: int, width: int, cohort: int) -> tuple[int, ...]:
    """
    The `width` buckets that a device of this cohort answers about, out of `buckets`.

    The buckets are shuffled once, in public: bucket *i* is sorted by SHA-256("label/i"). The cohort picks
    where in that circle the window starts, ⌊cohort · buckets / 256⌋.

    >>> sorted(bucket_window("app/hours", buckets=4, width=4, cohort=9))
    [0, 1, 2, 3]
    """
    order = _shuffle(label, buckets)
    start = cohort * buckets // COHORTS
    return tuple(order[(start + offset) % buckets] for offset in range(width))


@lru_cache(maxsize=256)
def _shuffle(label: str, buckets: int) -> tuple[int, ...]:
    return tuple(sorted(range(buckets), key=lambda bucket: sha256(f"{label}/{bucket}".encode()).digest()))
