"""From readings of instruments to the totals of a device; readings come from the SDK in this process, or by OTLP."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import isinf, isnan
from numbers import Integral
from typing import TYPE_CHECKING, SupportsFloat

if TYPE_CHECKING:
    from reticent.device import Device
    from reticent_otel.routes import Route, Routes

_logger = logging.getLogger(__name__)

Number = Fraction | float  # exact, or infinite

_MOST_INSTRUMENTS = 200  # that are named in warnings and in what was recorded
_LONGEST_NAME = 100
_LONGEST_WARNING = 400


class Kind(Enum):
    """What the numbers of a reading are, and so what becomes of the metric's total in the round."""

    INCREASE = "increases: added up, and added to the total"
    HISTOGRAM = "sums of recorded values: added up, and added to the total, unless a route takes another part"
    LEVEL = "levels that add up over attributes: their sum replaces the total"
    GAUGE = "levels that do not add up: the largest replaces the total"
    UNUSABLE = "neither increases nor levels"


@dataclass(frozen=True, slots=True)
class DataPoint:
    """One data point: a number; for a histogram also the count and the largest of the recorded values."""

    number: Number
    count: int = 0
    largest: Number | None = None
    attributes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """The data points of one instrument in one export; `problem` says why they cannot be used."""

    instrument: str
    unit: str
    kind: Kind
    points: list[DataPoint]
    problem: str = ""


class Feed:
    """
    Hands readings to a device by the routes of its plan.

    Each instrument without a metric is named in one warning, 200 at most; no value is ever logged. The largest and the
    mean of a histogram are those of the round so far, and are kept in memory: after a restart they begin again.
    """

    def __init__(self, device: Device, routes: Routes) -> None:
        self._device = device
        self._routes = routes
        self._warned: set[str] = set()
        self._exports = 0
        self._instruments: dict[str, dict[str, object]] = {}  # what `recorded` shows, by instrument
        self._recorded: dict[
            str, tuple[int, DataPoint]
        ] = {}  # by metric, in its unit: the round, and all of it

    def take(self, readings: Iterable[Reading]) -> None:
        """Record the readings of one export."""
        self._device.refresh_consent()  # another process may have entered a choice
        self._exports += 1
        amounts: defaultdict[tuple[Kind, str], list[Number]] = defaultdict(list)
        for reading in readings:
            routes, problem = self._routes.of(reading.instrument, reading.unit)
            if routes and reading.problem:
                routes, problem = [], reading.problem
            for route in routes:
                problem = self._take_by(route, reading, amounts) or problem
            self._note(reading, routes, problem)
        self._record(amounts)

    def _take_by(
        self, route: Route, reading: Reading, amounts: Mapping[tuple[Kind, str], list[Number]]
    ) -> str:
        """Take what a route asks of a reading, or add it to `amounts`; why it cannot be used, or nothing."""
        points = [point for point in reading.points if route.matches(point.attributes)]
        if route.attribute:
            self._choose(route, points)
        elif route.take == "sum":
            amounts[reading.kind, route.metric].extend(route.scaled(point.number) for point in points)
        elif reading.kind is not Kind.HISTOGRAM:
            return f"only a histogram has a {route.take}"
        elif route.take == "count":
            amounts[Kind.INCREASE, route.metric].extend(Fraction(point.count) for point in points)
        elif not self._set_of_round(route, points):
            return "its points lack the maximum; export deltas with min and max"
        return ""

    def _note(self, reading: Reading, routes: Iterable[Route], problem: str) -> None:
        """Keep which metrics an instrument feeds, and warn where it cannot be used."""
        name = printable(reading.instrument, _LONGEST_NAME)
        if problem:
            self.warn(name, f"reticent: instrument {name} is not used: {problem}")
        if name in self._instruments or len(self._instruments) < _MOST_INSTRUMENTS:
            fed = sorted({route.metric for route in routes})
            shown = printable(problem, _LONGEST_WARNING)
            self._instruments[name] = {"metrics": fed, "points": len(reading.points), "problem": shown}

    def recorded(self) -> dict[str, object]:
        """
        Which instruments arrived, the metrics they feed and the data points of their last export, without any value;
        and why nothing is kept, where that is so.
        """
        return {
            "plan": self._device.plan.name if self._device.plan else "",
            "consent": self._device.consent,
            "reasons": list(self._device.status().reasons),
            "exports": self._exports,
            "instruments": self._instruments,
        }

    def _record(self, amounts: Mapping[tuple[Kind, str], list[Number]]) -> None:
        for (kind, metric), numbers in amounts.items():
            if not numbers:
                continue  # no data point came this way: nothing was measured
            if kind is Kind.GAUGE:
                self._device.set(metric, max(numbers))
            elif kind is Kind.LEVEL:
                self._device.set(metric, total(numbers))
            else:
                self._device.add(metric, total(max(number, Fraction(0)) for number in numbers))

    def warn(self, about: str, message: str) -> None:
        """Log a message once, in printable characters; of many instruments only the first are named."""
        if about in self._warned or len(self._warned) > _MOST_INSTRUMENTS:
            return
        self._warned.add(about)
        if len(self._warned) > _MOST_INSTRUMENTS:
            message = "reticent: further instruments are not used, and not named"
        _logger.warning("%s", printable(message, _LONGEST_WARNING))

    def _choose(self, route: Route, points: Iterable[DataPoint]) -> None:
        """Choose the attribute's value; the most used comes last, which is what `pick = "last"` keeps."""
        for point in sorted(points, key=lambda point: point.number):
            if point.number > 0 and route.attribute in point.attributes:
                self._device.choose(route.metric, str(point.attributes[route.attribute]))

    def _set_of_round(self, route: Route, points: Iterable[DataPoint]) -> bool:
        """Set the largest or the mean of what was recorded in the round so far; False: it is unknown."""
        number = self._device.current_round
        began, earlier = self._recorded.get(route.metric, (number, None))
        recorded = [earlier] if earlier is not None and began == number else []
        recorded += [
            DataPoint(route.scaled(point.number), point.count, point.largest and route.scaled(point.largest))
            for point in points
            if point.count
        ]
        if not recorded:
            return True
        if route.take == "max" and any(point.largest is None for point in recorded):
            return False
        count = sum(point.count for point in recorded)
        largest = max((point.largest for point in recorded if point.largest is not None), default=None)
        together = DataPoint(total(point.number for point in recorded), count, largest)
        self._recorded[route.metric] = number, together
        if route.take == "max" and largest is not None:
            self._device.set(route.metric, largest)
        else:
            self._device.set(route.metric, together.number / count)  # infinity stays infinite
        return True


def printable(text: str, longest: int) -> str:
    """
    A text of another program for a log or a terminal: control characters become "?", and its end is cut off.

    >>> printable("files\\x1b[2J.saved", 100), printable("x" * 200, 10)
    ('files?[2J.saved', 'xxxxxxxxx…')
    """
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(one if one.isprintable() else "?" for one in short)


def total(numbers: Iterable[Number]) -> Number:
    """
    The exact sum; infinite if one of the numbers is.

    >>> total([Fraction(5), Fraction(-2)]), total([Fraction(5), float("inf")])
    (Fraction(3, 1), inf)
    """
    summands = list(numbers)
    infinite = [number for number in summands if isinstance(number, float)]
    return sum(infinite) if infinite else sum(summands, Fraction(0))


def exact(value: object) -> Number:
    """
    A measured number as it is; what is not a number counts as 0, as it does on the device.

    >>> exact(7), exact(0.5), exact(float("nan")), exact(float("-inf")), exact("7")
    (Fraction(7, 1), Fraction(1, 2), Fraction(0, 1), -inf, Fraction(0, 1))
    """
    try:
        if isinstance(value, Integral):
            return Fraction(int(value))
        number = float(value) if isinstance(value, SupportsFloat) else 0.0
    except Exception:  # a number type of the host's own may raise anything
        return Fraction(0)
    if isnan(number):
        return Fraction(0)
    return number if isinf(number) else Fraction(number)
