"""Errors of means against the formulas (MATHS.md 2 and docs/reference/estimates.md)."""

from dataclasses import replace
from math import exp, pi, sqrt

import numpy as np
import pytest
from paper.experiment import DAY, EPSILONS, Setting
from paper.fleet_days import stand_in_days
from paper.mean_errors import FLIPS, measure, stand_in_panels, synthetic_panels

from reticent.lab.fleet import TruncatedNormal
from reticent.lab.fleet_counts import Tally

TINY = Setting(seed=5, repetitions=200, fleets=(300, 2_000), days=4)


def deviation(name: str, epsilon: float, tally: Tally) -> float:
    """√Var = √( (m²c²/4 - (x̄ - m/2)² - V) / n ), c = coth(ε/2)/(1-2γ); Laplace: √(2/n) m/ε."""
    if name == "Laplace":
        return sqrt(2 / tally.total) * DAY / epsilon
    scale = (exp(epsilon) + 1) / (exp(epsilon) - 1) / (1 - 2 * float(FLIPS[name].probability))
    return sqrt((DAY**2 * scale**2 / 4 - (tally.mean - DAY / 2) ** 2 - tally.variance) / tally.total)


def test_the_formula_gives_the_figures_of_the_paper_s_size():
    at = {value: Tally(np.array([value]), np.array([300_000])) for value in (0, DAY // 2)}
    assert round(deviation("1BitRRPM", 1.0, at[0])) == 151
    assert round(deviation("1BitRRPM", 1.0, at[DAY // 2])) == 171


@pytest.mark.parametrize("kind", ["nobody", "half a day", "spread"])
def test_mean_absolute_errors_are_those_of_a_normal_law(kind):
    """
    E|error| = √(2/π)·σ and its deviation √(1-2/π)·σ, with n = 300,000 so that the law is normal to 1e-3.

    3,000 repetitions know a mean to 1.4 %: 5.6 standard errors at 28 points, a false alarm below 1e-6.
    """
    values = {
        "nobody": [0],
        "half a day": [DAY // 2],
        "spread": [0, 50, 900, 5_000, *range(7_000, DAY, 9_000)],
    }
    distinct = np.array(values[kind])
    tally = Tally(distinct, np.full(len(distinct), 300_000 // len(distinct)))
    panel = measure(kind, [tally], DAY, replace(TINY, repetitions=3_000), f"test {kind}")
    for name, line in panel.lines.items():
        for epsilon, spread in line.items():
            sigma = deviation(name, epsilon, tally)
            assert abs(spread.mean - sqrt(2 / pi) * sigma) < 5.6 * spread.uncertainty + 2e-3 * sigma
            assert spread.deviation == pytest.approx(sqrt(1 - 2 / pi) * sigma, rel=0.15)
            assert abs(spread.mean - sqrt(2 / pi) * 1.15 * sigma) > 5.6 * spread.uncertainty


def test_fleets_are_random_subsets_of_the_largest():
    small, large = stand_in_days(TINY)
    assert [day.total for day in small] == [300] * 4
    assert [day.total for day in large] == [2_000] * 4
    for few, many in zip(small, large, strict=True):
        there = dict(zip(many.values.tolist(), many.devices.tolist(), strict=True))
        assert all(there[value] >= number for value, number in zip(few.values, few.devices, strict=True))


def test_a_seed_repeats_and_another_does_not():
    setting = replace(TINY, repetitions=20, days=1)
    first = synthetic_panels(setting)
    assert first == synthetic_panels(replace(setting))
    assert first != synthetic_panels(replace(setting, seed=6))


def test_panels_have_every_point_and_progress_is_told():
    told = []
    panels = stand_in_panels(TINY, lambda done, total: told.append((done, total)))
    assert [panel.title for panel in panels] == ["n = 300", "n = 2,000"]
    assert told == [(1, 2), (2, 2)]
    for panel in panels:
        assert list(panel.lines) == [*FLIPS, "Laplace"]
        assert all(tuple(line) == EPSILONS for line in panel.lines.values())
        assert all(spread.runs == 800 for line in panel.lines.values() for spread in line.values())


def test_another_population_takes_the_place_of_the_stand_in():
    (panel,) = stand_in_panels(replace(TINY, fleets=(500,), population=TruncatedNormal(DAY)))
    assert panel.truth == pytest.approx(DAY / 2, rel=0.02)
