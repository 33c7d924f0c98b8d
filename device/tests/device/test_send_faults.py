"""Every failed attempt to send leaves its kind in the state file, and one attempt has one limit of time."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.shared.devices import Make

from reticent.device import Device, HttpTransport, Retry
from reticent.testing import ManualClock, RecordingTransport

Talk = Callable[[socket.socket], None]


@contextmanager
def listening(talk: Talk) -> Iterator[int]:
    """A server on this machine that does the same with every connection; the port it is on."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    talk(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def answering(status: str) -> Talk:
    def talk(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())

    return talk


@pytest.mark.parametrize(
    ("status", "key", "fault"),
    [
        ("401 Unauthorized", None, "no-key"),
        ("401 Unauthorized", "k", "wrong-key"),
        ("403 Forbidden", "k", "wrong-key"),
        ("404 Not Found", "k", "wrong-path"),
        ("200 OK", "k", "not-a-collector"),
        ("302 Found", "k", "not-a-collector"),
        ("408 Request Timeout", "k", "timeout"),
        ("429 Too Many Requests", "k", "too-busy"),
        ("502 Bad Gateway", "k", "server-error"),
    ],
)
def test_what_an_answer_means_is_in_the_status(
    device_of: Make, clock: ManualClock, status: str, key: str | None, fault: str
) -> None:
    with listening(answering(status)) as port:
        device = device_of(endpoint=f"http://127.0.0.1:{port}", key=key)
        check_fault(device, clock, fault)


def check_fault(device: Device, clock: ManualClock, fault: str) -> None:
    """One report is made and tried: when, with what outcome, and when again."""
    clock.advance(2 * 21_600)
    assert device.flush(timeout=10) == 0
    status = device.status()
    assert (status.attempts, status.last_outcome, status.last_attempt) == ({fault: 1}, fault, clock.now)
    assert status.waiting == 1
    assert status.next_try is not None
    assert clock.now <= status.next_try <= clock.now + 15
    assert f", {fault}: " in str(status)  # and what it means
    assert json.loads(json.dumps(status.to_dict()))["attempts"] == {fault: 1}
    with Device.open(device._session.file.path, clock=clock) as looked_at:  # type: ignore[union-attr]
        assert looked_at.status().attempts == {fault: 1}


def test_a_refused_connection_and_a_bad_name(device_of: Make, clock: ManualClock, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    check_fault(device_of(endpoint=f"http://127.0.0.1:{port}"), clock, "refused")
    assert HttpTransport("https://no-such-host.invalid").send(b"{}", timeout=5) == Retry(fault="bad-name")


def test_a_certificate_that_is_not_trusted_and_no_tls_at_all(tmp_path: Path) -> None:
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-subj", "/CN=localhost", "-keyout", key, "-out", certificate],
        capture_output=True, check=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def shake_hands(connection: socket.socket) -> None:
        with suppress(OSError):
            context.wrap_socket(connection, server_side=True).close()

    with listening(shake_hands) as port:
        assert HttpTransport(f"https://127.0.0.1:{port}").send(b"{}", 5) == Retry(fault="certificate")
    with listening(answering("400 Bad Request")) as port:
        assert HttpTransport(f"https://127.0.0.1:{port}").send(b"{}", 5) == Retry(fault="not-https")


def test_without_an_endpoint_the_status_says_so(device_of: Make, clock: ManualClock) -> None:
    assert "no endpoint" in str(device_of().status())
    assert "no endpoint" not in str(device_of(transport=RecordingTransport()).status())
    device = device_of()
    with Device.open(device._session.file.path) as looked_at:  # type: ignore[union-attr]
        assert "no endpoint" not in str(looked_at.status()), "the program that it belongs to may have one"


def test_success_is_an_outcome_too(device_of: Make, clock: ManualClock) -> None:
    device = device_of(transport=RecordingTransport(outcomes=[Retry(fault="refused")]))
    clock.advance(2 * 21_600)
    assert device.flush() == 0
    clock.advance(15)
    assert device.flush() == 1
    status = device.status()
    assert (status.attempts, status.last_outcome) == ({"accepted": 1, "refused": 1}, "accepted")
    assert (status.last_attempt, status.next_try) == (clock.now, None)


# One limit for the whole attempt


def drip_a_header(connection: socket.socket) -> None:
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 202 Accepted\r\nX: ")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def continue_without_end(connection: socket.socket) -> None:
    connection.recv(65_536)
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def continue_slowly(connection: socket.socket) -> None:
    connection.recv(65_536)
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("talk", "fault"),
    [(drip_a_header, "timeout"), (continue_slowly, "timeout"), (continue_without_end, "bad-answer")],
)
def test_a_server_that_never_ends_its_answer_ends_the_attempt(talk: Talk, fault: str) -> None:
    """Without a limit for the whole attempt, this test never ends: each read takes a twentieth of a second."""
    with listening(talk) as port:
        assert HttpTransport(f"http://127.0.0.1:{port}").send(b"{}", timeout=0.4) == Retry(fault=fault)


def test_an_answer_may_close_the_connection_before_it_is_read() -> None:
    def talk(connection: socket.socket) -> None:
        connection.recv(65_536)
        content = b'{"code": "late"}'
        head = f"HTTP/1.1 410 Gone\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content)

    with listening(talk) as port:
        outcome = HttpTransport(f"http://127.0.0.1:{port}").send(b"{}", timeout=5)
    assert getattr(outcome, "code", "") == "late"


# What is said about a wrong address or key


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        ("telemetry.example.org", "got telemetry.example.org without https://."),
        ("", "got nothing without https://."),
        ("http://10.0.0.1", "got http://10.0.0.1."),
    ],
)
def test_an_address_is_named_in_the_error(endpoint: str, shown: str) -> None:
    with pytest.raises(ValueError, match="endpoint: ") as caught:
        HttpTransport(endpoint)
    assert shown in str(caught.value)


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("secret\n", "got a line break in it."),
        ("a secret", "got a space in it."),
        ("", "got nothing."),
        ("é", "got a character that is not printable ASCII."),
        ("s" * 513, "got 513 characters."),
    ],
)
def test_what_is_wrong_with_a_key_is_said_and_the_key_is_not(key: str, shown: str) -> None:
    with pytest.raises(ValueError, match="key: ") as caught:
        HttpTransport("https://example.org", key)
    assert shown in str(caught.value)
    assert "secret" not in str(caught.value)
