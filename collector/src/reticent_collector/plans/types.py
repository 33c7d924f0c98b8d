"""Types of a plan's metrics and labels, for Python and TypeScript: a misspelt name is an error in the editor."""

from __future__ import annotations

import json
from collections.abc import Iterable

from reticent.plan import Plan

_HEAD = "Written by `reticent plan types` from plan {name}, version {version}. Do not edit."


def python_types(plan: Plan) -> str:
    """
    A Python stub with a protocol that a `Device` of this plan fulfils.

    Each call takes the metrics it is for: `choose` those of kind choice with their labels, `add`, `set` and `max` the
    others.
    """
    amounts, choices = _amounts(plan), _choices(plan)
    metrics = f"Literal[{', '.join(map(_quoted, amounts))}]"
    number = "*, round: int | None = None"
    lines = [
        f"# {_HEAD.format(name=plan.name, version=plan.version)}",
        "from typing import Literal, Protocol, overload",
        "",
        f"class {type_name(plan)}(Protocol):",
    ]
    if amounts:
        lines += [
            f"    def add(self, metric: {metrics}, amount: float = 1, {number}) -> None: ...",
            f"    def set(self, metric: {metrics}, value: float, {number}) -> None: ...",
            f"    def max(self, metric: {metrics}, value: float, {number}) -> None: ...",
        ]
    for name, labels in choices.items():
        label = f"Literal[{', '.join(map(_quoted, labels))}]"
        lines += ["    @overload"] if len(choices) > 1 else []
        lines += [
            f"    def choose(self, metric: Literal[{_quoted(name)}], label: {label}, {number}) -> None: ..."
        ]
    return "\n".join(lines) + "\n"


def typescript_types(plan: Plan) -> str:
    """A TypeScript declaration of the device of this plan, with the same rules as `python_types`."""
    amounts, choices = _amounts(plan), _choices(plan)
    metrics = _either(amounts)
    lines = [
        f"// {_HEAD.format(name=plan.name, version=plan.version)}",
        'import type { Device } from "reticent";',
        "",
        f'export interface {type_name(plan)} extends Omit<Device, "add" | "set" | "max" | "choose"> {{',
    ]
    if amounts:
        lines += [
            f"  add(metric: {metrics}, amount?: Parameters<Device['add']>[1]): void;",
            f"  set(metric: {metrics}, value: Parameters<Device['set']>[1]): void;",
            f"  max(metric: {metrics}, value: Parameters<Device['max']>[1]): void;",
        ]
    for name, labels in choices.items():
        lines += [f"  choose(metric: {_quoted(name)}, label: {_either(labels)}): void;"]
    return "\n".join([*lines, "}"]) + "\n"


def type_name(plan: Plan) -> str:
    """
    The name of the type: that of the plan in capitals.

    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> type_name(Plan("app-usage", 1, 3600, 3600, (Metric("saves", OneBitMean(1, 100)),)))
    'AppUsageMetrics'
    """
    words = "".join(one if one.isascii() and one.isalnum() else " " for one in plan.name).split()
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return f"{'' if name[:1].isalpha() else 'Plan'}{name}Metrics"


def _amounts(plan: Plan) -> list[str]:
    return [name for name, metric in plan.recorded.items() if not metric.labels]


def _choices(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {metric.name: metric.labels for metric in plan.metrics if metric.labels}


def _either(words: Iterable[str]) -> str:
    return " | ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    return json.dumps(word)  # a string of Python and of TypeScript alike
