"""Figure 4: the error of estimated means on usage data, for three fleet sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt

from paper.error_panels import Panel, Spread, draw_panels, error_table
from paper.experiment import DAY, Claim, Picture, Progress, Result, Setting, Verdict, quiet
from paper.fleet_days import stand_in
from paper.judging import COMPARABLE, Measured, judge, no_worse, ratios
from paper.mean_errors import LINES, stand_in_panels
from reticent.mechanisms import Flip, RandomizedResponse

PLACE = "§5, Mean estimation (Figure 4)"

TOLERABLE = 0.1
"""An error is "tolerable" up to a tenth of the mean that is estimated."""


def run(setting: Setting, progress: Progress = quiet) -> Result:
    """The error of 1BitRRPM, with and without flips, and of Laplace, on the stand-in for the paper's data."""
    panels, population = stand_in_panels(setting, progress), stand_in(setting)
    return Result(
        "fig4",
        "Figure 4: mean estimation on usage data",
        f"Mean absolute error of one day's mean over {setting.days} days and {setting.repetitions:,} "
        f"repetitions; values of {population.name} in place of the paper's unpublished data set. "
        "One repetition gives every device a new alpha, memo and flips. The deviation is that of one day's "
        "error over days and repetitions.",
        (error_table("fig4", "Errors of the mean, seconds", panels, "s"),),
        (
            Picture(
                "fig4",
                "Error of the mean on usage data",
                "Mean absolute error in seconds against ε, one panel per fleet size; bars are one standard "
                "deviation of one day's error. Flips leave an error that no ε removes, so the lines with "
                "flips level off where Laplace goes on falling.",
                lambda: draw_panels([(panels, "ε per round")], LINES, "mean absolute error (s)"),
            ),
        ),
        claims(panels, population.max_value),
    )


def claims(panels: Sequence[Panel], max_value: int = DAY) -> tuple[Claim, ...]:
    """What the paragraph "Mean estimation" says, judged by these panels."""
    return (
        judge(
            PLACE,
            "1BitRRPM is consistently better than Laplace: smaller errors",
            "mean error of 1BitRRPM over that of Laplace",
            ratios(panels, "1BitRRPM", "Laplace", no_worse),
            "E22",
        ),
        judge(
            PLACE,
            "1BitRRPM is consistently better than Laplace: narrower standard deviations",
            "standard deviation of 1BitRRPM's error over that of Laplace's",
            _deviations(panels),
            "E22",
        ),
        judge(
            PLACE,
            f"With γ = 1/10 they are comparable (less than {COMPARABLE:g} times Laplace's error)",
            "mean error of 1BitRRPM+OP(1/10) over that of Laplace",
            ratios(panels, "1BitRRPM+OP(1/10)", "Laplace", lambda ratio: ratio <= COMPARABLE),
        ),
        _uniform_noise(panels, max_value),
        judge(
            PLACE,
            "1BitRRPM+OP(1/3) has tolerable accuracy when the number of users is large (largest fleet; error "
            f"at most {TOLERABLE:.0%} of the mean)",
            "mean error over the true mean",
            _tolerable(panels),
        ),
    )


def _deviations(panels: Sequence[Panel]) -> list[Measured]:
    return [
        Measured(panel.title, epsilon, ratio, no_worse(ratio))
        for panel in panels
        for epsilon in panel.abscissae
        if (ratio := panel.lines["1BitRRPM"][epsilon].deviation / panel.lines["Laplace"][epsilon].deviation)
    ]


def _tolerable(panels: Sequence[Panel]) -> list[Measured]:
    largest = max(panels, key=lambda panel: panel.devices)
    parts = {
        epsilon: largest.mean("1BitRRPM+OP(1/3)", epsilon) / largest.truth for epsilon in largest.abscissae
    }
    return [Measured(largest.title, epsilon, part, part <= TOLERABLE) for epsilon, part in parts.items()]


def _uniform_noise(panels: Sequence[Panel], max_value: int) -> Claim:
    """
    Is a flip of 1/3 like *adding* uniform noise on [0, m]?

    Added to each value, such noise has variance m²/12 and the mean error would be √(e² + (2/π)·m²/(12 n)),
    with e that of 1BitRRPM. *Replacing* the value with probability 2/3 multiplies c = (e^ε + 1)/(e^ε - 1)
    by 3 and gives √(e² + (2/π)·m²(9c² - c²)/(4 n)).
    """
    added, replaced = [], []
    for panel in panels:
        for epsilon in panel.abscissae:
            error, measured = panel.lines["1BitRRPM"][epsilon], panel.mean("1BitRRPM+OP(1/3)", epsilon)
            contrast = float(Flip(0).channel(RandomizedResponse(epsilon)).contrast)
            added.append(measured / _with_noise(error, max_value**2 / 12, panel.devices))
            replaced.append(measured / _with_noise(error, 2 * (max_value / contrast) ** 2, panel.devices))
    as_added, as_replaced = (all(0.9 <= ratio <= 1.1 for ratio in each) for each in (added, replaced))
    return Claim(
        PLACE,
        "γ = 1/3 is equivalent to adding uniform noise from [0, 24 hours]",
        f"mean error over what adding would give: {min(added):.3g} to {max(added):.3g}; over what replacing "
        f"the value with probability 2/3 would give: {min(replaced):.3g} to {max(replaced):.3g}",
        Verdict.HOLDS if as_added else Verdict.FAILS,
        ""
        if as_added
        else "the value is replaced with probability 2/3, not added to"
        if as_replaced
        else "neither adding to the value nor replacing it explains the error",
        "E21",
    )


def _with_noise(error: Spread, variance: float, devices: int) -> float:
    return sqrt(error.mean**2 + 2 / pi * variance / devices)
