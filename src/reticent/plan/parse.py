"""Reading plan.toml: every problem is named with its place, the rule it breaks and what to do."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from reticent.errors import ParameterError, PlanError, Problem
from reticent.mechanisms import (
    COHORTS,
    MECHANISMS,
    Buckets,
    Flip,
    Grid,
    Mechanism,
    exact,
    whole_if_possible,
)
from reticent.plan.answers import Answers
from reticent.plan.metric import ABSENT, OTHER, Group, Metric, Segment

MAX_TEXT = 1 << 20
MAX_METRICS = 1000
MAX_STEPS = 1024
MAX_SEGMENTS = 4
MAX_TAGS = 254
MAX_LABELS = 254
MAX_NUMBER = Fraction(10**15)
MIN_NUMBER = Fraction(1, 10**9)

_NAME = r"[a-z][a-z0-9_-]{0,63}"
_NAME_EXPECTED = "a name of lower-case letters, digits, - and _ that starts with a letter (64 at most)"
_TAG = r"[A-Za-z0-9][A-Za-z0-9_.+ -]{0,31}"


_PART = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}[ \t]*\.[ \t]*){{32}}")
"""A dotted key with more parts than any plan has: reading one takes time in the square of their number."""


def parse(text: str) -> dict[str, Any]:
    """The fields of the `Plan` in the text of a plan.toml; raises `PlanError` with every problem in it."""
    if len(text) > MAX_TEXT:
        raise PlanError([Problem("plan", "size", f"expected at most {MAX_TEXT:,} characters.")])
    if _LONG_KEY.search(text):
        raise PlanError([Problem("plan", "size", "expected keys of fewer than 32 parts.")])
    try:
        content = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a number or nesting too large"
        raise PlanError([Problem("plan", "syntax", f"is not valid TOML: {reason}.")]) from None
    root = TomlTable(content, "", [])
    fields = _head(root.table("plan")) | {"text": text}
    tables = root.table("metrics").tables()
    metrics = [_metric(fields["name"], key, table) for key, table in tables]
    if not metrics:
        root.problem("metrics", "missing", "expected at least one [metrics.NAME] table.")
    if len(metrics) > MAX_METRICS:
        root.problem("metrics", "size", f"expected at most {MAX_METRICS} metrics, got {len(metrics)}.")
    known = {metric.name: metric for metric in metrics if metric is not None}
    fields["metrics"] = tuple(known.values())
    fields["groups"] = _groups(root, known, declared={key for key, _ in tables})
    fields["segments"] = _segments(root.table("segments"))
    fields["answers"] = _answers(root.table("answers"), fields, declared=len(tables))
    root.finish()
    if root.problems:
        raise PlanError(root.problems)
    return fields


def _head(head: TomlTable) -> dict[str, Any]:
    """What a plan says about itself."""
    name = head.text("name", _NAME, _NAME_EXPECTED) if head.require("name", _NAME_EXPECTED) else ""
    head.require("version", "a whole number")
    version = head.integer("version", 1, 2**31 - 1)
    head.require("round", 'a duration such as "6h"')
    round_seconds = head.seconds("round")
    fields = {
        "name": name,
        "version": version,
        "round_seconds": round_seconds,
        "grace_seconds": head.seconds("grace") if "grace" in head else round_seconds,
        "owner": head.text("owner"),
        "expires": head.date("expires"),
    }
    head.finish()
    return fields


def _metric(plan: str, name: str, table: TomlTable) -> Metric | None:
    _check_name(table, name)
    table.require("kind", " or ".join(f'"{kind}"' for kind in _SCALES))
    kind = table.choice("kind", list(_SCALES))
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
    if kind is None:
        return None
    labels = _labels(table) if kind == "choice" else ()
    pick = table.choice("pick", ["last", "first"], "last") if kind == "choice" else "last"
    mechanism: Mechanism | None = None
    try:
        scale = Buckets(range(len(labels) + 1), absent=True) if labels else _SCALES[kind](table)
        mechanism = _mechanism(table, _ANSWERED_AS.get(kind, kind), epsilon, scale, label=f"{plan}/{name}")
    except ParameterError as error:
        table.problem(error.name, "parameter", f"expected {error.expected}, got {error.got}.", error.hint)
    table.finish()
    if mechanism is None or (kind == "choice" and not labels):
        return None
    return Metric(
        name,
        mechanism,
        Flip(gamma or 0),
        unit,
        description,
        labels=labels,
        pick="first" if pick == "first" else "last",
        is_flag=kind == "flag",
    )


def _check_name(table: TomlTable, name: str, key: str = "") -> None:
    if not re.fullmatch(_NAME, name):
        table.problem(key, "name", f"expected {_NAME_EXPECTED}.")


def _top(table: TomlTable) -> Fraction | None:
    return table.number("max_value", "a number from 1e-9 to 1e15", MIN_NUMBER, MAX_NUMBER)


def _listed(table: TomlTable, key: str, instead_of: str, most: int) -> list[Fraction] | None:
    """Every point of a grid, or every edge of the buckets; the last one is the top of the range."""
    numbers, top = table.numbers(key, most), _top(table)
    if instead_of in table:
        table.expect(instead_of, f"either {instead_of} or {key}, not both", rule="conflict")
        table.get(instead_of)
    if numbers and (top or numbers[-1]) != numbers[-1]:
        table.expect("max_value", f"the last of {key} ({numbers[-1]})", rule="conflict")
    if numbers and not MIN_NUMBER <= numbers[-1] <= MAX_NUMBER:
        table.problem(key, "range", "expected a last number from 1e-9 to 1e15.")
    return numbers


def _grid(table: TomlTable) -> Grid | None:
    if "grid" in table:
        points = _listed(table, "grid", "step", MAX_STEPS + 1)
        return Grid(points) if points else None
    table.require("max_value", "a number > 0")
    top = _top(table)
    step = table.number("step", "a number > 0 that divides max_value", MIN_NUMBER, MAX_NUMBER)
    if step and top and top / step > MAX_STEPS:
        table.expect("step", f"at least max_value / {MAX_STEPS}", rule="range")
        return None
    return Grid.even(top, step) if top else None


def _buckets(table: TomlTable) -> Buckets | None:
    absent = table.truth("absent")
    if "edges" in table:
        edges = _listed(table, "edges", "buckets", COHORTS + 1)
        return Buckets(edges, absent) if edges else None
    table.require("max_value", "a number > 0")
    table.require("buckets", f"a whole number from 2 to {COHORTS}, or edges = [0, ...]")
    top, count = _top(table), table.integer("buckets", 2, COHORTS)
    return Buckets.even(top, count, absent) if top and count else None


_SCALES: Mapping[str, Callable[[TomlTable], Grid | Buckets | None]] = {
    "mean": _grid,
    "histogram": _buckets,
    "choice": lambda _: None,  # one bucket per label, where the labels can be read
    "flag": lambda _: Grid.even(1),
}
"""What values of each kind are rounded to, or sorted into."""
_ANSWERED_AS = {"choice": "histogram", "flag": "mean"}
"""Which mechanisms answer the kinds that have none of their own."""


def _labels(table: TomlTable) -> tuple[str, ...]:
    """The labels of a choice; none after a problem was noted."""
    expected = f"a list of 2 to {MAX_LABELS} different texts"
    labels = table.texts("labels") if table.require("labels", expected) else []
    if "labels" not in table:
        return ()
    if not 2 <= len(labels) <= MAX_LABELS or len(set(labels)) != len(labels):
        table.expect("labels", expected)
        return ()
    for label in labels:
        if not re.fullmatch(_TAG, label) or label == ABSENT:
            table.problem(
                "labels",
                "name",
                "expected labels of letters, digits, space and _ . + - (32 at most).",
                f'"{ABSENT}" is the bucket of devices that chose nothing',
            )
            return ()
    return tuple(labels)


def _mechanism(
    table: TomlTable, kind: str, epsilon: Fraction | None, scale: Grid | Buckets | None, label: str
) -> Mechanism | None:
    """The mechanism of a metric; its name may be left out where there is one only for the kind."""
    known = {name: added for name, added in MECHANISMS.items() if added.kind == kind}
    name: str | None = next(iter(known))
    if len(known) > 1:
        table.require("mechanism", " or ".join(f'"{name}"' for name in known))
        name = table.choice("mechanism", list(known))
    if name is None:
        return None
    for other, mechanism in known.items():
        for key in mechanism.keys:
            if key in table and key not in known[name].keys:
                table.get(key)
                table.problem(key, "conflict", f"belongs to {other}, not to {name}.", "remove it")
    return known[name].from_table(table, epsilon, scale, label)


def _groups(root: TomlTable, known: Mapping[str, Metric], declared: set[str]) -> tuple[Group, ...]:
    groups: list[Group] = []
    taken: dict[str, str] = {}
    for name, table in root.table("groups").tables():
        _check_name(table, name)
        table.require("metrics", "a list of metric names")
        table.require("max_total", "a number > 0")
        total = table.number("max_total", "a number from 1e-9 to 1e15", MIN_NUMBER, MAX_NUMBER)
        members = table.texts("metrics")
        table.finish()
        if not members or len(set(members)) != len(members):
            table.expect("metrics", "a list of different metric names")
            continue
        for member in members:
            if member not in declared:
                table.problem("metrics", "unknown-metric", f'"{member}" is not a metric of this plan.')
            elif member in known and known[member].kind != "mean":
                table.problem(
                    "metrics",
                    "group-kind",
                    f'"{member}" is a {known[member].kind}; only means can share a limit.',
                    "the bound for a joint limit is a bound for 1BitMean",
                )
        if total:
            groups.append(Group(name, tuple(members), whole_if_possible(total)))
    for group in groups:
        for member in group.metrics:
            if member in taken:
                root.problem(
                    f"groups.{group.name}.metrics",
                    "group-overlap",
                    f'"{member}" is already in group {taken[member]}.',
                    "a metric can share one limit only",
                )
            taken[member] = group.name
    return tuple(groups)


def _segments(table: TomlTable) -> tuple[Segment, ...]:
    segments = []
    for name in table:
        _check_name(table, name, key=name)
        texts = table.texts(name)
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


def _answers(table: TomlTable, fields: Mapping[str, Any], declared: int) -> Answers:
    """How the plan is answered: remembered, unless it says otherwise."""
    kind = table.choice("kind", ["remembered", "sampled"], "remembered")
    if kind != "sampled":
        for key in ("window", "metrics"):
            if table.get(key) is not None and kind:
                table.problem(key, "conflict", "belongs to sampled answers.", 'set kind = "sampled"')
        table.finish()
        return Answers()
    table.require("window", 'a duration of whole rounds, such as "7d"')
    seconds, asked = table.seconds("window"), table.integer("metrics", 1, max(1, declared))
    table.finish()
    round_seconds = fields["round_seconds"]
    if seconds and round_seconds and seconds % round_seconds:
        table.expect("window", f"whole rounds of {round_seconds} seconds", rule="range")
    for metric in fields["metrics"]:
        if metric.flip.probability:
            place = f"metrics.{metric.name}.flip"
            message = "expected no flip, since answers are sampled."
            hint = "a sampled answer is drawn afresh in each window, which leaves nothing for a flip to hide"
            table.problems.append(Problem(place, "conflict", message, hint))
    return Answers(max(1, (seconds or 1) // (round_seconds or 1)), asked)


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([1-9][0-9]{0,8})(s|m|h|d)")


class TomlTable:
    """
    One table of a plan, with its place, that remembers what has been read from it.

    Every reading method returns `None` after noting a problem, so that one pass finds all of them.
    """

    def __init__(self, content: Mapping[str, object], place: str, problems: list[Problem]) -> None:
        self._content = content
        self._place = place
        self.problems = problems
        self._read: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._content

    def where(self, key: str) -> str:
        """The full name of a key."""
        return f"{self._place}.{key}" if self._place else key

    def problem(self, key: str, rule: str, message: str, hint: str = "") -> None:
        """Note a problem with a key."""
        self.problems.append(Problem(self.where(key) if key else self._place, rule, message, hint))

    def expect(self, key: str, expected: str, hint: str = "", rule: str = "type") -> None:
        """Note that a key holds something else than expected."""
        value = self._content.get(key)
        try:
            shown = f'"{value}"' if isinstance(value, str) else str(value)
        except (RecursionError, ValueError):  # nested too deeply, or a number of thousands of digits
            shown = "something too large to quote"
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        self.problem(key, rule, f"expected {expected}, got {shown}.", hint)

    def get(self, key: str) -> object:
        """What stands at a key, or None."""
        self._read.add(key)
        return self._content.get(key)

    def require(self, key: str, what: str) -> bool:
        """Whether a key is there; notes a problem when it is not."""
        self._read.add(key)
        if key not in self._content:
            self.problem(key, "missing", f"expected {what}, but the key is missing.")
        return key in self._content

    def text(self, key: str, pattern: str = "", expected: str = "a text") -> str:
        """A text that matches a pattern; empty when absent."""
        value = self.get(key)
        if value is None:
            return ""
        if not isinstance(value, str) or len(value) > 2000:
            self.expect(key, expected)
            return ""
        if pattern and not re.fullmatch(pattern, value):
            self.expect(key, expected, rule="name")
            return ""
        return value

    def integer(self, key: str, low: int, high: int) -> int | None:
        """A whole number within bounds."""
        value = self.get(key)
        if value is None:
            return None
        if type(value) is not int or not low <= value <= high:
            self.expect(key, f"a whole number from {low:,} to {high:,}", rule="range")
            return None
        return value

    def number(
        self, key: str, expected: str, low: Fraction, high: Fraction, hint: str = ""
    ) -> Fraction | None:
        """An exact number within [low, high]: an integer, a decimal, or a text such as "1/3"."""
        value = self.get(key)
        if value is None:
            return None
        number = _exact(value)
        if number is None or not low <= number <= high:
            self.expect(key, expected, hint, rule="range")
            return None
        return number

    def numbers(self, key: str, most: int) -> list[Fraction] | None:
        """A list of exact numbers."""
        value = self.get(key)
        if value is None:
            return None
        items = value if isinstance(value, list) else []
        numbers = [number for number in map(_exact, items) if number is not None]
        if not items or len(numbers) != len(items) or len(items) > most:
            self.expect(key, f"a list of 2 to {most} numbers")
            return None
        return numbers

    def truth(self, key: str) -> bool:
        """True or false; false when absent."""
        value = self.get(key)
        if value is not None and type(value) is not bool:
            self.expect(key, "true or false (no quotes)")
        return value is True

    def texts(self, key: str) -> list[str]:
        """A list of texts; empty when it is none, which is for the caller to judge."""
        value = self.get(key)
        return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else []

    def seconds(self, key: str) -> int | None:
        """A duration such as "6h", in seconds."""
        value = self.get(key)
        if value is None:
            return None
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            self.expect(key, 'a duration such as "90s", "30m", "6h" or "1d"')
            return None
        return int(match[1]) * _SECONDS[match[2]]

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str | None:
        """One of a few words."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or value not in choices:
            self.expect(key, " or ".join(f'"{choice}"' for choice in choices), rule="choice")
            return None
        return value

    def date(self, key: str) -> date | None:
        """A date."""
        value = self.get(key)
        if value is None:
            return None
        if type(value) is not date:
            self.expect(key, "a date such as 2027-11-01 (no quotes)")
            return None
        return value

    def table(self, key: str) -> TomlTable:
        """A table inside this one; empty when absent."""
        value = self.get(key)
        if value is not None and not isinstance(value, dict):
            self.expect(key, f"a table [{self.where(key)}]")
        return TomlTable(value if isinstance(value, dict) else {}, self.where(key), self.problems)

    def tables(self) -> list[tuple[str, TomlTable]]:
        """All tables inside this one, by name."""
        return [(key, self.table(key)) for key in self._content]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def finish(self) -> None:
        """Note the keys that nobody asked for: a misspelt key would otherwise be silently ignored."""
        for key in self._content:
            if key not in self._read:
                close = get_close_matches(key, sorted(self._read), n=1)
                hint = (
                    f"did you mean {close[0]}?" if close else f"known here: {', '.join(sorted(self._read))}"
                )
                self.problem(key, "unknown-key", "is not a key of a plan.", hint)


def _exact(value: object) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        return None
    try:
        return exact(value)
    except ParameterError:
        return None
