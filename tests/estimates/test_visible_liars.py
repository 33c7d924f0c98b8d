"""How many liars must gather before they are seen: the table of docs/explanation/attackers.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reticent.counts import HistogramCounts
from reticent.estimates.balance import balance, shares_of_rows
from reticent.mechanisms import Buckets, DBitFlip
from reticent.plan import Metric

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "attackers.md"
ROWS = re.findall(
    r"^\| (\d+) buckets, (\d+) bits? \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|$", PAGE.read_text(), re.M
)


def seen(metric: Metric, devices: int, liars: int) -> bool:
    """Whether liars who gather on one window set off the alarm, were all other counts as expected."""
    mechanism = metric.mechanism
    assert isinstance(mechanism, DBitFlip)
    window = mechanism.window(0)
    counts = [
        round((devices - liars) * share) + (liars if bucket in window else 0)
        for bucket, share in enumerate(shares_of_rows(metric))
    ]
    spare = next(bucket for bucket in range(len(counts)) if bucket not in window)
    counts[spare] += mechanism.bits * devices - sum(counts)  # roundings
    found = balance(metric, HistogramCounts(tuple(counts), (0,) * len(counts), mechanism.bits))
    assert found is not None
    return not found.even


@pytest.mark.parametrize(("buckets", "bits", "few", "more", "many"), ROWS)
def test_the_printed_share_of_liars_is_seen_and_little_less_is_not(
    buckets: str, bits: str, few: str, more: str, many: str
) -> None:
    metric = Metric("m", DBitFlip(1, Buckets.even(int(buckets), int(buckets)), int(bits), label="plan/m"))
    for devices, percent in ((10_000, few), (100_000, more), (1_000_000, many)):
        printed = float(percent) / 100
        assert seen(metric, devices, round(devices * (printed + 0.00005)))
        assert not seen(metric, devices, round(devices * (printed - 0.00015)))


def test_the_table_is_there() -> None:
    assert len(ROWS) == 3
