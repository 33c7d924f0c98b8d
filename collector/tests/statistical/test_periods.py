"""Days of simulated fleets, read as people read them: intervals hold the truth, and what is no change is none."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom
from tests.shared.periods import PLANS, TRUTHS, count_misses

from reticent.mechanisms import OneBitMean
from reticent.plan import Answers, Metric, Plan
from reticent_collector.counts import MeanCounts
from reticent_collector.estimates import difference
from reticent_collector.results import is_clear


@pytest.mark.parametrize("answers", PLANS)
def test_days_are_covered_and_a_change_that_is_none_is_not_clear(
    answers: str, misses_allowed: Callable[..., int]
) -> None:
    """
    False-alarm rate 1e-6 for each figure. Where answers are remembered, the root of the number of rounds is refused.

    All devices change places at midnight: a day's rounds share their noise, two days do not.
    """
    days = 150 if answers == "remembered" else 60
    misses = count_misses(answers, "day", devices=400, days=2, repetitions=days, bits=3)
    for metric in TRUTHS:
        assert misses[metric] <= misses_allowed(days)
        assert misses[f"{metric} alarms"] <= misses_allowed(days)
    if answers == "remembered":
        assert misses["swaps by root"] > misses_allowed(days)
        assert misses["swaps alarms by root"] > misses_allowed(days)


def test_false_alarms_between_two_periods_of_sampled_answers_are_few() -> None:
    """Computed exactly, for 30 and 25 reports with the same chance of a 1: no sampling, no false alarm of the test."""
    metric = Metric("mean", OneBitMean(1, 1))
    plan = Plan("p", 1, 21_600, 21_600, (metric,), answers=Answers(window=4))
    alarms = np.zeros((31, 26), dtype=bool)
    for place in np.ndindex(alarms.shape):
        later, earlier = {20: MeanCounts(30, place[0])}, {16: MeanCounts(25, place[1])}
        alarms[place] = is_clear(difference(metric, later, earlier, plan=plan))
    rates = [
        float(binom.pmf(np.arange(31), 30, chance) @ alarms @ binom.pmf(np.arange(26), 25, chance))
        for chance in np.linspace(0.01, 0.99, 99)
    ]
    assert 0 < max(rates) <= 0.05
