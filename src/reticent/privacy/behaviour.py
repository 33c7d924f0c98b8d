"""The behaviour pattern of one device (Definition 2): when it was in the same mode, not which mode it was."""

from __future__ import annotations

from collections.abc import Hashable, Iterable


def pattern(sequence: Iterable[Hashable]) -> tuple[int, ...]:
    """
    The behaviour pattern of a sequence of rounded values: each renamed by the order of its first occurrence.

    Two sequences have one pattern exactly when a renaming of values turns one into the other.

    >>> pattern(["low", "high", "low", "off"]), pattern([7, 3, 7, 0])
    ((0, 1, 0, 2), (0, 1, 0, 2))
    """
    names: dict[Hashable, int] = {}
    return tuple(names.setdefault(value, len(names)) for value in sequence)


def width(sequence: Iterable[Hashable]) -> int:
    """
    The number of distinct rounded values, w.

    >>> width([7, 3, 7, 0])
    3
    """
    return len(set(sequence))
