from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from reticent.dashboard.views.overview import hints
from reticent.mechanisms import OneBitMean
from reticent.plan import Metric, Plan

HOUR = 3600
PLAN = Plan("p", 1, HOUR, HOUR, (Metric("m", OneBitMean(1, 10)),), expires=date(2027, 1, 1))
NOW = 1_790_000_000 // HOUR * HOUR + 60


def rounds(*reports: int, behind: int = 1, state: str = "sealed") -> list[dict[str, Any]]:
    """Rounds with so many reports, latest first, beginning `behind` rounds before the one under way."""
    first = PLAN.round_at(NOW) - behind
    return [
        {"round": first - place, "end": (first - place + 1) * HOUR, "state": state, "reports": count}
        for place, count in enumerate(reports)
    ]


@pytest.mark.parametrize("behind", [1, 2])
def test_all_is_well_while_the_last_rounds_are_answered(behind: int) -> None:
    assert hints(PLAN, rounds(100, 100, 100, 100, behind=behind), NOW) == []


def test_silence_is_told_after_two_missing_rounds() -> None:
    (said,) = hints(PLAN, rounds(100, 100, behind=3), NOW)
    assert "ended 2 h 1 min ago, 2 are missing" in said


def test_a_sudden_loss_of_devices_is_told() -> None:
    assert hints(PLAN, rounds(51, 100, 100, 100), NOW) == []
    (said,) = hints(PLAN, rounds(49, 100, 100, 100), NOW)
    assert "49 reports; 100 are usual" in said


def test_a_new_plan_and_an_expired_one_say_so() -> None:
    (said,) = hints(PLAN, [], NOW)
    assert said.startswith("No report has come yet")
    last_day, next_day = (1_798_675_200 + 3600, 1_798_761_600 + 3600)
    assert not any("expired" in said for said in hints(PLAN, [], last_day))
    assert any("expired on 2027-01-01" in said for said in hints(PLAN, [], next_day))


def test_a_plan_without_reports_has_pages_all_the_same(make_world: Callable[..., Any]) -> None:
    world = make_world()
    assert "No report has come yet" in world.get("/").text
    assert "No round yet" in world.get("/plans/app-usage").text
    for metric in ("editor_seconds", "editor_spread"):
        answer = world.get(f"/plans/app-usage/metrics/{metric}")
        assert answer.status == 200
        assert "No estimate yet" in answer.text
        assert world.get(f"/plans/app-usage/metrics/{metric}.json").status == 200
