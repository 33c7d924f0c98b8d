"""
Figures 4 and 6: how far off estimated means are, with 1BitRRPM with and without flips, and with Laplace.

A repetition gives every device a new alpha, memo and flips. Shown are the mean and the standard deviation of one
day's absolute error, over days and repetitions: both depend on the law of single days only, so each day is drawn
by itself, as counts, with exactly the law of device-by-device simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray

from reticent.mechanisms import Flip, OneBitMean, RandomizedResponse
from reticent.plan import Metric
from reticent_paper import panels as chart
from reticent_paper.baselines import Laplace
from reticent_paper.claims import (
    DAY,
    EPSILONS,
    ExperimentResult,
    Finding,
    PaperClaim,
    Plot,
    Setting,
    claim,
    judge_points,
)
from reticent_paper.fleet_counts import ones_of_mean, total_of_laplace
from reticent_paper.values import Days, generator, in_parallel, stand_ins

ON_USAGE = "§5, Figure 4"
ON_SYNTHETIC = "§5, Figure 6"

FLIPS = {"1BitRRPM": Flip(0), "1BitRRPM+OP(1/10)": Flip("1/10"), "1BitRRPM+OP(1/3)": Flip("1/3")}
"""The paper's own mechanisms, by the flip probability."""

MECHANISMS = (*FLIPS, "Laplace")

TOLERABLE = 0.1  # An error is "tolerable" up to a tenth of the mean that is estimated


def figure_4(setting: Setting) -> ExperimentResult:
    """The errors on the stand-in for the paper's data, for three fleet sizes."""
    counters = stand_ins(setting)
    panels = chart.on_usage_data(measure, "fig4", setting, len(counters))
    return _result(
        "fig4",
        "usage data",
        f"Mean absolute error of one day's mean over {setting.days} days and {setting.repetitions:,} "
        f"repetitions, all counters together: {', '.join(counter.name for counter in counters)}, in place of "
        "the three counters of the paper's unpublished data set. "
        "One repetition gives every device a new alpha, memo and flips. The deviation is that of one day's "
        "error over days and repetitions.",
        panels,
        "Mean absolute error in seconds against ε, one panel per fleet size; bars are one standard "
        "deviation of one day's error. Flips leave an error that no ε removes, so the lines with "
        "flips level off where Laplace goes on falling.",
        usage_claims(panels, counters[0].max_value),
    )


def figure_6(setting: Setting) -> ExperimentResult:
    """The errors on synthetic values, beside those of the smallest fleet of Figure 4."""
    panels = chart.on_synthetic_data(measure, "fig6", setting)
    usage = chart.on_usage_data(measure, "fig4", setting, len(stand_ins(setting)))
    reference = min(usage, key=lambda panel: panel.devices)
    return _result(
        "fig6",
        "synthetic data",
        f"As Figure 4, for {panels[0].devices:,} devices whose values are constant, uniform or normal "
        f"(truncated), drawn per device and day; {setting.repetitions:,} repetitions of {setting.days} days.",
        panels,
        "Mean absolute error in seconds against ε, one panel per data set; bars are one standard "
        "deviation of one day's error. In the middle of the range one bit has an error that no ε "
        "removes (the value is rounded to 0 or m), so its line levels off where Laplace goes on "
        "falling.",
        synthetic_claims(panels, reference),
    )


def _result(
    name: str,
    data: str,
    summary: str,
    panels: Sequence[chart.Panel],
    caption: str,
    claims: tuple[PaperClaim, ...],
) -> ExperimentResult:
    lines = [chart.PanelLine(mechanism, place) for place, mechanism in enumerate(MECHANISMS)]
    picture = Plot(
        name,
        f"Error of the mean on {data}",
        caption,
        lambda: chart.draw_panels([(panels, "ε per round")], lines, "mean absolute error (s)"),
    )
    return ExperimentResult(
        name,
        f"Figure {name.removeprefix('fig')}: mean estimation on {data}",
        summary,
        (chart.error_table(name, "Errors of the mean, seconds", panels, "s"),),
        (picture,),
        claims,
    )


@lru_cache(maxsize=16)
def measure(title: str, days: Days, max_value: int, setting: Setting, name: str) -> chart.Panel:
    """The errors of each mechanism at each ε, over the days and `setting.repetitions`; kept for Figure 6."""
    truths = np.array([day.mean for day in days])

    def spread(task: tuple[str, float]) -> chart.Spread:
        mechanism, epsilon = task
        source = generator(setting.seed, name, mechanism, str(epsilon))
        estimates = estimated_means(mechanism, epsilon, days, max_value, setting.repetitions, source)
        return chart.Spread.of(np.abs(estimates - truths[:, None]))

    tasks = [(mechanism, epsilon) for mechanism in MECHANISMS for epsilon in EPSILONS]
    spreads = dict(zip(tasks, in_parallel(spread, tasks), strict=True))
    lines = {
        mechanism: {epsilon: spreads[mechanism, epsilon] for epsilon in EPSILONS} for mechanism in MECHANISMS
    }
    return chart.Panel(title, days[0].total, lines, float(truths.mean()))


def estimated_means(
    mechanism: str, epsilon: float, days: Days, max_value: int, repetitions: int, source: np.random.Generator
) -> NDArray[np.float64]:
    """The estimated means, float64[days, repetitions]."""
    if mechanism == "Laplace":
        laplace = Laplace(epsilon, max_value)
        return np.stack([total_of_laplace(laplace, day, repetitions, source) / day.total for day in days])
    one_bit = OneBitMean(epsilon, max_value)
    flip = FLIPS[mechanism]
    shares = [ones_of_mean(one_bit, flip, day, repetitions, source) / day.total for day in days]
    return np.asarray(max_value * flip.channel(one_bit.response).truth(np.stack(shares)))


def usage_claims(panels: Sequence[chart.Panel], max_value: int = DAY) -> tuple[PaperClaim, ...]:
    """What the paragraph "Mean estimation" says, judged by panels on usage data."""
    judged = partial(judge_points, ON_USAGE)
    largest = max(panels, key=lambda panel: panel.devices)

    def deviations(panel: chart.Panel, epsilon: float) -> float:
        return panel.lines["1BitRRPM"][epsilon].deviation / panel.lines["Laplace"][epsilon].deviation

    def part_of_mean(panel: chart.Panel, epsilon: float) -> float:
        return panel.mean("1BitRRPM+OP(1/3)", epsilon) / panel.truth

    return (
        judged(
            "1BitRRPM is consistently better than Laplace, with smaller errors.",
            "error over Laplace's",
            chart.ratios(panels, "1BitRRPM", "Laplace", chart.no_worse),
            "E22",
            chart.BETTER,
            quote="is consistently better than Laplace with smaller errors",
        ),
        judged(
            "1BitRRPM has narrower standard deviations than Laplace.",
            "deviation over Laplace's",
            chart.points(panels, deviations, chart.no_worse),
            "E22",
            chart.BETTER,
            quote="narrower STDs",
        ),
        judged(
            "Even with γ = 1/10 they are comparable in accuracy.",
            "error over Laplace's",
            chart.ratios(panels, "1BitRRPM+OP(1/10)", "Laplace", lambda ratio: ratio <= chart.COMPARABLE),
            ours=f"comparable: at most {chart.COMPARABLE:g} times Laplace's error",
            quote="they are comparable in accuracy",
        ),
        uniform_noise(panels, max_value),
        judged(
            "1BitRRPM+OP(1/3) gives tolerable accuracy with many users.",
            "error over the mean",
            chart.points([largest], part_of_mean, lambda part: part <= TOLERABLE),
            ours=f"large: the largest fleet; tolerable: at most {TOLERABLE:.0%} of the mean",
            public=False,
            quote="gives us tolerable accuracy when the number of users is large",
        ),
    )


@claim(
    ON_USAGE,
    "equivalent to adding an additional uniform noise",
    "E21",
    ours="equivalent: the error within a tenth",
)
def uniform_noise(panels: Sequence[chart.Panel], max_value: int) -> Finding:
    """
    Flips with γ = 1/3 are equivalent to adding uniform noise from [0, 24 hours].

    Added noise would give √(e² + (2/π)·m²/(12 n)), with e the error of 1BitRRPM; *replacing* the value with
    probability 2/3 gives √(e² + (2/π)·m²(9c² - c²)/(4 n)), c = (e^ε + 1)/(e^ε - 1).
    """
    added, replaced = [], []
    for panel in panels:
        for epsilon in panel.abscissae:
            error, measured = panel.mean("1BitRRPM", epsilon), panel.mean("1BitRRPM+OP(1/3)", epsilon)
            contrast = float(Flip(0).channel(RandomizedResponse(epsilon)).contrast)
            with_noise, with_another = (
                sqrt(error**2 + 2 / pi * variance / panel.devices)
                for variance in (max_value**2 / 12, 2 * (max_value / contrast) ** 2)
            )
            added.append(measured / with_noise)
            replaced.append(measured / with_another)
    as_added, as_replaced = (all(0.9 <= ratio <= 1.1 for ratio in side) for side in (added, replaced))
    return Finding(
        f"error {min(added):.3g} to {max(added):.3g} times that",
        as_added,
        "the value is replaced with probability 2/3" if as_replaced else "neither added nor replaced",
    )


def synthetic_claims(panels: Sequence[chart.Panel], reference: chart.Panel) -> tuple[PaperClaim, ...]:
    """What the paragraph "On different data distributions" says of means; `reference` is of Figure 4."""
    return (
        chart.bounded(
            ON_SYNTHETIC,
            "Errors of the mean are bounded in terms of ε and n, whatever the data.",
            panels,
            FLIPS,
            lambda name, epsilon: Metric("day", OneBitMean(epsilon, DAY), FLIPS[name]),
            ours="Theorems 1 and 6 at 95 %",
            quote="errors in mean and histogram estimations can be bounded",
        ),
        chart.almost_the_same(ON_SYNTHETIC, panels, reference, MECHANISMS),
    )
