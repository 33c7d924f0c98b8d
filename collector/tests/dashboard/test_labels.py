from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.mechanisms import Buckets, DBitFlip, HadamardBit
from reticent.plan import Metric
from reticent_collector.counts import HistogramCounts
from reticent_collector.dashboard import labels
from reticent_collector.estimates.cohort_balance import balance
from reticent_collector.estimates.interval import decimals


@given(st.floats(-1e7, 1e7), st.integers(0, 6))
def test_a_number_reads_back_as_itself(value: float, digits: int) -> None:
    text = labels.number(value, digits)
    assert float(text.replace(",", "").replace("−", "-")) == pytest.approx(value, abs=0.51 * 10**-digits)
    assert "-" not in text
    assert not (text.startswith("−") and not text.strip("−0.,"))


@given(st.floats(1e-6, 1e9))
def test_a_half_width_keeps_two_significant_digits(half_width: float) -> None:
    shown = float(labels.number(half_width, decimals(half_width)).replace(",", ""))
    assert shown == pytest.approx(half_width, rel=0.051)


@given(st.floats(0, 600))
def test_odds_are_never_better_than_the_truth(loss: float) -> None:
    text = labels.odds(loss)
    for name, scale in ((" billion", 1e9), (" million", 1e6)):
        if text.endswith(name):
            factor = float(text.removesuffix(name).replace(",", "")) * scale
            break
    else:
        factor = 10.0 ** int(text[3:]) if text.startswith("10^") else float(text.replace(",", ""))
    assert factor >= math.exp(loss) * (1 - 1e-9)
    assert factor <= math.exp(loss) * (10.1 if text.startswith("10^") else 1.11)


@pytest.mark.parametrize(
    ("half_width", "word", "dots"),
    [
        (5, "sharp", 4),
        (5.1, "good", 3),
        (15, "good", 3),
        (16, "rough", 2),
        (50, "rough", 2),
        (51, "faint", 1),
    ],
)
def test_certainty_follows_the_half_width(half_width: float, word: str, dots: int) -> None:
    certainty = labels.certainty(100, 100 - half_width, 100 + half_width, half_width)
    assert (certainty.word, certainty.dots) == (word, dots)


def test_what_may_be_nothing_is_faint_however_narrow_and_an_empty_interval_is_odd() -> None:
    assert labels.certainty(1e-9, 0, 2e-9, 1e-10).word == "faint"
    assert labels.certainty(-5, 0, 3, 8).word == "faint"
    assert labels.certainty(-50, 0, 0, 8).word == "odd"


SIXTEEN = Metric("starts", DBitFlip(1, Buckets.even(16, 16), width=1, label="a/b"))
HADAMARD = Metric("rows", HadamardBit(1, Buckets.even(7, 7)), unit="hour")


@pytest.mark.parametrize(
    ("metric", "reports", "begins"),
    [
        (
            SIXTEEN,
            [1000, *[100] * 15],
            "0 to 1 (1,000, 156 expected) are more than chance explains, at odds",
        ),
        (SIXTEEN, [0, *[1000] * 15], "0 to 1 (0, 938 expected) are fewer than chance explains"),
        (HADAMARD, [100] * 7 + [400], "row 7 of the Hadamard matrix (400, 138 expected"),
    ],
)
def test_uneven_cohorts_are_named_by_what_is_pushed_or_else_what_lacks(
    metric: Metric, reports: list[int], begins: str
) -> None:
    assert uneven(metric, reports).startswith(f"Reports about {begins}")


def uneven(metric: Metric, reports: list[int]) -> str:
    against_chance = balance(metric, HistogramCounts(tuple(reports), (0,) * len(reports), metric.bits))
    assert against_chance is not None
    return labels.uneven(metric, against_chance)


def test_of_many_uneven_cohorts_three_are_named() -> None:
    sentence = uneven(SIXTEEN, [*[1000] * 5, *[100] * 11])
    assert sentence.count("expected") == 3
    assert "and 2 others are more" in sentence


@pytest.mark.parametrize(
    ("p_value", "text"), [(9.9e-7, "1 in 10⁶"), (1e-9, "1 in 10⁹"), (1e-320, "1 in 10³⁰⁰")]
)
def test_a_chance_is_never_said_smaller_than_it_is(p_value: float, text: str) -> None:
    assert labels.chance(p_value) == text
