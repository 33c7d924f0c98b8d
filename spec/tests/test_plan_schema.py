"""plan.schema.json says what the reader of plans does, key by key and bound by bound."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator
from tests.javascript.random_plans import random_plan

import reticent
from reticent.errors import PlanError, Problem
from reticent.plan import Plan

ROOT = Path(__file__).parents[2]
SCHEMA: dict[str, Any] = json.loads((ROOT / "spec" / "plan.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
README = (ROOT / "spec" / "README.md").read_text()
VECTORS: dict[str, Any] = json.loads((ROOT / "spec" / "answers.json").read_text())
PACKAGE = Path(reticent.__file__).parent

Data = dict[str, Any]


def toml(value: object) -> str:
    """A value as TOML; a table as an inline one."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower()  # nan


def text_of(data: Data) -> str:
    return "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in data.items())


def as_json(value: object) -> Any:
    """What an editor hands a schema: dates are texts, decimals are numbers."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


def in_schema(text: str) -> bool:
    return bool(VALIDATOR.is_valid(as_json(tomllib.loads(text, parse_float=Decimal))))


def problems(text: str) -> list[Problem]:
    try:
        Plan.from_toml(text)
    except PlanError as error:
        return list(error.problems)
    return []


# Plans to change

MEAN: Data = {"kind": "mean", "epsilon": 1, "max_value": 60}
GRID: Data = {"kind": "mean", "epsilon": 1, "grid": [0, 30, 60]}
FLAG: Data = {"kind": "flag", "epsilon": 1}
HADAMARD: Data = {
    "kind": "histogram", "epsilon": 1, "max_value": 60, "buckets": 8, "mechanism": "hadamard-bit"
}  # fmt: skip
FLIPS: Data = {
    "kind": "histogram", "epsilon": 1, "edges": [0, 1, 2, 3], "mechanism": "d-bit-flip", "bits": 2
}  # fmt: skip
CHOICE: Data = {"kind": "choice", "epsilon": 1, "labels": ["build", "test"], "mechanism": "d-bit-flip"}
SUBSET: Data = {
    "kind": "histogram", "epsilon": 1, "max_value": 60, "buckets": 8, "mechanism": "subset", "size": 2
}  # fmt: skip
SPLIT: Data = {"kind": "split", "epsilon": 1, "max_value": 60, "labels": ["editor", "browser"]}
METRICS = {
    "mean": MEAN, "grid": GRID, "flag": FLAG, "hadamard": HADAMARD, "flips": FLIPS, "choice": CHOICE, "split": SPLIT
}  # fmt: skip

BASE: Data = {
    "min_reports": 100,
    "plan": {
        "name": "p", "version": 1, "round": "6h", "grace": "1d", "owner": "us", "expires": date(2027, 11, 1)
    },
    "metrics": METRICS,
    "groups": {"both": {"metrics": ["mean", "grid"], "max_total": 60}},
    "segments": {"os": ["linux", "macos"]},
    "answers": {"kind": "sampled", "window": "7d", "metrics": 1},
}  # fmt: skip

GONE = object()


def changed(path: str, value: object, base: Data = BASE) -> Data:
    """The plan with another value at a path, or with none there."""
    data = deepcopy(base)
    *tables, key = path.split(".")
    table = data
    for name in tables:
        table = table[name]
    if value is GONE:
        del table[key]
    else:
        table[key] = value
    return data


REMEMBERED = changed("answers", {})
SAMPLED = changed("metrics.subset", SUBSET)
LEAST: Data = {
    "plan": {"name": "p", "version": 1, "round": "6h"},
    "metrics": METRICS,
    "groups": BASE["groups"],
    "answers": {},
}
"""Without what may be left out: a reader could look for a key only where another is missing."""


def numbers(count: int) -> list[int]:
    return list(range(count))


def names(count: int) -> list[str]:
    return [f"label {number}" for number in range(count)]


def many_metrics(count: int, **keys: object) -> Data:
    """So many metrics, those of the group among them."""
    return {"mean": MEAN, "grid": GRID} | {f"m{number}": {**FLAG, **keys} for number in range(count - 2)}


# The schema itself


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def subschemas(schema: object, place: str = "#") -> Iterator[tuple[str, Data]]:
    if isinstance(schema, dict):
        yield place, schema
        for key, value in schema.items():
            yield from subschemas(value, f"{place}/{key}")
    elif isinstance(schema, list):
        for number, value in enumerate(schema):
            yield from subschemas(value, f"{place}/{number}")


def resolved(schema: Data) -> Data:
    if "$ref" not in schema:
        return schema
    return {**resolved(SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")]), **schema}


def test_every_key_is_described_and_every_table_is_closed() -> None:
    tables = [schema for _, schema in subschemas(SCHEMA) if schema.get("type") == "object"]
    assert len(tables) == 12
    for table in tables:
        assert "additionalProperties" in table
        for key, schema in table.get("properties", {}).items():
            assert len(resolved(schema)["description"]) > 10, key


def test_every_definition_is_used() -> None:
    used = set(re.findall(r"#/\$defs/(\w+)", json.dumps(SCHEMA)))
    assert used == set(SCHEMA["$defs"])


# Keys

TABLES = {
    "": SCHEMA,
    "plan": SCHEMA["$defs"]["plan"],
    "groups.both": SCHEMA["$defs"]["group"],
    "answers": SCHEMA["$defs"]["answers"],
    **{f"metrics.{name}": SCHEMA["$defs"][table["kind"]] for name, table in METRICS.items()},
}
"""A table of the plan, and what the schema says about it."""


@cache
def literals() -> set[str]:
    """Every word that the reader of plans could look up: a key that it knows is written there."""
    files = [*(PACKAGE / "plan").glob("*.py"), *(PACKAGE / "mechanisms").glob("*.py")]
    constants = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    texts = {
        node.value for node in constants if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {text for text in texts if re.fullmatch(r"[a-z_]+", text)}


@pytest.mark.parametrize("place", TABLES)
def test_both_know_the_same_keys_of_each_table(place: str) -> None:
    words = literals() | {key for _, each in subschemas(SCHEMA) for key in each.get("properties", {})}
    known = set()
    for word in words:
        path = f"{place}.{word}" if place else word
        for base in (BASE, LEAST):
            noted = problems(text_of(changed(path, 1, base)))
            if (path, "unknown-key") not in {(problem.where, problem.rule) for problem in noted}:
                known.add(word)
    assert literals() > set(TABLES[place]["properties"])
    assert known == set(TABLES[place]["properties"])


# Values and bounds that both take, and those that both refuse

TAKEN: list[tuple[str, object]] = [
    ("min_reports", 1),
    ("min_reports", 10**9),
    ("min_reports", GONE),
    ("plan.name", "a" * 64),
    ("plan.name", "a-b_9"),
    ("plan.version", 2**31 - 1),
    ("plan.grace", "999999999d"),
    ("plan.grace", "1s"),
    ("plan.grace", GONE),
    ("plan.owner", "é" * 2000),
    ("plan.owner", ""),
    ("plan.owner", GONE),
    ("plan.expires", GONE),
    ("metrics.mean.epsilon", Decimal("0.001")),
    ("metrics.mean.epsilon", 20),
    ("metrics.mean.epsilon", "1/3"),
    ("metrics.mean.epsilon", "12.5e-1"),
    ("metrics.mean.epsilon", "1" + "0" * 30 + "/1" + "0" * 30),
    ("metrics.mean.max_value", Decimal("1e-9")),
    ("metrics.mean.max_value", 10**15),
    ("metrics.mean.max_value", Decimal("1e15")),
    ("metrics.mean.step", Decimal("7.5")),
    ("metrics.mean.unit", "second"),
    ("metrics.mean.description", "how long"),
    ("metrics.grid.grid", numbers(1025)),
    ("metrics.grid.grid", [Decimal("0.0"), Decimal("1e-12"), "1/3", 5]),
    ("metrics.grid.grid", ["0/7", 5]),
    ("metrics.grid.max_value", 60),
    ("metrics.flag.unit", "u" * 2000),
    ("metrics.hadamard.buckets", 255),
    ("metrics.hadamard.buckets", 2),
    ("metrics.hadamard.absent", True),
    ("metrics.hadamard.absent", False),
    ("metrics.hadamard", {**HADAMARD, "buckets": 254, "absent": True}),
    ("metrics.hadamard", {**FLIPS, "edges": numbers(257)}),
    ("metrics.hadamard", {**FLIPS, "edges": numbers(256), "absent": True}),
    ("metrics.hadamard", {**FLIPS, "edges": numbers(257), "bits": 256}),
    ("metrics.flips.edges", numbers(3)),
    ("metrics.flips.variant", "paper"),
    ("metrics.flips.bits", GONE),
    ("metrics.flips.max_value", 3),
    ("metrics.choice.labels", names(254)),
    ("metrics.choice.labels", ["a" * 32, "B_9.+ -"]),
    ("metrics.choice.labels", ["other", "x"]),
    ("metrics.choice.pick", "first"),
    ("metrics.split.labels", names(254)),
    ("metrics.split.labels", ["absent", "other"]),
    ("metrics.split.max_value", "1/3"),
    ("metrics.split.mechanism", "d-bit-flip"),
    ("metrics.split.size", 1),
    ("metrics.split.unit", "second"),
    ("metrics.choice.mechanism", "hadamard-bit"),
    ("metrics.choice.mechanism", GONE),
    ("metrics.hadamard.mechanism", GONE),
    ("metrics.subset.mechanism", GONE),
    ("metrics.subset.size", GONE),
    ("metrics.subset", {**SUBSET, "buckets": 256, "size": 255}),
    ("metrics", many_metrics(1000)),
    ("groups", {}),
    ("groups.both.max_total", "1/3"),
    ("groups.both.metrics", ["mean"]),
    ("segments", {}),
    ("segments", {name: ["x"] for name in "abcd"}),
    ("segments.os", names(254)),
    ("segments.os", ["absent"]),
    ("answers", GONE),
    ("answers", {}),
    ("answers", {"kind": "remembered"}),
    ("answers", {"metrics": 1}),
    ("answers", {"kind": "sampled", "window": "6h"}),
    ("metrics.mean.flip", 0),
    ("metrics.mean.flip", Decimal("0.0")),
    ("metrics.mean.flip", "0/3"),
]

NO_NUMBERS = (" 1", "+1", "1_0", "1.", ".5", "+1/3", " 1/3 ", "1/1_0", "", "\u0661")
"""Texts that are no numbers in a plan, though Python reads most of them as such."""

REFUSED: list[tuple[str, object]] = [
    ("min_reports", 0),
    ("min_reports", 10**9 + 1),
    ("min_reports", "100"),
    ("plan", GONE),
    ("plan", 3),
    ("plan.name", GONE),
    ("plan.name", "a" * 65),
    ("plan.name", ""),
    ("plan.name", "Ab"),
    ("plan.name", "9a"),
    ("plan.name", 3),
    ("plan.version", GONE),
    ("plan.version", 0),
    ("plan.version", 2**31),
    ("plan.version", "1"),
    ("plan.version", True),
    ("plan.version", Decimal("1.5")),
    ("plan.round", GONE),
    ("plan.round", 21600),
    ("plan.round", "6 h"),
    ("plan.round", "0h"),
    ("plan.grace", "1w"),
    ("plan.grace", "1000000000s"),
    ("plan.owner", "é" * 2001),
    ("plan.owner", 7),
    ("plan.expires", 20271101),
    ("plan.expires", "soon"),
    ("plan.min_reports", 5),
    ("plan.kind", "mean"),
    ("metrics", GONE),
    ("metrics", {}),
    ("metrics", 3),
    ("metrics", many_metrics(1001)),
    ("metrics.mean", 3),
    ("metrics.A", FLAG),
    ("metrics." + "a" * 65, FLAG),
    ("metrics.mean.kind", GONE),
    ("metrics.mean.kind", "median"),
    ("metrics.mean.kind", ["mean"]),
    ("metrics.mean.epsilon", GONE),
    ("metrics.mean.epsilon", Decimal("0.00099")),
    ("metrics.mean.epsilon", Decimal("20.001")),
    ("metrics.mean.epsilon", True),
    ("metrics.mean.epsilon", "one"),
    ("metrics.mean.epsilon", "1/0"),
    ("metrics.mean.epsilon", "1.5/3"),
    ("metrics.mean.epsilon", "1" + "0" * 31 + "/1" + "0" * 31),
    ("metrics.mean.epsilon", [1]),
    *(("metrics.mean.epsilon", text) for text in NO_NUMBERS),
    *(("metrics.grid.grid", [0, text, 60]) for text in NO_NUMBERS),
    *(("groups.both.max_total", text) for text in NO_NUMBERS),
    ("metrics.mean.max_value", GONE),
    ("metrics.mean.max_value", Decimal("0.99e-9")),
    ("metrics.mean.max_value", 10**15 + 1),
    ("metrics.mean.max_value", -1),
    ("metrics.mean.step", 0),
    ("metrics.mean.step", 10**15 + 1),
    ("metrics.mean.mechanism", "one-bit-mean"),
    ("metrics.mean.buckets", 3),
    ("metrics.mean.absent", True),
    ("metrics.mean.description", 1),
    ("metrics.mean.unit", "u" * 2001),
    ("metrics.mean.flp", 0),
    ("metrics.mean.flip", Decimal("0.1")),
    ("metrics.mean.flip", "1/10"),
    ("metrics.grid.step", 30),
    ("metrics.grid.grid", [0]),
    ("metrics.grid.grid", []),
    ("metrics.grid.grid", numbers(1026)),
    ("metrics.grid.grid", [1, 60]),
    ("metrics.grid.grid", ["1/3", 60]),
    ("metrics.grid.grid", [0, 0, 60]),
    ("metrics.grid.grid", [0, "x", 60]),
    ("metrics.grid.grid", [0, True]),
    ("metrics.grid.grid", [0, -1]),
    ("metrics.grid.grid", [0, 2 * 10**15]),
    ("metrics.grid.grid", "0, 60"),
    ("metrics.flag.max_value", 1),
    ("metrics.flag.mechanism", "one-bit-mean"),
    ("metrics.hadamard.mechanism", "rappor"),
    ("metrics.hadamard.max_value", GONE),
    ("metrics.hadamard.buckets", GONE),
    ("metrics.hadamard.buckets", 1),
    ("metrics.hadamard.buckets", 256),
    ("metrics.hadamard.buckets", "8"),
    ("metrics.hadamard.bits", 1),
    ("metrics.hadamard.variant", "tight"),
    ("metrics.hadamard.labels", ["a", "b"]),
    ("metrics.hadamard.grid", [0, 60]),
    ("metrics.hadamard.absent", "true"),
    ("metrics.hadamard", {**HADAMARD, "buckets": 255, "absent": True}),
    ("metrics.hadamard", {**HADAMARD, "mechanism": "d-bit-flip", "buckets": 257}),
    ("metrics.hadamard", {**HADAMARD, "mechanism": "d-bit-flip", "buckets": 256, "absent": True}),
    ("metrics.flips", {**FLIPS, "mechanism": "hadamard-bit", "edges": numbers(3)}),
    ("metrics.flips.edges", numbers(258)),
    ("metrics.flips.edges", [0, 1]),
    ("metrics.flips.edges", [1, 2, 3]),
    ("metrics.flips.edges", [0, 5, 5]),
    ("metrics.flips.edges", [0, 5, 10**16]),
    ("metrics.flips.buckets", 3),
    ("metrics.flips.bits", 0),
    ("metrics.flips.bits", 257),
    ("metrics.flips.bits", "2"),
    ("metrics.flips.variant", "fast"),
    ("metrics.choice.labels", GONE),
    ("metrics.choice.labels", ["build"]),
    ("metrics.choice.labels", names(255)),
    ("metrics.choice.labels", ["a", "a"]),
    ("metrics.choice.labels", ["a", "absent"]),
    ("metrics.choice.labels", ["a", "b" * 33]),
    ("metrics.choice.labels", ["a", " b"]),
    ("metrics.choice.labels", ["a", ""]),
    ("metrics.choice.labels", ["a", 3]),
    ("metrics.choice.labels", "build"),
    ("metrics.choice.pick", "any"),
    ("metrics.subset.bits", 1),
    ("metrics.subset.variant", "tight"),
    ("metrics.subset.size", 0),
    ("metrics.subset.size", 256),
    ("metrics.hadamard.size", 2),
    ("metrics.flips.size", 2),
    ("metrics.choice.max_value", 2),
    ("metrics.choice.absent", True),
    ("metrics.choice", {**CHOICE, "mechanism": "hadamard-bit", "bits": 1}),
    ("metrics.split.max_value", GONE),
    ("metrics.split.max_value", 0),
    ("metrics.split.labels", GONE),
    ("metrics.split.labels", ["a", "unused"]),
    ("metrics.split.labels", ["a"]),
    ("metrics.split.labels", names(255)),
    ("metrics.split.pick", "first"),
    ("metrics.split.step", 30),
    ("metrics.split.absent", True),
    ("metrics.split.bits", 1),
    ("groups", []),
    ("groups.both.metrics", GONE),
    ("groups.both.metrics", []),
    ("groups.both.metrics", ["mean", "mean"]),
    ("groups.both.metrics", ["Mean"]),
    ("groups.both.metrics", "mean"),
    ("groups.both.max_total", GONE),
    ("groups.both.max_total", 0),
    ("groups.both.max_total", 10**15 + 1),
    ("groups.both.limit", 3),
    ("groups.Both", {"metrics": ["mean"], "max_total": 60}),
    ("segments", 3),
    ("segments", {name: ["x"] for name in "abcde"}),
    ("segments.os", []),
    ("segments.os", names(255)),
    ("segments.os", ["other"]),
    ("segments.os", ["a", "a"]),
    ("segments.os", ["<b>"]),
    ("segments.os", "linux"),
    ("segments.O", ["linux"]),
    ("answers", 3),
    ("answers.kind", GONE),
    ("answers.kind", "sometimes"),
    ("answers.window", GONE),
    ("answers.window", 7),
    ("answers.metrics", 0),
    ("answers.metrics", 1001),
    ("answers.metrics", "1"),
    ("answers.rounds", 2),
    ("answers", {"kind": "remembered", "window": "7d"}),
    ("version", 1),
]


def shown(item: object) -> str:
    return "gone" if item is GONE else str(item)[:30]


def test_the_plan_that_is_changed_is_a_plan() -> None:
    for data in (BASE, REMEMBERED, SAMPLED, LEAST):
        assert problems(text_of(data)) == []
        assert in_schema(text_of(data))


@pytest.mark.parametrize(("path", "value"), TAKEN, ids=shown)
def test_both_take_it(path: str, value: object) -> None:
    text = text_of(changed(path, value, SAMPLED if "subset" in path else BASE))
    assert problems(text) == []
    assert in_schema(text)


@pytest.mark.parametrize(("path", "value"), REFUSED, ids=shown)
def test_both_refuse_it(path: str, value: object) -> None:
    text = text_of(changed(path, value, SAMPLED if "subset" in path else BASE))
    assert problems(text)
    assert not in_schema(text)


def test_both_refuse_subset_selection_of_remembered_answers() -> None:
    text = text_of(changed("metrics.subset", SUBSET, REMEMBERED))
    assert problems(text)
    assert not in_schema(text)


@pytest.mark.parametrize("value", [Decimal("0.499"), Decimal("0.2"), "1/3", 0, GONE], ids=shown)
def test_both_take_a_flip_of_remembered_answers(value: object) -> None:
    text = text_of(changed("metrics.mean.flip", value, REMEMBERED) if value is not GONE else REMEMBERED)
    assert problems(text) == []
    assert in_schema(text)


@pytest.mark.parametrize("value", [Decimal("0.4991"), Decimal("-0.1"), "half", True], ids=shown)
def test_both_refuse_a_flip_of_remembered_answers(value: object) -> None:
    text = text_of(changed("metrics.mean.flip", value, REMEMBERED))
    assert problems(text)
    assert not in_schema(text)


@pytest.mark.parametrize("draft", [Draft4Validator, Draft7Validator])
def test_editors_that_know_an_older_draft_find_no_error_in_a_plan(draft: Any) -> None:
    validator = draft(SCHEMA)
    for path, value in TAKEN:
        base = SAMPLED if "subset" in path else BASE
        data = tomllib.loads(text_of(changed(path, value, base)), parse_float=Decimal)
        assert list(validator.iter_errors(as_json(data))) == [], path


# What the schema cannot express: the README lists it

ONLY_READ: dict[str, list[tuple[str, object]]] = {
    "Steps": [("metrics.mean.step", 25), ("metrics.mean.step", Decimal("0.01"))],
    "Order": [("metrics.grid.grid", [0, 30, 20, 60]), ("metrics.flips.edges", [0, "1/2", Decimal("0.5"), 2])],
    "Top": [("metrics.grid.max_value", 61), ("metrics.flips.max_value", 4)],
    "Bits": [("metrics.flips.bits", 4), ("metrics.choice.bits", 4)],
    "Groups": [
        ("groups.both.metrics", ["nobody"]),
        ("groups.both.metrics", ["flips"]),
        ("groups.more", {"metrics": ["mean"], "max_total": 60}),
    ],
    "Windows": [("answers.window", "7h"), ("answers.metrics", len(METRICS) + 1)],
    "Numbers as text": [
        ("metrics.mean.epsilon", "21"),
        ("metrics.mean.max_value", "0"),
        ("metrics.mean.step", "0"),
        ("metrics.grid.grid", [0, "1e16"]),
        ("metrics.flips.edges", [0, 1, "1e16"]),
        ("groups.both.max_total", "1/10000000000"),
    ],
    "Types of TOML": [
        ("plan.expires", "2027-11-01"),
        ("plan.version", Decimal("1.0")),
        ("metrics.mean.epsilon", Decimal("nan")),
        ("metrics.grid.grid", [0, Decimal("nan")]),
    ],
    "Size": [("metrics", many_metrics(1000, description="x" * 1100))],
}
"""By the words of the README: plans that the schema takes and the reader refuses."""


def named(differences: dict[str, list[tuple[str, object]]]) -> list[Any]:
    return [
        pytest.param(path, value, id=f"{name}-{shown(value)}")
        for name, changes in differences.items()
        for path, value in changes
    ]


@pytest.mark.parametrize(("path", "value"), named(ONLY_READ))
def test_what_only_the_reader_refuses(path: str, value: object) -> None:
    text = text_of(changed(path, value, SAMPLED if "subset" in path else BASE))
    assert problems(text)
    assert in_schema(text)


def test_the_readme_lists_all_of_it_and_nothing_else() -> None:
    section = README.split("## The plan's schema")[1].split("\n## ")[0]
    assert re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE) == [*ONLY_READ]


# Plans by chance


def agree(text: str) -> bool:
    """Whether it is a plan; a plan fits the schema, and what is none either does not fit or is on the list."""
    noted = problems(text)
    if not noted:
        assert in_schema(text), text
    elif in_schema(text):
        assert {(_key(problem.where), problem.rule) for problem in noted} <= explained(), (text, noted)
    return not noted


def _key(where: str) -> str:
    head, _, rest = where.partition(".")
    return f"{head}.{rest.rpartition('.')[2]}"


@cache
def explained() -> set[tuple[str, str]]:
    """
    Key and rule of every problem in the examples above of what only the reader refuses.

    With a flip that is a number as text, where answers are remembered; and a size that exceeds the number of labels.
    """
    texts = [text_of(changed(path, value)) for changes in ONLY_READ.values() for path, value in changes]
    of_examples = {(_key(problem.where), problem.rule) for text in texts for problem in problems(text)}
    return {*of_examples, ("metrics.flip", "range"), ("metrics.size", "parameter")}


amounts = st.sampled_from([
    0, 1, 2, 5, 60, -1, 10**15, 10**16, Decimal("0.5"), Decimal("1e-9"), Decimal("0.0005"), "1/3", "0", "60",
    "6.5", "x", "", True, [1],
])  # fmt: skip
words = st.sampled_from(["a", "b", "mean", "A", "", "other", "absent", "a b", "a" * 33, 3])
lists = st.lists(amounts, max_size=5) | st.lists(words, max_size=4) | st.builds(numbers, st.integers(1, 260))
KEYS: dict[str, st.SearchStrategy[Any]] = {
    "kind": st.sampled_from(["mean", "histogram", "choice", "flag", "split", "median"]),
    "epsilon": amounts,
    "flip": amounts,
    "max_value": amounts,
    "step": amounts,
    "grid": lists,
    "edges": lists,
    "buckets": st.integers(0, 260) | amounts,
    "absent": st.booleans() | amounts,
    "labels": lists,
    "pick": st.sampled_from(["first", "last", "any"]),
    "mechanism": st.sampled_from(["hadamard-bit", "d-bit-flip", "one-bit-mean", "subset"]),
    "size": st.integers(0, 260) | amounts,
    "bits": st.integers(0, 260) | amounts,
    "variant": st.sampled_from(["tight", "paper", "x"]),
    "unit": words,
    "description": words,
    "window": st.sampled_from(["6h", "7d", "7h", "0d", 7]),
    "metrics": lists | amounts,
    "max_total": amounts,
    "name": words,
    "version": amounts,
    "round": st.sampled_from(["6h", "1d", "6 h", 6]),
    "grace": st.sampled_from(["6h", "1d", "6 h", 6]),
    "expires": st.sampled_from([date(2027, 11, 1), "2027-11-01", "soon", 1]),
    "owner": words,
    "min_reports": amounts,
    "other_key": amounts,
}


@st.composite
def nearly_plans(draw: st.DrawFn) -> str:
    """A plan after up to three changes of any key of any table."""
    data = deepcopy(draw(st.sampled_from([BASE, REMEMBERED, SAMPLED])))
    tables = [data, data["plan"], data["answers"], data["groups"]["both"], data["segments"]]
    tables += list(data["metrics"].values()) * 2
    for _ in range(draw(st.integers(0, 3))):
        table = draw(st.sampled_from(tables))
        key = draw(st.sampled_from(sorted({*KEYS, *(key for key in table if key in KEYS)})))
        if draw(st.integers(0, 4)) == 0:
            table.pop(key, None)
        else:
            table[key] = draw(KEYS[key])
    return text_of(data)


@settings(max_examples=600)
@given(nearly_plans())
def test_plans_after_any_changes(text: str) -> None:
    agree(text)


def test_random_plans_fit() -> None:
    random = Random(4)
    assert all(agree(random_plan(random)) for _ in range(150))


PLANS = [*sorted(ROOT.glob("examples/*.toml")), ROOT / "lab/src/reticent_lab/demo.toml"]


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.name)
def test_the_plans_of_the_repository_fit(path: Path) -> None:
    assert agree(path.read_text())


def test_the_plans_of_the_vectors_fit() -> None:
    plans = [
        VECTORS["plan"],
        VECTORS["kinds"]["plan"],
        VECTORS["subsets"]["plan"],
        *(each["plan"] for each in VECTORS["splits"]["plans"]),
        *(each["plan"] for each in VECTORS["sampled"]),
    ]
    assert all(map(agree, plans))
