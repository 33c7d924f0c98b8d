"""Figures 4 and 6: errors against the formulas (MATHS.md 2), and verdicts that follow from what is measured."""

from dataclasses import replace
from math import exp, pi, sqrt

import numpy as np
import pytest

from reticent_lab.fleet import Constant, TruncatedNormal
from reticent_paper import means
from reticent_paper.claims import DAY, EPSILONS, ClaimVerdict, Setting
from reticent_paper.fleet_counts import Tally

TINY = Setting(seed=5, repetitions=200, fleets=(300, 2_000), days=4)
USAGE = Setting(seed=3, repetitions=1_500, fleets=(3_000, 10_000, 100_000), days=3)
SYNTHETIC = Setting(seed=3, repetitions=600, fleets=(3_000,), days=3)
HOLDS, CONDITION, CORRECTED = ClaimVerdict.HOLDS, ClaimVerdict.CONDITION, ClaimVerdict.CORRECTED


def deviation(name: str, epsilon: float, tally: Tally) -> float:
    """√Var = √( (m²c²/4 - (x̄ - m/2)² - V) / n ), c = coth(ε/2)/(1-2γ); Laplace: √(2/n) m/ε."""
    if name == "Laplace":
        return sqrt(2 / tally.total) * DAY / epsilon
    scale = (exp(epsilon) + 1) / (exp(epsilon) - 1) / (1 - 2 * float(means.FLIPS[name].probability))
    return sqrt((DAY**2 * scale**2 / 4 - (tally.mean - DAY / 2) ** 2 - tally.variance) / tally.total)


def test_the_formula_gives_the_numbers_of_the_paper_s_size():
    at = {value: Tally(np.array([value]), np.array([300_000])) for value in (0, DAY // 2)}
    assert round(deviation("1BitRRPM", 1.0, at[0])) == 151
    assert round(deviation("1BitRRPM", 1.0, at[DAY // 2])) == 171


@pytest.mark.parametrize(
    "values", [[0], [DAY // 2], [0, 50, 900, 5_000, *range(7_000, DAY, 9_000)]], ids=["0", "half", "spread"]
)
def test_mean_absolute_errors_are_those_of_a_normal_law(values):
    """
    E|error| = √(2/π)·σ and its deviation √(1-2/π)·σ, with n = 300,000 so that the law is normal to 1e-3.

    3,000 repetitions know a mean to 1.4 %: 5.6 standard errors at 28 points, a false alarm below 1e-6.
    """
    tally = Tally(np.array(values), np.full(len(values), 300_000 // len(values)))
    panel = means.measure("", (tally,), DAY, replace(TINY, repetitions=3_000), f"test {len(values)}")
    for name, line in panel.lines.items():
        for epsilon, spread in line.items():
            sigma = deviation(name, epsilon, tally)
            assert abs(spread.mean - sqrt(2 / pi) * sigma) < 5.6 * spread.uncertainty + 2e-3 * sigma
            assert spread.deviation == pytest.approx(sqrt(1 - 2 / pi) * sigma, rel=0.15)
            assert abs(spread.mean - sqrt(2 / pi) * 1.15 * sigma) > 5.6 * spread.uncertainty


def test_a_figure_has_every_point():
    result = means.figure_4(TINY)
    (table,), (picture,) = result.tables, result.pictures
    expected = {(name, eps) for name in (*means.FLIPS, "Laplace") for eps in EPSILONS}
    assert {row[0] for row in table.rows} == {"n = 300", "n = 2,000"}
    assert {(row[2], row[3]) for row in table.rows} == expected
    assert len(table.rows) == 2 * len(expected)
    assert len(picture.draw().axes) == 2


def test_a_seed_repeats_and_another_does_not():
    setting = replace(TINY, repetitions=20, days=1)
    first = means.figure_6(setting).tables
    means.measure.cache_clear()
    assert first == means.figure_6(setting).tables
    assert first != means.figure_6(replace(setting, seed=6)).tables


def test_another_population_takes_the_place_of_the_stand_in():
    setting = replace(TINY, fleets=(500,), populations=(TruncatedNormal(DAY),))
    (panel,) = means.chart.on_usage_data(means.measure, "fig4", setting)
    assert panel.truth == pytest.approx(DAY / 2, rel=0.02)


@pytest.fixture(scope="module")
def usage():
    return means.chart.on_usage_data(means.measure, "fig4", USAGE)


def on_usage(panels):
    return [claim.verdict for claim in means.usage_claims(panels)]


def test_the_verdicts_of_usage_data(usage):
    """
    From the formulas: near x = 0 one bit is better than Laplace at every ε; with a flip of 1/10, sd √0.14·m
    against √2·m/10 at ε = 10 is 2.6 times worse; a flip of 1/3 replaces the value.
    """
    better, narrower, comparable, uniform, tolerable = means.usage_claims(usage)
    assert (better.verdict, narrower.verdict) == (HOLDS, HOLDS)
    assert comparable.verdict is CONDITION
    assert comparable.condition.startswith("not at ε = 10 (2.")
    assert uniform.verdict is CORRECTED
    assert "replaced with probability 2/3" in uniform.condition
    assert (tolerable.verdict, tolerable.condition != "") == (ClaimVerdict.OPEN, True)


def test_doctored_usage_turns_the_verdicts(usage, doctor):
    assert on_usage(doctor(usage, "Laplace", 0.1))[:3] == [CORRECTED] * 3
    assert on_usage(doctor(usage, "Laplace", {5.0: 0.1}))[:2] == [CONDITION] * 2
    assert on_usage(doctor(usage, "1BitRRPM+OP(1/10)", 0.3))[2] is HOLDS
    for truth, words in ((1e6, ""), (1e-3, "not at any point")):
        tolerable = means.usage_claims([replace(panel, truth=truth) for panel in usage])[4]
        assert (tolerable.verdict, tolerable.condition) == (ClaimVerdict.OPEN, words), (
            "their data are not public"
        )


def test_uniform_noise_is_recognised_either_way(usage):
    """Errors as they would be, had uniform noise been added to the values: e² + (2/π)·m²/(12 n)."""
    flipped, added = "1BitRRPM+OP(1/3)", []
    for panel in usage:
        variance = 2 / pi * DAY**2 / 12 / panel.devices
        line = {
            epsilon: replace(spread, mean=sqrt(spread.mean**2 + variance))
            for epsilon, spread in panel.lines["1BitRRPM"].items()
        }
        added.append(replace(panel, lines={**panel.lines, flipped: line}))
    assert on_usage(added)[3] is HOLDS
    neither = [replace(panel, lines={**panel.lines, flipped: panel.lines["Laplace"]}) for panel in usage]
    assert "neither" in means.usage_claims(neither)[3].condition


@pytest.fixture(scope="module")
def synthetic():
    panels = means.chart.on_synthetic_data(means.measure, "fig6", SYNTHETIC)
    return panels, means.chart.on_usage_data(means.measure, "fig4", SYNTHETIC)[0]


def on_synthetic(panels, reference):
    return [claim.verdict for claim in means.synthetic_claims(panels, reference)]


def test_erratum_22_in_the_middle_of_the_range_one_bit_is_not_better(synthetic):
    """At x = m/2 Laplace has the smaller variance from ε = 2.32 on, 3.5 times less deviation at ε = 10."""
    constant = synthetic[0][0]
    assert constant.ratio("1BitRRPM", "Laplace", 10.0) == pytest.approx(3.5, rel=0.15)
    assert constant.ratio("1BitRRPM", "Laplace", 2.0) == pytest.approx(0.928, rel=0.15)


def test_only_laplace_does_not_see_the_data(synthetic):
    bounded, same = means.synthetic_claims(*synthetic)
    assert (bounded.verdict, same.verdict) == (HOLDS, CONDITION)
    assert same.condition.endswith("for 1BitRRPM, 1BitRRPM+OP(1/10)")


def test_doctored_synthetic_data_turn_the_verdicts(synthetic, doctor):
    panels, reference = synthetic
    assert on_synthetic([reference] * 3, reference)[1] is HOLDS
    doctored = means.synthetic_claims(doctor([reference] * 3, "Laplace", 2.0), reference)[1]
    assert (doctored.verdict, doctored.condition.endswith("for Laplace")) == (CONDITION, True)
    assert on_synthetic(doctor(panels, "1BitRRPM", 9.0), reference)[0] is CONDITION


def test_figure_4_is_about_three_counters():
    """The error is averaged over all days of all counters, and the truth is the mean of their means."""
    setting = replace(
        TINY, fleets=(500,), days=2, populations=(Constant(DAY, 0), Constant(DAY, 600), Constant(DAY, 1200))
    )
    (panel,) = means.chart.on_usage_data(means.measure, "fig4", setting, 3)
    assert panel.truth == 600
    assert panel.lines["Laplace"][1.0].runs == 3 * 2 * setting.repetitions
