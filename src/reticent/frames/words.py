"""The columns of a report as a few whole numbers, which compare as the report does."""

from __future__ import annotations

from dataclasses import dataclass

import narwhals as nw

from reticent.plan import Plan
from reticent.stores.lake import Columns, bit_place

WORD_BITS = 62
"""A number below 2⁶² has no sign in any engine, nor has twice it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A column inside a word: its value times 2^shift."""

    column: str
    bits: int
    shift: int

    @property
    def largest(self) -> int:
        """The largest value that fits."""
        return (1 << self.bits) - 1

    def of(self, word: int) -> int:
        """The value of the column in a word."""
        return word >> self.shift & self.largest


@dataclass(frozen=True, slots=True)
class Word:
    """
    Neighbouring columns as one number, the leftmost in the highest bits.

    Rows compare from left to right by their columns exactly as they do by their words, so the smallest row of
    an id is the smallest word where one is enough, which is the common case.
    """

    name: str
    parts: tuple[Part, ...]

    def expression(self) -> nw.Expr:
        """The word of each row."""
        terms = [nw.col(part.column).cast(nw.Int64) * (1 << part.shift) for part in self.parts]
        return sum(terms[1:], start=terms[0])

    @property
    def head(self) -> tuple[Part, ...]:
        """The cohort and tags in this word: what reports are grouped by."""
        return tuple(part for part in self.parts if not part.column.startswith("bits_"))

    def key(self) -> nw.Expr:
        """The word without its answer bits."""
        answers = sum(part.bits for part in self.parts) - sum(part.bits for part in self.head)
        return nw.col(self.name) - nw.col(self.name) % (1 << answers)


class Words:
    """
    The words of a plan's reports, and where in them each answer bit is.

    >>> from reticent.mechanisms import Buckets, HadamardBit
    >>> from reticent.plan import Metric
    >>> plan = Plan("demo", 1, 3600, 0, (Metric("hours", HadamardBit(1, Buckets.even(24, 3))),))
    >>> words = Words(plan)
    >>> [[(part.column, part.bits, part.shift) for part in word.parts] for word in words.words]
    [[('cohort', 8, 8), ('bits_0', 8, 0)]]
    >>> words.bits
    [('word_0', 7)]
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.columns = Columns(plan)
        self.words: list[Word] = []
        waiting: list[tuple[str, int]] = []
        for field in self.columns.fields[2:]:
            bits = 8 * (field.stop - field.start)
            if sum(each for _, each in waiting) + bits > WORD_BITS:
                self._finish(waiting)
                waiting = []
            waiting.append((field.name, bits))
        self._finish(waiting)
        self.names = [word.name for word in self.words]
        self.bits = [self._place(*bit_place(plan, bit)) for bit in range(plan.bits)]

    def _place(self, column: str, shift: int) -> tuple[str, int]:
        places = {part.column: (word.name, part.shift) for word in self.words for part in word.parts}
        word, start = places[column]
        return word, start + shift

    @property
    def parts(self) -> list[Part]:
        """All columns but the id, from left to right."""
        return [part for word in self.words for part in word.parts]

    def _finish(self, columns: list[tuple[str, int]]) -> None:
        parts, shift = [], 0
        for name, bits in reversed(columns):
            parts.append(Part(name, bits, shift))
            shift += bits
        self.words.append(Word(f"word_{len(self.words)}", tuple(reversed(parts))))
