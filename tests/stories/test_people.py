"""What single people do with their devices over weeks, and what their team concludes from the fleet."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.shared.postgres import PostgresServer
from tests.stories.town import DAY, START, Town

from reticent import Device
from reticent_collector.cli.root import reticent as command

PLAN = """
min_reports = 1
[plan]
name = "tool-usage"
version = 1
round = "1d"
grace = "7d"
{more}
[metrics.used]
kind = "flag"
epsilon = 16
"""
"""At so large an ε an answer is wrong once in nine million times: the figures are the truth, as counted."""
FIRST = START // DAY
LIVED = 16


def uses(device: Device) -> None:
    device.set("used", 1)


def looks(device: Device) -> None:
    """The program runs, and what is asked about is not done."""


def noon(day: int) -> float:
    return START + (day + 0.5) * DAY


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path, PLAN.format(more=""))


def figures(town: Town) -> dict[int, tuple[int, float]]:
    """By day: reports, and the share of users, which is exact here."""
    rows = town.estimates("--metric", "used", "--every", "round", "--last", "100")
    return {
        row["round"] - FIRST: (row["reports"], round(row["value"], 3))
        for row in rows
        if row["state"] == "sealed"
    }


def test_a_person_says_no_then_yes_pauses_and_asks_for_the_receipt(town: Town) -> None:
    choices = {0: "denied", 3: "granted"}
    for day in range(LIVED):
        with_consent = "unset"  # the program's own default: it asks
        town.clock.now = noon(day)
        with town.open("person", with_consent) as device:
            if day in choices:
                assert device.set_consent(choices[day])
            if day == 7:
                assert device.pause()
            if day == 10:
                assert device.resume()
            uses(device)
            device.flush(timeout=30.0)
    with town.open("person", "unset") as device:
        receipt = device.receipt()
    answered = [report.round - FIRST for report in receipt.reports]
    # From the day after the yes to the day before the pause, and from the day after its end.
    assert answered == [4, 5, 6, 11, 12, 13, 14]
    town.seal(range(FIRST, FIRST + LIVED))
    assert figures(town) == dict.fromkeys(answered, (1, 1.0)), (
        "the team has what the receipt says, and no more"
    )


def test_a_laptop_that_sleeps_for_days_says_that_nothing_was_done_on_them(town: Town) -> None:
    """The program stays open; the machine sleeps from Friday to Monday, and answers for the days between."""
    town.clock.now = noon(0)
    with town.open("laptop") as device:
        for day in (0, 1, 2, 6, 7, 8, 12, 13):
            town.clock.now = noon(day)
            uses(device)
            device.flush(timeout=30.0)
    town.seal(range(FIRST, FIRST + 13))
    used = figures(town)
    assert used == {day: (1, 1.0 if day in (1, 2, 6, 7, 8, 12) else 0.0) for day in range(1, 13)}


def test_a_holiday_longer_than_the_grace_is_left_out(town: Town) -> None:
    """Four people use it daily, and two are away for ten days: they have not stopped using it."""
    for day in range(26):
        for person in range(4):
            if person < 2 or not 8 <= day < 18:
                town.use(f"person-{person}", noon(day), uses)
    town.seal(range(FIRST, FIRST + 25))
    used = figures(town)
    assert {used[day] for day in range(1, 7)} == {(4, 1.0)}
    assert {used[day] for day in range(8, 18)} == {(2, 1.0)}
    assert {used[day] for day in range(19, 25)} == {(4, 1.0)}


def test_a_machine_that_is_cloned_counts_as_one(town: Town) -> None:
    """The copy has the same secret, so the same report ids: of two bodies under one id the smaller counts."""
    town.use("original", noon(0), looks)
    for file in [*town.folder.glob("original*")]:
        shutil.copy(file, town.folder / file.name.replace("original", "clone"))
    for day in range(1, 6):
        town.use("original", noon(day), uses)
        town.use("clone", noon(day) + 3600, looks)
        town.use("other", noon(day), looks)
    town.seal(range(FIRST, FIRST + 5))
    assert figures(town) == {1: (1, 0.0)} | dict.fromkeys(range(2, 5), (2, 0.0))


def test_devices_stop_when_their_plan_expires(tmp_path: Path) -> None:
    """Day 0 is 4 October 2024."""
    town = Town(tmp_path, PLAN.format(more="expires = 2024-10-09"))
    for day in range(10):
        town.use("person", noon(day), uses)
    town.seal(range(FIRST, FIRST + 10))
    assert figures(town) == dict.fromkeys((1, 2, 3), (1, 1.0)), "the fourth is over when devices have stopped"
    with town.open("person") as device:
        status = device.status()
        assert not status.active
        assert "expired" in str(status)


def test_a_collector_that_moves_to_postgresql_shows_the_same_figures(
    town: Town, postgres: PostgresServer
) -> None:
    for day in range(6):
        for person in range(3):
            town.use(f"person-{person}", noon(day), uses if person < day % 3 else looks)
    town.seal(range(FIRST, FIRST + 5))
    before = figures(town)
    moved = postgres.new_store()
    done = CliRunner().invoke(command, ["store", "copy", town.url, moved])
    assert done.exit_code == 0, done.output
    town.url = moved
    assert figures(town) == before
    assert before == {day: (3, round(min(day % 3, 3) / 3, 3)) for day in range(1, 5)}
