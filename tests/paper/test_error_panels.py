import numpy as np
import pytest
from paper.error_panels import Line, Panel, Spread, draw_panels, error_table

from reticent.plots import COLOURS


@pytest.fixture
def panel():
    spreads = {epsilon: Spread.of(np.array([1.0, 3.0]) / epsilon) for epsilon in (0.5, 1.0)}
    return Panel("all", 9, {"a": spreads, "b": {key: Spread(1.0, 0.5, 2) for key in spreads}})


def test_a_spread_knows_how_well_its_mean_is_known():
    spread = Spread.of(np.array([[1.0, 3.0], [1.0, 3.0]]))
    assert (spread.mean, spread.deviation, spread.runs, spread.uncertainty) == (2.0, 1.0, 4, 0.5)


def test_ratios_and_rows(panel):
    assert panel.ratio("a", "b", 0.5) == 4
    table = error_table("t", "T", [panel], "s", "loss")
    assert table.columns[3:5] == ("loss", "mean error (s)")
    assert table.rows[0] == ("all", 9, "a", 0.5, 4.0, 2.0, 2 / 2**0.5)
    assert len(table.rows) == 4


def test_a_drawing_has_both_rows_units_and_a_legend(panel):
    figure = draw_panels(
        [([panel, panel], "ε"), ([panel, panel], "loss")], [Line("a", 0), Line("b", 3)], "error (s)"
    )
    assert [axis.get_xlabel() for axis in figure.axes] == ["ε", "ε", "loss", "loss"]
    assert [axis.get_ylabel() for axis in figure.axes] == ["error (s)", "", "error (s)", ""]
    assert all(axis.get_xscale() == axis.get_yscale() == "log" for axis in figure.axes)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert figure.axes[0].containers[1].lines[0].get_color() == COLOURS[3]
    low, high = (segment[:, 1] for segment in figure.axes[0].containers[1].lines[2][0].get_segments())
    assert low.tolist() == [0.5, 1.5] == high.tolist()  # one standard deviation each way
