"""
Five stores whose pages once led readers to wrong conclusions, built from drawn counts in a fraction of a second.

Devices remember their bits: each has one draw for each metric, below which the chance of a 1 must lie. So the noise of
one round is that of the next, as with real devices, and a metric that does not change gives the same counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reticent.plan import Plan
from reticent_collector.counts import MeanCounts
from reticent_collector.results import unix_seconds
from reticent_collector.stores import Count, CountsByTags, RoundKey, SealedRounds, Store

DAY = 86_400
MONDAY = unix_seconds("", "2024-03-04")
LATER = float(MONDAY + 400 * DAY)
"""When all rounds are over."""

_PLAN = """
min_reports = 20
[plan]
name = "app"
version = 1
round = "1d"
"""
_MINUTES = """
[metrics.minutes]
kind = "mean"
unit = "minute"
max_value = 100
epsilon = 2.0
"""
_FLAG = '[metrics.{name}]\nkind = "flag"\nepsilon = 2.0\n'
_VERSIONS = '[segments]\nversion = ["2.2", "2.3"]\n'

UPGRADE = [
    Plan.from_toml(_PLAN + _MINUTES),
    Plan.from_toml((_PLAN + _MINUTES + _FLAG.format(name="dark")).replace("version = 1", "version = 2")),
]
PARTIAL = [
    UPGRADE[0],
    Plan.from_toml((_PLAN + _MINUTES.replace("2.0", "1.5")).replace("version = 1", "version = 2")),
]
RISING = Plan.from_toml(
    _PLAN
    + _MINUTES
    + _FLAG.format(name="feature")
    + '[metrics.memory]\nkind = "mean"\nunit = "GB"\nmax_value = 8\nepsilon = 2.0\n'
)
WEEKENDS = Plan.from_toml(_PLAN + _MINUTES + _FLAG.format(name="feature"))
TAGS = Plan.from_toml(_PLAN + _FLAG.format(name="crashed") + _MINUTES + _VERSIONS)


class Fleet:
    """Devices that remember their bits, and a store that gets the counts of those that answer."""

    def __init__(self, store: Store, plans: list[Plan], devices: int, seed: int = 1) -> None:
        self.store, self.devices = store, devices
        self.random = np.random.default_rng(seed)
        names = {metric.name: None for plan in plans for metric in plan.metrics}
        self.draws = {name: self.random.random(devices) for name in names}
        for plan in plans:
            store.register(plan)

    def answer(
        self,
        plan: Plan,
        day: int,
        values: Mapping[str, float | np.ndarray],
        who: np.ndarray | None = None,
        tag: str | None = None,
    ) -> None:
        """A sealed round: the answers of some devices, nine of ten of them drawn."""
        self.answers(plan, day, {tag: (values, who)})

    def answers(
        self,
        plan: Plan,
        day: int,
        by_tag: Mapping[str | None, tuple[Mapping[str, float | np.ndarray], np.ndarray | None]],
    ) -> None:
        """The same, with the devices of each tag."""
        counts: CountsByTags = {}
        for tag, (values, who) in by_tag.items():
            answering = self.random.random(self.devices) < 0.9
            if who is not None:
                answering &= who
            group = counts.setdefault(() if tag is None else (tag,), {})
            for metric in plan.metrics:
                low, high = float(metric.channel.low), float(metric.channel.high)
                truth = np.broadcast_to(np.asarray(values[metric.name], float), self.devices)
                chance = low + (high - low) * truth / metric.mechanism.top
                ones = self.draws[metric.name] < chance
                group[metric.name] = MeanCounts(int(answering.sum()), int((ones & answering).sum()))
        reports = sum(next(iter(group.values())).devices for group in counts.values())
        backend = self.store.backend
        assert isinstance(backend, SealedRounds)
        assert backend.put_sealed(
            RoundKey(plan.name, plan.version, MONDAY // DAY + day), Count(reports, counts)
        )


def upgrade(store: Store) -> float:
    """
    Devices that never change; version 2 of the plan only adds a flag, and those with large values take it up first.

    Three days of the third week are after its release. Returns the true mean of all.
    """
    fleet = Fleet(store, UPGRADE, 60_000)
    minutes = np.arange(60_000) % 100.0
    eager = np.argsort(np.argsort(-(minutes + fleet.random.normal(0, 60, 60_000))))
    for day in range(17):
        taken = eager < (0 if day < 14 else 60_000 * (day - 13) // 14)
        values = {"minutes": minutes, "dark": 0.3}
        fleet.answer(UPGRADE[0], day, values, ~taken)
        if taken.any():
            fleet.answer(UPGRADE[1], day, values, taken)
    return float(minutes.mean())


def partial_weeks(store: Store) -> None:
    """Minutes are 80 from Monday to Wednesday, else 40; other parameters from a Thursday on; days are missing."""
    fleet = Fleet(store, PARTIAL, 20_000)
    for day in range(28):
        if 21 <= day < 25:
            continue  # the fourth week has three days
        plan = PARTIAL[day >= 10]  # from Thursday of the second week
        fleet.answer(plan, day, {"minutes": 80.0 if day % 7 < 3 else 40.0})


def slow_rise(store: Store) -> None:
    """In 37 weeks a share rises from 8 to 21 percent and memory from 1.7 to 2.1 GB; minutes stay what they are."""
    fleet = Fleet(store, [RISING], 30_000)
    for day in range(37 * 7):
        part = day / (37 * 7 - 1)
        fleet.answer(
            RISING, day, {"minutes": 50.0, "feature": 0.08 + 0.13 * part, "memory": 1.7 + 0.4 * part}
        )


def weekends(store: Store) -> None:
    """Twenty weeks in which Saturdays and Sundays differ from other days, and nothing else happens."""
    fleet = Fleet(store, [WEEKENDS], 30_000)
    for day in range(20 * 7):
        weekend = day % 7 >= 5
        fleet.answer(
            WEEKENDS, day, {"minutes": 30.0 if weekend else 50.0, "feature": 0.1 if weekend else 0.3}
        )


def versions(store: Store) -> None:
    """
    Version 2.2 of a program until the fifth week, 2.3 from the fourth on; 2.3 crashes more, and uses as many minutes.

    Everybody uses the program ten minutes less from the fifth week on, so weeks apart do not compare.
    """
    fleet = Fleet(store, [TAGS], 40_000)
    place = np.arange(40_000)
    for day in range(8 * 7):
        minutes = 60.0 if day < 28 else 50.0
        moved = min(1.0, max(0.0, (day - 20) / 15))  # the share that has 2.3
        new = place < moved * 40_000
        by_tag: dict[str | None, tuple[Mapping[str, float | np.ndarray], np.ndarray | None]] = {}
        if moved < 1:
            by_tag["2.2"] = {"crashed": 0.05, "minutes": minutes}, ~new
        if moved > 0:
            by_tag["2.3"] = {"crashed": 0.12, "minutes": minutes}, new
        fleet.answers(TAGS, day, by_tag)


STORES = {
    "upgrade": upgrade,
    "partial weeks": partial_weeks,
    "slow rise": slow_rise,
    "weekends": weekends,
    "versions": versions,
}
