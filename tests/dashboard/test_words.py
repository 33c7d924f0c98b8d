from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.dashboard import words


@given(st.floats(-1e7, 1e7), st.integers(0, 6))
def test_a_number_reads_back_as_itself(value: float, digits: int) -> None:
    text = words.number(value, digits)
    assert float(text.replace(",", "").replace("−", "-")) == pytest.approx(value, abs=0.51 * 10**-digits)
    assert "-" not in text
    assert not (text.startswith("−") and not text.strip("−0.,"))


@given(st.floats(1e-6, 1e9))
def test_a_half_width_keeps_two_significant_digits(half_width: float) -> None:
    shown = float(words.number(half_width, words.decimals(half_width)).replace(",", ""))
    assert shown == pytest.approx(half_width, rel=0.051)


@given(st.floats(0, 600))
def test_odds_are_never_better_than_the_truth(loss: float) -> None:
    text = words.odds(loss)
    for name, scale in ((" billion", 1e9), (" million", 1e6)):
        if text.endswith(name):
            factor = float(text.removesuffix(name).replace(",", "")) * scale
            break
    else:
        factor = 10.0 ** int(text[3:]) if text.startswith("10^") else float(text.replace(",", ""))
    assert factor >= math.exp(loss) * (1 - 1e-9)
    assert factor <= math.exp(loss) * (10.1 if text.startswith("10^") else 1.11)


@pytest.mark.parametrize(
    ("unit", "said"),
    [("second", "seconds"), ("day", "days"), ("bytes", "bytes"), ("kWh", "kWh"), ("%", "%"), ("", "")],
)
def test_units_are_said_as_people_do(unit: str, said: str) -> None:
    assert words.plural(unit) == said


@pytest.mark.parametrize(
    ("value", "half_width", "unit", "said"),
    [
        (7200, 360, "seconds", "2.00 ± 0.10 hours"),
        (180_000, 8640, "s", "2.08 ± 0.10 days"),
        (2.5e6, 1e5, "byte", "2.50 ± 0.10 MB"),
        (300, 10, "click", ""),
    ],
)
def test_long_times_and_sizes_are_also_said_in_larger_units(
    value: float, half_width: float, unit: str, said: str
) -> None:
    assert words.aloud(value, half_width, unit) == said


def test_rounds_over_midnight_name_both_days() -> None:
    assert words.span(1763676000, 1763697600) == "20 Nov 2025, 22:00 to 21 Nov, 04:00 UTC"
