"""Addresses, answers of a collector, and transports; device/README.md has the list."""

from __future__ import annotations

import gzip
import socket
import struct
import time
from collections.abc import Callable

import pytest
from tests.shared.hostile import Talk, listening

from reticent.device import Device, HttpTransport, Retry
from reticent.errors import ParameterError
from reticent.testing import ManualClock

Make = Callable[..., Device]

HOME = "https://telemetry.example.org"

ENDPOINTS: dict[str, dict[str, object]] = {
    "no scheme": {"endpoint": "telemetry.example.org:443"},
    "ftp://": {"endpoint": "ftp://telemetry.example.org"},
    "plain http:// to another machine": {"endpoint": "http://telemetry.example.org"},
    "a user and a password": {"endpoint": "https://me:pass4711@telemetry.example.org"},
    "a password without a user": {"endpoint": "https://:pass4711@telemetry.example.org"},
    "a query": {"endpoint": HOME + "?key=pass4711"},
    "port 0": {"endpoint": HOME + ":0"},
    "port 99999": {"endpoint": HOME + ":99999"},
    "an IPv6 address that does not end": {"endpoint": "http://[::1"},
    "a name with an empty label": {"endpoint": "https://telemetry..org"},
    "a label of 70 letters": {"endpoint": f"https://{'a' * 70}.org"},
    "a zero byte": {"endpoint": "https://a\0b"},
    "a space in the path": {"endpoint": HOME + "/pass 4711"},
    "not a text": {"endpoint": 443},
    "a key with a line break": {"endpoint": HOME, "key": "pass4711\n"},
    "a key with a space": {"endpoint": HOME, "key": "pass 4711"},
    "a key of bytes": {"endpoint": HOME, "key": b"pass4711"},
}


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_an_address_that_will_not_do(make: Make, kind: str) -> None:
    with pytest.raises(ParameterError) as raised:
        make(**ENDPOINTS[kind])
    assert "4711" not in str(raised.value)


def test_an_address_of_this_machine(make: Make, clock: ManualClock) -> None:
    for endpoint in ("http://[::1]:9", "http://[::1]", "https://[::abcd]:443", "https://[::abcd]"):
        HttpTransport(endpoint).send(b"{}", timeout=0.1)  # raises nothing
    with listening(saying(b"HTTP/1.1 202 Accepted\r\n\r\n")) as port:
        device = make(endpoint=f"http://127.0.0.1:{port}/some/path/")
        clock.advance(2 * 21_600)
        assert device.flush() == 1


def test_nobody_there(make: Make, clock: ManualClock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert outcome(make(endpoint=f"http://127.0.0.1:{port}"), clock) == "refused"
    for host in ("no-such-host.invalid", "xn--a.invalid", "ü" * 60 + ".invalid"):
        assert HttpTransport(f"https://{host}").send(b"{}", timeout=5) == Retry(fault="bad-name")


# Answers


def saying(*parts: bytes, then: Talk = lambda connection: None) -> Talk:
    def talk(connection: socket.socket) -> None:
        connection.recv(65_536)
        for part in parts:
            connection.sendall(part)
        then(connection)

    return talk


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def for_ever(part: bytes, pause: float = 0.0) -> Talk:
    def talk(connection: socket.socket) -> None:
        while True:
            connection.sendall(part)
            time.sleep(pause)

    return talk


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


OK = answer("202 Accepted")
BOMB = gzip.compress(bytes(10_000_000))
NESTED = b'{"code":' * 10_000

ANSWERS: dict[str, tuple[Talk, str]] = {
    "a redirect to itself": (
        saying(answer("307 Temporary Redirect", "Location: /v1/reports")),
        "not-a-collector",
    ),
    "100 Continue without end": (saying(then=for_ever(b"HTTP/1.1 100 Continue\r\n\r\n" * 99)), "bad-answer"),
    "a header of 100 kB": (saying(b"HTTP/1.1 202 OK\r\nX: ", b"x" * 100_000, b"\r\n\r\n"), "bad-answer"),
    "1,000 headers": (saying(b"HTTP/1.1 202 OK\r\n", b"X: y\r\n" * 1000, b"\r\n"), "bad-answer"),
    "a body of 1 GB": (
        saying(b"HTTP/1.1 400 No\r\nContent-Length: 1000000000\r\n\r\n", then=for_ever(b"x" * 4096)),
        "not-a-collector",
    ),
    "a gzip bomb": (saying(answer("503 Busy", "Content-Encoding: gzip", body=BOMB)), "server-error"),
    "202 and garbage": (saying(answer("202 Accepted", body=b"\x00\xff{" * 99)), "accepted"),
    "202, then 500": (saying(OK, answer("500 No")), "accepted"),
    "nothing, and closed": (saying(), "network"),
    "a reset in the middle": (saying(b"HTTP/1.1 202 Acc", then=reset), "network"),
    "HTTP/0.9": (saying(b"<html>Welcome</html>"), "bad-answer"),
    "TLS where HTTP was expected": (saying(b"\x15\x03\x03\x00\x02\x02\x46"), "bad-answer"),
    "101 Switching Protocols": (saying(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"), "not-a-collector"),
    "204 No Content": (saying(b"HTTP/1.1 204 No Content\r\n\r\n"), "not-a-collector"),
    "418": (saying(answer("418 I'm a teapot")), "not-a-collector"),
    "999": (saying(answer("999 Denied")), "server-error"),
    "a chunk of negative length": (
        saying(b"HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nxx"),
        "bad-answer",
    ),
    "a problem nested 10,000 deep": (saying(answer("400 No", body=NESTED[:4000])), "not-a-collector"),
    "a code with markup in it": (saying(answer("400 No", body=b'{"code": "<script>"}')), "not-a-collector"),
    "Retry-After: 999999999": (saying(answer("503 Busy", "Retry-After: 999999999")), "server-error"),
    "Retry-After: -5": (saying(answer("503 Busy", "Retry-After: -5")), "server-error"),
    "Retry-After: NaN": (saying(answer("503 Busy", "Retry-After: NaN")), "server-error"),
    "Retry-After in the year 9999": (
        saying(answer("503 Busy", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT")),
        "server-error",
    ),
}


def outcome(device: Device, clock: ManualClock, timeout: float = 10.0) -> str:
    """What the only attempt to send the report of a round came to."""
    clock.advance(2 * 21_600)
    device.flush(timeout)
    while not (status := device.status()).attempts:
        time.sleep(0.01)
    [(result, count)] = status.attempts.items()
    assert count == 1
    waits = 0 if result in ("accepted", "rejected") else 1
    assert (status.waiting, status.accepted, status.rejected) == (
        waits,
        result == "accepted",
        result == "rejected",
    )
    assert result in str(status)
    return result


@pytest.mark.parametrize("kind", ANSWERS)
def test_what_comes_of_an_answer(make: Make, clock: ManualClock, kind: str) -> None:
    talk, result = ANSWERS[kind]
    connections = 0

    def count(connection: socket.socket) -> None:
        nonlocal connections
        connections += 1
        talk(connection)

    with listening(count) as port:
        device = make(endpoint=f"http://127.0.0.1:{port}")
        assert outcome(device, clock) == result
    assert connections == 1
    status = device.status()
    if "999999999" in kind or "9999" in kind:
        assert status.next_try is not None
        assert 9.9e8 < status.next_try - clock.now < 1.1e9
    elif status.waiting:
        assert status.next_try is not None
        assert 0 <= status.next_try - clock.now <= 15
    assert "script" not in str(device.receipt())


def test_a_header_dripped_byte_by_byte(make: Make, clock: ManualClock) -> None:
    with listening(saying(b"HTTP/1.1 202 Accepted\r\nX: ", then=for_ever(b"x", 0.02))) as port:
        began = time.monotonic()
        assert outcome(make(endpoint=f"http://127.0.0.1:{port}"), clock, timeout=0.3) == "timeout"
        assert time.monotonic() - began < 5


def test_http_where_tls_was_expected(make: Make, clock: ManualClock) -> None:
    with listening(saying(OK)) as port:
        assert outcome(make(endpoint=f"https://127.0.0.1:{port}"), clock) == "not-https"


# Transports of the host's own


class Own:
    def __init__(self, send: Callable[[], object]) -> None:
        self._send = send

    def send(self, body: bytes, timeout: float) -> object:
        return self._send()


def fail() -> object:
    raise SystemError("4711")


TRANSPORTS: dict[str, tuple[object, str]] = {
    "raises": (Own(fail), "transport"),
    "returns nothing": (Own(lambda: None), "transport"),
    "has no `send`": (object(), "transport"),
    "asks for a retry in NaN seconds": (Own(lambda: Retry(float("nan"))), "retry"),
    "asks for a retry in the past": (Own(lambda: Retry(-1e9)), "retry"),
    "asks for a retry in infinite time": (Own(lambda: Retry(float("inf"))), "retry"),
}


@pytest.mark.parametrize("kind", TRANSPORTS)
def test_what_comes_of_a_transport(make: Make, clock: ManualClock, kind: str) -> None:
    transport, result = TRANSPORTS[kind]
    device = make(transport=transport)
    assert outcome(device, clock) == result
    status = device.status()
    assert status.next_try is not None
    assert 0 <= status.next_try - clock.now - (1e9 if "infinite" in kind else 0) <= 15
    assert "4711" not in str(status)


def test_timeouts_that_are_none(make: Make) -> None:
    device = make(transport=Own(lambda: None))
    assert [device.flush(timeout) for timeout in (-1, 0, float("nan"), float("inf"), "x")] == [0] * 5  # type: ignore[arg-type]
    device.add("saves")
    assert not device.save("x")  # type: ignore[arg-type]
    assert device.save()
