"""Days, weeks and months made of rounds: which rounds are in them, what is averaged, and how they changed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from reticent.errors import ParameterError
from reticent.mechanisms import OneBitMean
from reticent.plan import Metric, Plan
from reticent.reports import Report
from reticent_collector.cli.root import reticent as command
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import Estimate, HistogramEstimate, average, difference, estimate
from reticent_collector.results import (
    Difference,
    Result,
    Results,
    Selection,
    is_clear,
    one_answer,
    problems,
    span_of,
    unix_seconds,
    usual_every,
    write_results,
)
from reticent_collector.stores import Layout, RoundKey, Store, open_store

PLAN = """
min_reports = 20
[plan]
name = "app"
version = 1
round = "6h"
grace = "6h"

[metrics.used]
kind = "mean"
unit = "second"
max_value = 100
epsilon = 2.0
flip = 0.1

[metrics.theme]
kind = "choice"
labels = ["dark", "light"]
mechanism = "hadamard-bit"
epsilon = 2.0

[segments]
os = ["linux", "macos"]
"""
FLAG = '[metrics.crashed]\nkind = "flag"\nepsilon = 1.0\n[segments]'
DAY = 86_400
MONDAY = unix_seconds("", "2026-11-02")
"""A Monday, and the first whole week of its month."""


def plan_with(*changes: tuple[str, str]) -> Plan:
    text = PLAN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return Plan.from_toml(text)


def sampled(window: str) -> tuple[tuple[str, str], ...]:
    answers = f'[answers]\nkind = "sampled"\nwindow = "{window}"\n[segments]'
    return ("[segments]", answers), ("flip = 0.1\n", "")


class World:
    """A store that is filled by hand: so many reports of a round, of which so many answer 1 about `used`."""

    def __init__(self, store: Store, plan: Plan) -> None:
        self.store, self.plan, self.now = store, plan, MONDAY + 100.0 * DAY
        self.results = Results(store, lambda: self.now)
        self.ids = 0
        store.register(plan)

    def answer(
        self, at: int, reports: int, ones: int, seal: bool = True, os: str = "linux", plan: Plan | None = None
    ) -> int:
        plan = plan or self.plan
        number = plan.round_at(at)
        key, layout = RoundKey(plan.name, plan.version, number), Layout(plan)
        made = []
        first, self.ids = self.ids, self.ids + reports
        for place in range(reports):
            bits = bytes([(int(place < ones) << 1 | int(place % 2)) << 6])
            identity = (first + place).to_bytes(16, "big")
            made.append(Report(plan.name, plan.version, number, identity, bits, place % 256, {"os": os}))
        self.store.append({key: b"".join(map(layout.pack, made))})
        if seal:
            self.store.seal(key)
        return number

    def figures(self, metric: str = "used", every: str = "day", **asked: Any) -> list[Result]:
        return self.results.estimates(Selection("app", metric, every=every, **asked))


@pytest.fixture
def world() -> Iterator[World]:
    store = open_store("memory:")
    yield World(store, Plan.from_toml(PLAN))
    store.close()


def date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


@pytest.mark.parametrize(
    ("every", "at", "start", "end"),
    [
        ("day", "2026-11-04T23:59", "2026-11-04", "2026-11-05"),
        ("week", "2026-11-08T23:00", "2026-11-02", "2026-11-09"),
        ("week", "2026-11-09T00:00", "2026-11-09", "2026-11-16"),
        ("month", "2026-12-31T20:00", "2026-12-01", "2027-01-01"),
        ("month", "2024-02-29T00:00", "2024-02-01", "2024-03-01"),
    ],
)
@pytest.mark.parametrize("round_length", ["6h", "5h", "1d", "7d"])
@pytest.mark.usefixtures("time_zone")
def test_a_period_is_the_calendars_and_has_the_rounds_that_start_in_it(
    every: Any, at: str, start: str, end: str, round_length: str
) -> None:
    plan = plan_with(('round = "6h"', f'round = "{round_length}"'))
    if every == "day" and round_length == "7d":
        return  # there is no such period
    number = plan.round_at(unix_seconds("", start if round_length in ("5h", "7d") else at))
    if round_length in (
        "5h",
        "7d",
    ):  # this round may have begun before: the next one is the first of the period
        number += plan.round(number).start < unix_seconds("", start)
    span = span_of(plan, number, every)
    assert (date(span.start), date(span.end)) == (start, end)
    inside = [
        other
        for other in range(number - 800, number + 800)
        if unix_seconds("", start) <= plan.round(other).start < unix_seconds("", end)
    ]
    assert (span.first, span.last) == (inside[0], inside[-1])
    assert {span_of(plan, other, every) for other in inside} == {span}


@pytest.mark.parametrize(
    ("changes", "usual", "refused"),
    [
        ((), "week", ["window", "year"]),
        ((('round = "6h"', 'round = "7d"'),), "round", ["day", "window"]),
        ((('round = "6h"', 'round = "30s"'),), "round", ["window"]),
        (sampled("7d"), "window", []),
        (sampled("1d"), "week", []),
    ],
)
def test_the_usual_period_of_a_plan_and_those_it_does_not_have(
    changes: tuple[tuple[str, str], ...], usual: str, refused: list[str]
) -> None:
    plan = plan_with(*changes)
    assert usual_every(plan) == usual
    store = open_store("memory:")
    world = World(store, plan)
    world.answer(MONDAY, 30, 10)
    assert [result.every for result in world.results.estimates(Selection("app", "used"))] == [usual]
    for every in refused:
        with pytest.raises(ParameterError, match="every"):
            world.results.estimates(Selection("app", every=every))
    store.close()


def test_a_day_of_remembered_answers_is_the_average_of_its_rounds(world: World) -> None:
    numbers = [world.answer(MONDAY + hours * 3600, 40 + hours, 10 + hours) for hours in (0, 6, 12)]
    world.answer(MONDAY + 18 * 3600, 19, 10)  # fewer than min_reports: not in it
    world.answer(MONDAY + DAY, 50, 20)
    later, day = world.figures()
    assert (day.round, day.to, day.start, day.end) == (numbers[0], numbers[0] + 3, MONDAY, MONDAY + DAY)
    metric = world.plan.by_name["used"]
    assert day.estimate == average(metric, [MeanCounts(40 + hours, 10 + hours) for hours in (0, 6, 12)])
    assert (day.estimate.rule, day.estimate.reports) == ("convex-order", 40)  # type: ignore[union-attr]
    assert (list(day.by_round), day.rounds_missing) == (numbers, 1)
    shown = day.to_dict()
    assert (shown["every"], shown["rounds"], shown["rounds_missing"]) == ("day", 3, 1)
    assert (later.rounds_missing, len(later.by_round)) == (3, 1)
    (week,) = world.figures(every="week")
    assert (len(week.by_round), week.rounds_missing) == (4, 24)


def test_counts_of_sampled_answers_are_added_up_and_the_interval_knows_their_windows() -> None:
    """A window begins on Monday, and a month in the middle of one."""
    plan = plan_with(*sampled("7d"))
    store = open_store("memory:")
    world = World(store, plan)
    november = unix_seconds("", "2026-11-01")
    for day in (-1, 0, 1, 2):
        world.answer(november + day * DAY, 30, 10 + day)
    later, earlier = world.figures(every="month")
    assert later.counts == MeanCounts(90, 33)
    assert earlier.counts == MeanCounts(30, 9)
    assert (later.estimate.rule, earlier.estimate.rule) == ("convex-order", "clopper-pearson")  # type: ignore[union-attr]
    assert later.estimate == average(plan.by_name["used"], later.by_round, plan=plan)
    assert later.estimate.half_width > estimate(plan.by_name["used"], later.counts).half_width  # type: ignore[union-attr]
    assert [len(week.by_round) for week in world.figures(every="window")] == [2, 2]
    store.close()


def test_a_date_range_picks_whole_periods_that_begin_in_it(world: World) -> None:
    for day in range(10):
        world.answer(MONDAY + day * DAY, 30, 10)
    since, until = MONDAY + 2 * DAY, MONDAY + 8 * DAY
    days = world.figures(since=since, until=until)
    assert [day.start for day in days] == [MONDAY + day * DAY for day in range(7, 1, -1)]
    assert [day.start for day in world.figures(since=since, until=until, last=2)] == [
        MONDAY + 7 * DAY,
        MONDAY + 6 * DAY,
    ]
    (week,) = world.figures(every="week", since=since, until=until)  # the first week began before
    assert (week.start, len(week.by_round)) == (MONDAY + 7 * DAY, 3)
    assert [one.start for one in world.figures(every="round", since=since, last=1)] == [MONDAY + 9 * DAY]
    assert world.figures(since=until, until=since) == []


def test_rounds_outside_of_a_range_are_not_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [world.answer(MONDAY + place * 21_600, 30, 10) for place in range(12)]
    read: list[int] = []
    real = world.store.metric_counts

    def metric_counts(keys: list[RoundKey], metric: str) -> dict[RoundKey, Any]:
        read.extend(key.round for key in keys)
        return real(keys, metric)

    monkeypatch.setattr(world.store, "metric_counts", metric_counts)
    monkeypatch.setattr(world.store, "counts", None)  # no other metric is read
    world.figures(since=MONDAY + DAY, until=MONDAY + 2 * DAY)
    assert sorted(read) == numbers[4:8]
    world.figures()
    world.results.changes(Selection("app", "used", every="day"))
    assert sorted(read) == numbers  # each once


def test_a_period_is_sealed_when_nothing_can_change_it_any_more(world: World) -> None:
    """Its last round closes at noon of the next day; nobody may answer that round, or late."""
    for hours in (0, 6, 12):
        world.answer(MONDAY + hours * 3600, 30, 10)
    closes = MONDAY + DAY + 6 * 3600
    for world.now, state in ((closes + 59.0, "open"), (closes + 60.0, "sealed")):
        assert [day.state for day in world.figures()] == [state]
    world.answer(MONDAY + 18 * 3600, 30, 10, seal=False)
    assert [day.state for day in world.figures()] == ["open"]


def test_an_open_day_is_the_average_of_its_sealed_rounds(world: World) -> None:
    """Reports on an open round may have only begun to come. Before the first seal it is what there is."""
    store = open_store("memory:")
    world = World(store, plan_with(("min_reports = 20", "min_reports = 1")))
    world.now = MONDAY + 7.0 * 3600
    open_round = world.answer(MONDAY + 6 * 3600, 3, 1, seal=False)
    (day,) = world.figures()
    assert (day.state, list(day.by_round)) == ("open", [open_round])
    sealed = world.answer(MONDAY, 30, 10)
    (day,) = world.figures()
    assert (day.state, list(day.by_round), day.rounds_missing) == ("open", [sealed], 3)
    store.close()


def test_a_tag_has_the_rounds_in_which_it_has_enough_reports(world: World) -> None:
    world.answer(MONDAY, 30, 10, seal=False)
    both = world.answer(MONDAY, 40, 20, os="macos")
    world.answer(MONDAY + 6 * 3600, 30, 10, seal=False)
    world.answer(MONDAY + 6 * 3600, 19, 10, os="macos")  # joins linux under (few)
    shown = {result.segment["os"]: [*result.by_round] for result in world.figures(by="os")}
    assert shown == {"linux": [both], "macos": [both], "(few)": [both + 1]}
    withheld = world.results.estimates(Selection("app", "used", by="os", every="round", last=1)).withheld
    assert [figure.segment["os"] for figure in withheld] == ["linux", "macos", "other"]


def test_a_day_on_which_no_round_has_enough_is_withheld(world: World) -> None:
    for hours in (0, 6):
        world.answer(MONDAY + hours * 3600, 19, 10)
    answer = world.results.estimates(Selection("app", "used", every="day"))
    assert list(answer) == []
    (withheld,) = answer.withheld
    assert withheld.to_dict()["reports"] is None
    assert withheld.reason == "no round has 20 reports"
    assert [period.reports for period in world.results.periods(Selection("app", every="day"))] == [0]


def test_counts_of_versions_are_added_in_every_round_and_change(world: World) -> None:
    newer = plan_with(("version = 1", "version = 2"), ("[segments]", FLAG))
    world.store.register(newer)
    for day in range(2):
        world.answer(MONDAY + day * DAY, 40, 30)
    world.answer(MONDAY + DAY, 60, 20, plan=newer)
    tuesday, monday = world.figures()
    assert (tuesday.version, tuesday.versions, monday.versions) == (2, "1,2", "1")
    assert tuesday.rounds_missing == monday.rounds_missing == 3
    metric = world.plan.by_name["used"]
    assert tuesday.estimate == estimate(metric, MeanCounts(100, 50))
    (change,) = world.results.changes(Selection("app", "used", every="day"))
    assert change.estimate == difference(metric, [MeanCounts(100, 50)], [MeanCounts(40, 30)])
    world.answer(MONDAY + 2 * DAY, 60, 20, plan=newer)
    (apart, _) = world.figures(version=2)
    assert apart.estimate == estimate(metric, MeanCounts(60, 20))
    against_monday = Selection("app", "used", every="day", last=1, against="2026-11-02")
    (change,) = world.results.changes(against_monday)
    assert (change.figure.versions, change.baseline.versions) == ("2", "1")
    assert [row["versions"] for row in change.to_rows()] == ["1,2"], "it goes with either"
    assert [one.estimate.reports for one in world.figures(every="round", last=2)] == [60, 100]
    with pytest.raises(ParameterError, match="version"):
        world.figures(version=3)


@pytest.mark.parametrize(
    "changed", [("flip = 0.1", "flip = 0.2"), ("max_value = 100", "max_value = 200"), ("second", "minute")]
)
def test_a_change_of_parameters_is_a_break(world: World, changed: tuple[str, str]) -> None:
    newer = plan_with(("version = 1", "version = 2"), changed)
    world.store.register(newer)
    world.answer(MONDAY, 40, 30)
    world.answer(MONDAY + DAY, 40, 30)
    world.answer(MONDAY + DAY, 60, 20, plan=newer)
    figures = [(date(one.start), one.versions, one.estimate.reports) for one in world.figures()]
    assert figures == [("2026-11-03", "2", 60), ("2026-11-03", "1", 40), ("2026-11-02", "1", 40)]
    (period, _) = world.results.periods(Selection("app", "used", every="day"))
    both = [metric for metric in period.metrics if metric.name == "used"]
    alone = [world.results.results(period, [metric], Selection("app"))[0] for metric in both]
    assert [(one.versions, one.estimate.reports) for one in alone] == [("2", 60), ("1", 40)]
    changes = world.results.changes(Selection("app", "used", every="day"))
    assert [(change.figure.versions, change.baseline.versions) for change in changes] == [("1", "1")]


def test_a_version_with_too_few_reports_is_in_no_sum(world: World) -> None:
    """Else the sum less the other version would show fewer than `min_reports`; so for each tag."""
    newer = plan_with(("version = 1", "version = 2"))
    world.store.register(newer)
    world.answer(MONDAY, 40, 30)
    world.answer(MONDAY, 19, 5, plan=newer)
    (day,) = world.figures()
    assert (day.versions, day.estimate.reports) == ("1", 40)
    assert world.figures(version=2) == []
    world.answer(MONDAY + DAY, 40, 30)
    world.answer(MONDAY + DAY, 40, 30, os="macos", seal=False, plan=newer)
    world.answer(MONDAY + DAY, 19, 5, plan=newer)
    tags = {one.segment["os"]: (one.versions, one.estimate.reports) for one in world.figures(by="os", last=1)}
    assert tags == {"linux": ("1", 40), "(few)": ("2", 59)}
    (fleet,) = world.figures(last=1)
    assert (fleet.versions, fleet.estimate.reports) == ("1,2", 99)


def test_a_break_is_labelled_by_the_command(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/break.db"
    store = open_store(url)
    world = World(store, Plan.from_toml(PLAN))
    newer = plan_with(("version = 1", "version = 2"), ("flip = 0.1", "flip = 0.2"))
    store.register(newer)
    world.answer(MONDAY, 40, 30)
    world.answer(MONDAY + DAY, 40, 30)
    world.answer(MONDAY + DAY, 60, 20, plan=newer)
    store.close()
    asked = ["estimate", "--store", url, "--metric", "used", "--every", "day"]
    lines = CliRunner().invoke(command, asked, env={"COLUMNS": "250"}).output.splitlines()
    tuesday = [line for line in lines if "2026-11-03" in line]
    monday = [line for line in lines if "2026-11-02" in line]
    assert [("plan version 2" in line, "plan version 1" in line) for line in tuesday] == [
        (True, False),
        (False, True),
    ]
    assert ["clear change" in line for line in tuesday] == [False, True]  # version 2 has no day before
    assert "plan version" not in monday[0]
    one = CliRunner().invoke(command, [*asked, "--plan-version", "2", "--json"]).output
    assert [row["versions"] for row in json.loads(one)["estimates"]] == [[2]]


def test_an_upgrade_says_the_same_of_the_fleet_in_every_answer(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/upgrade.db"
    store = open_store(url)
    world = World(store, Plan.from_toml(PLAN))
    newer = plan_with(("version = 1", "version = 2"), ("[segments]", FLAG))
    store.register(newer)
    for place in range(8):
        world.answer(MONDAY + place * DAY // 4, 40, 20)
    world.answer(MONDAY + DAY, 60, 50, plan=newer)  # early adopters differ
    write_results(store, lambda: world.now)
    assert list(problems(store, lambda: world.now)) == []
    query = (
        "SELECT start_time, value, half_width, rounds, rounds_missing, versions FROM daily"
        " WHERE metric = 'used' AND segment = '{}' ORDER BY start_time DESC"
    )
    sql = store.backend.read(query)
    store.close()
    assert [(row[3], row[4], row[5]) for row in sql] == [(4, 0, "1,2"), (4, 0, "1")]
    asked = ["--store", url, "--metric", "used", "--every", "day"]
    answer = json.loads(CliRunner().invoke(command, ["estimate", *asked, "--json"]).output)["estimates"]
    assert [(row["start_time"], row["value"]) for row in answer] == [(row[0], row[1]) for row in sql]
    assert [row["versions"] for row in answer] == [[1, 2], [1]]
    table = [*csv.DictReader(io.StringIO(CliRunner().invoke(command, ["export", "-", *asked]).output))]
    kept = [(float(row["value"]), row["rounds_missing"], row["versions"]) for row in table]
    assert kept == [(row[1], "0", row[5]) for row in sql]
    metric = world.plan.by_name["used"]
    expected = average(metric, [MeanCounts(100, 70), *[MeanCounts(40, 20)] * 3])
    assert answer[0]["value"] == pytest.approx(expected.value)
    assert answer[0]["half_width"] == pytest.approx(expected.half_width)


def test_a_metric_that_ended_is_still_shown(world: World) -> None:
    ended = Plan.from_toml(
        PLAN.replace("version = 1", "version = 2").replace("metrics.used", "metrics.other")
    )
    world.store.register(ended)
    world.answer(MONDAY, 40, 30)
    world.answer(MONDAY, 40, 30, plan=ended)
    assert [(one.versions, one.estimate.reports) for one in world.figures()] == [("1", 40)]
    assert write_results(world.store, lambda: world.now)
    assert list(problems(world.store, lambda: world.now)) == []
    assert [(one.versions, one.estimate.reports) for one in world.figures()] == [("1", 40)]


def test_a_metric_that_ended_can_be_exported(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ended.db"
    store = open_store(url)
    world = World(store, Plan.from_toml(PLAN))
    store.register(plan_with(("version = 1", "version = 2"), ("metrics.used", "metrics.other")))
    world.answer(MONDAY, 40, 30)
    store.close()
    asked = ["export", "-", "--store", url, "--every", "day", "--metric"]
    rows = [*csv.DictReader(io.StringIO(CliRunner().invoke(command, [*asked, "used"]).output))]
    assert [(row["metric"], row["versions"], row["reports"]) for row in rows] == [("used", "1", "40")]
    refused = CliRunner().invoke(command, [*asked, "usde"])
    assert refused.exit_code == 1
    assert "--metric used?" in refused.output


def test_a_round_that_is_open_or_damaged_under_one_version_is_no_figure_of_the_fleet(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = plan_with(("version = 1", "version = 2"))
    world.store.register(newer)
    for place in range(4):
        world.answer(MONDAY - DAY + place * DAY // 4, 40, 30)
    kept = world.answer(MONDAY, 40, 30)
    world.answer(MONDAY + DAY // 4, 40, 30)
    world.answer(MONDAY + DAY // 4, 60, 20, seal=False, plan=newer)
    (day, _) = world.figures()
    assert (day.state, [*day.by_round]) == ("open", [kept])
    (change,) = world.results.changes(Selection("app", "used", every="day"))
    assert [*change.figure.by_round] == [kept]
    rounds = world.store.rounds
    monkeypatch.setattr(
        world.store,
        "rounds",
        lambda *asked: [info._replace(damage="torn" * (info.key.version == 2)) for info in rounds(*asked)],
    )
    (day, _) = world.figures()
    assert (day.state, [*day.by_round]) == ("open", [kept])


def test_a_sealed_round_that_is_damaged_under_one_version_is_no_figure_of_the_fleet(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = plan_with(("version = 1", "version = 2"))
    world.store.register(newer)
    rounds_of_day = [world.answer(MONDAY + place * DAY // 4, 40, 30) for place in range(2)]
    world.answer(MONDAY + DAY // 4, 60, 20, plan=newer)
    assert [*world.figures()[0].by_round] == rounds_of_day
    rounds = world.store.rounds
    monkeypatch.setattr(
        world.store,
        "rounds",
        lambda *asked: [info._replace(damage="torn" * (info.key.version == 2)) for info in rounds(*asked)],
    )
    assert [*world.figures()[0].by_round] == rounds_of_day[:1]


def test_a_damaged_round_is_missing_and_keeps_its_day_open(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = world.answer(MONDAY, 30, 10)
    lost = world.answer(MONDAY + 6 * 3600, 30, 10)
    rounds = world.store.rounds
    monkeypatch.setattr(
        world.store,
        "rounds",
        lambda *asked: [info._replace(damage="torn" * (info.key.round == lost)) for info in rounds(*asked)],
    )
    (day,) = world.figures()
    assert (day.state, list(day.by_round)) == ("open", [kept])
    assert [(one.round, one.state) for one in world.figures(every="round")] == [(kept, "sealed")]


def test_as_many_reports_as_a_figure_needs_are_enough(world: World) -> None:
    enough, few = world.answer(MONDAY, 20, 10), world.answer(MONDAY + 6 * 3600, 19, 10)
    listed = {row["round"]: (row["reports"], row.get("reason")) for row in world.results.rounds("app")}
    assert listed == {enough: (20, None), few: (None, "fewer than 20 reports")}
    (day,) = world.figures()
    assert (day.period.reports, list(day.by_round)) == (20, [enough])


def test_a_tag_that_is_not_asked_for_is_not_called_rare(world: World) -> None:
    world.answer(MONDAY, 30, 10)
    world.answer(MONDAY, 30, 10, os="macos")
    both = world.results.estimates(Selection("app", "used", segment={"os": "linux"}, by="os", every="day"))
    assert ([one.segment for one in both], both.withheld) == ([{"os": "linux"}], [])


def test_a_change_compares_rounds_at_the_same_places() -> None:
    """A round that one of the two days lacks is left out of both, and so is one that is open."""
    store = open_store("memory:")
    world = World(store, plan_with(("min_reports = 20", "min_reports = 1")))
    for hours, ones in ((0, 100), (6, 900), (12, 300)):
        world.answer(MONDAY + hours * 3600, 1000, ones)
    for hours, ones in ((0, 600), (12, 700), (18, 50)):
        world.answer(MONDAY + DAY + hours * 3600, 1000, ones)
    world.answer(MONDAY + DAY + 6 * 3600, 1000, 0, seal=False)
    (change,) = world.results.changes(Selection("app", "used", every="day"))
    later, earlier = ([MeanCounts(1000, ones) for ones in pair] for pair in ((600, 700), (100, 300)))
    metric = world.plan.by_name["used"]
    assert change.estimate == difference(metric, later, earlier)
    assert change.figure.estimate == average(metric, later)
    assert change.baseline.estimate == average(metric, earlier)
    assert (date(change.baseline.start), date(change.figure.start)) == ("2026-11-02", "2026-11-03")
    assert change.clear
    shown = change.to_dict()
    assert (shown["rounds"], shown["rounds_missing"], shown["clear"]) == (2, 2, True)
    assert shown["value"] == pytest.approx(shown["after"]["value"] - shown["before"]["value"])
    store.close()


def test_a_month_is_compared_with_the_same_month_a_year_before(world: World) -> None:
    for day in ("2025-10-20", "2025-11-20", "2025-12-20", "2026-10-20", "2026-11-20"):
        world.answer(unix_seconds("", day), 40, 30)
    for against, expected in (("year", "2025-11-01"), ("before", "2026-10-01")):
        asked = Selection("app", "used", every="month", last=1, against=against)
        (change,) = world.results.changes(asked)
        assert [date(side.start) for side in (change.figure, change.baseline)] == ["2026-11-01", expected]


def test_differences_to_two_tags_are_not_taken_for_each_other(world: World) -> None:
    world.answer(MONDAY, 40, 30, seal=False)
    world.answer(MONDAY, 40, 10, os="macos")
    for _ in range(2):
        for tag, other in (("linux", "macos"), ("macos", "linux")):
            asked = Selection("app", "used", every="day", by="os", baseline=tag)
            (one,) = world.results.differences(asked)
            assert (one.figure.segment["os"], one.baseline.segment["os"]) == (other, tag)


def test_a_trend_needs_most_of_the_earlier_periods_and_all_intervals_of_the_page_at_once(
    world: World,
) -> None:
    weeks = {4: 100, 2: 1900, 1: 100, 0: 1900}
    directions = {}
    for shown in (2, 4):
        for before in [week for week in weeks if week <= shown]:
            world.answer(MONDAY + (100 * (shown == 4) - before) * 7 * DAY, 2000, weeks[before])
        world.now = MONDAY + 100.0 * 7 * DAY * (shown == 4) + 8 * DAY
        since = int(world.now) - 6 * 7 * DAY
        trend, *others = world.results.trends(Selection("app", every="week", since=since))
        assert len(others) == 3, "and the three buckets of a choice"
        figures, compared = 2, len([week for week in weeks if 0 < week <= shown])
        assert [one.estimate.confidence for one in trend.differences] == [
            pytest.approx(1 - 0.05 / (figures * compared))
        ] * compared
        assert trend.confidence == 0.95
        directions[shown] = trend.direction
    assert directions == {2: None, 4: "rises"}, "of two periods one, and of three two are lower"


def test_no_period_tells_how_many_reports_a_round_has_that_has_too_few(world: World) -> None:
    for day in (0, 1):
        world.answer(MONDAY + day * DAY, 30, 10)
        world.answer(MONDAY + day * DAY + 6 * 3600, 19, 10)
    (change,) = world.results.changes(Selection("app", "used", every="day"))
    for figure in (*world.figures(), change.figure, change.baseline):
        assert [info.reports for info in figure.period.rounds] == [0, 30]


def test_there_is_no_change_after_a_day_without_reports(world: World) -> None:
    world.answer(MONDAY, 30, 10)
    world.answer(MONDAY + 2 * DAY, 30, 10)
    world.answer(MONDAY + 3 * DAY + 6 * 3600, 30, 10)  # the day before has reports, but not on this round
    assert world.results.changes(Selection("app", every="day")) == []


def test_the_words_of_a_change(world: World) -> None:
    """By hand: the share of ones rises by .2, .05 and .001; the range is 100, and the contrast tanh(1) · .8."""
    for day, ones in enumerate((300, 500, 550, 551)):
        for hours in (0, 6, 12, 18):
            world.answer(MONDAY + day * DAY + hours * 3600, 1000, ones)
    least, small, large = world.results.changes(Selection("app", "used", every="day"))
    assert least.words.startswith("0 ± "), "what is rounded to 0 goes neither up nor down"
    contrast = np.tanh(1) * 0.8
    for change, rise, sentence in ((small, 0.05, "no clear change"), (large, 0.2, "clear change")):
        number = change.estimate
        assert isinstance(number, Estimate)
        assert number.value == pytest.approx(100 * rise / contrast)
        assert change.clear == (sentence == "clear change") == (number.lower > 0)
        assert change.words == f"↑ {number.value:.0f} ± {number.half_width:.0f} seconds: {sentence}"
    assert world.results.changes(Selection("app", "used", last=1, every="day")) == [least]
    assert world.results.changes(Selection("app", "used", until=MONDAY + 2 * DAY, every="day")) == [large]


def test_the_change_of_a_choice_is_clear_where_any_bucket_is(world: World) -> None:
    world.answer(MONDAY, 3000, 0)
    world.answer(MONDAY + DAY, 3000, 0)
    (change,) = world.results.changes(Selection("app", "theme", every="day"))
    assert isinstance(change.estimate, HistogramEstimate)
    assert isinstance(change.figure.counts, HistogramCounts)
    assert (change.clear, change.words) == (
        False,
        "no clear change in any of 3 buckets (1 of 4 rounds compared)",
    )
    assert [bucket["clear"] for bucket in change.to_dict()["buckets"]] == [False] * 3
    dark, *others = change.estimate.buckets
    dark = replace(dark, value=-0.15, lower=-0.2, upper=-0.1, uncut=(-0.2, -0.1))
    moved = Difference(change.figure, change.baseline, replace(change.estimate, buckets=(dark, *others)))
    assert moved.clear
    assert moved.words.startswith("clear change in 1 of 3 buckets: dark ↓ 15.0 ± 5.0 percentage points")
    assert [bucket["clear"] for bucket in moved.to_dict()["buckets"]] == [True, False, False]


def test_a_change_whose_interval_ends_at_0_is_not_clear() -> None:
    number = estimate(Metric("mean", OneBitMean(1, 1)), MeanCounts(100, 50))
    for lower, upper, clear in (
        (0.0, 0.2, False),
        (-0.2, 0.0, False),
        (0.01, 0.2, True),
        (-0.2, -0.01, True),
    ):
        assert is_clear(replace(number, lower=lower, upper=upper)) is clear


def test_rows_are_not_held_against_chance_over_rounds_of_the_same_devices(world: World) -> None:
    """A device is on the same row for life: twenty reports on one row are those of five devices."""
    for hours in (0, 6, 12, 18):
        world.answer(MONDAY + hours * 3600, 300, 10)
    (day,) = world.figures("theme")
    assert day.balance is None
    assert all(one.balance is not None for one in world.figures("theme", every="round"))


def test_a_round_that_another_version_may_join_is_open_until_it_closes(world: World) -> None:
    """The one that came first is sealed alone; reports on the other may come."""
    world.now = MONDAY + 1.0
    world.answer(MONDAY, 200, 100)
    assert [period.state for period in world.results.periods(Selection("app", every="round"))] == ["sealed"]
    world.store.register(plan_with(("version = 1", "version = 2")))
    assert [period.state for period in world.results.periods(Selection("app", every="round"))] == ["open"]
    world.now = MONDAY + 100.0 * DAY
    assert [period.state for period in world.results.periods(Selection("app", every="round"))] == ["sealed"]


def test_all_figures_of_one_answer_are_of_the_same_rounds(world: World) -> None:
    """A round that is sealed while a page is made is on the next one."""
    world.answer(MONDAY, 200, 100)
    with one_answer():
        (before,) = world.figures()
        world.answer(MONDAY + DAY, 200, 100)
        assert world.figures() == [before]
        assert len(world.figures(every="round")) == 2, "listed for the first time"
        assert world.figures(last=1) != [before], "another selection is another list"
    assert len(world.figures()) == 2
    with one_answer():
        assert len(world.figures()) == 2


def test_an_answer_is_made_of_so_many_rounds_at_most(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single period may have more: it could not be had otherwise."""
    for place in range(8):
        world.answer(MONDAY + place * 21_600, 30, 10)
    monkeypatch.setattr("reticent_collector.results.reader.MOST_ROUNDS_READ", 7)
    for read in (world.results.estimates, world.results.changes):
        with pytest.raises(ParameterError, match="at most 1 periods"):
            read(Selection("app", most=1000, every="day"))
        read(Selection("app", last=1, most=1000, every="day"))
    assert len(world.figures(every="week", most=1000)) == 1


def test_the_commands_show_days_with_their_changes_and_pick_dates(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/days.db"
    store = open_store(url)
    world = World(store, Plan.from_toml(PLAN))
    for day in range(3):
        for hours in (0, 6, 12, 18):
            world.answer(MONDAY + day * DAY + hours * 3600, 500, 100 + 50 * day)
    store.close()

    def run(*arguments: str, code: int = 0) -> str:
        outcome = CliRunner().invoke(command, [*arguments, "--store", url], env={"COLUMNS": "200"})
        assert outcome.exit_code == code, outcome.output
        return outcome.output

    shown = json.loads(run("estimate", "--metric", "used", "--every", "day", "--json"))
    assert [(row["every"], row["start_time"][:10]) for row in shown["estimates"]] == [
        ("day", "2026-11-04"),
        ("day", "2026-11-03"),
        ("day", "2026-11-02"),
    ]
    assert [change["clear"] for change in shown["changes"]] == [True, True]
    assert shown["changes"][0]["words"] in run("estimate", "--metric", "used", "--every", "day")
    week = json.loads(run("estimate", "--every", "week", "--json"))["estimates"]
    assert {(row["rounds"], row["rounds_missing"]) for row in week} == {(12, 16)}
    dated = ["--since", "2026-11-03", "--until", "2026-11-04T00:00Z", "--metric", "used", "--every", "day"]
    (only,) = json.loads(run("estimate", *dated, "--json"))["estimates"]
    assert only["start_time"][:10] == "2026-11-03"
    rounds = json.loads(
        run("estimate", "--metric", "used", "--every", "round", "--since", "2026-11-01", "--json")
    )
    assert len(rounds["estimates"]) == 12  # all of them, not the latest ten
    run("export", str(tmp_path / "days.csv"), *dated)
    assert len((tmp_path / "days.csv").read_text().splitlines()) == 2
    assert "--since: expected a date" in run("estimate", "--since", "yesterday", code=1)
    assert "every" in run("estimate", "--every", "window", code=1)
