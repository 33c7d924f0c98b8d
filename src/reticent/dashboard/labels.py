"""Numbers, times and certainty as people read them: rounded as far as they are sure, in units they use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from reticent.estimates import Balance, decimals
from reticent.plan import Metric

MINUS = "\N{MINUS SIGN}"
"""What stands before a number below 0; a hyphen is too short to see."""

_LARGER: dict[str, list[tuple[float, str]]] = {
    "millisecond": [(3_600_000, "hour"), (60_000, "minute"), (1000, "second")],
    "second": [(86_400, "day"), (3600, "hour"), (60, "minute")],
    "minute": [(1440, "day"), (60, "hour")],
    "hour": [(24, "day")],
    "byte": [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")],
}
_SHORT = {"ms": "millisecond", "s": "second", "sec": "second", "min": "minute", "h": "hour", "b": "byte"}


def number(value: float, digits: int = 0) -> str:
    """
    A number with thousands set apart, a true minus sign, and never "−0".

    >>> number(-1234.5, 1), number(-0.001, 1)
    ('−1,234.5', '0.0')
    """
    if not math.isfinite(value):
        return "no bound"
    text = f"{value:,.{digits}f}"
    if text.startswith("-"):
        return text[1:] if not text.strip("-0.,") else MINUS + text[1:]
    return text


def rounded(value: float, digits: int = 3) -> str:
    """
    A number to some significant digits.

    >>> rounded(0.56945), rounded(21600), rounded(2.0)
    ('0.569', '21,600', '2')
    """
    if not math.isfinite(value):
        return "no bound"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = number(value, places)
    return text.rstrip("0").rstrip(".") if "." in text else text


def plus_minus(value: float, half_width: float) -> str:
    """
    A value and its half-width, rounded alike.

    >>> plus_minus(2143.2, 312.4)
    '2,143 ± 312'
    """
    digits = decimals(half_width)
    return f"{number(value, digits)} ± {number(half_width, digits)}"


def between(lower: float, upper: float) -> str:
    """
    Both ends of an interval, rounded alike.

    >>> between(1831.2, 2455.9)
    '1,831 to 2,456'
    """
    digits = decimals((upper - lower) / 2)
    return f"{number(lower, digits)} to {number(upper, digits)}"


def percent(share: float, half_width: float | None = None) -> str:
    """
    A share as a percentage, rounded as its half-width allows.

    >>> percent(0.1234, 0.021), percent(0.95)
    ('12.3 %', '95 %')
    """
    if half_width is None:
        return f"{rounded(100 * share)} %"
    return f"{number(100 * share, decimals(100 * half_width))} %"


def plural(unit: str, value: float = 2) -> str:
    """
    A unit as it is said after a number. Symbols and free text stay as the plan has them.

    >>> plural("second"), plural("second", 1), plural("entry"), plural("crash"), plural("MB")
    ('seconds', 'second', 'entries', 'crashes', 'MB')
    """
    word = unit.isascii() and unit.isalpha() and unit.islower() and (len(unit) > 3 or unit in ("day", "bit"))
    if abs(value) == 1 or not word or unit.endswith("s"):
        return unit
    if unit.endswith(("sh", "ch", "x")):
        return f"{unit}es"
    if unit.endswith("y") and unit[-2] not in "aeiou":
        return f"{unit[:-1]}ies"
    return f"{unit}s"


def aloud(value: float, half_width: float, unit: str) -> str:
    """
    The same estimate in a larger unit, where people would use one; else nothing.

    >>> aloud(2143.2, 312.4, "second"), aloud(50, 4, "second")
    ('35.7 ± 5.2 minutes', '')
    """
    for size, larger in _LARGER.get(_SHORT.get(unit.lower(), unit.removesuffix("s")), []):
        if abs(value) >= 2 * size:
            return f"{plus_minus(value / size, half_width / size)} {plural(larger)}"
    return ""


def duration(seconds: float) -> str:
    """
    A length of time in its two largest units.

    >>> [duration(seconds) for seconds in (21600, 93784, 59, 0.2)]
    ['6 h', '1 d 2 h', '59 s', '0 s']
    """
    left, parts = int(seconds), []
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,} {name}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def moment(unix_seconds: float, year: bool = True) -> str:
    """
    A time in UTC, to the minute.

    >>> moment(1763683200), moment(1763683200, year=False)
    ('21 Nov 2025, 00:00', '21 Nov, 00:00')
    """
    at = datetime.fromtimestamp(unix_seconds, UTC)
    return f"{at.day} {at:%b %Y, %H:%M}" if year else f"{at.day} {at:%b, %H:%M}"


def span(start: float, end: float) -> str:
    """
    A round's time.

    >>> span(1763683200, 1763704800)
    '21 Nov 2025, 00:00 to 06:00 UTC'
    """
    first, last = datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)
    if first.date() == last.date():
        return f"{first.day} {first:%b %Y, %H:%M} to {last:%H:%M} UTC"
    return f"{first.day} {first:%b %Y, %H:%M} to {last.day} {last:%b, %H:%M} UTC"


def size(count: float) -> str:
    """
    An amount of memory.

    >>> size(73_400_320)
    '73.4 MB'
    """
    for scale, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= scale:
            return f"{count / scale:.1f} {name}"
    return f"{count:.0f} B"


def odds(loss: float) -> str:
    """
    A loss ε as the factor e^ε by which it may shift the odds of a guess, rounded up.

    >>> odds(0.56945), odds(1), odds(20), odds(float("inf"))
    ('1.8', '2.8', '490 million', 'any factor')
    """
    if loss > 700:
        return "any factor"
    factor = math.exp(loss)
    for scale, name in ((1e12, ""), (1e9, " billion"), (1e6, " million")):
        if factor >= scale:
            return f"10^{math.ceil(math.log10(factor))}" if not name else f"{_up(factor / scale)}{name}"
    return _up(factor)


def _up(factor: float) -> str:
    """Two significant digits, rounded up: a promise must not be better than the truth."""
    places = 1 - math.floor(math.log10(factor))
    raised = math.ceil(factor * 10.0**places * (1 - 1e-15)) / 10.0**places
    return number(raised, max(places, 0))


@dataclass(frozen=True, slots=True)
class Certainty:
    """How sure an estimate is: a word, so many dots out of four, and the sentence behind them."""

    word: str
    dots: int
    sentence: str


WITHIN_A_BUCKET = Certainty("good", 3, "within one bucket, as fine as reports tell")
"""For a quantile whose interval is a single bucket, however wide that is."""

_CERTAINTIES = ((0.05, "sharp", 4), (0.15, "good", 3), (0.5, "rough", 2))
"""(largest half-width as a part of the value, word, dots out of four)."""


def certainty(value: float, lower: float, upper: float, half_width: float) -> Certainty:
    """
    The half-width as a part of the value: sharp up to 5 %, good up to 15 %, rough up to 50 %, else faint.

    A value whose interval reaches down to 0 is faint however narrow the interval is, because it may be
    nothing at all.

    >>> certainty(2143, 1831, 2455, 312).word, certainty(2143, 2100, 2186, 43).word
    ('good', 'sharp')
    >>> certainty(10, 0, 40, 30).sentence
    'cannot be told from 0'
    """
    if lower >= upper:
        return Certainty("odd", 0, "no honest fleet explains these reports")
    if lower <= 0 or value <= 0:
        return Certainty("faint", 1, "cannot be told from 0")
    relative = half_width / value
    sentence = f"± {rounded(100 * relative, 2)} % of the figure"
    for most, word, dots in _CERTAINTIES:
        if relative <= most:
            return Certainty(word, dots, sentence)
    return Certainty("faint", 1, sentence)


MOST_NAMED = 3
"""Rows that a sentence about uneven cohorts names; the twin has all of them."""
UNEVEN_MEANS = (
    "Honest devices draw their cohort at random, once, whatever they measure. So somebody may be picking "
    "cohorts to make every lie count, or a client draws its cohort wrongly. "
    "What cannot be seen: reports that lie about their answer but draw their cohort as they should. Those, "
    "and every lie about a mean, leave no trace."
)
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def uneven(metric: Metric, balance: Balance) -> str:
    """
    Which rows of a histogram are spoken of more often than chance gives, and what the odds of that are.

    >>> from reticent.counts import HistogramCounts
    >>> from reticent.estimates import balance
    >>> from reticent.mechanisms import Buckets, DBitFlip
    >>> hours = Metric("hours", DBitFlip(epsilon=1, buckets=Buckets.even(24, 4), width=1), unit="hour")
    >>> print(uneven(hours, balance(hours, HistogramCounts((400, 200, 200, 200), (0, 0, 0, 0)))))
    Reports about 0 to 6 hours (400, where 250 are due) are more than chance gives, at odds of 1 in 10²³.
    """
    far, more = (balance.over, "more") if balance.over else (balance.under, "fewer")
    names = []
    for row in far[:MOST_NAMED]:
        mechanism = metric.mechanism
        if not mechanism.rows_are_buckets:
            name = mechanism.row_name(row.row)
        else:
            name = metric.bucket_labels[row.row]
            if not name:
                low, high = mechanism.points[row.row : row.row + 2]
                name = f"{rounded(float(low), 6)} to {rounded(float(high), 6)} {plural(metric.unit)}".rstrip()
        names.append(f"{name} ({row.reports:,}, where {row.expected:,.0f} are due)")
    if len(far) > MOST_NAMED:
        names.append(f"{len(far) - MOST_NAMED} others")
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"Reports about {listed} are {more} than chance gives, at odds of {chance(balance.p_value)}."


def chance(p_value: float) -> str:
    """
    A small probability as a power of ten, rounded up.

    >>> chance(3e-7), chance(0.0)
    ('1 in 10⁶', '1 in 10³⁰⁰')
    """
    power = min(300, math.floor(-math.log10(p_value))) if p_value else 300
    return f"1 in 10{str(power).translate(_RAISED)}"
