"""Estimates as pictures: what is drawn is read back from the axes and compared with the numbers."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.figure import Figure  # noqa: E402

from reticent.errors import MissingPackageError, ParameterError  # noqa: E402
from reticent.mechanisms import Buckets, DBitFlip, OneBitMean  # noqa: E402
from reticent.plan import Metric  # noqa: E402
from reticent_collector.counts import HistogramCounts, MeanCounts  # noqa: E402
from reticent_collector.estimates import cumulative, estimate, plot_rounds  # noqa: E402

HOURS = Metric("hours", OneBitMean(1, 24), unit="hour")
SPREAD = Metric("spread", DBitFlip(2, Buckets([0, 1, 4, 24]), 3), unit="hour")
MEAN = estimate(HOURS, MeanCounts(10_000, 4_000))
BELOW = estimate(HOURS, MeanCounts(10_000, 2_500))
"""Fewer ones than a fleet of zeros would send: the value is negative and outside of its interval."""
COUNTS = HistogramCounts((10_000,) * 3, (5_000, 2_600, 3_300), rows_per_report=3)
SHARES = estimate(SPREAD, COUNTS)
BAND = cumulative(SPREAD, [COUNTS])
TRUTH = (0.5, 0.0, 0.5)

DRAWINGS: list[Callable[..., Figure]] = [
    MEAN.plot,
    SHARES.plot,
    BAND.plot,
    lambda **options: plot_rounds([MEAN, BELOW], **options),
]


def bars_of_error(axes: Any) -> list[list[tuple[float, float]]]:
    """The lines between the ends of the intervals."""
    (container,) = [drawn for drawn in axes.containers if drawn.get_label() and hasattr(drawn, "has_yerr")]
    (lines,) = container.lines[2]
    return [[tuple(point) for point in line] for line in lines.get_segments()]


def points(axes: Any, label: str) -> list[tuple[float, float]]:
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return [(float(x), float(y)) for x, y in line.get_xydata()]


def words(axes: Any) -> list[str]:
    return sorted(text.get_text().replace("\n", " ") for text in axes.get_legend().get_texts())


def test_a_number_lies_on_its_interval() -> None:
    (axes,) = MEAN.plot().axes
    assert bars_of_error(axes) == [[pytest.approx((MEAN.lower, 0)), pytest.approx((MEAN.upper, 0))]]
    assert points(axes, "estimate") == [(MEAN.value, 0)]
    assert (axes.get_title(), axes.get_xlabel()) == (str(MEAN), "hour")
    assert words(axes) == ["95 % interval", "estimate"]


def test_a_value_outside_its_interval_is_drawn_beside_it() -> None:
    (axes,) = BELOW.plot().axes
    assert BELOW.value < BELOW.lower == 0
    assert bars_of_error(axes)[0][0][0] == 0
    assert points(axes, "estimate") == [(BELOW.value, 0)]
    left, right = axes.get_xlim()
    assert left < BELOW.value < BELOW.upper < right


def test_a_histogram_has_a_bar_and_an_interval_per_bucket() -> None:
    (axes,) = SHARES.plot(truth=TRUTH).axes
    bars = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in axes.patches]
    assert bars == [pytest.approx((place, value)) for place, value in enumerate(SHARES.values)]
    assert bars_of_error(axes) == [
        [pytest.approx((place, bucket.lower)), pytest.approx((place, bucket.upper))]
        for place, bucket in enumerate(SHARES.buckets)
    ]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "1", "4", "24"]
    assert axes.get_xticks().tolist() == [-0.5, 0.5, 1.5, 2.5]
    (truths,) = [drawn for drawn in axes.collections if drawn.get_label() == "truth"]
    assert [segment[0][1] for segment in truths.get_segments()] == list(TRUTH)


def test_the_band_also_holds_between_edges() -> None:
    """F cannot fall: between edges, the lower end of the one before and the upper of the next hold."""
    (axes,) = BAND.plot(truth=(0, *np.cumsum(TRUTH))).axes
    (band,) = [drawn for drawn in axes.collections if "band" in str(drawn.get_label())]
    outline = band.get_paths()[0]
    for place, (left, right) in enumerate(pairwise(BAND.edges)):
        low, high, middle = BAND.lower[place], BAND.upper[place + 1], (left + right) / 2
        assert outline.contains_points([(middle, low + 1e-6), (middle, high - 1e-6)]).all()
        assert not outline.contains_points([(middle, low - 1e-6), (middle, high + 1e-6)]).any()
    assert points(axes, "estimate") == list(zip(BAND.edges, BAND.values, strict=True))
    assert points(axes, "truth") == [(0, 0), (1, 0.5), (4, 0.5), (24, 1)]


def test_rounds_stand_at_their_numbers_each_with_its_interval() -> None:
    (axes,) = plot_rounds([MEAN, BELOW, MEAN], rounds=[100, 101, 105], truth=[6.5, 0, 6.5]).axes
    assert points(axes, "estimate") == [(100, MEAN.value), (101, BELOW.value), (105, MEAN.value)]
    assert points(axes, "truth") == [(100, 6.5), (101, 0), (105, 6.5)]
    assert bars_of_error(axes)[1] == [pytest.approx((101, BELOW.lower)), pytest.approx((101, BELOW.upper))]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "hour")


@pytest.mark.parametrize("draw", DRAWINGS)
def test_axes_that_are_given_are_drawn_in(draw: Callable[..., Figure]) -> None:
    figure = Figure()
    left, right = figure.subfigures(1, 2)
    axes = right.subplots()
    assert draw(axes=axes) is figure
    assert left.axes == []
    assert axes.get_legend() is not None


@pytest.mark.parametrize("draw", DRAWINGS)
def test_a_notebook_is_handed_a_picture_of_its_size(draw: Callable[..., Any]) -> None:
    figure = draw()
    image, size = figure._repr_png_()
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", image[16:24])
    inches = figure.get_size_inches()
    assert (width, height) == tuple(int(side) for side in inches * 150)
    assert size == {"width": round(inches[0] * 96), "height": round(inches[1] * 96)}
    assert draw()._repr_png_()[0] == image


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda: SHARES.plot(truth=[1.0]), "truth: expected 3 numbers"),
        (lambda: BAND.plot(truth=TRUTH), "truth: expected 4 numbers"),
        (lambda: plot_rounds([]), "at least one estimate"),
        (lambda: plot_rounds([MEAN], rounds=[1, 2]), "rounds: expected 1 numbers"),
        (lambda: plot_rounds([MEAN], truth=[]), "truth: expected 1 numbers"),
        (lambda: plot_rounds([SHARES]), "expected single numbers, got histograms"),  # type: ignore[list-item]
        (lambda: plot_rounds([MEAN, replace(MEAN, unit="day")]), "of one metric"),
        (lambda: plot_rounds([MEAN, replace(MEAN, confidence=0.9)]), "at one confidence"),
    ],
)
def test_what_does_not_fit_is_refused(draw: Callable[[], Figure], name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        draw()


@pytest.mark.parametrize("draw", DRAWINGS)
def test_without_matplotlib_the_extra_is_named(
    draw: Callable[..., Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackageError, match=r"matplotlib is not installed: pip install 'reticent-lab'"):
        draw()


def test_estimates_load_no_matplotlib_until_drawn_and_no_pyplot_ever() -> None:
    code = (
        "import sys; from reticent_collector.counts import MeanCounts; from reticent.mechanisms import OneBitMean\n"
        "from reticent_collector.estimates import estimate; from reticent.plan import Metric\n"
        "mean = estimate(Metric('hours', OneBitMean(1, 24)), MeanCounts(10, 4))\n"
        "assert 'matplotlib' not in sys.modules\n"
        "mean.plot()._repr_png_()\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
