"""
Bits add up to counts, and counts add.

    >>> MeanCounts(reports=3, ones=1) + MeanCounts(reports=2, ones=2)
    MeanCounts(reports=5, ones=3)

`count_reports` counts any iterable of reports with the standard library alone; `reticent.counts.arrays` does
the same for millions at a time with NumPy, and is imported only by who wants it.
"""

from reticent.counts.model import Counts, HistogramCounts, MeanCounts, counts_from_rows, zero
from reticent.counts.reports import count_reports

__all__ = ["Counts", "HistogramCounts", "MeanCounts", "count_reports", "counts_from_rows", "zero"]
