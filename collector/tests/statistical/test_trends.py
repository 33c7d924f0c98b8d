"""How often a page says of a metric that it rises or falls, where nothing changed, and that it does where it must."""

from __future__ import annotations

from collections.abc import Callable
from math import hypot

import numpy as np
import pytest
from tests.shared.periods import Counted

from reticent.plan import Plan
from reticent_collector.counts import MeanCounts
from reticent_collector.estimates import Estimate
from reticent_collector.results import Results, Selection
from reticent_collector.results.difference import Difference
from reticent_collector.results.trend import Trend
from reticent_collector.stores import CountsByTags

MEAN = '[metrics.{name}]\nkind = "mean"\nmax_value = 1\nepsilon = 2.0\n'
NAMES = ("one", "two", "three")
PLAN = Plan.from_toml(
    'min_reports = 1\n[plan]\nname = "fleet"\nversion = 1\nround = "7d"\n'
    + "".join(MEAN.format(name=name) for name in NAMES)
)
DEVICES, WEEKS, PAGES = 40, 17, 40
FIRST = 2_900
COMPARED = 5  # 1, 2, 4, 8 and 16 weeks before
MOST_ALARMS = 7
"""Of so many pages at most, if one in twenty may: P(Bin(40, .05) > 7) < .001."""


def bits(random: np.random.Generator, truth: np.ndarray) -> int:
    channel = PLAN.metrics[0].channel
    low, high = float(channel.low), float(channel.high)
    return int((random.random(len(truth)) < low + (high - low) * truth).sum())


def shown(seed: int, truth: Callable[[int], np.ndarray]) -> Results:
    """A page: the counts of weeks in which each device draws a new answer, since its value changed."""
    random = np.random.default_rng(seed)
    counts: dict[int, CountsByTags] = {
        FIRST + week: {(): {name: MeanCounts(DEVICES, bits(random, truth(week))) for name in NAMES}}
        for week in range(WEEKS)
    }
    return Results(Counted(PLAN, counts), lambda: (FIRST + 100) * 7 * 86_400.0)  # type: ignore[arg-type]


def steady(week: int) -> np.ndarray:
    """The mean stays, while every device has another value each week, so that all noise is new."""
    return 0.45 + 0.1 * ((np.arange(DEVICES) + week) % 2)


def textbook(figure: Estimate, baseline: Estimate) -> bool:
    """What somebody does by hand: each pair at 95 %, its half-widths added as squares."""
    return abs(figure.value - baseline.value) > hypot(figure.half_width, baseline.half_width)


def test_where_nothing_changed_a_page_names_no_trend_in_95_of_100_cases() -> None:
    alarms, by_hand = 0, 0
    for seed in range(PAGES):
        results = shown(seed, steady)
        trends = results.trends(Selection("fleet", every="round"))
        assert len(trends) == len(NAMES)
        alarms += any(trend.direction for trend in trends)
        figures: dict[str, list[Estimate]] = {}
        for result in results.estimates(Selection("fleet", every="round")):
            assert isinstance(result.estimate, Estimate)
            figures.setdefault(result.metric.name, []).append(result.estimate)
        by_hand += any(
            textbook(latest_first[0], latest_first[2**step])
            for latest_first in figures.values()
            for step in range(COMPARED)
        )
    assert alarms <= MOST_ALARMS
    assert by_hand > MOST_ALARMS, "the same comparisons without a correction are refused"


@pytest.mark.parametrize(("metric", "figures"), [(None, 3), ("two", 1)])
def test_all_comparisons_of_all_figures_share_the_error(metric: str | None, figures: int) -> None:
    """Bonferroni: each has an F·K-th of 5 %, so that whatever depends on what, all hold at once."""
    trends = shown(1, steady).trends(Selection("fleet", metric, every="round"))
    for trend in trends:
        assert len(trend.differences) == COMPARED
        assert {one.estimate.confidence for one in trend.differences} == {1 - 0.05 / (figures * COMPARED)}
    fewer = shown(1, steady).trends(Selection("fleet", metric, every="round", last=4))
    assert [len(trend.differences) for trend in fewer] == [2] * figures  # 1 and 2 weeks before


def test_a_rise_is_found_and_said_since_when() -> None:
    def rising(week: int) -> np.ndarray:
        return np.full(DEVICES, week / (WEEKS - 1))

    trend = shown(1, rising).trends(Selection("fleet", every="round"))[0]
    assert trend.direction == "rises"
    assert trend.since is not None
    assert trend.whole is not None
    assert trend.since.baseline.round > trend.whole.baseline.round
    assert trend.whole.estimate.lower > 0  # type: ignore[union-attr]
    falling = shown(1, lambda week: 1 - rising(week)).trends(Selection("fleet", every="round"))[0]
    assert falling.direction == "falls"


def of_ends(*ends: tuple[float, float]) -> Trend:
    """A trend whose last week differs from earlier ones, latest first, by intervals that end so."""
    results = shown(1, steady)
    base = results.trends(Selection("fleet", "one", every="round"))[0].differences
    differences = []
    for one, (lower, upper) in zip(base, ends, strict=True):
        assert isinstance(one.estimate, Estimate)
        values = {name: getattr(one.estimate, name) for name in one.estimate.__dataclass_fields__}
        changed = type(one.estimate)(
            **values | {"value": (lower + upper) / 2, "lower": lower, "upper": upper}
        )
        differences.append(Difference(one.figure, one.baseline, changed))
    return Trend(differences[0].figure, 0, tuple(differences), 0.95)


UP, DOWN, OPEN = (0.1, 0.3), (-0.3, -0.1), (-0.1, 0.1)


@pytest.mark.parametrize(
    ("ends", "direction", "since"),
    [
        ((OPEN, OPEN, OPEN, OPEN, OPEN), None, None),
        ((OPEN, OPEN, UP, UP, UP), "rises", 4),
        ((OPEN, OPEN, DOWN, DOWN, DOWN), "falls", 4),
        ((UP, UP, UP, UP, UP), "rises", 1),
        ((OPEN, OPEN, OPEN, OPEN, UP), "rises", 16),
        ((OPEN, UP, OPEN, OPEN, OPEN), None, None),  # one week was an outlier
        ((OPEN, OPEN, UP, OPEN, UP), "rises", 4),
        ((UP, OPEN, DOWN, DOWN, DOWN), "falls", 4),  # a dip and its end: still below what it was
    ],
)
def test_one_outlier_makes_no_trend(
    ends: tuple[tuple[float, float], ...], direction: str | None, since: int | None
) -> None:
    trend = of_ends(*ends)
    assert trend.direction == direction
    weeks = None if trend.since is None else trend.since.figure.round - trend.since.baseline.round
    assert weeks == since
    assert ("no clear trend" in trend.words) == (direction is None)


def test_a_period_that_is_missing_is_not_compared() -> None:
    random = np.random.default_rng(1)
    counts: dict[int, CountsByTags] = {
        FIRST + week: {(): {name: MeanCounts(DEVICES, bits(random, steady(week))) for name in NAMES}}
        for week in range(WEEKS)
        if week != WEEKS - 1 - 4
    }
    results = Results(Counted(PLAN, counts), lambda: (FIRST + 100) * 7 * 86_400.0)  # type: ignore[arg-type]
    (trend, *_) = results.trends(Selection("fleet", every="round"))
    last = trend.figure.round
    assert [last - one.baseline.round for one in trend.differences] == [1, 2, 8, 16]
    assert trend.to_dict()["compared"] == 4
