"""Figure 3: how many users share each behaviour pattern, for two apps and three rounding granularities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reticent.mechanisms import OneBitMean
from reticent.plan import Metric, Plan
from reticent_collector.plots import COLOURS, panels
from reticent_lab.fleet import Population, VectorisedFleet
from reticent_lab.pattern_supports import Supports, supports
from reticent_paper.claims import DAY, ExperimentResult, Finding, Rows, Setting, claim, picture, table
from reticent_paper.values import daily_values, stand_ins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = (1, 2, 3)  # m/s: the paper varies s from m to m/3
NEVER = (0.0, 0.3, 0.6)
"""Shares of people who never open the app, to show what hangs on them; 0 is the stand-in as it is."""

MAJORITY = 2 / 3  # The paper's "more than 2 million" of its 3 million
LONELY_SHARE = 0.01, 0.05  # The paper's share of users in patterns of support one or two
MOST_DAYS_OFF = 4
"""Patterns are told apart by days off the main value up to here; the last class is "so many or more"."""

STAND_IN = (
    "The paper's data set is not public. In its place stand two apps whose real use per person and day "
    "was recorded and published (Vuorre et al., osf.io/fb38n): users are drawn from generators fitted to "
    "it. Only people who used the app at all are in it, so the stand-in has no never-users."
)


@dataclass(frozen=True, slots=True)
class Case:
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
    by_width: tuple[float, ...]  #: Share of users by width 1, 2, …
    days_off: tuple[tuple[int, int], ...]  #: (patterns, users) whose main value is left on 0, 1, 2, … days
    curve: tuple[NDArray[np.float64], NDArray[np.int64]]
    """Share of users in patterns of at least this support, and the supports: the paper's axes."""

    @classmethod
    def of(cls, app: str, parts: int, never: float, shared: Supports) -> Case:
        """Of the patterns that occur and their supports."""
        widths = shared.widths
        days = shared.patterns.shape[1]
        by_width = np.bincount(widths, weights=shared.counts, minlength=parts + 2)[1:] / shared.devices
        main = np.max([(shared.patterns == label).sum(axis=1) for label in range(parts + 1)], axis=0)
        off = np.minimum(days - main, MOST_DAYS_OFF)
        patterns = np.bincount(off, minlength=MOST_DAYS_OFF + 1)
        users = np.bincount(off, weights=shared.counts, minlength=MOST_DAYS_OFF + 1)
        last = np.append(np.flatnonzero(np.diff(shared.counts)), len(shared.counts) - 1)
        return cls(
            app=app,
            parts=parts,
            never=never,
            devices=shared.devices,
            patterns=len(shared.counts),
            largest=shared.largest,
            largest_is_constant=bool(widths[0] == 1),
            constant=shared.share_constant,
            lonely=shared.share_lonely,
            by_width=tuple(by_width.tolist()),
            days_off=tuple((int(a), int(b)) for a, b in zip(patterns, users, strict=True)),
            curve=(shared.cumulative_shares[last], shared.counts[last]),
        )

    @property
    def step(self) -> str:
        """s, as the paper writes it."""
        return "m" if self.parts == 1 else f"m/{self.parts}"

    @property
    def largest_share(self) -> float:
        """The share of users in the most common pattern."""
        return self.largest / self.devices

    @property
    def users_per_pattern(self) -> tuple[float, float, float]:
        """Users per pattern that leaves its main value on no day, on one, and on more."""
        patterns, users = (
            np.array([counts[0], counts[1], counts[2:].sum()]) for counts in np.array(self.days_off).T
        )
        none, one, more = (users / np.maximum(patterns, 1)).tolist()
        return none, one, more


def run(setting: Setting) -> ExperimentResult:
    """Patterns of two apps (or of the setting's population) at s = m, m/2 and m/3."""
    apps = stand_ins(setting)[:2]
    cases = [case for app in apps for case in cases_of(app, setting)]
    plain = [case for case in cases if not case.never]
    return ExperimentResult(
        "fig3",
        "Figure 3: distribution of pattern supports",
        f"{plain[0].devices:,} users of {' and '.join(app.name for app in apps)}, {setting.days} days, "
        "rounded to s = m, m/2 and m/3 by each user's own α with the integer rule that devices use. "
        + (STAND_IN if not setting.populations else "The values are those given with --values.")
        + " The same figures with 30 % and 60 % of never-users show what hangs on them.",
        (patterns_and_supports(cases),),
        (distribution(cases),),
        (
            majority(cases),
            always_constant(cases),
            lonely_users(cases),
            simple_is_common(plain),
            larger_steps_blend(plain),
            width_limit(cases),
        ),
    )


def cases_of(app: Population, setting: Setting) -> Iterator[Case]:
    """The cases of one app in the largest fleet: by granularity, and by share of never-users."""
    devices = setting.fleets[-1]
    values = daily_values(app, devices, setting.days, setting.seed)  # type: ignore[arg-type]
    for parts in parts_of(app):
        fleet = VectorisedFleet(plan_of(app, parts), devices, setting.seed)
        cells = np.stack([fleet.cells("seconds", day) for day in values]).T
        for share in NEVER:
            never = round(share * devices)
            shared = with_never_users(supports(cells[: devices - never]), never)
            yield Case.of(app.name, parts, share, shared)


def plan_of(app: Population, parts: int) -> Plan:
    """A plan that rounds the app's seconds to m/parts."""
    mechanism = OneBitMean(1, app.max_value, app.max_value // parts)
    return Plan(f"fig3-{app.name}", 1, DAY, DAY, (Metric("seconds", mechanism),))


def parts_of(app: Population) -> list[int]:
    """Those of m/s = 1, 2, 3 that divide the app's range, as seconds of a day do."""
    return [parts for parts in PARTS if app.max_value % parts == 0]


def with_never_users(shared: Supports, never: int) -> Supports:
    """The supports after so many more devices joined that never leave 0: they have the constant pattern."""
    if not never:
        return shared
    steady = shared.widths == 1
    counts = shared.counts + never * steady
    patterns = shared.patterns
    if not steady.any():
        counts = np.append(counts, never)
        patterns = np.vstack([patterns, np.zeros((1, patterns.shape[1]), dtype=patterns.dtype)])
    order = np.argsort(-counts, kind="stable")
    return Supports(counts[order], patterns[order])


@table("supports")
def patterns_and_supports(cases: Sequence[Case]) -> Rows:
    """Patterns and their supports"""
    most = max(len(case.by_width) for case in cases)
    for case in cases:
        widths = (*case.by_width, *[0.0] * (most - len(case.by_width)))
        yield {
            "app": case.app,
            "s": case.step,
            "never-users": case.never,
            "users": case.devices,
            "patterns": case.patterns,
            "largest support": case.largest,
            "its share": case.largest_share,
            "is constant": case.largest_is_constant,
            "constant": case.constant,
            "lonely": case.lonely,
        } | {f"width {width}": share for width, share in enumerate(widths, start=1)}


@claim("§3.2.2, Figure 3", "which blends the majority of users")
def majority(cases: Sequence[Case]) -> Finding:
    """For each app and s one pattern blends the majority of users."""
    plain = [case for case in cases if not case.never]
    holding = [case for case in plain if case.largest_share > MAJORITY]
    needed = max(0.0, *((MAJORITY - case.constant) / (1 - case.constant + 1e-300) for case in plain))
    return Finding(
        f"of our users {100 * min(case.largest_share for case in plain):.0f} % or more, in {len(holding)} of "
        f"{len(plain)} cases the majority",
        len(holding) == len(plain),
        f"in all cases with at least {100 * needed:.0f} % never-users",
        public=False,
    )


@claim("§3.2.2, Figure 3", "across all 31 days")
def always_constant(cases: Sequence[Case]) -> Finding:
    """The most common pattern has a single rounded value on all days."""
    right = sum(case.largest_is_constant for case in cases)
    measured = f"of our users in {right} of {len(cases)} cases"
    return Finding(measured, right == len(cases), "where enough users are steady", public=False)


@claim(
    "§3.2.2, Figure 3",
    "who land in patterns that have support size of one or two",
    ours="lonely in 1.0 to 5.0 %, as printed",
)
def lonely_users(cases: Sequence[Case]) -> Finding:
    """There are 1 to 5 % lonely users, in patterns of support one or two."""
    low, high = LONELY_SHARE
    plain = [case for case in cases if not case.never]
    right = [case for case in plain if low <= round(case.lonely, 3) <= high]
    shares = [100 * case.lonely for case in plain]
    return Finding(
        f"of our users {min(shares):.1f} to {max(shares):.1f} %",
        len(right) == len(plain),
        f"in {len(right)} of {len(plain)} cases",
        public=False,
    )


@claim("§3.2.2", "patterns that mostly stick to a single rounded value")
def simple_is_common(cases: Sequence[Case]) -> Finding:
    """Simpler patterns, which mostly keep one rounded value, are shared by more users."""
    right = sum(none > one > more for none, one, more in (case.users_per_pattern for case in cases))
    return Finding(
        f"of our users in {right} of {len(cases)} cases",
        right == len(cases),
        "not in all cases",
        public=False,
    )


@claim(
    "§3.2.1",
    "increases the number of users that blend",
    ours="blending: the share of users in the largest pattern",
)
def larger_steps_blend(cases: Sequence[Case]) -> Finding:
    """A very large s reduces the patterns and increases the users that blend."""
    by_app: dict[str, list[Case]] = {}
    for case in cases:
        by_app.setdefault(case.app, []).append(case)
    pairs = [pair for own in by_app.values() for pair in pairwise(own)]
    right = sum(a.patterns < b.patterns and a.largest > b.largest for a, b in pairs)
    return Finding(
        f"for {right} of {len(pairs)} pairs of s", right == len(pairs), "not for all apps", partly=right > 0
    )


@claim("§3.2.1", "for all users U we necessarily have", "E19")
def width_limit(cases: Sequence[Case]) -> Finding:
    """For all users b(U) ≤ m/s + 1."""
    wider = sum(any(case.by_width[case.parts + 1 :]) for case in cases)
    return Finding(
        f"wider in {wider} of {len(cases)} cases",
        False,
        "the width of b(U)" if not wider else "there are wider patterns",
    )


@picture("fig3", "Distribution of pattern supports")
def distribution(cases: Sequence[Case]) -> Figure:
    """
    One row of panels per app and one column per granularity: the support of a pattern on a logarithmic axis
    against the share of users in patterns with at least that support. Each curve starts with the most common
    pattern and falls to those that one or two users have; more never-users move the fall to the right. The
    horizontal axis does not start at 0: what lies left of it is the most common pattern alone.
    """
    apps = list(dict.fromkeys(case.app for case in cases))
    columns = sorted({case.parts for case in cases})
    left = max(0, 10 * int(10 * min(case.largest_share for case in cases)) - 10)
    figure, axes = panels(len(columns), len(apps), width=3.4, height=2.9, sharex=True, sharey=True)
    for place, axis in enumerate(axes):
        app = apps[place // len(columns)]
        parts = columns[place % len(columns)]
        own = [case for case in cases if (case.app, case.parts) == (app, parts)]
        for colour, line, case in zip(COLOURS, ("-", "--", ":"), own, strict=False):
            shares, counts = case.curve
            axis.step(
                100 * np.append(0, shares), np.append(counts[0], counts), where="pre",
                color=colour, linestyle=line, label=f"{case.never:.0%} never-users",
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
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(NEVER) + 1, frameon=False)
    return figure
