import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import ParameterError, ReportError
from reticent.mechanisms import Buckets, DBitFlip, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan, Segment
from reticent.reports import Report
from reticent_collector.counts import (
    Counts,
    HistogramCounts,
    MeanCounts,
    count_arrays,
    count_reports,
    counts_from_rows,
    zero,
)

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


PLAN = Plan(
    "app",
    2,
    3600,
    0,
    metrics=(
        Metric("mean", OneBitMean(1, 24)),
        Metric("windows", DBitFlip(1, HOURS, 3, label="app/windows")),
        Metric("rows", HadamardBit(1, HOURS)),
        Metric("all", DBitFlip(1, HOURS, 5)),
        Metric("last", OneBitMean(2, 100)),
    ),
    segments=(Segment("os", ("linux", "macos")),),
)
MEANS = Plan("means", 1, 3600, 0, tuple(Metric(f"m{i}", OneBitMean(1, 24)) for i in range(9)))


def report(number: int, cohort: int = 0, bits: bytes = b"\0\0", **fields: object) -> Report:
    given_fields = {"plan": "app", "version": 2, "round": 7, "id": number.to_bytes(16, "big")} | fields
    return Report(bits=bits, cohort=cohort, **given_fields)  # type: ignore[arg-type]


def by_hand(reports: list[Report], plan: Plan) -> dict[str, Counts]:
    """The definition, one bit at a time, from `Report.bit` and what each mechanism says of a cohort."""
    tables = {}
    place = 0
    for metric in plan.metrics:
        mechanism = metric.mechanism
        if isinstance(mechanism, OneBitMean):
            bits = [each.bit(place) for each in reports]
            tables[metric.name] = MeanCounts(len(bits), sum(bits))
        else:
            size = len(mechanism.buckets) if isinstance(mechanism, DBitFlip) else mechanism.size
            told, ones = [0] * size, [0] * size
            for each in reports:
                rows = mechanism.rows_of(each.cohort)
                for position, row in enumerate(rows):
                    told[row] += 1
                    ones[row] += each.bit(place + position)
            tables[metric.name] = HistogramCounts(tuple(told), tuple(ones), metric.bits)
        place += metric.bits
    return tables


sent = st.lists(st.tuples(st.integers(0, 255), st.binary(min_size=2, max_size=2)), min_size=1, max_size=40)


@given(sent)
@settings(deadline=None)
def test_scalar_array_and_definition_agree(pairs: list[tuple[int, bytes]]) -> None:
    reports = [report(number, cohort, bits) for number, (cohort, bits) in enumerate(pairs)]
    cohorts = np.array([cohort for cohort, _ in pairs], dtype=np.uint8)
    array = np.array([list(bits) for _, bits in pairs], dtype=np.uint8)
    expected = by_hand(reports, PLAN)
    assert count_reports(reports, PLAN) == {(7, ("other",)): expected}
    assert count_arrays(PLAN, cohorts, array) == expected


def test_arrays_agree_across_batches() -> None:
    source = np.random.default_rng(11)
    bits = source.integers(0, 256, (600_000, 2), dtype=np.uint8)
    cohorts = source.integers(0, 256, 600_000, dtype=np.uint8)
    counted = count_arrays(PLAN, cohorts, bits)
    unpacked = np.unpackbits(bits, axis=1)
    assert counted["mean"] == MeanCounts(600_000, int(unpacked[:, 0].sum()))
    per_row = tuple(int(unpacked[cohorts % 8 == row, 4].sum()) for row in range(8))
    assert counted["rows"].ones == per_row
    assert counted["windows"].devices == 600_000


def test_a_plan_of_means_needs_no_cohort() -> None:
    bits = [b"\xff\x80", b"\x80\x00", b"\x00\x80"]
    reports = [Report("means", 1, 7, number.to_bytes(16, "big"), each) for number, each in enumerate(bits)]
    array = np.array([list(each) for each in bits], dtype=np.uint8)
    expected = by_hand(reports, MEANS)
    assert count_reports(reports, MEANS) == {(7, ()): expected}
    assert count_arrays(MEANS, None, array) == expected
    assert count_arrays(MEANS, np.zeros(3, np.uint8), array) == expected
    assert expected["m0"] == expected["m8"] == MeanCounts(3, 2)


def test_no_reports_count_to_zero() -> None:
    assert count_reports([], PLAN) == {}
    nothing = count_arrays(PLAN, np.zeros(0, np.uint8), np.zeros((0, 2), np.uint8))
    assert all(counts.devices == 0 for counts in nothing.values())


def test_the_same_report_twice_counts_once_and_only_in_its_round() -> None:
    again = report(1, bits=b"\x80\x00")
    counted = count_reports(
        [again, again, report(1, bits=b"\0\0"), report(1, round=8, bits=b"\x80\x00")], PLAN
    )
    assert counted[7, ("other",)]["mean"] == MeanCounts(1, 1)
    assert counted[8, ("other",)]["mean"] == MeanCounts(1, 1)


def test_segments_are_kept_apart_and_add_up() -> None:
    tags = [{"os": "linux"}, {"os": "macos"}, {"os": "beos"}, {}, {"os": "linux"}]
    reports = [report(number, 9, b"\x80\x00", segment=tag) for number, tag in enumerate(tags)]
    counted = count_reports(reports, PLAN)
    assert {cell: tables["mean"].reports for cell, tables in counted.items()} == {
        (7, ("linux",)): 2,
        (7, ("macos",)): 1,
        (7, ("other",)): 2,
    }
    together = by_hand(reports, PLAN)
    for metric in PLAN.metrics:
        assert sum(tables[metric.name] for tables in counted.values()) == together[metric.name]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"plan": "other"}, "version_mismatch"),
        ({"version": 1}, "version_mismatch"),
        ({"bits": b"\0"}, "malformed"),
        ({"cohort": None}, "malformed"),
        ({"cohort": 256}, "malformed"),
    ],
)
def test_a_report_that_answers_something_else_is_refused(wrong: dict[str, object], code: str) -> None:
    with pytest.raises(ReportError) as caught:
        count_reports([report(1, **wrong)], PLAN)  # type: ignore[arg-type]
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("cohorts", "bits"),
    [
        (None, np.zeros((3, 2), np.uint8)),
        (np.zeros(2, np.uint8), np.zeros((3, 2), np.uint8)),
        (np.zeros(3, np.int64), np.zeros((3, 2), np.uint8)),
        (np.zeros(3, np.uint8), np.zeros((3, 3), np.uint8)),
        (np.zeros(3, np.uint8), np.zeros((3, 2), np.int64)),
        (np.zeros(3, np.uint8), np.zeros(6, np.uint8)),
    ],
)
def test_arrays_of_another_shape_are_refused(cohorts: np.ndarray, bits: np.ndarray) -> None:
    with pytest.raises(ParameterError):
        count_arrays(PLAN, cohorts, bits)


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_counting_needs_the_standard_library_alone() -> None:
    assert run("import sys, reticent_collector.counts; print('numpy' in sys.modules)").strip() == "False"
