from fractions import Fraction
from itertools import pairwise

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Grid, OneBitMean

some_epsilon = st.fractions(Fraction(1, 1000), 20, max_denominator=10**6)
some_grid = st.builds(Grid.even, st.integers(1, 10)) | st.lists(
    st.fractions(Fraction(1, 100), 1000, max_denominator=100), min_size=1, max_size=10, unique=True
).map(lambda points: Grid([0, *sorted(points)]))


@given(epsilon=some_epsilon, grid=some_grid)
def test_no_two_cells_are_further_apart_than_epsilon(epsilon, grid, exponential_bounds):
    mechanism = OneBitMean(epsilon, grid=grid)
    allowed = exponential_bounds(epsilon)[0]
    ones = mechanism.cell_thresholds
    zeros = [SCALE - threshold for threshold in ones]
    assert all(Fraction(a, b) <= allowed for side in (ones, zeros) for a in side for b in side)


def test_a_cell_beyond_the_range_would_be_noticed(exponential_bounds):
    """The law above can fail: erratum 16's cell at 1.2·m is further than ε from the cell at 0."""
    mechanism = OneBitMean(1, max_value=50)
    spread = mechanism.response.high - mechanism.response.low
    beyond = mechanism.response.low + 60 * spread // 50
    assert Fraction(beyond, mechanism.response.low) > exponential_bounds(Fraction(1))[1]


@given(some_epsilon, some_grid)
def test_thresholds_grow_from_low_to_high_and_lie_within_one_unit_below_the_line(epsilon, grid):
    mechanism = OneBitMean(epsilon, grid=grid)
    low, high = mechanism.response.low, mechanism.response.high
    assert (mechanism.cell_thresholds[0], mechanism.cell_thresholds[-1]) == (low, high)
    assert all(a <= b for a, b in pairwise(mechanism.cell_thresholds))
    for point, threshold in zip(grid.points, mechanism.cell_thresholds, strict=True):
        line = low + Fraction(point) / grid.max_value * (high - low)
        assert 0 <= line - threshold < 1


@given(some_epsilon, st.integers(1, 40))
def test_even_grids_mirror_within_one_unit(epsilon, steps):
    thresholds = OneBitMean(epsilon, max_value=steps, step=1).cell_thresholds
    sums = {a + b for a, b in zip(thresholds, reversed(thresholds), strict=True)}
    assert sums <= {SCALE, SCALE - 1}


@pytest.mark.parametrize(("epsilon", "log2_of_bias"), [("0.001", -53.0), ("0.1", -59.5), ("1", -62.7)])
def test_the_integers_leave_next_to_no_bias(epsilon, log2_of_bias):
    """One unit of threshold is worth m/(t_hi - t_lo) of the estimate: 2^-59.5·m at most at ε = 0.1."""
    response = OneBitMean(epsilon, max_value=1).response
    assert Fraction(1, response.high - response.low) < Fraction(2.0**log2_of_bias)


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "5", "20"])
def test_equation_1(epsilon):
    mechanism = OneBitMean(epsilon, max_value=86_400)
    with mpmath.workdps(80):
        odds = mpmath.exp(mpmath.mpf(epsilon))
        for value in (0, 1, 43_200, 86_399, 86_400):
            printed = 1 / (odds + 1) + mpmath.mpf(value) / 86_400 * (odds - 1) / (odds + 1)
            assert mechanism.probability_of_one(value) == pytest.approx(float(printed), rel=1e-14)


@given(some_epsilon, some_grid, st.fractions(0, 1, max_denominator=10**4))
def test_rounding_first_leaves_equation_1_true(epsilon, grid, share):
    """Theorem 3 in integers: over all alphas P(1 | x) is Eq. 1 to 2⁻⁶², for every grid (hence every s)."""
    mechanism = OneBitMean(epsilon, grid=grid)
    value = grid.max_value * share
    bottom = mechanism.memo_class(value, alpha=0)
    top = min(bottom + 1, grid.steps)
    left, right = grid.points[bottom], grid.points[top]
    goes_up = Fraction(value - left, right - left) if top > bottom else Fraction(0)
    (below,), (above,) = mechanism.thresholds(bottom), mechanism.thresholds(top)
    chance = ((1 - goes_up) * below + goes_up * above) / SCALE
    low, high = mechanism.response.low, mechanism.response.high
    assert abs(chance - (low + share * (high - low)) / SCALE) < Fraction(1, 2**62)


def test_erratum_3_the_printed_weights_do_not_add_up():
    """At x = L + a = R - b the weights are b/(a+b) for L and a/(a+b) for R; printed is b/(a+b) twice."""
    a, b = Fraction(5), Fraction(15)
    left, right, value = Fraction(20), Fraction(40), Fraction(25)
    assert b / (a + b) * left + a / (a + b) * right == value
    assert b / (a + b) + b / (a + b) != 1


def test_each_cell_has_its_own_answer():
    mechanism = OneBitMean(1, max_value=60, step=20)
    assert (mechanism.bits, mechanism.classes, mechanism.uses_cohort) == (1, 4, False)
    assert [mechanism.memo_class(value, 0, 0) for value in (0, 19, 20, 60)] == [0, 0, 1, 3]
    assert [mechanism.memo_class(value, SCALE - 1, 0) for value in (0, 19, 20, 60)] == [0, 1, 1, 3]
    thresholds = [mechanism.thresholds(cell, 0) for cell in range(4)]
    assert [threshold / SCALE for (threshold,) in thresholds] == pytest.approx(
        [OneBitMean(1, max_value=60).probability_of_one(point) for point in (0, 20, 40, 60)], rel=1e-15
    )


@pytest.mark.parametrize(
    "arguments", [{}, {"max_value": 10, "grid": Grid([0, 5])}, {"step": 5}, {"grid": Grid([0, 5]), "step": 5}]
)
def test_the_range_is_said_once(arguments):
    with pytest.raises(ParameterError, match="either max_value"):
        OneBitMean(1, **arguments)
