"""
Bits add up to counts, and counts add.

    >>> MeanCounts(reports=3, ones=1) + MeanCounts(reports=2, ones=2)
    MeanCounts(reports=5, ones=3)

`count_reports` counts any iterable of reports with the standard library alone; `count_arrays` does the same
for millions at a time with NumPy, which is loaded when it is used.
"""

from reticent.counts.counts import (
    Counts,
    HistogramCounts,
    MeanCounts,
    Slice,
    count_arrays,
    count_reports,
    counts_from_rows,
    fold,
    zero,
)

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
