"""The columns of a report packed into a few whole numbers, in the same order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import narwhals as nw

from reticent.plan import Plan
from reticent.stores.lake import Columns, asked_place, bit_place

WORD_BITS = 62  # a number below 2⁶² has no sign in any engine, nor has twice it


class Slot(NamedTuple):
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
    slots: tuple[Slot, ...]

    def expression(self) -> nw.Expr:
        """The word of each row."""
        terms = [nw.col(slot.column).cast(nw.Int64) * (1 << slot.shift) for slot in self.slots]
        return sum(terms[1:], start=terms[0])

    @property
    def head(self) -> tuple[Slot, ...]:
        """The cohort and tags in this word, by which reports are grouped."""
        return tuple(slot for slot in self.slots if not slot.column.startswith(("bits_", "asked_")))

    def key(self) -> nw.Expr:
        """The word without its answer bits, and without the bits of metrics asked."""
        answers = sum(slot.bits for slot in self.slots if slot.column.startswith("bits_"))
        key = nw.col(self.name) - nw.col(self.name) % (1 << answers)
        for slot in self.slots:
            if slot.column.startswith("asked_"):
                below = nw.col(self.name) % (1 << slot.shift)
                key = key - (nw.col(self.name) % (1 << slot.shift + slot.bits) - below)
        return key


class Packing:
    """
    The words of a plan's reports, and where in them each answer bit is.

    >>> from reticent.mechanisms import Buckets, HadamardBit
    >>> from reticent.plan import Metric
    >>> plan = Plan("demo", 1, 3600, 0, (Metric("hours", HadamardBit(1, Buckets.even(24, 3))),))
    >>> packing = Packing(plan)
    >>> [[(slot.column, slot.bits, slot.shift) for slot in word.slots] for word in packing.words]
    [[('cohort', 8, 8), ('bits_0', 8, 0)]]
    >>> packing.bits
    [('word_0', 7)]
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        groups: list[list[tuple[str, int]]] = [[]]
        for field in Columns(plan).fields[2:]:  # all but the two halves of the id
            size = 8 * (field.stop - field.start)
            if sum(bits for _, bits in groups[-1]) + size > WORD_BITS:
                groups.append([])
            groups[-1].append((field.name, size))
        self.words: list[Word] = []
        for group in groups:
            shift, slots = sum(bits for _, bits in group), []
            for column, bits in group:
                shift -= bits
                slots.append(Slot(column, bits, shift))
            self.words.append(Word(f"word_{len(self.words)}", tuple(slots)))
        self.names = [word.name for word in self.words]
        self.slots = [slot for word in self.words for slot in word.slots]  # all columns but the id, in order
        starts = {slot.column: (word.name, slot.shift) for word in self.words for slot in word.slots}
        # The column of each answer bit, then of each metric that may be asked, and its place in the column.
        self.columns = [bit_place(plan, bit) for bit in range(plan.bits)]
        if plan.asked_bytes:
            self.columns += [asked_place(plan, metric) for metric in range(len(plan.metrics))]
        # The same by word.
        self.bits = [(starts[column][0], starts[column][1] + shift) for column, shift in self.columns]
