"""Which metrics of a plan an instrument feeds, with which part of it, in which unit. No unit is guessed."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from reticent.errors import ParameterError

if TYPE_CHECKING:
    from reticent.plan import Plan
    from reticent_otel.feed import Number

Names = Mapping[str, str | Iterable[str]]
"""By instrument: the metric it feeds, or several, or () for one that is left out on purpose."""

Scale = Mapping[str, int | float | Fraction]  # by instrument: the factor from its unit to that of the metric

PARTS = ("sum", "count", "max", "mean")
"""What a route may take of a histogram; of other instruments there is only the sum."""

_AS_UNDERSCORE = str.maketrans("./-", "___")

_OF_THE_SDK = "otel.sdk."  # metrics of the SDK about itself, which need no warning

_SYMBOLS = {
    "second": "s", "sec": "s", "millisecond": "ms", "microsecond": "us", "nanosecond": "ns",
    "minute": "min", "hour": "h", "day": "d",
    "byte": "By", "kilobyte": "kBy", "megabyte": "MBy", "kibibyte": "KiBy", "mebibyte": "MiBy",
    "percent": "%", "1": "",
}  # fmt: skip
"""UCUM's symbols, which OpenTelemetry uses, for words that plans use."""


@dataclass(frozen=True, slots=True)
class Route:
    """
    A way from an instrument to a metric.

    `where` keeps the data points with these attributes, so that one instrument can feed a metric per value of an
    attribute. For a metric of kind choice, `attribute` names the attribute whose value is the label.

    >>> builds = Route("cli.runs", "builds", where={"command": "build"})
    >>> builds.matches({"command": "build", "path": "src"}), builds.matches({"command": "test"})
    (True, False)
    """

    instrument: str
    metric: str
    take: str = "sum"
    where: Mapping[str, str] = field(default_factory=dict)
    attribute: str = ""
    scale: int | float | str | Fraction | None = None

    def matches(self, attributes: Mapping[str, object]) -> bool:
        """Whether a data point with these attributes takes this route."""
        return all(str(attributes.get(name)) == value for name, value in self.where.items())

    def scaled(self, number: Number) -> Number:
        """A number in the unit of the metric; infinity stays infinite."""
        return number if isinstance(number, float) else number * Fraction(self.scale or 1)


class Routes:
    """
    The routes from instruments to the metrics of a plan.

    An instrument feeds what `routes` and `names` say; without an entry, the metric of the same name, where
    `.`, `-` and `/` of the instrument may be `_` in the plan. Instrument names are case-insensitive, as in
    the SDK. An instrument whose unit is not the metric's goes nowhere without a scale.

    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric, Plan
    >>> plan = Plan("app-usage", 1, 3600, 3600, (Metric("editor_time", OneBitMean(1, 3600), unit="second"),))
    >>> Routes(plan).of("editor.time", "s")
    ([Route(instrument='editor.time', metric='editor_time', take='sum', where={}, attribute='', scale=None)], '')
    >>> Routes(plan).of("editor.time", "ms")[1]
    "its unit is 'ms', that of metric editor_time is 'second', and no scale is given"
    >>> Routes(plan, scale={"editor.time": 0.001}).of("editor.time", "ms")[0][0].scale
    Fraction(1, 1000)
    """

    def __init__(
        self,
        plan: Plan,
        names: Names | None = None,
        scale: Scale | None = None,
        routes: Iterable[Route] = (),
    ) -> None:
        self._plan = plan
        self._scale = {
            name.lower(): _factor(f"scale[{name!r}]", factor) for name, factor in (scale or {}).items()
        }
        self._routes: dict[str, list[Route]] = {}
        for instrument, fed in (names or {}).items():
            self._routes[instrument.lower()] = [
                Route(instrument, self._known(f"names[{instrument!r}]", metric))
                for metric in ((fed,) if isinstance(fed, str) else fed)
            ]
        for number, route in enumerate(routes, start=1):
            place = f"route {number}"
            metric = plan.recorded[self._known(f"{place}, metric", route.metric)]
            if route.take not in PARTS:
                raise ParameterError(f"{place}, take", f"one of {', '.join(PARTS)}", route.take)
            if (metric.kind == "choice") != bool(route.attribute):
                expected = "the attribute whose value is the label, for a metric of kind choice and no other"
                raise ParameterError(f"{place}, attribute", expected, repr(route.attribute))
            factor = None if route.scale is None else _factor(f"{place}, scale", route.scale)
            self._routes.setdefault(route.instrument.lower(), []).append(replace(route, scale=factor))

    def _known(self, place: str, metric: str) -> str:
        if metric not in self._plan.recorded:
            expected = f"a metric of plan {self._plan.name} ({', '.join(self._plan.recorded)})"
            raise ParameterError(place, expected, metric)
        return metric

    def of(self, instrument: str, unit: str) -> tuple[list[Route], str]:
        """The routes of an instrument that counts in `unit`, and what is wrong with them, or ''."""
        name = instrument.lower()
        routes = self._routes.get(name)
        if routes is None:
            spellings = (name, name.translate(_AS_UNDERSCORE))
            metric = next((spelling for spelling in spellings if spelling in self._plan.recorded), None)
            if metric is None:
                problem = f"plan {self._plan.name} has no metric for it"
                return [], "" if name.startswith(_OF_THE_SDK) else problem
            if self._plan.recorded[metric].kind == "choice":
                return (
                    [],
                    f"metric {metric} is a choice: a route must name the attribute that holds the label",
                )
            routes = [Route(instrument, metric)]
        if name in self._scale:
            routes = [replace(route, scale=self._scale[name]) for route in routes]
        for route in routes:
            wanted = self._plan.recorded[route.metric].unit
            is_amount = route.scale is None and route.take != "count" and not route.attribute
            if is_amount and not is_same_unit(unit, wanted):
                units = f"its unit is {unit!r}, that of metric {route.metric} is {wanted!r}"
                return [], f"{units}, and no scale is given"
        return routes, ""


def load_routes(path: str | os.PathLike[str]) -> list[Route]:
    """The routes of a TOML file: a table [[route]] for each. Raises `ParameterError`, `OSError`."""
    with open(path, "rb") as file:
        try:
            tables = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ParameterError(os.fspath(path), "a TOML file", f"{error}") from None
    known = {one.name for one in fields(Route)}
    entries = tables.pop("route", [])
    if tables or not isinstance(entries, list):
        raise ParameterError(
            os.fspath(path), "tables [[route]] and nothing else", ", ".join(tables) or "[route]"
        )
    routes = []
    for number, entry in enumerate(entries, start=1):
        place = f"{os.fspath(path)}, route {number}"
        missing = {"instrument", "metric"} - set(entry)
        if missing or set(entry) - known:
            expected = f"instrument, metric and perhaps {', '.join(sorted(known - {'instrument', 'metric'}))}"
            raise ParameterError(place, expected, ", ".join(sorted(entry)) or "nothing")
        where = entry.get("where", {})
        texts = [entry[name] for name in ("instrument", "metric", "take", "attribute") if name in entry]
        if not isinstance(where, dict) or not all(
            isinstance(text, str) for text in (*texts, *where.values())
        ):
            raise ParameterError(place, "strings, and a table of strings for where", "something else")
        routes.append(Route(**entry))
    return routes


def _factor(place: str, factor: object) -> Fraction:
    try:
        exact = Fraction(str(factor))  # as it is printed: 0.001 is one thousandth, not the nearest float
    except (ValueError, ZeroDivisionError):
        exact = Fraction(0)
    if exact <= 0:
        raise ParameterError(place, "a number > 0, such as 0.001 or '1/60'", factor)
    return exact


def is_same_unit(one: str, other: str) -> bool:
    """
    Whether two units are the same, or one of them is unspecified.

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
