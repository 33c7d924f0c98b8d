"""Pages of choices, flags and histograms with devices that have no value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from collector.tests.dashboard.test_pages import check_safe

from reticent_lab.fleet import SdkFleet

PLAN = (Path(__file__).parents[3] / "examples" / "commands.toml").read_text()
METRICS = "/plans/tool-usage/metrics"
DEVICES, DAY = 2000, 20_700


@pytest.fixture
def world(make_world: Callable[..., Any]) -> Any:
    """A quarter chose nothing, a fifth crashed, half have a value, all of those below 100."""
    world = make_world(PLAN, now=(DAY + 3) * 86_400.0)
    fleet = SdkFleet(world.plan, DEVICES, 7)
    columns: dict[str, list[object]] = {
        "last_command": [(None, "build", "build", "test")[device % 4] for device in range(DEVICES)],
        "crashed": [device % 5 == 0 for device in range(DEVICES)],
        "start_ms": [(None, 70)[device % 2] for device in range(DEVICES)],
    }
    for day in (DAY, DAY + 1):
        world.answer(fleet, day, columns)
    return world


def test_a_flag_is_a_percentage_on_the_page_and_a_share_in_the_twin(world: Any) -> None:
    page, twin = world.get(f"{METRICS}/crashed").page, world.get(f"{METRICS}/crashed.json").json()
    assert twin["kind"] == "flag"
    assert twin["latest"]["lower"] <= 0.2 <= twin["latest"]["upper"] <= 1
    assert "devices where it happened:" in page.texts
    assert f"{100 * twin['latest']['value']:.1f}" in " ".join(page.texts)
    assert "%" in page.texts
    assert twin["manipulation_bound"]["moves"] < 1, "of a share, not of a percentage"


def test_a_choice_has_a_bar_per_label_and_says_apart_how_many_chose_nothing(world: Any) -> None:
    page, twin = world.get(f"{METRICS}/last_command").page, world.get(f"{METRICS}/last_command.json").json()
    buckets = twin["histogram"]["buckets"]
    names = ["build", "test", "run", "format", "publish", "absent"]
    assert [bucket["label"] for bucket in buckets] == names
    for bucket, share in zip(buckets, (0.5, 0.25, 0, 0, 0, 0.25), strict=True):
        assert bucket["lower"] <= share <= bucket["upper"]
    assert all("bucket_low" not in bucket for bucket in buckets)
    assert [row[0] for row in page.rows if row[0] in names] == names, "the table has all of them"
    assert page.texts.count("build") > 2, "the axis, in two sizes, and the table"
    assert twin["quantiles"] == []
    assert twin["cumulative"] is None
    assert any(text.startswith("of devices (") and "chose nothing" in text for text in page.texts)
    chose = twin["medians"][0]
    assert chose["lower"] <= 0.75 <= chose["upper"]
    assert chose["value"] == pytest.approx(1 - buckets[-1]["value"])


def test_quantiles_are_those_of_devices_with_a_value(world: Any) -> None:
    page, twin = world.get(f"{METRICS}/start_ms").page, world.get(f"{METRICS}/start_ms.json").json()
    assert "median of devices with a value" in page.texts
    absent = twin["histogram"]["buckets"][-1]
    assert absent["label"] == "absent"
    assert absent["lower"] <= 0.5 <= absent["upper"]
    assert twin["cumulative"]["edges"] == [0, 50, 100, 200, 500, 1000, 10_000]
    for place, share in enumerate((0, 0, 1, 1, 1, 1, 1)):
        assert twin["cumulative"]["lower"][place] <= share <= twin["cumulative"]["upper"][place]
    assert all(quantile["lower"] <= 70 <= quantile["upper"] for quantile in twin["quantiles"])
    assert any("had no value" in text for text in page.texts)


@pytest.mark.parametrize("path", ["/", "/plans/tool-usage", f"{METRICS}/last_command", f"{METRICS}/crashed"])
def test_the_pages_are_safe_and_their_twins_are_there(world: Any, path: str) -> None:
    answer = world.get(path)
    assert answer.status == 200
    check_safe(answer.page)
    assert world.get("/index.json" if path == "/" else f"{path}.json").status == 200
