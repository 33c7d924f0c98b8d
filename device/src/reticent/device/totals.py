"""The values of rounds that are not answered yet."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from reticent.device.clamp import Value, cut, whole
from reticent.device.state import Place
from reticent.frozen import replace

if TYPE_CHECKING:
    from reticent.device.state import DeviceState
    from reticent.plan import Metric


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
