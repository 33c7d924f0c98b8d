"""
Connections that break off, overlap, dawdle or never read: each ends within its deadlines, and nothing of it stays.

A generator makes random ones, some seconds of them here and minutes of them in a soak run:

    pytest -m soak collector/tests/http/test_connections.py
"""

from __future__ import annotations

import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.shared.collectors import Service, in_thread, make_reports
from tests.shared.plans import BARE
from tests.shared.raw_requests import statuses

from reticent.plan import Plan
from reticent.reports import to_json
from reticent_collector.http import Collector, Limits, Readers
from reticent_collector.http import log as logging
from reticent_collector.http.limits import ServerContext
from reticent_collector.http.protocol import ConnectionState
from reticent_collector.stores import create_key, open_store

PLAN = Plan.from_toml(BARE)
NOW = 500_000 * 3600 + 60
PATIENCE = 30.0
"""Seconds after which something did not happen; a busy machine needs some of them."""

RESET = struct.pack("ii", 1, 0)
"""Of SO_LINGER: closing resets the connection."""
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def posted(body: bytes, *lines: str, path: str = "/v1/reports", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = (f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *lines)
    return "\r\n".join([*head, f"Content-Length: {size}", "", ""]).encode() + body


def report(seed: object) -> bytes:
    return to_json(make_reports(PLAN, 500_000, 1, seed)[0])


def connect(service: Service, buffer: int | None = None) -> socket.socket:
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(PATIENCE)
    connection.connect((service.host, service.port))
    return connection


def everything(connection: socket.socket) -> bytes:
    """All that comes until the other side ends the connection; it has to, within `PATIENCE` seconds."""
    received = b""
    with suppress(ConnectionError):
        while more := connection.recv(1 << 16):
            received += more
    return received


def until(true: Callable[[], bool], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def watched(app: Any, limits: Limits) -> Iterator[tuple[Service, Any]]:
    """A server, and what its connections share."""
    contexts: list[Any] = []

    def noted(*given: Any) -> Any:
        contexts.append(ServerContext(*given))
        return contexts[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reticent_collector.http.server.ServerContext", noted)
        with in_thread(app, limits) as service:
            yield service, contexts[0]


def is_as_before(context: Any) -> bool:
    """Whether there is no connection, and nothing of one."""
    budgets = (context.strangers, context.reports, context.responses)
    return not context.all and not any(budget.held for budget in budgets)


def collector(**limits: Any) -> Collector:
    return Collector([PLAN], open_store("memory:"), clock=lambda: NOW, limits=Limits(**limits))


# Two requests at once


@pytest.mark.parametrize(
    "behind",
    [
        posted(b"", "Expect: 100-continue"),
        posted(b"x" * 50, length=100),
        posted(b"x" * 50, "Expect: 100-continue", length=100),
        b"POST /v1/reports HTTP/1.1\r\nHost: local",
        b"G",
    ],
)
@pytest.mark.parametrize("first", [HEALTH, posted(report("first")), posted(b"{}")])
def test_what_comes_with_a_request_does_not_keep_its_connection_open(first: bytes, behind: bytes) -> None:
    """
    One of them was never answered, and its connection stayed for ever; another had no deadline.

    When they are gone there is room for others.
    """
    app = collector(seconds=1.0, connections=12)
    with in_thread(app, app.limits) as service:
        connections = [connect(service) for _ in range(12)]
        for connection in connections:
            connection.sendall(first + behind)
        for connection in connections[:6]:
            assert statuses(everything(connection)) in ([200], [202], [400])
        for connection in connections:
            connection.close()

        def has_room() -> bool:
            with connect(service) as connection:
                connection.sendall(HEALTH)
                return statuses(connection.recv(1 << 16)) == [200]

        until(has_room)


@pytest.mark.parametrize("empty", [b"\r\n", b"\r\n\r\n\r\n"])
def test_an_empty_line_between_requests_asks_for_nothing(empty: bytes) -> None:
    """It was taken for the beginning of a request, and got 408."""
    app = collector(seconds=0.2)
    with in_thread(app, app.limits) as service, connect(service) as connection:
        connection.sendall(HEALTH)
        assert statuses(connection.recv(1 << 16)) == [200]
        connection.sendall(empty)
        assert select.select([connection], [], [], 1.5) == ([], [], [])
        connection.sendall(HEALTH)
        assert statuses(connection.recv(1 << 16)) == [200]


def test_each_wait_has_its_end() -> None:
    """A commit and an application that never end, a client that stays away between two requests."""
    store, gate = open_store("memory:"), threading.Event()
    append = store.append
    store.append = lambda records: (gate.wait(PATIENCE), append(records))[1]  # type: ignore[method-assign]
    limits = Limits(seconds=1.0, answering_seconds=1.0, idle_seconds=1.0)
    app = Collector([PLAN], store, clock=lambda: NOW, limits=limits)
    with in_thread(app, limits) as service, connect(service) as commit, connect(service) as idle:
        idle.sendall(HEALTH)
        commit.sendall(posted(report("stuck")))
        assert statuses(everything(idle)) == [200]
        answer = everything(commit)
        assert statuses(answer) == [503]
        assert b"\r\nretry-after: 5\r\n" in answer
        gate.set()
        with connect(service) as connection:
            connection.sendall(posted(report("next")))
            assert statuses(connection.recv(1 << 16)) == [202]


def test_clients_that_do_nothing_more_are_let_go() -> None:
    """In whichever state they stay: nobody waits for them to close the connection."""
    app, limits = collector(), Limits(seconds=0.5, idle_seconds=0.5, linger_seconds=0.5)
    beginnings = [b"", HEALTH[:-1], HEALTH, HEALTH + b"G", posted(b"x", length=9), posted(b"{}")]
    with watched(app, limits) as (service, context), ExitStack() as stack:
        for sent in beginnings:
            stack.enter_context(connect(service)).sendall(sent)
        until(lambda: len(context.all) == len(beginnings))
        until(lambda: is_as_before(context), 15)


def test_an_application_that_never_answers_is_answered_for() -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(2):
            message = await receive()
            if scope["type"] == "lifespan":
                await send({"type": f"{message['type']}.complete"})
        await send({"type": "http.response.start", "status": 200, "headers": []})  # too late

    limits = Limits(answering_seconds=0.5, linger_seconds=0.5)
    with watched(silent, limits) as (service, context), connect(service) as connection:
        connection.sendall(HEALTH)
        assert statuses(everything(connection)) == [503]
        until(lambda: is_as_before(context))


# Memory


def resident(service: Service) -> int:
    assert service.process is not None
    pages = Path(f"/proc/{service.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A collector in a process of its own, whose memory can be looked at."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("tells its memory on Linux only")
    service = Service(tmp_path_factory.mktemp("memory"), BARE).start("--read-timeout", "10")
    yield service
    assert service.stop() == 0
    assert "internal-error" not in service.log


def test_small_parts_of_a_body_take_no_more_memory_than_large_ones(process: Service) -> None:
    """Each part of two bytes took fifty."""
    assert process.get("/healthz").status == 200
    before, chunks = resident(process), b"2\r\n{}\r\n" * 10_000
    head = posted(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(process)) for _ in range(2)]
        for connection in connections:
            connection.sendall(head)
            for _ in range(50):
                connection.sendall(chunks)
        for connection in connections:
            connection.sendall(b"0\r\n\r\n")
            assert statuses(connection.recv(1 << 16)) == [400]
        assert resident(process) - before < 24 << 20


def test_many_headers_are_refused_and_nothing_of_them_stays(process: Service) -> None:
    assert process.get("/healthz").status == 200
    before = resident(process)
    head = b"POST /v1/reports HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 5400
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(process)) for _ in range(200)]
        for connection in connections:
            with suppress(ConnectionError):
                connection.sendall(head)
        assert {tuple(statuses(everything(connection))) for connection in connections} <= {(431,), ()}
        assert resident(process) - before < 32 << 20


def test_heads_and_bodies_of_strangers_have_a_limit_of_their_own() -> None:
    """Bodies of 64 kB without a key kept batches with one out."""
    app = collector(from_strangers=1 << 20, in_flight=0, body=1 << 20, seconds=60.0)
    text, key = create_key("ingest", "", 1)
    app.store.add_key(key)
    app.access.refresh()
    batch = b"\n" * 200_000
    with in_thread(app, app.limits) as service, ExitStack() as stack:
        strangers = [stack.enter_context(connect(service)) for _ in range(60)]
        for connection in strangers:
            connection.sendall(posted(b"x" * 60_000, path="/login", length=65_000))
        until(lambda: len(select.select(strangers, [], [], 0)[0]) >= 60 - (1 << 20) // 60_000)
        for connection in select.select(strangers, [], [], 0)[0]:
            assert statuses(connection.recv(1 << 16)) == [503]
        with connect(service) as connection:
            kind = "application/x-ndjson"
            sent = posted(batch, f"Authorization: Bearer {text}").replace(b"application/json", kind.encode())
            connection.sendall(sent)
            assert statuses(connection.recv(1 << 16)) == [202]
        with connect(service) as connection:  # without a key, nothing of a large one is read
            connection.sendall(posted(b"", length=200_000))
            assert statuses(everything(connection)) == [401]


@pytest.mark.parametrize("resets", [True, False])
def test_a_client_that_leaves_before_the_commit_gives_its_bytes_back_after_it(resets: bool) -> None:
    """Its batch is in memory until then: sending and leaving is no way round the limit."""
    store, gate = open_store("memory:"), threading.Event()
    append = store.append
    store.append = lambda records: (gate.wait(PATIENCE), append(records))[1]  # type: ignore[method-assign]
    app = Collector([PLAN], store, clock=lambda: NOW, limits=Limits(body=1 << 20, in_flight=0))
    lines = b"\n".join([report("left"), *[b"{}".ljust(1_000)] * 570])
    batch = posted(lines).replace(b"application/json", b"application/x-ndjson")
    with watched(app, app.limits) as (service, context):
        for number in range(1, 4):
            with connect(service) as connection:
                connection.sendall(batch)
                until(lambda number=number: context.reports.held == number * len(batch))  # type: ignore[misc]
                until(lambda: {one.state for one in context.all} == {ConnectionState.COMMITTING})
                if resets:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            until(lambda: not context.all or not resets)
        assert context.reports.held == 3 * len(batch)
        with connect(service) as connection:
            connection.sendall(batch)
            assert statuses(connection.recv(1 << 16)) == [503]
        gate.set()
        until(lambda: is_as_before(context))
        with connect(service) as connection:
            connection.sendall(batch)
            assert statuses(connection.recv(1 << 16)) == [202]


def test_single_reports_have_room_beside_large_batches() -> None:
    """What is at its commit cannot be refused any more; a quarter of the limit is kept for small ones."""
    store, gate = open_store("memory:"), threading.Event()
    append = store.append
    store.append = lambda records: (gate.wait(PATIENCE), append(records))[1]  # type: ignore[method-assign]
    app = Collector([PLAN], store, clock=lambda: NOW, limits=Limits(body=600_000, in_flight=0))
    lines = b"\n".join([report("beside"), *[b"{}".ljust(1_000)] * 585])
    batch = posted(lines).replace(b"application/json", b"application/x-ndjson")
    with watched(app, app.limits) as (service, context), ExitStack() as stack:
        for number in range(1, 3):
            connection = stack.enter_context(connect(service))
            connection.sendall(batch)
            until(lambda number=number: context.reports.held == number * len(batch))  # type: ignore[misc]
        context.reports.limit = context.reports.held + 10  # as if there were no byte left
        with connect(service) as single:
            single.sendall(posted(report("single")))
            until(lambda: context.reports.held > 2 * len(batch))
            gate.set()
            assert statuses(single.recv(1 << 16)) == [202]


LARGE = 1 << 24


class LargeAnswers:
    """An application whose every answer is large, and that knows how many it is at."""

    begun = 0
    under_way = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for word in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{word}.complete"})
            return
        self.begun += 1
        self.under_way += 1
        headers = [(b"content-length", b"%d" % LARGE)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(LARGE)})
        self.under_way -= 1


def test_answers_that_nobody_reads_are_bounded_in_memory() -> None:
    """Beyond the limit one is cut off; who reads is served all the while."""
    app, most = LargeAnswers(), (64 << 20) // LARGE
    with in_thread(app, Limits(seconds=60.0)) as service, ExitStack() as stack:
        for number in range(3 * most):
            connection = stack.enter_context(connect(service, buffer=4096))
            connection.sendall(HEALTH)
            until(lambda number=number: app.begun == number + 1)  # type: ignore[misc]
        until(lambda: app.under_way <= most)
        assert service.get("/").body == bytes(LARGE)


def test_after_a_large_answer_was_read_the_connection_goes_on() -> None:
    """It counts as long as it waits for its reader, who may take his time."""
    app = collector()
    batch = posted(b"{}\n" * 190_000).replace(b"application/json", b"application/x-ndjson")
    with watched(app, app.limits) as (service, context), connect(service, buffer=4096) as connection:
        connection.sendall(batch)
        until(lambda: {one.state for one in context.all} == {ConnectionState.FLUSHING})
        size = context.responses.held
        assert size > 4 << 20
        received = 0
        while received < size:
            received += len(connection.recv(1 << 20))
        until(lambda: {one.state for one in context.all} == {ConnectionState.IDLE})
        assert context.responses.held == 0
        connection.sendall(HEALTH)
        assert statuses(connection.recv(1 << 16)) == [200]


# Readers who have gone


def test_a_reader_that_has_gone_gives_its_place_back(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """18 requests that were closed at once kept everybody else out until all had been worked out for nobody."""
    opened, begun = threading.Event(), threading.Semaphore(0)
    app = collector()
    original = app.results.estimates

    def slow(*arguments: Any, **named: Any) -> Any:
        begun.release()
        assert opened.wait(PATIENCE)
        return original(*arguments, **named)

    monkeypatch.setattr(app.results, "estimates", slow)
    path = "/v1/estimates?plan=bare"
    with in_thread(app) as service, ThreadPoolExecutor(1) as pool:
        try:
            room = Readers.threads + Readers.most_waiting
            gone = [connect(service) for _ in range(room)]
            for connection in gone:
                connection.sendall(HEALTH.replace(b"/healthz", path.encode()))
            until(lambda: service.get(path.replace("bare", "other")).status == 503)
            for connection in gone:
                connection.close()
            reading = pool.submit(service.get, path)
            time.sleep(0.5)
            assert not reading.done()  # it waits for a thread, and was not refused
            for monitor in ("/metrics", "/v1/plans", "/healthz", "/readyz"):
                assert service.get(monitor).status == 200
        finally:
            opened.set()
        assert reading.result(PATIENCE).status == 200
    worked = 0
    while begun.acquire(blocking=False):
        worked += 1
    assert worked <= Readers.threads + 1


# The log


class Stuck:
    """A standard error that nobody reads."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.text = ""

    def write(self, text: str) -> None:
        self.gate.wait(PATIENCE)
        self.text += text

    def flush(self) -> None:
        """Nothing is kept back."""


def test_nobody_waits_for_who_reads_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit thread did, and reports were no longer taken. What found no room is counted and told."""
    stuck = Stuck()
    monkeypatch.setattr(logging, "quiet", False)
    app = collector()
    original = app.store.append
    is_failing = True

    def failing(records: Any) -> Any:
        if is_failing:
            raise RuntimeError("no store")
        return original(records)

    app.store.append = failing  # type: ignore[method-assign]
    with in_thread(app) as service:
        monkeypatch.setattr(sys, "stderr", stuck)
        try:
            for number in range(3):
                with connect(service) as connection:
                    connection.sendall(posted(report(f"log {number}")))
                    assert statuses(connection.recv(1 << 16)) == [503]
            is_failing = False
            with connect(service) as connection:
                connection.sendall(posted(report("log")))
                assert statuses(connection.recv(1 << 16)) == [202]
            writing = threading.Thread(target=lambda: [logging.log("line", number=n) for n in range(2500)])
            writing.start()
            writing.join(PATIENCE)
            assert not writing.is_alive()
        finally:
            stuck.gate.set()
        until(lambda: '"event": "log-dropped", "lines": ' in stuck.text)
        assert '"event": "commits-fail"' in stuck.text
        assert 900 <= stuck.text.count('"event": "line"') < 2500
        monkeypatch.undo()


def test_a_program_without_a_server_does_not_wait_either() -> None:
    """The supervisor of workers writes at once and has no thread; a full pipe takes nothing from it."""
    program = "from reticent_collector.http.log import log\nfor n in range(5000): log('line', number=n)\n"
    reading, writing = os.pipe()
    try:
        done = subprocess.run([sys.executable, "-c", program], stderr=writing, timeout=60, check=False)
        assert done.returncode == 0
    finally:
        os.close(writing)
        os.close(reading)


# Random connections


class Conversation:
    """Bytes that one client sends: right, wrong, pipelined, split, chunked, broken off or half-closed."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        sent = b"".join(self._request() for _ in range(draw.choice((1, 1, 1, 2, 3, 8))))
        if draw.random() < 0.3:
            sent = sent[: draw.randrange(len(sent))]
        if draw.random() < 0.1:
            place = draw.randrange(len(sent) + 1)
            sent = sent[:place] + draw.randbytes(draw.randrange(1, 9)) + sent[place:]
        cuts = sorted(draw.randrange(len(sent) + 1) for _ in range(draw.choice((0, 0, 1, 3, 12))))
        self.parts = [sent[start:end] for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
        self.pause = draw.choice((0.0, 0.0, 0.002, 0.02))
        self.ends = draw.choice(("reads", "reads", "half", "half", "closes", "resets", "waits"))

    def _request(self) -> bytes:
        draw = self._draw
        body = draw.choice((b"", b"{}", report(draw.randrange(1000)), b"x" * draw.choice((10, 5000, 70_000))))
        method = draw.choice(("GET", "POST", "POST", "POST", "HEAD", "OPTIONS"))
        path = draw.choice(
            ("/v1/reports", "/v1/reports", "/v1/reports?x=1", "/healthz", "/v1/rounds", "/nowhere")
        )
        kind = draw.choice(("application/json", "application/x-ndjson", "text/plain"))
        lines = [f"{method} {path} HTTP/1.{draw.choice('1110')}", "Host: localhost", f"Content-Type: {kind}"]
        some = (
            "Expect: 100-continue",
            "Connection: close",
            "Connection: keep-alive",
            "Origin: https://a.example",
        )
        lines += [line for line in some if draw.random() < 0.15]
        if draw.random() < 0.1:
            lines += ["Connection: upgrade", "Upgrade: h2c"]
        if draw.random() < 0.03:
            lines += [f"X{number}: y" for number in range(120)]
        if draw.random() < 0.3:
            size = draw.choice((1, 2, 100, 4096)) if len(body) < 6000 else 4096
            chunks = (body[place : place + size] for place in range(0, len(body), size))
            body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
            lines.append("Transfer-Encoding: chunked")
        else:
            lines.append(f"Content-Length: {len(body) + draw.choice((0, 0, 0, 0, 50))}")
        empty = draw.choice((b"", b"", b"\r\n", b"\r\n\r\n"))
        return empty + "\r\n".join([*lines, "", ""]).encode() + body

    def hold(self, service: Service, patience: float) -> bytes:
        """Have it; unless the client leaves, the server has to end it within so many seconds of its last byte."""
        with connect(service) as connection:
            with suppress(OSError):  # the server may have ended it
                for part in self.parts:
                    connection.sendall(part)
                    time.sleep(self.pause)
                if self.ends == "half":
                    connection.shutdown(socket.SHUT_WR)
            if self.ends == "closes":
                return b""
            if self.ends == "resets":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                return b""
            if self.ends == "waits":
                time.sleep(1.0)
            connection.settimeout(patience)
            return everything(connection)


LIMITS = Limits(seconds=0.5, idle_seconds=0.5, linger_seconds=0.3, answering_seconds=5.0)


def converse(seed: str, count: int) -> None:
    """So many random connections, 32 at a time; then the server is as it was."""
    app = Collector([PLAN], open_store("memory:"), clock=lambda: NOW, allowed_origins=["https://a.example"])
    with watched(app, LIMITS) as (service, context), ThreadPoolExecutor(32) as clients:

        def one(number: int) -> tuple[int, bytes]:
            conversation = Conversation(random.Random(f"{seed} {number}"))
            return number, conversation.hold(service, PATIENCE)

        seen: set[int] = set()
        for number, received in clients.map(one, range(count)):
            codes = statuses(received)
            assert 500 not in codes, (seed, number)
            assert codes[:-1].count(400) == 0 or b"malformed" in received, (seed, number)
            seen.update(codes)
        until(lambda: is_as_before(context))
        assert service.get("/healthz").status == 200
    assert {200, 202, 400, 404, 405, 408, 413, 415, 431} <= seen


def test_random_connections_end_in_time_and_leave_nothing() -> None:
    converse("short", 400)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_very_many_random_connections_end_in_time_and_leave_nothing() -> None:
    for seed in range(20):
        converse(f"soak {seed}", 5_000)
