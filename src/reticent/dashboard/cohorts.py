"""What uneven cohorts look like, and what they may mean, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reticent.dashboard import words
from reticent.estimates.balance import Balance, RowBalance
from reticent.plan import Metric

MOST_NAMED = 3
"""Rows that a sentence names; the twin has all of them."""

_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

MEANING = (
    "Honest devices draw their cohort at random, once, whatever they measure. So somebody may be picking "
    "cohorts to make every lie count, or a client draws its cohort wrongly."
)
UNSEEN = (
    "What cannot be seen: reports that lie about their answer but draw their cohort as they should. Those, "
    "and every lie about a mean, leave no trace."
)


def uneven_words(metric: Metric, found: Balance) -> str:
    """
    Which rows of a histogram are spoken of more often than chance gives, and what the odds of that are.

    >>> from reticent.counts import HistogramCounts
    >>> from reticent.estimates.balance import balance
    >>> from reticent.mechanisms import Buckets, DBitFlip
    >>> hours = Metric("hours", DBitFlip(epsilon=1, buckets=Buckets.even(24, 4), width=1), unit="hour")
    >>> print(uneven_words(hours, balance(hours, HistogramCounts((400, 200, 200, 200), (0, 0, 0, 0)))))
    Reports about 0 to 6 hours (400, where 250 are due) are more than chance gives, at odds of 1 in 10²³.
    """
    far, more = (found.over, "more") if found.over else (found.under, "fewer")
    named = [_named(metric, row) for row in far[:MOST_NAMED]]
    if len(far) > MOST_NAMED:
        named.append(f"{len(far) - MOST_NAMED} others")
    return f"Reports about {_listed(named)} are {more} than chance gives, at odds of {chance(found.p_value)}."


def chance(p_value: float) -> str:
    """
    A small probability as a power of ten, rounded up.

    >>> chance(3e-7), chance(0.0)
    ('1 in 10⁶', '1 in 10³⁰⁰')
    """
    power = min(300, math.floor(-math.log10(p_value))) if p_value else 300
    return f"1 in 10{str(power).translate(_RAISED)}"


def _named(metric: Metric, row: RowBalance) -> str:
    return f"{_row_name(metric, row.row)} ({row.reports:,}, where {row.expected:,.0f} are due)"


def _row_name(metric: Metric, row: int) -> str:
    mechanism = metric.mechanism
    if not mechanism.rows_are_buckets:
        return mechanism.row_name(row)
    low, high = mechanism.points[row : row + 2]
    ends = f"{words.rounded(float(low), 6)} to {words.rounded(float(high), 6)}"
    return f"{ends} {words.plural(metric.unit)}".rstrip()


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
