"""Reports go through the proxy that the environment names: a proxy and a collector on loopback."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from reticent.device import Accepted, HttpTransport, Retry


class Service:
    """Takes one connection after the other on loopback, and keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[bytes] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            Thread(target=self._serve_quietly, args=(connection,), daemon=True).start()

    def _serve_quietly(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self.serve(connection)

    def serve(self, connection: socket.socket) -> None:
        raise NotImplementedError

    @staticmethod
    def head(connection: socket.socket) -> bytes:
        text = b""
        while b"\r\n\r\n" not in text:
            part = connection.recv(1)
            if not part:
                break
            text += part
        return text


class Collector(Service):
    def __init__(self, certificate: Path, key: Path) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        with self.context.wrap_socket(connection, server_side=True) as secure:
            self.said.append(self.head(secure))
            secure.recv(2)
            secure.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")


class Proxy(Service):
    def __init__(self, target: int, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self.target = target
        self.answer = answer
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        self.said.append(self.head(connection))
        connection.sendall(self.answer)
        if b" 200 " not in self.answer:
            return
        with socket.create_connection(("127.0.0.1", self.target)) as far:
            back = Thread(target=self.pass_on, args=(far, connection), daemon=True)
            back.start()
            self.pass_on(connection, far)
            back.join(5)

    @staticmethod
    def pass_on(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=collector.example", "-addext", "subjectAltName=DNS:collector.example,DNS:localhost",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    for name in ("https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    collector = Collector(certificate, key)
    yield collector
    collector.socket.close()


def test_a_report_goes_through_the_proxy(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy(collector.port)
    monkeypatch.setenv("https_proxy", f"http://ada:s%40crt@127.0.0.1:{proxy.port}")
    sent = HttpTransport("https://collector.example:8443", "private-key").send(b"{}", 5.0)
    assert sent == Accepted()
    [asked] = proxy.said
    assert asked.startswith(b"CONNECT collector.example:8443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic YWRhOnNAY3J0\r\n" in asked
    assert b"private-key" not in asked, "the proxy sees the name of the host only"
    [post] = collector.said
    assert post.startswith(b"POST /v1/reports HTTP/1.1\r\n")
    assert b"Bearer private-key" in post
    assert b"Proxy-Authorization" not in post
    proxy.socket.close()


def test_a_host_without_proxy_is_reached_directly(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy(collector.port)
    monkeypatch.setenv("https_proxy", f"127.0.0.1:{proxy.port}")
    monkeypatch.setenv("no_proxy", "localhost")
    assert HttpTransport(f"https://localhost:{collector.port}").send(b"{}", 5.0) == Accepted()
    assert proxy.said == []
    monkeypatch.delenv("no_proxy")
    assert HttpTransport(f"https://localhost:{collector.port}").send(b"{}", 5.0) == Accepted()
    assert len(proxy.said) == 1
    proxy.socket.close()


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 407 Authentication Required\r\n\r\n", b"HTTP/1.1 2000 no\r\n\r\n", b"", b"x" * 10_000],
    ids=["refused", "nonsense", "nothing", "no end"],
)
def test_a_proxy_that_does_not_connect(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    proxy = Proxy(collector.port, answer)
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
    assert HttpTransport("https://collector.example").send(b"{}", 5.0) == Retry(fault="proxy")
    monkeypatch.setenv("https_proxy", f"socks5://127.0.0.1:{proxy.port}")
    assert HttpTransport("https://collector.example").send(b"{}", 5.0) == Retry(fault="proxy")
    assert collector.said == []
    proxy.socket.close()


def test_a_slow_proxy_is_not_waited_for(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert HttpTransport("https://collector.example").send(b"{}", 0.3) == Retry(fault="timeout")
    silent.close()
