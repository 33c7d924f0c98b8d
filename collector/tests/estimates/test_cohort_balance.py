"""
Reports against chance: the exact law of the alarm among honest devices, and who sets it off.

Honest devices here answer with the code of the SDK from fixed seeds; the alarm is at 10⁻⁶, so no test that
says "even" has a false-alarm rate above that over all seeds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate
from math import comb
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest

from reticent.errors import ParameterError
from reticent.mechanisms import COHORTS, Buckets, DBitFlip, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan
from reticent.reports import Report, pack_bits
from reticent_collector.counts import HistogramCounts, MeanCounts, count_reports
from reticent_collector.estimates.cohort_balance import ALARM, Balance, RowBalance, balance, shares_of_rows
from reticent_lab.fleet import SdkFleet

WINDOWS = Metric("windows", DBitFlip(epsilon=1, buckets=Buckets.even(24, 8), width=2, label="demo/windows"))
UNEVEN_WINDOWS = Metric("thirds", DBitFlip(1, Buckets.even(9, 9), width=4, label="demo/thirds"))
ROWS = Metric("rows", HadamardBit(epsilon=1, buckets=Buckets.even(7, 7)))
PLAN = Plan("demo", 1, 3600, 3600, (WINDOWS, ROWS, UNEVEN_WINDOWS))


def law(devices: int, share: Fraction) -> tuple[list[Fraction], list[Fraction]]:
    """
    The chance of each count among honest devices, and its p-value: the binomial law in whole numbers.

    The p-value is twice the tail on the side where the count lies, as the docstring of `Balance` has it.
    """
    part, whole = share.numerator, share.denominator
    mass = [
        comb(devices, hits) * part**hits * (whole - part) ** (devices - hits) for hits in range(devices + 1)
    ]
    below = list(accumulate(mass))
    total = whole**devices
    assert below[-1] == total
    tails = [
        total - below[hits] + mass[hits] if hits > devices * share else below[hits]
        for hits in range(devices + 1)
    ]
    return [Fraction(one, total) for one in mass], [
        min(Fraction(1), Fraction(2 * tail, total)) for tail in tails
    ]


def alone(metric: Metric, devices: int, reports: int, row: int = 0) -> float:
    """The p-value of one row with so many reports, whatever the others have."""
    shares = shares_of_rows(metric)
    bits = metric.bits
    rest = bits * devices - reports
    others = len(shares) - 1
    counts = [rest // others + (place < rest % others) for place in range(others)]
    counts.insert(row, reports)
    return _of(metric, HistogramCounts(tuple(counts), (0,) * len(shares), bits)).rows[row].p_value


@pytest.mark.parametrize(
    "metric", [ROWS, Metric("half", DBitFlip(1, Buckets.even(2, 2), width=1, label="x"))]
)
@pytest.mark.parametrize("devices", [1, 7, 40, 300])
def test_a_p_value_is_twice_the_exact_tail(metric: Metric, devices: int) -> None:
    _, exact = law(devices, Fraction(shares_of_rows(metric)[0]))
    for reports in range(devices + 1):
        assert alone(metric, devices, reports) == pytest.approx(float(exact[reports]), rel=1e-9)


@pytest.mark.parametrize("devices", [10**4, 10**7])
def test_large_fleets_agree_with_scipy_s_binomial_test(devices: int) -> None:
    expected = devices / 8
    for off in (-6.0, -2.5, 0.0, 3.0, 6.0):
        reports = round(expected + off * (devices * 7 / 64) ** 0.5)
        if reports > expected:
            tail = binomtest(reports, devices, 1 / 8, alternative="greater").pvalue
        else:
            tail = binomtest(reports, devices, 1 / 8, alternative="less").pvalue
        wanted = min(1.0, 2 * tail)
        assert alone(ROWS, devices, reports) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("metric", [WINDOWS, UNEVEN_WINDOWS, ROWS])
@pytest.mark.parametrize("devices", [3, 50, 300])
def test_honest_fleets_set_it_off_as_seldom_as_it_says(metric: Metric, devices: int) -> None:
    """
    The exact law: each row's count is binomial, so the chance of an alarm is at most the sum over rows of the
    mass of those counts whose p-value is below the alarm over the rows. No sampling, for every fleet size.
    """
    shares = shares_of_rows(metric)
    chance = Fraction(0)
    for share in shares:
        mass, exact = law(devices, Fraction(share))
        chance += sum(
            weight for weight, tail in zip(mass, exact, strict=True) if len(shares) * tail < Fraction(ALARM)
        )
    assert chance <= Fraction(ALARM)
    if devices == 300:
        assert chance > Fraction(ALARM) / 100, "not by being silent for ever"


@pytest.mark.parametrize("metric", [WINDOWS, UNEVEN_WINDOWS])
def test_shares_are_those_of_the_cohorts(metric: Metric) -> None:
    cohorts = [0] * len(shares_of_rows(metric))
    for cohort in range(COHORTS):
        for bucket in metric.mechanism.rows_of(cohort):
            cohorts[bucket] += 1
    assert shares_of_rows(metric) == tuple(count / COHORTS for count in cohorts)
    assert len(set(shares_of_rows(UNEVEN_WINDOWS))) > 1, (
        "256 is no multiple of 9: shares differ, and are right"
    )


def test_a_fleet_that_is_even_by_another_share_is_refused() -> None:
    """Shares of 4/9 in place of those of 256 cohorts would be wrong, and a large fleet shows it."""
    shares = shares_of_rows(UNEVEN_WINDOWS)
    devices = 90_000_000
    even = HistogramCounts((devices * 4 // 9,) * 9, (0,) * 9, 4)
    right = [round(devices * share) for share in shares]
    right[0] += 4 * devices - sum(right)
    assert not _of(UNEVEN_WINDOWS, even).even
    assert _of(UNEVEN_WINDOWS, HistogramCounts(tuple(right), (0,) * 9, 4)).even


def _of(metric: Metric, counts: Any) -> Balance:
    against_chance = balance(metric, counts)
    assert against_chance is not None
    return against_chance


@pytest.mark.parametrize("seed", range(3))
def test_real_devices_are_even(seed: int) -> None:
    values = {metric.name: [0] * 2000 for metric in PLAN.metrics}
    sent = SdkFleet(PLAN, 2000, seed).reports(5, values)
    ((_, counts),) = count_reports(sent, PLAN).items()
    for metric in PLAN.metrics:
        against_chance = _of(metric, counts[metric.name])
        assert against_chance.even
        assert against_chance.over == against_chance.under == ()


def made_up(cohorts: Iterator[int]) -> dict[str, Any]:
    bits = pack_bits([0] * PLAN.bits)
    sent = [
        Report("demo", 1, 5, place.to_bytes(16, "big"), bits, cohort) for place, cohort in enumerate(cohorts)
    ]
    ((_, counts),) = count_reports(sent, PLAN).items()
    return counts


@pytest.mark.parametrize(
    ("draw", "seen"),
    [
        (lambda device: 0, {"windows", "rows", "thirds"}),  # a client that forgot to draw
        (lambda device: device % 128, {"windows", "thirds"}),  # one that lost a bit: the upper windows
        (lambda device: device % 256 & 0xFE, {"rows"}),  # another bit: half of the rows, no window
        (lambda device: device % 256, set()),  # a perfect one
    ],
)
def test_broken_draws_are_seen_where_they_matter(draw: Any, seen: set[str]) -> None:
    counts = made_up(draw(device) for device in range(2048))
    assert {metric.name for metric in PLAN.metrics if not _of(metric, counts[metric.name]).even} == seen


def test_the_pushed_rows_are_named_and_so_are_those_that_lack() -> None:
    counts = made_up(iter([*range(256)] * 8 + [0] * 400))
    against_chance = _of(WINDOWS, counts["windows"])
    pushed = WINDOWS.mechanism.rows_of(0)
    assert {row.row for row in against_chance.over} == set(pushed)
    assert all(row.reports == 512 + 400 and row.expected == 612.0 for row in against_chance.over)
    assert against_chance.under == (), (
        "two rows have 300 too many; six share the lack, 100 each, as chance might do"
    )
    worse = _of(WINDOWS, made_up(iter([*range(256)] * 8 + [0] * 1200))["windows"])
    assert {row.row for row in worse.over} == set(pushed)
    assert {row.row for row in worse.under} == set(range(8)) - set(pushed)
    plain = against_chance.to_dict()
    assert (plain["even"], plain["p_value"]) == (False, against_chance.p_value)
    assert [row["row"] for row in plain["over"]] == [row.row for row in against_chance.over]


def test_the_farthest_row_comes_first_even_where_both_chances_are_0() -> None:
    rows = (RowBalance(0, 900, 100.0, 0.0), RowBalance(1, 950, 100.0, 0.0), RowBalance(2, 100, 100.0, 1.0))
    assert [row.row for row in Balance(0.0, rows).over] == [1, 0]


@pytest.mark.parametrize(
    ("metric", "counts"),
    [
        (Metric("mean", OneBitMean(1, 10)), MeanCounts(10, 10)),
        (Metric("all", DBitFlip(1, Buckets.even(4, 4), width=4)), HistogramCounts((9,) * 4, (0,) * 4, 4)),
        (ROWS, HistogramCounts((0,) * 8, (0,) * 8)),
    ],
)
def test_where_there_is_nothing_to_compare(metric: Metric, counts: Any) -> None:
    assert balance(metric, counts) is None


def test_counts_of_another_metric_are_refused() -> None:
    with pytest.raises(ParameterError, match="counts of windows: expected 8 rows, got 16"):
        balance(WINDOWS, HistogramCounts((1,) * 16, (0,) * 16, 2))


PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "not-protected.md"
TABLE = re.findall(
    r"^\| (\d+) buckets, (\d+) bits? \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|$", PAGE.read_text(), re.M
)
assert len(TABLE) == 3, "the table of docs/explanation/not-protected.md"


def seen(metric: Metric, devices: int, liars: int) -> bool:
    """Whether liars who gather on one window set off the alarm, were all other counts as expected."""
    mechanism = metric.mechanism
    assert isinstance(mechanism, DBitFlip)
    window = mechanism.rows_of(0)
    counts = [
        round((devices - liars) * share) + (liars if bucket in window else 0)
        for bucket, share in enumerate(shares_of_rows(metric))
    ]
    spare = next(bucket for bucket in range(len(counts)) if bucket not in window)
    counts[spare] += mechanism.bits * devices - sum(counts)  # roundings
    return not _of(metric, HistogramCounts(tuple(counts), (0,) * len(counts), mechanism.bits)).even


@pytest.mark.parametrize(("buckets", "bits", "few", "more", "many"), TABLE)
def test_the_printed_share_of_liars_is_seen_and_little_less_is_not(
    buckets: str, bits: str, few: str, more: str, many: str
) -> None:
    metric = Metric("m", DBitFlip(1, Buckets.even(int(buckets), int(buckets)), int(bits), label="plan/m"))
    for devices, percent in ((10_000, few), (100_000, more), (1_000_000, many)):
        printed = float(percent) / 100
        assert seen(metric, devices, round(devices * (printed + 0.00005)))
        assert not seen(metric, devices, round(devices * (printed - 0.00015)))
