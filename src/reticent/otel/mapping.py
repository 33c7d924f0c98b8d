"""Which metrics of a plan an instrument feeds, and in which unit. Nothing about units is guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from reticent.errors import ParameterError

if TYPE_CHECKING:
    from reticent.plan import Plan

Names = Mapping[str, str | Iterable[str]]
"""By instrument: the metric it feeds, or several, or () for one that is left out on purpose."""

Scale = Mapping[str, int | float | Fraction]
"""By instrument: what its numbers are multiplied with to come to the unit of the metric."""

_AS_UNDERSCORE = str.maketrans("./-", "___")

_OF_THE_SDK = "otel.sdk."
"""What some versions of the SDK count about themselves; that nobody asked for it needs no warning."""

_SYMBOLS = {
    "second": "s", "sec": "s", "millisecond": "ms", "microsecond": "us", "nanosecond": "ns",
    "minute": "min", "hour": "h", "day": "d",
    "byte": "By", "kilobyte": "kBy", "megabyte": "MBy", "kibibyte": "KiBy", "mebibyte": "MiBy",
    "percent": "%", "1": "",
}  # fmt: skip
"""UCUM's symbols, which OpenTelemetry uses, for words that plans use."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where the numbers of an instrument go, times `factor`; `problem` says why they go nowhere."""

    metrics: tuple[str, ...] = ()
    factor: Fraction = Fraction(1)
    problem: str = ""


class Routes:
    """
    The routes from instruments to the metrics of a plan.

    An instrument feeds what `names` says; without an entry, the metric of the same name, where `.`, `-` and
    `/` of the instrument may be `_` in the plan. Instruments are told apart without regard to case, as the
    SDK does. An instrument whose unit is not the metric's goes nowhere unless `scale` has a factor for it.

    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric, Plan
    >>> plan = Plan("app-usage", 1, 3600, 3600, (Metric("editor_time", OneBitMean(1, 3600), unit="second"),))
    >>> Routes(plan).to("editor.time", "s").metrics
    ('editor_time',)
    >>> Routes(plan).to("editor.time", "ms").problem
    "its unit is 'ms', that of metric editor_time is 'second', and no scale is given"
    >>> Routes(plan, scale={"editor.time": 0.001}).to("editor.time", "ms").factor
    Fraction(1, 1000)
    """

    def __init__(self, plan: Plan, names: Names | None = None, scale: Scale | None = None) -> None:
        self._plan = plan
        self._names = {name.lower(): _known(plan, name, metrics) for name, metrics in (names or {}).items()}
        self._scale = {name.lower(): _factor(name, factor) for name, factor in (scale or {}).items()}

    def to(self, instrument: str, unit: str) -> Route:
        """The route of an instrument that counts in `unit`."""
        name = instrument.lower()
        metrics = self._names.get(name)
        if metrics is None:
            metrics = self._of_the_same_name(name)
            if not metrics:
                problem = f"plan {self._plan.name} has no metric for it"
                return Route(problem="" if name.startswith(_OF_THE_SDK) else problem)
        factor = self._scale.get(name)
        if factor is not None:
            return Route(metrics, factor)
        for metric in metrics:
            wanted = self._plan.by_name[metric].unit
            if not is_same_unit(unit, wanted):
                problem = (
                    f"its unit is {unit!r}, that of metric {metric} is {wanted!r}, and no scale is given"
                )
                return Route(problem=problem)
        return Route(metrics)

    def _of_the_same_name(self, name: str) -> tuple[str, ...]:
        spellings = (name, name.translate(_AS_UNDERSCORE))
        return tuple(spelling for spelling in spellings if spelling in self._plan.by_name)[:1]


def is_same_unit(one: str, other: str) -> bool:
    """
    Whether two units are the same, or one of them says nothing.

    >>> is_same_unit("s", "seconds"), is_same_unit("ms", "second"), is_same_unit("{file}", "files")
    (True, False, True)
    >>> is_same_unit("1", "second"), is_same_unit("", "second")
    (True, True)
    """
    left, right = _symbol(one), _symbol(other)
    return left == right or not left or not right


def _symbol(unit: str) -> str:
    """A unit as UCUM writes it, if it is a known word; {annotations} count as the word in them."""
    text = unit.strip().removeprefix("{").removesuffix("}").strip()
    word = text.lower()
    if len(word) > 3 and word.endswith("s"):
        text, word = text[:-1], word[:-1]
    return _SYMBOLS.get(word, text)


def _known(plan: Plan, instrument: str, metrics: str | Iterable[str]) -> tuple[str, ...]:
    found = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    for metric in found:
        if metric not in plan.by_name:
            expected = f"a metric of plan {plan.name} ({', '.join(plan.by_name)})"
            raise ParameterError(f"names[{instrument!r}]", expected, metric)
    return found


def _factor(instrument: str, factor: object) -> Fraction:
    """As it is printed: 0.001 is one thousandth, not the nearest float."""
    try:
        exact = Fraction(str(factor))
    except (ValueError, ZeroDivisionError):
        exact = Fraction(0)
    if exact <= 0:
        raise ParameterError(f"scale[{instrument!r}]", "a number > 0, such as 0.001 or '1/60'", factor)
    return exact
