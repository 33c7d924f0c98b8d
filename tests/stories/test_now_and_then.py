"""People who run a program every day, every second day, or twice a month: what share of them uses it on a day?"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stories.town import DAY, START, Town

from reticent import Device

PLAN = """
min_reports = 1
[plan]
name = "tool-usage"
version = 1
round = "1d"
grace = "{grace}"
[metrics.used]
kind = "flag"
epsilon = {epsilon}
"""
EXACT = 16
"""So large an ε that an answer is wrong once in nine million times: the figures are the truth, as counted."""

PEOPLE = 12  # two thirds of them and one third are whole numbers of people
DAYS = 26
FIRST = START // DAY


def uses(device: Device) -> None:
    device.set("used", 1)


def live(town: Town, gap: int, people: int, days: int = DAYS) -> None:
    """Everybody runs the program at noon, every `gap` days, some people today and others tomorrow."""
    for day in range(days):
        for person in range(people):
            if (day + person) % gap == 0:
                town.use(f"person-{person}", START + (day + 0.5) * DAY, uses)


def shown(town: Town) -> dict[int, tuple[int, float, float, float]]:
    """By round: reports, estimate and interval."""
    rows = town.estimates("--metric", "used", "--every", "round", "--last", "100")
    return {
        row["round"]: (row["reports"], row["value"], row["lower"], row["upper"])
        for row in rows
        if row["state"] == "sealed"
    }


@pytest.mark.parametrize(
    ("gap", "grace"), [(1, "7d"), (2, "7d"), (3, "7d"), (5, "7d"), (8, "14d"), (15, "21d")]
)
def test_a_grace_that_covers_the_gap_gives_the_true_share_of_every_day(
    tmp_path: Path, gap: int, grace: str
) -> None:
    """Everybody answers every day of the middle, and one in `gap` says that they used it."""
    town = Town(tmp_path, PLAN.format(grace=grace, epsilon=EXACT))
    days = max(DAYS, 3 * gap + 5)
    live(town, gap, people := 2 * gap, days)
    middle = range(FIRST + 2 * gap, FIRST + days - gap)
    town.seal(middle)
    figures = shown(town)
    assert set(figures) == set(middle)
    for reports, value, lower, upper in figures.values():
        assert reports == people
        assert value == pytest.approx(1 / gap, abs=0.01)
        assert lower <= 1 / gap <= upper


def test_people_who_stay_away_longer_are_left_out_and_not_counted_as_no(tmp_path: Path) -> None:
    """Every eighth day, with a grace of a week: there is no figure, instead of one that says nobody used it."""
    town = Town(tmp_path, PLAN.format(grace="7d", epsilon=EXACT))
    live(town, 8, 16)
    middle = range(FIRST + 16, FIRST + DAYS - 8)
    town.seal(middle)
    assert shown(town) == {}


def test_rare_users_among_daily_ones_do_not_make_the_share_smaller(tmp_path: Path) -> None:
    """A third comes every eighth day only: the figure is about the others, and says how many they are."""
    town = Town(tmp_path, PLAN.format(grace="7d", epsilon=EXACT))
    for day in range(DAYS):
        for person in range(PEOPLE):
            gap = 8 if person % 3 == 0 else 2
            if (day + person // 3) % gap == 0:
                town.use(f"person-{person}", START + (day + 0.5) * DAY, uses)
    middle = range(FIRST + 16, FIRST + DAYS - 8)
    town.seal(middle)
    figures = shown(town)
    assert set(figures) == set(middle)
    for reports, value, _, _ in figures.values():
        assert reports == PEOPLE - PEOPLE // 3
        assert value == pytest.approx(1 / 2, abs=0.01)


@pytest.mark.soak
@pytest.mark.parametrize(("gap", "grace"), [(1, "7d"), (2, "7d"), (3, "7d"), (5, "7d"), (8, "14d")])
def test_with_noise_the_intervals_hold_the_truth(tmp_path: Path, gap: int, grace: str) -> None:
    """
    400 people at ε = 1: misses at 95 % repeat themselves, as answers are remembered, so three quarters may be expected
    to hold with room to spare (a declared false alarm of about one in a hundred per gap).
    """
    town = Town(tmp_path, PLAN.format(grace=grace, epsilon=1))
    live(town, gap, 400)
    middle = range(FIRST + 2 * gap, FIRST + DAYS - gap)
    town.seal(middle)
    held = [lower <= 1 / gap <= upper for _, _, lower, upper in shown(town).values()]
    assert len(held) == len(middle)
    assert sum(held) >= 0.75 * len(held)
