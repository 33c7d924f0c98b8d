"""plan.toml: what is read, and that every problem is named with its place."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import PlanError
from reticent.mechanisms import DBitFlip, HadamardBit, OneBitMean
from reticent.plan import Plan
from reticent_collector.plans import diff, lint

HEAD = '[plan]\nname = "p"\nversion = 1\nround = "6h"\n'
MEAN = HEAD + '[metrics.a]\nkind = "mean"\nepsilon = 1.0\nmax_value = 60\n'
HISTOGRAM = HEAD + '[metrics.a]\nkind = "histogram"\nepsilon = 1.0\nmax_value = 60\nbuckets = 8\n'


def problems(text: str) -> set[tuple[str, str]]:
    try:
        Plan.from_toml(text)
    except PlanError as error:
        return {(problem.where, problem.rule) for problem in error.problems}
    return set()


def test_the_example_reads_as_it_is_written() -> None:
    plan = Plan.load(Path(__file__).parents[3] / "examples" / "plan.toml")
    assert (plan.name, plan.version, plan.round_seconds, plan.grace_seconds) == ("app-usage", 1, 21600, 21600)
    assert plan.expires == date(2027, 11, 1)
    assert [metric.name for metric in plan.metrics] == ["editor_seconds", "browser_seconds", "editor_hours"]
    first = plan.metrics[0]
    assert isinstance(first.mechanism, OneBitMean)
    assert first.mechanism.grid.points == (0, 21600)
    assert (first.mechanism.epsilon, first.flip.probability) == (1, Fraction(1, 5))
    assert isinstance(plan.metrics[2].mechanism, HadamardBit)
    assert plan.groups[0].max_total == 21600
    assert plan.segments[0].tags == ("windows", "macos", "linux", "other")
    assert (plan.bits, plan.report_bytes, plan.uses_cohort) == (3, 1, True)


def test_decimals_are_exact_and_fractions_can_be_written() -> None:
    plan = Plan.from_toml(MEAN.replace("1.0", "0.1") + 'flip = "1/3"\n')
    assert plan.metrics[0].mechanism.epsilon == Fraction(1, 10)
    assert plan.metrics[0].flip.probability == Fraction(1, 3)


def test_step_and_grid() -> None:
    assert Plan.from_toml(MEAN + "step = 20\n").metrics[0].mechanism.classes == 4
    uneven = Plan.from_toml(MEAN + "grid = [0, 1, 7.5, 60]\n").metrics[0].mechanism
    assert isinstance(uneven, OneBitMean)
    assert uneven.grid.points == (0, 1, Fraction(15, 2), 60)


def test_d_bit_flip_and_its_variant() -> None:
    plan = Plan.from_toml(HISTOGRAM + 'mechanism = "d-bit-flip"\nbits = 4\nvariant = "paper"\n')
    mechanism = plan.metrics[0].mechanism
    assert isinstance(mechanism, DBitFlip)
    assert (mechanism.width, mechanism.variant, mechanism.label, mechanism.classes) == (4, "paper", "p/a", 8)
    edges = Plan.from_toml(HEAD + _explicit("[0, 1, 5, 60]")).metrics[0].mechanism
    assert isinstance(edges, DBitFlip)
    assert edges.buckets.edges == (0, 1, 5, 60)


def _explicit(edges: str) -> str:
    return f'[metrics.a]\nkind = "histogram"\nepsilon = 1\nedges = {edges}\nmechanism = "d-bit-flip"\n'


@pytest.mark.parametrize(
    ("text", "where", "rule"),
    [
        ("", "metrics", "missing"),
        ("[plan", "plan", "syntax"),
        ("x = " + "[" * 5000, "plan", "syntax"),
        ("x = " + "9" * 5000, "plan", "syntax"),
        ("#" * (2**20 + 1), "plan", "size"),
        ("plan = 3\n", "plan", "type"),
        ("metrics = 3\n", "metrics", "type"),
        ('[metrics]\na = "b"\n', "metrics.a", "type"),
        (MEAN.replace('"p"', '"Ä p"'), "plan.name", "name"),
        (MEAN.replace('name = "p"\n', ""), "plan.name", "missing"),
        (MEAN.replace("version = 1", "version = true"), "plan.version", "range"),
        (MEAN.replace("version = 1", "version = 0"), "plan.version", "range"),
        (MEAN.replace('"6h"', '"6 hours"'), "plan.round", "type"),
        (MEAN.replace('"6h"', "21600"), "plan.round", "type"),
        (MEAN.replace('"6h"', '"0h"'), "plan.round", "type"),
        (MEAN.replace("[metrics.a]", '[metrics."a b"]'), "metrics.a b", "name"),
        (MEAN.replace('"mean"', '"median"'), "metrics.a.kind", "choice"),
        (MEAN.replace("1.0", "0"), "metrics.a.epsilon", "range"),
        (MEAN.replace("1.0", "21"), "metrics.a.epsilon", "range"),
        (MEAN.replace("1.0", "nan"), "metrics.a.epsilon", "range"),
        (MEAN.replace("1.0", "inf"), "metrics.a.epsilon", "range"),
        (MEAN.replace("1.0", "1e999999999"), "metrics.a.epsilon", "range"),
        (MEAN.replace("1.0", "1e-999999999"), "metrics.a.epsilon", "range"),
        (MEAN.replace("1.0", '"1/0"'), "metrics.a.epsilon", "range"),
        (MEAN.replace("1.0", '"' + "9" * 5000 + '"'), "metrics.a.epsilon", "range"),
        (MEAN.replace("1.0", "true"), "metrics.a.epsilon", "range"),
        (MEAN.replace("60", "0"), "metrics.a.max_value", "range"),
        (MEAN.replace("60", "-1"), "metrics.a.max_value", "range"),
        (MEAN.replace("60", "1e400"), "metrics.a.max_value", "range"),
        (MEAN + "flip = 0.5\n", "metrics.a.flip", "range"),
        (MEAN + "flip = -0.1\n", "metrics.a.flip", "range"),
        (MEAN + "step = 25\n", "metrics.a.step", "parameter"),
        (MEAN + "step = 120\n", "metrics.a.step", "parameter"),
        (MEAN + "step = 0.000001\n", "metrics.a.step", "range"),
        (MEAN + "grid = [0, 60]\nstep = 60\n", "metrics.a.step", "conflict"),
        (MEAN + "grid = [0, 50]\n", "metrics.a.max_value", "conflict"),
        (MEAN + "grid = [1, 60]\n", "metrics.a.grid", "parameter"),
        (MEAN + "grid = [0, 30, 20, 60]\n", "metrics.a.grid", "parameter"),
        (MEAN + 'grid = [0, "x", 60]\n', "metrics.a.grid", "type"),
        (MEAN + "flp = 0.1\n", "metrics.a.flp", "unknown-key"),
        (MEAN + "buckets = 3\n", "metrics.a.buckets", "unknown-key"),
        ("plann = 1\n" + MEAN, "plann", "unknown-key"),
        (HISTOGRAM + 'mechanism = "rappor"\n', "metrics.a.mechanism", "choice"),
        (HISTOGRAM + 'mechanism = "d-bit-flip"\nbits = 9\n', "metrics.a.bits", "parameter"),
        (HISTOGRAM + 'mechanism = "d-bit-flip"\nbits = 0\n', "metrics.a.bits", "range"),
        (HISTOGRAM + 'mechanism = "d-bit-flip"\nvariant = "fast"\n', "metrics.a.variant", "choice"),
        (HISTOGRAM + 'mechanism = "hadamard-bit"\nbits = 1\n', "metrics.a.bits", "conflict"),
        (
            HISTOGRAM.replace("= 8", "= 256") + 'mechanism = "hadamard-bit"\n',
            "metrics.a.buckets",
            "parameter",
        ),
        (HISTOGRAM.replace("= 8", "= 257") + 'mechanism = "d-bit-flip"\n', "metrics.a.buckets", "range"),
        (HISTOGRAM.replace("= 8", "= 1") + 'mechanism = "d-bit-flip"\n', "metrics.a.buckets", "range"),
        (HEAD + _explicit("[0, 5, 5]"), "metrics.a.edges", "parameter"),
        (HEAD + _explicit("[0, 5, 1e16]"), "metrics.a.edges", "range"),
        (HEAD + _explicit("[0, 1, 5]") + "buckets = 2\n", "metrics.a.buckets", "conflict"),
        (MEAN + '[groups.g]\nmetrics = ["b"]\nmax_total = 5\n', "groups.g.metrics", "unknown-metric"),
        (MEAN + '[groups.g]\nmetrics = ["a", "a"]\nmax_total = 5\n', "groups.g.metrics", "type"),
        (MEAN + '[groups.g]\nmetrics = ["a"]\nmax_total = 0\n', "groups.g.max_total", "range"),
        (
            MEAN + '[groups.g]\nmetrics = ["a"]\nmax_total = 5\n[groups.h]\nmetrics = ["a"]\nmax_total = 5\n',
            "groups.h.metrics",
            "group-overlap",
        ),
        (
            HISTOGRAM + 'mechanism = "hadamard-bit"\n[groups.g]\nmetrics = ["a"]\nmax_total = 5\n',
            "groups.g.metrics",
            "group-kind",
        ),
        (MEAN + '[segments]\nos = ["other"]\n', "segments.os", "name"),
        (MEAN + '[segments]\nos = ["<script>"]\n', "segments.os", "name"),
        (MEAN + '[segments]\nos = ["a", "a"]\n', "segments.os", "type"),
        (MEAN + "[segments]\nos = []\n", "segments.os", "type"),
        (MEAN + '[segments]\n"o s" = ["a"]\n', "segments.o s", "name"),
        (MEAN + "[segments]\n" + "".join(f'{name} = ["x"]\n' for name in "abcde"), "segments", "size"),
        (HEAD + 'expires = "2027-01-01"\n' + MEAN.removeprefix(HEAD), "plan.expires", "type"),
    ],
)
def test_each_problem_is_named_with_its_place(text: str, where: str, rule: str) -> None:
    assert (where, rule) in problems(text)


def test_all_problems_are_found_in_one_reading() -> None:
    text = MEAN.replace("version = 1", "version = 0").replace("1.0", "0") + "step = 25\nflp = 1\n"
    assert problems(text) == {
        ("plan.version", "range"),
        ("metrics.a.epsilon", "range"),
        ("metrics.a.step", "parameter"),
        ("metrics.a.flp", "unknown-key"),
    }
    with pytest.raises(PlanError) as caught:
        Plan.from_toml(text)
    assert len(caught.value.problems) == 4
    assert "did you mean flip?" in str(caught.value)


def test_a_file_that_cannot_be_read_is_a_plan_error(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read: No such file"):
        Plan.load(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match="not UTF-8"):
        Plan.load(tmp_path / "bytes.toml")


def test_the_problems_of_a_file_name_it(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(MEAN + "flp = 1\n")
    with pytest.raises(PlanError, match=r"plan\.toml: metrics\.a\.flp: is not a key"):
        Plan.load(tmp_path / "plan.toml")


def test_edges_upside_down_are_one_problem() -> None:
    """The other keys of the metric are known all the same."""
    with pytest.raises(PlanError) as caught:
        Plan.from_toml(HEAD + _explicit("[60, 5, 0]") + "bits = 2\n")
    [problem] = caught.value.problems
    assert problem.message == "expected at least three numbers that start at 0 and increase, got 60, 5, 0."


@given(st.text(max_size=200) | st.text(max_size=80).map(lambda text: MEAN + text))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_plan_or_a_list_of_problems(text: str) -> None:
    assert problems(text) or Plan.from_toml(text)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(max_size=5).map(lambda text: "".join(char for char in text if char.isalnum())),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@given(key=st.sampled_from(["epsilon", "max_value", "step", "grid", "flip", "unit", "kind"]), value=VALUES)
@settings(max_examples=400, deadline=None)
def test_any_value_at_any_key_is_answered_by_a_plan_or_problems(key: str, value: object) -> None:
    text = MEAN.replace(f"{key} = ", f"other_{key} = ") + f"{key} = {_toml(value)}\n"
    assert problems(text) or Plan.from_toml(text)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return "0" if value is None else repr(value)


def test_the_least_number_of_reports_is_said_at_the_top_and_changes_nothing_for_devices() -> None:
    """100 unless the plan says otherwise; no digest holds it, and a diff and the linter name it."""
    text = HEAD + '[metrics.m]\nkind = "mean"\nmax_value = 1\nepsilon = 1.0\n'
    usual, lifted = Plan.from_toml(text), Plan.from_toml("min_reports = 1\n" + text)
    assert (usual.min_reports, lifted.min_reports) == (100, 1)
    assert usual != lifted
    assert usual.fingerprint == lifted.fingerprint
    assert [metric.digest for metric in usual.metrics] == [metric.digest for metric in lifted.metrics]
    (change,) = diff(usual, lifted).changes
    assert (change.where, change.new_answers, change.loss) == ("min_reports", (), 0.0)
    assert "100 → 1" in change.message
    assert "single-reports" in {problem.rule for problem in lint(lifted)}
    assert "single-reports" not in {problem.rule for problem in lint(usual)}
    for wrong in ("0", "-1", "1.5", "true", '"100"'):
        with pytest.raises(PlanError, match="min_reports"):
            Plan.from_toml(f"min_reports = {wrong}\n{text}")
    with pytest.raises(PlanError, match="above"):
        Plan.from_toml(text.replace("[plan]", "[plan]\nmin_reports = 5"))


@pytest.mark.parametrize("part", ["a", '"b c"', "'\u2028'"])
@pytest.mark.parametrize("dot", [".", " . ", "\t."])
def test_a_key_of_many_parts_is_refused_before_it_is_read(part: str, dot: str) -> None:
    """Reading one takes time in the square of their number."""
    with pytest.raises(PlanError, match="fewer than 32 parts"):
        Plan.from_toml(dot.join([part] * 40) + " = 1\n")
    with pytest.raises(PlanError, match="is not a key of a plan"):
        Plan.from_toml(dot.join([part] * 30) + " = 1\n")
