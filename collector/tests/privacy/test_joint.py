import time
from itertools import combinations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import ParameterError
from reticent.losses import lifetime_of, loss_for_life
from reticent.mechanisms import Buckets, Flip, HadamardBit, OneBitMean
from reticent.plan import Answers, Metric, Plan
from reticent_collector.privacy import (
    joint_limit_loss,
    loss_of_window,
    loss_per_round,
    losses,
    paper_joint_limit_loss,
    privacy_card,
)


def alike(tau, counters, limit=1, **keywords):
    return joint_limit_loss([OneBitMean(tau, 1)] * counters, [Flip(0)] * counters, limit, **keywords)


TABLE = {
    "0.1": (0.1000, 0.2000, 0.2025, 0.2046, 0.2051, 0.2052),
    "0.5694": (0.5694, 1.1388, 1.2188, 1.3057, 1.3336, 1.3366),
    "0.686": (0.6860, 1.3720, 1.4874, 1.6214, 1.6669, 1.6718),
    "1": (1.0000, 2.0000, 2.2402, 2.5725, 2.7035, 2.7183),
}


@pytest.mark.parametrize("tau", TABLE)
def test_the_table_of_the_notes(tau):
    figures = [alike(tau, counters) for counters in (1, 2, 3, 10, 100)]
    assert [*figures, paper_joint_limit_loss(OneBitMean(tau, 1), Flip(0))] == pytest.approx(
        TABLE[tau], abs=5.1e-5
    )


@pytest.mark.parametrize("counters", [2, 3, 10, 57])
def test_a_limit_of_one_range_by_mpmath(counters):
    mechanism, flip = OneBitMean("0.7", 100), Flip("0.15")
    with mpmath.workdps(50):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf("0.7")))
        g = mpmath.mpf("0.15")
        tau = mpmath.log(((1 - 2 * g) * p + g) / ((1 - 2 * g) * (1 - p) + g))
        rest = counters - 1
        expected = tau + rest * mpmath.log(1 + (mpmath.exp(tau) - 1) / rest)
        figure = mpmath.mpf(joint_limit_loss([mechanism] * counters, [flip] * counters, 100))
        assert expected <= figure <= expected * (1 + mpmath.mpf("1e-15"))


def test_erratum_12_the_printed_joint_bound_is_the_limit_of_many_counters():
    mechanism, flip = OneBitMean(1, 100), Flip("0.2")
    printed = paper_joint_limit_loss(mechanism, flip)
    assert round(printed, 3) == 1.337, "and not 1.672, which inherits erratum 1"
    exact = [joint_limit_loss([mechanism] * t, [flip] * t, 100) for t in (1, 2, 3, 10, 100, 1000)]
    assert exact == sorted(exact)
    assert all(figure < printed for figure in exact)
    assert printed - exact[-1] < 1e-3
    assert exact[1] == pytest.approx(2 * loss_per_round(mechanism, flip), rel=1e-15)


def test_windows():
    apps, flips = [OneBitMean(1, 21_600)] * 10, [Flip("0.2")] * 10
    assert joint_limit_loss(apps, flips, 21_600) == pytest.approx(1.3057, abs=1e-4)
    assert joint_limit_loss(apps, flips, 21_600, rounds="all") == pytest.approx(2.573, abs=6e-4)
    assert alike("0.5694", 10, 2) == pytest.approx(2.54, abs=6e-3)


@pytest.mark.parametrize("counters", [1, 4, 9])
def test_a_limit_that_does_not_bind_is_composition(counters):
    assert alike(1, counters, counters) == counters
    assert alike(1, counters, 10 * counters) == counters


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_different_counters_by_random_search(data):
    """No pair of vectors drawn by chance beats the bound; vertices and even spreads are among them."""
    size = data.draw(st.integers(1, 5))
    tops = data.draw(st.lists(st.integers(1, 20), min_size=size, max_size=size))
    taus = data.draw(st.lists(st.floats(0.05, 4), min_size=size, max_size=size))
    limit = data.draw(st.integers(1, 40))
    mechanisms = [OneBitMean(tau, top) for tau, top in zip(taus, tops, strict=True)]
    figure = joint_limit_loss(mechanisms, [Flip(0)] * size, limit)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    top, tau = np.array(tops, float), np.array(taus)
    low = 1 / (np.exp(tau) + 1)

    def spread(many):
        """Vectors within the ranges and the limit: uneven, sparse and scaled."""
        raw = rng.dirichlet(np.full(size, 0.3), many) * limit
        return np.minimum(raw * rng.choice([1, 1, 0.5, 3], (many, 1)), top)

    x, y = (
        np.where(v.sum(1, keepdims=True) > limit, v * limit / v.sum(1, keepdims=True), v)
        for v in (spread(4000), spread(4000))
    )
    one, other = (low + v / top * (1 - 2 * low) for v in (x, y))
    worst = np.maximum(np.log(one / other), np.log((1 - one) / (1 - other))).sum(1).max()
    assert worst <= figure <= tau.sum() * (1 + 1e-12)


def test_nearly_alike_counters_agree_with_alike_ones():
    """The bound for different counters meets the exact value where both apply."""
    nearly = [OneBitMean(1, 1_000_000)] * 9 + [OneBitMean(1, 1_000_001)]
    for limit in (1_000_000, 3_000_000):
        bound = joint_limit_loss(nearly, [Flip(0)] * 10, limit)
        assert bound == pytest.approx(alike(1, 10, limit // 1_000_000), rel=1e-5)


def test_a_hundred_different_counters_take_little_time():
    mechanisms = [OneBitMean(1 + cell / 100, 100 + cell) for cell in range(100)]
    start = time.perf_counter()
    figure = joint_limit_loss(mechanisms, [Flip("0.2")] * 100, 100)
    assert time.perf_counter() - start < 20
    assert loss_per_round(mechanisms[0], Flip("0.2")) < figure < 3


def test_one_counter_with_a_limit_below_its_range():
    loss = joint_limit_loss([OneBitMean(1, 2)], [Flip(0)], 1)
    assert loss == pytest.approx(np.log(1 + (np.e - 1) / 2))


@pytest.mark.parametrize("one_by_one", [256, 1])
@pytest.mark.parametrize("asked", [1, 2])
def test_a_window_counts_the_worst_of_the_sets_that_may_be_asked(asked, one_by_one, monkeypatch):
    """Of unlike counters; of too many sets for one by one it is a bound for all of them."""
    monkeypatch.setattr("reticent_collector.privacy.joint.MOST_SUBSETS", one_by_one)
    members = [OneBitMean(epsilon, 10) for epsilon in ("0.3", "0.6", "0.9")]
    worst = joint_limit_loss(members[-asked:], [Flip(0)] * asked, 10)
    assert worst <= loss_of_window([], [(members, 10)], asked) <= (0.9, 1.5)[asked - 1] + 1e-9


@pytest.mark.parametrize("asked", [1, 2])
def test_counters_that_share_epsilon_but_not_their_range_are_not_alike(asked):
    """
    Ranges 10, 1 and 1 with a limit of 2: the two small ones together lose as if there were no limit.

    The first two by themselves, as if all were alike, would lose less.
    """
    members = [OneBitMean(1, top) for top in (10, 1, 1)]
    worst = joint_limit_loss(members[-asked:], [Flip(0)] * asked, 2)
    assert worst == asked
    assert loss_of_window([], [(members, 2)], asked) == asked
    assert joint_limit_loss(members[:asked], [Flip(0)] * asked, 2) < asked - 0.3
    assert loss_of_window([], [(members[::-1], 2)], asked) == asked


def test_refusals():
    mean, flip = OneBitMean(1, 1), Flip(0)
    with pytest.raises(ParameterError, match="flips: expected one for each of 2 mechanisms"):
        joint_limit_loss([mean, mean], [flip], 1)
    with pytest.raises(ParameterError, match="at least 1"):
        joint_limit_loss([], [], 1)
    with pytest.raises(ParameterError, match="max_total: expected a number > 0"):
        joint_limit_loss([mean], [flip], 0)
    with pytest.raises(ParameterError, match="mechanisms: expected means"):  # 3 histograms lose 3, not 2.24
        joint_limit_loss([HadamardBit(1, Buckets.even(1, 2))] * 3, [flip] * 3, 1)
    with pytest.raises(ParameterError, match='rounds: expected "one" or "all"'):
        joint_limit_loss([mean], [flip], 1, rounds="two")


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_figures_of_a_divided_plan_are_the_largest_over_the_sets(asked):
    """Unlike metrics: every figure by enumeration of the sets, on the card and on a device."""
    metrics = (
        Metric("first", OneBitMean("0.25", 10), Flip("0.2")),
        Metric("second", HadamardBit(1, Buckets.even(8, 4)), Flip("0.1")),
        Metric("third", OneBitMean(2, 12, 4), Flip("0.3")),
    )
    card = privacy_card(Plan("p", 1, 60, 60, metrics, answers=Answers(metrics=asked)), 5)
    own = [losses(metric.mechanism, metric.flip, 5) for metric in metrics]
    for figure in ("round", "constant", "lifetime", "change_per_round", "any_history"):
        sets = [sum(getattr(one, figure) for one in some) for some in combinations(own, asked)]
        assert getattr(card, figure) == pytest.approx(max(sets), rel=1e-12), figure
    for_life = max(sum(loss_for_life(one.mechanism) for one in some) for some in combinations(metrics, asked))
    plan = Plan("p", 1, 60, 60, metrics, answers=Answers(metrics=asked))
    assert lifetime_of(plan) == pytest.approx(for_life, rel=1e-12)
