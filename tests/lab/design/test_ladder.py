from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from reticent.lab.design.choice import first, ladder, last, rounded_up


def test_all_numbers_of_three_digits_and_no_others() -> None:
    rungs = ladder(Fraction("0.001"), Fraction(20))
    texts = [f"{digits}e{power}" for power in range(-5, 0) for digits in range(100, 1000)]
    expected = {Fraction(text) for text in texts if Fraction("0.001") <= Fraction(text) <= 20}
    assert list(rungs) == sorted(expected)
    assert len(rungs) == 4 * 900 + 101


@given(st.decimals("1e-8", "1e12", allow_nan=False, places=12))
def test_rounding_up_is_to_three_digits_and_never_further_than_need_be(number: Decimal) -> None:
    exact = Fraction(number)
    up = rounded_up(exact)
    assert exact <= up
    assert up == Fraction(f"{float(up):.2e}")
    assert up - exact < up / 100


def test_first_and_last_agree_with_a_plain_search() -> None:
    rungs = list(range(7))
    for limit in range(-1, 8):
        above = [rung for rung in rungs if rung >= limit]
        below = [rung for rung in rungs if rung <= limit]
        assert first(rungs, lambda rung, limit=limit: rung >= limit) == (above[0] if above else None)
        assert last(rungs, lambda rung, limit=limit: rung <= limit) == (below[-1] if below else None)
