"""
Bits add up to counts, and counts add.

    >>> MeanCounts(reports=3, ones=1) + MeanCounts(reports=2, ones=2)
    MeanCounts(reports=5, ones=3)

`count_reports` counts any iterable of reports with the standard library alone; `count_arrays` does the same
for millions at a time with NumPy, which is loaded when it is used.
"""

from typing import TYPE_CHECKING

from reticent.counts.counts import (
    Counts,
    HistogramCounts,
    MeanCounts,
    Slice,
    count_reports,
    counts_from_rows,
    fold,
    zero,
)

if TYPE_CHECKING:
    from reticent.counts.arrays import count_arrays

__all__ = [
    "Counts",
    "HistogramCounts",
    "MeanCounts",
    "Slice",
    "count_arrays",
    "count_reports",
    "counts_from_rows",
    "fold",
    "zero",
]


def __getattr__(name: str) -> object:
    if name != "count_arrays":
        raise AttributeError(f"module 'reticent.counts' has no attribute {name!r}")
    from reticent.counts import arrays

    return arrays.count_arrays
