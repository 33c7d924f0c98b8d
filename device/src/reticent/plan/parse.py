"""Reading plan.toml: every problem with its place, the rule it breaks and what to do."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

from reticent.errors import ParameterError, PlanError, Problem
from reticent.mechanisms import COHORTS, MECHANISMS, Buckets, Flip, Grid, Mechanism, exact, whole_if_possible
from reticent.plan.metric import ABSENT, OTHER, UNUSED, Answers, Group, Metric, Segment

MAX_TEXT = 1 << 20
MAX_METRICS = 1000
MAX_STEPS = 1024
MAX_SEGMENTS = 4
MAX_NAMES = 254  # most tags of a segment, and most labels of a choice
MAX_NUMBER = Fraction(10**15)
MIN_NUMBER = Fraction(1, 10**9)
MIN_REPORTS = 100  # the smallest group of reports that readers are shown, where a plan says nothing else

NAME = r"[a-z][a-z0-9_-]{0,63}"
_NAME_EXPECTED = "a name of lower-case letters, digits, - and _ that starts with a letter (64 at most)"
_TAG = r"[A-Za-z0-9][A-Za-z0-9_.+ -]{0,31}"
_NUMBER_AS_TEXT = r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|[0-9]+/0*[1-9][0-9]*"
_NUMBER_HINT = 'a number as text has plain digits, such as "2.5", "1e-3" or "1/3"'

_PART = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_LONG_KEY = rf"(?<![\w-])(?:{_PART}[ \t]*\.[ \t]*){{32}}"
"""A dotted key with more parts than any plan has: reading one takes quadratic time."""


def parse(text: str) -> dict[str, Any]:
    """The fields of the `Plan` in the text of a plan.toml; raises `PlanError` with every problem in it."""
    return {**fields_of(content_of(text)), "text": text}


def content_of(text: str) -> dict[str, Any]:
    """The tables of a plan.toml, with decimals as they are written; raises `PlanError` where it is no TOML."""
    if len(text) > MAX_TEXT:
        raise PlanError([Problem("plan", "size", f"expected at most {MAX_TEXT:,} characters.")])
    if text.count(".") >= 32 and re.search(_LONG_KEY, text):
        raise PlanError([Problem("plan", "size", "expected keys of fewer than 32 parts.")])
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a number or nesting too large"
        raise PlanError([Problem("plan", "syntax", f"is not valid TOML: {reason}.")]) from None


def fields_of(content: Mapping[str, object]) -> dict[str, Any]:
    """The fields of the `Plan` in the tables of a plan.toml; raises `PlanError` with every problem in them."""
    root = TomlTable(content, "", [])
    least = root.integer("min_reports", 1, 10**9) if "min_reports" in root else MIN_REPORTS
    fields = _head(root.table("plan"))
    fields["min_reports"] = least
    tables = root.table("metrics").tables()
    sampled = root.table("answers").get("kind") == "sampled"
    metrics = [_metric(fields["name"], key, table, sampled) for key, table in tables]
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


def _head(table: TomlTable) -> dict[str, Any]:
    """What [plan] says; a key whose problem was noted is None, or empty."""
    fields: dict[str, Any] = {"name": "", "version": None, "round_seconds": None}
    if table.require("name", _NAME_EXPECTED):
        fields["name"] = table.text("name", NAME, _NAME_EXPECTED)
    if table.require("version", "a whole number"):
        fields["version"] = table.integer("version", 1, 2**31 - 1)
    if table.require("round", 'a duration such as "6h"'):
        fields["round_seconds"] = table.seconds("round")
    fields["owner"] = table.text("owner")
    fields["expires"] = table.date("expires")
    by_default = max(7 * 86_400, 3 * (fields["round_seconds"] or 0))
    fields["grace_seconds"] = table.seconds("grace") if "grace" in table else by_default
    if table.get("min_reports") is not None:
        hint = "it stands at the top of the file, above [plan]"
        table.problem("min_reports", "unknown-key", "is not a key of [plan].", hint)
    table.finish()
    return fields


def _segments(table: TomlTable) -> tuple[Segment, ...]:
    for name in table:
        _check_name(table, name, key=name)
    segments = tuple(Segment(name, table.names(name, "tags", 1, OTHER, "everything else")) for name in table)
    if len(segments) > MAX_SEGMENTS:
        table.problem("", "size", f"expected at most {MAX_SEGMENTS} segments, got {len(segments)}.")
    return segments


_KINDS = {
    "mean": "mean",
    "histogram": "histogram",
    "choice": "histogram",
    "flag": "mean",
    "split": "histogram",
}
"""Each kind of a metric, and the kind of mechanism that answers it."""


def _metric(plan: str, name: str, table: TomlTable, sampled: bool) -> Metric | None:
    _check_name(table, name)
    table.require("kind", " or ".join(f'"{kind}"' for kind in _KINDS))
    kind = table.choice("kind", list(_KINDS))
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
    unit = table.text("unit")
    description = table.text("description")
    if kind is None:
        return None
    labels: tuple[str, ...] = ()
    pick: str | None = "last"
    total: Fraction | None = Fraction(0)
    if kind == "split":
        labels = table.names("labels", "labels", 2, UNUSED, "what they leave of the range")
        table.require("max_value", "a number > 0")
        total = table.number("max_value", "a number from 1e-9 to 1e15", MIN_NUMBER, MAX_NUMBER)
    if kind == "choice":
        labels = table.names("labels", "labels", 2, ABSENT, "devices that chose nothing")
        pick = table.choice("pick", ["last", "first"], "last")
    scale: Grid | Buckets | None = None
    with table.noting():
        scale = Buckets(range(len(labels) + 1), absent=True) if labels else _scale(table, kind)
    asked = _asked_mechanism(table, _KINDS[kind], scale, sampled)
    mechanism = _mechanism(table, asked, epsilon, scale, f"{plan}/{name}") if asked else None
    table.finish()
    if mechanism is None or pick is None or total is None:
        return None
    return Metric(
        name,
        mechanism,
        Flip(gamma or 0),
        unit,
        description,
        labels=() if total else labels,
        pick="first" if pick == "first" else "last",
        is_flag=kind == "flag",
        parts=labels if total else (),
        max_total=whole_if_possible(total),
    )


def _asked_mechanism(
    table: TomlTable, kind: str, scale: Grid | Buckets | None, sampled: bool
) -> type[Mechanism] | None:
    """
    The mechanism that a metric names, or the best there is; None after a problem was noted.

    The best has the least variance, for shares of buckets that few devices are in.
    """
    known = {mechanism.name: mechanism for mechanism in MECHANISMS.values() if mechanism.kind == kind}
    best = next(iter(known))
    if isinstance(scale, Buckets):
        best = "subset" if sampled else "hadamard-bit" if len(scale) < COHORTS else "d-bit-flip"
    name = table.choice("mechanism", list(known), best) if len(known) > 1 else best
    if name is None:
        return None
    asked = known[name]
    if asked.sampled_only and not sampled:
        for key in asked.keys:
            table.get(key)
        hint = f'set kind = "sampled" in [answers], or take mechanism = "{best}"'
        table.problem("mechanism", "conflict", f"{name} is for sampled answers.", hint)
        return None
    for other in known.values():
        for key in other.keys:
            if key in table and key not in asked.keys:
                table.get(key)
                table.problem(key, "conflict", f"belongs to {other.name}, not to {name}.", "remove it")
    return asked


def _mechanism(
    table: TomlTable,
    asked: type[Mechanism],
    epsilon: Fraction | None,
    scale: Grid | Buckets | None,
    label: str,
) -> Mechanism | None:
    with table.noting():
        return asked.from_table(table, epsilon, scale, label)
    return None


def _check_name(table: TomlTable, name: str, key: str = "") -> None:
    if not re.fullmatch(NAME, name):
        table.problem(key, "name", f"expected {_NAME_EXPECTED}.")


def _scale(table: TomlTable, kind: str) -> Grid | Buckets | None:
    """What values are rounded to, or sorted into; None after a problem was noted, and for a choice."""
    if kind in ("choice", "split"):
        return None
    if kind == "flag":
        return Grid.even(1)
    return _grid(table) if kind == "mean" else _buckets(table)


def _grid(table: TomlTable) -> Grid | None:
    points, top = _points(table, "grid", "step", MAX_STEPS)
    if points:
        return Grid(points)
    if "grid" in table:
        return None
    step = table.number("step", "a number > 0 that divides max_value", MIN_NUMBER, MAX_NUMBER)
    if step and top and top / step > MAX_STEPS:
        table.expect("step", f"at least max_value / {MAX_STEPS}", rule="range")
        return None
    return Grid.even(top, step) if top else None


def _buckets(table: TomlTable) -> Buckets | None:
    absent = table.truth("absent")
    edges, top = _points(table, "edges", "buckets", COHORTS)
    if edges:
        return Buckets(edges, absent)
    if "edges" in table:
        return None
    table.require("buckets", f"a whole number from 2 to {COHORTS}, or edges = [0, ...]")
    count = table.integer("buckets", 2, COHORTS)
    return Buckets.even(top, count, absent) if top and count else None


def _points(
    table: TomlTable, listed: str, counted: str, most: int
) -> tuple[list[Fraction] | None, Fraction | None]:
    """The points listed at one key, instead of counted by another, and `max_value`."""
    points = table.numbers(listed, most + 1)
    if listed not in table:
        table.require("max_value", "a number > 0")
    top = table.number("max_value", "a number from 1e-9 to 1e15", MIN_NUMBER, MAX_NUMBER)
    if listed in table and counted in table:
        table.expect(counted, f"either {counted} or {listed}, not both", rule="conflict")
        table.get(counted)
    if points:
        if (top or points[-1]) != points[-1]:
            table.expect("max_value", f"the last of {listed} ({points[-1]})", rule="conflict")
        if points == sorted(points) and not MIN_NUMBER <= points[-1] <= MAX_NUMBER:
            table.problem(listed, "range", "expected a last number from 1e-9 to 1e15.")
    return points, top


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


def _answers(table: TomlTable, fields: Mapping[str, Any], declared: int) -> Answers:
    """How the plan is answered: remembered, unless it says otherwise."""
    kind = table.choice("kind", ["remembered", "sampled"], "remembered")
    asked = table.integer("metrics", 1, max(1, declared))
    if kind != "sampled":
        if table.get("window") is not None and kind:
            table.problem("window", "conflict", "belongs to sampled answers.", 'set kind = "sampled"')
        table.finish()
        return Answers(metrics=asked)
    table.require("window", 'a duration of whole rounds, such as "7d"')
    seconds = table.seconds("window")
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
_DURATION = r"([1-9][0-9]{0,8})(s|m|h|d)"


class TomlTable:
    """One table of a plan that notes problems instead of raising, so that one pass finds all of them."""

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

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note a `ParameterError` as a problem with the key it names."""
        try:
            yield
        except ParameterError as error:
            self.problem(error.name, "parameter", f"expected {error.expected}, got {error.got}.", error.hint)

    def expect(self, key: str, expected: str, hint: str = "", rule: str = "type") -> None:
        """Note that a key holds something else than expected."""
        value = self._content.get(key)
        try:
            quoted = f'"{value}"' if isinstance(value, str) else str(value)
        except (RecursionError, ValueError):  # nested too deeply, or a number of thousands of digits
            quoted = "something too large to quote"
        quoted = quoted if len(quoted) <= 60 else quoted[:57] + "..."
        self.problem(key, rule, f"expected {expected}, got {quoted}.", hint)

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

    def read(
        self, key: str, expected: str, fits: Callable[[Any], object], hint: str = "", rule: str = "type"
    ) -> Any:
        """What stands at a key; None when it is not there, or does not fit, which is noted."""
        value = self.get(key)
        if value is None or fits(value):
            return value
        self.expect(key, expected, hint, rule)
        return None

    def text(self, key: str, pattern: str = "", expected: str = "a text") -> str:
        """A text that matches a pattern; empty when absent, or after a problem was noted."""
        value = self.read(key, expected, lambda value: isinstance(value, str) and len(value) <= 2000)
        if value is not None and pattern and not re.fullmatch(pattern, value):
            self.expect(key, expected, rule="name")
            return ""
        return value or ""

    def integer(self, key: str, low: int, high: int) -> int | None:
        """A whole number within bounds."""
        expected = f"a whole number from {low:,} to {high:,}"
        number: int | None = self.read(
            key, expected, lambda value: type(value) is int and low <= value <= high, rule="range"
        )
        return number

    def number(
        self, key: str, expected: str, low: Fraction, high: Fraction, hint: str = ""
    ) -> Fraction | None:
        """An exact number within [low, high]: an integer, a decimal, or a text such as "1/3"."""

        def fits(value: object) -> bool:
            number = _exact(value)
            return number is not None and low <= number <= high

        if _is_odd_text(self.get(key)):
            hint = _NUMBER_HINT
        return _exact(self.read(key, expected, fits, hint, "range"))

    def numbers(self, key: str, most: int) -> list[Fraction] | None:
        """A list of exact numbers."""

        def fits(value: object) -> bool:
            return isinstance(value, list) and 0 < len(value) <= most and None not in map(_exact, value)

        given = self.get(key)
        hint = _NUMBER_HINT if isinstance(given, list) and any(map(_is_odd_text, given)) else ""
        numbers = self.read(key, f"a list of 2 to {most} numbers", fits, hint)
        return None if numbers is None else [number for number in map(_exact, numbers) if number is not None]

    def truth(self, key: str) -> bool:
        """True or false; false when absent."""
        return self.read(key, "true or false (no quotes)", lambda value: type(value) is bool) is True

    def names(self, key: str, what: str, least: int, reserved: str, for_what: str) -> tuple[str, ...]:
        """Different texts that may stand in reports and tables; none after a problem was noted."""
        expected = f"a list of {least} to {MAX_NAMES} different texts"
        texts = self.texts(key) if self.require(key, expected) else []
        if key in self and (not least <= len(texts) <= MAX_NAMES or len(set(texts)) != len(texts)):
            self.expect(key, expected)
            return ()
        if any(not re.fullmatch(_TAG, text) or text == reserved for text in texts):
            expected = f"expected {what} of letters a to z, digits, space and _ . + - (32 at most)."
            hint = f'"{reserved}" is reserved for {for_what}' if reserved in texts else ""
            self.problem(key, "name", expected, hint)
            return ()
        return tuple(texts)

    def texts(self, key: str) -> list[str]:
        """A list of texts; empty when it is none, which is for the caller to judge."""
        value = self.get(key)
        return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else []

    def seconds(self, key: str) -> int | None:
        """A duration such as "6h", in seconds."""
        expected = 'a duration such as "90s", "30m", "6h" or "1d"'
        text = self.read(
            key, expected, lambda value: isinstance(value, str) and re.fullmatch(_DURATION, value)
        )
        return None if text is None else int(text[:-1]) * _SECONDS[text[-1]]

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str | None:
        """One of a few words."""
        expected = " or ".join(f'"{choice}"' for choice in choices)
        word: str | None = self.read(
            key, expected, lambda value: isinstance(value, str) and value in choices, rule="choice"
        )
        return word if key in self else default

    def date(self, key: str) -> date | None:
        """A date."""
        expected = "a date such as 2027-11-01 (no quotes)"
        day: date | None = self.read(key, expected, lambda value: type(value) is date)
        return day

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
        """Note the keys that were not read: a misspelt key would otherwise be silently ignored."""
        for key in self._content:
            if key not in self._read:
                from difflib import get_close_matches

                close = get_close_matches(key, sorted(self._read), n=1)
                hint = (
                    f"did you mean {close[0]}?" if close else f"known here: {', '.join(sorted(self._read))}"
                )
                self.problem(key, "unknown-key", "is not a key of a plan.", hint)


def _exact(value: object) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str) or _is_odd_text(value):
        return None
    try:
        return exact(value)
    except ParameterError:
        return None


def _is_odd_text(value: object) -> bool:
    """Whether it is a text that other readers of plans may not take as a number, such as "1_0" or " 1"."""
    return isinstance(value, str) and not re.fullmatch(_NUMBER_AS_TEXT, value)
