"""Reading plan.toml: every problem is named with its place, the rule it breaks and what to do."""

from __future__ import annotations

import os
import re
import tomllib
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from reticent.errors import ParameterError, PlanError
from reticent.mechanisms import COHORTS, MECHANISMS, Buckets, Flip, Grid, Mechanism
from reticent.mechanisms.thresholds import whole_if_possible
from reticent.plan.model import OTHER, Group, Metric, Plan, Segment
from reticent.plan.problems import Problem
from reticent.plan.tables import Table

MAX_TEXT = 1 << 20
MAX_METRICS = 1000
MAX_STEPS = 1024
MAX_SEGMENTS = 4
MAX_TAGS = 254
MAX_NUMBER = Fraction(10**15)
MIN_NUMBER = Fraction(1, 10**9)

_NAME = r"[a-z][a-z0-9_-]{0,63}"
_NAME_EXPECTED = "a name of lower-case letters, digits, - and _ that starts with a letter (64 at most)"
_TAG = r"[A-Za-z0-9][A-Za-z0-9_.+ -]{0,31}"


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Read a plan.toml file; raises `PlanError` with every problem in it."""
    try:
        text = Path(path).read_bytes()[: MAX_TEXT + 1].decode()
    except UnicodeDecodeError as error:
        raise PlanError([Problem(str(path), "syntax", f"is not UTF-8 text (byte {error.start}).")]) from None
    except OSError as error:
        raise PlanError([Problem(str(path), "file", f"cannot be read: {error.strerror}.")]) from None
    return read_plan(text)


def read_plan(text: str) -> Plan:
    """Read a plan from the text of a plan.toml; raises `PlanError` with every problem in it."""
    plan, problems = inspect_plan(text)
    if plan is None:
        raise PlanError(problems)
    return plan


_PART = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}[ \t]*\.[ \t]*){{32}}")
"""A dotted key with more parts than any plan has: reading one takes time in the square of their number."""


def inspect_plan(text: str) -> tuple[Plan | None, list[Problem]]:
    """The plan in a text, or None, and the problems that stand in its way."""
    if len(text) > MAX_TEXT:
        return None, [Problem("plan", "size", f"expected at most {MAX_TEXT:,} characters.")]
    if _LONG_KEY.search(text):
        return None, [Problem("plan", "size", "expected keys of fewer than 32 parts.")]
    try:
        content = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a number or nesting too large"
        return None, [Problem("plan", "syntax", f"is not valid TOML: {reason}.")]
    problems: list[Problem] = []
    plan = _read(Table(content, "", problems), text)
    return (None if problems else plan), problems


def _read(root: Table, text: str) -> Plan | None:
    head = root.table("plan")
    name = head.text("name", _NAME, _NAME_EXPECTED) if head.require("name", _NAME_EXPECTED) else ""
    head.require("version", "a whole number")
    version = head.integer("version", 1, 2**31 - 1)
    head.require("round", 'a duration such as "6h"')
    round_seconds = head.seconds("round")
    grace_seconds = head.seconds("grace") if "grace" in head else round_seconds
    owner = head.text("owner")
    expires = head.date("expires")
    head.finish()
    tables = root.table("metrics").tables()
    metrics = [_metric(name, key, table) for key, table in tables]
    if not metrics:
        root.problem("metrics", "missing", "expected at least one [metrics.NAME] table.")
    if len(metrics) > MAX_METRICS:
        root.problem("metrics", "size", f"expected at most {MAX_METRICS} metrics, got {len(metrics)}.")
    known = {metric.name: metric for metric in metrics if metric is not None}
    declared = {key for key, _ in tables}
    groups = [_group(key, table, known, declared) for key, table in root.table("groups").tables()]
    _each_in_one_group(root, groups)
    segments = _segments(root.table("segments"))
    root.finish()
    if version is None or round_seconds is None or grace_seconds is None:
        return None
    return Plan(
        name=name,
        version=version,
        round_seconds=round_seconds,
        grace_seconds=grace_seconds,
        metrics=tuple(known.values()),
        groups=tuple(group for group in groups if group is not None),
        segments=segments,
        owner=owner,
        expires=expires,
        text=text,
    )


def _metric(plan: str, name: str, table: Table) -> Metric | None:
    _check_name(table, name)
    table.require("kind", '"mean" or "histogram"')
    kind = table.choice("kind", ["mean", "histogram"])
    table.require("epsilon", "a number from 0.001 to 20")
    epsilon = table.number(
        "epsilon",
        "a number from 0.001 to 20",
        Fraction(1, 1000),
        Fraction(20),
        "0 would send pure noise; 1.0 is what Windows used (section 6 of the paper)",
    )
    gamma = table.number(
        "flip",
        "a probability from 0 to below 1/2",
        Fraction(0),
        Fraction(1, 2) - Fraction(1, 1000),
        "at 1/2 nothing could be estimated; 0.2 is what Windows used (section 6 of the paper)",
    )
    unit, description = table.text("unit"), table.text("description")
    mechanism: Mechanism | None = None
    try:
        if kind is not None:
            mechanism = _mechanism(table, kind, epsilon, label=f"{plan}/{name}")
    except ParameterError as error:
        table.problem(error.name, "parameter", f"expected {error.expected}, got {error.got}.", error.hint)
    if kind is not None:
        table.finish()
    return Metric(name, mechanism, Flip(gamma or 0), unit, description) if mechanism else None


def _check_name(table: Table, name: str, key: str = "") -> None:
    if not re.fullmatch(_NAME, name):
        table.problem(key, "name", f"expected {_NAME_EXPECTED}.")


def _top(table: Table) -> Fraction | None:
    return table.number("max_value", "a number from 1e-9 to 1e15", MIN_NUMBER, MAX_NUMBER)


def _check_top(table: Table, key: str, scale: Grid | Buckets | None) -> None:
    if scale and not MIN_NUMBER <= scale.max_value <= MAX_NUMBER:
        table.problem(key, "range", "expected a last number from 1e-9 to 1e15.")


def _grid(table: Table) -> Grid | None:
    if "grid" in table:
        points, top = table.numbers("grid", MAX_STEPS + 1), _top(table)
        if "step" in table:
            table.expect("step", "either step or grid, not both", rule="conflict")
            table.get("step")
        grid = Grid(points) if points else None
        if grid and (top or grid.max_value) != grid.max_value:
            table.expect("max_value", f"the last point of grid ({grid.max_value})", rule="conflict")
        _check_top(table, "grid", grid)
    else:
        table.require("max_value", "a number > 0")
        top = _top(table)
        step = table.number("step", "a number > 0 that divides max_value", MIN_NUMBER, MAX_NUMBER)
        if step and top and top / step > MAX_STEPS:
            table.expect("step", f"at least max_value / {MAX_STEPS}", rule="range")
            return None
        grid = Grid.even(top, step) if top else None
    return grid


def _buckets(table: Table) -> Buckets | None:
    if "edges" in table:
        edges, top = table.numbers("edges", COHORTS + 1), _top(table)
        if "buckets" in table:
            table.expect("buckets", "either buckets or edges, not both", rule="conflict")
            table.get("buckets")
        buckets = Buckets(edges) if edges else None
        if buckets and (top or buckets.max_value) != buckets.max_value:
            table.expect("max_value", f"the last edge ({buckets.max_value})", rule="conflict")
        _check_top(table, "edges", buckets)
        return buckets
    table.require("max_value", "a number > 0")
    table.require("buckets", f"a whole number from 2 to {COHORTS}, or edges = [0, ...]")
    top, count = _top(table), table.integer("buckets", 2, COHORTS)
    return Buckets.even(top, count) if top and count else None


def _mechanism(table: Table, kind: str, epsilon: Fraction | None, label: str) -> Mechanism | None:
    """The mechanism of a metric; its name may be left out where there is one only for the kind."""
    scale = _grid(table) if kind == "mean" else _buckets(table)
    known = {name: each for name, each in MECHANISMS.items() if each.kind == kind}
    name: str | None = next(iter(known))
    if len(known) > 1:
        table.require("mechanism", " or ".join(f'"{name}"' for name in known))
        name = table.choice("mechanism", list(known))
    if name is None:
        return None
    for other, each in known.items():
        for key in each.keys:
            if key in table and key not in known[name].keys:
                table.get(key)
                table.problem(key, "conflict", f"belongs to {other}, not to {name}.", "remove it")
    return known[name].from_table(table, epsilon, scale, label)


def _group(name: str, table: Table, known: dict[str, Metric], declared: set[str]) -> Group | None:
    _check_name(table, name)
    table.require("metrics", "a list of metric names")
    table.require("max_total", "a number > 0")
    total = table.number("max_total", "a number from 1e-9 to 1e15", MIN_NUMBER, MAX_NUMBER)
    names = table.get("metrics")
    table.finish()
    members = names if isinstance(names, list) and all(isinstance(each, str) for each in names) else []
    if not members or len(set(members)) != len(members):
        table.expect("metrics", "a list of different metric names")
        return None
    for each in members:
        if each not in declared:
            table.problem("metrics", "unknown-metric", f'"{each}" is not a metric of this plan.')
        elif each in known and known[each].kind != "mean":
            table.problem(
                "metrics",
                "group-kind",
                f'"{each}" is a histogram; only means can share a limit.',
                "the bound for a joint limit is a bound for 1BitMean",
            )
    return Group(name, tuple(members), whole_if_possible(total)) if total else None


def _each_in_one_group(root: Table, groups: list[Group | None]) -> None:
    seen: dict[str, str] = {}
    for group in groups:
        for member in group.metrics if group else ():
            if group and member in seen:
                root.problem(
                    f"groups.{group.name}.metrics",
                    "group-overlap",
                    f'"{member}" is already in group {seen[member]}.',
                    "a metric can share one limit only",
                )
            seen[member] = group.name if group else ""


def _segments(table: Table) -> tuple[Segment, ...]:
    segments = []
    for name in table:
        _check_name(table, name, key=name)
        values = table.get(name)
        texts = values if isinstance(values, list) and all(isinstance(each, str) for each in values) else []
        if not 1 <= len(texts) <= MAX_TAGS or len(set(texts)) != len(texts):
            table.expect(name, f"a list of 1 to {MAX_TAGS} different texts")
        for text in texts:
            if not re.fullmatch(_TAG, text) or text == OTHER:
                table.problem(
                    name,
                    "name",
                    "expected tags of letters, digits, space and _ . + - (32 at most).",
                    f'"{OTHER}" is reserved for everything else',
                )
                break
        segments.append(Segment(name, tuple(texts)))
    if len(segments) > MAX_SEGMENTS:
        table.problem("", "size", f"expected at most {MAX_SEGMENTS} segments, got {len(segments)}.")
    return tuple(segments)
