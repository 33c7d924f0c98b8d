"""Figure 7: the error of estimated histograms on synthetic data."""

from __future__ import annotations

from collections.abc import Sequence

from paper.error_panels import Panel
from paper.experiment import Claim, Progress, Result, Setting, quiet
from paper.histogram_errors import stand_in_panels, synthetic_panels
from paper.histogram_methods import BUCKETS, PAPER, WIDTHS
from paper.histogram_results import histogram_pictures, histogram_tables
from paper.judging import ALMOST_THE_SAME, Measured, against, judge
from reticent.estimates import paper_bound
from reticent.mechanisms import Buckets, DBitFlip
from reticent.plan import Metric

PLACE = "§5, On different data distributions (Figure 7)"


def run(setting: Setting, progress: Progress = quiet) -> Result:
    """The largest error over 32 buckets, on constant, uniform and normal values."""
    pairs = synthetic_panels(setting, progress)
    panels = [at_epsilon for at_epsilon, _ in pairs]
    reference, _ = min(stand_in_panels(setting), key=lambda pair: pair[0].devices)
    return Result(
        "fig7",
        "Figure 7: histogram estimation on synthetic data",
        f"As Figure 5, for {panels[0].devices:,} devices whose values are constant, uniform or normal "
        f"(truncated), drawn per device and day; {setting.repetitions:,} repetitions.",
        histogram_tables("fig7", pairs),
        histogram_pictures("fig7", "synthetic data", pairs),
        claims(panels, reference),
    )


def claims(panels: Sequence[Panel], reference: Panel) -> tuple[Claim, ...]:
    """What the paragraph "On different data distributions" says of histograms."""
    return (
        judge(
            PLACE,
            "The error is bounded in terms of ε, n, k and d alone (Theorem 2 at 1 - δ = 95 %)",
            "mean error plus one deviation over the bound",
            _bounded(panels),
            "E6",
        ),
        *(
            judge(
                PLACE,
                f"On synthetic data {method.name} has almost the same error as on usage data (within "
                f"{ALMOST_THE_SAME:g} times)",
                "mean error on synthetic data over that on usage data",
                against(panels, reference, method.name),
                "E22",
            )
            for method in PAPER
        ),
    )


def _bounded(panels: Sequence[Panel]) -> list[Measured]:
    points = []
    for panel in panels:
        for width in WIDTHS:
            name = f"{width}BitFlipPM"
            for epsilon, spread in panel.lines[name].items():
                mechanism = DBitFlip(epsilon, Buckets.even(BUCKETS, BUCKETS), width, "paper")
                bound = paper_bound(Metric("day", mechanism), panel.devices)
                figure = (spread.mean + spread.deviation) / bound
                points.append(Measured(f"{panel.title}, {name}", epsilon, figure, figure <= 1))
    return points
