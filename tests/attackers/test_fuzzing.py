"""
Inputs made of right ones by damage: every reader answers with a value or an error of ours, never another.

What is read twice, by `reticent.reports` and by the collector's faster reading, is judged alike. A soak run does
the same a million times: pytest -m soak tests/attackers/test_fuzzing.py
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.shared.intake import Intake
from tests.shared.plans import BARE

from reticent.errors import PlanError, ReportError, ReticentError
from reticent.plan import Plan
from reticent.reports import (
    Report,
    Verdict,
    from_json,
    from_ndjson,
    from_packed,
    packed_header,
    to_json,
    to_ndjson,
    to_packed,
)
from reticent_collector.http import Batch, Wire
from reticent_collector.plans import lint

NOW = 1_800_000_000.0

TOKENS = [
    b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b":", b",", b"\n", b"\r", b"\t", b" ", b"\0", b"\xff",
    b"\xc3", b"\\u0000", b"\\ud800", b"\\ud83d\\ude00", b"\\/", b"null", b"true", b"-1", b"1e5", b"0.5",
    b"00", b"NaN", b"9" * 30, b"9007199254740992", b"4294967296", b"1e999999999", b"Infinity", b"-0",
    b'"plan"', b'"cohort":1,', b'"segment":{}', b'"os"', b"other", b"app-usage", b"bare", b"=", b"==",
    b"+", b"/", b"-", b"_", b"\xef\xbb\xbf", b"[[", b"]]", b"[plan]", b"[metrics.x]", b"epsilon", b"= 0",
    b"= 1.0", b'"""', b"'''", b"#", b"1/3", b'"1/0"', b"0x", b"inf", b"nan", b"1979-05-27",
    b"1979-05-27T07:32:00Z", b"6h", b"histogram", b"hadamard-bit", b"mean", b"d-bit-flip", b"buckets",
    b"bits", b"step", b"grid", b"edges", b"1_0", b"reticent\x01", b"reticent\x02", b"\x00\x1c",
]  # fmt: skip


def damaged(draw: random.Random, sample: bytes) -> bytes:
    """A right input with one to four wounds."""
    data = bytearray(sample)
    for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 4))):
        place = draw.randrange(len(data) + 1)
        other = draw.randrange(len(data) + 1)
        low, high = min(place, other), min(max(place, other), min(place, other) + 40)
        match draw.randrange(9):
            case 0 if place < len(data):
                data[place] ^= 1 << draw.randrange(8)
            case 1 if place < len(data):
                data[place] = draw.randrange(256)
            case 2:
                data[place:place] = draw.choice(TOKENS)
            case 3:
                data[low:high] = draw.choice(TOKENS)
            case 4:
                del data[low:high]
            case 5:
                data[place:place] = data[low:high]
            case 6:
                data[place:place] = draw.randbytes(draw.randrange(1, 5))
            case 7:
                del data[place:]
            case 8:
                data[place:place] = draw.choice(TOKENS) * draw.randrange(2, 30)
    return bytes(data)


class Readers:
    """The four readers, each with right inputs to start from and what must be true of whatever comes out."""

    def __init__(self, tools: Any) -> None:
        self.plans = [
            Plan.from_toml(tools.usage()),
            Plan.from_toml(tools.usage(2)),
            Plan.from_toml(BARE),
        ]
        self.wire, self.intake = Wire(self.plans), Intake(self.plans)
        reports = {
            plan: [tools.make_reports(plan, plan.round_at(NOW) + shift, 1)[0] for shift in (0, 0, 0, 1, -5)]
            for plan in self.plans
        }
        everything = [report for plan in self.plans for report in reports[plan]]
        self.samples = {
            "json": [to_json(report) for report in everything],
            "ndjson": [to_ndjson(everything[place : place + 3]) for place in range(len(everything) - 2)],
            "packed": [to_packed(reports[plan], plan) for plan in self.plans],
            "plan": [tools.usage().encode(), BARE.encode()],
        }
        self.check: dict[str, Callable[[bytes], object]] = {
            "json": self.json, "ndjson": self.ndjson, "packed": self.packed, "plan": self.plan,
        }  # fmt: skip

    def json(self, data: bytes) -> object:
        expected = self.judged(_or_error(from_json, data))
        found = self.wire.one(data, NOW)
        assert _verdict(found) == expected
        return expected

    def ndjson(self, data: bytes) -> object:
        expected = [self.judged(each) for each in from_ndjson(data)]
        self.agrees(expected, self.wire.lines(data, NOW, 1000))
        return expected

    def packed(self, data: bytes) -> object:
        header = _or_error(packed_header, data)
        found = self.wire.packed(data, NOW, 1000)
        if isinstance(header, ReportError):
            assert found is Verdict.MALFORMED
            return header.code
        plan = next(
            (each for each in self.plans if (each.name, each.version) == (header.plan, header.version)), None
        )
        if plan is None:
            assert found in (Verdict.UNKNOWN_PLAN, Verdict.VERSION_MISMATCH)
            return found
        alone = data[: header.start]
        records = range(header.start, len(data), header.width)
        expected = []
        for place in records:
            one = _or_error(lambda each: from_packed(each, plan), alone + data[place : place + header.width])
            expected.append(self.judged(one if isinstance(one, ReportError) else one[0]))
        if isinstance(found, Verdict):
            assert found is Verdict.MALFORMED
            assert set(expected) <= {Verdict.MALFORMED}
        else:
            self.agrees(expected, found)
        return expected

    def plan(self, data: bytes) -> object:
        text = data.decode("utf-8", "replace")
        plan = _or_error(Plan.from_toml, text)
        if isinstance(plan, PlanError):
            assert plan.problems
            return "refused"
        assert isinstance(plan, Plan)
        assert Plan.from_toml(plan.text) == plan
        lint(plan)
        return "read"

    def judged(self, report: Any) -> Verdict:
        if isinstance(report, ReportError):
            return Verdict.MALFORMED
        assert isinstance(report, Report)
        if not _is_text(report.plan):  # refused by both: as no plan's name by one, as no text by the other
            return Verdict.MALFORMED
        return self.intake.verdict(report, NOW)

    def agrees(self, expected: list[Verdict], found: Batch | None) -> None:
        assert found is not None
        assert found.accepted == expected.count(Verdict.ACCEPTED)
        assert found.rejected == [
            (place, verdict) for place, verdict in enumerate(expected) if verdict is not Verdict.ACCEPTED
        ]

    def run(self, name: str, count: int, seed: str) -> set[str]:
        """So many damaged inputs; returns what became of them, to show that they reached different ends."""
        draw, seen = random.Random(seed), set()
        for _ in range(count):
            data = damaged(draw, draw.choice(self.samples[name]))
            try:
                seen.add(str(self.check[name](data)))
            except BaseException:
                print(f"{name}: {data!r}")  # noqa: T201
                raise
        return seen


def _or_error(read: Callable[[Any], Any], data: Any) -> Any:
    """What is read, or the error of ours; any other is a failure."""
    try:
        return read(data)
    except ReticentError as error:
        return error


def _is_text(name: str) -> bool:
    """Whether there are no lone surrogates in it."""
    return name.encode("utf-8", "replace").decode() == name


def _verdict(found: Any) -> Verdict:
    return found if isinstance(found, Verdict) else Verdict.ACCEPTED


@pytest.fixture(scope="module")
def readers(tools: Any) -> Readers:
    return Readers(tools)


ENDS = {
    "json": {"accepted", "malformed", "late", "early", "unknown_plan", "version_mismatch"},
    "packed": {"malformed", "unknown_plan", "version_mismatch"},
    "plan": {"read", "refused"},
}


@pytest.mark.parametrize(
    ("name", "count"), [("json", 8000), ("ndjson", 3000), ("packed", 5000), ("plan", 700)]
)
def test_damaged_inputs(readers: Readers, name: str, count: int) -> None:
    seen = readers.run(name, count, f"fast {name}")
    assert ENDS.get(name, set()) <= seen
    assert len(seen) >= 2


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("name", "count"), [("json", 500_000), ("ndjson", 150_000), ("packed", 300_000), ("plan", 50_000)]
)
def test_a_million_damaged_inputs(readers: Readers, name: str, count: int) -> None:
    assert ENDS.get(name, set()) <= readers.run(name, count, f"soak {name}")


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes(readers: Readers, data: bytes) -> None:
    for check in readers.check.values():
        check(data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["plan", "version", "round", "id", "bits", "cohort", "segment", "x"]), VALUES
    ),
    st.integers(0, 8),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_at_any_key(readers: Readers, change: dict[str, Any], sample: int) -> None:
    fields = {**json.loads(readers.samples["json"][sample]), **change}
    for escaped in (True, False):
        text = json.dumps(fields, ensure_ascii=escaped)
        data = text.encode("utf-8", "surrogatepass")
        readers.json(data)
        readers.ndjson(data + b"\n" + readers.samples["json"][0])


def test_the_fuzzer_would_notice(readers: Readers) -> None:
    """A reader that lets an error of another kind out, and one that is more lenient than the other."""
    clean = dict(readers.check)
    readers.check["json"] = json.loads
    with pytest.raises((json.JSONDecodeError, UnicodeDecodeError)):
        readers.run("json", 100, "other error")
    readers.check = clean
    strict, readers.intake = readers.intake, Intake(readers.plans[:1])
    with pytest.raises(AssertionError):
        readers.run("json", 1000, "other verdict")
    readers.intake = strict
