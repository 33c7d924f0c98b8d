"""Parameters that are refused by name, and formulas that take numbers and arrays alike."""

from typing import Any

import numpy as np
import pytest

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, Grid, HadamardBit, OneBitMean, RandomizedResponse

EIGHT = Buckets.even(24, 8)


@pytest.mark.parametrize(
    ("build", "name", "got"),
    [
        (lambda: RandomizedResponse(0), "epsilon", 0),
        (lambda: RandomizedResponse(-1), "epsilon", -1),
        (lambda: RandomizedResponse(41), "epsilon", 41),
        (lambda: RandomizedResponse(float("inf")), "epsilon", "inf"),
        (lambda: Grid.even(0), "max_value", 0),
        (lambda: Grid.even(-5, 1), "max_value", -5),
        (lambda: Grid.even(10, 0), "step", 0),
        (lambda: Grid.even(10, 11), "step", 11),
        (lambda: Grid.even(10, 3), "step", 3),
        (lambda: Grid([0]), "grid", "0"),
        (lambda: Grid([1, 2]), "grid", "1, 2"),
        (lambda: Grid([0, 2, 2]), "grid", "0, 2, 2"),
        (lambda: Grid([0, 3, 2]), "grid", "0, 3, 2"),
        (lambda: Grid([0, "x"]), "grid", "'x'"),
        (lambda: Buckets([0, 1]), "edges", "0, 1"),
        (lambda: Buckets([1, 2, 3]), "edges", "1, 2, 3"),
        (lambda: Buckets([0, 2, 2]), "edges", "0, 2, 2"),
        (lambda: Buckets([0, 2, 1]), "edges", "0, 2, 1"),
        (lambda: Buckets([0, 1, "end"]), "edges", "'end'"),
        (lambda: Buckets.even(0, 4), "max_value", 0),
        (lambda: Buckets.even(24, 1), "buckets", 1),
        (lambda: Buckets.even(24, 2.5), "buckets", 2.5),
        (lambda: OneBitMean(0, 1), "epsilon", 0),
        (lambda: OneBitMean("much", 1), "epsilon", "'much'"),
        (lambda: OneBitMean(1, 0), "max_value", 0),
        (lambda: OneBitMean(1, 10, 4), "step", 4),
        (lambda: DBitFlip(-1, EIGHT, 1), "epsilon", -1),
        (lambda: DBitFlip(-1, EIGHT, 2), "epsilon", -1),
        (lambda: DBitFlip(1, EIGHT, 0), "bits", 0),
        (lambda: DBitFlip(1, EIGHT, 9), "bits", 9),
        (lambda: DBitFlip(1, Buckets.even(300, 300), 4), "buckets", 300),
        (lambda: DBitFlip(1, EIGHT, 4, "loose"), "variant", "'loose'"),
        (lambda: HadamardBit(1, Buckets.even(256, 256)), "buckets", 256),
        (lambda: HadamardBit(1, Buckets.even(255, 255, absent=True)), "buckets", 256),
        (lambda: HadamardBit(0, EIGHT), "epsilon", 0),
    ],
)
def test_bad_parameters(build: Any, name: str, got: object) -> None:
    with pytest.raises(ParameterError) as caught:
        build()
    assert (caught.value.name, caught.value.got) == (name, got)
    assert caught.value.expected


def test_arrays_are_answered_like_their_numbers() -> None:
    values = np.linspace(0, 24, 97)
    mean = OneBitMean(1.5, max_value=24, step=6).probability_of_one
    assert mean(values).tolist() == [mean(value) for value in values.tolist()]
    for chance in (DBitFlip(1, EIGHT, 3).probability_of_one, HadamardBit(1, EIGHT).probability_of_one):
        buckets, rows = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
        assert chance(buckets, rows).tolist() == [[chance(v, row) for row in range(8)] for v in range(8)]
