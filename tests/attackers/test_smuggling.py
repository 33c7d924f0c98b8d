"""Requests whose end two servers might see in different places: one answer, then the connection is closed."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.shared.raw_requests import CHUNKED, DOUBTFUL, END, ROWS, in_turn, statuses

from reticent.reports import to_json

HIDDEN = b"GET /healthz HTTP/1.1\r\nHost: hidden\r\n\r\n"
"""What an attacker would like to have answered as a request of its own."""
LAST = b"GET /healthz HTTP/1.1\r\nHost: last\r\nConnection: close\r\n\r\n"
"""What ends a connection that has not ended before."""


@pytest.fixture
def report(target: Any, tools: Any) -> bytes:
    plan = target.service.plans[0]
    return to_json(tools.make_reports(plan, target.service.now(plan), 1, "smuggled")[0])


def head(target: Any, *lines: str, path: str = "/v1/reports", end: str = "\r\n") -> bytes:
    key = f"Authorization: Bearer {target.texts['admin']}"
    start = f"POST {path} HTTP/1.1"
    return end.join([start, "Host: x", key, "Content-Type: application/json", *lines, "", ""]).encode(
        "latin-1"
    )


@pytest.mark.parametrize("path", ["/v1/reports", "/login"])
@pytest.mark.parametrize("name", DOUBTFUL)
def test_a_doubtful_request_gets_one_answer_and_ends_the_connection(
    target: Any, report: bytes, name: str, path: str
) -> None:
    """
    On the short way of reports and on the long one: what stands behind the doubt is never answered.

    On the long way the doubt may come up in the body, with an answer under way: there is at most one.
    """
    before = target.open_reports()
    lines, instead = DOUBTFUL[name](len(report))
    said = target.service.raw(head(target, *lines, path=path) + (instead or report) + HIDDEN, pause=0)
    assert statuses(said) == [400] or (path == "/login" and said == b"")
    assert said == b"" or b"\r\nconnection: close\r\n" in said
    assert target.open_reports() == before


HOSTS = {
    "no host": (b"", "1.1", False),
    "two hosts": (b"Host: x\r\nHost: y\r\n", "1.1", False),
    "two hosts, alike": (b"Host: x\r\nHost: x\r\n", "1.1", False),
    "two hosts in another case": (b"host: x\r\nHOST: x\r\n", "1.1", False),
    "two hosts before 1.1": (b"Host: x\r\nHost: y\r\n", "1.0", False),
    "a list of hosts": (b"Host: x, y\r\n", "1.1", False),
    "a host with a path": (b"Host: x/admin\r\n", "1.1", False),
    "a host with a user": (b"Host: me@x\r\n", "1.1", False),
    "a host with a space": (b"Host: x y\r\n", "1.1", False),
    "a host beyond ASCII": (b"Host: \xc3\xa9\r\n", "1.1", False),
    "a host": (b"Host: collector.example.org\r\n", "1.1", True),
    "a host with a port": (b"Host: 127.0.0.1:8000\r\n", "1.1", True),
    "an address of version 6": (b"Host: [::1]:8000\r\n", "1.1", True),
    "an empty host": (b"Host:\r\n", "1.1", True),
    "no host before 1.1": (b"", "1.0", True),
}
"""Headers, a version of HTTP, and whether they leave no doubt which host is meant (RFC 9112, section 3.2)."""


@pytest.mark.parametrize("path", [b"POST /v1/reports", b"GET /healthz"])
@pytest.mark.parametrize("name", HOSTS)
def test_one_host_and_no_doubt_about_it(target: Any, report: bytes, name: str, path: bytes) -> None:
    """Two servers in a row might take different hosts for the one that is meant."""
    hosts, version, right = HOSTS[name]
    key = f"Authorization: Bearer {target.texts['admin']}\r\n".encode()
    body = report if path.startswith(b"POST") else b""
    length = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    sent = path + b" HTTP/" + version.encode() + b"\r\n" + hosts + key + length + b"\r\n" + body
    before = target.open_reports()
    said = target.service.raw(sent + LAST, pause=0)
    if right:
        assert statuses(said)[0] == (202 if body else 200)
        return
    assert statuses(said) == [400]
    assert b"\r\nconnection: close\r\n" in said
    assert b"one Host header" in said
    assert target.open_reports() == before


@pytest.mark.parametrize("second", [b"", b"Host: x\r\nHost: y\r\n"])
def test_a_later_request_without_one_host_is_refused_too(target: Any, second: bytes) -> None:
    sent = b"GET /healthz HTTP/1.1\r\n" + second + b"\r\n"
    said = target.service.raw(HIDDEN, sent + HIDDEN)
    assert statuses(said) == [200, 400]


def test_line_feeds_alone_do_not_end_lines(target: Any, report: bytes) -> None:
    sent = head(target, f"Content-Length: {len(report)}", end="\n") + report + HIDDEN
    assert statuses(target.service.raw(sent, pause=0)) == [400]


def test_cut_at_any_place_it_is_the_same(target: Any, report: bytes) -> None:
    """A proxy may hand on a request in parts: the doubt does not depend on them."""
    sent = head(target, CHUNKED, f"Content-Length: {len(report)}") + END + HIDDEN
    for place in range(0, len(sent), 23):
        said = target.service.raw(sent[:place], sent[place:], pause=0.005)
        assert statuses(said) == [400]


@pytest.mark.parametrize(
    "sent",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT evil.example:80 HTTP/1.1\r\nHost: x\r\n\r\n" + HIDDEN,
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        + END
        + HIDDEN,
        b"GET /health\x01z HTTP/1.1\r\nHost: x\r\n\r\n" + HIDDEN,
        b"GET /healthz HTTP/1.1 x\r\nHost: x\r\n\r\n" + HIDDEN,
        b"GET\t/healthz\tHTTP/1.1\r\nHost: x\r\n\r\n" + HIDDEN,
        b"get /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + HIDDEN,
        b"\0" * 100,
        b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 9000 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 60_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_request_of_ours_ends_the_connection(target: Any, sent: bytes) -> None:
    said = target.service.raw(sent, pause=0)
    assert statuses(said) in ([400], [431])
    assert b"\r\nconnection: close\r\n" in said


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN, [200, 200]),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
         b"%x\r\n%s\r\n" % (len(HIDDEN), HIDDEN) + END, [200, 200]),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
         b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nConnection: close\r\n\r\n", [200]),
        (HIDDEN * 3, [200]),
        (b"GET /healthz\r\n\r\n" + HIDDEN, [400]),
    ],
)  # fmt: skip
def test_every_request_gets_one_answer(target: Any, sent: bytes, answers: list[int]) -> None:
    """A body is never read as a request; of three requests at once the first is answered, and is the last."""
    assert statuses(in_turn(target.service, (sent,), (LAST,))) == answers
    alone = target.service.raw(sent + LAST, pause=0)
    assert statuses(alone) == answers[:1]
    assert b"\r\nconnection: close\r\n" in alone


UPGRADE = ("Connection: upgrade", "Upgrade: foo")


@pytest.mark.parametrize("path", ["/v1/reports", "/healthz", "/login", "/nowhere"])
@pytest.mark.parametrize("chunked", [False, True])
def test_the_body_of_an_offer_to_change_the_protocol_is_a_body(target: Any, path: str, chunked: bool) -> None:
    """The offer is ignored. The body, which is a request and comes later, is not answered."""
    length = CHUNKED if chunked else f"Content-Length: {len(HIDDEN)}"
    body = b"%x\r\n%s\r\n" % (len(HIDDEN), HIDDEN) + END if chunked else HIDDEN
    sent = head(target, *UPGRADE, length, path=path)
    answers = statuses(in_turn(target.service, (sent, body), (LAST,)))
    assert len(answers) == 2  # with the last one's
    assert answers == statuses(in_turn(target.service, (sent + body,), (LAST,)))
    assert answers[:1] == statuses(target.service.raw(sent, body + LAST))
    assert answers[:1] == statuses(target.service.raw(sent + body + LAST))


@pytest.mark.parametrize("at_once", [True, False])
def test_after_an_offer_to_change_the_protocol_the_connection_goes_on(
    target: Any, report: bytes, at_once: bool
) -> None:
    offering = head(target, *UPGRADE, f"Content-Length: {len(report)}")
    parts = (offering + report,) if at_once else (offering, report)
    assert statuses(in_turn(target.service, parts, parts, (LAST,))) == [202, 202, 200]


def test_the_documentation_has_a_table_of_requests() -> None:
    assert len(ROWS) > 40
    assert {status for _, status in ROWS} > {400, 200}


@pytest.mark.parametrize(("sent", "status"), ROWS)
def test_the_table_of_the_documentation_holds_byte_by_byte(target: Any, sent: bytes, status: int) -> None:
    """What is refused ends the connection: the request after it gets no answer, and one at once with it never."""
    expected = [status] if status == 400 else [status, 200]
    for parts in ((sent,), tuple(bytes([byte]) for byte in sent)):
        answer = in_turn(target.service, parts, (LAST,))
        assert statuses(answer) == expected
        assert b"\r\nconnection: close\r\n" in answer
    for parts in ((sent + LAST,), tuple(bytes([byte]) for byte in sent + LAST)):
        answer = target.service.raw(*parts, pause=0)
        assert statuses(answer) in (
            [status],
            expected,
        )  # byte by byte the answer may come before the next one
        assert b"\r\nconnection: close\r\n" in answer
    assert statuses(target.service.raw(sent + LAST, pause=0)) == [status]


def test_strangers_write_nothing_into_the_log(
    target: Any, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    with caplog.at_level(logging.DEBUG, logger="root"):
        for sent in (
            b"nonsense\r\n\r\n" * 5,
            b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nkey=",
            b"POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ):
            target.service.raw(sent, pause=0, patience=0.1)
        assert target.service.get("/healthz").status == 200
    assert caplog.records == []
    assert capfd.readouterr().err == ""
