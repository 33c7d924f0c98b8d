"""Uneven cohorts on the pages: said on the metric's and the health page, and only where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from reticent.counts import HistogramCounts
from reticent.dashboard.cohorts import chance, uneven_words
from reticent.errors import StoreError
from reticent.estimates.balance import balance
from reticent.mechanisms import Buckets, DBitFlip, HadamardBit
from reticent.plan import Metric
from reticent.reports import Report
from reticent.stores import Layout, RoundKey

SAID = "than chance gives"
METRIC = "/plans/app-usage/metrics"


def words(metric: Metric, reports: Sequence[int]) -> str:
    found = balance(metric, HistogramCounts(tuple(reports), (0,) * len(reports), metric.bits))
    assert found is not None
    return uneven_words(metric, found)


def test_the_sentence_names_what_is_pushed_or_else_what_lacks() -> None:
    sixteen = Metric("starts", DBitFlip(1, Buckets.even(16, 16), width=1, label="a/b"))
    assert words(sixteen, [1000, *[100] * 15]).startswith(
        "Reports about 0 to 1 (1,000, where 156 are due) are more than chance gives, at odds of 1 in 10"
    )
    four = words(sixteen, [*[1000] * 5, *[100] * 11])
    assert four.count("are due") == 3
    assert "and 2 others are more" in four
    lacking = words(sixteen, [0, *[1000] * 15])
    assert lacking.startswith("Reports about 0 to 1 (0, where 938 are due) are fewer than chance gives")
    rows = Metric("rows", HadamardBit(1, Buckets.even(7, 7)), unit="hour")
    assert words(rows, [100] * 7 + [400]).startswith(
        "Reports about row 7 of the Hadamard matrix (400, where 138"
    )


@pytest.mark.parametrize(
    ("p_value", "said"), [(9.9e-7, "1 in 10⁶"), (1e-9, "1 in 10⁹"), (1e-320, "1 in 10³⁰⁰")]
)
def test_odds_are_never_said_better_than_they_are(p_value: float, said: str) -> None:
    assert chance(p_value) == said


def test_an_even_fleet_hears_nothing_of_it(world: Any) -> None:
    for page in ("/health", f"{METRIC}/starts", f"{METRIC}/editor_spread", "/"):
        assert SAID not in world.get(page).text
    assert world.get("/health.json").json()["uneven"] == []
    for name in ("starts", "editor_spread"):
        found = world.get(f"{METRIC}/{name}.json").json()["histogram"]["balance"]
        assert found["even"]
        assert 1e-6 <= found["p_value"] <= 1
    assert "balance" not in world.get(f"{METRIC}/editor_seconds.json").json()["latest"]


def gathered(world: Any, number: int, seal: bool, segment: dict[str, str], cohort: int = 3) -> None:
    layout, key = Layout(world.plan), RoundKey("app-usage", 1, number)
    bits = bytes(world.plan.report_bytes)
    made = [
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
    world.store.append({key: b"".join(map(layout.pack, made))})
    if seal:
        world.store.seal(key)


def test_the_pages_point_at_the_newest_uneven_round(make_world: Callable[..., Any]) -> None:
    world = make_world()
    number = world.plan.round_at(world.now) - 1
    gathered(world, number - 1, True, {"os": "linux", "channel": "beta"})
    gathered(world, number, False, {"os": "linux", "channel": "beta"})
    twin = world.get("/health.json").json()
    assert [(each["metric"], each["round"], each["state"]) for each in twin["uneven"]] == [
        ("editor_spread", number, "open"),
        ("starts", number, "open"),
    ]
    assert "Cohorts" in twin["worries"]
    page = world.get("/health")
    assert page.text.count(SAID) == 2
    assert "row 3 of the Hadamard matrix (300, where 9 are due)" in page.text
    links = [address for address in page.page.addresses if "?round=" in address]
    assert links == [f"{METRIC}/editor_spread?round={number}", f"{METRIC}/starts?round={number}"]
    for address in links:
        answer = world.get(address)
        assert SAID in answer.text
        assert "leave no trace" in answer.text
    twin = world.get(f"{METRIC}/starts.json").json()["histogram"]["balance"]
    window = world.plan.by_name["starts"].mechanism.window(3)
    assert {row["row"] for row in twin["over"]} == set(window)
    assert SAID not in world.get(f"{METRIC}/editor_seconds").text, "a mean cannot show it"


def test_a_segment_is_held_against_chance_by_itself(make_world: Callable[..., Any]) -> None:
    """Whoever gathers may claim a tag too: in the whole fleet it may drown, in the segment it does not."""
    world = make_world()
    number = world.plan.round_at(world.now) - 2
    gathered(world, number, True, {"os": "linux", "channel": "beta"})
    assert SAID in world.get(f"{METRIC}/starts?segment=os:linux").text
    nobody = world.get(f"{METRIC}/starts?segment=os:macos")
    assert (nobody.status, SAID in nobody.text) == (200, False)


def test_the_health_page_is_there_when_the_store_is_not(
    make_world: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the page to look at when something is wrong."""
    world = make_world()

    def broken(*arguments: object) -> None:
        raise StoreError("gone")

    monkeypatch.setattr(world.store, "rounds", broken)
    answer = world.get("/health")
    assert answer.status == 200
    cohorts = world.get("/health.json").json()
    assert (cohorts["uneven"], "Cohorts" in cohorts["worries"]) == (None, False)
