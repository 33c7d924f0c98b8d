"""What must be true of a plan's integers whatever else is: checks that involve no chance."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from itertools import pairwise

from reticent.lab.audit.exact import row_sets, rows_of
from reticent.mechanisms import SCALE
from reticent.plan import Metric, Plan

_DIGITS = Context(prec=90)


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must hold, and whether it does; None when it could not be looked at."""

    subject: str
    what: str
    holds: bool | None
    detail: str = ""

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return asdict(self)


def check_structure(plan: Plan) -> list[Check]:
    """
    The integers of every metric, checked one by one.

    - no threshold is below ⌈2⁶⁴/(e^h + 1)⌉ or above its mirror image, h the exponent of one bit, computed
      anew here with 90 digits;
    - a mean's thresholds never fall from one cell to the next, and the two ends mirror each other;
    - γ·2⁶⁴ is rounded up, and stays below one half;
    - every cohort is asked as much as every other.
    """
    return [check for metric in plan.metrics for check in _check_metric(metric)]


def _check_metric(metric: Metric) -> list[Check]:
    mechanism, flip = metric.mechanism, metric.flip
    low = least_threshold(mechanism.response.epsilon)
    used = {one for rows in row_sets(mechanism) for row in rows for one in row}
    checks = [
        Check(
            metric.name,
            "every threshold lies on the private side",
            low <= min(used) and max(used) <= SCALE - low,
            f"{len(used)} thresholds from {low}",
        ),
        Check(
            metric.name,
            "the flip is rounded up, below one half",
            flip.probability * SCALE <= flip.threshold < SCALE // 2,
            f"{flip.threshold} of 2^64",
        ),
    ]
    if mechanism.kind == "mean":
        cells = [row[0] for row in rows_of(mechanism)]
        checks.append(
            Check(
                metric.name,
                "thresholds rise from cell to cell",
                all(a <= b for a, b in pairwise(cells)) and cells[0] + cells[-1] == SCALE,
                f"{len(cells)} cells",
            )
        )
    else:
        kinds = len(row_sets(mechanism))
        checks.append(Check(metric.name, "every cohort is asked alike", kinds == 1, f"{kinds} kind(s)"))
    return checks


def least_threshold(exponent: Fraction) -> int:
    """
    ⌈2⁶⁴ / (e^h + 1)⌉, with 90 digits.

    >>> least_threshold(Fraction(1))
    4961093570831980854
    """
    odds = _DIGITS.exp(_DIGITS.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)))
    quotient = _DIGITS.divide(Decimal(SCALE), _DIGITS.add(odds, Decimal(1)))
    return int(quotient.to_integral_value(rounding=ROUND_CEILING))
