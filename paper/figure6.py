"""Figure 6: the error of estimated means on synthetic data."""

from __future__ import annotations

from collections.abc import Sequence

from paper.error_panels import Panel, draw_panels, error_table
from paper.experiment import DAY, Claim, Picture, Progress, Result, Setting, quiet
from paper.judging import ALMOST_THE_SAME, Measured, against, judge, no_worse, ratios
from paper.mean_errors import FLIPS, LINES, stand_in_panels, synthetic_panels
from reticent.estimates import paper_bound
from reticent.mechanisms import OneBitMean
from reticent.plan import Metric

PLACE = "§5, On different data distributions (Figure 6)"


def run(setting: Setting, progress: Progress = quiet) -> Result:
    """The error of 1BitRRPM, with and without flips, and of Laplace, on synthetic values."""
    panels = synthetic_panels(setting, progress)
    reference = min(stand_in_panels(setting), key=lambda panel: panel.devices)
    return Result(
        "fig6",
        "Figure 6: mean estimation on synthetic data",
        f"As Figure 4, for {panels[0].devices:,} devices whose values are constant, uniform or normal "
        f"(truncated), drawn per device and day; {setting.repetitions:,} repetitions of {setting.days} days.",
        (error_table("fig6", "Errors of the mean, seconds", panels, "s"),),
        (
            Picture(
                "fig6",
                "Error of the mean on synthetic data",
                "Mean absolute error in seconds against ε, one panel per data set; bars are one standard "
                "deviation of one day's error. In the middle of the range one bit has an error that no ε "
                "removes (the value is rounded to 0 or m), so its line levels off where Laplace goes on "
                "falling.",
                lambda: draw_panels([(panels, "ε per round")], LINES, "mean absolute error (s)"),
            ),
        ),
        claims(panels, reference),
    )


def claims(panels: Sequence[Panel], reference: Panel) -> tuple[Claim, ...]:
    """What the paragraph "On different data distributions" says of means; `reference` is that of Figure 4."""
    return (
        judge(
            PLACE,
            "The error is bounded in terms of ε and n alone (Theorems 1 and 6 at 1 - δ = 95 %)",
            "mean error plus one deviation over the bound",
            _bounded(panels),
        ),
        *(
            judge(
                PLACE,
                f"On synthetic data {name} has almost the same error as on usage data (within "
                f"{ALMOST_THE_SAME:g} times)",
                "mean error on synthetic data over that on usage data",
                against(panels, reference, name),
                "E22",
            )
            for name in (*FLIPS, "Laplace")
        ),
        judge(
            PLACE,
            "On synthetic data, too, 1BitRRPM is better than Laplace",
            "mean error of 1BitRRPM over that of Laplace",
            ratios(panels, "1BitRRPM", "Laplace", no_worse),
            "E22",
        ),
    )


def _bounded(panels: Sequence[Panel]) -> list[Measured]:
    points = []
    for panel in panels:
        for name, flip in FLIPS.items():
            for epsilon, spread in panel.lines[name].items():
                bound = paper_bound(Metric("day", OneBitMean(epsilon, DAY), flip), panel.devices)
                figure = (spread.mean + spread.deviation) / bound
                points.append(Measured(f"{panel.title}, {name}", epsilon, figure, figure <= 1))
    return points
