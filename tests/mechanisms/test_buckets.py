from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets

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


@pytest.mark.parametrize(
    ("build", "name", "got"),
    [
        (lambda: Buckets([0, 1]), "edges", ["0", "1"]),
        (lambda: Buckets([1, 2, 3]), "edges", ["1", "2", "3"]),
        (lambda: Buckets([0, 2, 2]), "edges", ["0", "2", "2"]),
        (lambda: Buckets([0, 2, 1]), "edges", ["0", "2", "1"]),
        (lambda: Buckets([0, 1, "end"]), "edges", "'end'"),
        (lambda: Buckets.even(0, 4), "max_value", 0),
        (lambda: Buckets.even(24, 1), "buckets", 1),
    ],
)
def test_buckets_that_are_refused(build, name, got):
    with pytest.raises(ParameterError) as caught:
        build()
    assert (caught.value.name, caught.value.got) == (name, got)
    assert caught.value.expected


@pytest.mark.parametrize("count", [1, 0, -3, 2.5, "3"])
def test_a_number_of_buckets_is_whole(count):
    with pytest.raises(ParameterError, match="a whole number >= 2"):
        Buckets.even(24, count)
