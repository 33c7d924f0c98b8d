"""The exact law of a sampler: every branch of every draw it makes, and the law of devices one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np

Law = dict[tuple[int, ...], float]
ExactLaw = dict[tuple[int, ...], Fraction]


class Branching:
    """Stands in for a NumPy generator: follows one path through all outcomes of its binomials."""

    def __init__(self, path: list[int]) -> None:
        self.path, self.options, self.weight = path, [], 1.0

    def binomial(self, n, p, size=None):
        n, p = np.broadcast_arrays(n, p)
        if size is not None:
            n, p = np.broadcast_to(n, size), np.broadcast_to(p, size)
        return np.array([self._one(*pair) for pair in zip(n.ravel(), p.ravel(), strict=True)]).reshape(
            n.shape
        )

    def multinomial(self, n, pvals):
        return np.array([self._split(int(left), list(pvals)) for left in np.asarray(n)])

    def _split(self, left: int, chances: list[float]) -> list[int]:
        parts, rest = [], 1.0
        for place, chance in enumerate(chances):
            last = place == len(chances) - 1
            parts.append(left if last else self._one(left, min(1.0, chance / rest)))
            left, rest = left - parts[-1], rest - chance
        return parts

    def _one(self, n: int, p: float) -> int:
        n, p = int(n), float(p)
        outcomes = [
            (ones, mass) for ones in range(n + 1) if (mass := comb(n, ones) * p**ones * (1 - p) ** (n - ones))
        ]
        place = len(self.options)
        if place == len(self.path):
            self.path.append(0)
        self.options.append(len(outcomes))
        ones, mass = outcomes[self.path[place]]
        self.weight *= mass
        return ones


def law_of_sampler(draw: Callable[[object], Iterable[int]]) -> Law:
    """All outcomes of `draw(generator)` with their probabilities."""
    law: Law = {}
    path: list[int] = []
    while True:
        branch = Branching(path)
        outcome = tuple(int(count) for count in draw(branch))
        law[outcome] = law.get(outcome, 0.0) + branch.weight
        while path and path[-1] == branch.options[len(path) - 1] - 1:
            path.pop()
        if not path:
            return law
        path[-1] += 1


def law_of_devices(devices: Iterable[ExactLaw]) -> ExactLaw:
    """The law of the sum over independent devices, each given by the law of what it adds to the counts."""
    total: ExactLaw = {}
    for device in devices:
        if not total:
            total = dict(device)
            continue
        longer: ExactLaw = {}
        for (before, chance), (added, weight) in product(total.items(), device.items()):
            outcome = tuple(map(sum, zip(before, added, strict=True)))
            longer[outcome] = longer.get(outcome, Fraction(0)) + chance * weight
        total = longer
    return total


def bits_about(asked: tuple[int, ...], rows: int, chances: list[Fraction]) -> ExactLaw:
    """What a device asked about these rows adds to (reports, ones), with its chance of a 1 at each."""
    law: ExactLaw = {}
    for bits in product((0, 1), repeat=len(asked)):
        weight, counts = Fraction(1), [0] * (2 * rows)
        for row, bit, chance in zip(asked, bits, chances, strict=True):
            weight *= chance if bit else 1 - chance
            counts[row] += 1
            counts[rows + row] += bit
        law[tuple(counts)] = law.get(tuple(counts), Fraction(0)) + weight
    return law


def mixed(laws: list[ExactLaw]) -> ExactLaw:
    """An equal mixture of laws."""
    law: ExactLaw = {}
    for part in laws:
        for outcome, weight in part.items():
            law[outcome] = law.get(outcome, Fraction(0)) + weight / len(laws)
    return law


def distance(law: Law, exact: ExactLaw) -> float:
    """Total variation between a law and an exact one."""
    return sum(abs(law.get(key, 0.0) - float(exact.get(key, 0))) for key in law.keys() | exact.keys()) / 2
