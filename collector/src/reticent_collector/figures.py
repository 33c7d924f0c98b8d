"""
Numbers as text: no digit that the ± does not support, in a unit that suits their size.

One rule for pages, charts and tables: the ± has two significant digits, the value stops at the same place, and the
ends of an interval are rounded outwards, so that the printed interval contains the computed one.
"""

from __future__ import annotations

from math import ceil, floor, inf, isfinite, isnan, log10
from typing import NamedTuple

MINUS = "\N{MINUS SIGN}"  # before negative numbers

_TIME = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"), (0.001, "ms"))
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))
_SCALES: dict[str, tuple[tuple[tuple[float, str], ...], float, float]] = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), (_TIME, 0.001, 2.0)),
    **dict.fromkeys(("s", "sec", "second", "seconds"), (_TIME, 1.0, 2.0)),
    **dict.fromkeys(("min", "minute", "minutes"), (_TIME, 60.0, 2.0)),
    **dict.fromkeys(("h", "hour", "hours"), (_TIME, 3600.0, 2.0)),
    **dict.fromkeys(("B", "byte", "bytes"), (_BYTES, 1.0, 1.0)),
    **dict.fromkeys(("kB", "kilobyte", "kilobytes"), (_BYTES, 1e3, 1.0)),
    **dict.fromkeys(("MB", "megabyte", "megabytes"), (_BYTES, 1e6, 1.0)),
}
"""By the plan's unit: the larger units, its own size among them, and how many of one make it worth using."""


def number(value: float, places: int = 0) -> str:
    """
    A number with thousands separators, a true minus sign, and never "−0"; `places` below 0 round to tens or more.

    >>> number(-1234.5, 1), number(-0.001, 1), number(1234567, -3)
    ('−1,234.5', '0.0', '1,235,000')
    """
    if not isfinite(value):
        return "no bound"
    text = f"{round(value, places):,.{max(places, 0)}f}"
    if text.startswith("-"):
        return text[1:] if not text.strip("-0.,") else MINUS + text[1:]
    return text


def places(half_width: float) -> int:
    """
    The decimal place of a half-width's second significant digit.

    >>> [places(half_width) for half_width in (41_883_611, 312, 5.2, 0.05, 0.0999)]
    [-6, -1, 1, 3, 2]
    """
    return 1 - floor(log10(float(f"{half_width:.1e}"))) if isfinite(half_width) and half_width > 0 else 3


class Unit(NamedTuple):
    """A unit that suits some numbers: its size in the plan's unit, and its name."""

    size: float = 1.0
    name: str = ""

    @classmethod
    def of(cls, unit: str, largest: float) -> Unit:
        """
        The usual unit for numbers up to `largest`.

        >>> [Unit.of(unit, largest).name for unit, largest in (("byte", 314e6), ("second", 119), ("second", 120))]
        ['MB', 'seconds', 'min']
        """
        scales, own, enough = _SCALES.get(unit, ((), 1.0, 1.0))
        for size, name in scales:
            if size > own and enough * size <= abs(largest) * own < inf:
                return cls(size / own, name)
        return cls(1.0, plural(unit))

    def figure(self, value: float, half_width: float) -> str:
        """
        A value and its ±, in this unit; "unknown" where there is no value.

        >>> Unit(1e6, "MB").figure(314_340_169, 41_883_611)
        '314 ± 42 MB'
        """
        if isnan(value):
            return "unknown"
        digits = places(half_width / self.size)
        texts = (number(part / self.size, digits) for part in (value, half_width))
        return f"{' ± '.join(texts)} {self.name}".rstrip()

    def ends(self, lower: float, upper: float) -> tuple[str, str]:
        """
        Both ends of an interval, rounded outwards.

        >>> Unit().ends(1831.2, 2455.1)
        ('1,830', '2,460')
        """
        if not (isfinite(lower) and isfinite(upper)):
            return number(lower / self.size), number(upper / self.size)
        digits = places((upper - lower) / 2 / self.size)
        step = 10.0**-digits
        low, high = lower / self.size / step, upper / self.size / step
        # Less what floating point adds: 21,600 is not rounded up to 21,610.
        return number(floor(low + 1e-9) * step, digits), number(ceil(high - 1e-9) * step, digits)


def figure(value: float, half_width: float, unit: str = "") -> str:
    """
    An estimate as people read it.

    >>> figure(314_340_169, 41_883_611, "byte"), figure(2143.2, 312.4, "second"), figure(12.345, 0.021)
    ('314 ± 42 MB', '35.7 ± 5.2 min', '12.345 ± 0.021')
    """
    return Unit.of(unit, max(abs(value), half_width)).figure(value, half_width)


def plural(unit: str, value: float = 2) -> str:
    """
    A unit as it follows a number. Symbols and free text stay as the plan has them.

    >>> plural("second"), plural("second", 1), plural("entry"), plural("crash"), plural("MB"), plural("percent")
    ('seconds', 'second', 'entries', 'crashes', 'MB', 'percent')
    """
    word = unit.isascii() and unit.isalpha() and unit.islower() and (len(unit) > 3 or unit in ("day", "bit"))
    if abs(value) == 1 or not word or unit.endswith("s") or unit == "percent":
        return unit
    if unit.endswith(("sh", "ch", "x")):
        return f"{unit}es"
    if unit.endswith("y") and unit[-2] not in "aeiou":
        return f"{unit[:-1]}ies"
    return f"{unit}s"
