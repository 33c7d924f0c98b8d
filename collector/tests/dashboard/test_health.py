"""The page of the collector itself: which numbers call for a look, and who sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from collector.tests.dashboard.conftest import FIRST, PLAN, Page, World, fill

from reticent_collector.http import Health, KeyTraffic
from reticent_collector.http.history import History, HistorySlot, merged
from reticent_collector.results import Selection
from reticent_lab.demo_page import Truth, demo_page
from reticent_lab.fleet import SdkFleet

QUIET = Health("0.1.0", "memory:", 86_400.0, accepted=1000, commit_p99_ms=3.0, queue=1)
KEY = KeyTraffic("1f2e3d4c", "phones", "ingest", True, 30, 750, 4, 0, reports_lately=600)
Seen = Callable[..., Page]


@pytest.fixture
def seen(world: World) -> Any:
    """The page of a collector's health."""
    usual = world.health

    def look(**changes: Any) -> Page:
        world.health = replace(QUIET, **changes)
        return world.get("/health").page

    yield look
    world.health = usual


def needs_attention(page: Page) -> str:
    """The numbers that the page points out."""
    return "".join(text for text in page.texts if text.startswith("Needs attention: "))


def row(page: Page, begins: str) -> list[str]:
    return next(row for row in page.rows if row and row[0].startswith(begins))


@pytest.mark.parametrize(
    ("change", "worries"),
    [
        ({}, []),
        ({"rejected": {"late": 10}}, []),
        ({"rejected": {"late": 11}}, ["Late"]),
        ({"duplicate": 112}, ["Duplicate"]),
        ({"rejected": {"malformed": 6, "early": 6}}, ["Rejected"]),
        ({"commit_p99_ms": 1001}, ["Commit"]),
        ({"queue": 10_001}, ["Waiting"]),
        ({"commit_p99_ms": 1900, "rejected": {"late": 100}}, ["Late", "Commit"]),
        ({"keys": (replace(KEY, limited=9),)}, []),
        ({"keys": (KEY, replace(KEY, limited=9, limited_lately=1))}, ["Over the rate"]),
    ],
)
def test_what_calls_for_a_look(seen: Seen, change: dict[str, Any], worries: list[str]) -> None:
    page = seen(**change)
    assert (f"Needs attention: {', '.join(worries)}." in page.texts) is bool(worries)
    assert any("itself needs no attention" in text for text in page.texts) is not bool(worries)


def test_a_share_is_of_all_that_came_and_codes_are_listed_by_frequency(seen: Seen) -> None:
    page = seen(accepted=80, rejected={"late": 9, "malformed": 10, "early": 1})
    assert {"9 (9 %)", "11 (11 %)"} <= set(page.texts)
    assert [cells[0] for cells in page.rows if cells[0] in ("late", "malformed", "early")] == [
        "malformed",
        "late",
        "early",
    ]


def test_each_key_is_a_line_with_its_share_and_the_busiest_are_shown(seen: Seen) -> None:
    other = replace(KEY, id="5a6b7c8d", active=False, label="", reports=250, reports_lately=0, limited=9)
    page = seen(keys=(KEY, other), rate=5.0)
    assert row(page, "1f2e3d4c")[1:5] == ["750", "75 %", "2", "100 %"]
    assert "ingest, revoked" in row(page, "5a6b7c8d")[0]
    assert row(page, "5a6b7c8d")[1:4] == ["250", "25 %", "0"]
    page = seen(keys=(KEY,), uptime_seconds=60.0)
    assert row(page, "1f2e3d4c")[3] == "10", "a collector that just started divides by the time it had"
    page = seen(keys=tuple(replace(KEY, id=f"{place:08x}") for place in range(1000)))
    assert any(text.startswith("950 other keys") for text in page.texts)


def test_rounds_are_held_against_the_usual_and_small_ones_are_not_told(
    make_world: Callable[..., World],
) -> None:
    text = PLAN.replace("min_reports = 1", "min_reports = 20")
    world = make_world(text, now=(FIRST + 8) * 21_600 + 1800.0)
    fill(world, devices=40, rounds=8)
    small = SdkFleet(world.plan, 7, seed=1, segments=[{}] * 7)
    world.answer(small, FIRST - 1, {metric.name: [1] * 7 for metric in world.plan.metrics})
    text = world.get("/health").text
    assert "Seal delay" not in needs_attention(world.get("/health").page)
    assert "Last sealed round: 40 reports. Usual: 40." in text
    assert "7 reports" not in text, "fewer than 20 are not told"
    world.now += 21_600 + 3600
    page = world.get("/health").page
    assert "Seal delay" in needs_attention(page)


def test_the_last_day_is_shown_slot_by_slot(seen: Seen) -> None:
    slots = (HistorySlot(1_790_000_400, 70, 2, 3, 1, 2.5), HistorySlot(1_790_001_000, 90))
    page = seen(history=slots)
    assert {"160 in all", "3 in all", "longest 2 s"} <= set(page.texts)


def test_slots_of_workers_add_up_and_a_day_is_kept() -> None:
    first, second = History(), History()
    for minute in range(3000):
        first.note(60.0 * minute, seal_delay=1.0, accepted=minute, late=0)
        second.note(60.0 * minute, accepted=2 * minute, late=minute)
    slots = merged([first.slots, second.slots])
    assert len(slots) == 144
    assert {(slot.accepted, slot.late, slot.seal_delay) for slot in slots} == {(30, 10, 1.0)}
    assert [slot.start for slot in slots] == [600 * place for place in range(300 - 144, 300)]


def test_a_truth_above_or_below_its_interval_is_outside(world: World) -> None:
    """Of the demo's page; half of the figures of a round are given a truth that they hold."""
    for far in (-1e9, 1e9):
        truths, held = {}, 0
        for result in world.results.estimates(Selection("app-usage", rounds=[FIRST])):
            buckets = getattr(result.estimate, "buckets", None)
            held += 0 if buckets else 1
            truths[result.metric.name] = [far] * len(buckets) if buckets else [result.estimate.lower]
        shown = demo_page(world.results, [Truth(FIRST, truths)]).shown
        assert shown["inside"] == held == 2
        assert shown["figures"] == 2 + 16 + 5
