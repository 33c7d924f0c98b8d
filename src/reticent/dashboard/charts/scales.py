"""Scales and ticks: from figures and times to places on a chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from reticent.dashboard.words import number

_STEPS = (60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 345_600, 604_800, 1_209_600)
_WEEK = 604_800
_MONDAY = 345_600
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 600)


@dataclass(frozen=True, slots=True)
class Scale:
    """
    A straight line from [low, high] to pixels [start, end].

    >>> Scale(0, 10, start=100, end=200)(5)
    150.0
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where a value lies."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """
    Round numbers that cover [low, high]: at most about `most` of them, steps of 1, 2, 2.5 or 5 times 10^k.

    >>> ticks(0, 97), ticks(-0.03, 0.11)
    ([0, 20, 40, 60, 80, 100], [-0.05, 0.0, 0.05, 0.1, 0.15])
    """
    if not high > low:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    places = max(0, 1 - math.floor(math.log10(step)))
    return [
        round(place * step, places) if places else round(place * step) for place in range(first, last + 1)
    ]


def tick_texts(values: Sequence[float]) -> list[str]:
    """
    Ticks as they are written: all with as many decimals as the step needs, millions as M.

    >>> tick_texts([0, 2.5, 5]), tick_texts([0, 500_000, 1_000_000])
    (['0', '2.5', '5'], ['0', '0.5 M', '1 M'])
    """
    largest = max(abs(value) for value in values)
    scale, suffix = next(
        ((scale, suffix) for scale, suffix in ((1e9, " G"), (1e6, " M")) if largest >= scale), (1.0, "")
    )
    return ["0" if value == 0 else _short(value / scale) + suffix for value in values]


def _short(value: float) -> str:
    text = number(value, 6)
    return text.rstrip("0").rstrip(".")


def time_ticks(start: float, end: float, most: int) -> list[tuple[float, str]]:
    """
    Times worth a label within [start, end], in UTC: whole minutes, hours, days, Mondays or months.

    >>> [text for _, text in time_ticks(1763683200, 1763683200 + 86_400, most=5)]
    ['21 Nov', '06:00', '12:00', '18:00', '22 Nov']
    """
    for step in _STEPS:
        if (end - start) / step <= most:
            offset = _MONDAY if step % _WEEK == 0 else 0
            first = math.ceil((start - offset) / step) * step + offset
            return [(at, _time_text(at)) for at in range(first, math.floor(end) + 1, step)]
    return _months(start, end, most)


def _time_text(at: float) -> str:
    time = datetime.fromtimestamp(at, UTC)
    return f"{time:%H:%M}" if at % 86_400 else f"{time.day} {time:%b}"


def _months(start: float, end: float, most: int) -> list[tuple[float, str]]:
    months = (end - start) / (30.4 * 86_400)
    step = next((step for step in _MONTHS if months / step <= most), _MONTHS[-1])
    first, found = datetime.fromtimestamp(start, UTC), []
    for month in range(first.year * 12, (first.year * 12) + math.ceil(months) + 13):
        at = datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)
        if month % step == 0 and start <= at.timestamp() <= end:
            found.append((at.timestamp(), f"{at:%Y}" if step % 12 == 0 else f"{at:%b %Y}"))
    return found
