"""
Which metrics of a plan an instrument feeds, and in which unit. Nothing about units is guessed.

An exporter that is named by OTEL_METRICS_EXPORTER=reticent takes this, and its device, from the environment:

    RETICENT_PLAN         path of the plan
    RETICENT_STATE        path of the device's state file; made if it is not there
    RETICENT_ENDPOINT     address of the collector; without it nothing is sent
    RETICENT_KEY          ingest key of the collector
    RETICENT_OTEL_NAMES   instrument=metric, …; an instrument may be named several times
    RETICENT_OTEL_SCALE   instrument=factor, …
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction

from opentelemetry.sdk.resources import Resource

from reticent.device import Device, Policy
from reticent.errors import ParameterError
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
        self._names: dict[str, tuple[str, ...]] = {}
        for instrument, fed in (names or {}).items():
            metrics = (fed,) if isinstance(fed, str) else tuple(fed)
            for metric in metrics:
                if metric not in plan.by_name:
                    expected = f"a metric of plan {plan.name} ({', '.join(plan.by_name)})"
                    raise ParameterError(f"names[{instrument!r}]", expected, metric)
            self._names[instrument.lower()] = metrics
        self._scale: dict[str, Fraction] = {}
        for instrument, factor in (scale or {}).items():
            try:
                exact = Fraction(
                    str(factor)
                )  # as it is printed: 0.001 is one thousandth, not the nearest float
            except (ValueError, ZeroDivisionError):
                exact = Fraction(0)
            if exact <= 0:
                expected = "a number > 0, such as 0.001 or '1/60'"
                raise ParameterError(f"scale[{instrument!r}]", expected, factor)
            self._scale[instrument.lower()] = exact

    def to(self, instrument: str, unit: str) -> Route:
        """The route of an instrument that counts in `unit`."""
        name = instrument.lower()
        metrics = self._names.get(name)
        if metrics is None:
            spellings = (name, name.translate(_AS_UNDERSCORE))
            metrics = tuple(spelling for spelling in spellings if spelling in self._plan.by_name)[:1]
            if not metrics:
                problem = f"plan {self._plan.name} has no metric for it"
                return Route(problem="" if name.startswith(_OF_THE_SDK) else problem)
        factor = self._scale.get(name)
        if factor is not None:
            return Route(metrics, factor)
        for metric in metrics:
            wanted = self._plan.by_name[metric].unit
            if not is_same_unit(unit, wanted):
                units = f"its unit is {unit!r}, that of metric {metric} is {wanted!r}"
                return Route(problem=f"{units}, and no scale is given")
        return Route(metrics)


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


def device_from_environment() -> Device:
    """The device of this program, with the segment that the SDK's resource gives it."""
    paths = {
        "RETICENT_PLAN": "the path of a plan, such as plan.toml",
        "RETICENT_STATE": "the path of the device's state file, such as telemetry.db",
    }
    for name, expected in paths.items():
        if not os.environ.get(name):
            read = "RETICENT_PLAN, RETICENT_STATE, RETICENT_CONSENT, RETICENT_ENDPOINT, RETICENT_KEY, RETICENT_POLICY"
            hint = f"OTEL_METRICS_EXPORTER=reticent reads {read}"
            raise ParameterError(name, f"{expected}, in the environment", "nothing", hint)
    plan = Plan.load(os.environ["RETICENT_PLAN"])
    return Device(
        plan,
        os.environ["RETICENT_STATE"],
        endpoint=os.environ.get("RETICENT_ENDPOINT") or None,
        key=os.environ.get("RETICENT_KEY") or None,
        segment=segment_of(plan, Resource.create()),
        policy=policy_from_environment(),
        consent=os.environ.get("RETICENT_CONSENT") or "unset",  # type: ignore[arg-type]  # checked there
    )


def policy_from_environment() -> Policy:
    """RETICENT_POLICY: the default limits and rules, but for those named."""
    settings: dict[str, float] = {}
    known = {field.name: field.type for field in fields(Policy)}
    for name, value in _pairs("RETICENT_POLICY", "limit=number"):
        try:
            is_rule = known[name] == "bool"
            settings[name] = {"true": True, "false": False}[value] if is_rule else float(value)
        except (ValueError, KeyError):
            expected = f"a number, or true or false for a rule, for one of {', '.join(known)}"
            raise ParameterError("RETICENT_POLICY", expected, f"{name}={value}") from None
    return replace(Policy(), **settings)  # type: ignore[arg-type]


def names_from_environment() -> Names:
    """RETICENT_OTEL_NAMES."""
    names: dict[str, tuple[str, ...]] = {}
    for instrument, metric in _pairs("RETICENT_OTEL_NAMES", "instrument=metric"):
        names[instrument] = (*names.get(instrument, ()), metric)
    return names


def scale_from_environment() -> Scale:
    """RETICENT_OTEL_SCALE."""
    scale: dict[str, Fraction] = {}
    for instrument, factor in _pairs("RETICENT_OTEL_SCALE", "instrument=factor"):
        try:
            scale[instrument] = Fraction(factor)
        except (ValueError, ZeroDivisionError):
            raise ParameterError("RETICENT_OTEL_SCALE", "numbers such as 0.001 or 1/60", factor) from None
    return scale


def segment_of(plan: Plan, resource: Resource) -> dict[str, object]:
    """
    The attributes of a resource that the plan declares as segments; `.` may be `_` in the plan.

    The rest of the resource (host names, instance ids, command lines) is not looked at. A tag outside the
    plan's closed set becomes "other" on the device.

    >>> from reticent.plan import Segment
    >>> plan = Plan("app-usage", 1, 3600, 3600, (), segments=(Segment("os_type", ("linux", "windows")),))
    >>> segment_of(plan, Resource({"os.type": "linux", "host.name": "anns-laptop"}))
    {'os_type': 'linux'}
    """
    attributes = resource.attributes
    dotted = {name.replace(".", "_"): value for name, value in attributes.items()}
    return {
        segment.name: attributes.get(segment.name, dotted.get(segment.name))
        for segment in plan.segments
        if segment.name in attributes or segment.name in dotted
    }


def _pairs(name: str, expected: str) -> list[tuple[str, str]]:
    """The pairs of a list such as a=b,c=d."""
    pairs = []
    for item in filter(None, map(str.strip, os.environ.get(name, "").split(","))):
        left, equals, right = (part.strip() for part in item.partition("="))
        if not (left and equals and right):
            raise ParameterError(name, f"{expected}, separated by commas", repr(item))
        pairs.append((left, right))
    return pairs
