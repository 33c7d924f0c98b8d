"""What a reader may choose on a page, and what it says of what was not chosen: ended metrics, versions, notes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from collector.tests.dashboard.test_pages import SIZES, headline_of, table_of
from tests.shared.plans import CLEAR

from reticent.plan import Plan
from reticent_collector.counts import MeanCounts
from reticent_collector.estimates import difference
from reticent_collector.http.history import HistorySlot
from reticent_collector.results import AT_LEAST_ONCE
from reticent_collector.stores import Count, Note, RoundKey

DAY = 86_400
MONDAY = 1_772_409_600  # 2 March 2026
HEAD = """
min_reports = 20
[plan]
name = "app"
version = 1
round = "1d"
grace = "1h"
"""
MINUTES = '[metrics.minutes]\nkind = "mean"\nunit = "minute"\nmax_value = 1440\nepsilon = 2.0\n'
FLAG = '[metrics.crashed]\nkind = "flag"\nepsilon = 2.0\n'
OS = '[segments]\nos = ["linux", "macos", "haiku"]\n'


@pytest.fixture
def make(make_world: Callable[..., Any]) -> Callable[..., Any]:
    """A world of counts: by day and version, and by tag, the reports and how many of them are ones, by metric."""

    def made(*texts: str, days: float) -> Any:
        world = make_world(texts[0], now=MONDAY + days * DAY)
        world.versions = [Plan.from_toml(text) for text in texts]
        for version in world.versions[1:]:
            world.store.register(version)

        def put(
            day: int, groups: dict[tuple[str, ...], tuple[int, dict[str, float]]], version: int = 1
        ) -> None:
            plan = world.versions[version - 1]
            counts = {}
            for tags, (reports, truths) in groups.items():
                counts[tags] = {}
                for metric in plan.metrics:
                    low, high = float(metric.channel.low), float(metric.channel.high)
                    share = low + (high - low) * truths[metric.name] / metric.mechanism.top
                    counts[tags][metric.name] = MeanCounts(reports, round(share * reports))
            whole = sum(reports for reports, _ in groups.values())
            key = RoundKey(plan.name, plan.version, MONDAY // DAY + day)
            assert world.store.backend.put_sealed(key, Count(whole, counts))

        world.put = put
        return world

    return made


def test_a_metric_that_ended_has_a_page_with_all_of_its_figures(make: Callable[..., Any]) -> None:
    world = make(HEAD + MINUTES + FLAG, (HEAD + MINUTES).replace("version = 1", "version = 2"), days=30)
    for day in range(14):
        world.put(day, {(): (5000, {"minutes": 60.0, "crashed": 0.1})}, version=1)
    world.put(14, {(): (5000, {"minutes": 60.0})}, version=2)
    for path in ("/", "/plans/app"):
        assert "/plans/app/metrics/crashed" in world.get(path).page.addresses
    answer = world.get("/plans/app/metrics/crashed")
    assert answer.status == 200
    assert "This metric ended: version 1 of the plan was the last one" in answer.text
    _, rows = table_of(answer.page)
    assert len(rows) == 2
    table = next(address for address in answer.page.addresses if address.endswith(".csv"))
    assert world.get(table).text.count("crashed") >= 2
    assert "This metric ended" not in world.get("/plans/app/metrics/minutes").text
    assert world.get("/plans/app/metrics/nothing").status == 404


def test_a_flag_whose_unbiased_value_is_below_zero_is_at_most_something(make: Callable[..., Any]) -> None:
    """And is drawn within its own band; the table has the unbiased value."""
    world = make(HEAD + FLAG, days=9)
    world.put(0, {(): (2000, {"crashed": -0.01})})
    page = world.get("/plans/app/metrics/crashed?every=day")
    said = headline_of(page.page)
    assert "at most" in said
    assert "is outside of the possible range" in page.text
    _, (row,) = table_of(page.page)
    assert row[1].startswith("−1.0 ±")
    dots = [tag for tag in page.page.all("circle") if tag.get("class") == "dot"]
    zeros = [tag for tag in page.page.all("line") if tag.get("class") == "zero"]
    assert float(dots[0]["cy"]) == pytest.approx(float(zeros[0]["y1"]), abs=0.2)
    overview = world.get("/?every=day").text
    assert "<b>at most" in overview
    assert "<b>−" not in overview


@pytest.mark.parametrize(("linux", "baseline"), [(30, "linux"), (15, None)])
def test_rare_tags_together_are_no_baseline(
    make: Callable[..., Any], linux: int, baseline: str | None
) -> None:
    """They may have the most reports, or be all that there is to see; a baseline is a tag of the plan."""
    world = make(HEAD + MINUTES + OS, days=9)
    sizes = {"linux": linux, "macos": 18, "haiku": 18}
    world.put(0, {(tag,): (size, {"minutes": 60.0}) for tag, size in sizes.items()})
    for chosen in ("", "&baseline=(few)", "&baseline=haiku"):
        answer = world.get(f"/plans/app/metrics/minutes?every=day&by=os{chosen}")
        assert answer.status == 200
        assert "(few)" in answer.text
        assert ("difference to linux" in answer.text) == (baseline == "linux")
        assert "difference to (few)" not in answer.text
        assert ("Difference to" in answer.text) == (baseline is not None)


def test_a_page_has_one_unit(make: Callable[..., Any]) -> None:
    """A day of 50 minutes among days of 3 hours."""
    world = make(HEAD + MINUTES + OS, days=40)
    for day in range(20):
        world.put(day, {("linux",): (40_000, {"minutes": 50.0 if day == 19 else 600.0})})
    page = world.get("/plans/app/metrics/minutes?every=day&by=os").page
    unit, _ = table_of(page)
    assert unit == "h"
    units = {text for text in page.texts if text in SIZES or text == "minutes"}
    assert units - {"minutes"} == {"h"}, "minutes is the name of the metric"
    assert not [text for text in page.texts if text.endswith((" min", " minutes"))]


def test_what_cannot_be_asked_is_said_beside_weeks_and_months_of_flags(make: Callable[..., Any]) -> None:
    world = make(HEAD + FLAG + MINUTES, days=50)
    for day in range(31):
        world.put(day, {(): (3000, {"crashed": 0.1, "minutes": 60.0})})
    for every in ("week", "month"):
        assert AT_LEAST_ONCE in world.get(f"/plans/app/metrics/crashed?every={every}").text
        assert "at least once" not in world.get(f"/plans/app/metrics/minutes?every={every}").text
    assert "at least once" not in world.get("/plans/app/metrics/crashed?every=day").text


def test_notes_are_flags_of_what_is_shown(make: Callable[..., Any]) -> None:
    world = make(HEAD + MINUTES, days=40)
    for day in range(28):
        world.put(day, {(): (3000, {"minutes": 60.0})})
    world.store.register(Plan.from_toml((HEAD + MINUTES).replace('name = "app"', 'name = "other"')))
    for name, day, plan, text in (
        ("a", 3, "", "release 2.2"),
        ("b", 20, "app", "<b>release 2.3</b>"),
        ("c", 21, "other", "of another plan"),
        ("d", -90, "", "long ago"),
    ):
        world.store.backend.put_note(Note(name, MONDAY + day * DAY, plan, text))
    page = world.get("/plans/app/metrics/minutes").page
    assert [text for text in page.texts if "release" in text] == [
        "5 Mar 2026: release 2.2",
        "22 Mar 2026: <b>release 2.3</b>",
    ]
    assert len([tag for tag in page.all("line") if tag.get("class") == "flag"]) == 2 * 2
    for path in ("/", "/plans/app/metrics/minutes"):
        text = world.get(path).text
        assert "of another plan" not in text
        assert "long ago" not in text
    assert "5 Mar 2026: release 2.2" in world.get("/").page.texts


def test_the_overview_says_what_is_not_known_well_enough_and_what_would_help(
    make: Callable[..., Any],
) -> None:
    world = make(HEAD + MINUTES + FLAG, days=7.2)
    for day in range(7):
        world.put(day, {(): (100, {"minutes": 100.0, "crashed": 0.1})})
    text = world.get("/").text
    assert "Not precise enough to say (2)" in text
    assert "With 4 times the devices: ±" in text
    assert "All is well." in text
    assert "100 devices answered on Sun 8 Mar 2026 (100 are usual)" in text


def test_a_plan_that_expires_soon_says_so(make: Callable[..., Any]) -> None:
    text = (HEAD + MINUTES).replace('round = "1d"', 'round = "1d"\nexpires = 2026-03-31')
    world = make(text, days=16)  # 18 March
    world.put(15, {(): (100, {"minutes": 100.0})})
    for path in ("/", "/plans/app"):
        assert "app expires in 13 days" in world.get(path).text
    world.now -= 18 * DAY
    assert "expires in" not in world.get("/").text


def test_tags_without_a_common_round_are_not_compared(make: Callable[..., Any]) -> None:
    world = make(HEAD + FLAG + OS, days=30)
    for day in range(14):
        tags = {("linux",): (2000, {"crashed": 0.1}), ("macos",): (3000, {"crashed": 0.3})}
        world.put(day, {tag: group for tag, group in tags.items() if tag == ("linux",) or day < 7})
    path = "/plans/app/metrics/crashed?by=os"
    rows = {row[0]: row for row in world.get(path).page.rows if len(row) == 4}
    assert rows["macos"][3] == "baseline", "the tag with most reports"
    assert "↓" in rows["linux"][3]
    assert "clear difference" in rows["linux"][3]
    assert "By os, 2 to 8 Mar 2026" in world.get(path).text, "the last week in which both have figures"
    rows = {row[0]: row for row in world.get(f"{path}&baseline=linux").page.rows if len(row) == 4}
    assert rows["linux"][3] == "baseline"
    assert "↑" in rows["macos"][3]


def test_what_a_change_is_against_can_be_chosen(make: Callable[..., Any]) -> None:
    world = make(HEAD + MINUTES, days=80)
    for day in range(70):
        world.put(day, {(): (100_000, {"minutes": {0: 100.0, 8: 300.0}.get(day // 7, 600.0)})})
    for against, week in (("before", 8), ("4-weeks", 5), ("2026-03-04", 0), ("", 5)):
        said = headline_of(world.get(f"/plans/app/metrics/minutes?against={against}").page)
        clear = week in (0, 8)
        assert ("no clear change" in said) is not clear, against
    assert "Nothing to compare with" in world.get("/plans/app/metrics/minutes?against=year").text
    assert world.get("/plans/app/metrics/minutes?against=never").status == 400


def test_a_change_on_the_overview_is_clear_among_all_metrics_at_once(make: Callable[..., Any]) -> None:
    """One metric by itself would have been called clear: with twelve of them, one in two pages would have one."""
    names = [f"flag_{place}" for place in range(12)]
    world = make(HEAD + "".join(FLAG.replace("crashed", name) for name in names), days=29.2)
    usual = dict.fromkeys(names, 0.3)
    world.put(0, {(): (10_000, usual)})
    metric = world.plan.by_name[names[0]]
    low, high = float(metric.channel.low), float(metric.channel.high)

    def is_clear(share: float, confidence: float) -> bool:
        after, before = (
            MeanCounts(10_000, round((low + (high - low) * one) * 10_000)) for one in (share, 0.3)
        )
        return difference(metric, [after], [before], confidence).lower > 0

    between = next(share for share in (0.3 + step / 500 for step in range(200)) if is_clear(share, 0.95))
    assert not is_clear(between, 1 - 0.05 / 12)
    world.put(28, {(): (10_000, usual | {names[0]: between})})
    page = world.get(f"/plans/app/metrics/{names[0]}?every=day").text
    assert re.search(r"percentage points: clear change", page)
    overview = world.get("/?every=day").text
    assert "Clear changes" not in overview
    assert "No clear change (12)" in overview


def test_an_hour_after_a_start_no_axis_is_empty(make_world: Callable[..., Any]) -> None:
    world = make_world(CLEAR)
    silent = tuple(HistorySlot(start) for start in range(0, 3600, 600))
    for history in ((), silent):
        world.health = replace(world.health, history=history)
        page = world.get("/health").page
        assert not [tag for tag in page.all("svg") if "small" in tag.get("class", "")]
