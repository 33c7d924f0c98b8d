"""Three encodings of a report: each reads back what it wrote, and refuses everything else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.errors import ReportError
from reticent.mechanisms import Buckets, DBitFlip, OneBitMean
from reticent.plan import Metric, Plan, Segment
from reticent.reports import (
    Report,
    from_json,
    from_ndjson,
    from_packed,
    pack_bits,
    packed_header,
    to_json,
    to_ndjson,
    to_packed,
)

PLAN = Plan(
    "app",
    2,
    60,
    60,
    (Metric("a", OneBitMean(1, 60)), Metric("b", DBitFlip(1, Buckets.even(60, 32), 9))),
    segments=(Segment("os", ("linux", "macos")), Segment("channel", ("beta",))),
)
REPORT = Report("app", 2, 81652, bytes(range(16)), b"\x80\x40", 17, {"os": "linux", "channel": "other"})
WIRE = (
    b'{"plan":"app","version":2,"round":81652,"id":"AAECAwQFBgcICQoLDA0ODw","cohort":17,'
    b'"bits":"gEA","segment":{"os":"linux","channel":"other"}}'
)

REPORTS = st.builds(
    Report,
    plan=st.just("app"),
    version=st.just(2),
    round=st.integers(0, 2**53 - 1),
    id=st.binary(min_size=16, max_size=16),
    bits=st.binary(min_size=2, max_size=2),
    cohort=st.integers(0, 255),
    segment=st.fixed_dictionaries(
        {
            "os": st.sampled_from(["linux", "macos", "other"]),
            "channel": st.sampled_from(["beta", "other"]),
        }
    ),
)


def test_json_is_written_in_one_way() -> None:
    assert to_json(REPORT) == WIRE
    assert from_json(WIRE) == REPORT


def test_what_a_plan_does_not_need_is_left_out() -> None:
    bare = Report("app", 2, 1, bytes(16), b"\x80")
    assert b"cohort" not in to_json(bare)
    assert b"segment" not in to_json(bare)
    assert from_json(to_json(bare)) == bare


@given(st.lists(REPORTS, max_size=5))
def test_every_encoding_reads_back(reports: list[Report]) -> None:
    assert [from_json(to_json(report)) for report in reports] == reports
    assert list(from_ndjson(to_ndjson(reports))) == reports
    assert from_packed(to_packed(reports, PLAN), PLAN) == reports


def test_packed_bytes_are_as_documented() -> None:
    packed = to_packed([REPORT], PLAN)
    header = b"reticent\x01" + b"\x03app" + b"\x00\x00\x00\x02" + b"\x00\x1d"
    record = (81652).to_bytes(8, "big") + bytes(range(16)) + b"\x11" + b"\x00\x01" + b"\x80\x40"
    assert packed == header + record
    assert (packed_header(packed).reports, packed_header(packed).width) == (1, 29)


def _edit(**changes: object) -> bytes:
    fields = json.loads(WIRE)
    fields.update(changes)
    return json.dumps({key: value for key, value in fields.items() if value != "absent"}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"\xef\xbb\xbf" + WIRE,
        WIRE.decode().encode("utf-16"),
        WIRE.replace(b"linux", b"\\ud800"),
        WIRE.replace(b"linux", b"\xed\xa0\x80"),
        b"[" * 8000,
        WIRE + b" " * 9000,
        WIRE.replace(b'"version":2', b'"version":2,"version":2'),
        WIRE.replace(b"81652", b"NaN"),
        WIRE.replace(b"81652", b"1" * 5000),
        _edit(extra=1),
        _edit(id="absent"),
        _edit(bits="absent"),
        _edit(plan=""),
        _edit(plan="x" * 65),
        _edit(plan=3),
        _edit(version=-1),
        _edit(version=True),
        _edit(version=1.0),
        _edit(round=2**53),
        _edit(round="81652"),
        _edit(cohort=256),
        _edit(cohort=None),
        _edit(id="AAECAwQFBgcICQoLDA0ODw=="),
        _edit(id="AAECAwQFBgcICQoLDA0ODx"),
        _edit(id="AAECAwQFBgcICQoLDA0O"),
        _edit(id="AAEC AwQFBgcICQoLDA0ODw"),
        _edit(bits=""),
        _edit(bits="gE+"),
        _edit(bits=7),
        _edit(segment=[]),
        _edit(segment={"os": 1}),
    ],
)
def test_json_that_is_not_exactly_a_report_is_refused(data: bytes) -> None:
    with pytest.raises(ReportError) as caught:
        from_json(data)
    assert caught.value.code == "malformed"


def test_a_bad_line_does_not_hide_the_good_ones() -> None:
    first, second, third = from_ndjson(WIRE + b"\n{}\n\n" + WIRE)
    assert first == third == REPORT
    assert isinstance(second, ReportError)


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda data: data[:-1], "malformed"),
        (lambda data: data + b"\x00", "malformed"),
        (lambda data: b"reticent\x02" + data[9:], "malformed"),
        (lambda data: data[:11], "malformed"),
        (lambda data: b"", "malformed"),
        (lambda data: data[:9] + b"\x00" + data[10:], "malformed"),
        (lambda data: data[:10] + b"b" + data[11:], "version_mismatch"),
        (lambda data: data[:16] + b"\x03" + data[17:], "version_mismatch"),
        (lambda data: data[:17] + b"\x00\x00" + data[19:], "malformed"),
        (lambda data: data[:17] + b"\x00\x1e" + data[19:] + b"\x00", "malformed"),
        (lambda data: data[:19] + b"\xff" + data[20:], "malformed"),
        (lambda data: data[:19] + (2**53).to_bytes(8) + data[27:], "malformed"),
        (lambda data: data[:-4] + b"\x03" + data[-3:], "malformed"),
    ],
)
def test_a_packed_batch_that_is_none_is_refused(edit: Callable[[bytes], bytes], code: str) -> None:
    with pytest.raises(ReportError) as caught:
        from_packed(edit(to_packed([REPORT], PLAN)), PLAN)
    assert caught.value.code == code


def test_a_packed_batch_holds_one_version() -> None:
    with pytest.raises(ReportError, match="version 2 only"):
        to_packed([Report("app", 1, 1, bytes(16), b"\x00\x00", 1)], PLAN)


@given(
    st.binary(max_size=300) | st.binary(max_size=60).map(lambda tail: to_packed([REPORT], PLAN)[:20] + tail)
)
@settings(max_examples=500)
def test_any_bytes_are_reports_or_a_report_error(data: bytes) -> None:
    for read in (from_json, lambda data: from_packed(data, PLAN)):
        with contextlib.suppress(ReportError):
            read(data)
    assert all(isinstance(item, Report | ReportError) for item in from_ndjson(data))


@given(st.lists(st.integers(0, 1), min_size=1, max_size=70))
def test_bits_are_packed_most_significant_first(bits: list[int]) -> None:
    report = Report("p", 1, 0, bytes(16), pack_bits(bits))
    assert [report.bit(place) for place in range(len(bits))] == bits
    assert len(report.bits) == -(-len(bits) // 8)
    assert all(report.bit(place) == 0 for place in range(len(bits), len(report.bits) * 8))
