"""Laplace: the value itself, plus noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import e
from random import Random
from typing import Any

from reticent.errors import ParameterError
from reticent.lab.baselines.frequencies import epsilon_in_range
from reticent.mechanisms.exact import Number, exact, whole_if_possible


@dataclass(frozen=True, slots=True, init=False)
class Laplace:
    """
    A counter plus Laplace noise (Dwork, McSherry, Nissim, Smith 2006; for means in the local model Duchi,
    Jordan, Wainwright 2013).

    A device holding a value *x* in [0, *max_value*] answers the real number *y* with density

        ε/(2m) · exp(-ε |y - x| / m),

    which is ε-LDP. n·Var = 2(m/ε)² at every value. `OneBitMean` has less at the ends of the range whatever
    ε is; in the middle of the range Laplace has less as soon as ε > 2.32.

    >>> day = Laplace(epsilon=1, max_value=24)
    >>> day.loss, day.scale, day.variance()
    (1.0, 24.0, 1152.0)
    """

    epsilon: Fraction
    max_value: int | Fraction

    def __init__(self, epsilon: Number, max_value: Number) -> None:
        top = exact(max_value, "max_value")
        if top <= 0:
            raise ParameterError("max_value", "a number > 0", max_value)
        object.__setattr__(self, "epsilon", epsilon_in_range(epsilon))
        object.__setattr__(self, "max_value", whole_if_possible(top))

    @property
    def scale(self) -> float:
        """m/ε, the mean size of the noise."""
        return float(self.max_value / self.epsilon)

    @property
    def loss(self) -> float:
        """ε of one round: the largest distance between two values, in units of the scale."""
        return float(self.epsilon)

    def density(self, value: Any, answer: Any) -> Any:
        """The density of `answer` when the device holds `value` (numbers or arrays)."""
        return e ** (-abs(answer - value) / self.scale) / (2 * self.scale)

    def estimate(self, mean_answer: Any) -> Any:
        """The mean that explains the mean answer: itself, as the noise has mean 0."""
        return mean_answer

    def variance(self, value: Any = 0.0) -> Any:
        """n·Var of the estimated mean: the same at every value (a number or an array)."""
        return 2 * self.scale**2 + 0.0 * value

    def answer(self, value: float, random: Random) -> float:
        """Draw the answer of a device that holds `value`: the difference of two exponentials is Laplace."""
        return float(value + self.scale * (random.expovariate(1.0) - random.expovariate(1.0)))
