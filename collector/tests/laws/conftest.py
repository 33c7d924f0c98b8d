"""
The law of a device's reports, enumerated from the integers it compares its draws with.

Nothing is sampled and no formula is repeated: cells come from `memo_class`, chances from `thresholds` and
`Flip.threshold`, and every sequence of answers gets its probability as a whole number over a power of 2⁶⁴.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import prod

import mpmath
import pytest

from reticent.mechanisms import SCALE, Flip, Mechanism

Outcome = tuple[tuple[int, ...], ...]
Law = dict[Outcome, int]


class Enumeration:
    """All sequences of answers and their probabilities, in the same units for all laws it compares."""

    @staticmethod
    def alphas(
        mechanism: Mechanism, values: Sequence[int | Fraction], cohort: int = 0
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """How many of the 2⁶⁴ alphas lead to each sequence of classes."""
        edges = {0, SCALE}
        for value in set(values):
            below, above = 0, SCALE - 1
            first = mechanism.memo_class(value, 0, cohort)
            if mechanism.memo_class(value, above, cohort) == first:
                continue
            while above - below > 1:
                middle = (below + above) // 2
                if mechanism.memo_class(value, middle, cohort) == first:
                    below = middle
                else:
                    above = middle
            edges.add(above)
        ordered = sorted(edges)
        for start, end in pairwise(ordered):
            yield end - start, tuple(mechanism.memo_class(value, start, cohort) for value in values)

    @staticmethod
    def of_classes(mechanism: Mechanism, flip: Flip, classes: Sequence[int], cohort: int = 0) -> Law:
        """The law of the answers given the class of each round, over SCALE^(2·T·bits)."""
        rounds, bits = len(classes), mechanism.bits
        by_bit = []
        for bit in range(bits):
            law = {}
            for answers in product((0, 1), repeat=rounds):
                chance = SCALE ** (rounds - len(set(classes)))
                for memo_class in set(classes):
                    one = mechanism.thresholds(memo_class, cohort)[bit]
                    shown = [
                        answer for answer, used in zip(answers, classes, strict=True) if used == memo_class
                    ]
                    chance *= one * _through(flip, 1, shown) + (SCALE - one) * _through(flip, 0, shown)
                law[answers] = chance
            by_bit.append(law)
        return {
            tuple(zip(*columns, strict=True)): prod(
                law[column] for law, column in zip(by_bit, columns, strict=True)
            )
            for columns in product(*by_bit)
        }

    @classmethod
    def of_values(
        cls, mechanism: Mechanism, flip: Flip, values: Sequence[int | Fraction], cohort: int = 0
    ) -> Law:
        """The law of the answers over alphas, over SCALE^(2·T·bits + 1)."""
        total: Law = {}
        for weight, classes in cls.alphas(mechanism, values, cohort):
            for outcome, chance in cls.of_classes(mechanism, flip, classes, cohort).items():
                total[outcome] = total.get(outcome, 0) + weight * chance
        return total

    @staticmethod
    def of_memo(flip: Flip, memo: Sequence[int]) -> Law:
        """The law of one answer bit per round given the remembered ones, over SCALE^T."""
        return {
            tuple((answer,) for answer in answers): prod(
                _through(flip, b, [a]) for b, a in zip(memo, answers, strict=True)
            )
            for answers in product((0, 1), repeat=len(memo))
        }

    @staticmethod
    def ratio(law: Law, other: Law) -> Fraction | None:
        """How much likelier an outcome can be under `law`; None when one is possible only there."""
        best, over = 0, 1
        for outcome, chance in law.items():
            if other[outcome] == 0:
                if chance:
                    return None
            elif chance * over > best * other[outcome]:
                best, over = chance, other[outcome]
        return Fraction(best, over)

    @classmethod
    def loss(cls, law: Law, other: Law) -> mpmath.mpf:
        """ln of `ratio`, to 60 digits."""
        with mpmath.workdps(60):
            ratio = cls.ratio(law, other)
            if ratio is None:
                return mpmath.inf
            return mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)

    @classmethod
    def worst(cls, pairs: Iterable[tuple[Law, Law]]) -> mpmath.mpf:
        """The largest loss of several pairs."""
        return max(cls.loss(law, other) for law, other in pairs)


def _through(flip: Flip, memo: int, shown: Sequence[int]) -> int:
    return prod(SCALE - flip.threshold if answer == memo else flip.threshold for answer in shown)


@pytest.fixture(scope="session")
def enumeration() -> type[Enumeration]:
    return Enumeration


@pytest.fixture(scope="session")
def attains():
    """Whether an exact loss is within a figure, and reaches it up to the 2⁻⁶⁰ of the integer thresholds."""

    def check(loss: mpmath.mpf, figure: float, tolerance: float = 1e-14) -> bool:
        with mpmath.workdps(60):
            return bool(loss <= mpmath.mpf(figure) and mpmath.mpf(figure) - loss <= tolerance * figure)

    return check
