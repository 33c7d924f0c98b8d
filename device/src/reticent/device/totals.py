"""
From any number-like value to a value in range, and the totals of rounds that are not answered yet.

Nothing here raises: a report that is missing *because of the value* would tell the collector about the value.
Values out of range are clamped, what is not a number counts as 0, and the fault is noted on the device by kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from math import nan
from numbers import Integral, Rational, Real
from typing import TYPE_CHECKING, Any, Literal

from reticent.device.state import Place
from reticent.frozen import replace

if TYPE_CHECKING:
    from reticent.device.state import DeviceState
    from reticent.plan import Metric, Plan

Value = int | Fraction  # a value in range: exact, and an integer where it is one (they compare faster)

ValueFault = Literal["not-a-number", "below-range", "above-range", "unknown-label"]

_FINEST_DECIMAL = -400  # below the smallest float; a longer denominator would only cost the host memory
_LONGEST_DENOMINATOR = 1 << 1200


def clamped(value: object, max_value: Value) -> tuple[Value, ValueFault | None]:
    """
    The value in [0, max_value] that stands for `value`, and its fault, if any.

    >>> clamped(7, 10), clamped(0.5, 10), clamped(-3, 10), clamped(float("inf"), 10), clamped("7", 10)
    ((7, None), (Fraction(1, 2), None), (0, 'below-range'), (10, 'above-range'), (0, 'not-a-number'))
    """
    if type(value) is int and 0 <= value <= max_value:
        return value, None
    try:
        number = _plain(value)
        if number < 0:
            return 0, "below-range"
        if number > max_value:
            return max_value, "above-range"
        if number >= 0:  # not so for NaN
            # Only now is a decimal expanded: 1e999999999 is a short decimal and a very long integer.
            exponent = number.as_tuple().exponent if isinstance(number, Decimal) else 0
            is_too_fine = isinstance(exponent, int) and exponent < _FINEST_DECIMAL
            return cut(Fraction(float(number) if is_too_fine else number)), None
    except Exception:  # noqa: S110  (a number type of the host's own may raise anything)
        pass
    return 0, "not-a-number"


def _plain(value: Any) -> Value | float | Decimal:
    """A number of one of four types that compare exactly; NaN for what is not a number."""
    if type(value) in (float, int, Fraction) or isinstance(value, Decimal):
        return value  # type: ignore[no-any-return]
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Real):
        return float(value)
    if getattr(value, "shape", None) == ():  # an array library's boolean, or its array of no dimension
        return _plain(value.item())
    return nan


def whole(number: Value) -> Value:
    """An integer where the number is one."""
    return number.numerator if number.denominator == 1 else number


def cut(number: Value) -> Value:
    """The number; a denominator beyond any float's is cut at 2⁻¹²⁰⁰."""
    if number.denominator > _LONGEST_DENOMINATOR:
        number = Fraction(int(number * _LONGEST_DENOMINATOR), _LONGEST_DENOMINATOR)
    return whole(number)


def taken(metric: Metric, value: object) -> tuple[Value | None, ValueFault | None]:
    """What a metric takes for a value, and its fault; None: no value, where the metric tells that from 0."""
    if metric.labels:
        known = isinstance(value, str) and value in metric.labels
        return (metric.labels.index(str(value)), None) if known else (None, "unknown-label")
    clean, fault = clamped(value, metric.max_value)
    return (None if fault == "not-a-number" and metric.absent and not metric.parts else clean), fault


def in_range(plan: Plan, values: Mapping[str, object]) -> dict[str, Value | None]:
    """
    The value of each name that is recorded, clamped; None: no value.

    Then those of a group, or of the parts of a split, that add up to more than their limit are scaled to it.
    """
    result: dict[str, Value | None] = {}
    for name, max_value in plan.max_values.items():
        value = values.get(name)
        if type(value) is int and 0 <= value <= max_value:
            result[name] = value
        else:
            result[name] = taken(plan.recorded[name], value)[0]
    for names, limit in plan.limits:
        members = {name: result[name] or 0 for name in names}
        total = sum(members.values())
        if total > limit:
            share = Fraction(limit) / total
            result |= {name: whole(value * share) for name, value in members.items()}
    return result


Mode = Literal["add", "set", "first"]  # added to the total, replaces it, or counts only where there is none

Call = Literal["add", "set", "max"]  # what a program asks for

TotalChange = tuple[Value, Value, Mode, Value]
"""An amount, the max_value of the total, how to combine them, and the least that the total is afterwards."""

TotalChanges = dict[Place, TotalChange]


def change_by(call: Call, metric: Metric, value: Value, max_value: Value) -> TotalChange:
    """The change that a call makes."""
    if metric.labels:
        return value, max_value, "first" if metric.pick == "first" else "set", 0
    if call == "max":
        return 0, max_value, "add", value
    return value, max_value, call, 0


def merge_changes(earlier: TotalChange, later: TotalChange) -> TotalChange:
    """
    Two changes as one.

    >>> merge_changes((2, 10, "set", 0), (3, 10, "add", 0)), merge_changes((2, 10, "first", 0), (3, 10, "first", 0))
    ((5, 10, 'set', 0), (2, 10, 'first', 0))
    >>> merge_changes((2, 10, "add", 4), (3, 10, "add", 6))  # max(total + 2, 4), then max(that + 3, 6)
    (5, 10, 'add', 7)
    """
    amount, max_value, mode, least = later
    if mode != "add":
        return earlier if mode == "first" else later
    total = _sum(earlier[0], amount, max_value)
    if earlier[2] == "add":
        floor = _sum(earlier[3], amount, max_value) if earlier[3] else 0
        return total, max_value, "add", max(floor, least)
    return max(total, least), max_value, earlier[2], 0


def _sum(total: Value, amount: Value, max_value: Value) -> Value:
    total += amount
    if total >= max_value:
        return max_value
    return total if type(total) is int else cut(total)


def write(state: DeviceState, changes: TotalChanges) -> DeviceState:
    """Apply changes. Those of rounds without an answer are dropped; those of answered rounds are counted as late."""
    late = 0
    totals = dict(state.totals)
    for (number, metric), change in changes.items():
        if not 0 <= number < 2**53 or number in state.reports:  # by a clock that is very wrong, for instance
            late += 1
        elif number > state.silent_through and not state.is_paused_in(number, number):
            place = (number, metric)
            total = max(change[0], change[3])
            if place in totals:
                total = merge_changes((_number(totals[place]), 0, "set", 0), change)[0]
            totals[place] = str(total)
    return replace(state, totals=totals).noting("late-value", late)


def read(state: DeviceState, round_number: int) -> dict[str, Value]:
    """The totals of a round."""
    return {
        metric: _number(value) for (number, metric), value in state.totals.items() if number == round_number
    }


def erase(state: DeviceState, first: int, last: int) -> DeviceState:
    """Without the totals of the rounds from `first` to `last`."""
    totals = {place: value for place, value in state.totals.items() if not first <= place[0] <= last}
    return state if len(totals) == len(state.totals) else replace(state, totals=totals)


def _number(text: object) -> Value:
    """A stored total; what cannot be read counts as 0, like any value that is not a number."""
    try:
        return whole(Fraction(str(text)))
    except (ValueError, ZeroDivisionError):
        return 0
