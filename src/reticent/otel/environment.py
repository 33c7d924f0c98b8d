"""
What an exporter that is named by OTEL_METRICS_EXPORTER=reticent is made from.

    RETICENT_PLAN         path of the plan
    RETICENT_STATE        path of the device's state file; made if it is not there
    RETICENT_ENDPOINT     address of the collector; without it nothing is sent
    RETICENT_KEY          ingest key of the collector
    RETICENT_OTEL_NAMES   instrument=metric, …; an instrument may be named several times
    RETICENT_OTEL_SCALE   instrument=factor, …
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import Resource

from reticent.device import Device
from reticent.errors import ParameterError
from reticent.plan import Plan

if TYPE_CHECKING:
    from reticent.otel.mapping import Names, Scale


def device_from_environment() -> Device:
    """The device of this program, with the segment that the SDK's resource gives it."""
    plan = Plan.load(_path("RETICENT_PLAN", "the path of a plan, such as plan.toml"))
    return Device(
        plan,
        _path("RETICENT_STATE", "the path of the device's state file, such as telemetry.db"),
        endpoint=os.environ.get("RETICENT_ENDPOINT") or None,
        key=os.environ.get("RETICENT_KEY") or None,
        segment=segment_of(plan, Resource.create()),
    )


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
        each.name: attributes.get(each.name, dotted.get(each.name))
        for each in plan.segments
        if each.name in attributes or each.name in dotted
    }


def _path(name: str, expected: str) -> str:
    text = os.environ.get(name, "")
    if not text:
        hint = "OTEL_METRICS_EXPORTER=reticent reads RETICENT_PLAN, RETICENT_STATE, RETICENT_ENDPOINT and RETICENT_KEY"
        raise ParameterError(name, f"{expected}, in the environment", "nothing", hint)
    return text


def _pairs(name: str, expected: str) -> list[tuple[str, str]]:
    """The pairs of a list such as a=b,c=d."""
    found = []
    for item in filter(None, map(str.strip, os.environ.get(name, "").split(","))):
        left, equals, right = (part.strip() for part in item.partition("="))
        if not (left and equals and right):
            raise ParameterError(name, f"{expected}, separated by commas", repr(item))
        found.append((left, right))
    return found
