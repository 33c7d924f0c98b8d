"""What pages remember, and what they read anew: rounds, versions, hints about a plan, uneven cohorts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from collector.tests.dashboard.conftest import World

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.reports import Report
from reticent_collector.dashboard import labels
from reticent_collector.results import LruCache, Period, Selection
from reticent_collector.stores import Layout, RoundKey
from reticent_lab.fleet import SdkFleet

METRIC = "/plans/app-usage/metrics"
UNEVEN = "than chance explains"
HINTS = ("No report has arrived yet", "No recent reports", "Only ", "Damaged rounds")

MINUTES = """
min_reports = 1
[plan]
name = "app-usage"
version = 1
round = "6h"
grace = "6h"
expires = 2027-01-01
[metrics.minutes]
kind = "mean"
max_value = 360
epsilon = 1.0
"""


def test_sealed_rounds_are_estimated_once_and_open_ones_each_time(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(MINUTES)
    now = world.plan.round_at(world.now)
    fleet = SdkFleet(world.plan, 40, seed=3)
    for number in (now - 3, now - 2, now - 1):
        world.answer(fleet, number, {"minutes": [100] * 40}, seal=number < now - 1)
    estimated: list[int] = []
    computed = world.results.computed

    def watched(period: Period, *rest: Any) -> Any:
        estimated.append(period.first)
        return computed(period, *rest)

    monkeypatch.setattr(world.results, "computed", watched)
    path = f"{METRIC}/minutes?every=round"
    first = world.get(path).page.rows
    assert world.get(path).page.rows == first
    assert world.get(f"{path}&confidence=99").page.rows != first, "another confidence is another estimate"
    assert estimated == [now - 1, now - 2, now - 3, now - 1, now - 1, now - 2, now - 3]

    world.store.seal(RoundKey("app-usage", 1, now - 1))
    after = world.get(path).page.rows
    assert [row[-1] for row in first] == ["state", "open", "sealed", "sealed"]
    assert [row[-1] for row in after] == ["state", "sealed", "sealed", "sealed"]
    assert [row[:-1] for row in first] == [row[:-1] for row in after]


def test_what_is_shown_of_an_open_period_follows_its_reports_and_its_seal(
    make_world: Callable[..., World],
) -> None:
    """Nothing that was remembered outlives a change of state: not of a round, nor of the day that it is in."""
    text = MINUTES.replace('kind = "mean"', 'kind = "histogram"\nmechanism = "hadamard-bit"\nbuckets = 4')
    world = make_world(text)
    last = world.plan.round_at(world.now) - 1
    fleet, more = SdkFleet(world.plan, 40, seed=3), SdkFleet(world.plan, 90, seed=4)
    world.answer(fleet, last, {"minutes": [100] * 40}, seal=False)

    def seen(every: str) -> tuple[Any, ...]:
        page = world.get(f"{METRIC}/minutes?every={every}&by=").page
        (reports,) = {row[-1] for row in page.rows if len(row) == 5 and row[-1].isdigit()}
        (row,) = [row for row in world.get(f"/?every={every}").page.rows if row[0] == "minutes"]
        assert f"{reports} reports" in row[1]
        head = " ".join(page.texts).partition(f"{reports} reports")[0]
        state = "open" if " open " in head.rpartition("Latest")[2] else "sealed"
        assert ("open" in row[1]) is (state == "open")
        return int(reports), state

    for every in ("round", "day"):
        assert seen(every) == (40, "open")
    world.answer(more, last, {"minutes": [100] * 90}, seal=False)
    for every in ("round", "day"):
        assert seen(every) == (130, "open")
    world.store.seal(RoundKey("app-usage", 1, last))
    assert seen("round") == (130, "sealed")
    assert seen("day") == (130, "open"), "other rounds of the day may still come"
    world.now += 3 * 86_400
    assert seen("day") == (130, "sealed")


def test_a_change_is_shown_once_the_round_before_is_sealed_too(make_world: Callable[..., World]) -> None:
    """A damaged round is sealed after the next one, when it is repaired."""
    world = make_world(MINUTES)
    last = world.plan.round_at(world.now) - 1
    fleet = SdkFleet(world.plan, 40, seed=3)
    for number in (last - 1, last):
        world.answer(fleet, number, {"minutes": [100] * 40}, seal=number == last)
    path = f"{METRIC}/minutes?every=round&against=before"
    assert "Nothing to compare with" in world.get(path).text
    world.store.seal(RoundKey("app-usage", 1, last - 1))
    assert "Nothing to compare with" not in world.get(path).text


def test_memory_is_bounded() -> None:
    cache: LruCache[int] = LruCache(most=3)
    for key in range(5):
        cache.put(key, key)
        cache.get(0)
    assert [cache.get(key) for key in range(5)] == [0, None, None, 3, 4]


def test_versions_without_a_segment_are_left_out_of_a_comparison(make_world: Callable[..., World]) -> None:
    world = make_world(MINUTES)
    newer = Plan.from_toml(
        MINUTES.replace("version = 1", "version = 2") + '[segments]\nos = ["linux", "macos"]\n'
    )
    world.store.register(newer)
    now = world.plan.round_at(world.now)
    for plan, number in ((world.plan, now - 3), (newer, now - 2)):
        fleet = SdkFleet(plan, 40, seed=1, segments=[{"os": "linux"}] * 40)
        world.answer(fleet, number, {"minutes": [100] * 40})

    def clock(number: int) -> str:
        window = world.plan.round(number)
        return labels.period(window.start, window.end, "round")

    whole = world.get(f"{METRIC}/minutes?every=round").page
    assert [row[0] for row in whole.rows if len(row) == 5][1:] == [clock(now - 2), clock(now - 3)]
    apart = world.get(f"{METRIC}/minutes?every=round&by=os").page
    marks = [tag for tag in apart.all("g") if tag.get("data-line") == "linux"]
    assert marks
    assert [row[1] for row in apart.rows if row[0] == "linux"] == [
        row[1] for row in whole.rows if row[0] == clock(now - 2)
    ], "all devices of the newer version have that tag"
    assert "other parameters" not in world.get(f"{METRIC}/minutes?every=round").text
    assert "(served: 2, 1)" in world.get("/plans/app-usage").page.texts


def test_a_round_of_another_unit_is_shown_with_its_like(make_world: Callable[..., World]) -> None:
    text = MINUTES.replace(
        'kind = "mean"', 'kind = "histogram"\nmechanism = "hadamard-bit"\nbuckets = 4\nunit = "minute"'
    )
    world = make_world(text)
    newer = Plan.from_toml(text.replace("version = 1", "version = 2").replace('minute"', 'hour"'))
    world.store.register(newer)
    now = world.plan.round_at(world.now)
    for plan, number in ((world.plan, now - 4), (world.plan, now - 3), (newer, now - 2)):
        world.answer(SdkFleet(plan, 40, seed=1), number, {"minutes": [100] * 40})
    early = labels.address(world.plan.round(now - 4).start, "round")
    for query, rounds in (("", [now - 2]), (f"&at={early}", [now - 3, now - 4])):
        page = world.get(f"{METRIC}/minutes?every=round{query}").page
        offered = [tag["value"] for tag in page.all("option") if tag["value"].startswith("2026-")]
        assert offered == [labels.address(world.plan.round(number).start, "round") for number in rounds]


@pytest.mark.parametrize(
    ("reports", "behind", "hint"),
    [
        ([10, 10, 10, 10], 1, ""),
        ([10, 10, 10, 10], 2, ""),
        ([10, 10], 3, "ended 12 h 1 min ago, 2 rounds are missing"),
        ([10, 10, 10, 5], 1, ""),
        ([10, 10, 10, 4], 1, "4 devices answered in the round"),
        ([], 1, "No report has arrived yet"),
    ],
)
def test_silence_and_a_loss_of_devices_are_told(
    make_world: Callable[..., World], reports: list[int], behind: int, hint: str
) -> None:
    world = make_world(MINUTES)
    last = world.plan.round_at(world.now) - behind
    for number, count in enumerate(reports, start=last - len(reports) + 1):
        world.answer(SdkFleet(world.plan, count, seed=1), number, {"minutes": [100] * count})
    for path in ("/", "/plans/app-usage"):
        sentences = [text for text in world.get(path).page.texts if text.startswith(HINTS)]
        assert len(sentences) == (1 if hint else 0)
        assert all(hint in sentence for sentence in sentences)


def test_a_plan_says_that_it_expired_after_its_last_day(make_world: Callable[..., World]) -> None:
    world = make_world(MINUTES)
    for world.now, expired in ((1_798_675_200 + 3600, False), (1_798_761_600 + 3600, True)):
        assert ("expired on 2027-01-01" in world.get("/").text) is expired


def test_a_plan_without_reports_has_pages_all_the_same(make_world: Callable[..., World]) -> None:
    world = make_world()
    assert "No report has arrived yet" in world.get("/").text
    assert "No round yet" in world.get("/plans/app-usage").text
    for metric in ("editor_seconds", "editor_spread"):
        answer = world.get(f"{METRIC}/{metric}")
        assert answer.status == 200
        assert "No estimate yet" in answer.text


def test_an_even_fleet_hears_nothing_of_it(world: World) -> None:
    for page in ("/health", f"{METRIC}/starts", f"{METRIC}/editor_spread", "/"):
        assert UNEVEN not in world.get(page).text
    for name in ("starts", "editor_spread"):
        balance = world.results.estimates(Selection("app-usage", name, every="round"))[1].balance
        assert balance is not None
        assert balance.even
        assert 1e-6 <= balance.p_value <= 1


def gathered(world: World, number: int, seal: bool, segment: dict[str, str], cohort: int = 3) -> None:
    layout, key = Layout(world.plan), RoundKey("app-usage", 1, number)
    bits = bytes(world.plan.report_bytes)
    reports = [
        Report(
            "app-usage",
            1,
            number,
            bytes([7, number % 256, *place.to_bytes(14, "big")]),
            bits,
            cohort,
            segment,
        )
        for place in range(300)
    ]
    world.store.append({key: b"".join(map(layout.pack, reports))})
    if seal:
        world.store.seal(key)


def test_the_pages_point_at_the_newest_uneven_round(make_world: Callable[..., World]) -> None:
    world = make_world()
    number = world.plan.round_at(world.now) - 1
    gathered(world, number - 1, True, {"os": "linux", "channel": "beta"})
    gathered(world, number, False, {"os": "linux", "channel": "beta"})
    uneven = world.results.uneven(4)
    assert [(one.metric.name, one.round, one.state) for one in uneven] == [
        ("editor_spread", number, "open"),
        ("starts", number, "open"),
    ]
    page = world.get("/health")
    assert any("Cohorts" in text for text in page.page.texts if text.startswith("Needs attention"))
    assert page.text.count(UNEVEN) == 2
    assert "row 3 of the Hadamard matrix (300, 9 expected)" in page.text
    links = [address for address in page.page.addresses if "?every=round" in address]
    assert [link.partition("?")[0] for link in links] == [f"{METRIC}/editor_spread", f"{METRIC}/starts"]
    for address in links:
        answer = world.get(address)
        assert UNEVEN in answer.text
        assert "leave no trace" in answer.text
    balance = uneven[1].balance
    assert balance is not None
    window = world.plan.by_name["starts"].mechanism.rows_of(3)
    assert {row["row"] for row in balance.to_dict()["over"]} == set(window)
    assert UNEVEN not in world.get(f"{METRIC}/editor_seconds").text, "a mean cannot show it"


def test_a_segment_is_held_against_chance_by_itself(make_world: Callable[..., World]) -> None:
    """Whoever gathers may claim a tag too: in the whole fleet it may drown, in the segment it does not."""
    world = make_world()
    number = world.plan.round_at(world.now) - 2
    gathered(world, number, True, {"os": "linux", "channel": "beta"})
    assert UNEVEN in world.get(f"{METRIC}/starts?every=round&segment=os:linux").text
    nobody = world.get(f"{METRIC}/starts?every=round&segment=os:macos")
    assert (nobody.status, UNEVEN in nobody.text) == (200, False)


def test_the_health_page_is_there_when_the_store_is_not(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the page to look at when something is wrong."""
    world = make_world()

    def broken(*arguments: object) -> None:
        raise StoreError("gone")

    monkeypatch.setattr(world.store, "rounds", broken)
    answer = world.get("/health")
    assert answer.status == 200
    assert '<dt>Cohorts</dt><dd class="value">unknown</dd>' in answer.text
    assert not any("Cohorts" in text for text in answer.page.texts if text.startswith("Needs attention"))


def test_a_version_that_spreads_is_not_taken_for_missing_reports(make_world: Callable[..., World]) -> None:
    """Most devices still answer the older version in the same round."""
    world = make_world(MINUTES)
    newer = Plan.from_toml(MINUTES.replace("version = 1", "version = 2"))
    world.store.register(newer)
    last = world.plan.round_at(world.now) - 1
    for number in range(last - 4, last + 1):
        for plan, devices in ((world.plan, 40), (newer, 5)) if number == last else ((world.plan, 45),):
            world.answer(SdkFleet(plan, devices, seed=3), number, {"minutes": [100] * devices})
    assert not [text for text in world.get("/").page.texts if text.startswith(HINTS)]
    assert "45 devices answered in the round" in world.get("/").text
    assert "Last sealed round: 45 reports. Usual: 45." in world.get("/health").page.texts
    assert world.get("/plans/app-usage").text.count("40 reports, sealed, version 1") == 2, (
        "a bar, in both sizes"
    )
