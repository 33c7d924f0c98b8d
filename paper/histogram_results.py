"""Tables and pictures of Figures 5 and 7, which show the same lines for different data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paper.error_panels import draw_panels, error_table
from paper.experiment import Picture, Table
from paper.histogram_errors import OUR_LINES, PAPER_LINES, Pair

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ORDINATE = "mean of the largest\nerror of a bucket"


def histogram_tables(name: str, pairs: Sequence[Pair]) -> tuple[Table, ...]:
    """All figures: at equal ε, and at equal lifetime loss."""
    at_epsilon, at_lifetime = zip(*pairs, strict=True)
    return (
        error_table(name, "Largest error of a bucket, at equal ε per round", at_epsilon, "share"),
        error_table(
            f"{name}-lifetime",
            "Largest error of a bucket, at equal lifetime loss",
            at_lifetime,
            "share",
            "lifetime loss",
        ),
    )


def histogram_pictures(name: str, data: str, pairs: Sequence[Pair]) -> tuple[Picture, ...]:
    """The paper's figure, and what reticent adds to it."""
    at_epsilon, at_lifetime = zip(*pairs, strict=True)

    def paper() -> Figure:
        return draw_panels([(at_epsilon, "ε per round")], PAPER_LINES, _ORDINATE)

    def reticent() -> Figure:
        rows = [(at_epsilon, "ε per round"), (at_lifetime, "lifetime loss")]
        return draw_panels(rows, OUR_LINES, _ORDINATE)

    return (
        Picture(
            name,
            f"Error of the histogram on {data}",
            "Largest error over 32 buckets against ε, mean and one standard deviation, with the mechanisms, "
            "calibration and estimators of the paper.",
            paper,
        ),
        Picture(
            f"{name}-reticent",
            f"Error of the histogram on {data}: tight 1BitFlipPM and the Hadamard bit",
            "Above: at equal ε per round. Below: at equal loss over a lifetime in which every bucket is "
            "visited and answers are remembered, which is where one bit pays: BinFlip loses 32ε, 4BitFlipPM "
            "4ε, the tight 1BitFlipPM and the Hadamard bit 2ε, the paper's 1BitFlipPM ε. There the tight "
            "1BitFlipPM is the paper's with another estimator.",
            reticent,
        ),
    )
