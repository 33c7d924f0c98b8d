"""HAProxy, nginx and Caddy in front of a collector, from the files of deploy/, and a tap on what they send it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.shared.raw_requests import statuses

FILES = Path(__file__).parents[2] / "deploy/proxy"


@dataclass(frozen=True)
class Program:
    """A proxy: its file in deploy/, how it is started, and what a test changes: its address and its collectors."""

    file: str
    command: tuple[str, ...]
    listens: tuple[str, str]
    collectors: tuple[str, str]


PROGRAMS = {
    "haproxy": Program(
        "haproxy.cfg",
        ("-f", "{file}"),
        ("bind :443", "bind 127.0.0.1:{port}"),
        ("server first 127.0.0.1:8000", "server first 127.0.0.1:8000\n    server second 127.0.0.1:{other}"),
    ),
    "nginx": Program(
        "nginx.conf",
        ("-c", "{file}", "-g", "{settings}"),
        ("listen 443", "listen 127.0.0.1:{port}"),
        ("server 127.0.0.1:8000;", "server 127.0.0.1:8000; server 127.0.0.1:{other};"),
    ),
    "caddy": Program(
        "Caddyfile",
        ("run", "--adapter", "caddyfile", "--config", "{file}"),
        (":443 {{", ":{port} {{\n\tbind 127.0.0.1"),
        ("{{$RETICENT_COLLECTOR:127.0.0.1:8000}}", "127.0.0.1:8000 127.0.0.1:{other}"),
    ),
}

FORWARDED = re.compile(rb"\r\n(?:x-forwarded-proto: https|host: collector)\r\n", re.IGNORECASE)
"""A line that is once in each request that a proxy makes: no client's, and no body here, has it."""


@dataclass
class Link:
    """One connection of a proxy to the collector, and what passed through it."""

    requests: bytearray = field(default_factory=bytearray)
    answers: bytearray = field(default_factory=bytearray)
    is_open: bool = True
    end: Callable[[], None] = lambda: None
    """Cuts it."""

    @property
    def forwarded(self) -> int:
        """The requests that the proxy meant to send."""
        return len(FORWARDED.findall(self.requests))

    @property
    def answered(self) -> int:
        """The requests that the collector saw and answered."""
        return len(statuses(bytes(self.answers)))


class Tap:
    """Stands between a proxy and a collector, passes everything on, and remembers it by connection."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = int(self._listener.getsockname()[1])
        self.links: list[Link] = []
        self.is_cut = False
        """Whether new connections end at once, as if nobody listened."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self.is_cut:
                    near.close()
                else:
                    threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        link = Link()
        self.links.append(link)
        with near, socket.create_connection(self._target) as far:
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.end = lambda: near.shutdown(socket.SHUT_RDWR)
            back = threading.Thread(target=_pass_on, args=(far, near, link.answers, link), daemon=True)
            back.start()
            _pass_on(near, far, link.requests, link)
            back.join()


def _pass_on(source: socket.socket, sink: socket.socket, kept: bytearray, link: Link) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            kept += data
            sink.sendall(data)
    link.is_open = False
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@dataclass
class Front:
    """A proxy that runs, as its clients see it."""

    name: str
    port: int
    tap: Tap
    certificate: Path
    trust: ssl.SSLContext
    folder: Path
    """Its configuration, all that it wrote, and what it printed."""

    def connect(self, source: str = "127.0.0.1", seconds: float = 10.0) -> ssl.SSLSocket:
        """A connection over TLS, from an address of this machine."""
        plain = socket.create_connection(("127.0.0.1", self.port), seconds, (source, 0))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return self.trust.wrap_socket(plain, server_hostname="127.0.0.1")
        except OSError:
            plain.close()
            raise


def installed(name: str) -> str | None:
    """The path of a program; those for the administrator are often not on the way of others."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextmanager
def proxy(
    name: str, collector: int, certificate: tuple[Path, Path], folder: Path, other: int | None = None
) -> Iterator[Front]:
    """
    The proxy with the configuration of deploy/, in which only addresses, paths and ports are others.

    With `other`, the port of a second collector.
    """
    program, tap = PROGRAMS[name], Tap(collector)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = int(unused.getsockname()[1])
    chain, key = certificate
    (folder / "telemetry.pem").write_text(chain.read_text() + key.read_text())
    text, (listens, instead) = (FILES / program.file).read_text(), program.listens
    if other is not None:
        one, two = program.collectors
        assert one.format() in text
        text = text.replace(one.format(), two.format(other=other))
    for documented, here in {
        listens.format(): instead.format(port=port),
        "127.0.0.1:8000": f"127.0.0.1:{tap.port}",
        "/run/nginx": str(folder),
        "/etc/reticent/tls/telemetry.pem": str(folder / "telemetry.pem"),
        "/etc/reticent/tls/chain.pem": str(chain),
        "/etc/reticent/tls/key.pem": str(key),
    }.items():
        text = text.replace(documented, here)
    assert str(tap.port) in text
    assert str(port) in text
    file = folder / program.file
    file.write_text(text)
    executable = installed(name)
    assert executable is not None
    settings = "daemon off;" + (" user root;" if os.getuid() == 0 else "")  # whose folder this is
    with (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(
            [executable, *(word.format(file=file, settings=settings) for word in program.command)],
            stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, cwd=folder,
            env={**os.environ, "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)},
        )  # fmt: skip
    front = Front(name, port, tap, chain, ssl.create_default_context(cafile=chain), folder)
    try:
        _wait_until_it_serves(front, process)
        yield front
    finally:
        process.terminate()
        process.wait(20)
        tap.close()


def _wait_until_it_serves(front: Front, process: subprocess.Popen[bytes]) -> None:
    for _ in range(400):
        assert process.poll() is None, (front.folder / "printed").read_text()
        with suppress(OSError), front.connect() as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            if connection.recv(1 << 16).startswith(b"HTTP/1.1 200"):
                return
        time.sleep(0.05)
    raise AssertionError((front.folder / "printed").read_text())
