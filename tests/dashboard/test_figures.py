from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reticent.dashboard.asking import NotHereError
from reticent.dashboard.figures import Figures
from reticent.estimates import cumulative
from reticent.lab.fleet import SdkFleet
from reticent.plan import Plan
from reticent.results import LruCache, Results


class Watched(Results):
    """A reader that notes which rounds it had to estimate."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked: list[list[int]] = []

    def estimates(self, plan: str, metric: Any = None, rounds: Any = None, *rest: Any, **more: Any) -> Any:
        self.asked.append(list(rounds))
        return super().estimates(plan, metric, rounds, *rest, **more)


def test_sealed_rounds_are_estimated_once_and_open_ones_each_time(world: Any) -> None:
    reader = Watched(world.store, lambda: world.now)
    figures = Figures(reader)
    first = figures.points(world.plan, "editor_seconds", 60, 95)
    again = figures.points(world.plan, "editor_seconds", 60, 95)
    assert again == first
    open_rounds = [point.round for point in first if point.provisional]
    assert len(reader.asked[0]) == 11
    assert reader.asked[1] == open_rounds == [first[0].round]
    figures.points(world.plan, "editor_seconds", 60, 99)
    assert len(reader.asked[2]) == 11, "another confidence is another estimate"


def test_points_are_the_readers_estimates(world: Any) -> None:
    figures = Figures(world.reader)
    for metric in ("editor_seconds", "editor_spread"):
        points = figures.points(world.plan, metric, 60, 90, by="os")
        found = world.reader.estimates("app-usage", metric, last=60, by="os", confidence=0.9)
        assert [(point.round, point.segment, point.state) for point in points] == [
            (each.round, each.segment, each.state) for each in found
        ]
        for point, each in zip(points, found, strict=True):
            truth = each.estimate if metric == "editor_seconds" else cumulative(each.estimate).quantile(0.5)
            assert point.figure == truth


def test_a_round_that_is_sealed_in_between_is_read_again(make_world: Callable[..., Any]) -> None:
    world = make_world()
    fleet = SdkFleet(world.plan, 60, seed=3)
    values = {metric.name: [1.0] * 60 for metric in world.plan.metrics}
    number = world.plan.round_at(world.now) - 1
    world.answer(fleet, number, values, seal=False)
    figures = Figures(world.reader)
    (before,) = figures.points(world.plan, "editor_seconds", 5, 95)
    (key,) = [info.key for info in world.store.rounds()]
    world.store.seal(key)
    (after,) = figures.points(world.plan, "editor_seconds", 5, 95)
    assert (before.state, after.state) == ("open", "sealed")
    assert before.figure == after.figure


def test_versions_without_a_segment_are_left_out_of_a_comparison(make_world: Callable[..., Any]) -> None:
    old = """
[plan]
name = "app-usage"
version = 1
round = "6h"
[metrics.minutes]
kind = "mean"
max_value = 360
epsilon = 1.0
"""
    world = make_world(old)
    newer = Plan.from_toml(
        old.replace("version = 1", "version = 2") + '[segments]\nos = ["linux", "macos"]\n'
    )
    world.store.register(newer)
    now = world.plan.round_at(world.now)
    for plan, number in ((world.plan, now - 3), (newer, now - 2)):
        fleet = SdkFleet(plan, 40, seed=1, segments=[{"os": "linux"}] * 40)
        world.answer(fleet, number, {"minutes": [100] * 40})
    figures = Figures(world.reader)
    assert [point.round for point in figures.points(newer, "minutes", 9, 95)] == [now - 2, now - 3]
    assert [point.round for point in figures.points(newer, "minutes", 9, 95, by="os")] == [now - 2]
    assert world.get("/plans/app-usage/metrics/minutes?by=os").status == 200
    assert "version 2" in world.get("/plans/app-usage/metrics/minutes").text
    assert world.get("/plans/app-usage.json").json()["versions"] == [2, 1]


def test_memory_is_bounded() -> None:
    known: LruCache[int] = LruCache(most=3)
    for key in range(5):
        known.put(key, key)
        known.get(0)
    assert [known.get(key) for key in range(5)] == [0, None, None, 3, 4]


def test_an_unknown_plan_is_not_here(world: Any) -> None:
    with pytest.raises(NotHereError, match="no plan called “nope”"):
        Figures(world.reader).plan("nope")
