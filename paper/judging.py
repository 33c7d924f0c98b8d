"""From measured ratios to the verdict on a claim: one rule for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from paper.error_panels import Panel
from paper.experiment import Claim, Verdict

TIE = 1.02
"""A mean error up to 2 % larger still counts as "no worse": more than the Monte Carlo error of a ratio."""

COMPARABLE = 1.5
"""Two mechanisms are "comparable" when neither has more than 1.5 times the mean error of the other."""

ALMOST_THE_SAME = 1.25
"""Two data sets give "almost the same" error when neither has more than 1.25 times that of the other."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure that a claim is judged by: where it was measured, and whether the claim is true there."""

    where: str
    epsilon: float
    figure: float
    passes: bool


def no_worse(ratio: float) -> bool:
    """Whether a ratio of mean errors makes the first no worse than the second."""
    return ratio <= TIE


def within(factor: float) -> Callable[[float], bool]:
    """Whether a ratio lies between 1/factor and factor."""
    return lambda ratio: 1 / factor <= ratio <= factor


def ratios(
    measured: Iterable[Panel],
    mechanism: str,
    other: str,
    passes: Callable[[float], bool],
    epsilons: Sequence[float] = (),
) -> list[Measured]:
    """The mean error of a mechanism over that of another, at every point or at some ε."""
    return [
        Measured(panel.title, epsilon, ratio, passes(ratio))
        for panel in measured
        for epsilon in epsilons or panel.abscissae
        if (ratio := panel.ratio(mechanism, other, epsilon))
    ]


def against(measured: Iterable[Panel], reference: Panel, mechanism: str) -> list[Measured]:
    """The mean error of a mechanism on some data over that on the data of `reference`: almost the same?"""
    alike = within(ALMOST_THE_SAME)
    return [
        Measured(panel.title, epsilon, ratio, alike(ratio))
        for panel in measured
        for epsilon in panel.abscissae
        if (ratio := panel.mean(mechanism, epsilon) / reference.mean(mechanism, epsilon))
    ]


def judge(place: str, says: str, what: str, points: Sequence[Measured], erratum: str = "") -> Claim:
    """
    A claim is judged by all its points.

    It holds if it is true at each of them, does not hold if it is true at none, and holds under a condition
    otherwise; then the condition names where it is not true, and by how much.
    """
    failing = [point for point in points if not point.passes]
    verdict = (
        Verdict.HOLDS if not failing else Verdict.FAILS if len(failing) == len(points) else Verdict.CONDITION
    )
    return Claim(
        place,
        says,
        f"{what}: {_range(points)} over {len(points)} points",
        verdict,
        _exceptions(points, failing),
        erratum,
    )


def _range(points: Sequence[Measured]) -> str:
    least, most = min(point.figure for point in points), max(point.figure for point in points)
    return f"{least:.3g}" if f"{least:.3g}" == f"{most:.3g}" else f"{least:.3g} to {most:.3g}"


def _exceptions(points: Sequence[Measured], failing: Sequence[Measured]) -> str:
    """Where a claim is not true, panels with the same exceptions together, with the figures."""
    if not failing:
        return ""
    per_panel: dict[str, list[Measured]] = {}
    for point in failing:
        per_panel.setdefault(point.where, []).append(point)
    alike: dict[tuple[float, ...], list[str]] = {}
    for where, these in per_panel.items():
        alike.setdefault(tuple(point.epsilon for point in these), []).append(where)
    everywhere = len({point.where for point in points})
    parts = []
    for epsilons, panels in alike.items():
        figures = _range([point for where in panels for point in per_panel[where]])
        places = "" if len(panels) == everywhere else f" for {', '.join(panels)}"
        parts.append(f"at ε = {', '.join(f'{epsilon:g}' for epsilon in epsilons)}{places} ({figures})")
    return f"not {'; '.join(parts)}"
