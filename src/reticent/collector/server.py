"""The HTTP server: uvicorn, with a protocol of our own."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from reticent.collector.ingest import Limits
from reticent.collector.log import log
from reticent.collector.protocol import CollectorProtocol
from reticent.errors import ParameterError

MOST_CONNECTIONS = 10_000
KEPT_FILES = 64
"""Files that are kept back from connections: for the store, and for what the process itself has open."""


class Server(uvicorn.Server):
    """
    uvicorn's server; `started` is called with the address it listens on.

    It lets the process open as many files as the system allows, and takes no more connections than that
    leaves room for: a crowd is turned away by an answer, and the store never runs out of files.
    """

    def __init__(
        self, config: uvicorn.Config, limits: Limits, started: Callable[[str, int], None] | None = None
    ) -> None:
        super().__init__(config)
        self._limits = limits
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then tell; exit code 1 when that is not possible."""
        wanted, files = self.config.limit_concurrency or MOST_CONNECTIONS, raise_file_limit()
        self.config.limit_concurrency = min(wanted, room_for_connections(files))
        if self.config.limit_concurrency < wanted:
            log("few-files", files=files, connections=self.config.limit_concurrency)
        try:
            await super().startup(sockets=sockets)
        except SystemExit:
            raise SystemExit(1) from None
        if self.started and self._started is not None:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._started(host, port)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT ask for an end and get an orderly one: the process lives to say so."""
        with super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second; once a second, cut off whoever takes too long."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, CollectorProtocol):
                    connection.cut_off_if_slow(now, self._limits.seconds)
        return await super().on_tick(counter)


def make_server(
    app: Any,
    host: str,
    port: int,
    limits: Limits,
    tls: tuple[str, str] | None = None,
    started: Callable[[str, int], None] | None = None,
    most_connections: int = MOST_CONNECTIONS,
) -> Server:
    """A server for an application; `tls` is a certificate and a key file."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http=CollectorProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        log_level="error",  # a line for each request that is not HTTP would let strangers fill the disk
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=30,
        backlog=4096,
        limit_concurrency=most_connections,
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
    )
    return Server(config, limits, started)


def raise_file_limit() -> int:
    """Let this process open as many files as it may; returns how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # some systems say that there is no limit, and then have one
        return soft
    return hard if hard != resource.RLIM_INFINITY else sys.maxsize


def room_for_connections(files: int) -> int:
    """
    How many connections a process may have that may open so many files.

    >>> room_for_connections(20_000), room_for_connections(100)
    (19936, 50)
    """
    return max(files - KEPT_FILES, files // 2)


def parse_listen(text: str) -> tuple[str, int]:
    """
    HOST:PORT, with [::1]:PORT for IPv6.

    >>> parse_listen("127.0.0.1:8000"), parse_listen("[::1]:0")
    (('127.0.0.1', 8000), ('::1', 0))
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ParameterError("listen", "HOST:PORT", text, "for example 127.0.0.1:8000")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """
    Whether nobody but this machine can reach a host.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
