"""The limit of a year: which windows of sampled answers a device holds, in lives of many versions of a plan."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from reticent.device.ledger import has_room
from reticent.device.policy import DAY, YEAR
from reticent.device.state import HeldWindow

WEEK = 7 * DAY


def lives(has_room: Any, limit: float, source: Random) -> list[HeldWindow]:
    """The windows that are held where versions with other windows and losses follow each other."""
    held: list[HeldWindow] = []
    start, state = 0, SimpleNamespace(lost_at=None, lost_year=None)
    for _ in range(12):
        days, loss = source.choice([(7, 1.0), (7, 2.0), (28, 3.0), (73, 3.0), (91, 2.0)])
        for _ in range(source.randrange(1, 40)):
            if start > 5 * YEAR:
                return held
            if has_room(state, held, start, loss, limit):
                held.append(HeldWindow(start, start + days * DAY, loss, None))
            start += days * DAY
        start += source.randrange(20) * DAY
    return held


def worst_year(held: list[HeldWindow]) -> float:
    """The most that windows lose together which touch the same 365 days: those begin best just before one ends."""
    return max(
        sum(other.loss for other in held if other.end >= one.end and other.start < one.end - 1 + YEAR)
        for one in held
    )


def test_windows_that_touch_any_365_days_lose_no_more_than_the_limit_of_a_year() -> None:
    """Random lives; that windows count by their start, or until the new one's end, is refused."""

    def by_start(state: Any, held: list[HeldWindow], start: int, loss: float, limit: float) -> bool:
        return loss + sum(one.loss for one in held if one.start > start - YEAR) <= limit

    def until_a_week_later(state: Any, held: list[HeldWindow], start: int, loss: float, limit: float) -> bool:
        return loss + sum(one.loss for one in held if one.end > start + WEEK - YEAR) <= limit

    for rule, holds in ((has_room, True), (by_start, False), (until_a_week_later, False)):
        years = [worst_year(lives(rule, limit, Random(seed))) for seed in range(30) for limit in (12.0,)]
        assert all(year <= 12 for year in years) == holds, rule
        assert max(years) > 11, "the limit is used"


@pytest.mark.parametrize("days", [7, 28, 30, 73, 365])
def test_a_plan_that_the_limit_of_a_year_allows_answers_every_window(days: int) -> None:
    touched = -(-(YEAR - 1) // (days * DAY)) + 1
    state: Any = SimpleNamespace(lost_at=None, lost_year=None)
    held: list[HeldWindow] = []
    for number in range(2 * touched):
        start = number * days * DAY
        assert has_room(state, held, start, 1.0, touched), number
        held.append(HeldWindow(start, start + days * DAY, 1.0, None))
    assert worst_year(held) == touched
