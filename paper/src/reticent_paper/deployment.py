"""
Section 6: the deployment at its size, for a month, drawn as counts with the law of the SDK's answers.

`paper.windows` asks what it could have promised instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reticent.losses import compose
from reticent.plan import Plan
from reticent_collector import privacy
from reticent_collector.estimates import Estimate, estimate
from reticent_collector.plots import COLOURS, panels
from reticent_lab.crowd import Crowd, CrowdDraws, law_of
from reticent_lab.crowd import Table as Values
from reticent_lab.fleet import EDITOR, FORZA_HORIZON_4, GRAN_TURISMO_SPORT, AppUsage
from reticent_lab.pattern_supports import PatternCounts, Supports
from reticent_paper.claims import (
    DAY,
    ExperimentResult,
    Finding,
    NumberTable,
    Rows,
    Setting,
    claim,
    picture,
    table,
)
from reticent_paper.losses import DEPLOYED, FLIP, PRINTED_JOINT, PRINTED_ROUND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFIDENCE = 0.95
COVERED = 0.9
"""Misses come in runs, since answers are remembered; so many intervals should hold the truth all the same."""

MINOR = 1.5  # A loss is "minor additional" to another when both together are at most so many times the other
EXAMPLE = Path(__file__).parents[3] / "examples" / "windows-deployment.toml"  # The plan of section 6
SHOWN = ("browser", "mail", "photos", "racing_game")  # Apps whose estimates are drawn
SIX_HOURS = 21_600
ROUNDS_PER_DAY = 4
RHYTHM = (0.05, 0.25, 0.35, 0.35)
"""How likely use begins at night, in the morning, in the afternoon and in the evening."""
PUNCTUALITY = 0.6  # Share of sittings in a device's own time of day
DEVICES_PER_INDIVIDUAL = 75_000
"""Devices that share the values of an individual: 20,000 of them are 1.5 billion devices."""


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
        return replace(scaled, name=self.name, never_users=self.never, punctuality=PUNCTUALITY)


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
invented too; the others have that of a recorded app. The shares of devices that never open one are guesses, and
so is how often a person keeps to a time of day. What counts is active use, with one app in front at a time: apps are
drawn independently, and where they sum to more than 6 hours they share the time in proportion.
"""


@dataclass(frozen=True, slots=True)
class Month:
    """One app over all rounds."""

    app: App
    truth: NDArray[np.float64]
    estimates: tuple[Estimate, ...]
    patterns: Supports  #: Of 6-hour rounds
    used: float  #: Share of devices that used the app at all
    daily_constant: float  #: Share of devices that keep one rounded value, were days collected and not rounds

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Which intervals hold the truth."""
        lower, upper = np.array([(estimate.lower, estimate.upper) for estimate in self.estimates]).T
        return np.asarray((lower <= self.truth) & (self.truth <= upper))

    @property
    def half_width(self) -> float:
        """The half-width of an interval, on average."""
        return float(np.mean([estimate.half_width for estimate in self.estimates]))


@dataclass(frozen=True, slots=True)
class Deployment:
    """The whole fleet over all rounds."""

    devices: int
    individuals: int
    rounds: int
    months: tuple[Month, ...]
    full: float  #: Share of devices and rounds whose apps share all of the time
    fits: bool  #: Whether no device's apps sum to more than the limit
    moved: NDArray[np.int64]
    """Per individual, in how many apps the rounded value of one of its devices ever changed."""

    @property
    def covered(self) -> float:
        """The share of intervals that hold the truth."""
        return float(np.mean([month.covered for month in self.months]))

    @property
    def steady(self) -> float:
        """The share of devices whose rounded values never changed, in any app."""
        return float(np.mean(self.moved == 0))


def run(setting: Setting) -> ExperimentResult:
    """20 apps, one bit each, every 6 hours for a month."""
    fleet = simulate(max(100, setting.fleets[0] // 15), setting)
    losses = losses_table()
    return ExperimentResult(
        "deployment",
        "Deployment: 20 apps, every 6 hours",
        f"{fleet.devices:,} devices answer examples/windows-deployment.toml for {fleet.rounds} rounds of 6 hours: "
        f"ε = 1, γ = 0.2, s = m, {len(APPS)} apps that share a limit of 6 hours. Counts are drawn with the law of the "
        f"SDK's answers; {fleet.individuals:,} individuals have values that their devices share. The use of apps is "
        "invented: it decides how many devices are steady, not the losses nor the errors.",
        (per_app(fleet), losses),
        (estimates_of_last_week(fleet), steady_devices(fleet)),
        (
            mean_every_round(fleet),
            minor_loss(losses),
            any_number_of_apps(losses),
            bounded_total(fleet),
            long_period(losses),
        ),
    )


def crowd(plan: Plan, individuals: int, rounds: int, seed: int, devices: int = 0) -> Crowd:
    """People who use the apps, and the devices that share their values."""
    usage = {app.metric: app.usage for app in APPS}
    devices = devices or individuals * DEVICES_PER_INDIVIDUAL
    return Crowd.drawn(plan, usage, rounds, individuals, devices, seed)


class Watched:
    """What is read off the values of a crowd, block by block: truths, patterns, and who is steady."""

    def __init__(self, people: Crowd, plan: Plan, seed: int) -> None:
        self._people = people
        self._plan = plan
        self._seed = seed
        self.truth = np.zeros((len(APPS), people.rounds))
        self.patterns = [PatternCounts(people.rounds, 2) for _ in APPS]
        self.used, self.daily_constant = np.zeros(len(APPS)), np.zeros(len(APPS))
        self.moved = np.zeros(people.individuals, dtype=np.int64)
        self.full, self.most = 0, 0.0

    def look(self, part: slice, raw: Values, inside: Values) -> None:
        """Take in a block."""
        draw = np.random.default_rng([self._seed, 6, part.start])
        copies = self._people.copies(part)
        totals = np.sum([raw[app.metric] for app in APPS], axis=0, dtype=np.int64)
        self.full += int(np.count_nonzero(totals > SIX_HOURS))
        self.most = max(self.most, float(np.sum([inside[app.metric] for app in APPS], axis=0).max()))
        for place, app in enumerate(APPS):
            seconds = inside[app.metric].T
            self.truth[place] += copies @ seconds
            self.used[place] += np.count_nonzero(seconds.any(axis=1))
            cells = law_of(self._plan.by_name[app.metric]).classes(seconds, draw)
            self.patterns[place].add(cells)
            self.moved[part] += (cells != cells[:, :1]).any(axis=1)
            days = seconds.reshape(len(seconds), -1, ROUNDS_PER_DAY).sum(axis=2) / DAY
            rounded = draw.random((len(days), 1)) < days
            self.daily_constant[place] += np.count_nonzero((rounded == rounded[:, :1]).all(axis=1))


def simulate(individuals: int, setting: Setting) -> Deployment:
    """Run the plan on all rounds at once, some individuals after the others."""
    plan = Plan.load(EXAMPLE)
    rounds = setting.days * ROUNDS_PER_DAY
    people = crowd(plan, individuals, rounds, setting.seed)
    watched = Watched(people, plan, setting.seed)
    (drawn,) = CrowdDraws(plan, people, setting.seed).draw(1, watched.look)
    months = []
    for place, app in enumerate(APPS):
        tally = drawn[app.metric]
        months.append(
            Month(
                app=app,
                truth=watched.truth[place] / people.devices,
                estimates=tuple(
                    estimate(tally.metric, counts, CONFIDENCE)  # type: ignore[misc]
                    for counts in tally.counts
                ),
                patterns=watched.patterns[place].supports(),
                used=float(watched.used[place] / individuals),
                daily_constant=float(watched.daily_constant[place] / individuals),
            )
        )
    full = watched.full / (rounds * individuals)
    fits = watched.most <= SIX_HOURS * (1 + 1e-12)
    return Deployment(people.devices, individuals, rounds, tuple(months), full, fits, watched.moved)


@table("losses")
def losses_table() -> Rows:
    """What answering costs a device: one app, and 20 with a joint limit"""
    apps, flips = [DEPLOYED] * len(APPS), [FLIP] * len(APPS)
    rounds = 31 * ROUNDS_PER_DAY
    single = privacy.loss_per_round(DEPLOYED, FLIP)
    steady = privacy.loss_of_constant_device(DEPLOYED, FLIP, rounds)
    all_steady = privacy.joint_limit_loss(apps, flips, SIX_HOURS, rounds="all")
    lifetime = privacy.loss_by_width(DEPLOYED, DEPLOYED.classes)
    switch = privacy.loss_of_switch(DEPLOYED, FLIP, rounds // 2, rounds - rounds // 2)
    for what, one, several, *printed in (
        ("one round", single, privacy.joint_limit_loss(apps, flips, SIX_HOURS), PRINTED_ROUND, PRINTED_JOINT),
        ("one round, without a joint limit", single, compose([single] * len(APPS)), "", ""),
        ("one round, however many apps", single, privacy.paper_joint_limit_loss(DEPLOYED, FLIP), "", ""),
        (f"{rounds} rounds, steady device", steady, all_steady, "", ""),
        ("any number of rounds, same pattern", lifetime, compose([lifetime] * len(APPS)), "", ""),
        (f"{rounds} rounds: that it switched half-way", switch.switched_over_constant, "", "", ""),
    ):
        numbers = {"what": what, "one app": one, "all apps": several}
        yield numbers | {"printed, one app": printed[0], "printed, any number": printed[1]}


@table("apps")
def per_app(fleet: Deployment) -> Rows:
    """Per app: estimates of all rounds, and behaviour patterns of 6-hour rounds and of days"""
    for month in fleet.months:
        errors = np.abs(np.array([estimate.value for estimate in month.estimates]) - month.truth)
        yield {
            "app": month.app.name,
            "devices that use it": month.used,
            "mean (s)": float(month.truth.mean()),
            "mean error (s)": float(errors.mean()),
            "half-width (s)": month.half_width,
            "covered at 95 %": float(month.covered.mean()),
            "patterns": len(month.patterns.counts),
            "steady, 6-hour rounds": month.patterns.share_constant,
            "steady, days": month.daily_constant,
            "lonely": month.patterns.share_lonely,
        }


@claim("§6", "the number of seconds that a user has spent using a particular app")
def mean_every_round(fleet: Deployment) -> Finding:
    """Seconds in each app are estimated every 6 hours."""
    widest = max(month.half_width for month in fleet.months)
    return Finding(
        f"{100 * fleet.covered:.1f} % covered, ±{widest:.3g} s",
        fleet.covered >= COVERED,
        "intervals miss the truth too often",
    )


@claim(
    "§6",
    "only leads to a minor additional privacy loss",
    "E13",
    ours=f"minor: at most {MINOR:g} times the loss of one app",
)
def minor_loss(table: NumberTable) -> Finding:
    """Collecting usage of several apps leads to a minor additional privacy loss only."""
    single, (joint, separate, *_) = table.numbers("one app")[0], table.numbers("all apps")
    return Finding(
        f"{joint:.3f} for {len(APPS)} apps, {single:.3f} for one",
        joint <= MINOR * single,
        f"minor beside the {separate:.1f} of apps that share no limit",
        partly=joint < separate / 2,
    )


@claim("§6", "independent of the actual number of apps", "E12")
def any_number_of_apps(table: NumberTable) -> Finding:
    """The additional loss is independent of the actual number of apps."""
    joint, _, limit = table.numbers("all apps")[:3]
    two = privacy.joint_limit_loss([DEPLOYED] * 2, [FLIP] * 2, SIX_HOURS)
    return Finding(
        f"{two:.3f} for 2, {joint:.3f} for {len(APPS)} apps",
        abs(two - limit) < 1e-9,
        "its bound is; the loss grows towards it",
        partly=joint <= limit,
    )


@claim("§6", "is bounded by an absolute constant", "E13")
def bounded_total(fleet: Deployment) -> Finding:
    """The seconds a user spends across apps in 6 hours are bounded."""
    return Finding(
        "one app is in front at a time, and the device keeps the limit",
        fleet.fits,
        "the device does not keep it",
    )


@claim("§6", "with formal privacy guarantees even after being executed for a long period of time", "E11")
def long_period(table: NumberTable) -> Finding:
    """The mechanisms have formal privacy guarantees even after running for a long time."""
    steady = table.numbers("all apps")[3]
    return Finding(
        f"loss {steady:.3f} between steady devices",
        False,
        "between devices of the same pattern",
        partly=steady < inf,
    )


@picture("estimates", "Mean use per 6 hours, estimated and true")
def estimates_of_last_week(fleet: Deployment) -> Figure:
    """
    Four apps in the last week: the estimate with its interval of 95 % confidence beside the truth. Apps of
    every day show days and nights; for rare apps the interval is wider than what there is to see.
    """
    months = [month for month in fleet.months if month.app.name in SHOWN]
    figure, axes = panels(2, -(-len(months) // 2), width=4.6, height=2.5, sharex=True)
    for axis, month in zip(axes, months, strict=True):
        last = slice(-7 * ROUNDS_PER_DAY, None)
        days = 1 + np.arange(len(month.truth))[last] / ROUNDS_PER_DAY
        low, high = np.array([estimate.uncut for estimate in month.estimates[last]]).T / 60
        values = np.array([estimate.value for estimate in month.estimates[last]]) / 60
        axis.fill_between(days, low, high, color=COLOURS[0], alpha=0.18, linewidth=0, label="95 % interval")
        axis.plot(days, values, color=COLOURS[0], marker="o", markersize=2.5, label="estimate")
        axis.plot(days, month.truth[last] / 60, color=COLOURS[1], linestyle="--", label="truth")
        axis.set(title=month.app.name.replace("_", " "), ylabel="minutes")
    for axis in axes[-2:]:
        axis.set_xlabel("day")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


@picture("steady", "Devices that keep one rounded value for a month")
def steady_devices(fleet: Deployment) -> Figure:
    """
    Per app, the share of devices whose rounded value never changes: with 6-hour rounds, and with daily values
    of the same devices. A vertical line marks the devices that are steady in all apps at once. For apps that
    are used a lot far fewer devices are steady with 6-hour rounds.
    """
    figure, (axis,) = panels(width=6.4, height=4.6)
    months = sorted(fleet.months, key=lambda month: month.patterns.share_constant)
    places = np.arange(len(months))
    rounds = [100 * month.patterns.share_constant for month in months]
    axis.scatter(
        rounds, places, color=COLOURS[0], marker="o", label=f"{fleet.rounds} rounds of 6 hours", zorder=3
    )
    axis.scatter(
        [100 * month.daily_constant for month in months], places, color=COLOURS[1], marker="s", zorder=3,
        label=f"{fleet.rounds // ROUNDS_PER_DAY} days",
    )  # fmt: skip
    axis.axvline(100 * fleet.steady, color=COLOURS[6], linestyle="--", label="all apps, 6-hour rounds")
    axis.set_yticks(places, [month.app.name.replace("_", " ") for month in months])
    axis.set(xlabel="devices that never change their rounded value (%)", xlim=(-2, 102))
    figure.legend(loc="outside right center", frameon=False)
    return figure
