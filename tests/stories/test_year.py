"""
A year and a month of one fleet, from drawn counts: what its team concludes from commands, week by week.

Devices use the program less on weekends, are away over a holiday, take up a new release of the program in summer and a
new version of the plan in autumn; a second plan with sampled answers runs for a quarter; the first one expires.
"""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.shared.misleading import DAY, MONDAY, Fleet

from reticent.plan import Plan
from reticent_collector.cli.root import reticent as command
from reticent_collector.stores import open_store

DEVICES = 12_000
RELEASE = 20 * 7  # the day on which release 2 of the program comes out
ROLLOUT = 14  # days until everybody has it, or the new plan
QUESTION = 30 * 7  # the day on which version 2 of the plan asks about the dark theme
HOLIDAY = range(42 * 7, 44 * 7)  # from 23 December: two of three devices are switched off
SURVEY = range(24 * 7, 37 * 7)  # the quarter of the second plan
END = 56 * 7  # the first plan expires

HEAD = """
min_reports = 20
[plan]
name = "{name}"
version = {version}
round = "1d"
expires = {expires}
"""
MINUTES = '[metrics.minutes]\nkind = "mean"\nunit = "minute"\nmax_value = 100\nepsilon = 2.0\n'
FLAG = '[metrics.{name}]\nkind = "flag"\nepsilon = 2.0\n'
TAGS = '[segments]\nrelease = ["1", "2"]\n'
SAMPLED = '[answers]\nkind = "sampled"\nwindow = "7d"\n'


def date(day: int) -> str:
    """A day of the story."""
    return f"{datetime.fromtimestamp(MONDAY + day * DAY, UTC):%Y-%m-%d}"


def plan(version: int, *metrics: str) -> Plan:
    return Plan.from_toml(
        HEAD.format(name="app", version=version, expires=date(END)) + "".join(metrics) + TAGS
    )


FIRST = plan(1, MINUTES, FLAG.format(name="crashed"))
SECOND = plan(2, MINUTES, FLAG.format(name="crashed"), FLAG.format(name="dark"))
HABITS = Plan.from_toml(
    HEAD.format(name="habits", version=1, expires=date(END)) + SAMPLED + FLAG.format(name="shares")
)
CRASHED = {"1": 0.05, "2": 0.2}
DARK = 0.4
SHARES = 0.3


def minutes_of(day: int) -> float:
    """The true mean of a day: ten minutes more in the end than in the beginning, half of it on weekends."""
    return (40 + 10 * day / (END - 1)) * (0.5 if day % 7 >= 5 else 1.0)


def moved(day: int, since: int) -> float:
    """The share of devices that have what came out on a day."""
    return min(1.0, max(0.0, (day - since + 1) / ROLLOUT))


def live(fleet: Fleet) -> None:
    """The days of the first plan, one sealed round each of every version that devices hold."""
    place = fleet.random.permutation(DEVICES) / DEVICES
    order = fleet.random.permutation(DEVICES) / DEVICES
    habit = fleet.random.uniform(0.5, 1.5, DEVICES)  # of a device, around the mean
    habit /= habit.mean()
    for day in range(END):
        on = order < 1 / 3 if day in HOLIDAY else np.full(DEVICES, True)
        newer = place < moved(day, RELEASE)
        asked = order[::-1] < moved(day, QUESTION)
        for version, who in ((FIRST, ~asked), (SECOND, asked)):
            if who.any():
                values = {"minutes": minutes_of(day) * habit, "dark": DARK}
                fleet.answers(
                    version,
                    day,
                    {
                        tag: (values | {"crashed": CRASHED[tag]}, who & on & has)
                        for tag, has in (("1", ~newer), ("2", newer))
                        if (who & on & has).any()
                    },
                )


def survey(fleet: Fleet) -> None:
    """Each device answers on one day of each week, with fresh bits."""
    for day in SURVEY:
        if day % 7 == 0:
            fleet.draws = {"shares": fleet.random.random(DEVICES)}
            its_day = fleet.random.integers(0, 7, DEVICES)
        fleet.answer(HABITS, day, {"shares": SHARES}, its_day == day % 7)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The store of the team."""
    address = f"sqlite:///{tmp_path_factory.mktemp('year') / 'reticent.db'}"
    with closing(open_store(address)) as store:
        live(Fleet(store, [FIRST, SECOND], DEVICES))
        survey(Fleet(store, [HABITS], DEVICES, seed=2))
    return address


def cli(*arguments: str) -> Any:
    done = CliRunner().invoke(command, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def weeks(url: str, metric: str, *arguments: str) -> dict[int, dict[str, Any]]:
    """Figures by the number of their week; intervals at 99.9 %, so that a false alarm of a test is rare."""
    asked = ["--plan", "app", "--metric", metric, "--every", "week", "--last", "100", "--confidence", "0.999"]
    rows = cli("estimate", "--store", url, *asked, *arguments)["estimates"]
    return {
        round((datetime.fromisoformat(row["start_time"]).timestamp() - MONDAY) / DAY / 7): row for row in rows
    }


def test_each_week_of_the_year_has_one_figure_and_it_holds_the_truth(url: str) -> None:
    """Through a release, two versions of the plan and a holiday: one row a week, of the whole fleet."""
    figures = weeks(url, "minutes")
    assert sorted(figures) == [*range(END // 7)]
    for week, row in figures.items():
        true = np.mean([minutes_of(day) for day in range(7 * week, 7 * week + 7)])
        assert row["lower"] <= true <= row["upper"], (week, true)
        expected = [1] if week < 30 else [1, 2] if week < 32 else [2]
        assert row["versions"] == expected


def test_a_holiday_is_fewer_reports_and_no_change_in_what_people_do(url: str) -> None:
    figures = weeks(url, "minutes")
    before, away = figures[41]["reports"], figures[42]["reports"]
    assert away == pytest.approx(before / 3, rel=0.05)
    in_holiday = ["--metric", "minutes", "--since", date(42 * 7), "--until", date(46 * 7)]
    for against, days in (("before", 7), ("4-weeks", 28)):
        asked = ["--plan", "app", "--every", "week", *in_holiday, "--against", against]
        rows = cli("compare", "--store", url, *asked)["differences"]
        assert [row["before"]["start_time"][:10] for row in rows] == [
            date(7 * week - days) for week in (45, 44, 43, 42)
        ]
        assert not any(row["clear"] for row in rows)


def test_the_new_release_crashes_more_and_its_users_are_the_same(url: str) -> None:
    rollout = ["--since", date(RELEASE - 7), "--until", date(RELEASE + ROLLOUT + 7)]
    asked = ["--plan", "app", "--by", "release", "--baseline", "1", "--every", "week", *rollout]
    differences = cli("compare", "--store", url, *asked, "--confidence", "0.999")["differences"]
    crashed = [row for row in differences if row["metric"] == "crashed"]
    assert len(crashed) == 2, "the two weeks in which there are devices of both"
    for row in differences:
        assert row["segment"] == {"release": "2"}
        true = CRASHED["2"] - CRASHED["1"] if row["metric"] == "crashed" else 0.0
        assert row["lower"] <= true <= row["upper"]
    assert any(row["clear"] for row in crashed)
    assert not any(row["clear"] for row in differences if row["metric"] != "crashed")


def test_a_new_question_has_figures_from_its_first_week_on_and_leaves_the_others_alone(url: str) -> None:
    figures = weeks(url, "dark")
    assert sorted(figures) == [*range(QUESTION // 7, END // 7)]
    assert all(row["lower"] <= DARK <= row["upper"] for row in figures.values())
    around = ["--since", date(QUESTION - 7), "--until", date(QUESTION + 28), "--every", "week"]
    changes = cli("compare", "--store", url, "--plan", "app", *around)["differences"]
    assert {row["metric"] for row in changes} == {"minutes", "crashed", "dark"}
    assert not any(row["clear"] for row in changes), "nobody takes the new plan for a new habit"


def test_a_slow_rise_shows_as_a_trend_and_an_old_step_against_the_year_before(url: str) -> None:
    """A trend looks 32 weeks back, and release 2 is older than that."""
    answer = cli("compare", "--store", url, "--plan", "app", "--every", "week", "--last", "56")
    directions = {row["metric"]: row["direction"] for row in answer["trends"]}
    assert directions == {"minutes": "rises", "crashed": None, "dark": None}
    year = ["--plan", "app", "--every", "week", "--last", "1", "--against", "year", "--confidence", "0.999"]
    rows = {row["metric"]: row for row in cli("compare", "--store", url, *year)["differences"]}
    days = range(END - 7, END)
    true = {
        "minutes": np.mean([minutes_of(day) - minutes_of(day - 52 * 7) for day in days]),
        "crashed": CRASHED["2"] - CRASHED["1"],
    }
    assert set(rows) == set(true), "dark was not asked a year before"
    for metric, row in rows.items():
        assert row["before"]["start_time"].startswith(date(END - 7 - 52 * 7)), "the same week of the year"
        assert row["lower"] <= true[metric] <= row["upper"]
        assert row["clear"]


def test_the_sampled_survey_has_a_figure_for_each_window_of_its_quarter(url: str) -> None:
    asked = ["--plan", "habits", "--last", "100", "--confidence", "0.999"]
    windows = cli("estimate", "--store", url, "--every", "window", *asked)["estimates"]
    months = cli("estimate", "--store", url, "--every", "month", *asked)["estimates"]
    assert (len(windows), len(months)) == (len(SURVEY) // 7, 4)
    assert all(row["lower"] <= SHARES <= row["upper"] for row in windows + months)
    for row in windows:
        assert row["reports"] == pytest.approx(0.9 * DEVICES, rel=0.05), "each device once a window"


def test_after_the_plan_has_expired_figures_end_and_do_not_fall(url: str) -> None:
    last = cli(
        "estimate", "--store", url, "--plan", "app", "--metric", "minutes", "--every", "week", "--last", "1"
    )
    (row,) = last["estimates"]
    assert row["start_time"].startswith(date(END - 7))
    assert row["lower"] > 30
    text = CliRunner().invoke(command, ["estimate", "--store", url, "--since", date(END), "--plan", "app"])
    assert text.output.startswith("No estimates")


def test_the_old_half_is_copied_away_and_pruned_and_every_figure_stays_what_it_was(
    url: str, tmp_path: Path
) -> None:
    """At the end, as it changes the store of the team."""
    before = weeks(url, "minutes")
    archive = f"sqlite:///{tmp_path / 'archive.db'}"
    copied = CliRunner().invoke(command, ["store", "copy", url, archive, "--quiet"])
    assert copied.exit_code == 0, copied.output
    everything = ["rounds", "--last", "1000", "--store"]
    assert cli(*everything, archive)["rounds"] == cli(*everything, url)["rounds"]
    removed = ["store", "prune", "--store", url, "--before", date(28 * 7)]
    CliRunner().invoke(command, removed)
    assert weeks(url, "minutes") == before, "without --yes nothing goes"
    done = CliRunner().invoke(command, [*removed, "--yes"])
    assert done.exit_code == 0, done.output
    assert weeks(archive, "minutes") == before
    assert weeks(url, "minutes") == {week: row for week, row in before.items() if week >= 28}
