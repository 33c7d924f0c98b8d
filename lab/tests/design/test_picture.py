from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from reticent_collector import plots
from reticent_lab.design import Goal, choose, curves, draw

MEAN = Goal(
    max_value=21_600, devices=100_000, half_width=240, epsilon=1, unit="second", name="editor_seconds"
)
SHARES = Goal(max_value=24, devices=9000, half_width="0.2", buckets=32, segments=3)


@pytest.mark.parametrize("goal", [MEAN, SHARES])
def test_every_curve_falls_as_more_is_lost(goal: Goal) -> None:
    for curve in curves(choose(goal)):
        assert len(curve.losses) == 25
        assert all(left < right for left, right in pairwise(curve.losses))
        assert all(left >= right for left, right in pairwise(curve.half_widths))


def test_the_choice_lies_on_its_curve() -> None:
    """The middle of the curve of its own flip: 25 points from an eighth to eight times the loss."""
    found = choose(MEAN)
    own = next(curve for curve in curves(found) if curve.label == "flip 0.2")
    assert own.losses[12] == pytest.approx(found.chosen.losses.lifetime, rel=1e-6)
    assert own.half_widths[12] == pytest.approx(found.chosen.half_width, rel=1e-6)


def test_the_picture_shows_the_goal_the_choice_and_the_fleet() -> None:
    (axes,) = draw(choose(MEAN)).axes
    assert axes.get_title() == "editor_seconds: mean from 100,000 devices"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_ylabel() == "95 % half-width (second)"
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [
        *(f"flip {flip}" for flip in ("0", "0.1", "0.2", "0.3", "0.4")),
        "the goal",
        "nearest: epsilon 1.0",
    ]
    lines = {(tuple(line.get_xdata()), tuple(line.get_ydata())) for line in axes.lines[-3:]}
    assert ((0, 1), (240.0, 240.0)) in lines
    assert ((2.0, 2.0), (0, 1)) in lines


def test_the_picture_of_a_histogram(tmp_path: Path) -> None:
    figure = draw(choose(SHARES))
    (axes,) = figure.axes
    assert axes.get_title() == "counter: histogram from 9,000 devices in 3 segments of 3,000"
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[:2] == ["hadamard-bit, flip 0.2", "d-bit-flip, 1 bit, flip 0.2"]
    assert labels[-1].startswith("chosen: epsilon ")
    png, svg = plots.save(figure, tmp_path, "p")
    assert png.read_bytes()[:4] == b"\x89PNG"
    again = plots.save(draw(choose(SHARES)), tmp_path, "q")[1]
    assert svg.read_bytes() == again.read_bytes()


def test_at_the_ends_of_what_a_plan_takes() -> None:
    for goal in (
        Goal(max_value=1, devices=10**12, epsilon="0.001", flip=0),
        Goal(max_value=1, devices=1, lifetime=10_000, buckets=256),
        Goal(max_value=1, devices=10**12, half_width="0.49", change_time="0.00401"),
    ):
        (axes,) = draw(choose(goal)).axes
        assert axes.lines
