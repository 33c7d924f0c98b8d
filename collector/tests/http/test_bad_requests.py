"""Requests that are refused: each with its status and code, never a 500, and nothing is kept of them."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from reticent.plan import Plan
from reticent.reports import Report, to_json, to_ndjson, to_packed
from reticent_collector.stores import RoundKey, open_store, reports_of

NDJSON, PACKED = "application/x-ndjson", "application/vnd.reticent.packed"


@dataclass(frozen=True)
class Request:
    """A request and what it is answered with."""

    status: int
    code: str
    body: Callable[[Plan, Report], bytes] = lambda plan, report: to_json(report)
    kind: str | None = "application/json"
    method: str = "POST"
    path: str = "/v1/reports"
    headers: dict[str, str] = field(default_factory=dict)


def changed(**fields: Any) -> Callable[[Plan, Report], bytes]:
    def body(plan: Plan, report: Report) -> bytes:
        whole = {**json.loads(to_json(report)), **fields}
        return json.dumps({name: value for name, value in whole.items() if value != "drop"}).encode()

    return body


def sampled(**fields: Any) -> Callable[[Plan, Report], bytes]:
    """A report on the sampled plan, about its first two metrics, made wrong."""
    right = {"plan": "sampled", "version": 1, "asked": "wA", "bits": "gA", "segment": {"os": "linux"}}
    return changed(**{**right, **fields})


def of_round(number: Callable[[int], int]) -> Callable[[Plan, Report], bytes]:
    return lambda plan, report: changed(round=number(report.round))(plan, report)


def just(body: bytes) -> Callable[[Plan, Report], bytes]:
    return lambda plan, report: body


def replaced(old: bytes, new: bytes) -> Callable[[Plan, Report], bytes]:
    def body(plan: Plan, report: Report) -> bytes:
        assert old in to_json(report)
        return to_json(report).replace(old, new, 1)

    return body


def packed(change: Callable[[bytes], bytes]) -> Callable[[Plan, Report], bytes]:
    return lambda plan, report: change(to_packed([report], plan))


MALFORMED = {
    "empty": just(b""),
    "cut off": lambda plan, report: to_json(report)[:-1],
    "not JSON": just(b"plan=app-usage"),
    "a list": lambda plan, report: b"[" + to_json(report) + b"]",
    "two objects": lambda plan, report: to_json(report) * 2,
    "a comma too many": lambda plan, report: to_json(report)[:-1] + b",}",
    "single quotes": lambda plan, report: to_json(report).replace(b'"', b"'"),
    "NaN": replaced(b'"version":1', b'"version":NaN'),
    "not UTF-8": replaced(b"linux", b"\xff\xfe"),
    "UTF-16": lambda plan, report: to_json(report).decode().encode("utf-16"),
    "byte order mark": lambda plan, report: b"\xef\xbb\xbf" + to_json(report),
    "deep": just(b'{"plan":' + b"[" * 3900),
    "deep in a tag": replaced(b'"linux"', b"[" * 2000 + b"]" * 2000),
    "long": replaced(b"linux", b"l" * 9000),
    "version as text": changed(version="1"),
    "version as fraction": changed(version=1.5),
    "version as truth": changed(version=True),
    "version negative": changed(version=-1),
    "round as text": changed(round="7"),
    "round negative": changed(round=-1),
    "round 2^53": changed(round=2**53),
    "round enormous": changed(round=10**300),
    "plan as number": changed(plan=5),
    "plan empty": changed(plan=""),
    "no plan": changed(plan="drop"),
    "no id": changed(id="drop"),
    "no bits": changed(bits="drop"),
    "unknown key": changed(device="drop it"),
    "key twice": replaced(b'"version":1', b'"version":1,"version":1'),
    "tag twice": replaced(b'"os":"linux"', b'"os":"linux","os":"linux"'),
    "id too short": changed(id="A" * 20),
    "id too long": changed(id="A" * 24),
    "id not base64url": changed(id="+" * 22),
    "id padded": changed(id="A" * 22 + "=="),
    "id with spare bits": changed(id="A" * 21 + "B"),
    "id empty": changed(id=""),
    "bits too many": changed(bits="AAA"),
    "bits too few": changed(bits=""),
    "bits in the padding": changed(bits="AQ"),
    "no cohort": changed(cohort="drop"),
    "cohort null": changed(cohort=None),
    "cohort 256": changed(cohort=256),
    "cohort negative": changed(cohort=-1),
    "cohort as fraction": changed(cohort=1.5),
    "segment unknown": changed(segment={"country": "de"}),
    "segment null": changed(segment=None),
    "segment as list": changed(segment=["linux"]),
    "tag as number": changed(segment={"os": 1}),
}
BAD: dict[str, Request] = {
    **{name: Request(400, "malformed", body) for name, body in MALFORMED.items()},
    "cohort where none belongs": Request(
        400, "malformed", changed(plan="bare", version=3, bits="gA", segment="drop")
    ),
    "asked where all are": Request(400, "malformed", changed(asked="4A")),
    "asked null": Request(400, "malformed", changed(asked=None)),
    **{
        f"sampled, {name}": Request(400, "malformed", sampled(**fields))
        for name, fields in {
            "nothing asked": {"asked": "drop"},
            "too few asked": {"asked": "gA"},
            "too many asked": {"asked": "4A"},
            "asked after the last": {"asked": "kA"},
            "asked as a number": {"asked": 192},
            "an answer that was not asked": {"asked": "YA"},
        }.items()
    },
    "unknown plan": Request(404, "unknown_plan", changed(plan="elsewhere")),
    "other version": Request(409, "version_mismatch", changed(version=7)),
    "early": Request(425, "early", of_round(lambda now: now + 2)),
    "far future": Request(425, "early", changed(round=2**53 - 1)),
    "late": Request(410, "late", of_round(lambda now: now - 3)),
    "round 0": Request(410, "late", changed(round=0)),
    "gzip": Request(
        415, "unsupported_media_type", lambda plan, report: gzip.compress(to_json(report)),
        headers={"Content-Encoding": "gzip"},
    ),
    "text/plain": Request(415, "unsupported_media_type", kind="text/plain"),
    "form": Request(415, "unsupported_media_type", kind="application/x-www-form-urlencoded"),
    "no content type": Request(415, "unsupported_media_type", kind=None),
    "empty content type": Request(415, "unsupported_media_type", kind=""),
    "NDJSON of too many": Request(
        413, "too_large", lambda plan, report: b"\n".join([b"{}"] * 1001), kind=NDJSON
    ),
    "NDJSON of empty lines": Request(413, "too_large", just(b"\n" * 5000), kind=NDJSON),
    "packed of too many": Request(
        413, "too_large", lambda plan, report: to_packed([report] * 1001, plan), kind=PACKED
    ),
    "packed cut off": Request(400, "malformed", packed(lambda body: body[:-1]), kind=PACKED),
    "packed header cut off": Request(400, "malformed", packed(lambda body: body[:12]), kind=PACKED),
    "packed empty": Request(400, "malformed", just(b""), kind=PACKED),
    "packed of format 2": Request(400, "malformed", packed(lambda body: b"reticent\2" + body[9:]), kind=PACKED),
    "packed of another plan": Request(
        404, "unknown_plan", packed(lambda body: body.replace(b"app-usage", b"app-usagf")), kind=PACKED
    ),
    "packed of another version": Request(
        409, "version_mismatch", packed(lambda body: body[:19] + b"\x09" + body[20:]), kind=PACKED
    ),
    "packed of another width": Request(
        400, "malformed", packed(lambda body: body[:21] + bytes([body[21] + 1]) + body[22:] + b"\0"),
        kind=PACKED,
    ),
    "packed under JSON": Request(400, "malformed", packed(lambda body: body)),
    "too large": Request(413, "too_large", just(b" " * 200_001)),
    **{
        f"{method} on reports": Request(405, "method_not_allowed", method=method, kind=None)
        for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS")
    },
    "POST on estimates": Request(405, "method_not_allowed", path="/v1/estimates"),
    "unknown path": Request(404, "not_found", path="/v2/reports"),
    "slash at the end": Request(404, "not_found", path="/v1/reports/"),
    "two slashes": Request(404, "not_found", path="//v1/reports"),
    "dots": Request(404, "not_found", path="/v1/x/../reports"),
    "dots in disguise": Request(404, "not_found", path="/v1/%2e/reports"),
    "slash in disguise": Request(404, "not_found", path="/v1%2freports/"),
    "capitals": Request(404, "not_found", path="/V1/REPORTS"),
    **{
        f"GET {query}": Request(400, "bad_request", method="GET", kind=None, path=f"/v1/estimates{query}")
        for query in (
            "", "?metric=minutes", "?plan=app-usage&plan=app-usage", "?plan=app-usage&nonsense=1",
            "?plan=app-usage&metric=nothing", "?plan=app-usage&metric=", "?plan=app-usage&confidence=nan",
            "?plan=app-usage&confidence=inf", "?plan=app-usage&confidence=0", "?plan=app-usage&confidence=1",
            "?plan=app-usage&confidence=-0.5", "?plan=app-usage&confidence=x", "?plan=app-usage&confidence=",
            "?plan=app-usage&confidence=0_9", "?plan=app-usage&round=x", "?plan=app-usage&round=-1",
            "?plan=app-usage&round=9-5", "?plan=app-usage&round=1-999999", "?plan=app-usage&round=1-",
            "?plan=app-usage&round=0-9999&round=1", "?plan=app-usage&last=0", "?plan=app-usage&last=99999",
            "?plan=app-usage&last=1.5", "?plan=app-usage&segment=os", "?plan=app-usage&segment=os:amiga",
            "?plan=app-usage&segment=os:linux&segment=os:windows",
            "?plan=app-usage&segment=country:de", "?plan=app-usage&by=country", "?plan=app-usage&format=xml",
        )
    },
    "GET estimates of an unknown plan": Request(
        404, "unknown_plan", method="GET", kind=None, path="/v1/estimates?plan=elsewhere"
    ),
    "GET an unknown plan": Request(404, "unknown_plan", method="GET", kind=None, path="/v1/plans/elsewhere"),
    "GET rounds of an unknown plan": Request(
        404, "unknown_plan", method="GET", kind=None, path="/v1/rounds?plan=elsewhere"
    ),
    "GET rounds with nonsense": Request(400, "bad_request", method="GET", kind=None, path="/v1/rounds?x=1"),
}  # fmt: skip


@pytest.fixture(scope="module")
def report(tools: Any, collector: Any) -> Report:
    """A right report, which the tests then make wrong."""
    plan = collector.plans[0]
    made = tools.make_reports(plan, collector.now(plan), 1)[0]
    return Report(
        *(made.plan, made.version, made.round, made.id, b"\xa0", 9, {"os": "linux", "channel": "beta"})
    )


@pytest.fixture(scope="module")
def before(collector: Any) -> Any:
    """What the collector holds before the bad requests; the other tests come later, and send good ones."""
    return kept(collector)


def kept(collector: Any) -> tuple[int, list[Any]]:
    """What the collector holds: reports of open rounds by its own account, and rounds with their reports."""
    metrics = collector.get("/metrics").body.decode()
    (open_reports,) = [
        line.split()[1] for line in metrics.splitlines() if line.startswith("reticent_open_reports ")
    ]
    return int(float(open_reports)), collector.get("/v1/rounds").json["rounds"]


def is_problem(answer: Any, status: int, code: str) -> None:
    assert (answer.status, answer.json["code"]) == (status, code), answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json.keys() == {"type", "title", "status", "code", "detail"}
    assert answer.json["status"] == status
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_refused_and_leaves_nothing(
    collector: Any, report: Report, before: Any, name: str
) -> None:
    request = BAD[name]
    body = request.body(collector.plans[0], report) if request.method == "POST" else None
    kind = {} if request.kind is None else {"Content-Type": request.kind}
    answer = collector.call(request.method, request.path, body, {**kind, **request.headers})
    is_problem(answer, request.status, request.code)
    if request.status == 405:
        assert answer.headers["allow"] in ("POST", "GET, HEAD", "HEAD, GET")
    assert kept(collector) == before


def test_a_query_does_not_change_where_reports_go(collector: Any, tools: Any) -> None:
    plan = collector.plans[0]
    body = to_json(tools.make_reports(plan, collector.now(plan), 1, "query")[0])
    answer = collector.call("POST", "/v1/reports?x=1", body, {"Content-Type": "application/json"})
    assert (answer.status, answer.json) == (202, {"accepted": 1})


def test_a_batch_says_which_reports_are_refused(collector: Any, tools: Any) -> None:
    plan = collector.plans[0]
    now = collector.now(plan)
    right, late = tools.make_reports(plan, now, 2, "batch"), tools.make_reports(plan, now - 5, 1, "batch")
    lines = b"\n".join([to_json(right[0]), b"{}", to_json(late[0]), b"", to_json(right[1])])
    answer = collector.post(lines, NDJSON)
    assert answer.status == 202
    assert answer.json == {
        "accepted": 2,
        "rejected": [{"index": 1, "code": "malformed"}, {"index": 2, "code": "late"}],
    }
    early = tools.make_reports(plan, now + 5, 1, "batch")
    body = bytearray(to_packed([*right, *early, *right], plan))
    width = (len(body) - len(to_packed([], plan))) // 5
    body[-width - 1] |= 1  # a bit in the padding of the fourth
    answer = collector.post(bytes(body), PACKED)
    assert answer.json == {
        "accepted": 3,
        "rejected": [{"index": 2, "code": "early"}, {"index": 3, "code": "malformed"}],
    }


def test_a_report_with_sampled_answers_is_accepted(collector: Any, report: Report) -> None:
    """The one that the bad requests change is right as it is."""
    assert collector.post(sampled()(collector.plans[0], report)).json == {"accepted": 1}


def test_a_wrong_tag_in_a_packed_batch(collector: Any, tools: Any) -> None:
    plan = collector.plans[0]
    body = bytearray(to_packed(tools.make_reports(plan, collector.now(plan), 1, "tag"), plan))
    body[-2] = 3  # channel has stable, beta and other: 0, 1 and 2
    assert collector.post(bytes(body), PACKED).json == {
        "accepted": 0, "rejected": [{"index": 0, "code": "malformed"}],
    }  # fmt: skip


def test_a_report_that_comes_again_is_accepted_and_counts_once(collector: Any, tools: Any) -> None:
    plan = collector.plans[1]
    reports = tools.make_reports(plan, collector.now(plan), 3, "again")
    for body, kind in (
        *((to_json(each), "application/json") for each in reports * 2),
        (to_ndjson(reports * 4), NDJSON),
        (to_packed(reports * 4, plan), PACKED),
    ):
        assert collector.post(body, kind).status == 202
    with closing(open_store(collector.store, readonly=True)) as store:
        counts = store.counts(RoundKey(plan.name, 2, collector.now(plan)))
    assert reports_of(plan, counts) == 3


# On the level of bytes


def head(*lines: str, method: str = "POST", path: str = "/v1/reports", version: str = "1.1") -> bytes:
    start = f"{method} {path} HTTP/{version}"
    return "\r\n".join([start, "Host: localhost", *lines, "", ""]).encode()


TYPE = "Content-Type: application/json"


def problem_of(said: bytes) -> tuple[int, str]:
    front, _, body = said.partition(b"\r\n\r\n")
    return int(front.split()[1]), json.loads(body)["code"]


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"nonsense\r\n\r\n", 400, "bad_request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "bad_request"),
        (b"POST /v1/reports HTTP/9.9\r\n\r\n", 400, "bad_request"),
        (head(TYPE, "Content-Length: x"), 400, "bad_request"),
        (head(TYPE, "Content-Length: 5", "Content-Length: 6") + b"{}{}{}", 400, "bad_request"),
        (head(TYPE, "Content-Length: 2", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 400, "bad_request"),
        (head(TYPE, "Transfer-Encoding: chunked") + b"zz\r\n{}\r\n0\r\n\r\n", 400, "bad_request"),
        (head(TYPE, f"Content-Length: {1 << 40}"), 413, "too_large"),
        (head(TYPE, "X: " + "x" * 40_000, "Content-Length: 2") + b"{}", 431, "too_large"),
        (head(*(f"X{n}: {'x' * 90}" for n in range(500)), method="GET", path="/healthz"), 431, "too_large"),
        (head(method="GET", path="/" + "x" * 40_000), 431, "too_large"),
        (head(*(f"X{n}: y" for n in range(100)), method="GET", path="/healthz"), 431, "too_large"),
    ],
)
def test_bytes_that_are_no_request(collector: Any, sent: bytes, status: int, code: str) -> None:
    said = collector.raw(sent[:20_000], sent[20_000:])
    assert problem_of(said) == (status, code)
    assert b"\r\nconnection: close\r\n" in said


def test_a_body_in_chunks_that_grows_too_large(collector: Any) -> None:
    chunk = b"2710\r\n" + b" " * 10_000 + b"\r\n"
    assert problem_of(collector.raw(head(TYPE, "Transfer-Encoding: chunked"), *[chunk] * 30, pause=0)) == (
        413, "too_large",
    )  # fmt: skip


def test_trailers_without_end(collector: Any) -> None:
    sent = head(TYPE, "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n"
    said = collector.raw(sent, *[b"X: " + b"x" * 50_000 + b"\r\n"] * 12, pause=0)
    assert problem_of(said) == (413, "too_large")


def test_chunks_work(collector: Any, tools: Any) -> None:
    plan = collector.plans[0]
    body = to_json(tools.make_reports(plan, collector.now(plan), 1, "chunks")[0])
    parts = [b"%x\r\n%s\r\n" % (len(body[n : n + 9]), body[n : n + 9]) for n in range(0, len(body), 9)]
    said = collector.raw(
        head(TYPE, "Transfer-Encoding: chunked", "Connection: close"), *parts, b"0\r\nX: y\r\n\r\n", pause=0
    )
    assert said.startswith(b"HTTP/1.1 202 ")
    assert said.endswith(b'\r\n\r\n{"accepted":1}')


def test_who_is_slow_is_cut_off(collector: Any) -> None:
    """A second is allowed here; another one until somebody looks."""
    begin = time.monotonic()
    slow = [b"", b"POST /v1/re", head(TYPE, "Content-Length: 100") + b'{"plan"']
    with ThreadPoolExecutor(len(slow)) as clients:
        answers = list(clients.map(collector.raw, slow))
    assert [problem_of(said) for said in answers] == [(408, "timeout")] * len(slow)
    assert 0.9 < time.monotonic() - begin < 6


def test_a_byte_now_and_then_is_slow_too(collector: Any) -> None:
    with socket.create_connection((collector.host, collector.port), timeout=0.1) as connection:
        connection.sendall(head(TYPE, "Content-Length: 100"))
        for _ in range(99):
            connection.sendall(b" ")
            with suppress(TimeoutError):
                said = connection.recv(1 << 16)
                break
    assert problem_of(said) == (408, "timeout")


def test_expect_100_continue(collector: Any, tools: Any) -> None:
    plan = collector.plans[0]
    body = to_json(tools.make_reports(plan, collector.now(plan), 1, "continue")[0])
    asked = head(TYPE, f"Content-Length: {len(body)}", "Expect: 100-continue", "Connection: close")
    with socket.create_connection((collector.host, collector.port), timeout=10) as connection:
        connection.sendall(asked)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 Continue\r\n")
        connection.sendall(body)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 202 Accepted\r\n")
    refused = collector.raw(
        head("Content-Type: text/plain", "Content-Length: 9", "Expect: 100-continue"), patience=4
    )
    assert problem_of(refused) == (415, "unsupported_media_type")


@pytest.mark.parametrize("lines", [[], ["Connection: keep-alive"]])
def test_http_1_0(collector: Any, tools: Any, lines: list[str]) -> None:
    plan = collector.plans[0]
    body = to_json(tools.make_reports(plan, collector.now(plan), 1, "old")[0])
    sent = head(TYPE, f"Content-Length: {len(body)}", *lines, version="1.0") + body
    said = collector.raw(sent + head("Connection: close", method="GET", path="/healthz"))
    assert said.startswith(b"HTTP/1.1 202 Accepted\r\n")
    assert b'\r\n\r\n{"accepted":1}' in said


def test_requests_on_one_connection_are_answered_in_order(collector: Any, tools: Any) -> None:
    plan = collector.plans[0]
    connection = collector.connection()
    for place, report in enumerate(tools.make_reports(plan, collector.now(plan), 6, "row")):
        connection.request("POST", "/v1/reports", to_json(report), {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert (response.status, response.read()) == (202, b'{"accepted":1}')
        connection.request("GET", "/healthz" if place % 2 else "/v1/reports")
        response = connection.getresponse()
        assert (response.status, response.read() != b"") == ((200 if place % 2 else 405), True)
    connection.close()


def test_of_pipelined_requests_the_first_is_answered(collector: Any, tools: Any) -> None:
    plan = collector.plans[0]
    sent = b""
    for report in tools.make_reports(plan, collector.now(plan), 5, "pipeline"):
        body = to_json(report)
        sent += head(TYPE, f"Content-Length: {len(body)}") + body
    said = collector.raw(sent)
    assert said.count(b"HTTP/1.1 ") == said.count(b"HTTP/1.1 202 Accepted\r\nconnection: close\r\n") == 1
    mixed = head(method="GET", path="/healthz") * 3 + head(TYPE, "Content-Length: 2") + b"{}"
    said = collector.raw(mixed)
    assert [part.split()[0] for part in said.split(b"HTTP/1.1 ")[1:]] == [b"200"]
    assert b"\r\nconnection: close\r\n" in said


def test_nonsense_behind_a_report_does_not_take_its_answer(collector: Any, tools: Any) -> None:
    plan = collector.plans[0]
    body = to_json(tools.make_reports(plan, collector.now(plan), 1, "nonsense")[0])
    said = collector.raw(head(TYPE, f"Content-Length: {len(body)}") + body + b"nonsense\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 202 Accepted\r\n")


def test_a_client_that_never_reads_its_answers_is_cut_off(collector: Any) -> None:
    """Otherwise its answers would pile up here."""
    request = head(TYPE, "Content-Length: 2") + b"{}"
    with socket.create_connection((collector.host, collector.port), timeout=0.3) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stopped, end = False, time.monotonic() + 20
        while not stopped and time.monotonic() < end:
            try:
                connection.sendall(request * 100)
            except OSError:  # reset, a broken pipe, or nobody reads any more
                stopped = True
        assert stopped
    assert collector.get("/healthz").status == 200


def test_an_upgrade_is_not_taken_up(collector: Any, tools: Any) -> None:
    plan = collector.plans[0]
    body = to_json(tools.make_reports(plan, collector.now(plan), 1, "upgrade")[0])
    lines = (TYPE, f"Content-Length: {len(body)}", "Connection: Upgrade", "Upgrade: websocket")
    said = collector.raw(
        head(*lines) + body, head("Connection: close", method="GET", path="/healthz"), pause=0.5
    )
    assert said.startswith(b"HTTP/1.1 202 ")
    assert said.count(b"HTTP/1.1 200 ") == 1  # it is still HTTP


def test_nothing_went_wrong_inside(collector: Any) -> None:
    assert "internal-error" not in collector.log
    assert "Traceback" not in collector.log
