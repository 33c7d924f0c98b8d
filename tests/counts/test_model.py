from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.counts import HistogramCounts, MeanCounts, counts_from_rows, zero
from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, HadamardBit, OneBitMean
from reticent.plan import Metric

HOURS = Buckets.even(24, 5)
MEAN = Metric("mean", OneBitMean(1, 24))
WINDOWS = Metric("windows", DBitFlip(1, HOURS, 2, label="plan/windows"))
ROWS = Metric("rows", HadamardBit(1, HOURS))

pairs = st.integers(0, 10**9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@given(st.lists(pairs, min_size=1, max_size=4))
def test_means_add_in_any_order_and_sum_works(given_pairs: list[tuple[int, int]]) -> None:
    total = MeanCounts(sum(n for n, _ in given_pairs), sum(ones for _, ones in given_pairs))
    for order in permutations(given_pairs):
        assert sum(MeanCounts(*pair) for pair in order) == total


@given(st.lists(st.lists(pairs, min_size=5, max_size=5), min_size=1, max_size=4))
def test_histograms_add_row_by_row(tables: list[list[tuple[int, int]]]) -> None:
    added = sum(HistogramCounts(*zip(*table, strict=True)) for table in tables)
    for row in range(5):
        assert added.reports[row] == sum(table[row][0] for table in tables)
        assert added.ones[row] == sum(table[row][1] for table in tables)


@pytest.mark.parametrize("metric", [MEAN, WINDOWS, ROWS])
def test_zero_changes_nothing(metric: Metric) -> None:
    nothing = zero(metric)
    some = counts_from_rows(metric, [(0, 4, 1)] + ([(1, 4, 0)] if metric is WINDOWS else []))
    assert nothing + some == some == some + nothing
    assert nothing.devices == 0
    assert some.devices == 4


@pytest.mark.parametrize("metric", [MEAN, WINDOWS, ROWS])
def test_rows_go_out_and_come_back(metric: Metric) -> None:
    counts = counts_from_rows(metric, [(0, 4, 1), *([(1, 4, 2)] if metric is WINDOWS else [])])
    assert counts_from_rows(metric, counts.rows()) == counts


def test_zero_has_the_rows_of_its_mechanism() -> None:
    assert zero(MEAN) == MeanCounts(0, 0)
    assert zero(WINDOWS) == HistogramCounts((0,) * 5, (0,) * 5, rows_per_report=2)
    assert zero(ROWS) == HistogramCounts((0,) * 8, (0,) * 8)


def test_a_report_of_two_bits_is_one_device() -> None:
    assert HistogramCounts((3, 3, 0), (0, 0, 0), rows_per_report=2).devices == 3


@pytest.mark.parametrize(
    "build",
    [
        lambda: MeanCounts(3, 4),
        lambda: MeanCounts(3, -1),
        lambda: MeanCounts(-1, -1),
        lambda: HistogramCounts((1, 2), (1, 3)),
        lambda: HistogramCounts((1, 2), (1,)),
        lambda: HistogramCounts((1, 1), (0, 0), rows_per_report=0),
        lambda: HistogramCounts((1, 1), (0, 0), rows_per_report=3),
        lambda: HistogramCounts((1, 2, 0), (0, 0, 0), rows_per_report=2),
        lambda: HistogramCounts((3, 1, 0), (0, 0, 0), rows_per_report=2),
        lambda: HistogramCounts((1, 1), (0, 0)) + HistogramCounts((1, 1, 1), (0, 0, 0)),
        lambda: HistogramCounts((1, 1), (0, 0)) + HistogramCounts((1, 1), (0, 0), rows_per_report=2),
        lambda: counts_from_rows(ROWS, [(8, 1, 0)]),
    ],
)
def test_what_cannot_be_counted_is_refused(build: object) -> None:
    with pytest.raises(ParameterError):
        build()  # type: ignore[operator]


@pytest.mark.parametrize("other", [1, None, HistogramCounts((1,), (1,))])
def test_only_counts_of_a_kind_add(other: object) -> None:
    with pytest.raises(TypeError):
        MeanCounts(1, 1) + other  # type: ignore[operator]
    with pytest.raises(TypeError):
        other + MeanCounts(1, 1)  # type: ignore[operator]
