"""Simulated values follow the laws they are named after, and are repeatable and in range."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from reticent.errors import ParameterError
from reticent_lab.fleet import AgeInDays, Constant, Population, TruncatedNormal, Uniform, population
from reticent_lab.fleet.population import POPULATIONS

BLOCK = 1 << 16
"""Devices that are drawn together."""
ALL = [population(name, 86_400) for name in POPULATIONS]
FALSE_ALARM = 1e-8
"""Of one goodness-of-fit test; seeds are fixed, so none of them flickers."""


@pytest.mark.parametrize("source", ALL, ids=POPULATIONS)
def test_values_are_whole_in_range_and_repeat_with_the_state_of_the_generator(source: Population) -> None:
    generator = np.random.default_rng(1)
    first, second = source.values(2000, 3, generator), source.values(2000, 3, generator)
    again = source.values(2000, 3, np.random.default_rng(1))
    assert first.shape == (3, 2000)
    assert first.dtype == np.int32
    assert first.min() >= 0
    assert first.max() <= 86_400
    assert (first == again).all()
    assert (first != second).any() or source.name == "constant"


@pytest.mark.parametrize("source", ALL, ids=POPULATIONS)
def test_no_devices_and_no_rounds_are_an_empty_array(source: Population) -> None:
    assert source.values(0, 3, np.random.default_rng(1)).shape == (3, 0)
    assert source.values(3, 0, np.random.default_rng(1)).shape == (0, 3)


def test_blocks_are_drawn_independently() -> None:
    """Devices of two blocks at the same place share nothing: their correlation is within 5.6 / sqrt(n)."""
    values = Uniform(10**6).values(2 * BLOCK, 1, np.random.default_rng(2))[0]
    one, other = values[:BLOCK], values[BLOCK:]
    assert abs(np.corrcoef(one, other)[0, 1]) < 5.6 / np.sqrt(BLOCK)
    assert np.corrcoef(one, one)[0, 1] > 0.99


def test_names_are_sorted_and_an_unknown_one_is_told_all_of_them() -> None:
    assert list(POPULATIONS) == sorted(source.name for source in ALL)
    with pytest.raises(ParameterError, match="expected one of age-in-days, constant, editor"):
        population("gaussian", 60)


@pytest.mark.parametrize("top", [0, -3, 1.5, 2**31])
def test_a_range_that_is_none_is_refused(top: float) -> None:
    with pytest.raises(ParameterError, match="max_value"):
        population("uniform", top)
    with pytest.raises(ParameterError, match="max_value"):
        Uniform(top)  # type: ignore[arg-type]


def fits(values: np.ndarray, expected: np.ndarray) -> bool:
    """Chi-square of whole values against expected probabilities; too good a fit is refused as well."""
    seen = np.bincount(values, minlength=len(expected))
    p = stats.chisquare(seen, expected / expected.sum() * len(values)).pvalue
    return bool(FALSE_ALARM < p < 1 - FALSE_ALARM)


def test_uniform_gives_every_whole_number_alike() -> None:
    values = Uniform(9).values(100_000, 1, np.random.default_rng(3))[0]
    assert fits(values, np.ones(10))
    without_top = np.ones(11)
    assert not fits(np.minimum(values, 8), np.ones(10))
    assert not fits(values, without_top)


def rounded_law(top: int, mean: float, deviation: float) -> np.ndarray:
    """P(k) of a normal law truncated to [0, top] and rounded: differences of its cdf, by scipy."""
    law = stats.truncnorm((0 - mean) / deviation, (top - mean) / deviation, mean, deviation)
    return np.diff(law.cdf(np.concatenate([[0], np.arange(top) + 0.5, [top]])))


def clipped_law(top: int, mean: float, deviation: float) -> np.ndarray:
    law = stats.norm(mean, deviation)
    return np.diff(np.concatenate([[0], law.cdf(np.arange(top) + 0.5), [1]]))


@pytest.mark.parametrize(("mean", "deviation"), [(10, 20 / 12), (4, 6), (20, 3), (0, 30)])
def test_the_truncated_normal_is_truncated_not_clipped(mean: float, deviation: float) -> None:
    values = TruncatedNormal(20, mean, deviation).values(200_000, 1, np.random.default_rng(4))[0]
    law = rounded_law(20, mean, deviation)
    common = law * len(values) > 5
    seen = np.bincount(values, minlength=21)
    p = stats.chisquare(seen[common], law[common] / law[common].sum() * seen[common].sum()).pvalue
    assert p > FALSE_ALARM
    if deviation > 2:
        assert not fits(values, clipped_law(20, mean, deviation))


def test_the_default_normal_is_12_and_2_hours_of_a_day() -> None:
    """Standard errors are 2 h / sqrt(2e5) and 2 h / sqrt(4e5); 6 of them are exceeded once in 5e8."""
    hours = TruncatedNormal(86_400).values(200_000, 1, np.random.default_rng(5))[0] / 3600
    assert hours.mean() == pytest.approx(12, abs=6 * 2 / np.sqrt(2e5))
    assert hours.std() == pytest.approx(2, abs=6 * 2 / np.sqrt(4e5))


@pytest.mark.parametrize("kind", [Uniform, TruncatedNormal])
def test_steady_devices_keep_their_value_and_others_draw_anew(kind: type[Uniform]) -> None:
    steady = kind(1000, steady=True).values(500, 3, np.random.default_rng(6))
    assert (steady == steady[0]).all()
    assert len(set(steady[0].tolist())) > 100
    fresh = kind(1000).values(500, 3, np.random.default_rng(6))
    assert (fresh[0] != fresh[1]).mean() > 0.9


def test_constant_is_the_middle_or_what_is_said() -> None:
    assert set(Constant(61).values(5, 2, np.random.default_rng(1)).ravel().tolist()) == {30}
    assert set(Constant(61, 61).values(5, 2, np.random.default_rng(1)).ravel().tolist()) == {61}
    with pytest.raises(ParameterError, match="value: expected a whole number from 0 to 61"):
        Constant(61, 62)


def test_age_grows_by_one_a_round_and_stops_at_the_top() -> None:
    ages = AgeInDays(50).values(20_000, 40, np.random.default_rng(7))
    assert fits(ages[0], np.ones(51))
    assert (ages[1:] == np.minimum(ages[:-1] + 1, 50)).all()


@pytest.mark.parametrize(("mean", "deviation"), [(-1, 3), (61, 3), (5, 0), (5, -1)])
def test_a_normal_law_out_of_range_is_refused(mean: float, deviation: float) -> None:
    with pytest.raises(ParameterError):
        TruncatedNormal(60, mean, deviation)
