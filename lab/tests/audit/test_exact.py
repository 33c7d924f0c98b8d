"""Enumeration gives the figures of MATHS.md 4 and 5, without the formulas that it checks."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import mpmath
import pytest

from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, Grid, HadamardBit, Mechanism, OneBitMean
from reticent.plan import Group, Metric, Plan
from reticent_lab.audit.enumeration import check_structure, enumerate_plan, worst_pair
from reticent_lab.audit.exact import Ratio, exact_loss_of_switch, loss_of_constant, loss_of_width

TURNED = Flip("0.2").threshold


def log(ratio: Ratio) -> float:
    return float(ratio.logarithm)


def rows_of(mechanism: Mechanism) -> list[tuple[int, ...]]:
    """The thresholds of each class."""
    return [mechanism.thresholds(memo_class, 0) for memo_class in range(mechanism.classes)]


@pytest.mark.parametrize(("rounds", "figure"), [(1, 0.569), (2, 0.866), (3, 0.964), (5, 0.998), (10, 1.0)])
def test_a_constant_device(rounds: int, figure: float) -> None:
    assert log(loss_of_constant(OneBitMean(1, 24), TURNED, rounds)) == pytest.approx(figure, abs=5e-4)


@pytest.mark.parametrize(
    ("rounds", "up", "down"), [(2, 0.94, 0.87), (4, 2.19, 1.14), (10, 6.31, 1.31), (30, 20.2, 1.31)]
)
def test_a_device_that_switches_once(rounds: int, up: float, down: float) -> None:
    ratios = exact_loss_of_switch(OneBitMean(1, 24), TURNED, rounds // 2, rounds // 2)
    assert log(ratios[0]) == pytest.approx(up, abs=0.05 if up > 10 else 5e-3)
    assert log(ratios[1]) == pytest.approx(down, abs=5e-3)


def test_a_switch_on_a_fine_grid_tends_to_the_figure_of_three_cells() -> None:
    """With a cell that is neither of the two, the second direction tends to ε + ln(e^ε + 1) = 2.313."""
    three = OneBitMean(1, grid=Grid([0, 1, 99_999, 100_000]))
    assert log(exact_loss_of_switch(three, TURNED, 15, 15)[1]) == pytest.approx(2.313, abs=2e-3)


def test_without_flips_a_switch_shows() -> None:
    up, down = exact_loss_of_switch(OneBitMean(1, 24), 0, 2, 2)
    assert up.logarithm.is_infinite()
    assert log(down) == pytest.approx(1 + float(mpmath.log(1 + mpmath.exp(-1))), abs=1e-12)


@pytest.mark.parametrize(
    ("steps", "width", "figure"),
    [(1, 1, 1), (1, 2, 2), (2, 3, 2), (3, 3, 2.31), (3, 4, 2.62), (20, 2, 2), (20, 3, 2.89), (20, 5, 4.55),
     (20, 10, 7.80), (20, 21, 10.61)],
)  # fmt: skip
def test_the_table_of_widths(steps: int, width: int, figure: float) -> None:
    assert log(loss_of_width(OneBitMean(1, steps, 1), width)) == pytest.approx(figure, abs=5e-3)


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
def test_widths_by_trying_every_pairing(mechanism: Mechanism) -> None:
    """All ordered choices of w classes against all others, as fractions."""
    for width in range(1, mechanism.classes + 1):
        worst = Fraction(1)
        for here, there in product(permutations(rows_of(mechanism), width), repeat=2):
            ratio = Fraction(1)
            for one, other in zip(
                (t for row in here for t in row), (t for row in there for t in row), strict=True
            ):
                ratio *= max(Fraction(one, other), Fraction(SCALE - one, SCALE - other))
            worst = max(worst, ratio)
        result = loss_of_width(mechanism, width)
        assert Fraction(result.above, result.below) == worst


@pytest.mark.parametrize(("width", "rounds"), [(1, 3), (2, 2), (3, 2)])
def test_several_bits_by_listing_every_answer(width: int, rounds: int) -> None:
    """All sequences of whole answers, not bit by bit."""
    mechanism, flip = DBitFlip(2, Buckets.even(4, 4), width), Flip("0.3")
    turned = Fraction(flip.threshold, SCALE)

    def chance(one: int, shown: tuple[int, ...]) -> Fraction:
        """Of a sequence of answers of one bit: its memo is 1 or 0, and each answer is flipped or not."""
        ones, zeros, memo = sum(shown), rounds - sum(shown), Fraction(one, SCALE)
        kept = 1 - turned
        return memo * kept**ones * turned**zeros + (1 - memo) * turned**ones * kept**zeros

    laws = []
    for row in rows_of(mechanism):
        law = []
        for answers in product(product((0, 1), repeat=rounds), repeat=width):
            total = Fraction(1)
            for one, shown in zip(row, answers, strict=True):
                total *= chance(one, shown)
            law.append(total)
        assert sum(law) == 1
        laws.append(law)
    worst = max(a / b for here, there in product(laws, repeat=2) for a, b in zip(here, there, strict=True))
    result = loss_of_constant(mechanism, flip.threshold, rounds)
    assert Fraction(result.above, result.below) == worst


def test_every_claim_of_every_plan_holds_exactly(plans: dict[str, Plan]) -> None:
    """And where counters are alike, no claim is larger than need be."""
    for name, plan in plans.items():
        if plan.answers.sampled:
            continue
        losses = enumerate_plan(plan, 4)
        assert [loss for loss in losses if loss.above] == [], name
        assert all(check.holds for check in check_structure(plan)), name
        for loss in losses:
            if name not in ("mixed", "one bit, paper") and loss.claim < float("inf"):
                assert loss.loss == pytest.approx(loss.claim, rel=1e-12), (name, loss)


def doctored(metric: Metric, thresholds: tuple[int, ...]) -> Plan:
    """A plan whose metric compares its draws with these."""
    mechanism = OneBitMean(metric.mechanism.epsilon, metric.max_value)
    object.__setattr__(mechanism, "cell_thresholds", thresholds)
    return Plan("p", 1, 3600, 3600, (Metric(metric.name, mechanism, metric.flip),))


def failing(plan: Plan) -> list[str]:
    return [check.what for check in check_structure(plan) if not check.holds]


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "8"])
def test_one_unit_to_the_wrong_side_is_caught_with_certainty(epsilon: str) -> None:
    """1 of 2⁶⁴ is 2e-19 of ε: below what a float can tell, and found all the same."""
    metric = Metric("saves", OneBitMean(epsilon, 100))
    with mpmath.workdps(80):
        low = int(mpmath.ceil(mpmath.mpf(SCALE) / (mpmath.exp(mpmath.mpf(epsilon)) + 1)))
    wrong, right = doctored(metric, (low - 1, SCALE - low + 1)), doctored(metric, (low, SCALE - low))
    assert "remembered answer" in {loss.what for loss in enumerate_plan(wrong, 1) if loss.above}
    assert failing(wrong) == ["every threshold is within its privacy bound"]
    assert not any(loss.above for loss in enumerate_plan(right, 1))
    assert failing(right) == []


def test_thresholds_that_fall_and_flips_that_are_cut_are_found() -> None:
    metric = Metric("saves", OneBitMean(1, 100), Flip("1/3"))
    low = metric.mechanism.response.low
    assert failing(doctored(metric, (SCALE - low, low))) == ["thresholds rise from cell to cell"]
    object.__setattr__(metric.flip, "threshold", metric.flip.threshold - 1)
    assert failing(Plan("p", 1, 3600, 3600, (metric,))) == ["the flip is rounded up, below one half"]


def a_group(counters: int, limit: int = 100) -> tuple[Plan, Group]:
    metrics = tuple(Metric(f"app{number}", OneBitMean(1, 100), Flip("0.2")) for number in range(counters))
    group = Group("apps", tuple(metric.name for metric in metrics), limit)
    return Plan("p", 1, 3600, 3600, metrics, (group,)), group


@pytest.mark.parametrize(
    ("counters", "one_round", "all_rounds"),
    [(1, 0.5694, 1.0), (2, 1.1388, 2.0), (3, 1.2188, 2.2402), (10, 1.3057, 2.5725)],
)
def test_the_table_of_joint_limits(counters: int, one_round: float, all_rounds: float) -> None:
    """τ = 0.5694 is printed with four digits there, so the figures agree to about two of the last."""
    for flips, figure in ((True, one_round), (False, all_rounds)):
        assert log(worst_pair(*a_group(counters), flips=flips).ratio) == pytest.approx(figure, abs=2.5e-4)


def test_the_worst_pair_is_that_of_the_proof() -> None:
    pair = worst_pair(*a_group(3), flips=True)
    zero = pair.answers.index(0)
    assert pair.answers.count(0) == 1
    assert pair.rarer[zero] == 100
    assert sorted(pair.likelier) == [0, 50, 50]
    assert pair.likelier[zero] == 0


@pytest.mark.parametrize("limit", [100, 130, 200])
def test_no_pair_on_a_grid_of_vectors_is_worse(limit: int) -> None:
    """The chance of a 1 is on the line of Eq. 1, up to the rounding of alphas."""
    plan, group = a_group(3, limit)
    ratio = worst_pair(plan, group, flips=False).ratio
    low = Fraction(plan.metrics[0].mechanism.response.low, SCALE)
    chance = {value: low + Fraction(value, 100) * (1 - 2 * low) for value in range(0, 101, 10)}
    vectors = [vector for vector in product(chance, repeat=3) if sum(vector) <= limit]
    for answers in product((0, 1), repeat=3):
        laws = []
        for vector in vectors:
            law = Fraction(1)
            for value, answer in zip(vector, answers, strict=True):
                law *= chance[value] if answer else 1 - chance[value]
            laws.append(law)
        assert max(laws) / min(laws) <= Fraction(ratio.above, ratio.below) * (1 + Fraction(9, SCALE))
