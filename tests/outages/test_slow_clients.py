"""Clients that are idle, slow or too many: honest ones are answered all the while, the others are let go."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import resource
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.shared import collectors

from reticent.reports import to_json
from reticent_collector.http import Limits
from reticent_collector.stores import open_store

LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks /proc about another process")
READ_TIMEOUT = 2
GENEROUS = 20.0
"""Seconds after which something did not happen; a busy machine needs some of them."""


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Any]:
    options = options or ("--read-timeout", str(READ_TIMEOUT))
    service = collectors.Service(folder, collectors.usage()).start(*options)
    try:
        yield service
    finally:
        assert service.stop() == 0
        assert "Traceback" not in service.log
        assert "internal-error" not in service.log


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One collector for all that does not need its own: nothing that is done to it stays."""
    with running(tmp_path_factory.mktemp("slow")) as made:
        yield made


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Any]:
    """A collector that soon has waited long enough."""
    with running(tmp_path, "--read-timeout", "1") as made:
        yield made


def connect(service: Any, buffer: int | None = None) -> socket.socket:
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(GENEROUS)
    connection.connect((service.host, service.port))
    return connection


def files(service: Any) -> int:
    """What a process has open."""
    return len(os.listdir(f"/proc/{service.process.pid}/fd"))


def sockets(service: Any) -> int:
    """Of these files, its connections and a few that stay."""
    count = 0
    for file in Path(f"/proc/{service.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # it is closed by now
            count += os.readlink(file).startswith("socket:")
    return count


def memory(service: Any) -> int:
    pages = Path(f"/proc/{service.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(service: Any) -> float:
    fields = Path(f"/proc/{service.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until(true: Callable[[], bool], seconds: float = GENEROUS) -> bool:
    """Whether it comes true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def last_words(connection: socket.socket, most: float = math.inf) -> bytes:
    """All that still comes on a connection until the other side ends it, or `most` bytes have come."""
    said = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while len(said) <= most and (more := connection.recv(1 << 16)):
            said += more
    return bytes(said)


def acknowledged(service: Any, count: int, seed: str) -> int:
    """Honest reports, one after another over one connection; each has to be acknowledged."""
    plan, connection = service.plans[0], service.connection()
    for report in collectors.make_reports(plan, service.now(plan), count, seed):
        connection.request("POST", "/v1/reports", to_json(report), {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert (response.status, response.read()) == (202, b'{"accepted":1}')
    connection.close()
    return count


def counted(service: Any) -> int:
    store = open_store(service.store)
    try:
        return sum(info.reports for info in store.rounds())
    finally:
        store.close()


HEAD = b"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 150\r\n\r\n"


class Dripping:
    """Clients that send a byte now and then, as slow ones do: some their heads, some their bodies."""

    def __init__(self, service: Any, heads: int, bodies: int) -> None:
        self.connections = [connect(service) for _ in range(heads + bodies)]
        self._left = [HEAD] * heads + [b" " * 150] * bodies
        for connection in self.connections[heads:]:
            connection.sendall(HEAD)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._drip)
        self._thread.start()

    def _drip(self) -> None:
        while not self._stop.wait(0.3):
            for place, connection in enumerate(self.connections):
                first, self._left[place] = self._left[place][:1], self._left[place][1:]
                with contextlib.suppress(OSError):  # it has been cut off
                    connection.sendall(first)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@LINUX
def test_a_crowd_of_idle_and_slow_clients(service: Any) -> None:
    """
    300 clients that never say anything and 60 that send a byte now and then. Honest reports are acknowledged
    all the while and counted exactly; then every one of the crowd is told that its time is over, and let go.
    """
    first = counted(service) + acknowledged(service, 1, "before")
    before, open_before = memory(service), files(service)
    idle = [connect(service) for _ in range(300)]
    slow = Dripping(service, heads=30, bodies=30)
    try:
        assert until(lambda: files(service) > open_before + 350)  # some of those before may be gone
        assert (memory(service) - before) / 360 < 64 << 10  # about 7 kB each
        sent = acknowledged(service, 200, "honest")
        said = [last_words(connection) for connection in (*idle, *slow.connections)]
        assert {each.split(b"\r\n")[0] for each in said} == {b"HTTP/1.1 408 Request Timeout"}
        assert {json.loads(each.partition(b"\r\n\r\n")[2])["code"] for each in said} == {"timeout"}
        sent += acknowledged(service, 10, "after")
        assert until(lambda: files(service) <= open_before + 2)
    finally:
        slow.stop()
        for connection in (*idle, *slow.connections):
            connection.close()
    assert counted(service) == first + sent


@LINUX
def test_who_does_not_read_the_answer_to_a_batch_is_let_go(hasty: Any) -> None:
    """Closing waits until all is sent, which a client can put off for ever: what waited for it stayed in memory."""
    body = b"{}\n" * 150_000  # the answer names each of them, in more bytes than the system's 4 MB for them
    kind = f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}"
    open_before = sockets(hasty)
    connections = [connect(hasty, buffer=4096) for _ in range(2)]
    for connection in connections:
        connection.sendall(f"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\n{kind}\r\n\r\n".encode() + body)
    assert until(lambda: sockets(hasty) >= open_before + 2)
    assert acknowledged(hasty, 20, "meanwhile") == 20
    assert until(lambda: sockets(hasty) <= open_before)
    assert "internal-error" not in hasty.log  # answers were still written to connections that were gone
    for connection in connections:
        connection.close()


LARGE = 1 << 24  # bytes of an answer that no buffer of the system holds


async def large_answer(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        for word in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{word}.complete"})
        return
    headers = [(b"content-length", b"%d" % LARGE)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": bytes(LARGE)})


@pytest.mark.parametrize(("scheme", "pace"), [("http", 0), ("http", 200_000), ("https", 1_000_000)])
def test_an_answer_waits_for_who_reads_slowly_and_not_for_who_does_not_read(
    tmp_path: Path, scheme: str, pace: int
) -> None:
    """
    A slow reader takes its share, though this process can hand the system nothing for seconds: its buffer makes
    room in steps of a megabyte.
    """
    limits, tls = Limits(seconds=1.0, idle_seconds=1.0), None
    if scheme == "https":
        tls = tuple(map(str, collectors.make_certificate(tmp_path)))
    with collectors.in_thread(large_answer, limits, tls) as service:
        connection, got = connect(service, buffer=1 << 15), 0
        if tls is not None:
            trusted = ssl.create_default_context(cafile=tls[0])
            connection = trusted.wrap_socket(connection, server_hostname="127.0.0.1")
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        end = time.monotonic() + (5 if tls else 3.5)
        while time.monotonic() < end:
            time.sleep(0.05)
            got += len(connection.recv(pace // 20)) if pace else 0
        got += len(last_words(connection, LARGE - got))
        connection.close()
    assert (got > LARGE) == (pace > 0)


def limit_files(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    """Processes started from here on have so many files, as a shell would hand them."""
    monkeypatch.setattr(collectors.Service, "fresh", True)
    real, limited = subprocess.Popen, ["sh", "-c", f'ulimit {option} && exec "$0" "$@"']
    monkeypatch.setattr(subprocess, "Popen", lambda command, **given: real([*limited, *command], **given))


@LINUX
def test_as_many_files_as_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit that shells hand on is often far below what the system allows."""
    limit_files(monkeypatch, "-S -n 300")
    with running(tmp_path) as service:
        (line,) = [
            line
            for line in Path(f"/proc/{service.process.pid}/limits").read_text().splitlines()
            if line.startswith("Max open files")
        ]
        soft, hard = line.split()[3:5]
    assert soft == hard
    assert int(hard) > 300


@LINUX
def test_a_crowd_that_is_larger_than_there_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    100 files, half of them for connections. Who is connected is served, by both ways; who comes is told to
    try again; the store is not short of files; and when the crowd leaves there is room again.
    """
    limit_files(monkeypatch, "-n 100")
    with running(tmp_path, "--read-timeout", "60") as service:
        assert '"event": "few-files", "files": 100, "connections": 50' in service.log
        inside = service.connection()
        inside.connect()
        crowd = [connect(service) for _ in range(49)]
        assert until(lambda: files(service) >= 50 + 3)
        late = [connect(service) for _ in range(100)]
        for connection in late:
            said = last_words(connection)
            assert said.startswith(b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n")
            assert b"\r\nretry-after: 5\r\n" in said
            connection.close()
        plan = service.plans[0]
        for report in collectors.make_reports(plan, service.now(plan), 50):
            assert ask(inside, "POST", "/v1/reports", to_json(report)) == 202
        for path in ("/healthz", "/readyz", "/v1/rounds", "/openapi.json"):
            assert ask(inside, "GET", path) == 200
        for connection in crowd:
            connection.close()
        assert until(lambda: service.get("/readyz").status == 200)
        assert acknowledged(service, 10, "again") == 10
        inside.close()
    assert counted(service) == 60


@LINUX
def test_a_crowd_that_never_shakes_hands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    200 connections to a collector with TLS and 100 files that say nothing. They count from the moment they are
    accepted, so the store has its files; they have as long as a request, and then honest clients are served.
    """
    limit_files(monkeypatch, "-n 100")
    certificate, key = collectors.make_certificate(tmp_path)
    service = collectors.Service(tmp_path, collectors.usage(), scheme="https")
    service.start("--tls-cert", str(certificate), "--tls-key", str(key), "--read-timeout", "1")
    trusted = ssl.create_default_context(cafile=str(certificate))

    def is_ready() -> bool:
        connection = http.client.HTTPSConnection("127.0.0.1", service.port, context=trusted, timeout=5)
        try:
            return ask(connection, "GET", "/readyz") == 200
        except OSError:
            return False
        finally:
            connection.close()

    try:
        assert is_ready()
        before = files(service)
        crowd = [connect(service) for _ in range(200)]
        assert until(lambda: files(service) >= before + 45)
        assert until(lambda: '"event": "too-many-connections", "connections": 50' in service.log)
        assert files(service) <= before + 50
        assert until(is_ready)  # while all of the crowd are still there
        assert until(lambda: files(service) <= before + 2)
        for connection in crowd:
            connection.close()
    finally:
        assert service.stop() == 0
    assert "Traceback" not in service.log
    assert service.log.count("too-many-connections") == 1


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> int:
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    response = connection.getresponse()
    response.read()
    return response.status


@LINUX
def test_no_file_left_to_accept_with(service: Any) -> None:
    """
    The limit falls below what the collector reckoned with. It neither ends nor spins, who is connected is
    served, and when files come free it takes connections again, by itself; and so a second time.
    """
    inside, first = service.connection(), counted(service)
    assert ask(inside, "GET", "/healthz") == 200
    before = resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)
    few = files(service) + 20
    resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (few, before[1]))
    for turn in range(2):
        crowd = [connect(service) for _ in range(100)]
        assert until(lambda: files(service) >= few - 1)
        used = processor_seconds(service)
        plan = service.plans[0]
        for report in collectors.make_reports(plan, service.now(plan), 20, turn):
            assert ask(inside, "POST", "/v1/reports", to_json(report)) == 202
        time.sleep(0.5)
        assert processor_seconds(service) - used < 0.4  # some hundredths; a loop that spins takes all of it
        for connection in crowd:
            connection.close()
        assert until(lambda: files(service) < few - 10)
        assert acknowledged(service, 10, f"again {turn}") == 10
    inside.close()
    resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, before)
    assert counted(service) == first + 60
