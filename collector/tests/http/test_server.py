"""The server between bytes and an ASGI application: framing, order, half-closed clients, room for bodies."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.shared.clients import by_round
from tests.shared.collectors import Service, in_thread, make_reports
from tests.shared.plans import BARE

from reticent.plan import Plan
from reticent.reports import MAX_JSON, to_json, to_ndjson
from reticent_collector.http import Collector, Limits
from reticent_collector.stores import Layout, RoundKey, create_key, open_store

PLAN = Plan.from_toml(BARE)
NOW = 500_000 * 3600 + 60
OK = {"type": "http.response.start", "status": 200, "headers": []}


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def with_headers(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {**OK, "headers": list(headers)}


class App:
    """An application that answers with the messages of the path, and remembers what it received."""

    answers: dict[str, list[Any]]

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.scopes: list[Any] = []
        self.answers = {
            "/": [with_headers((b"content-length", b"5")), part(b"hello")],
            "/parts": [OK, part(b"one,", True), part(b"", True), part(b"two")],
            "/empty": [{**OK, "status": 204}, part(b"")],
            "/long": [with_headers((b"content-length", b"2")), part(b"hello")],
            "/short": [with_headers((b"content-length", b"9")), part(b"hello")],
            "/unfinished": [OK, part(b"one,", True)],
            "/nothing": [],
            "/split": [with_headers((b"x", b"a\r\nset-cookie: b")), part(b"")],
            "/twice": [OK, OK],
            "/body-first": [part(b"hello")],
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for word in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{word}.complete"})
            return
        self.scopes.append(scope)
        if scope["path"] == "/until-gone":
            while (message := await receive())["type"] != "http.disconnect":
                self.received.append(message)
            self.received.append(message)
            return
        if scope["path"] == "/slow":
            await asyncio.sleep(0.7)
            await send(with_headers((b"content-length", b"6")))
            await send(part(b"slowly"))
            return
        if scope["path"] == "/echo":
            body, more = b"", True
            while more:
                message = await receive()
                body, more = body + message["body"], message["more_body"]
            await send(with_headers((b"content-length", b"%d" % len(body))))
            await send(part(body))
            return
        for message in self.answers[scope["path"]]:
            await send(message)


@pytest.fixture(scope="module")
def app() -> App:
    return App()


@pytest.fixture(scope="module")
def service(app: App) -> Iterator[Service]:
    with in_thread(app, Limits(seconds=5.0)) as running:
        yield running


def asked(path: str, *lines: str, method: str = "GET", version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: localhost", *lines, "", ""]).encode()


CLOSE = "Connection: close"


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (asked("/", CLOSE), b"hello"),
        (asked("/", CLOSE, method="HEAD"), b""),
        (asked("/empty", CLOSE), b""),
        (asked("/parts", CLOSE), b"4\r\none,\r\n3\r\ntwo\r\n0\r\n\r\n"),
        (asked("/parts", CLOSE, method="HEAD"), b""),
        (asked("/parts", version="1.0"), b"one,two"),
        (asked("/parts", "Connection: keep-alive", version="1.0"), b"one,two"),
        (asked("/", version="1.0"), b"hello"),
    ],
)
def test_an_answer_ends_where_its_head_says(service: Service, sent: bytes, body: bytes) -> None:
    answer = service.raw(sent, pause=0)
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 20")
    assert b"\r\nconnection: close" in head
    assert rest == body
    assert (b"\r\ntransfer-encoding: chunked" in head) == body.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("path", ["/nothing", "/split", "/body-first"])
def test_an_application_that_fails_before_its_answer_is_a_500(
    service: Service, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent_collector.http.log.quiet", True)
    answer = service.get(path)
    assert (answer.status, answer.json["code"]) == (500, "internal")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/long", "/short", "/unfinished", "/twice"])
def test_an_answer_that_is_not_as_its_head_says_is_cut_off(
    service: Service, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent_collector.http.log.quiet", True)
    answer = service.raw(asked(path) + asked("/"), pause=0)
    assert answer.count(b"HTTP/1.1") <= 1
    assert b"hello" not in answer
    assert not answer.endswith(b"0\r\n\r\n")


def test_the_scope_is_the_request_and_no_address(service: Service, app: App) -> None:
    service.raw(asked("http://other.example:81/?a=%20b", "X-A:  1 \t", CLOSE, method="HEAD"), pause=0)
    scope = app.scopes[-1]
    assert (scope["method"], scope["path"], scope["raw_path"], scope["query_string"]) == (
        *("HEAD", "/"),
        *(b"/", b"a=%20b"),
    )
    assert scope["headers"] == [(b"host", b"other.example:81"), (b"x-a", b"1"), (b"connection", b"close")]
    assert (scope["scheme"], scope["http_version"], scope["client"]) == ("http", "1.1", None)
    assert scope["server"] == ("127.0.0.1", service.port)


def test_requests_in_turn_are_answered_in_their_order(service: Service) -> None:
    bodies = [b"first", b"second" * 1000, b"", b"last"]
    connection = service.connection()
    for body in bodies:
        connection.request("POST", "/echo", body)
        assert connection.getresponse().read() == body
    connection.close()


@pytest.mark.parametrize("behind", [asked("/"), asked("/") * 500, b"G", b"nonsense\r\n\r\n", asked("/")[:-1]])
@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_a_request_before_the_answer_to_another_ends_the_connection(
    service: Service, behind: bytes, pause: float
) -> None:
    """In the same bytes, or while the answer is made: there is one answer, and it says that it is the last."""
    first = asked("/slow", "Content-Length: 2", method="POST") + b"{}"
    answer = service.raw(first, behind, pause=pause) if pause else service.raw(first + behind)
    assert answer.count(b"HTTP/1.1 200 OK") == answer.count(b"HTTP/1.1") == 1
    assert b"\r\nconnection: close\r\n" in answer
    assert answer.endswith(b"slowly")


@pytest.mark.parametrize("empty", [b"\r\n", b"\r\n" * 5, b"\r"])
@pytest.mark.parametrize("path", ["/", "/slow"])
def test_empty_lines_between_requests_are_nothing(service: Service, empty: bytes, path: str) -> None:
    """Some clients send one after a body."""
    post = asked(path, "Content-Length: 2", method="POST") + b"{}" + empty
    assert in_turn(service, post, post, empty + asked("/")) == [200, 200, 200]


def test_a_body_for_the_application_is_small(service: Service) -> None:
    body = bytes(range(256)) * 256
    assert service.call("POST", "/echo", body).body == body
    answer = service.call("POST", "/echo", body + b"x")
    assert (answer.status, answer.json["code"]) == (413, "too_large")
    assert "65,536 bytes" in answer.json["detail"]
    chunks = (
        asked("/echo", "Transfer-Encoding: chunked", method="POST") + b"8000\r\n%s\r\n" % body[:0x8000] * 3
    )
    assert statuses(service.raw(chunks)) == [413]


def test_an_application_hears_that_its_client_has_gone(service: Service, app: App) -> None:
    app.received.clear()
    with socket.create_connection((service.host, service.port)) as connection:
        connection.sendall(asked("/until-gone", "Content-Length: 5", method="POST") + b"hello")
        until(lambda: len(app.received) == 1)
    until(lambda: len(app.received) == 2)
    assert app.received == [
        {"type": "http.request", "body": b"hello", "more_body": False},
        {"type": "http.disconnect"},
    ]


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_is_refused_before_it_has_come_is_no_request(service: Service) -> None:
    """The answer comes before the body does: the connection ends, and the body is thrown away."""
    hidden, start = asked("/", CLOSE), b" " * 70_000
    length = f"Content-Length: {len(start) + len(hidden)}"
    answer = service.raw(asked("/", length, method="POST") + start, hidden)
    assert statuses(answer) == [413]
    assert b"\r\nconnection: close\r\n" in answer


def test_a_body_that_the_application_left_does_not_stop_the_connection(app: App) -> None:
    with in_thread(app, Limits(unread=10)) as service:
        post = asked("/", "Content-Length: 100", method="POST") + b"x" * 100
        assert in_turn(service, post, post, asked("/")) == [200, 200, 200]


# Reports


@pytest.fixture(scope="module")
def collector() -> Iterator[Any]:
    app = Collector(
        [PLAN],
        open_store("memory:"),
        clock=lambda: NOW,
        limits=Limits(body=1 << 20, in_flight=0),
        allowed_origins=["https://app.example.org"],
    )
    with in_thread(app, app.limits) as running:
        running.app = app  # type: ignore[attr-defined]
        yield running


def posted(body: bytes, *lines: str, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    kind = "Content-Type: application/json"
    return asked("/v1/reports", kind, f"Content-Length: {size}", *lines, method="POST") + body


def report(seed: object) -> bytes:
    return to_json(make_reports(PLAN, 500_000, 1, seed)[0])


def statuses(answer: bytes) -> list[int]:
    return [int(each.split()[0]) for each in answer.split(b"HTTP/1.1 ")[1:]]


def in_turn(service: Service, *requests: bytes) -> list[int]:
    """The answers to requests on one connection, each sent when the one before is answered."""
    answers = []
    with socket.create_connection((service.host, service.port), timeout=10) as connection:
        for request in requests:
            connection.sendall(request)
            answer = connection.recv(1 << 16)
            if not answer:
                break
            answers += statuses(answer)
    return answers


@pytest.mark.parametrize("sent", [posted(report("half")), asked("/healthz")])
def test_a_client_that_has_sent_all_and_still_reads_gets_its_answer(collector: Service, sent: bytes) -> None:
    """It has closed its half of the connection, as `nc -N` does."""
    with socket.create_connection((collector.host, collector.port), timeout=10) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while more := connection.recv(1 << 16):
            answer += more
    assert statuses(answer) in ([202], [200])


def test_half_a_request_that_ends_there_is_not_answered(collector: Service) -> None:
    for sent in (posted(report("cut"))[:-5], asked("/healthz")[:-1], b""):
        with socket.create_connection((collector.host, collector.port), timeout=10) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1 << 16) == b""


def test_the_same_head_again_is_read_the_same(collector: Service) -> None:
    """A head that came before is not parsed again: nothing that follows it may be read another way for that."""
    first, second = report("same 1"), report("same 2")
    assert len(first) == len(second)
    assert in_turn(collector, posted(first), posted(second), posted(second)) == [202, 202, 202]
    assert in_turn(collector, posted(first), posted(b"x" * len(first)), posted(second)) == [202, 400, 202]
    other = posted(second).replace(b"application/json", b"application/jsom")
    assert in_turn(collector, posted(first), other, posted(second)) == [202, 415, 202]
    # A body that begins and a request that ends with line breaks. Another one of the same length ends with the
    # beginning of the next: whoever takes the last bytes for the body reads something else.
    blank = b"\r\n\r\n"
    assert in_turn(collector, posted(blank + first) + blank, posted(blank + second) + b"GET ") == [202, 202]


def test_two_requests_at_once_after_one_with_the_same_head(collector: Service) -> None:
    """The third one comes before the answer to the second: it is not taken, and the connection ends."""
    first, second, third = (report(f"at once {number}") for number in range(3))
    answer = collector.raw(posted(first), posted(second) + posted(third, CLOSE), pause=0.1)
    assert statuses(answer) == [202, 202]
    assert answer.count(b"connection: close") == 1


def test_of_reports_in_a_row_the_first_is_answered(collector: Any) -> None:
    before = collector.app.store.open_reports
    sent = b"".join(posted(report(f"row {number}")) for number in range(10))
    answer = collector.raw(sent + posted(b"{}") + asked("/healthz", CLOSE), pause=0)
    assert statuses(answer) == [202]
    assert b"\r\nconnection: close\r\n" in answer
    assert collector.app.store.open_reports == before + 1


def test_a_revoked_key_ends_on_a_connection_that_stays() -> None:
    app = Collector([PLAN], open_store("memory:"), clock=lambda: NOW)
    text, key = create_key("ingest", "", 1)
    app.store.add_key(key)
    app.access.refresh()
    line = f"Authorization: Bearer {text}"
    with in_thread(app) as service:
        connection = socket.create_connection((service.host, service.port), timeout=10)
        seen = []
        for number in range(4):
            if number == 2:
                assert app.store.revoke_key(key.id, 2)
                app.access.refresh()
            connection.sendall(posted(report(f"revoked {number}"), line))
            seen += statuses(connection.recv(1 << 16))
        connection.close()
    assert seen == [202, 202, 401, 401]


@pytest.mark.parametrize("query", ["", "?", "?x=1"])
@pytest.mark.parametrize(
    "origin", [(), ("Origin: https://app.example.org",), ("Origin: https://other.example",)]
)
def test_bodies_in_flight_have_room_for_two_of_the_largest(
    collector: Any, query: str, origin: tuple[str, ...]
) -> None:
    """
    The largest are refused first: an honest report is taken all the while, and so is the body that fits.

    By whichever address and for whichever page they come: a query or an origin went round the limit.
    """
    size = 900_000
    connections = [socket.create_connection((collector.host, collector.port), timeout=10) for _ in range(8)]
    for connection in connections:
        sent = posted(b" " * size, *origin, length=size + 1)
        connection.sendall(sent.replace(b"/v1/reports", b"/v1/reports" + query.encode(), 1))
    until(lambda: len(select.select(connections, [], [], 0)[0]) == 6)
    for connection in select.select(connections, [], [], 0)[0]:
        assert statuses(connection.recv(1 << 16)) == [503]
        connections.remove(connection)
        connection.close()
        assert in_turn(collector, posted(report("meanwhile"))) == [202]
    for connection in connections:
        connection.sendall(b" ")
        assert statuses(connection.recv(1 << 16)) == [400]
        connection.close()
    assert in_turn(collector, *[posted(b" " * size)] * 5) == [400] * 5  # what is read is let go of


def test_an_application_that_does_not_start_is_not_served(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from reticent_collector.http import make_server

    monkeypatch.setattr("reticent_collector.http.log.quiet", False)

    async def fails(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("no store")

    server = make_server(fails, "127.0.0.1", 0, Limits())
    server.run()
    assert not server.started
    assert '"event": "start-failed", "reason": "RuntimeError: no store"' in capsys.readouterr().err


def test_a_port_that_is_taken_is_said_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from reticent_collector.http import make_server

    monkeypatch.setattr("reticent_collector.http.log.quiet", False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = make_server(App(), "127.0.0.1", taken.getsockname()[1], Limits())
        server.run()
    assert not server.started
    assert "cannot listen: Address already in use" in capsys.readouterr().err


def test_a_second_body_under_one_id_is_a_repeat_and_the_smaller_counts() -> None:
    """Alone, in a batch with the first, and in a batch later; docs/reference/http.md says why it is no conflict."""
    first = make_reports(PLAN, 500_000, 1, "twice")[0]
    second = replace(first, bits=bytes([first.bits[0] ^ 0x80]))
    apart = replace(first, id=b"another id, 16 b")
    app = Collector([PLAN], open_store("memory:"), clock=lambda: NOW)
    key = RoundKey(PLAN.name, PLAN.version, 500_000)
    with in_thread(app) as service:
        assert in_turn(service, posted(to_json(first)), posted(to_json(second))) == [202, 202]
        once = app.store.counts(key)
        for reports in ([second, second], [second, apart], [first, second]):
            answer = service.post(to_ndjson(reports), "application/x-ndjson")
            assert (answer.status, answer.json) == (202, {"accepted": 2, "rejected": []})
            if reports == [second, second]:
                assert app.store.counts(key) == once
        smaller = min(first, second, key=Layout(PLAN).pack)
        assert app.store.counts(key) == by_round([smaller, apart], PLAN)[500_000]
        assert (app.health().accepted, app.health().duplicate) == (8, 0)
        app.store.seal(key)
        assert (app.health().accepted, app.health().duplicate) == (8, 6)


# As many as there may be


@pytest.mark.parametrize("most", [1, 3])
def test_exactly_as_many_connections_as_there_may_be(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one within the limit is served, the next one is turned away, and when one leaves there is room."""
    monkeypatch.setattr("reticent_collector.http.log.quiet", True)
    hello = asked("/")
    with in_thread(App(), Limits(connections=most)) as service:

        def connect() -> socket.socket:
            return socket.create_connection((service.host, service.port), timeout=10)

        inside = [connect() for _ in range(most)]
        for turn in range(2):
            for connection in inside:
                connection.sendall(hello)
                assert statuses(connection.recv(1 << 16)) == [200]
            with connect() as outside:
                assert statuses(outside.recv(1 << 16)) == [503]
                assert outside.recv(1 << 16) == b""
            if turn == 0:
                inside.pop().close()
                while len(inside) < most:  # until the server has noticed
                    connection = connect()
                    connection.sendall(hello)
                    if statuses(connection.recv(1 << 16)) == [200]:
                        inside.append(connection)
                    else:
                        connection.close()
        for connection in inside:
            connection.close()


# While a commit takes its time


def gated() -> tuple[Any, threading.Event, threading.Event]:
    """A store, what lets its next commit end, and what says that one is under way."""
    store, gate, inside = open_store("memory:"), threading.Event(), threading.Event()
    append = store.append

    def slow(records: Any) -> Any:
        inside.set()
        assert gate.wait(20)
        return append(records)

    store.append = slow  # type: ignore[method-assign]
    return store, gate, inside


def test_what_is_too_long_for_a_report_does_not_wait_for_a_commit() -> None:
    """Reports wait for the next commit unread; bodies of 16 MiB would do so too, and nobody would count them."""
    store, gate, inside = gated()
    with in_thread(Collector([PLAN], store, clock=lambda: NOW)) as service:
        with socket.create_connection((service.host, service.port), timeout=20) as connection:
            connection.sendall(posted(report("first")))
            assert inside.wait(20)
            assert in_turn(service, *[posted(b" " * (MAX_JSON + 1))] * 3) == [400] * 3
            gate.set()
            assert statuses(connection.recv(1 << 16)) == [202]
        assert in_turn(service, posted(b" " * MAX_JSON)) == [400]


# The end


def test_the_end_waits_for_commits_and_for_nothing_else() -> None:
    """
    One report is at its commit, half of another one has arrived, one client does not read its answer, one is
    between two requests, one has only just connected. The first gets its acknowledgement, however long the
    commit takes; the others have half a second.
    """
    store, gate, inside = gated()
    app = Collector([PLAN], store, clock=lambda: NOW)
    ended = threading.Event()
    with in_thread(app, Limits(seconds=60.0)) as service:
        connections = [socket.create_connection((service.host, service.port), timeout=20) for _ in range(4)]
        committing, half, idle, new = connections
        idle.sendall(asked("/healthz"))
        answer = idle.recv(1 << 16)
        while not answer.endswith(b"}"):  # head and body may come one after the other
            answer += idle.recv(1 << 16)
        assert statuses(answer) == [200]
        half.sendall(posted(report("half"))[:-5])
        committing.sendall(posted(report("whole")))
        assert inside.wait(20)
        stopping = threading.Thread(target=lambda: (service.stop_server(), ended.set()))  # type: ignore[attr-defined]
        stopping.start()
        assert idle.recv(1 << 16) == b""
        new.sendall(asked("/healthz"))  # it came in time
        answer = new.recv(1 << 16)
        assert statuses(answer) == [200]
        assert b"\r\nconnection: close\r\n" in answer
        answer = half.recv(1 << 16)
        assert statuses(answer) == [503]
        assert b"\r\nretry-after: 1\r\n" in answer
        assert not ended.wait(1.3)  # the commit is waited for, longer than all others
        gate.set()
        assert statuses(committing.recv(1 << 16)) == [202]
        assert ended.wait(20)
        stopping.join()
        for connection in connections:
            connection.close()
    assert store.open_reports == 1
