"""The quick way from bytes to records agrees with `reticent.reports`, on everything."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.shared.intake import Intake
from tests.shared.plans import BARE, SAMPLED

from reticent.errors import ReportError
from reticent.plan import Plan
from reticent.reports import Report, Verdict, from_json, from_packed, to_json, to_ndjson, to_packed
from reticent_collector.http import Batch, Wire
from reticent_collector.stores import Layout, RoundKey

NOW = 1_800_000_000.0
SKEW = 300
MANY = settings(max_examples=300, deadline=None)


@pytest.fixture(scope="module")
def plans(tools: Any) -> list[Plan]:
    return [Plan.from_toml(text) for text in (tools.usage(1), tools.usage(2), BARE, SAMPLED)]


@pytest.fixture(scope="module")
def wire(plans: list[Plan]) -> Wire:
    return Wire(plans, SKEW)


@pytest.fixture(scope="module")
def judge(plans: list[Plan]) -> Callable[[bytes], tuple[RoundKey, bytes] | Verdict]:
    """What `reticent.reports` says of a line of JSON, the slow way: the reference."""
    intake = Intake(plans, SKEW)
    layouts = {(plan.name, plan.version): Layout(plan) for plan in plans}

    def judged(line: bytes) -> tuple[RoundKey, bytes] | Verdict:
        try:
            report = from_json(line)
        except ReportError:
            return Verdict.MALFORMED
        verdict = intake.verdict(report, NOW)
        if verdict is not Verdict.ACCEPTED:
            return verdict
        key = RoundKey(report.plan, report.version, report.round)
        return key, layouts[report.plan, report.version].pack(report)

    return judged


def batch_of(judged: list[tuple[RoundKey, bytes] | Verdict]) -> tuple[dict[RoundKey, bytes], int, Any]:
    records: dict[RoundKey, bytes] = {}
    for each in judged:
        if not isinstance(each, Verdict):
            records[each[0]] = records.get(each[0], b"") + each[1]
    rejected = [(place, each) for place, each in enumerate(judged) if isinstance(each, Verdict)]
    return records, len(judged) - len(rejected), rejected


def as_tuple(batch: Batch | None) -> tuple[dict[RoundKey, bytes], int, Any]:
    assert batch is not None
    joined = {key: b"".join(parts) for key, parts in batch.records.items()}
    return joined, batch.accepted, batch.rejected


# Reports, and small changes to them

BASE64 = string.ascii_letters + string.digits + "-_"
texts = st.text(st.sampled_from(BASE64 + "=+/ \n\u00e9"), max_size=26)
numbers = st.one_of(
    st.integers(-2, 300),
    st.sampled_from([2**31 - 1, 2**31, 2**53 - 1, 2**53, 2**64, -(2**63), 10**400]),
    st.floats(allow_nan=True),
    st.booleans(),
    st.none(),
    st.just("1"),
)
right_round = int(NOW // 3600)
rounds = st.one_of(st.integers(right_round - 4, right_round + 4), numbers)
segments = st.one_of(
    st.dictionaries(
        st.sampled_from(["os", "channel", "oss", ""]),
        st.one_of(
            st.sampled_from(["linux", "beta", "other", "Linux", "", 'a"b', "\u00e9", "x" * 70]), st.none()
        ),
        max_size=3,
    ),
    st.none(),
    st.lists(st.text(max_size=2), max_size=2),
)
CHANGES = {
    "plan": st.one_of(st.sampled_from(["bare", "other", "", "x" * 64, "x" * 65]), st.none(), st.integers()),
    "version": numbers,
    "round": rounds,
    "id": st.one_of(texts, st.text(st.sampled_from(BASE64), min_size=22, max_size=22), st.none()),
    "bits": st.one_of(texts, st.text(st.sampled_from(BASE64), min_size=1, max_size=2)),
    "cohort": numbers,
    "asked": st.one_of(texts, st.sampled_from(["wA", "oA", "YA", "gA", "4A", "wAA", "wQ", "AA"]), st.none()),
    "segment": segments,
    "extra": st.integers(),
}


@st.composite
def documents(draw: Any, tools: Any, plans: list[Plan]) -> bytes:
    """A right report in JSON, with up to three things about it changed."""
    plan = draw(st.sampled_from(plans))
    report = tools.make_reports(plan, right_round - draw(st.integers(0, 1)), 1, draw(st.integers(0, 9)))[0]
    fields = json.loads(to_json(report))
    for name in draw(st.lists(st.sampled_from([*CHANGES, "drop", "none"]), max_size=3)):
        if name == "drop":
            fields.pop(draw(st.sampled_from(sorted(fields))), None)
        elif name != "none":
            fields[name] = draw(CHANGES[name])
    order = draw(st.sampled_from([list(fields), sorted(fields)]))
    pairs = [
        f"{json.dumps(name)}:{json.dumps(fields[name], ensure_ascii=draw(st.booleans()))}" for name in order
    ]
    if pairs and draw(st.integers(0, 5)) == 0:
        pairs.append(draw(st.sampled_from(pairs)))
    text = draw(st.sampled_from(["", " "])).join(["{", draw(st.sampled_from([",", " , "])).join(pairs), "}"])
    return (text + draw(st.sampled_from(["", " ", "\r", "x", "{}"]))).encode()


@MANY
@given(st.data())
def test_a_report_gets_the_verdict_and_record_of_the_reference(
    tools: Any, plans: list[Plan], wire: Wire, judge: Any, data: st.DataObject
) -> None:
    body = data.draw(documents(tools, plans))
    assert wire.one(body, NOW) == judge(body)


@MANY
@given(place=st.integers(0, 200), byte=st.integers(0, 127), seed=st.integers(0, 50))
def test_one_byte_changed_gets_the_verdict_of_the_reference(
    tools: Any, plans: list[Plan], wire: Wire, judge: Any, place: int, byte: int, seed: int
) -> None:
    body = bytearray(to_json(tools.make_reports(plans[seed % 4], right_round, 1, seed)[0]))
    body[place % len(body)] = byte
    assert wire.one(bytes(body), NOW) == judge(bytes(body))


def test_every_letter_at_the_end_of_id_and_bits(
    tools: Any, plans: list[Plan], wire: Wire, judge: Any
) -> None:
    taken = 0
    for plan in plans:
        fields = json.loads(to_json(tools.make_reports(plan, right_round, 1)[0]))
        for name in {"id", "bits"} | ({"asked"} & fields.keys()):
            for letter in BASE64 + "=+/ ":
                body = json.dumps({**fields, name: fields[name][:-1] + letter}).encode()
                assert wire.one(body, NOW) == judge(body)
                taken += not isinstance(judge(body), Verdict)
    # 16 bytes end in 2 bits and 4 spare ones: 4 letters. One byte of at most 6 answers ends in padding: 1.
    assert taken == 4 * (4 + 1) + 1


MALFORMED = [
    b"", b" ", b"{", b"{}", b"[]", b"null", b"nul", b'"x"', b"1", b"[" * 4000, b'{"plan":' * 800,
    b"\xff", b'{"plan":"\xff"}', b"\x00", b'{"plan":1}', b"{'plan':'app-usage'}",
]  # fmt: skip


@pytest.mark.parametrize("body", MALFORMED)
def test_what_is_no_report_is_malformed(wire: Wire, judge: Any, body: bytes) -> None:
    assert wire.one(body, NOW) is judge(body) is Verdict.MALFORMED


def test_text_that_is_not_utf_8_is_malformed(tools: Any, plans: list[Plan], wire: Wire) -> None:
    body = to_json(tools.make_reports(plans[0], right_round, 1)[0])
    for wrong in (b"\xff", b"\xed\xa0\x80"):
        assert wire.one(body.replace(b"app-usage", b"app-" + wrong), NOW) is Verdict.MALFORMED
        assert wire.one(body.replace(b'"channel":"', b'"channel":"' + wrong), NOW) is Verdict.MALFORMED


def test_null_is_not_the_same_as_nothing(tools: Any, plans: list[Plan], wire: Wire, judge: Any) -> None:
    fields = json.loads(to_json(tools.make_reports(plans[2], right_round, 1)[0]))
    for name in ("cohort", "asked", "segment"):
        assert wire.one(json.dumps(fields).encode(), NOW) == judge(json.dumps(fields).encode())
        body = json.dumps({**fields, name: None}).encode()
        assert wire.one(body, NOW) is judge(body) is Verdict.MALFORMED


def test_a_key_that_comes_twice_is_malformed(tools: Any, plans: list[Plan], wire: Wire, judge: Any) -> None:
    body = to_json(tools.make_reports(plans[0], right_round, 1)[0])
    for name in json.loads(body):
        again = json.dumps({name: json.loads(body)[name]})[1:].encode()
        assert wire.one(body[:-1] + b"," + again, NOW) is judge(body[:-1] + b"," + again) is Verdict.MALFORMED
    twice = body.replace(b'"segment":{', b'"segment":{"os":"linux",')
    assert wire.one(twice, NOW) is judge(twice) is Verdict.MALFORMED


def test_escapes_are_read_as_any_json(tools: Any, plans: list[Plan], wire: Wire, judge: Any) -> None:
    body = to_json(tools.make_reports(plans[0], right_round, 1)[0])
    for change in (
        (b'"plan"', b'"pl\\u0061n"'),
        (b"app-usage", b"app\\u002dusage"),
        (b'"os":"', b'"os":"\\"'),
    ):
        changed = body.replace(*change)
        assert changed != body
        assert not isinstance(wire.one(changed, NOW), Verdict)
        assert wire.one(changed, NOW) == judge(changed)


UNSERVED = [
    {}, {"plan": ""}, {"plan": "x" * 64}, {"plan": "x" * 65}, {"plan": "\u00e9" * 64},
    {"plan": "\u00e9" * 65},
    {"version": -1}, {"version": 0}, {"version": 2**31 - 1}, {"version": 2**31}, {"version": 1.0},
    {"version": True}, {"round": -1}, {"round": 2**53 - 1}, {"round": 2**53}, {"round": 1e3},
    {"id": ""}, {"id": "A" * 21}, {"id": "A" * 22}, {"id": "A" * 23}, {"id": "A" * 21 + "B"},
    {"id": "A" * 21 + "="},
    *({"bits": "A" * length} for length in range(10)), {"bits": "AB"}, {"bits": "AAB"}, {"bits": "AAAB"},
    {"bits": "A="}, {"bits": "++"}, {"bits": "//A"}, {"bits": "-_A"}, {"bits": "\u00e9A"},
    {"bits": "A" * 7000},
    {"cohort": -1}, {"cohort": 0}, {"cohort": 255}, {"cohort": 256}, {"cohort": None}, {"cohort": 1.0},
    {"segment": {}}, {"segment": {"any": "thing"}}, {"segment": {"": ""}}, {"segment": {"x": 1}},
    {"segment": None},
    {"segment": {"os": 'a"b\\'}}, {"extra": 1},
    {"asked": ""}, {"asked": "gA"}, {"asked": "gB"}, {"asked": "A" * 9}, {"asked": "A" * 4}, {"asked": None},
    {"asked": "g="}, {"asked": 1}, {"asked": "\u00e9A"},
]  # fmt: skip
"""Changes to a report, right and wrong ones."""


@pytest.mark.parametrize("change", UNSERVED, ids=str)
def test_a_report_that_nobody_asked_for_is_one_all_the_same(
    tools: Any, plans: list[Plan], wire: Wire, judge: Any, change: dict[str, Any]
) -> None:
    """The verdicts of the reference, for an unknown plan and for an unknown version of a known one."""
    fields = json.loads(to_json(tools.make_reports(plans[0], right_round, 1)[0]))
    for start in ({"plan": "nobody"}, {"version": 77}):
        body = json.dumps({**fields, **start, **change}).encode()
        assert wire.one(body, NOW) == judge(body)
        for name in fields:
            twice = body[:-1] + b"," + json.dumps({name: fields[name]})[1:].encode()
            assert wire.one(twice, NOW) is judge(twice) is Verdict.MALFORMED


def test_those_changes_reach_every_end(tools: Any, plans: list[Plan], judge: Any) -> None:
    fields = json.loads(to_json(tools.make_reports(plans[0], right_round, 1)[0]))
    ends = [judge(json.dumps({**fields, "plan": "nobody", **change}).encode()) for change in UNSERVED]
    assert ends.count(Verdict.UNKNOWN_PLAN) > 12
    assert ends.count(Verdict.MALFORMED) > 20
    assert set(ends) == {Verdict.UNKNOWN_PLAN, Verdict.MALFORMED}


def test_a_refused_line_is_read_once(
    tools: Any, plans: list[Plan], wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second, careful reading of every refused line kept everybody else waiting for seconds."""
    read: list[bytes] = []
    decode = Wire.decode
    monkeypatch.setattr(Wire, "decode", staticmethod(lambda line: read.append(line) or decode(line)))
    monkeypatch.setattr(json, "loads", pytest.fail)
    line = to_json(tools.make_reports(plans[0], right_round, 1)[0])
    for change, verdict in (
        ((b"app-usage", b"nobody"), Verdict.UNKNOWN_PLAN),
        ((b'"version":1', b'"version":9'), Verdict.VERSION_MISMATCH),
        ((b"app-usage", b'no\\"body'), Verdict.UNKNOWN_PLAN),
        ((b'"os":', b'"os":"linux","os":'), Verdict.MALFORMED),
    ):
        read.clear()
        assert wire.one(line.replace(*change), NOW) is verdict
        assert len(read) == 1


@pytest.mark.parametrize(
    ("at", "verdict"),
    [
        (-SKEW - 0.001, Verdict.EARLY),
        (-SKEW, Verdict.ACCEPTED),
        (7199.999, Verdict.ACCEPTED),
        (7200, Verdict.LATE),
    ],
)
def test_a_round_opens_and_closes_to_the_moment(
    tools: Any, plans: list[Plan], wire: Wire, at: float, verdict: Verdict
) -> None:
    report = tools.make_reports(plans[0], right_round, 1)[0]
    now = plans[0].round(right_round).start + at
    found = wire.one(to_json(report), now)
    assert (Verdict.ACCEPTED if not isinstance(found, Verdict) else found) is verdict
    assert Intake(plans, SKEW).verdict(report, now) is verdict
    packed = wire.packed(to_packed([report], plans[0]), now, 10)
    assert isinstance(packed, Batch)
    assert packed.accepted == (verdict is Verdict.ACCEPTED)


@given(bits=st.integers(0, 63), cohort=st.integers(0, 255), name=st.binary(min_size=16, max_size=16))
def test_what_the_bits_say_does_not_matter(wire: Wire, bits: int, cohort: int, name: bytes) -> None:
    report = Report("app-usage", 1, right_round, name, bytes([bits << 2]), cohort)
    assert not isinstance(wire.one(to_json(report), NOW), Verdict)


# Lines


@MANY
@given(st.data())
def test_lines_get_the_verdicts_of_the_reference(
    tools: Any, plans: list[Plan], wire: Wire, judge: Any, data: st.DataObject
) -> None:
    plan = data.draw(st.sampled_from(plans))
    lines = [
        to_json(each)
        for each in tools.make_reports(plan, right_round, data.draw(st.integers(0, 12)), "lines")
    ]
    for _ in range(data.draw(st.integers(0, 2))):
        lines.insert(data.draw(st.integers(0, len(lines))), data.draw(documents(tools, plans)))
    end = data.draw(st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"])).encode()
    body = end.join(lines) + data.draw(st.sampled_from([b"", b"\n"]))
    judged = [judge(line) for line in body.split(b"\n") if line.strip()]
    assert as_tuple(wire.lines(body, NOW, 1000)) == batch_of(judged)


@MANY
@given(place=st.integers(0, 2000), byte=st.integers(0, 127))
@example(place=0, byte=32)
@example(place=0, byte=10)
def test_one_byte_changed_among_lines(
    tools: Any, plans: list[Plan], wire: Wire, judge: Any, place: int, byte: int
) -> None:
    body = bytearray(to_ndjson(tools.make_reports(plans[3 * (place % 2)], right_round, 9, "byte")))
    body[place % len(body)] = byte
    judged = [judge(line) for line in bytes(body).split(b"\n") if line.strip()]
    assert as_tuple(wire.lines(bytes(body), NOW, 1000)) == batch_of(judged)


SAMPLED_LINES = {
    "three metrics": {"asked": "4A"},
    "one metric": {"asked": "gA"},
    "no metric": {"asked": "AA"},
    "a bit after the last metric": {"asked": "kA"},
    "two bytes": {"asked": "wAA"},
    "none": {"asked": None},
    "an answer about the first": {"asked": "YA", "bits": "gA"},
    "an answer about the second": {"asked": "oA", "bits": "QA"},
    "an answer about the last": {"asked": "wA", "bits": "BA"},
    "a bit after the last answer": {"asked": "wA", "bits": "Ag"},
}
"""Three metrics of 1, 4 and 1 bits, of which two are asked: what is wrong about a report on them."""


@pytest.mark.parametrize("change", SAMPLED_LINES.values(), ids=SAMPLED_LINES)
def test_answers_about_other_metrics_than_asked_are_malformed(
    tools: Any, plans: list[Plan], wire: Wire, judge: Any, change: dict[str, str]
) -> None:
    """Alone, among lines that take the quick way, and as a record of a packed batch."""
    plan = plans[3]
    reports = tools.make_reports(plan, right_round, 8, "asked")
    fields = {**json.loads(to_json(reports[0])), "asked": "wA", "bits": "gA"}
    right = json.dumps(fields, separators=(",", ":")).encode()
    assert wire.one(right, NOW) == judge(right)
    assert not isinstance(judge(right), Verdict)
    wrong = {name: value for name, value in {**fields, **change}.items() if value is not None}
    line = json.dumps(wrong, separators=(",", ":")).encode()
    assert wire.one(line, NOW) is judge(line) is Verdict.MALFORMED
    batch = wire.lines(b"\n".join([*map(to_json, reports), line]), NOW, 100)
    assert batch is not None
    assert (batch.accepted, batch.rejected) == (8, [(8, Verdict.MALFORMED)])
    if len(wrong.get("asked", "")) == 2:
        bad = from_json(line)
        packed = wire.packed(to_packed([*reports, bad], plan), NOW, 100)
        assert isinstance(packed, Batch)
        assert (packed.accepted, packed.rejected) == (8, [(8, Verdict.MALFORMED)])
        with pytest.raises(ReportError):
            from_packed(to_packed([bad], plan), plan)


# Single reports that were queued together


def each_as_alone(wire: Wire, judge: Any, bodies: list[bytes]) -> Batch:
    """They get the same verdicts and records as one by one, and `places` says whose record is where."""
    batch, judged = wire.singles(bodies, NOW), [judge(body) for body in bodies]
    records: dict[RoundKey, bytes] = {}
    for key, places in batch.places.items():
        assert all(judged[place][0] == key for place in places)
        records[key] = b"".join(judged[place][1] for place in places)
    assert records == {key: b"".join(parts) for key, parts in batch.records.items()}
    rejected = [(place, result) for place, result in enumerate(judged) if isinstance(result, Verdict)]
    assert sorted(batch.rejected) == rejected
    places = [place for of_round in batch.places.values() for place in of_round]
    assert sorted([*places, *(place for place, _ in rejected)]) == list(range(len(bodies)))
    assert batch.accepted == len(bodies) - len(rejected)
    return batch


@settings(MANY, max_examples=40)
@given(st.data())
def test_single_reports_of_a_group_are_read_as_each_alone(
    tools: Any, plans: list[Plan], wire: Wire, judge: Any, data: st.DataObject
) -> None:
    """Right ones of all plans and some rounds, among them any number of wrong ones, in any order."""
    bodies = [
        to_json(report)
        for plan in plans
        for number in (right_round, right_round - 1, right_round - 9, right_round + 1)
        for report in tools.make_reports(plan, number, data.draw(st.integers(0, 9)), 1)
    ]
    bodies += data.draw(st.lists(documents(tools, plans), max_size=5))
    each_as_alone(wire, judge, data.draw(st.permutations(bodies)))


@MANY
@given(place=st.integers(0, 2000), byte=st.integers(0, 127), plan=st.integers(0, 3))
def test_one_byte_changed_in_a_group_of_single_reports(
    tools: Any, plans: list[Plan], wire: Wire, judge: Any, place: int, byte: int, plan: int
) -> None:
    bodies = [to_json(report) for report in tools.make_reports(plans[plan], right_round, 12, "byte")]
    changed = bytearray(bodies[place % 12])
    changed[place // 12 % len(changed)] = byte
    bodies[place % 12] = bytes(changed)
    each_as_alone(wire, judge, bodies)


def test_every_bit_of_padding_and_large_rounds_among_many(
    tools: Any, plans: list[Plan], wire: Wire, judge: Any
) -> None:
    """Padding that is not 0, and numbers that no round has, are malformed; whole groups and lines of one kind."""
    for plan in plans:
        reports = tools.make_reports(plan, right_round, 10, "last")
        for byte in (0, 255, *(1 << place for place in range(8))):
            bodies = [to_json(replace(each, bits=each.bits[:-1] + bytes([byte]))) for each in reports]
            each_as_alone(wire, judge, bodies)
            lines = wire.lines(b"\n".join(bodies), NOW, 100)
            assert as_tuple(lines) == batch_of([judge(body) for body in bodies])
        for number in (2**53 - 1, 2**53, 10**16 - 1, 10**16):
            bodies = [body.replace(b"%d" % right_round, b"%d" % number) for body in map(to_json, reports)]
            each_as_alone(wire, judge, bodies)
            lines = wire.lines(b"\n".join(bodies), NOW, 100)
            assert as_tuple(lines) == batch_of([judge(body) for body in bodies])


def test_right_single_reports_take_the_quick_way_also_beside_odd_ones(
    tools: Any, plans: list[Plan], judge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire, slowly = Wire(plans, SKEW), []
    alone = wire.one
    monkeypatch.setattr(wire, "one", lambda body, now: slowly.append(body) or alone(body, now))
    bodies = [
        to_json(report)
        for plan in plans
        for number in (right_round, right_round - 1)
        for report in tools.make_reports(plan, number, 20)
    ]
    odd = [bodies[0].replace(b",", b", ", 1), b"{", bodies[30] + b"\n", b"\n" + bodies[31], b""]
    batch = each_as_alone(wire, judge, [*bodies[:50], *odd, *bodies[50:]])
    assert sorted(slowly) == sorted(odd)
    assert len(batch.records) == 2 * len(plans)


def test_right_lines_take_the_quick_way(tools: Any, plans: list[Plan], wire: Wire) -> None:
    """Otherwise the tests above would compare the slow way with itself."""
    for plan in plans:
        body = to_ndjson(tools.make_reports(plan, right_round, 20))
        mixed = body + to_ndjson(tools.make_reports(plan, right_round - 1, 20)) + body
        assert wire._at_once(body, NOW, Batch())
        assert wire._at_once(mixed, NOW, Batch())
        batch = Batch()
        assert not wire._at_once(body.replace(b',"id"', b', "id"', 1), NOW, batch)
        assert batch == Batch()


def test_lines_of_several_rounds_are_sorted_and_some_refused(
    tools: Any, plans: list[Plan], wire: Wire, judge: Any
) -> None:
    draw = random.Random("rounds")
    lines = [
        to_json(report)
        for number in (right_round, right_round - 1, right_round - 9, right_round + 1)
        for report in tools.make_reports(plans[0], number, 300, number)
    ]
    draw.shuffle(lines)
    assert as_tuple(wire.lines(b"\n".join(lines), NOW, 10_000)) == batch_of([judge(line) for line in lines])


def test_lines_of_several_blocks(tools: Any, plans: list[Plan], wire: Wire, judge: Any) -> None:
    """Odd, empty, refused and broken lines at any place of a long batch, and at the ends of its blocks."""
    draw = random.Random("blocks")
    lines = [to_json(report) for report in tools.make_reports(plans[0], right_round, 1500, "blocks")]
    odd = [
        lines[0].replace(b",", b", ", 1), b"", b" \r", b"{", lines[1] + b"\r", b" " * Wire.block_bytes,
        lines[2].replace(b"app-usage", b"nobody"), to_json(tools.make_reports(plans[1], right_round, 1)[0]),
        to_json(tools.make_reports(plans[0], right_round - 9, 1)[0]), b"x" * (Wire.block_bytes + 9),
    ]  # fmt: skip
    for end in (b"", b"\n", b"\n\n"):
        for each in odd:
            lines.insert(draw.randrange(len(lines) + 1), each)
        body = b"\n".join(lines) + end
        assert len(body) > 4 * Wire.block_bytes
        judged = [judge(line) for line in body.split(b"\n") if line.strip()]
        assert as_tuple(wire.lines(body, NOW, 10_000)) == batch_of(judged)


def test_an_odd_line_takes_the_quick_way_from_its_block_alone(
    tools: Any, plans: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    wire, asked = Wire(plans, SKEW), []
    alone = wire.one
    monkeypatch.setattr(wire, "one", lambda line, now: asked.append(line) or alone(line, now))
    body = to_ndjson(tools.make_reports(plans[0], right_round, 3000, "odd"))
    blocks = -(-len(body) // Wire.block_bytes)
    batch = wire.lines(body, NOW, 3000)
    assert batch is not None
    assert (batch.accepted, asked) == (3000, [])
    batch = wire.lines(body.replace(b',"id"', b', "id"', 1), NOW, 3000)
    assert batch is not None
    assert batch.accepted == 3000
    assert 0 < len(asked) < 2 * 3000 // blocks


def test_an_object_over_two_lines_and_two_on_one_are_no_lines(
    tools: Any, plans: list[Plan], wire: Wire
) -> None:
    one, two, three = (to_json(each) for each in tools.make_reports(plans[0], right_round, 3))
    batch = wire.lines(one.replace(b",", b",\n", 1) + b"\n" + two + three + b"\n", NOW, 100)
    assert batch is not None
    assert batch.accepted == 0
    assert batch.rejected == [(place, Verdict.MALFORMED) for place in range(3)]


def test_a_line_that_is_too_long_is_malformed(tools: Any, plans: list[Plan], wire: Wire) -> None:
    body = to_ndjson(tools.make_reports(plans[0], right_round, 9))
    long = body.replace(b'"os":"', b'"os":"' + b"x" * 9000, 1)
    batch = wire.lines(long, NOW, 100)
    assert batch is not None
    assert batch.rejected == [(0, Verdict.MALFORMED)]
    assert wire.one(long.split(b"\n")[0], NOW) is Verdict.MALFORMED


def test_more_lines_than_are_taken(tools: Any, plans: list[Plan], wire: Wire) -> None:
    body = to_ndjson(tools.make_reports(plans[0], right_round, 10))
    assert wire.lines(body, NOW, 10) is not None
    assert wire.lines(body, NOW, 9) is None
    assert wire.lines(b"\n" * 11, NOW, 10) is None


# Packed


@MANY
@given(st.data())
def test_packed_records_get_the_verdicts_of_the_reference(
    tools: Any, plans: list[Plan], wire: Wire, data: st.DataObject
) -> None:
    """Each record alone, by `from_packed` and `Intake`; all of them together, by `Wire`."""
    plan = data.draw(st.sampled_from(plans))
    reports = [
        report
        for number in range(right_round - 3, right_round + 4)
        for report in tools.make_reports(plan, number, data.draw(st.integers(0, 2)), "packed")
    ]
    random.Random(data.draw(st.integers(0, 5))).shuffle(reports)
    body = bytearray(to_packed(reports, plan))
    start = len(to_packed([], plan))
    for _ in range(data.draw(st.integers(0, 3)) if len(body) > start else 0):
        body[data.draw(st.integers(start, len(body) - 1))] = data.draw(st.integers(0, 255))
    header, records = bytes(body[:start]), bytes(body[start:])
    width = len(records) // max(len(reports), 1)
    layout, intake = Layout(plan), Intake(plans, SKEW)

    def judged(record: bytes) -> tuple[RoundKey, bytes] | Verdict:
        try:
            (report,) = from_packed(header + record, plan)
        except ReportError:
            return Verdict.MALFORMED
        verdict = intake.verdict(report, NOW)
        if verdict is not Verdict.ACCEPTED:
            return verdict
        return RoundKey(plan.name, plan.version, report.round), layout.pack(report)

    batch = wire.packed(header + records, NOW, 1000)
    assert isinstance(batch, Batch)
    expected = batch_of(
        [judged(records[place : place + width]) for place in range(0, len(records), width or 1)]
    )
    assert as_tuple(batch) == expected


@MANY
@given(body=st.binary(max_size=60), cut=st.integers(0, 80), seed=st.booleans())
def test_what_is_not_packed_is_malformed_and_nothing_else(
    tools: Any, plans: list[Plan], wire: Wire, body: bytes, cut: int, seed: bool
) -> None:
    whole = to_packed(tools.make_reports(plans[0], right_round, 2), plans[0])
    if seed:
        body = whole[:cut] + body
    found = wire.packed(body, NOW, 1000)
    try:
        from_packed(body, plans[0])
        right = True
    except ReportError:
        right = False
    if isinstance(found, Batch):
        assert right or found.rejected
    else:
        assert not right
        assert found in (Verdict.MALFORMED, Verdict.VERSION_MISMATCH, Verdict.UNKNOWN_PLAN)


def test_an_empty_packed_batch(plans: list[Plan], wire: Wire) -> None:
    batch = wire.packed(to_packed([], plans[0]), NOW, 10)
    assert isinstance(batch, Batch)
    assert (batch.accepted, batch.rejected, batch.records) == (0, [], {})


def test_packed_of_other_plans_versions_and_widths(tools: Any, plans: list[Plan], wire: Wire) -> None:
    report = tools.make_reports(plans[0], right_round, 1)[0]
    body = to_packed([report], plans[0])
    place = body.index(b"app-usage") + len("app-usage")
    other = body[:place] + (9).to_bytes(4, "big") + body[place + 4 :]
    assert wire.packed(other, NOW, 10) is Verdict.VERSION_MISMATCH
    assert wire.packed(body.replace(b"app-usage", b"app-usagf"), NOW, 10) is Verdict.UNKNOWN_PLAN
    wider = body[: place + 4] + (len(body) - place - 6 + 1).to_bytes(2, "big") + body[place + 6 :] + b"\0"
    assert wire.packed(wider, NOW, 10) is Verdict.MALFORMED
    assert wire.packed(body, NOW, 0) is None


def test_all_three_encodings_make_the_same_records(tools: Any, plans: list[Plan], wire: Wire) -> None:
    for plan in plans:
        reports: list[Report] = tools.make_reports(plan, right_round, 50)
        expected = b"".join(map(Layout(plan).pack, reports))
        key = RoundKey(plan.name, plan.version, right_round)
        assert as_tuple(wire.lines(to_ndjson(reports), NOW, 99)) == ({key: expected}, 50, [])
        packed = wire.packed(to_packed(reports, plan), NOW, 99)
        assert isinstance(packed, Batch)
        assert as_tuple(packed) == ({key: expected}, 50, [])
