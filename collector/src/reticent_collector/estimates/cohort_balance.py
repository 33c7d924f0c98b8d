"""Whether reports are spread over the rows of a histogram as chance would have it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reticent.errors import ParameterError
from reticent.plan import Metric
from reticent_collector.counts import Counts, HistogramCounts

ALARM = 1e-6
"""Below this chance, counts are called uneven: the share of honest rounds that are called so by mistake."""


@dataclass(frozen=True, slots=True)
class RowBalance:
    """One row: a bucket of dBitFlip, or a row of the Hadamard matrix."""

    row: int
    reports: int  #: Reports about it
    expected: float  #: As many as chance gives on average
    p_value: float  #: The chance that honest devices are as far off on either side, for this row alone

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Balance:
    """
    The reports of each row against chance.

    An honest device draws its cohort once, from its secret: uniform over 256 and independent of its value. So
    the reports X on a row, out of n, are binomial with the share c of cohorts that answer about it, and

        p = min(1, 2 · Pr[Bin(n, c) ≥ X])  for X > nc,      min(1, 2 · Pr[Bin(n, c) ≤ X])  otherwise

    is at most α with probability at most α, exactly, for every n. Over k rows, k · min p is so too
    (Bonferroni), although rows depend on each other. Rounds are no new evidence, since devices keep their
    cohorts.

    A fleet is uneven when cohorts are picked, to push a bucket of dBitFlip with every report, or drawn wrongly
    by a client. It stays even when dishonest devices draw their cohorts as others do and lie about their
    answers alone; `Estimate.manipulation_bound` covers those.
    """

    p_value: float  #: The chance that honest devices leave any row as far off as the farthest
    rows: tuple[RowBalance, ...] = ()  #: Where the counts are known

    @property
    def even(self) -> bool:
        """Whether chance explains the counts."""
        return self.p_value >= ALARM

    @property
    def over(self) -> tuple[RowBalance, ...]:
        """The rows with more reports than chance gives, farthest first; none in an even fleet."""
        return self._far(+1)

    @property
    def under(self) -> tuple[RowBalance, ...]:
        """The rows with fewer reports than chance gives; none in an even fleet."""
        return self._far(-1)

    def _far(self, side: int) -> tuple[RowBalance, ...]:
        far = [
            row
            for row in self.rows
            if side * (row.reports - row.expected) > 0 and len(self.rows) * row.p_value < ALARM
        ]
        return tuple(sorted(far, key=lambda row: (row.p_value, -abs(row.reports - row.expected))))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: the chance, and the rows that it does not explain."""
        return {
            "p_value": self.p_value,
            "even": self.even,
            "over": [row.to_dict() for row in self.over],
            "under": [row.to_dict() for row in self.under],
        }


def balance(metric: Metric, counts: Counts) -> Balance | None:
    """
    The reports of each row of a histogram against chance; None where there is nothing to compare.

    That is so for a mean, for dBitFlip that asks every device about every bucket, and without reports.

    >>> from reticent.mechanisms import Buckets, DBitFlip
    >>> hours = Metric("hours", DBitFlip(epsilon=1, buckets=Buckets.even(24, 4), width=1))
    >>> rows = balance(hours, HistogramCounts(reports=(400, 200, 200, 200), ones=(0, 0, 0, 0)))
    >>> rows.even, [row.row for row in rows.over], [row.expected for row in rows.over]
    (False, [0], [250.0])
    """
    from scipy.special import betainc, betaincc

    shares = shares_of_rows(metric)
    if not isinstance(counts, HistogramCounts) or not shares or not counts.devices:
        return None
    if len(shares) != len(counts.reports):
        raise ParameterError(f"counts of {metric.name}", f"{len(shares)} rows", len(counts.reports))
    # Twice the binomial tail on the side where each count lies; every share is between 0 and 1.
    reports = np.array(counts.reports)
    devices = counts.devices
    share = np.array(shares)
    above = reports > devices * share
    upper = betainc(np.where(above, reports, 1), devices - np.where(above, reports, 1) + 1, share)
    lower = betaincc(np.where(above, 0, reports) + 1, devices - np.where(above, 0, reports), share)
    chances = np.minimum(1.0, 2 * np.where(above, upper, lower))
    rows = zip(counts.reports, shares, chances.tolist(), strict=True)
    return Balance(
        min(1.0, len(shares) * float(chances.min())),
        tuple(
            RowBalance(place, reports, counts.devices * share, chance)
            for place, (reports, share, chance) in enumerate(rows)
        ),
    )


def shares_of_rows(metric: Metric) -> tuple[float, ...]:
    """Per row, the share of cohorts that answer about it; empty where the cohort decides nothing."""
    return metric.mechanism.coverage if metric.mechanism.uses_cohort else ()
