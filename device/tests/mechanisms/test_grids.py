from fractions import Fraction
from math import exp, floor, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Buckets, Grid, OneBitMean

alphas = st.integers(0, SCALE - 1)
even_grids = st.builds(
    lambda step, steps: Grid.even(step * steps, step),
    st.fractions(Fraction(1, 50), 10**5, max_denominator=50),
    st.integers(1, 24),
)
uneven_grids = st.lists(
    st.fractions(Fraction(1, 100), 10**5, max_denominator=100), min_size=1, max_size=12, unique=True
).map(lambda points: Grid([0, *sorted(points)]))
grids = even_grids | uneven_grids


@st.composite
def grids_with_values(draw):
    grid = draw(grids)
    return grid, grid.max_value * draw(st.fractions(0, 1, max_denominator=10**6))


def alphas_that_round_up(grid: Grid, value: int | Fraction) -> tuple[int, int]:
    """The cell below, and how many of the 2⁶⁴ alphas round up, by asking `cell` (up iff alpha is large)."""
    bottom = grid.cell(value, 0)
    lowest, highest = 0, SCALE
    while lowest < highest:
        middle = (lowest + highest) // 2
        if grid.cell(value, middle) > bottom:
            highest = middle
        else:
            lowest = middle + 1
    return bottom, SCALE - lowest


def expected_rounding(grid: Grid, value: int | Fraction) -> Fraction:
    """E[y] over all alphas, exactly."""
    bottom, up = alphas_that_round_up(grid, value)
    left = grid.points[bottom]
    right = grid.points[min(bottom + 1, grid.steps)]
    return left + (right - left) * Fraction(up, SCALE)


@given(grids_with_values())
def test_rounding_is_unbiased_to_one_part_in_2_to_the_64(case):
    grid, value = case
    bottom = grid.cell(value, 0)
    width = grid.points[min(bottom + 1, grid.steps)] - grid.points[bottom]
    bias = value - expected_rounding(grid, value)
    assert bias == 0 or 0 < bias < width * Fraction(1, SCALE)


@given(st.integers(1, 10**6), st.data())
def test_integers_are_unbiased_too(max_value, data):
    value = data.draw(st.integers(0, max_value))
    grid = Grid.even(max_value)
    assert 0 <= value - expected_rounding(grid, value) < Fraction(max_value, SCALE)


@given(grids_with_values(), alphas, alphas)
def test_a_larger_alpha_never_rounds_lower_and_only_neighbours_are_hit(case, one, other):
    grid, value = case
    low, high = sorted((one, other))
    assert grid.cell(value, low) <= grid.cell(value, high)
    point = grid.points[grid.cell(value, one)]
    around = [p for p in grid.points if p <= value][-1:] + [p for p in grid.points if p > value][:1]
    assert point in around


@given(grids, alphas, st.data())
def test_grid_points_stay_where_they_are(grid, alpha, data):
    cell = data.draw(st.integers(0, grid.steps))
    assert grid.cell(grid.points[cell], alpha) == cell


@given(grids)
def test_the_top_of_the_range_is_its_own_cell_for_every_alpha(grid):
    assert [grid.cell(grid.max_value, alpha) for alpha in (0, SCALE // 2, SCALE - 1)] == [grid.steps] * 3


@given(even_grids, alphas, st.fractions(0, 1, max_denominator=10**6).filter(lambda f: f < 1))
def test_one_alpha_serves_all_neighbours(grid, alpha, fraction):
    step = grid.points[1]
    ups = {grid.cell(step * (cell + fraction), alpha) - cell for cell in range(grid.steps)}
    assert len(ups) == 1


@given(grids_with_values(), alphas, st.fractions(0, 1, max_denominator=1000))
def test_a_value_that_grows_never_falls_back(case, alpha, share):
    grid, value = case
    assert grid.cell(value * share, alpha) <= grid.cell(value, alpha)


def papers_mean(value: float | Fraction, step: int) -> Fraction:
    """E[y] over α in {0, …, s - 1}, by the paper's rule: down if x + α < R, otherwise up."""
    left = value // step * step
    right = left + step
    total = sum(left if value + alpha < right else right for alpha in range(step))
    return Fraction(total) / step


def test_erratum_15_integer_alphas_are_unbiased_for_integers_only():
    assert all(papers_mean(value, 20) == value for value in range(60))
    reals = [Fraction(tenth, 10) for tenth in range(600)]
    assert all(papers_mean(value, 20) == floor(value) for value in reals)
    assert papers_mean(Fraction(99, 100), 1) == 0, "on the unit interval everything below 1 rounds down"
    grid = Grid.even(60, 20)
    assert all(abs(expected_rounding(grid, value) - value) <= Fraction(20, SCALE) for value in reals)


def test_erratum_16_a_step_that_does_not_divide_the_range_breaks_ldp():
    """The paper's top cell is then 60 > m = 50, remembered with P(1) = q + (60/50)(p - q)."""
    lie = 1 / (exp(1) + 1)
    top = lie + 60 / 50 * (1 - 2 * lie)
    assert log(top / lie) == pytest.approx(1.119, abs=5e-4)
    with pytest.raises(ParameterError, match="step: expected a number > 0 that divides max_value"):
        Grid.even(50, 20)


def test_an_uneven_grid_is_the_way_out(exponential_bounds):
    mechanism = OneBitMean(1, grid=Grid([0, 20, 40, 50]))
    lowest, highest = min(mechanism.cell_thresholds), max(mechanism.cell_thresholds)
    assert Fraction(highest, lowest) <= exponential_bounds(Fraction(1))[0]
    assert Fraction(SCALE - lowest, SCALE - highest) <= exponential_bounds(Fraction(1))[0]


def test_midpoints_are_biased_by_half_a_step():
    """The example of section 3: everybody is at ℓs + 1 and is taken for ℓs + s/2."""
    values = [20 * cell + 1 for cell in range(10)]
    assert [value // 20 * 20 + 10 - value for value in values] == [9] * 10
    assert all(
        abs(expected_rounding(Grid.even(200, 20), value) - value) < Fraction(1, 10**17) for value in values
    )


def test_even_grids():
    assert Grid.even(1).points == (0, 1)
    assert Grid.even("1.5", "0.5").points == (0, Fraction(1, 2), 1, Fraction(3, 2))
    assert Grid.even(0.3, 0.1).steps == 3, "0.1 is one tenth, so it divides 0.3"
    assert all(isinstance(point, int) for point in Grid.even(60, 20).points)


some_buckets = st.lists(
    st.fractions(Fraction(1, 100), 1000, max_denominator=100), min_size=2, max_size=20, unique=True
).map(lambda edges: Buckets([0, *sorted(edges)]))


def by_looking(buckets: Buckets, value: Fraction) -> int:
    """The bucket with e_i ≤ value < e_{i+1}, the last one closed."""
    for index, (left, right) in enumerate(zip(buckets.edges, buckets.edges[1:], strict=False)):
        if left <= value < right:
            return index
    assert value == buckets.max_value
    return len(buckets) - 1


@given(some_buckets, st.fractions(0, 1, max_denominator=10**5))
def test_every_value_has_exactly_the_bucket_around_it(buckets, share):
    value = buckets.max_value * share
    assert buckets.index(value) == by_looking(buckets, value)


@given(some_buckets)
def test_an_edge_belongs_to_the_bucket_it_opens(buckets):
    assert [buckets.index(edge) for edge in buckets.edges[:-1]] == list(range(len(buckets)))
    assert buckets.index(buckets.max_value) == len(buckets) - 1


@given(st.integers(2, 256), st.fractions(Fraction(1, 10), 10**6, max_denominator=10))
def test_even_buckets_have_one_width(count, max_value):
    buckets = Buckets.even(max_value, count)
    assert len(buckets) == count
    assert {right - left for left, right in zip(buckets.edges, buckets.edges[1:], strict=False)} == {
        max_value / count
    }
    assert buckets.max_value == max_value


def test_a_share_of_all_alphas_rounds_up_to_the_last_one() -> None:
    """Of a value in the middle, exactly half of them: those from 2⁶³ on."""
    for grid, value in ((Grid.even(2), 1), (Grid.even(1), Fraction(1, 2))):
        assert [grid.cell(value, alpha) for alpha in (0, 2**63 - 1, 2**63, 2**64 - 1)] == [0, 0, 1, 1]
