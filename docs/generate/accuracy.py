"""
The accuracy page: how many devices a figure per week needs, at one promise for the whole plan.

    python docs/generate/accuracy.py            writes docs/explanation/accuracy.md and docs/images/accuracy.svg
    python docs/generate/accuracy.py --check    exits with 3 where one of them is not current
"""

# ruff: noqa: E501
from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from functools import cache
from math import floor, log10

from writing import ROOT, main

from reticent.mechanisms import Buckets, Flip, OneBitMean, SubsetSelection
from reticent.plan import Answers, Metric
from reticent_collector.estimates import expected_average_half_width, expected_half_width

PAGE = ROOT / "docs" / "explanation" / "accuracy.md"
PICTURE = ROOT / "docs" / "images" / "accuracy.svg"

COUNTS = [1, 2, 5, 10, 20]  # metrics of a plan
WIDTHS = [0.05, 0.02, 0.01]  # half-widths, as parts of the range
MANY = 10**7
LOSS = 1
WEEK = 28  # rounds of 6 hours
FLIP = Flip("1/5")
SHARE = 0.05  # of the range, for a label of a split

WAYS = {
    "remembered, all": "#b84a00",
    "remembered, 1": "#0066b0",
    "sampled, all": "#c98a5a",
    "sampled, 1": "#5aa0d8",
    "split": "#2a8a57",
}
"""The ways to answer, and their colours."""


@cache
def half_width(way: str, count: int, devices: int) -> float:
    """Of each of so many metrics, for a way to answer and so many devices."""
    if way == "split":
        labels = tuple(f"label {number}" for number in range(max(count, 2)))
        mechanism = SubsetSelection(LOSS, Buckets(range(len(labels) + 1), absent=True))
        metric = Metric("part", mechanism, parts=labels, max_total=1)
        return expected_half_width(metric, devices, at=SHARE)
    asked, epsilon = (
        (devices // count, Fraction(LOSS)) if way.endswith("1") else (devices, Fraction(LOSS, count))
    )
    if way.startswith("remembered"):
        return expected_average_half_width(Metric("part", OneBitMean(epsilon, 1), FLIP), asked, WEEK)
    metric = Metric("part", OneBitMean(epsilon, 1))
    return expected_average_half_width(metric, asked, WEEK, answers=Answers(window=WEEK))


@cache
def needed(way: str, count: int, wanted: float) -> int:
    """
    The devices that a way to answer needs for a half-width of each of so many metrics: a number of two digits.

    That of many devices is a lower bound: intervals of few are wider than their number alone would make them.
    """
    fewest = MANY * (half_width(way, count, MANY) / wanted) ** 2
    unit = 10 ** (floor(log10(fewest)) - 1)
    numbers = [number * unit for number in range(floor(fewest / unit), 100)]
    numbers += [number * unit * 10 for number in range(10, 100)]
    return numbers[bisect_left(numbers, True, key=lambda number: half_width(way, count, number) <= wanted)]


def shown(number: int) -> str:
    """
    A number of two digits.

    >>> shown(1200), shown(98_000), shown(4_500_000)
    ('1,200', '98,000', '4.5 million')
    """
    return f"{number / 1e6:.2g} million" if number >= 1e6 else f"{number:,}"


def table() -> str:
    """The devices for each way, number of metrics and half-width."""
    heads = [
        "metrics",
        "half-width",
        "remembered, all",
        "remembered, 1",
        "sampled, all",
        "sampled, 1",
        "split",
    ]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for count in (1, 5, 10, 20):
        for wanted in WIDTHS:
            cells = [
                "" if way == "split" and count == 1 else shown(needed(way, count, wanted)) for way in WAYS
            ]
            lines.append(f"| {count} | ± {wanted:.0%} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page() -> str:
    """The text of the page."""
    gains = [
        needed("remembered, all", count, 0.02) / needed("remembered, 1", count, 0.02) for count in (5, 20)
    ]
    of_split = needed("sampled, 1", 20, 0.02) / needed("split", 20, 0.02)
    return f"""# How many devices do I need?

    python docs/generate/accuracy.py

writes this page and the picture: the devices behind a figure per week, with 95 % intervals, if the *whole plan* loses at most 1: for a
device that never changes where answers are remembered, in a window of a week between any two histories where they are sampled. Half-widths
are parts of a metric's range, at the worst value; rounds last 6 hours; remembered answers are flipped with probability 0.2.

![Devices for ± 2 % per week against the number of metrics](../images/accuracy.svg)

{table()}

- **All**: a device answers every metric, with epsilon 1 divided by their number. **1**: its secret picks
  [one metric](../reference/plan.md#some-of-the-metrics), with epsilon 1: `metrics = 1` in `[answers]`. That needs
  {gains[0]:.2g} times fewer devices for 5 remembered metrics and {gains[1]:.2g} times fewer for 20, although each is about a part of them.
- **Split**: the metrics are amounts with a joint limit, such as seconds per application, in [one answer](../reference/plan.md#what-can-be-asked).
  Sampled weekly; for a label with 5 % of the range, with intervals that hold at once. For 20 labels it needs
  {of_split:.2g} times fewer devices than 20 metrics of which each device answers one.
- Twice the half-width needs about a quarter of the devices. A segment needs as many devices of its own.
- Remembered answers do not average out over the year; sampled ones do, and each week loses 1 again. A figure of one *round* is
  far less precise where answers are sampled.

`reticent plan check PLAN --devices N` prints the half-widths of your plan, and `reticent design` finds one for a goal.
"""


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 430, 84, 150, 54, 52
LOWEST, HIGHEST = 3.5, 7.2  # powers of ten


def place(count: int, number: float) -> tuple[float, float]:
    """Where a number of devices for so many metrics is drawn; both axes are logarithmic."""
    across = log10(count) / log10(COUNTS[-1])
    up = (log10(number) - LOWEST) / (HIGHEST - LOWEST)
    return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)


def picture() -> str:
    """Devices for ± 2 % against the number of metrics, on a ground of its own in light and in dark."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="title" font-family="system-ui, \'Segoe UI\', Helvetica, Arial, sans-serif">',
        '<title id="title">Devices for a half-width of 2 % of the range per week, at a loss of 1 of the whole plan</title>',
        "<style>",
        "  .ground { fill: #ffffff; } .grid { stroke: #d5dbe1; } text { fill: #4c5866; font-size: 13px; }",
        "  .head { fill: #1b2430; font-weight: 600; font-size: 15px; }",
        "  @media (prefers-color-scheme: dark) {",
        "    .ground { fill: #14181d; } .grid { stroke: #36404b; } text { fill: #a9b5c2; } .head { fill: #e6ebf1; }",
        "  }",
        "</style>",
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="10"/>',
        f'<text class="head" x="{LEFT}" y="30">Devices for ± 2 % of the range per week, whole plan at most 1</text>',
    ]
    for power in range(4, 8):
        x, y = place(1, 10.0**power)
        words = f"{10**power:,}" if power < 6 else f"{10 ** (power - 6)} million"
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{words}</text>')
    for count in COUNTS:
        x, y = place(count, 10**LOWEST)
        parts.append(f'<text x="{x:.1f}" y="{y + 20:.1f}" text-anchor="middle">{count}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 8}">metrics, or labels of a split</text>')
    for way, colour in WAYS.items():
        counts = COUNTS[1:] if way == "split" else COUNTS
        points = [place(count, needed(way, count, 0.02)) for count in counts]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = ' stroke-dasharray="6 4"' if way.endswith("all") else ""
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.4"{dashed}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4" fill="{colour}"/>' for x, y in points]
        x, y = points[-1]
        parts.append(f'<text x="{x + 10:.1f}" y="{y + 4:.1f}" style="fill:{colour}">{way}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    main(lambda: {PAGE: page(), PICTURE: picture()})
