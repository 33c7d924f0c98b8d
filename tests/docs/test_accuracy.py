"""The devices that the accuracy page and the README name are enough for the half-widths beside them, and few more."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from reticent.mechanisms import Buckets, Flip, OneBitMean, SubsetSelection
from reticent.plan import Metric
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import average, estimate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "accuracy.md").read_text()
WAYS = ["remembered, all", "remembered, 1", "sampled, all", "sampled, 1", "split"]


def number(text: str) -> int:
    digits, _, million = text.partition(" ")
    return round(float(digits.replace(",", "")) * (1e6 if million else 1))


def rows(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if re.match(r"\| \d+ \|", line)
    ]


CELLS = {
    (int(count), number(width.strip("± %")) / 100, way): number(cell)
    for count, width, *cells in rows(PAGE)
    for way, cell in zip(WAYS, cells, strict=True)
    if cell
}


def half_width(way: str, count: int, devices: int) -> float:
    """Of an estimate from counts at the worst value, or at a share of .05 for a split."""
    if way == "split":
        parts = tuple(f"label {place}" for place in range(count))
        mechanism = SubsetSelection(1, Buckets(range(count + 1), absent=True))
        metric = Metric("part", mechanism, parts=parts, max_total=1)
        ones = round(devices * float(metric.channel.share(0.05)))
        counts = HistogramCounts((devices,) * (count + 1), (ones,) * (count + 1), count + 1)
        return estimate(metric, counts).buckets[0].half_width
    divided = way.endswith("1")
    epsilon, asked = (Fraction(1), devices // count) if divided else (Fraction(1, count), devices)
    answers = MeanCounts(asked, asked // 2)
    if way.startswith("sampled"):
        return estimate(Metric("part", OneBitMean(epsilon, 1)), answers).half_width
    return average(Metric("part", OneBitMean(epsilon, 1), Flip("1/5")), [answers] * 28).half_width


@pytest.mark.parametrize("way", WAYS)
def test_so_many_devices_are_enough_and_a_tenth_less_are_not(way: str) -> None:
    named = {key: devices for key, devices in CELLS.items() if key[2] == way}
    assert len(named) >= 9
    for (count, wanted, _), devices in named.items():
        assert half_width(way, count, devices) <= wanted * (1 + 1e-6)
        assert half_width(way, count, round(0.89 * devices)) > wanted


def test_the_readme_has_the_numbers_of_the_page() -> None:
    shown = rows((ROOT / "README.md").read_text())
    assert [int(count) for count, *_ in shown] == [1, 5, 20]
    for count, *cells in shown:
        ways = ["remembered, all", "remembered, 1", "sampled, 1", "split"]
        for way, cell in zip(ways, cells, strict=True):
            assert (number(cell) if cell else None) == CELLS.get((int(count), 0.02, way))
