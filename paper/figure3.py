"""Figure 3: how many users share each behaviour pattern, for two apps and three rounding granularities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from paper.experiment import Claim, Picture, Progress, Result, Setting, Table, Verdict, quiet
from paper.population_cache import daily_values, generator
from paper.rounded import rounded_cells
from reticent.lab.fleet import FORZA_HORIZON_4, GRAN_TURISMO_SPORT, Population
from reticent.mechanisms import Grid
from reticent.plots import COLOURS, drawing, panels
from reticent.privacy.patterns import Supports, supports

if TYPE_CHECKING:
    from matplotlib.figure import Figure

APPS: tuple[Population, ...] = (GRAN_TURISMO_SPORT, FORZA_HORIZON_4)
"""What stands in for the paper's apps A and B."""

PARTS = (1, 2, 3)
"""m/s: the paper varies s from m to m/3."""

NEVER = (0.0, 0.3, 0.6)
"""Shares of people who never open the app, to show what hangs on them; 0 is the stand-in as it is."""

MAJORITY = 2 / 3
"""The paper's "more than 2 million" of its 3 million."""

LONELY_SHARE = 0.01, 0.05
"""The paper's share of users in patterns of support one or two."""

MOST_DAYS_OFF = 4
"""Patterns are told apart by days off the main value up to here; the last class is "so many or more"."""

STAND_IN = (
    "The paper's data set is not public. In its place stand two apps whose real use per person and day "
    "was recorded and published (Vuorre et al., osf.io/fb38n): users are drawn from generators fitted to "
    "it. Only people who used the app at all are in it, so the stand-in has no never-users."
)


@dataclass(frozen=True, slots=True)
class Found:
    """The patterns of one app at one granularity, with so many never-users among the users."""

    app: str
    parts: int
    never: float
    devices: int
    patterns: int
    largest: int
    largest_is_constant: bool
    constant: float
    lonely: float
    by_width: tuple[float, ...]
    """Share of users by width 1, 2, …"""
    days_off: tuple[tuple[int, int], ...]
    """(patterns, users) whose main value is left on 0, 1, 2, … days."""
    curve: tuple[NDArray[np.float64], NDArray[np.int64]]
    """Share of users in patterns of at least this support, and the supports: the paper's axes."""

    @property
    def step(self) -> str:
        """s, as the paper writes it."""
        return "m" if self.parts == 1 else f"m/{self.parts}"

    @property
    def largest_share(self) -> float:
        """The share of users in the most common pattern."""
        return self.largest / self.devices


def run(setting: Setting, progress: Progress = quiet) -> Result:
    """Patterns of two apps (or of the setting's population) at s = m, m/2 and m/3."""
    apps = APPS if setting.population is None else (setting.population,)
    total = sum(1 + len(parts_of(app)) * len(NEVER) for app in apps)
    found: list[Found] = []
    done = 0
    progress(done, total)
    for app in apps:
        for number, each in enumerate(_of_app(app, setting)):
            done += 1 if number else 2  # the first waits for the values too
            found.append(each)
            progress(done, total)
    return _result(found, setting)


def _of_app(app: Population, setting: Setting) -> Iterator[Found]:
    devices = setting.fleets[-1]
    values = daily_values(app, devices, setting.days, setting.seed)
    draws = generator(setting.seed, "fig3", app.name).integers(0, 2**64, devices, dtype=np.uint64)
    for parts in parts_of(app):
        cells = rounded_cells(values, draws, Grid.even(app.max_value, app.max_value // parts)).T
        for share in NEVER:
            never = round(share * devices)
            patterns = with_never_users(supports(cells[: devices - never]), never)
            yield describe(app.name, parts, share, patterns)


def parts_of(app: Population) -> list[int]:
    """Those of m/s = 1, 2, 3 that divide the app's range, as seconds of a day do."""
    return [parts for parts in PARTS if app.max_value % parts == 0]


def with_never_users(found: Supports, never: int) -> Supports:
    """
    The supports after so many more devices joined that never leave 0: they have the constant pattern.

    >>> with_never_users(supports([[0, 1], [0, 1], [1, 1]]), never=2).counts.tolist()
    [3, 2]
    """
    if not never:
        return found
    rounds = found.patterns.shape[1]
    steady = found.widths == 1
    counts, patterns = found.counts + never * steady, found.patterns
    if not steady.any():
        counts = np.append(counts, never)
        patterns = np.vstack([patterns, np.zeros((1, rounds), dtype=patterns.dtype)])
    order = np.argsort(-counts, kind="stable")
    return Supports(counts[order], patterns[order])


def describe(app: str, parts: int, never: float, found: Supports) -> Found:
    """The figures of one panel."""
    widths = found.widths
    shares = np.bincount(widths, weights=found.counts, minlength=parts + 2)[1:] / found.devices
    return Found(
        app=app,
        parts=parts,
        never=never,
        devices=found.devices,
        patterns=len(found.counts),
        largest=found.largest,
        largest_is_constant=bool(widths[0] == 1),
        constant=found.share_constant,
        lonely=found.share_lonely,
        by_width=tuple(shares.tolist()),
        days_off=_days_off(found, parts),
        curve=_curve(found),
    )


def _days_off(found: Supports, parts: int) -> tuple[tuple[int, int], ...]:
    """(patterns, users) by the days on which the main value of a pattern is left."""
    days = found.patterns.shape[1]
    main = np.max([(found.patterns == label).sum(axis=1) for label in range(parts + 1)], axis=0)
    off = np.minimum(days - main, MOST_DAYS_OFF)
    patterns = np.bincount(off, minlength=MOST_DAYS_OFF + 1)
    users = np.bincount(off, weights=found.counts, minlength=MOST_DAYS_OFF + 1)
    return tuple((int(a), int(b)) for a, b in zip(patterns, users, strict=True))


def _curve(found: Supports) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    last = np.append(np.flatnonzero(np.diff(found.counts)), len(found.counts) - 1)
    return found.cumulative_shares[last], found.counts[last]


def _result(found: Sequence[Found], setting: Setting) -> Result:
    plain = [each for each in found if not each.never]
    apps = list(dict.fromkeys(each.app for each in found))
    return Result(
        name="fig3",
        title="Figure 3: distribution of pattern supports",
        summary=(
            f"{plain[0].devices:,} users of {' and '.join(apps)}, {setting.days} days, rounded to s = m, m/2 "
            f"and m/3 by each user's own α with the integer rule that devices use. "
            + (STAND_IN if setting.population is None else "The values are those given with --values.")
            + " The same figures with 30 % and 60 % of never-users show what hangs on them."
        ),
        tables=(_supports_table(found), _days_off_table(plain)),
        pictures=(_picture(found),),
        claims=(
            majority(found),
            always_constant(found),
            lonely_users(found),
            simple_is_common(plain),
            width_limit(found),
        ),
    )


def _supports_table(found: Sequence[Found]) -> Table:
    most = max(len(each.by_width) for each in found)
    return Table(
        "supports",
        "Patterns and their supports",
        (
            "app", "s", "never-users", "users", "patterns", "largest support", "its share", "is constant",
            "constant", "lonely", *(f"width {width}" for width in range(1, most + 1)),
        ),
        tuple(
            (
                each.app, each.step, each.never, each.devices, each.patterns, each.largest,
                each.largest_share, each.largest_is_constant, each.constant, each.lonely,
                *each.by_width, *(0.0,) * (most - len(each.by_width)),
            )
            for each in found
        ),
    )  # fmt: skip


def _days_off_table(found: Sequence[Found]) -> Table:
    return Table(
        "days-off",
        "Patterns by the days on which the main value is left",
        ("app", "s", "days off", "patterns", "users", "users per pattern"),
        tuple(
            (each.app, each.step, f"{off}{' or more' * (off == MOST_DAYS_OFF)}", patterns, users,
             users / patterns if patterns else 0.0)
            for each in found
            for off, (patterns, users) in enumerate(each.days_off)
        ),
    )  # fmt: skip


def _spread(shares: Sequence[float]) -> str:
    return f"{100 * min(shares):.1f} to {100 * max(shares):.1f} %"


def _listed(found: Sequence[Found], field: str) -> str:
    """The shares at every granularity, app by app."""
    apps = dict.fromkeys(each.app for each in found)
    return "; ".join(
        f"{app}: "
        + ", ".join(
            f"{100 * getattr(each, field):.1f} % (s = {each.step})" for each in found if each.app == app
        )
        for app in apps
    )


def majority(found: Sequence[Found]) -> Claim:
    """§3.2.2: one pattern holds more than 2 of 3 million users, for each app and granularity."""
    plain = [each for each in found if not each.never]
    holding = [each for each in plain if each.largest_share > MAJORITY]
    needed = max(0.0, *((MAJORITY - each.constant) / (1 - each.constant + 1e-300) for each in plain))
    crowded = [each for each in found if each.never == max(NEVER)]
    more = bool(crowded) and all(each.largest_share > MAJORITY for each in crowded)
    verdict, condition = Verdict.HOLDS, ""
    if len(holding) < len(plain):
        verdict = Verdict.CONDITION if holding or more else Verdict.FAILS
        condition = (
            f"in {len(holding)} of {len(plain)} cases as the data are; in all of them once at least "
            f"{100 * needed:.0f} % of the users never open the app"
        )
    return Claim(
        "§3.2.2, Figure 3",
        "For each app and s there is one pattern that blends the majority of users (> 2 of 3 million).",
        f"The largest pattern holds {_listed(plain, 'largest_share')}; two thirds are "
        f"{MAJORITY * plain[0].devices:,.0f} users.",
        verdict,
        condition,
    )


def always_constant(found: Sequence[Found]) -> Claim:
    """§3.2.2: that pattern is the constant one."""
    right = sum(each.largest_is_constant for each in found)
    return Claim(
        "§3.2.2, Figure 3",
        "The most common pattern is the one with a single rounded value on all days.",
        f"It is in {right} of {len(found)} cases (apps, s, shares of never-users).",
        Verdict.HOLDS if right == len(found) else Verdict.CONDITION if right else Verdict.FAILS,
        "" if right == len(found) else "where enough users are steady",
    )


def lonely_users(found: Sequence[Found]) -> Claim:
    """§3.2.2: 1 to 5 % of users have a pattern of support one or two."""
    low, high = LONELY_SHARE

    def inside(each: Found) -> bool:
        return low <= round(each.lonely, 3) <= high

    plain = [each for each in found if not each.never]
    right = [each for each in plain if inside(each)]
    others = [each for each in found if each.never]
    verdict, condition = Verdict.HOLDS, ""
    if len(right) < len(plain):
        verdict = Verdict.CONDITION if right or any(map(inside, others)) else Verdict.FAILS
        where = ", ".join(f"{each.app} s = {each.step}" for each in right)
        condition = f"in {len(right)} of {len(plain)} cases as the data are{f' ({where})' if where else ''}"
        if others:
            condition += f"; with never-users in {sum(map(inside, others))} of {len(others)}"
    return Claim(
        "§3.2.2, Figure 3",
        "There always are some lonely users, 1 to 5 % depending on s, in patterns of support one or two.",
        f"{_listed(plain, 'lonely')}; with never-users {_spread([each.lonely for each in others])}."
        if others
        else f"{_listed(plain, 'lonely')}.",
        verdict,
        condition,
    )


def simple_is_common(found: Sequence[Found]) -> Claim:
    """§3.2.2: patterns that mostly stick to one rounded value are shared by more users."""
    means = [_users_per_pattern(each) for each in found]
    right = sum(none > one > more for none, one, more in means)
    none, one, more = means[0]
    return Claim(
        "§3.2.2",
        "Simpler patterns, which mostly stick to one rounded value, are shared by more users.",
        "Patterns with no day off the main value have more users each than those with one, and these more "
        f"than others, in {right} of {len(found)} cases ({found[0].app}, s = {found[0].step}: "
        f"{none:,.0f}, {one:,.1f}, {more:,.2f}).",
        Verdict.HOLDS if right == len(found) else Verdict.CONDITION if right else Verdict.FAILS,
        "" if right == len(found) else "not for all apps and granularities",
    )


def _users_per_pattern(found: Found) -> tuple[float, float, float]:
    """Users per pattern that leaves its main value on no day, on one, and on more."""
    patterns, users = np.array(found.days_off).T
    patterns, users = (np.array([each[0], each[1], each[2:].sum()]) for each in (patterns, users))
    none, one, more = (users / np.maximum(patterns, 1)).tolist()
    return none, one, more


def width_limit(found: Sequence[Found]) -> Claim:
    """§3.2.1: no pattern is wider than m/s + 1."""
    wider = sum(any(each.by_width[each.parts + 1 :]) for each in found)
    return Claim(
        "§3.2.1",
        "The width of every pattern is at most m/s + 1.",
        f"There are wider ones in {wider} of {len(found)} cases, {sum(e.patterns for e in found):,} "
        "patterns in all.",
        Verdict.FAILS if wider else Verdict.HOLDS,
        erratum="E19",
    )


def _picture(found: Sequence[Found]) -> Picture:
    apps = list(dict.fromkeys(each.app for each in found))
    return Picture(
        name="fig3",
        title="Distribution of pattern supports",
        caption=(
            "One row of panels per app and one column per granularity: the support of a pattern on a "
            "logarithmic axis against the share of users in patterns with at least that support. Each "
            "curve starts with the most common pattern and falls to those that one or two users have; "
            "more never-users move the fall to the right. The horizontal axis does not start at 0: what "
            "lies left of it is the most common pattern alone."
        ),
        draw=lambda: _draw(found, apps),
    )


@drawing
def _draw(found: Sequence[Found], apps: Sequence[str]) -> Figure:
    columns = sorted({each.parts for each in found})
    left = max(0, 10 * int(10 * min(each.largest_share for each in found)) - 10)
    figure, axes = panels(len(columns), len(apps), width=3.4, height=2.9, sharex=True, sharey=True)
    for place, axis in enumerate(axes):
        app, parts = apps[place // len(columns)], columns[place % len(columns)]
        own = [each for each in found if (each.app, each.parts) == (app, parts)]
        for colour, line, each in zip(COLOURS, ("-", "--", ":"), own, strict=False):
            shares, counts = each.curve
            axis.step(
                100 * np.append(0, shares), np.append(counts[0], counts), where="pre",
                color=colour, linestyle=line, label=f"{each.never:.0%} never-users",
            )  # fmt: skip
        axis.axhline(
            MAJORITY * own[0].devices, color="#555555", linewidth=0.9, linestyle=(0, (4, 2, 1, 2)),
            label="two thirds of all users",
        )  # fmt: skip
        axis.set(yscale="log", title=f"{app}, s = {own[0].step}", xlim=(left, 101), ylim=(0.8, None))
        if place % len(columns) == 0:
            axis.set_ylabel("support (users)")
        if place >= len(axes) - len(columns):
            axis.set_xlabel("users in patterns with\nat least this support (%)")
    named = axes[0].get_legend_handles_labels()
    figure.legend(*named, loc="outside lower center", ncols=len(NEVER) + 1, frameon=False)
    return figure
