"""Numbers, times and certainty as text: rounded to what is known, in common units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup, escape

from reticent.plan import Metric
from reticent_collector.estimates.cohort_balance import Balance
from reticent_collector.figures import number, places, plural

__all__ = ["number", "places", "plural"]  # re-exported


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
    text = number(value, max(0, digits - 1 - math.floor(math.log10(abs(value)))))
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float, half_width: float | None = None) -> str:
    """
    A share as a percentage, rounded as its half-width allows.

    >>> percent(0.1234, 0.021), percent(0.95)
    ('12.3 %', '95 %')
    """
    if half_width is None:
        return f"{rounded(100 * share)} %"
    return f"{number(100 * share, places(100 * half_width))} %"


def duration(seconds: float) -> str:
    """
    A length of time in its two largest units.

    >>> [duration(seconds) for seconds in (21600, 93784, 59, 0.2)]
    ['6 h', '1 d 2 h', '59 s', '0 s']
    """
    left = int(seconds)
    parts = []
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,} {name}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def moment(unix_seconds: float) -> str:
    """
    A time in UTC; seconds only where there are any.

    >>> moment(1763683200), moment(1763683210)
    ('21 Nov 2025, 00:00', '21 Nov 2025, 00:00:10')
    """
    at = datetime.fromtimestamp(unix_seconds, UTC)
    return f"{at.day} {at:%b %Y}, {_time_of_day(at)}"


def date(unix_seconds: float) -> str:
    """
    A date in UTC.

    >>> date(1763683200)
    '21 Nov 2025'
    """
    at = datetime.fromtimestamp(unix_seconds, UTC)
    return f"{at.day} {at:%b %Y}"


def _time_of_day(at: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def span(start: float, end: float) -> str:
    """
    A round's time.

    >>> span(1763683200, 1763704800), span(1763683200, 1763683210)
    ('21 Nov 2025, 00:00 to 06:00 UTC', '21 Nov 2025, 00:00 to 00:00:10 UTC')
    """
    first, last = datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)
    date = "" if first.date() == last.date() else f"{last.day} {last:%b}, "
    return f"{moment(start)} to {date}{_time_of_day(last)} UTC"


def dates(start: int, end: int) -> str:
    """
    From when to when, by its first and last date where it begins and ends at midnight.

    >>> dates(1763337600, 1763942400), dates(1763683200, 1763704800)
    ('17 to 23 Nov 2025', '21 Nov 2025, 00:00 to 06:00 UTC')
    """
    return period(start, end, "round" if start % 86_400 or end % 86_400 else "week")


def period(start: int, end: int, every: str) -> str:
    """
    The name of a period: its date or dates, and the time of day only where it has one.

    >>> [period(1763683200, 1763683200 + seconds, every) for seconds, every in ((86_400, "day"), (21_600, "round"))]
    ['Fri 21 Nov 2025', '21 Nov 2025, 00:00 to 06:00 UTC']
    >>> period(1763337600, 1763942400, "week"), period(1761955200, 1764547200, "month")
    ('17 to 23 Nov 2025', 'November 2025')
    """
    first = datetime.fromtimestamp(start, UTC)
    last = datetime.fromtimestamp(end - 1, UTC)
    if every == "day":
        return f"{first:%a} {first.day} {first:%b %Y}"
    if every == "week":
        month = "" if first.month == last.month else f" {first:%b}"
        return f"{first.day}{month} to {last.day} {last:%b %Y}"
    return f"{first:%B %Y}" if every == "month" else span(start, end)


def clock(start: int, end: int, every: str) -> Markup:
    """The same for a page: a script shows times of day in the reader's time zone. Dates stay in UTC."""
    text = period(start, end, every)
    if every in ("day", "week", "month"):
        return escape(text)
    first, last = (f"{address(at, every)}Z" for at in (start, end))
    return Markup('<time datetime="{}" data-end="{}">{}</time>').format(first, last, text)


def address(start: int, every: str) -> str:
    """
    How a link names a period: by its start.

    >>> address(1763683200, "day"), address(1763704800, "round")
    ('2025-11-21', '2025-11-21T06:00')
    """
    at = datetime.fromtimestamp(start, UTC)
    return f"{at:%Y-%m-%d}" if every in ("day", "week", "month") else f"{at:%Y-%m-%d}T{_time_of_day(at)}"


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
    digits = 1 - math.floor(math.log10(factor))
    raised = math.ceil(factor * 10.0**digits * (1 - 1e-15)) / 10.0**digits
    return number(raised, max(digits, 0))


@dataclass(frozen=True, slots=True)
class Certainty:
    """How precise an estimate is: a word, so many dots out of four, and an explanation."""

    word: str
    dots: int
    sentence: str


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
    'not distinguishable from 0'
    """
    if lower >= upper:
        return Certainty("odd", 0, "no honest devices explain these reports")
    if lower <= 0 or value <= 0:
        return Certainty("faint", 1, "not distinguishable from 0")
    relative = half_width / value
    sentence = f"± {rounded(100 * relative, 2)} % of the figure"
    for most, word, dots in _CERTAINTIES:
        if relative <= most:
            return Certainty(word, dots, sentence)
    return Certainty("faint", 1, sentence)


def certainty_of_median(buckets: int, of: int) -> Certainty:
    """
    The precision of a median whose interval spans so many buckets; one bucket is the finest there is.

    >>> certainty_of_median(1, 12).word, certainty_of_median(2, 12).word, certainty_of_median(7, 12).word
    ('good', 'rough', 'faint')
    """
    if buckets == 1:
        return Certainty("good", 3, "within one bucket, the finest possible")
    word, dots = ("faint", 1) if 2 * buckets > of else ("rough", 2)
    return Certainty(word, dots, f"within {buckets} of {of} buckets")


MOST_NAMED = 3  # rows that a sentence names; /v1/estimates has all of them
UNEVEN_MEANS = (
    "Honest devices draw their cohort at random, once, whatever they measure. So a client may choose cohorts to "
    "give its false answers more weight, or draw them wrongly. Not detectable: false answers in cohorts that are "
    "drawn correctly. Those, and every false answer about a mean, leave no trace."
)
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def uneven(metric: Metric, balance: Balance) -> str:
    """
    The rows of a histogram with more reports than chance explains, and the odds of that.

    >>> from reticent_collector.counts import HistogramCounts
    >>> from reticent_collector.estimates.cohort_balance import balance
    >>> from reticent.mechanisms import Buckets, DBitFlip
    >>> hours = Metric("hours", DBitFlip(epsilon=1, buckets=Buckets.even(24, 4), width=1), unit="hour")
    >>> print(uneven(hours, balance(hours, HistogramCounts((400, 200, 200, 200), (0, 0, 0, 0)))))
    Reports about 0 to 6 hours (400, 250 expected) are more than chance explains, at odds of 1 in 10²³.
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
        names.append(f"{name} ({row.reports:,}, {row.expected:,.0f} expected)")
    if len(far) > MOST_NAMED:
        names.append(f"{len(far) - MOST_NAMED} others")
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"Reports about {listed} are {more} than chance explains, at odds of {chance(balance.p_value)}."


def chance(p_value: float) -> str:
    """
    A small probability as a power of ten, rounded up.

    >>> chance(3e-7), chance(0.0)
    ('1 in 10⁶', '1 in 10³⁰⁰')
    """
    power = min(300, math.floor(-math.log10(p_value))) if p_value else 300
    return f"1 in 10{str(power).translate(_RAISED)}"
