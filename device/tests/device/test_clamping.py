from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.device import clamped, in_range
from reticent.mechanisms import OneBitMean
from reticent.plan import Group, Metric, Plan


class Hostile(int):
    """A number type of the host's own, gone wrong."""

    def __lt__(self, other: object) -> bool:
        raise RuntimeError("value 4711")

    __gt__ = __le__ = __ge__ = __lt__

    def __int__(self) -> int:
        raise RuntimeError("value 4711")


@pytest.mark.parametrize(
    ("value", "expected", "kind"),
    [
        (0, 0, None),
        (7, 7, None),
        (100, 100, None),
        (101, 100, "above-range"),
        (-1, 0, "below-range"),
        (True, 1, None),
        (10**400, 100, "above-range"),
        (0.5, Fraction(1, 2), None),
        (0.1, Fraction(0.1), None),
        (-0.0, 0, None),
        (-1e-300, 0, "below-range"),
        (1e308, 100, "above-range"),
        (float("nan"), 0, "not-a-number"),
        (float("inf"), 100, "above-range"),
        (float("-inf"), 0, "below-range"),
        (Decimal("0.1"), Fraction(1, 10), None),
        (Decimal("1e999999"), 100, "above-range"),
        (Decimal("1e-999999"), 0, None),
        (Decimal("100.5"), 100, "above-range"),
        (Decimal("NaN"), 0, "not-a-number"),
        (Decimal("sNaN"), 0, "not-a-number"),
        (Decimal("Infinity"), 100, "above-range"),
        (Decimal("-Infinity"), 0, "below-range"),
        (Fraction(1, 3), Fraction(1, 3), None),
        (Fraction(-1, 3), 0, "below-range"),
        (np.int64(7), 7, None),
        (np.uint8(200), 100, "above-range"),
        (np.float32(0.5), Fraction(1, 2), None),
        (np.float64("nan"), 0, "not-a-number"),
        (np.bool_(True), 1, None),
        (np.array(3), 3, None),
        (np.array([3, 4]), 0, "not-a-number"),
        (None, 0, "not-a-number"),
        ("7", 0, "not-a-number"),
        (b"7", 0, "not-a-number"),
        (3 + 0j, 0, "not-a-number"),
        ([7], 0, "not-a-number"),
        (object(), 0, "not-a-number"),
        (Hostile(5), 0, "not-a-number"),
    ],
    # No address: names are the same in every run.
    ids=lambda value: "object" if type(value) is object else repr(value),
)
def test_what_a_value_becomes(value: object, expected: object, kind: str | None) -> None:
    assert clamped(value, 100) == (expected, kind)


@given(st.one_of(st.integers(), st.floats(), st.decimals(), st.fractions(), st.text(), st.none()))
def test_every_value_ends_in_range_and_exact(value: object) -> None:
    result, _ = clamped(value, Fraction(201, 2))
    assert isinstance(result, int | Fraction)
    assert not isinstance(result, bool)
    assert 0 <= result <= Fraction(201, 2)


@given(st.floats(min_value=0, max_value=100))
def test_a_float_is_the_rational_it_is(value: float) -> None:
    assert clamped(value, 100)[0] == Fraction(value)


@pytest.fixture
def pair() -> Plan:
    metrics = tuple(Metric(name, OneBitMean(1, 100)) for name in ("a", "b", "c"))
    return Plan("p", 1, 60, 60, metrics, groups=(Group("ab", ("a", "b"), 100),))


def test_a_group_is_scaled_exactly_to_its_limit(pair: Plan) -> None:
    assert in_range(pair, {"a": 90, "b": 60, "c": 90}) == {"a": 60, "b": 40, "c": 90}


def test_each_value_is_clamped_before_the_group_is(pair: Plan) -> None:
    assert in_range(pair, {"a": 10**9, "b": 100}) == {"a": 50, "b": 50, "c": 0}


def test_a_group_within_its_limit_is_left_alone(pair: Plan) -> None:
    assert in_range(pair, {"a": 60, "b": 40}) == {"a": 60, "b": 40, "c": 0}


@given(st.integers(0, 200), st.integers(0, 200))
def test_a_group_never_exceeds_its_limit(a: int, b: int) -> None:
    metrics = tuple(Metric(name, OneBitMean(1, 100)) for name in ("a", "b"))
    plan = Plan("p", 1, 60, 60, metrics, groups=(Group("ab", ("a", "b"), 70),))
    result = in_range(plan, {"a": a, "b": b})
    assert sum(result.values()) == min(min(a, 100) + min(b, 100), 70)
