"""Doctored figures: to show that a verdict follows from what was measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from reticent_paper.panels import Panel, Spread

Doctor = Callable[..., list[Panel]]


def scaled(panels: Sequence[Panel], name: str, factors: Mapping[float, float] | float) -> list[Panel]:
    """Panels in which a mechanism has so many times its error, at all ε or at some."""

    def of_line(line: Mapping[float, Spread]) -> dict[float, Spread]:
        def factor(epsilon: float) -> float:
            return factors.get(epsilon, 1.0) if isinstance(factors, Mapping) else factors

        return {
            epsilon: Spread(factor(epsilon) * spread.mean, factor(epsilon) * spread.deviation, spread.runs)
            for epsilon, spread in line.items()
        }

    return [replace(panel, lines={**panel.lines, name: of_line(panel.lines[name])}) for panel in panels]


@pytest.fixture(scope="session")
def doctor() -> Doctor:
    return scaled
