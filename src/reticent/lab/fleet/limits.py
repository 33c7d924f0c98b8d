"""Joint limits: the values of a group, scaled where their sum is above its limit, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ParameterError
from reticent.lab.fleet.classes import Ratios, Whole, clamp
from reticent.plan import Group, Plan

_ROOM = 2**62


class Limit:
    """
    What `reticent.device.in_range` does for a group, for many devices at once.

    In units of one over the group's common denominator D, with x the clamped values and T the limit, a device
    whose x sum to S > T has each scaled to  x·T / (D·S),  a ratio of integers.
    """

    def __init__(self, plan: Plan, group: Group) -> None:
        self.group = group
        self._tops = {name: plan.max_values[name] for name in group.metrics}
        self._unit = lcm(group.max_total.denominator, *(top.denominator for top in self._tops.values()))
        self._limit = int(group.max_total * self._unit)
        tops = [int(top * self._unit) for top in self._tops.values()]
        finest = max(_denominator(plan, name) for name in group.metrics)
        largest = sum(tops) * max(*tops, self._limit) * finest * self._unit
        self._kind = np.int64 if largest < _ROOM else object  # Python's integers where a product is too long

    def scaled(self, values: Mapping[str, Whole]) -> dict[str, Ratios]:
        """The members' values where the limit bites."""
        units = {name: self._units(name, values[name]) for name in self.group.metrics}
        total = np.sum(list(units.values()), axis=0)
        places = np.flatnonzero(total > self._limit)
        if not len(places):
            return {}
        under = total[places] * self._unit
        return {name: Ratios(places, of[places] * self._limit, under) for name, of in units.items()}

    def _units(self, name: str, values: Whole) -> NDArray[Any]:
        """A member's clamped values, in units."""
        top = self._tops[name]
        inside = clamp(values, ceil(top), self._kind) * self._unit
        return np.asarray(np.minimum(inside, int(top * self._unit)))


def _denominator(plan: Plan, name: str) -> int:
    return lcm(*(point.denominator for point in plan.by_name[name].mechanism.points))


def limits_of(plan: Plan) -> list[Limit]:
    """The joint limits of a plan; a metric may stand in one group only."""
    members = [name for group in plan.groups for name in group.metrics]
    if len(set(members)) != len(members):
        raise ParameterError("groups", "each metric in at most one group", members)
    return [Limit(plan, group) for group in plan.groups]
