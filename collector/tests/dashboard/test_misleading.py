"""Five stores whose pages once led readers to wrong conclusions: what the pages say of them is true."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from collector.tests.dashboard.test_pages import table_of
from tests.shared import misleading
from tests.shared.misleading import DAY, MONDAY

from reticent.plan import Plan
from reticent_collector.dashboard import labels
from reticent_collector.stores import Store

PAGE = "/plans/app/metrics"


@pytest.fixture
def make(make_world: Callable[..., Any]) -> Callable[..., Any]:
    """A world with one of the stores, some days after its Monday."""

    def made(fill: Callable[[Store], Any], plan: Plan, days: float) -> Any:
        world = make_world(plan.text, now=MONDAY + days * DAY)
        world.truth = fill(world.store)
        return world

    return made


def headline(text: str) -> tuple[float, float]:
    """The large figure of a page, and its ±."""
    value, half_width = re.search(r"<strong>([\d.]+) ± ([\d.]+)</strong>", text).groups()  # type: ignore[union-attr]
    return float(value), float(half_width)


def groups(world: Any, path: str = "/") -> dict[str, list[str]]:
    """The metrics of the overview, by the group in which they are."""
    parts = re.split(r"<h3>", world.get(path).text)[1:]
    return {
        re.match(r"[A-Za-z ]+", part)[0].strip(): re.findall(r'<th scope="row"><a [^>]*>(\w+)</a>', part)  # type: ignore[index]
        for part in parts
    }


def test_an_upgrade_of_the_plan_does_not_make_a_part_of_the_fleet_the_fleet(make: Callable[..., Any]) -> None:
    """Nobody changes; those with large values take up version 2 first."""
    world = make(misleading.upgrade, misleading.UPGRADE[0], 18)
    world.now += 8 * DAY  # days take late reports for a week
    path = f"{PAGE}/minutes?every=day"
    text = world.get(path).text
    value, half_width = headline(text)
    assert abs(value - world.truth) < half_width
    _, rows = table_of(world.get(path).page)
    assert len(rows) == len({row[0] for row in rows}) == 17, "no day is there twice"
    for row in rows:
        value, half_width = map(float, row[1].split(" ± "))
        assert abs(value - world.truth) < half_width
    assert text.count('class="middle"') == 2, "one line, in both sizes"
    assert "other parameters" not in text
    assert "minutes" not in groups(world, "/?every=day").get("Clear changes", [])

    apart = world.get(f"{path}&version=2")
    value, half_width = headline(apart.text)
    assert value - half_width > world.truth, "the eager ones have more"
    assert "Version 2 of the plan alone: devices that answer another version are not in these" in apart.text
    assert "version 2 of the plan alone" in world.get(f"{PAGE}/minutes.svg?every=day&version=2").text


def test_a_week_with_other_parameters_or_without_days_says_that_it_is_not_whole(
    make: Callable[..., Any],
) -> None:
    world = make(misleading.partial_weeks, misleading.PARTIAL[0], 60)
    page = world.get(f"{PAGE}/minutes").page
    _, rows = table_of(page)
    weeks = [
        labels.period(MONDAY + 7 * week * DAY, MONDAY + 7 * (week + 1) * DAY, "week") for week in range(4)
    ]
    seen = {(row[0].partition("parameters")[0].strip(), row[4]): row for row in rows}

    def value(week: int, state: str) -> float:
        return float(seen[weeks[week], state][1].split(" ± ")[0])

    assert value(2, "sealed") == pytest.approx(4 / 7 * 40 + 3 / 7 * 80, abs=2)
    assert value(1, "sealed4 of 7 days") == pytest.approx(40, abs=2)
    assert value(1, "sealed3 of 7 days") == pytest.approx(80, abs=2)
    assert seen[weeks[1], "sealed3 of 7 days"][0].endswith("parameters of version 1")
    assert (weeks[3], "sealed3 of 7 days") in seen
    text = world.get(f"{PAGE}/minutes").text
    assert "Incomplete: this figure is made of 3 of 7 days" in text
    assert "other parameters from version 2" in text
    hollow = [tag for tag in page.all("circle") if tag.get("class") == "dot open"]
    assert len(hollow) == 2 * 3, "in both sizes"


def test_a_slow_rise_is_found(make: Callable[..., Any]) -> None:
    """No week differs clearly from the one before."""
    world = make(misleading.slow_rise, misleading.RISING, 37 * 7 + 14)
    found = groups(world)
    assert found["Clear changes"] == ["feature", "memory"]
    assert found["No clear change"] == ["minutes"]
    text = world.get("/").text
    assert re.search(r"rises since \d+ \w+ \d+: ↑ 11\.\d ± 2\.\d percentage points against \d+ \w+ \d+", text)
    page = world.get(f"{PAGE}/feature?against=before").text
    assert "no clear change" in page
    assert "rises since" in page
    assert "rises since" not in world.get(f"{PAGE}/minutes").text


def test_weekends_are_no_change(make: Callable[..., Any]) -> None:
    """Neither on a Sunday, by days, nor on a Monday, when the headline is a week."""
    world = make(misleading.weekends, misleading.WEEKENDS, 140)
    for world.now in (MONDAY + (140 + 8.0) * DAY, MONDAY + (140 + 14.0) * DAY):
        for path in ("/", "/?every=day"):
            assert groups(world, path) == {"No clear change": ["minutes", "feature"]}
    words = world.get(f"{PAGE}/minutes").text
    value, half_width = headline(words)
    assert abs(value - (5 * 50 + 2 * 30) / 7) < half_width, "a week, not a Sunday"
    assert "no clear change" in world.get(f"{PAGE}/minutes?every=day").text
    friday = labels.address(MONDAY + 137 * DAY, "day")
    against_friday = world.get(f"{PAGE}/minutes?every=day&against={friday}").text
    assert re.search(r"↓ [\d.]+ ± [\d.]+ minutes: clear change", against_friday)


def test_versions_of_a_program_are_compared_in_the_same_rounds(make: Callable[..., Any]) -> None:
    """Weeks that lie a month apart are not set side by side: everybody had fewer minutes from the fifth week on."""
    world = make(misleading.versions, misleading.TAGS, 80)

    def row(metric: str, tag: str = "2.3") -> str:
        page = world.get(f"{PAGE}/{metric}?by=version&baseline=2.2").page
        (said,) = [row for row in page.rows if row[0] == tag and len(row) == 4]
        return str(said[3])

    assert re.match(r"↑ [678](\.\d)? ± \d(\.\d)? percentage points: clear difference", row("crashed"))
    assert "no clear difference" in row("minutes")
    assert row("minutes", "2.2") == "baseline"
    text = world.get(f"{PAGE}/minutes?by=version").text
    assert "is not the effect of a version" in text
