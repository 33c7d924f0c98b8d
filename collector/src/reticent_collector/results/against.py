"""
What a period is compared with: the period before, the same one a week, four weeks or a year before, or a date.

A year is 52 weeks, so that the same days of the week are compared; twelve months for a month.
"""

from __future__ import annotations

from datetime import UTC, datetime

from reticent.errors import ParameterError
from reticent.plan import Plan
from reticent.times import first_round_from
from reticent_collector.results.periods import SHORTEST, Every, Period, Span, span_of, unix_seconds

WEEK = 7 * 86_400
SECONDS_BEFORE = {"week": WEEK, "4-weeks": 4 * WEEK, "year": 52 * WEEK}
AGAINST = ("before", *SECONDS_BEFORE)
_WORDS = {
    "before": "the period before",
    "week": "a week before",
    "4-weeks": "four weeks before",
    "year": "a year before",
}


def check_against(against: str) -> str:
    """What is asked for, if it is one of `AGAINST` or a date; else `ParameterError`."""
    if against not in AGAINST:
        try:
            unix_seconds("against", against)
        except ParameterError as error:
            raise ParameterError("against", f"{', '.join(AGAINST)}, or a date", error.got) from None
    return against


def against_words(against: str) -> str:
    """
    What is compared with, in words.

    >>> against_words("4-weeks"), against_words("2026-08-17")
    ('four weeks before', '2026-08-17')
    """
    return _WORDS.get(against, against)


def against_choices(plan: Plan, every: Every) -> list[str]:
    """
    Those of `AGAINST` that there are for periods of a kind, each another period.

    >>> plan = Plan.load("examples/plan.toml")
    >>> against_choices(plan, "day"), against_choices(plan, "week"), against_choices(plan, "month")
    (['before', 'week', '4-weeks', 'year'], ['before', '4-weeks', 'year'], ['before', 'year'])
    """
    if every == "month":
        return ["before", "year"]
    length = length_of(plan, every)
    fits = (name for name, seconds in SECONDS_BEFORE.items() if seconds > length and not seconds % length)
    return ["before", *fits]


def usual_against(plan: Plan, every: Every) -> str:
    """What is compared where nobody chooses: four weeks before, which holds the same days of the week."""
    return "4-weeks" if "4-weeks" in against_choices(plan, every) else "before"


def length_of(plan: Plan, every: Every) -> int:
    """The seconds of a period of a kind; of a month, at least."""
    if every == "round":
        return plan.round_seconds
    return plan.round_seconds * plan.answers.window if every == "window" else SHORTEST[every]


def earlier_span(period: Period, against: str) -> Span:
    """The rounds that a period is compared with; `ParameterError` where its kind has no such period."""
    plan, every = period.plan, period.every
    if against == "before":
        return span_of(plan, period.first - 1, every)
    if against not in SECONDS_BEFORE:
        return span_of(plan, plan.round_at(unix_seconds("against", check_against(against))), every)
    choices = against_choices(plan, every)
    # A week before a week is the period before it, under another name.
    if against not in choices and SECONDS_BEFORE[against] != length_of(plan, every):
        raise ParameterError("against", f"{', '.join(choices)}, or a date", against)
    if every == "month":
        return span_of(plan, months_before(plan, period, 12), every)
    # A period begins at midnight, and its first round then or later.
    return span_of(plan, first_round_from(period.start - SECONDS_BEFORE[against], plan.round_seconds), every)


def months_before(plan: Plan, period: Period, months: int) -> int:
    """A round of the month that is so many before one."""
    begins = datetime.fromtimestamp(period.start, UTC)
    month = begins.year * 12 + begins.month - 1 - months
    middle = begins.replace(year=month // 12, month=month % 12 + 1, day=15)
    return plan.round_at(int(middle.timestamp()))
