"""Section 6: the deployment, run for a month with simulated devices that answer as the SDK does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from paper.apps import APPS, ROUNDS_PER_DAY, SIX_HOURS, App, Usage, usage, windows_plan
from paper.experiment import DAY, Claim, Picture, Progress, Result, Setting, Table, Verdict, quiet
from paper.losses_table import DEPLOYED, FLIP, PRINTED_JOINT, PRINTED_ROUND
from paper.population_cache import generator
from paper.rounded import rounded_cells
from reticent.estimates import Estimate, estimate
from reticent.lab.fleet import VectorisedFleet
from reticent.mechanisms import Grid
from reticent.plots import COLOURS, drawing, panels
from reticent.privacy import (
    compose,
    joint_limit_loss,
    loss_by_width,
    loss_of_constant_device,
    loss_of_switch,
    loss_per_round,
    paper_joint_limit_loss,
)
from reticent.privacy.patterns import Supports, supports

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFIDENCE = 0.95
COVERED = 0.9
"""Misses come in runs, since answers are remembered; so many intervals should hold the truth all the same."""

MINOR = 1.5
"""A loss is "minor additional" to another when both together are at most so many times the other."""

SHOWN = ("browser", "mail", "photos", "racing_game")
"""Apps whose estimates are drawn."""


@dataclass(frozen=True, slots=True)
class Month:
    """One app over all rounds."""

    app: App
    truth: NDArray[np.float64]
    estimates: tuple[Estimate, ...]
    patterns: Supports
    """Of 6-hour rounds."""
    used: float
    """Share of devices that used the app at all."""
    daily_constant: float
    """Share of devices that keep one rounded value, were days collected and not rounds."""

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Which intervals hold the truth."""
        return np.array(
            [e.lower <= mean <= e.upper for e, mean in zip(self.estimates, self.truth, strict=True)]
        )

    @property
    def errors(self) -> NDArray[np.float64]:
        """How far each estimate is off."""
        return np.abs(np.array([each.value for each in self.estimates]) - self.truth)

    @property
    def half_width(self) -> float:
        """The half-width of an interval, on average."""
        return float(np.mean([each.half_width for each in self.estimates]))


@dataclass(frozen=True, slots=True)
class Deployment:
    """The whole fleet over all rounds."""

    devices: int
    rounds: int
    months: tuple[Month, ...]
    over: float
    """Share of devices and rounds whose apps had to be scaled to the joint limit."""
    fits: bool
    """Whether no device's apps sum to more than the limit."""
    moved: NDArray[np.int64]
    """Per device, in how many apps its rounded value ever changed."""

    @property
    def covered(self) -> float:
        """The share of intervals that hold the truth."""
        return float(np.mean([month.covered for month in self.months]))

    @property
    def steady(self) -> float:
        """The share of devices whose rounded values never changed, in any app."""
        return float(np.mean(self.moved == 0))


def run(setting: Setting, progress: Progress = quiet) -> Result:
    """20 apps, one bit each, every 6 hours for a month."""
    found = simulate(max(100, setting.fleets[0] // 3), setting, progress)
    losses = losses_table()
    return Result(
        name="deployment",
        title="Deployment: 20 apps, every 6 hours",
        summary=(
            f"{found.devices:,} simulated devices answer examples/windows-deployment.toml for "
            f"{found.rounds} rounds of 6 hours: ε = 1, γ = 0.2, s = m, {len(APPS)} apps that share a "
            "limit of 6 hours. They answer bit for bit as the SDK does. Their use of apps is invented, as "
            "no such data are public (and --values, which are daily and of one app, are not used here): "
            "what depends on it is how many devices are steady, not the losses nor the errors."
        ),
        tables=(_apps_table(found.months), _moved_table(found), losses, _estimates_table(found.months)),
        pictures=(_estimates_picture(found), _steady_picture(found)),
        claims=(
            mean_every_round(found),
            minor_loss(losses),
            any_number_of_apps(losses),
            bounded_total(found),
            long_period(found, losses),
        ),
    )


def simulate(devices: int, setting: Setting, progress: Progress = quiet) -> Deployment:
    """Run the plan, app by app and round by round."""
    plan, rounds = windows_plan(), setting.days * ROUNDS_PER_DAY
    total = rounds + len(APPS) * 2
    progress(0, total)
    used = usage(devices, setting.days, setting.seed)
    fleet = VectorisedFleet(plan, devices, setting.seed)
    estimates: list[list[Estimate]] = [[] for _ in APPS]
    for number in range(rounds):
        values = {app.metric: used.seconds[place, number] for place, app in enumerate(APPS)}
        counts = fleet.counts(number, values)[number, ()]
        for place, metric in enumerate(plan.metrics):
            estimates[place].append(estimate(metric, counts[metric.name], CONFIDENCE))  # type: ignore[arg-type]
        progress(len(APPS) + number + 1, total)
    months, moved = [], np.zeros(devices, dtype=np.int64)
    for place, app in enumerate(APPS):
        alone = VectorisedFleet(
            replace(plan, metrics=(plan.metrics[place],), groups=()), devices, setting.seed
        )
        cells = np.stack([alone.cells(app.metric, row) for row in used.seconds[place]])
        moved += (cells != cells[0]).any(axis=0)
        months.append(_month(app, used.seconds[place], estimates[place], cells, setting.seed))
        progress(len(APPS) + rounds + place + 1, total)
    return Deployment(devices, rounds, tuple(months), used.over, _fits(used), moved)


def _month(
    app: App, seconds: NDArray[np.int16], estimates: Sequence[Estimate], cells: NDArray[np.uint8], seed: int
) -> Month:
    daily = seconds.reshape(-1, ROUNDS_PER_DAY, seconds.shape[1]).sum(axis=1, dtype=np.int64)
    draws = generator(seed, "deployment", "daily", app.name).integers(0, 2**64, seconds.shape[1], np.uint64)
    days = rounded_cells(daily, draws, Grid.even(DAY))
    return Month(
        app=app,
        truth=seconds.mean(axis=1),
        estimates=tuple(estimates),
        patterns=supports(cells.T),
        used=float(seconds.any(axis=0).mean()),
        daily_constant=float((days == days[0]).all(axis=0).mean()),
    )


def _fits(used: Usage) -> bool:
    return all(
        int(used.seconds[:, place].sum(axis=0, dtype=np.int64).max()) <= SIX_HOURS
        for place in range(used.seconds.shape[1])
    )


def losses_table() -> Table:
    """What answering costs a device: one app, and all of them."""
    apps, flips = [DEPLOYED] * len(APPS), [FLIP] * len(APPS)
    rounds = 31 * ROUNDS_PER_DAY
    switch = loss_of_switch(DEPLOYED, FLIP, rounds // 2, rounds - rounds // 2)
    lifetime = loss_by_width(DEPLOYED, DEPLOYED.classes)
    return Table(
        "losses",
        f"What answering costs a device: one app, and {len(APPS)} with a joint limit",
        ("what", "one app", "all apps", "printed, one app", "printed, any number"),
        (
            ("one round", loss_per_round(DEPLOYED, FLIP), joint_limit_loss(apps, flips, SIX_HOURS),
             PRINTED_ROUND, PRINTED_JOINT),
            ("one round, without a joint limit", loss_per_round(DEPLOYED, FLIP),
             compose([loss_per_round(DEPLOYED, FLIP)] * len(APPS)), "", ""),
            ("one round, however many apps", loss_per_round(DEPLOYED, FLIP),
             paper_joint_limit_loss(DEPLOYED, FLIP), "", ""),
            (f"{rounds} rounds, steady device", loss_of_constant_device(DEPLOYED, FLIP, rounds),
             joint_limit_loss(apps, flips, SIX_HOURS, rounds="all"), "", ""),
            ("any number of rounds, same pattern", lifetime, compose([lifetime] * len(APPS)), "", ""),
            (f"{rounds} rounds: that it switched half-way", switch.switched_over_constant, "", "", ""),
        ),
    )  # fmt: skip


def _apps_table(months: Sequence[Month]) -> Table:
    return Table(
        "apps",
        "Per app: estimates of all rounds, and behaviour patterns of 6-hour rounds and of days",
        (
            "app", "devices that use it", "mean (s)", "mean error (s)", "half-width (s)", "covered at 95 %",
            "patterns", "steady, 6-hour rounds", "steady, days", "lonely",
        ),
        tuple(
            (
                month.app.name, month.used, float(month.truth.mean()), float(month.errors.mean()),
                month.half_width, float(month.covered.mean()), len(month.patterns.counts),
                month.patterns.share_constant, month.daily_constant, month.patterns.share_lonely,
            )
            for month in months
        ),
    )  # fmt: skip


def _moved_table(found: Deployment) -> Table:
    counts = np.bincount(found.moved)
    return Table(
        "apps-changed",
        f"In how many of {len(APPS)} apps a device's rounded value changed, over {found.rounds} rounds",
        ("apps that changed", "devices", "share"),
        tuple((apps, int(count), float(count / found.devices)) for apps, count in enumerate(counts)),
    )


def _estimates_table(months: Sequence[Month]) -> Table:
    return Table(
        "estimates",
        "Every estimate",
        ("app", "round", "truth (s)", "estimate (s)", "lower (s)", "upper (s)", "covered"),
        tuple(
            (month.app.name, number, float(mean), each.value, each.lower, each.upper, bool(inside))
            for month in months
            for number, (mean, each, inside) in enumerate(
                zip(month.truth, month.estimates, month.covered, strict=True)
            )
        ),
    )


def mean_every_round(found: Deployment) -> Claim:
    """§6: the mean of each app's seconds is collected every 6 hours."""
    right = found.covered >= COVERED
    widths = [month.half_width for month in found.months]
    return Claim(
        "§6",
        "Seconds spent in each app are estimated every 6 hours, with ε = 1, memoization and γ = 0.2.",
        f"{100 * found.covered:.1f} % of {len(found.months) * found.rounds:,} intervals at 95 % hold the "
        f"truth, with half-widths of {min(widths):.0f} to {max(widths):.0f} s "
        f"({100 * max(widths) / SIX_HOURS:.1f} % of the range) from {found.devices:,} devices.",
        Verdict.HOLDS if right else Verdict.FAILS,
        "" if right else "intervals miss the truth too often",
    )


def minor_loss(table: Table) -> Claim:
    """§6: several apps lead to a minor additional loss only."""
    (single, *_), (joint, separate, *_) = table.figures("one app")[:1], _numbers(table, "all apps")
    minor, smaller = joint <= MINOR * single, joint < separate / 2
    return Claim(
        "§6",
        "Collecting usage of several apps from one user only leads to a minor additional privacy loss.",
        f"One round costs {single:.3f} for one app and {joint:.3f} for {len(APPS)}, {joint / single:.2f} "
        f"times as much; without the joint limit it would be {separate:.1f}.",
        Verdict.HOLDS if minor else Verdict.CONDITION if smaller else Verdict.FAILS,
        "" if minor else "minor beside the sum over apps, not beside one app",
        "E13",
    )


def any_number_of_apps(table: Table) -> Claim:
    """§6: that loss does not depend on the number of apps."""
    joint, _, limit = _numbers(table, "all apps")[:3]
    two = joint_limit_loss([DEPLOYED] * 2, [FLIP] * 2, SIX_HOURS)
    same = abs(two - limit) < 1e-9
    return Claim(
        "§6",
        "The additional loss is independent of the actual number of apps.",
        f"Exactly {two:.3f} for two apps, {joint:.3f} for {len(APPS)} and {limit:.3f} at most.",
        Verdict.HOLDS if same else Verdict.CONDITION if joint <= limit else Verdict.FAILS,
        "" if same else "the bound is; the loss grows towards it with the number of apps",
        "E12",
    )


def bounded_total(found: Deployment) -> Claim:
    """§6: the total over apps is bounded, since nobody uses apps for longer than 6 hours in 6 hours."""
    return Claim(
        "§6",
        "The seconds a user spends across apps in 6 hours are bounded by a constant.",
        f"{100 * found.over:.2f} % of the device rounds, drawn app by app, sum to more than {SIX_HOURS:,} s; "
        f"{'none does' if found.fits else 'some do'} after the joint clamp of the device.",
        Verdict.FAILS if not found.fits else Verdict.CONDITION if found.over else Verdict.HOLDS,
        "the limit is enforced on the device, not assumed" if found.over else "",
        "E13",
    )


def long_period(found: Deployment, table: Table) -> Claim:
    """§6: formal guarantees even after a long period of time."""
    steady = _numbers(table, "all apps")[3]
    switched = table.figures("one app")[-1]
    by_app = [month.patterns.share_constant for month in found.months]
    by_day = [month.daily_constant for month in found.months]
    right = found.steady > 0.5
    return Claim(
        "§6",
        "The mechanisms have formal privacy guarantees even after being executed for a long time.",
        f"A device whose values never change loses {steady:.3f} for life over {len(APPS)} apps. Over "
        f"{found.rounds} rounds {100 * found.steady:.1f} % of the devices are like that in every app "
        f"({100 * min(by_app):.0f} to {100 * max(by_app):.0f} % per app; with daily values "
        f"{100 * min(by_day):.0f} to {100 * max(by_day):.0f} %); that another switched half-way can be "
        f"told with a loss of {switched:.0f} in one app alone.",
        Verdict.HOLDS if right else Verdict.CONDITION,
        ""
        if right
        else "between devices with the same pattern of changes; most devices here change in some app",
        "E11",
    )


def _numbers(table: Table, column: str) -> list[float]:
    """The figures of a column that has gaps."""
    place = table.columns.index(column)
    return [float(str(row[place])) for row in table.rows if row[place] != ""]


def _estimates_picture(found: Deployment) -> Picture:
    return Picture(
        name="estimates",
        title="Mean use per 6 hours, estimated and true",
        caption=(
            "Four apps in the last week: the estimate with its interval of 95 % confidence beside the "
            "truth. Apps of every day show days and nights; for rare apps the interval is wider than what "
            "there is to see."
        ),
        draw=lambda: _draw_estimates([month for month in found.months if month.app.name in SHOWN]),
    )


@drawing
def _draw_estimates(months: Sequence[Month]) -> Figure:
    figure, axes = panels(2, -(-len(months) // 2), width=4.6, height=2.5, sharex=True)
    for axis, month in zip(axes, months, strict=True):
        last = slice(-7 * ROUNDS_PER_DAY, None)
        days = 1 + np.arange(len(month.truth))[last] / ROUNDS_PER_DAY
        low, high = np.array([each.uncut for each in month.estimates[last]]).T / 60
        values = np.array([each.value for each in month.estimates[last]]) / 60
        axis.fill_between(days, low, high, color=COLOURS[0], alpha=0.18, linewidth=0, label="95 % interval")
        axis.plot(days, values, color=COLOURS[0], marker="o", markersize=2.5, label="estimate")
        axis.plot(days, month.truth[last] / 60, color=COLOURS[1], linestyle="--", label="truth")
        axis.set(title=month.app.name.replace("_", " "), ylabel="minutes")
    for axis in axes[-2:]:
        axis.set_xlabel("day")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def _steady_picture(found: Deployment) -> Picture:
    return Picture(
        name="steady",
        title="Devices that keep one rounded value for a month",
        caption=(
            "Per app, the share of devices whose rounded value never changes: with 6-hour rounds, and "
            "with daily values of the same devices. A vertical line marks the devices that are steady in "
            "all apps at once. For apps that are used a lot far fewer devices are steady with 6-hour "
            "rounds."
        ),
        draw=lambda: _draw_steady(found),
    )


@drawing
def _draw_steady(found: Deployment) -> Figure:
    figure, (axis,) = panels(width=6.4, height=4.6)
    months = sorted(found.months, key=lambda month: month.patterns.share_constant)
    places = np.arange(len(months))
    rounds = [100 * month.patterns.share_constant for month in months]
    axis.scatter(
        rounds, places, color=COLOURS[0], marker="o", label=f"{found.rounds} rounds of 6 hours", zorder=3
    )
    axis.scatter(
        [100 * month.daily_constant for month in months], places, color=COLOURS[1], marker="s", zorder=3,
        label=f"{found.rounds // ROUNDS_PER_DAY} days",
    )  # fmt: skip
    axis.axvline(100 * found.steady, color=COLOURS[6], linestyle="--", label="all apps, 6-hour rounds")
    axis.set_yticks(places, [month.app.name.replace("_", " ") for month in months])
    axis.set(xlabel="devices that never change their rounded value (%)", xlim=(-2, 102))
    figure.legend(loc="outside right center", frameon=False)
    return figure
