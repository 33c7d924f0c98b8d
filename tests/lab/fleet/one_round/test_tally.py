from fractions import Fraction

import numpy as np
import pytest

from reticent.errors import ParameterError
from reticent.lab.fleet_counts import Tally
from reticent.mechanisms import Buckets


@pytest.mark.parametrize("shift", [0, 1 << 25])
def test_a_tally_knows_what_the_values_knew(shift):
    values = np.random.default_rng(1).integers(0, 50, 1000) + shift
    tally = Tally.of(values)
    assert np.array_equal(np.repeat(tally.values, tally.devices), np.sort(values))
    assert (tally.total, tally.mean) == (1000, pytest.approx(values.mean()))
    assert tally.variance == pytest.approx(values.var())


@pytest.mark.parametrize("edges", [Buckets.even(86_400, 32), Buckets([0, Fraction(5, 2), 7, 10])])
def test_buckets_are_those_of_the_device(edges):
    values = np.random.default_rng(2).integers(0, int(edges.max_value) + 1, 2000)
    values[:3] = 0, int(edges.max_value), int(edges.edges[1])
    expected = [0] * len(edges)
    for value in values.tolist():
        expected[edges.index(value)] += 1
    assert Tally.of(values).per_bucket(edges).tolist() == expected


@pytest.mark.parametrize(
    "values", [np.array([0.5]), np.array([-1]), np.array([], int), np.zeros((2, 2), int)]
)
def test_what_is_no_round_is_refused(values):
    with pytest.raises(ParameterError, match="one whole number >= 0 per device"):
        Tally.of(values)
