"""Enumeration gives the figures of MATHS.md 5, without the formulas that it checks."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import mpmath
import pytest

from reticent.lab.audit.enumeration import check_structure, enumerate_plan, least_threshold
from reticent.lab.audit.exact import (
    Ratio,
    enumerated,
    loss_of_constant,
    loss_of_switch,
    loss_of_width,
    row_sets,
    rows_of,
    seen,
    widths_of,
)
from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, Grid, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan

TURNED = Flip("0.2").threshold


def log(ratio: Ratio) -> float:
    return float(ratio.logarithm)


@pytest.mark.parametrize(("rounds", "figure"), [(1, 0.569), (2, 0.866), (3, 0.964), (5, 0.998), (10, 1.0)])
def test_a_constant_device(rounds: int, figure: float) -> None:
    assert log(loss_of_constant(OneBitMean(1, 24), TURNED, rounds)) == pytest.approx(figure, abs=5e-4)


@pytest.mark.parametrize(
    ("rounds", "up", "down"), [(2, 0.94, 0.87), (4, 2.19, 1.14), (10, 6.31, 1.31), (30, 20.2, 1.31)]
)
def test_a_device_that_switches_once(rounds: int, up: float, down: float) -> None:
    found = loss_of_switch(OneBitMean(1, 24), TURNED, rounds // 2, rounds // 2)
    assert log(found[0]) == pytest.approx(up, abs=0.05 if up > 10 else 5e-3)
    assert log(found[1]) == pytest.approx(down, abs=5e-3)


def test_a_switch_on_a_fine_grid_tends_to_the_figure_of_three_cells() -> None:
    """With a cell that is neither of the two, the second direction tends to ε + ln(e^ε + 1) = 2.313."""
    three = OneBitMean(1, grid=Grid([0, 1, 99_999, 100_000]))
    assert log(loss_of_switch(three, TURNED, 15, 15)[1]) == pytest.approx(2.313, abs=2e-3)


def test_without_flips_a_switch_shows() -> None:
    up, down = loss_of_switch(OneBitMean(1, 24), 0, 2, 2)
    assert up.logarithm.is_infinite()
    assert log(down) == pytest.approx(1 + float(mpmath.log(1 + mpmath.exp(-1))), abs=1e-12)


@pytest.mark.parametrize(
    ("steps", "width", "figure"),
    [(1, 1, 1), (1, 2, 2), (2, 3, 2), (3, 3, 2.31), (3, 4, 2.62), (20, 2, 2), (20, 3, 2.89), (20, 5, 4.55),
     (20, 10, 7.80), (20, 21, 10.61)],
)  # fmt: skip
def test_the_table_of_widths(steps: int, width: int, figure: float) -> None:
    mechanism = OneBitMean(1, steps, 1)
    assert log(loss_of_width(mechanism, width)) == pytest.approx(figure, abs=5e-3)


@pytest.mark.parametrize(
    "mechanism",
    [
        OneBitMean(3, grid=Grid([0, 1, 4, 5])),
        HadamardBit(1, Buckets.even(3, 3)),
        DBitFlip(2, Buckets.even(4, 4), 2),
        DBitFlip(2, Buckets.even(4, 4), 3),
        DBitFlip(2, Buckets.even(4, 4), 1, "paper"),
    ],
    ids=repr,
)
def test_widths_by_trying_every_pairing(mechanism: OneBitMean) -> None:
    """All ordered choices of w classes against all others, as fractions."""
    rows = rows_of(mechanism)
    for width in widths_of(mechanism):
        worst = Fraction(1)
        for here, there in product(permutations(rows, width), repeat=2):
            ratio = Fraction(1)
            for one, other in zip(
                (t for row in here for t in row), (t for row in there for t in row), strict=True
            ):
                ratio *= max(Fraction(one, other), Fraction(SCALE - one, SCALE - other))
            worst = max(worst, ratio)
        found = loss_of_width(mechanism, width)
        assert Fraction(found.above, found.below) == worst


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_several_bits_by_listing_every_answer(width: int, rounds: int) -> None:
    """All sequences of whole answers, not bit by bit."""
    mechanism, turned = DBitFlip(2, Buckets.even(4, 4), width), Flip("0.3").threshold
    outputs = list(product(product((0, 1), repeat=rounds), repeat=width))

    def law(row: tuple[int, ...]) -> list[int]:
        chances = []
        for output in outputs:
            chance = 1
            for one, shown in zip(row, output, strict=True):
                chance *= seen(one, turned, sum(shown), rounds - sum(shown))
            chances.append(chance)
        return chances

    laws = [law(row) for row in rows_of(mechanism)]
    worst = max(
        Fraction(a, b) for here, there in product(laws, repeat=2) for a, b in zip(here, there, strict=True)
    )
    found = loss_of_constant(mechanism, turned, rounds)
    assert Fraction(found.above, found.below) == worst


def test_chances_add_up_to_one() -> None:
    one = OneBitMean(1, 24).response.low
    total = sum(seen(one, TURNED, sum(answers), 4 - sum(answers)) for answers in product((0, 1), repeat=4))
    assert total == SCALE**5


def test_every_claim_of_every_plan_holds_exactly(plans: dict[str, Plan]) -> None:
    remembered = {name: plan for name, plan in plans.items() if not plan.answers.sampled}
    for name, plan in remembered.items():
        assert [loss for loss in enumerate_plan(plan, 4) if loss.above] == [], name
        assert all(check.holds for check in check_structure(plan)), name


def test_claims_of_means_and_bits_are_attained(plans: dict[str, Plan]) -> None:
    """Where counters are alike, no claim is larger than need be."""
    for name in ("mean", "mean without flips", "hadamard", "two bits", "group"):
        for each in enumerate_plan(plans[name], 4):
            if each.claim < float("inf"):
                assert each.loss == pytest.approx(each.claim, rel=1e-12), (name, each)


def doctored(metric: Metric, thresholds: tuple[int, ...]) -> Metric:
    mechanism = OneBitMean(metric.mechanism.epsilon, metric.max_value)
    object.__setattr__(mechanism, "cell_thresholds", thresholds)
    return Metric(metric.name, mechanism, metric.flip)


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "8"])
def test_one_unit_to_the_wrong_side_is_caught_with_certainty(epsilon: str) -> None:
    """1 of 2⁶⁴ is 2e-19 of ε: below what a float can tell, and found all the same."""
    metric = Metric("saves", OneBitMean(epsilon, 100))
    low = metric.mechanism.response.low
    wrong = Plan("p", 1, 3600, 3600, (doctored(metric, (low - 1, SCALE - low + 1)),))
    above = {each.what for each in enumerate_plan(wrong, 1) if each.above}
    assert "remembered answer" in above
    assert [check.what for check in check_structure(wrong) if not check.holds] == [
        "every threshold lies on the private side"
    ]
    right = Plan("p", 1, 3600, 3600, (doctored(metric, (low, SCALE - low)),))
    assert not any(each.above for each in enumerate_plan(right, 1))
    assert all(check.holds for check in check_structure(right))


def test_thresholds_that_fall_and_flips_that_are_cut_are_found() -> None:
    metric = Metric("saves", OneBitMean(1, 100), Flip("1/3"))
    low = metric.mechanism.response.low
    falling = Plan("p", 1, 3600, 3600, (doctored(metric, (SCALE - low, low)),))
    assert [c.what for c in check_structure(falling) if not c.holds] == ["thresholds rise from cell to cell"]
    object.__setattr__(metric.flip, "threshold", metric.flip.threshold - 1)
    cut = Plan("p", 1, 3600, 3600, (metric,))
    assert [c.what for c in check_structure(cut) if not c.holds] == ["the flip is rounded up, below one half"]


@pytest.mark.parametrize("epsilon", ["0.001", "0.5", "1", "20"])
def test_the_least_threshold_is_that_of_mpmath(epsilon: str) -> None:
    with mpmath.workdps(80):
        exact = mpmath.mpf(SCALE) / (mpmath.exp(mpmath.mpf(epsilon)) + 1)
        assert least_threshold(Fraction(epsilon)) == int(mpmath.ceil(exact))


def test_rows_are_alike_for_every_cohort() -> None:
    assert len(row_sets(DBitFlip(1, Buckets.even(32, 32), 4, "paper"))) == 1


def test_a_judgement_is_made_before_rounding() -> None:
    """The same float on both sides, and still told apart."""
    with mpmath.workdps(60):
        digits = int(mpmath.e * mpmath.mpf(10) ** 40)
    above, below = Fraction(digits + 1, 10**40), Fraction(digits, 10**40)
    found = [
        enumerated("m", "x", Fraction(1), Ratio(each.numerator, each.denominator), "")
        for each in (above, below)
    ]
    assert [each.above for each in found] == [True, False]
    assert found[0].loss == pytest.approx(1.0, abs=1e-15)
