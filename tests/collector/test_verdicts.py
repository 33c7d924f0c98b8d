"""Which reports count: shape and time decide, never what the bits say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.collector import Wire
from reticent.mechanisms import Buckets, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan, Segment
from reticent.reports import Report, Verdict, to_json

HADAMARD = Metric("h", HadamardBit(1, Buckets.even(60, 8)))
PLAN = Plan(
    "app", 2, 100, 30, (Metric("a", OneBitMean(1, 60)), HADAMARD), segments=(Segment("os", ("linux",)),)
)
GOOD = Report("app", 2, 50, bytes(16), b"\xc0", 17, {"os": "linux"})
WIRE = Wire([PLAN], skew=10)
OPEN = 5000.0


def verdict_on(report: Report, now: float = OPEN, wire: Wire = WIRE) -> Verdict:
    answer = wire.one(to_json(report), now)
    return answer if isinstance(answer, Verdict) else Verdict.ACCEPTED


@pytest.mark.parametrize(
    ("now", "verdict"),
    [
        (4989.9, Verdict.EARLY),
        (4990, Verdict.ACCEPTED),
        (5000, Verdict.ACCEPTED),
        (5129.9, Verdict.ACCEPTED),
        (5130, Verdict.LATE),
        (9e9, Verdict.LATE),
    ],
)
def test_a_round_is_open_from_start_less_skew_to_end_plus_grace(now: float, verdict: Verdict) -> None:
    assert verdict_on(GOOD, now) is verdict


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, Verdict.ACCEPTED),
        ({"plan": "other"}, Verdict.UNKNOWN_PLAN),
        ({"version": 1}, Verdict.VERSION_MISMATCH),
        ({"version": 3}, Verdict.VERSION_MISMATCH),
        ({"bits": b""}, Verdict.MALFORMED),
        ({"bits": b"\xc0\x00"}, Verdict.MALFORMED),
        ({"bits": b"\xe0"}, Verdict.MALFORMED),
        ({"bits": b"\xc1"}, Verdict.MALFORMED),
        ({"id": bytes(15)}, Verdict.MALFORMED),
        ({"cohort": None}, Verdict.MALFORMED),
        ({"cohort": 256}, Verdict.MALFORMED),
        ({"cohort": -1}, Verdict.MALFORMED),
        ({"segment": {"shoe": "42"}}, Verdict.MALFORMED),
        ({"segment": {}}, Verdict.ACCEPTED),
        ({"segment": {"os": "beos"}}, Verdict.ACCEPTED),
        ({"round": 51}, Verdict.EARLY),
        ({"round": 2**52}, Verdict.EARLY),
        ({"round": 2**60}, Verdict.MALFORMED),
        ({"round": 0}, Verdict.LATE),
    ],
)
def test_shape_decides(change: dict[str, object], verdict: Verdict) -> None:
    assert verdict_on(replace(GOOD, **change)) is verdict  # type: ignore[arg-type]


def test_a_plan_without_histograms_takes_no_cohort() -> None:
    plan = Plan("app", 1, 100, 30, PLAN.metrics[:1])
    report = Report("app", 1, 50, bytes(16), b"\x80")
    assert verdict_on(report, wire=Wire([plan])) is Verdict.ACCEPTED
    assert verdict_on(replace(report, cohort=3), wire=Wire([plan])) is Verdict.MALFORMED


def test_several_versions_are_open_at_once() -> None:
    both = Wire([PLAN, replace(PLAN, version=3)])
    assert {verdict_on(replace(GOOD, version=version), wire=both) for version in (2, 3)} == {Verdict.ACCEPTED}


@given(bits=st.integers(0, 3), cohort=st.integers(0, 255), name=st.binary(min_size=16, max_size=16))
def test_what_the_bits_say_does_not_matter(bits: int, cohort: int, name: bytes) -> None:
    report = replace(GOOD, bits=bytes([bits << 6]), cohort=cohort, id=name)
    assert verdict_on(report) is Verdict.ACCEPTED
