"""
Periods: a round, a window of sampled answers, or a day, week or month of the calendar in UTC.

Weeks begin on Monday. Periods are made of whole rounds: a round belongs to the period in which it starts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, get_args

from reticent.errors import ParameterError
from reticent.plan import Metric, Plan
from reticent.times import FIRST_MONDAY, first_round_from, start_of
from reticent_collector import columns
from reticent_collector.estimates.versions import question
from reticent_collector.stores import DeletedMetric, RoundInfo

Every = Literal["round", "window", "day", "week", "month"]
PeriodState = Literal["open", "sealed", "damaged"]
EVERY: tuple[Every, ...] = get_args(Every)
SHORTEST: dict[Every, int] = {"day": 86_400, "week": 7 * 86_400, "month": 28 * 86_400}  # seconds, at least
MOST_ROUNDS_OF_A_DAY = 1440  # a plan with more, for trying things out, is shown by round by default


class Span(NamedTuple):
    """The rounds of a period, by number, and its times in unix seconds."""

    every: Every
    first: int
    last: int
    start: int
    end: int


def metrics_kept(version: Plan, deleted: Collection[DeletedMetric]) -> list[Metric]:
    """The metrics of a version of a plan, but for those that were deleted."""
    return [
        metric
        for metric in version.metrics
        if DeletedMetric(version.name, version.version, metric.name) not in deleted
    ]


@dataclass(frozen=True, slots=True)
class Period:
    """The rounds of a plan that begin between two times, over its versions with the same rounds and windows."""

    plan: Plan  #: the newest of its versions
    every: Every
    first: int  #: the number of its first round, whether that has reports or not
    last: int
    start: int  #: when it begins, in unix seconds; a day, week or month at midnight UTC
    end: int
    state: PeriodState
    rounds: tuple[RoundInfo, ...]
    """Those with reports, latest first, each with as many as are shown; one for each version in a round."""
    versions: tuple[Plan, ...] = ()  #: those with reports in it, newest first
    deleted: frozenset[DeletedMetric] = frozenset()  #: metrics that no figure is made of any more

    def __post_init__(self) -> None:
        if not self.versions:
            object.__setattr__(self, "versions", (self.plan,))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What was asked, as the newest version has it; a metric whose parameters changed is there for each."""
        asked: dict[object, Metric] = {}
        for version in self.versions:
            for metric in metrics_kept(version, self.deleted):
                asked.setdefault(question(metric), metric)
        return tuple(asked.values())

    def versions_of(self, metric: Metric) -> tuple[Plan, ...]:
        """The versions whose counts of a metric add up."""
        asked = question(metric)
        return tuple(
            version
            for version in self.versions
            if any(question(own) == asked for own in metrics_kept(version, self.deleted))
        )

    @property
    def reports(self) -> int:
        """Reports of all its rounds, as far as they are shown."""
        return sum(info.reports for info in self.rounds)

    @property
    def possible_rounds(self) -> int:
        """How many rounds the period has, with and without reports."""
        return self.last - self.first + 1


def usual_every(plan: Plan) -> Every:
    """
    The default period: a week, which holds the same days as the one before it.

    A window or round of more than a day is shown by itself, and so are rounds of less than a minute.
    """
    return _usual(plan, "week")


def daily_every(plan: Plan) -> Every:
    """The period for programs that watch a collector: a day, or what is shown by itself."""
    return _usual(plan, "day")


def _usual(plan: Plan, every: Every) -> Every:
    if plan.answers.sampled and plan.answers.window * plan.round_seconds > SHORTEST["day"]:
        return "window"
    fits = SHORTEST["day"] // MOST_ROUNDS_OF_A_DAY <= plan.round_seconds <= SHORTEST["day"]
    return every if fits else "round"


def answered_every(plan: Plan) -> Every:
    """The period in which a device sends one report."""
    return "window" if plan.answers.sampled else "round"


def everies(plan: Plan) -> list[Every]:
    """The periods that figures of a plan can have."""
    return [
        every
        for every in EVERY
        if plan.round_seconds <= SHORTEST.get(every, plan.round_seconds)
        and (every != "window" or plan.answers.sampled)
    ]


def check_every(versions: Sequence[Plan], asked: str) -> Every:
    """What is asked for, if any version of a plan has such periods; else `ParameterError` about the first one."""
    for every in (every for plan in versions for every in everies(plan)):
        if every == asked:
            return every
    raise ParameterError("every", f"one of {', '.join(everies(versions[0]))}", asked[:20])


def span_of(plan: Plan, number: int, every: Every) -> Span:
    """
    The period that a round is in. A round for which there is no such period is one of its own.

    >>> from reticent.plan import Plan
    >>> plan = Plan.load("examples/plan.toml")
    >>> for every in EVERY[2:]:
    ...     span = span_of(plan, 82_800, every)
    ...     print(every, datetime.fromtimestamp(span.start, UTC).date(), span.last - span.first + 1, "rounds")
    day 2026-09-04 4 rounds
    week 2026-08-31 28 rounds
    month 2026-09-01 120 rounds
    """
    seconds = plan.round_seconds
    begins = start_of(number, seconds)
    alone = Span("round", number, number, begins, begins + seconds)
    if every == "round":
        return alone
    if every == "window":
        window = plan.answers.window_of(number, seconds)
        if window is None:
            return alone
        last = window.first + window.rounds - 1
        return Span(every, window.first, last, window.start, start_of(last + 1, seconds))
    length = SHORTEST[every]
    if seconds > length:
        return alone
    if every == "month":
        first_day = datetime.fromtimestamp(begins, UTC).replace(day=1, hour=0, minute=0, second=0)
        next_month = (first_day + timedelta(days=31)).replace(day=1)
        start, end = int(first_day.timestamp()), int(next_month.timestamp())
    else:
        origin = FIRST_MONDAY if every == "week" else 0
        start = begins - (begins - origin) % length
        end = start + length
    return Span(every, first_round_from(start, seconds), first_round_from(end, seconds) - 1, start, end)


def unix_seconds(name: str, text: str) -> int:
    """
    The time of a text: a date, a time in ISO 8601, or unix seconds. Without an offset it is UTC.

    >>> [unix_seconds("since", text) for text in ("2026-11-01", "2026-11-01T02:00+02:00", "1793491200")]
    [1793491200, 1793491200, 1793491200]
    """
    try:
        if text.isascii() and text.isdigit() and len(text) <= 11:
            return int(text)
        seconds = columns.seconds_of(text if text.isascii() and len(text) <= 40 else "")
        datetime.fromtimestamp(seconds, UTC)  # an offset may lead out of the years that there are
        return seconds
    except (ValueError, OverflowError):
        expected = "a date such as 2026-11-01, a time such as 2026-11-01T06:00Z, or unix seconds"
        raise ParameterError(name, expected, text[:40]) from None
