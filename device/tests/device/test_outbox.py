"""The way to the collector, against a real HTTP server on this machine."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.shared.devices import HERE, InFile, Make
from tests.shared.state_files import damage, what_is_in

from reticent.device import Accepted, Device, HttpTransport, Outcome, Policy, Rejected, Retry
from reticent.errors import ParameterError
from reticent.plan import Plan
from reticent.reports import from_json
from reticent.testing import ManualClock, RecordingTransport, sandbox


class Collector(ThreadingHTTPServer):
    """Answers what it is told to, and keeps what it is sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers), body))
        status, headers, content = self.server.answers.pop(0) if self.server.answers else (202, {}, b"")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        raise AssertionError("a device only posts")

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_report_arrives_as_the_wire_says(device_of: Make, collector: Collector, clock: ManualClock) -> None:
    device = device_of(endpoint=collector.address + "/ingest/", key="k-1", segment={"os": "linux"})
    clock.advance(2 * 21_600)
    assert device.flush() == 1
    [(path, headers, body)] = collector.requests
    assert path == "/ingest/v1/reports"
    assert from_json(body) == device.report(HERE + 1)
    assert json.loads(body)["segment"] == {"os": "linux"}
    assert headers.keys() == {"Host", "Accept-Encoding", "Content-Length", "Content-Type", "Authorization"}
    assert headers["Authorization"] == "Bearer k-1"
    assert headers["Content-Type"] == "application/json"
    assert device.status().accepted == 1
    assert device.flush() == 0
    assert len(collector.requests) == 1


@pytest.mark.parametrize("status", [400, 404, 409, 410, 413, 422])
def test_what_the_collector_will_never_take_is_not_sent_again(
    device_of: Make, collector: Collector, clock: ManualClock, status: int
) -> None:
    problem = json.dumps({"type": "about:blank", "code": "late"}).encode()
    collector.answers = [(status, {"Content-Type": "application/problem+json"}, problem)]
    device = device_of(endpoint=collector.address)
    clock.advance(2 * 21_600)
    assert device.flush() == 0
    [told] = device.receipt().reports
    assert (told.state, told.code) == ("rejected", "late")
    clock.advance(3600)
    assert device.flush() == 0
    assert len(collector.requests) == 1


@pytest.mark.parametrize("status", [200, 204, 302, 401, 403, 408, 425, 429, 500, 502, 503])
def test_everything_else_is_tried_again_with_the_same_bytes(
    device_of: Make, collector: Collector, clock: ManualClock, status: int
) -> None:
    """A redirect is not followed: the second address would get the report and the key."""
    collector.answers = [(status, {"Location": "/elsewhere"}, b"")]
    device = device_of(endpoint=collector.address)
    clock.advance(2 * 21_600)
    assert device.flush() == 0
    assert device.status().waiting == 1
    clock.advance(15)
    assert device.flush() == 1
    first, second = collector.requests
    assert first[0] == second[0] == "/v1/reports"
    assert first[2] == second[2]


def test_retry_after_is_honoured(device_of: Make, collector: Collector, clock: ManualClock) -> None:
    collector.answers = [(503, {"Retry-After": "600"}, b"")]
    device = device_of(endpoint=collector.address)
    clock.advance(2 * 21_600)
    device.flush()
    clock.advance(599)
    assert device.flush() == 0
    assert len(collector.requests) == 1
    clock.advance(1 + 15)
    assert device.flush() == 1


def test_when_grace_ends_it_gives_up(device_of: Make, collector: Collector, clock: ManualClock) -> None:
    collector.answers = [(503, {}, b"")]
    device = device_of(endpoint=collector.address)
    clock.advance(2 * 21_600)
    device.flush()
    clock.advance(21_600)
    device.flush()
    assert [(told.round, told.state) for told in device.receipt().reports] == [
        (HERE + 1, "expired"),
        (HERE + 2, "accepted"),
    ]


def test_rounds_that_no_collector_takes_any_more_are_not_answered_and_their_values_go(
    device_of: Make, clock: ManualClock, in_file: InFile, transport: RecordingTransport
) -> None:
    device = device_of(transport=transport)
    clock.advance(2 * 21_600)
    device.add("editor_seconds", 5)
    device.save()
    clock.advance(2 * 21_600)  # grace is one round: that of the round with the value has just ended
    assert device.flush() == 1
    assert [told.round for told in device.receipt().reports] == [HERE + 3]
    assert in_file().totals == {}


def test_nobody_there_and_nobody_answering_are_retries() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        start = time.monotonic()
        assert HttpTransport(f"http://127.0.0.1:{port}").send(b"{}", timeout=0.2) == Retry(fault="timeout")
        assert time.monotonic() - start < 5
    assert HttpTransport(f"http://127.0.0.1:{port}").send(b"{}", timeout=0.2) == Retry(fault="refused")


def test_garbage_for_an_answer_is_a_retry() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def babble() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"\x00\xff nonsense\r\n\r\n")

        thread = threading.Thread(target=babble)
        thread.start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert HttpTransport(address).send(b"{}", timeout=2) == Retry(fault="bad-answer")
        thread.join()


def test_flush_is_bounded_even_by_a_server_that_drips(device_of: Make, clock: ManualClock) -> None:
    """A byte now and then keeps every socket timeout from running out."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                while not stop.wait(0.05):
                    try:
                        connection.sendall(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        device = device_of(endpoint=f"http://127.0.0.1:{server.getsockname()[1]}")
        clock.advance(2 * 21_600)
        start = time.monotonic()
        assert device.flush(timeout=0.4) == 0
        assert time.monotonic() - start < 3
        stop.set()
        thread.join()
        for worker in threading.enumerate():
            if worker.name == "reticent-flush":
                worker.join()


def test_a_transport_that_raises_is_noted_and_retried(device_of: Make, clock: ManualClock) -> None:
    class Moody(RecordingTransport):
        def send(self, body: bytes, timeout: float) -> Accepted:
            if not self.bodies:
                self.bodies.append(body)
                raise RuntimeError("host code")
            self.bodies.append(body)
            return Accepted()

    transport = Moody()
    device = device_of(transport=transport)
    clock.advance(2 * 21_600)
    assert device.flush() == 0
    clock.advance(15)
    assert device.flush() == 1
    assert transport.bodies[0] == transport.bodies[1]
    assert device.status().notes == {"transport": 1}


def test_the_background_thread_answers_and_sends(
    plan_text: str, tmp_path: Path, collector: Collector
) -> None:
    """The real clock, rounds of one second, a real server: reports arrive by themselves, round by round."""
    quick = Plan.from_toml(plan_text.replace('round = "6h"', 'round = "1s"').replace('"6h"', '"10s"'))
    with Device(
        quick, tmp_path / "state", consent="granted", endpoint=collector.address, policy=Policy.unlimited()
    ) as device:
        device.add("editor_seconds", 3)
        deadline = time.monotonic() + 20
        while len(collector.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        first = device.status().answers_from
    rounds = [from_json(body).round for _, _, body in collector.requests]
    assert rounds[:2] == [first, first + 1]


def test_two_processes_send_a_report_once(device_of: Make, clock: ManualClock) -> None:
    one, two = RecordingTransport(), RecordingTransport()
    first, second = device_of(transport=one), device_of(transport=two)
    clock.advance(2 * 21_600)
    assert first.flush() + second.flush() == 1
    assert len(one.bodies) + len(two.bodies) == 1


def test_a_report_that_was_accepted_stays_so_when_a_slower_attempt_comes_too_late(
    device_of: Make, clock: ManualClock
) -> None:
    class Slow:
        """Its process is stopped for a while, in which another one sends the report."""

        def send(self, body: bytes, timeout: float) -> Outcome:
            clock.advance(60)
            assert device_of(transport=RecordingTransport()).flush() == 1
            return Rejected("late")

    device = device_of(transport=Slow())
    clock.advance(2 * 21_600)
    assert device.flush() == 0
    [told] = device.receipt().reports
    assert (told.state, told.code) == ("accepted", "")


def test_a_report_is_claimed_for_its_own_attempt_however_long_those_before_took(
    device_of: Make, clock: ManualClock, plan_text: str
) -> None:
    patient, others = Plan.from_toml(plan_text.replace('grace = "6h"', 'grace = "2d"')), RecordingTransport()
    other = device_of(patient, transport=others)

    class Slow(RecordingTransport):
        def send(self, body: bytes, timeout: float) -> Outcome:
            clock.advance(15)
            if len(self.bodies) == 3:
                other.flush()
            return super().send(body, timeout)

    device = device_of(patient, transport=Slow())
    clock.advance(5 * 21_600)
    assert device.flush(timeout=30) == 4
    assert not others.bodies


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://collector.example.org",
        "http://10.0.0.1:8000",
        "http://127.0.0.1.example.org",
        "ftp://example.org",
        "example.org",
        "https://",
        "https://user:secret@example.org",
        "https://example.org/?key=secret",
        "https://example.org:port",
    ],
)
def test_addresses_that_will_not_do(endpoint: str) -> None:
    with pytest.raises(ParameterError, match="endpoint") as caught:
        HttpTransport(endpoint)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint", ["https://example.org", "http://localhost:1", "http://[::1]:80", "http://127.1.2.3"]
)
def test_addresses_that_will(endpoint: str) -> None:
    assert "k-1" not in repr(HttpTransport(endpoint, key="k-1"))


def test_a_key_cannot_smuggle_headers() -> None:
    with pytest.raises(ParameterError, match="key") as caught:
        HttpTransport("https://example.org", key="k\r\nX-Evil: 1")
    assert "Evil" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", ""),
        (b"<html>", ""),
        (b'["late"]', ""),
        (b'{"code": 7}', ""),
        (b'{"code": "<script>"}', ""),
        (b'{"code": "blocked"}', ""),
        (b'{"code": "unknown_plan"}', "unknown_plan"),
        (b'{"code": "late"}', "late"),
    ],
)
@pytest.mark.parametrize("status", [400, 406, 409, 421, 451])
def test_only_a_code_of_the_collector_is_final(
    collector: Collector, status: int, content: bytes, code: str
) -> None:
    collector.answers = [(status, {}, content)]
    expected = Rejected(code) if code else Retry(fault="not-a-collector")
    assert HttpTransport(collector.address).send(b"{}", timeout=5) == expected


@pytest.mark.usefixtures("time_zone")
def test_retry_after_as_a_date_and_as_nonsense(collector: Collector) -> None:
    soon = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 100))
    collector.answers = [(503, {"Retry-After": text}, b"") for text in (soon, "soon")]
    transport = HttpTransport(collector.address)
    outcome = transport.send(b"{}", timeout=5)
    assert isinstance(outcome, Retry)
    assert outcome.after is not None
    assert 90 < outcome.after <= 100
    assert transport.send(b"{}", timeout=5) == Retry(None, "server-error")


@pytest.mark.parametrize(
    ("round_seconds", "attempts", "after", "ceiling"),
    [(21_600, 0, None, 15.0), (21_600, 3, 600.0, 120.0), (21_600, 50, None, 3600.0), (16, 0, None, 1.0)],
)
def test_back_off_is_full_jitter_with_a_ceiling(
    plan: Plan, round_seconds: int, attempts: int, after: float | None, ceiling: float
) -> None:
    """Uniform in [0, ceiling], after what the collector asked for: of 60 draws, none in a half: 2^-60."""
    waits = []
    with sandbox(replace(plan, round_seconds=round_seconds), policy=Policy.unlimited()) as box:
        box.transport.outcomes = [Retry(after)] * 61
        box.next_round()
        for _ in range(60):
            damage(box.state, "reports", {"attempts": str(attempts), "next_try": "0"})
            box.device.flush()
            [tried] = [kept for kept in what_is_in(box.state).reports.values() if kept.attempts]
            waits.append(tried.next_try - box.clock() - (after or 0.0))
    assert all(0 <= wait <= ceiling for wait in waits)
    assert max(waits) > ceiling / 2 > min(waits)
