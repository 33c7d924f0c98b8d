"""The tables: figures against the notes and independent formulas, and verdicts that follow from them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import cosh, exp, log, sqrt, tanh

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from reticent.mechanisms import SCALE, Buckets, DBitFlip, OneBitMean
from reticent_paper import bounds, losses, memos, tables
from reticent_paper.claims import EPSILONS, ClaimVerdict, NumberTable, Setting

SMALL = Setting(fleets=(600, 2_000), repetitions=60)
HOLDS, CONDITION, CORRECTED = ClaimVerdict.HOLDS, ClaimVerdict.CONDITION, ClaimVerdict.CORRECTED


@pytest.fixture(scope="module")
def result():
    return tables(SMALL)


@pytest.fixture(scope="module")
def named(result):
    return {table.name: table for table in result.tables}


def test_every_table_has_a_name_of_its_own(result):
    assert len({table.name for table in result.tables}) == len(result.tables)
    assert all(len(row) == len(table.columns) for table in result.tables for row in table.rows)


# A claim, the tables that it is judged by, and its verdict; then a column of the last table, changed, and the
# verdict that follows.
SHARERS = "expected, one memo per bucket"
TURNED = [
    (losses.printed_round, ["one-round"], CORRECTED, "printed", lambda _: 0.569, HOLDS),
    (losses.printed_round, ["one-round"], CORRECTED, "printed", lambda _: 0.5, CORRECTED),
    (losses.printed_joint, ["one-round"], CORRECTED, "printed", lambda _: 1.337, HOLDS),
    (losses.printed_joint, ["one-round"], CORRECTED, "printed", lambda _: 1.3, CORRECTED),
    (losses.only_one_round, ["rounds"], HOLDS, "loss", lambda loss: loss + 0.1, CORRECTED),
    (losses.moved_change, ["moved-change"], HOLDS, "exact: δ·ln((1-γ)/γ)", lambda loss: 2 * loss, CORRECTED),
    (losses.width_theorem, ["widths"], HOLDS, "exact loss", lambda loss: loss + 0.1, CORRECTED),
    (losses.joint_theorem, ["several-counters"], HOLDS, "one round, exact", lambda loss: loss + 1, CORRECTED),
    (bounds.theorem_1, ["theorem-1"], HOLDS, "bound covers", lambda _: 0.94, CORRECTED),
    (bounds.theorem_2, ["theorem-2", "theorem-2-tiny"], CORRECTED, "misses", lambda _: 0.1, HOLDS),
    (bounds.theorem_2_order, ["theorem-2-order"], CONDITION, "relative to ε = 0.1", lambda _: 1.0, HOLDS),
    (bounds.worst_case, ["chosen-values"], CONDITION, "error / bound", lambda _: 0.5, HOLDS),
    (bounds.theorem_3, ["theorem-3"], HOLDS, "largest difference", lambda _: 1e-3, CORRECTED),
    (memos.several_share, ["shared-responses"], CORRECTED, SHARERS, lambda _: 99.0, HOLDS),
    (memos.several_share, ["shared-responses"], CORRECTED, SHARERS, lambda _: 0.0, CORRECTED),
    (memos.strongest_with_one_bit, ["shared-responses"], HOLDS, "d", lambda bits: 9 - bits, CORRECTED),
    (
        memos.naive_leaks,
        ["naive-memo"],
        HOLDS,
        "chance that a response betrays its bucket",
        lambda _: 0.5,
        CORRECTED,
    ),
    (
        memos.only_small_epsilon,
        ["bin-flip-plus"],
        CORRECTED,
        "exact loss",
        lambda loss: loss * (1 + (loss > 2.5)),
        HOLDS,
    ),
]


@pytest.mark.parametrize(("claim", "tables", "verdict", "column", "change", "turned"), TURNED)
def test_a_verdict_follows_from_the_table(named, claim, tables, verdict, column, change, turned):
    *others, last = (named[name] for name in tables)
    assert claim(*others, last).verdict is verdict
    assert claim(*others, with_column(last, column, change)).verdict is turned


def with_column(table: NumberTable, column: str, change) -> NumberTable:
    place = table.columns.index(column)
    rows = tuple((*row[:place], change(row[place]), *row[place + 1 :]) for row in table.rows)
    return replace(table, rows=rows)


def test_theorem_2_is_judged_by_large_fleets_too(named):
    broken = with_column(named["theorem-2"], "bound covers", lambda _: 0.5)
    assert bounds.theorem_2(broken, named["theorem-2-tiny"]).verdict is CORRECTED


# Losses


def test_epsilon_prime_by_the_printed_equation(named):
    """Equation 15 and τ + e^τ - 1 once more, with mpmath; and what the printed figures come from."""
    p, q, gamma = mpmath.e / (mpmath.e + 1), 1 / (mpmath.e + 1), mpmath.mpf(2) / 10
    tau = mpmath.log(((1 - 2 * gamma) * p + gamma) / ((1 - 2 * gamma) * q + gamma))
    one, many = named["one-round"].rows
    assert one[2] == pytest.approx(float(tau), rel=1e-12)
    assert many[2] == pytest.approx(float(tau + mpmath.exp(tau) - 1), rel=1e-12)
    assert round(one[3], 3) == one[1] == 0.686
    assert round(many[3], 3) == many[1] == 1.672


def test_several_counters_by_formula(named):
    tau = named["one-round"].rows[0][2]
    for counters, loss, bound, *_ in named["several-counters"].rows:
        others = counters - 1
        exact = tau + (others * log(1 + (exp(tau) - 1) / others) if others else 0)
        assert loss == pytest.approx(exact, rel=1e-12)
        assert loss <= bound
    counters = named["several-counters"].numbers("counters")
    steady = dict(zip(counters, named["several-counters"].numbers("all rounds, steady vector"), strict=True))
    assert steady[10] == pytest.approx(2.5725, abs=5e-5), "MATHS 4"


def test_a_constant_device_over_rounds(named):
    by_rounds = dict(zip(named["rounds"].numbers("rounds"), named["rounds"].numbers("loss"), strict=True))
    for rounds, loss in by_rounds.items():
        kept, turned = 0.8**rounds, 0.2**rounds
        assert loss == pytest.approx(log((exp(1) * kept + turned) / (kept + exp(1) * turned)), rel=1e-9)
    assert [round(by_rounds[rounds], 3) for rounds in (1, 2, 3, 5, 10)] == [0.569, 0.866, 0.964, 0.998, 1.0]


def test_widths_are_those_of_the_notes(named):
    exact = {row[:3]: row[3] for row in named["widths"].rows}
    for width, loss in {2: 2, 3: 2.89, 5: 4.55, 10: 7.80, 21: 10.61}.items():
        assert exact["1BitRRPM", "m/s = 20", width] == pytest.approx(loss, abs=6e-3)
    assert exact["1BitRRPM", "m/s = 3", 4] == pytest.approx(2.62, abs=6e-3)
    assert exact["dBitFlipPM, paper", "d = 4, k = 32", 5] == 4
    assert exact["dBitFlipPM, paper", "d = 1, k = 32", 5] == 1


def test_one_half_is_refused_and_less_is_not():
    assert losses.flips_up_to_one_half().verdict is CORRECTED
    assert losses.flips_up_to_one_half(largest="0.4").verdict is HOLDS


# Bounds


def test_theorem_1_bound_and_coverage_independently(named):
    for devices, epsilon, place, _, _, _, bound, covers, _ in named["theorem-1"].rows[:12]:
        contrast = tanh(epsilon / 2)
        assert bound == pytest.approx(86_400 / sqrt(2 * devices) / contrast * sqrt(log(2 / 0.05)), rel=1e-9)
        share = 1 / (exp(epsilon) + 1) + place * contrast
        reach = bound / 86_400 * contrast * devices
        low, high = np.ceil(devices * share - reach), np.floor(devices * share + reach)
        exact = binom.cdf(high, devices, share) - binom.cdf(low - 1, devices, share)
        assert covers == pytest.approx(exact, abs=1e-9)


def test_measured_errors_are_those_of_the_variance():
    """E|error| = sqrt(2/π)·sd: 3000 runs leave 1.4 % of it, 8 % is 6 standard errors."""
    table = bounds.mean_bounds(Setting(repetitions=3_000))
    for devices, epsilon, place, error, *_ in table.rows:
        if devices >= 100_000:
            c = 1 / tanh(epsilon / 2)
            deviation = 86_400 * sqrt((c * c / 4 - (place - 0.5) ** 2) / devices)
            assert error == pytest.approx(sqrt(2 / np.pi) * deviation, rel=0.08)


def test_the_tiny_fleet_by_hand(named):
    """A 1 about any bucket but the own: ĥ = 100·(3/4)/(1/2) = 150 and h = 0; about the own: h = 1."""
    ((devices, bound, worst, allowed, misses, enough),) = named["theorem-2-tiny"].rows
    assert (devices, allowed, worst) == (1, 0.2, pytest.approx(150))
    assert bound == pytest.approx(126.5, abs=0.05)
    assert misses == pytest.approx(
        float(Fraction(99, 100) * Fraction(1, 4) + Fraction(1, 100) * Fraction(3, 4))
    )
    assert enough == int(np.ceil(100 * log(6 * 100 / 0.2) / 4))


def test_the_order_is_coth(named):
    for epsilon, _, _, relative in named["theorem-2-order"].rows:
        expected = (epsilon / tanh(epsilon / 4)) / (0.1 / tanh(0.1 / 4))
        assert relative == pytest.approx(expected, rel=1e-9)


def test_values_after_coins_err_by_077(named):
    """(q + 1/2)·m: 6 standard errors of a mean of numbers within [-1, 2]."""
    for devices, error, *_ in named["chosen-values"].rows:
        assert error == pytest.approx(1 / (exp(1) + 1) + 0.5, abs=6 * 1.5 / sqrt(devices))


def test_rounding_leaves_equation_1_true():
    mechanism = OneBitMean(1, 100, 50)
    for value in (0, 1, 49, 50, 77, 100):
        low = mechanism.response.low
        straight = Fraction(low, SCALE) + Fraction(value, 100) * Fraction(SCALE - 2 * low, SCALE)
        assert abs(bounds.chance_after_rounding(mechanism, value) - straight) < Fraction(4, SCALE)


# Age in days


def test_every_device_answers_z_then_its_complement():
    year = memos.simulate(SMALL, 600)
    assert year.of_the_form == year.devices == 600
    assert year.shown <= year.rounded_up
    assert year.of_the_form_with_flips == 0


def test_a_counter_that_falls_is_noticed(monkeypatch):
    """Ages that start anew in the middle of the year are not of the form, and the claim says so."""

    class Falling:
        def __init__(self, top):
            self.top = top

        def values(self, devices, rounds, generator):
            days = np.arange(rounds)[:, None]
            return np.broadcast_to((days * 1_000) % self.top, (rounds, devices)).astype(np.int32)

    monkeypatch.setattr(memos, "AgeInDays", Falling)
    year = memos.simulate(SMALL, 200)
    assert year.of_the_form < 200
    assert memos.form(year).verdict is CORRECTED


def test_claims_on_ages_flip_with_the_figures():
    year = memos.simulate(SMALL, 600)
    assert memos.form(year).verdict is HOLDS
    assert memos.accuracy(year).verdict is HOLDS
    assert memos.accuracy(replace(year, bound=0.0)).verdict is CORRECTED
    even, ages = memos.every_offset()
    assert memos.transition(even, ages).verdict is HOLDS
    assert memos.transition(False, ages).verdict is CORRECTED


def test_the_day_of_change_by_brute_force():
    """Every alpha of a small range, every age: the day of change is each day for exactly one alpha."""
    top, rounds = 30, 5
    for age in range(top - rounds):
        days = [next((d for d in range(rounds + 1) if age + d + alpha >= top), None) for alpha in range(top)]
        assert all(days.count(day) == 1 for day in range(1, rounds + 1))
    assert memos.every_offset(top, rounds)[0]


# Remembered histograms


def test_sharers_by_drawing_memos():
    """k = 12, d = 3, ε = 1: 20,000 devices draw all their memos; within 6 standard errors of the formula."""
    mechanism = DBitFlip(1, Buckets.even(12, 12), 3, "paper")
    draw = np.random.default_rng(11)
    low = 1 / (exp(0.5) + 1)
    unasked = draw.random((20_000, 9, 3)) < low
    alike = (unasked == np.array([True, False, False])).all(axis=2).sum(axis=1)
    expected = memos.expected_sharers(mechanism)
    assert abs(alike.mean() - expected) < 6 * alike.std() / sqrt(20_000)
    assert abs(alike.mean() - 1.2 * expected) > 6 * alike.std() / sqrt(20_000)


def test_sharers_of_the_notes():
    day = Buckets.even(86_400, 32)
    assert memos.expected_sharers(DBitFlip(1, day, 4, "paper")) == pytest.approx(2.5, abs=0.06)
    assert memos.expected_sharers(DBitFlip(10, day, 4, "paper")) == pytest.approx(0.18, abs=0.006)


def test_bin_flip_plus_accepts_by_one_over_2_cosh(named):
    for epsilon, loss, accepted, _ in named["bin-flip-plus"].rows:
        assert loss == pytest.approx(epsilon, rel=1e-9)
        assert accepted == pytest.approx(1 / (2 * cosh(epsilon / 2)), rel=1e-9)


def test_the_tables_reach_over_the_papers_epsilons(named):
    for name in ("theorem-2-order", "naive-memo", "bin-flip-plus"):
        assert named[name].numbers("ε") == EPSILONS
