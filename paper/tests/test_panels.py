"""From errors to tables, pictures and verdicts: one rule for all."""

import numpy as np
import pytest

from reticent_paper.claims import ClaimVerdict, Measured, judge_points
from reticent_paper.panels import (
    Panel,
    PanelLine,
    Spread,
    draw_panels,
    error_table,
    no_worse,
    points,
    ratios,
    within,
)


def panel(title, **errors):
    lines = {
        name: {1.0: Spread(first, 0.5, 4), 5.0: Spread(second, 0.5, 4)}
        for name, (first, second) in errors.items()
    }
    return Panel(title, 9, lines)


def test_a_spread_knows_how_well_its_mean_is_known():
    spread = Spread.of(np.array([[1.0, 3.0], [1.0, 3.0]]))
    assert (spread.mean, spread.deviation, spread.runs, spread.uncertainty) == (2.0, 1.0, 4, 0.5)


def test_a_table_has_a_row_per_point():
    table = error_table("t", "T", [panel("all", a=(4, 1), b=(1, 1))], "s", "loss")
    assert table.columns[3:5] == ("loss", "mean error (s)")
    assert table.rows[0] == ("all", 9, "a", 1.0, 4, 0.5, 0.25)
    assert len(table.rows) == 4


def test_bars_are_one_standard_deviation_each_way():
    own = panel("all", a=(4, 1), b=(1, 1))
    rows = [([own, own], "ε"), ([own, own], "loss")]
    figure = draw_panels(rows, [PanelLine("a", 0), PanelLine("b", 3)], "error (s)")
    assert [axis.get_xlabel() for axis in figure.axes] == ["ε", "ε", "loss", "loss"]
    assert all(axis.get_xscale() == axis.get_yscale() == "log" for axis in figure.axes)
    low, high = (segment[:, 1] for segment in figure.axes[0].containers[1].lines[2][0].get_segments())
    assert low.tolist() == [0.5, 1.5] == high.tolist()


def test_a_claim_holds_where_all_points_do():
    panels = [panel("a", one=(1, 2), other=(2, 2)), panel("b", one=(1, 1), other=(4, 1.5))]
    claim = judge_points("here", "one is better", "ratio", ratios(panels, "one", "other", no_worse))
    assert (claim.verdict, claim.condition) == (ClaimVerdict.HOLDS, "")
    assert claim.measured == "ratio: 0.25 to 1"


def test_a_claim_that_holds_nowhere_does_not_hold():
    worse = ratios([panel("a", one=(1, 2), other=(3, 8))], "other", "one", no_worse)
    claim = judge_points("here", "other is better", "ratio", worse)
    assert (claim.verdict, claim.condition) == (ClaimVerdict.CORRECTED, "not at any point")


def test_a_condition_names_what_differs_and_by_how_much():
    panels = [panel(title, one=(1, 3), other=(1, 1)) for title in "ab"]
    claim = judge_points("here", "one is better", "ratio", ratios(panels, "one", "other", no_worse), "E1")
    assert (claim.verdict, claim.condition) == (ClaimVerdict.CONDITION, "not at ε = 5 (3)")
    assert claim.erratum == "E1"
    mixed = ratios([*panels, panel("c", one=(7, 1), other=(1, 1))], "one", "other", no_worse)
    assert judge_points("", "", "", mixed).condition == "not at 3 of 6 points, ε = 1, 5 (3 to 7)"


@pytest.mark.parametrize(("ratio", "passes"), [(0.66, False), (0.67, True), (1.5, True), (1.51, False)])
def test_a_factor_goes_both_ways(ratio, passes):
    assert within(1.5)(ratio) is passes


def test_a_tie_is_no_worse_and_some_points_can_be_chosen():
    assert no_worse(1.019)
    assert not no_worse(1.021)
    measured = points(
        [panel("a", one=(1.2, 4))], lambda own, epsilon: own.mean("one", epsilon), no_worse, (5.0,)
    )
    assert measured == [Measured("a", 5.0, 4.0, False)]
