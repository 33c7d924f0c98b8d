"""The plan of section 6, and invented use of its apps: 20 of them, every 6 hours, within a joint limit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

import numpy as np
from numpy.typing import NDArray

from paper.population_cache import generator
from reticent.lab.fleet import EDITOR, FORZA_HORIZON_4, GRAN_TURISMO_SPORT, AppUsage
from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Group, Metric, Plan

SIX_HOURS = 21_600
ROUNDS_PER_DAY = 4
RHYTHM = (0.05, 0.25, 0.35, 0.35)
"""How likely use begins at night, in the morning, in the afternoon and in the evening."""


@dataclass(frozen=True, slots=True)
class App:
    """One app: whose shape its use has, and what share of devices never opens it."""

    name: str
    shape: AppUsage
    never: float

    @property
    def metric(self) -> str:
        """Its name in the plan."""
        return f"{self.name}_seconds"

    @property
    def usage(self) -> AppUsage:
        """Its use per round."""
        scaled = self.shape.scaled(SIX_HOURS, ROUNDS_PER_DAY, RHYTHM)
        return replace(scaled, name=self.name, never_users=self.never)


APPS = (
    App("browser", EDITOR, 0.05),
    App("mail", EDITOR, 0.50),
    App("chat", EDITOR, 0.60),
    App("calls", GRAN_TURISMO_SPORT, 0.50),
    App("office", EDITOR, 0.70),
    App("notes", FORZA_HORIZON_4, 0.60),
    App("photos", GRAN_TURISMO_SPORT, 0.40),
    App("music", FORZA_HORIZON_4, 0.60),
    App("video", GRAN_TURISMO_SPORT, 0.40),
    App("maps", FORZA_HORIZON_4, 0.70),
    App("news", GRAN_TURISMO_SPORT, 0.70),
    App("weather", FORZA_HORIZON_4, 0.70),
    App("store", GRAN_TURISMO_SPORT, 0.30),
    App("camera", FORZA_HORIZON_4, 0.80),
    App("reader", GRAN_TURISMO_SPORT, 0.80),
    App("racing_game", FORZA_HORIZON_4, 0.95),
    App("card_game", GRAN_TURISMO_SPORT, 0.85),
    App("editor", EDITOR, 0.95),
    App("terminal", GRAN_TURISMO_SPORT, 0.97),
    App("recorder", FORZA_HORIZON_4, 0.98),
)
"""
Invented: no data on 20 apps per 6 hours are public. Apps of every day have the shape of `EDITOR`, which is
invented too; the others have that of a recorded app. The shares of devices that never open one are guesses.
"""


def windows_plan() -> Plan:
    """The deployment of §6, the same as examples/windows-deployment.toml."""
    metrics = tuple(
        Metric(
            app.metric,
            OneBitMean(epsilon=1, max_value=SIX_HOURS, step=SIX_HOURS),
            Flip("0.2"),
            unit="second",
            description=f"Seconds with the {app.name.replace('_', ' ')} in front",
        )
        for app in APPS
    )
    return Plan(
        name="windows-deployment",
        version=1,
        round_seconds=SIX_HOURS,
        grace_seconds=SIX_HOURS,
        metrics=metrics,
        groups=(Group("apps", tuple(app.metric for app in APPS), SIX_HOURS),),
        owner="telemetry@example.org",
        expires=date(2027, 11, 1),
    )


@dataclass(frozen=True, slots=True)
class Usage:
    """What the devices of a fleet did: seconds per app, round and device, within the limit."""

    seconds: NDArray[np.int16]
    """[apps, rounds, devices]."""
    over: float
    """The share of devices and rounds whose apps, drawn one by one, had summed to more than the limit."""


def usage(devices: int, days: int, seed: int) -> Usage:
    """
    The use of all apps.

    Apps are drawn independently. Where they sum to more than 6 hours all are scaled down to them and rounded
    down, as a person who can only look at one at a time would have to.
    """
    rounds = days * ROUNDS_PER_DAY
    seconds = np.empty((len(APPS), rounds, devices), dtype=np.int16)
    for place, app in enumerate(APPS):
        seconds[place] = app.usage.values(devices, rounds, generator(seed, "deployment", app.name))
    over = 0
    for place in range(rounds):
        total = seconds[:, place].sum(axis=0, dtype=np.int64)
        above = np.flatnonzero(total > SIX_HOURS)
        seconds[:, place, above] = seconds[:, place, above].astype(np.int64) * SIX_HOURS // total[above]
        over += len(above)
    return Usage(seconds, over / (rounds * devices))
