"""What a plan asks and what each answer bit means, in words for the person whose device it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reticent.plan import Metric, Plan
    from reticent.reports import Report

_MOST_NAMED = 4  # so many parts of a range are named; of more, how many there are


def question(metric: Metric) -> str:
    """
    What a metric asks.

    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> question(Metric("saves", OneBitMean(1, 100), unit="file", description="Files saved"))
    'Files saved: 0 to 100 file'
    >>> question(Metric("saves", OneBitMean(1, 100), unit="file"))
    '0 to 100 file'
    """
    top = f"{_number(metric.max_value)} {metric.unit}".strip()
    asked = f"{metric.description}: " if metric.description else ""
    return asked + metric.range_in_words(top)


def how_answered(plan: Plan, metric: Metric) -> str:
    """How the bits of a metric are drawn."""
    if metric.parts:
        how = (
            "a moment that is picked for this window only" if plan.answers.sampled else "draws that are kept"
        )
        return f"About one part, by {how}, as often as its share of the range. {_how_drawn(plan, metric)}"
    return _how_drawn(plan, metric)


def _how_drawn(plan: Plan, metric: Metric) -> str:
    if plan.answers.sampled:
        return "Drawn for this window only; the next window has new draws."
    flip = float(metric.flip.probability)
    kept = "Drawn once per possible answer and remembered"
    return f"{kept}; flipped at random in {_percent(flip)} of the rounds." if flip else f"{kept}."


def bit_meanings(metric: Metric, cohort: int, *, flips: bool = True) -> list[str]:
    """
    For each answer bit of a metric as sent, how likely a 1 is, and where in the range.

    `flips`: with the random flip, which sampled answers do not have.

    >>> from reticent.mechanisms import Buckets, DBitFlip, Flip, OneBitMean
    >>> from reticent.plan import Metric
    >>> bit_meanings(Metric("saves", OneBitMean(1, 100), Flip(0.2)), cohort=0)
    ['1 is sent with a chance of 36.1 % at 0 and 63.9 % at 100, in proportion between them']
    """
    mechanism = metric.mechanism
    flip = metric.flip.probability if flips else Fraction(0)

    def shares(memo_class: int) -> list[float]:
        ones = mechanism.chances(memo_class, cohort)
        return [float(one * (1 - flip) + (1 - one) * flip) for one in ones]

    if mechanism.buckets is None:
        [low], [high] = (shares(mechanism.memo_class(value, 0)) for value in (0, mechanism.max_value))
        if metric.is_flag:
            return [f"1 is sent with a chance of {_percent(high)} if it happened, {_percent(low)} if not"]
        ends = f"{_percent(low)} at 0 and {_percent(high)} at {_number(mechanism.max_value)}"
        return [f"1 is sent with a chance of {ends}, in proportion between them"]
    of_buckets = [
        shares(int(mechanism.bucket_class(bucket, cohort))) for bucket in range(mechanism.intervals)
    ]
    ranges = [f"{_number(start)} to {_number(end)}" for start, end in pairwise(mechanism.points)]
    names = [label or ranges[place] for place, label in enumerate(metric.bucket_labels)]
    meanings = []
    answered = "the part that is picked" if metric.parts else "the answer"
    for place in range(metric.bits):
        low, high = (end(share[place] for share in of_buckets) for end in (min, max))
        inside = [name for name, share in zip(names, of_buckets, strict=True) if share[place] == high]
        if low == high:
            meanings.append(f"1 is sent with a chance of {_percent(high)} whatever the value is")
            continue
        where = " or ".join(inside)
        if len(inside) > _MOST_NAMED:
            some = ", ".join(inside[:_MOST_NAMED])
            where = f"in one of {len(inside)} of the {len(names)} parts of the range ({some}, …)"
        meanings.append(
            f"1 is sent with a chance of {_percent(high)} if {answered} is {where}, {_percent(low)} if not"
        )
    return meanings


def bits_by_metric(report: Report, layout: Iterable[tuple[str, int]]) -> Iterator[tuple[str, str, bool]]:
    """Of each metric, given with its number of bits: its name, its bits as sent, and whether it was asked."""
    offset = 0
    for number, (name, count) in enumerate(layout):
        is_asked = report.asked is None or bool(report.asked[number // 8] & 128 >> number % 8)
        yield name, "".join(str(report.bit(offset + place)) for place in range(count)), is_asked
        offset += count


def round_in_words(start: float, end: float) -> str:
    """
    When a round was.

    >>> round_in_words(1_700_000_000, 1_700_021_600), round_in_words(1_699_920_000, 1_700_006_400)
    ('2023-11-14 22:13 to 2023-11-15 04:13 UTC', '2023-11-14')
    """
    try:
        first, last = (datetime.fromtimestamp(moment, UTC) for moment in (start, end))
    except (ValueError, OverflowError, OSError):  # a clock that is wrong by thousands of years
        return f"{start:.0f} to {end:.0f} s after 1970"
    if (first.hour, first.minute, first.second, end - start) == (0, 0, 0, 86_400):
        return f"{first:%Y-%m-%d}"
    return (
        f"{first:%Y-%m-%d %H:%M} to {last:{'%H:%M' if last.date() == first.date() else '%Y-%m-%d %H:%M'}} UTC"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _number(number: int | Fraction) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{float(number):,.6g}"
