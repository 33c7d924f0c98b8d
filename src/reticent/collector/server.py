"""The HTTP server: it listens, accepts, cuts off slow clients, and stops in good order."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from typing import Any

import uvloop

from reticent.collector.asgi import Lifespan
from reticent.collector.ingest import Limits
from reticent.collector.log import log, log_fault
from reticent.collector.problems import ProblemError
from reticent.collector.protocol import CollectorProtocol, Connections, response_of
from reticent.errors import ParameterError

MOST_CONNECTIONS = 10_000
KEPT_FILES = 64
"""Files that are kept back from connections: for the store, and for what the process itself has open."""
HANDSHAKE_SECONDS = 10.0
HALF_SECONDS = 3.0
"""How long a server that stops waits for requests that have arrived in part."""
ANSWER_SECONDS = 30.0
"""How long it waits for answers to those that have arrived."""
CROWD_LOG_SECONDS = 60.0

_TOO_MANY = response_of(
    ProblemError(503, "busy", "More clients are connected than can be; try again.", retry_after=5)
).replace(b"\r\n", b"\r\nconnection: close\r\n", 1)


class Server:
    """
    Serves an ASGI application, and takes reports for one that has an `ingest` attribute.

    It lets the process open as many files as the system allows, and takes no more connections than that
    leaves room for, counted from the moment they are accepted: a crowd is turned away, and the store never
    runs out of files.
    """

    def __init__(
        self,
        app: Any,
        address: tuple[str, int],
        limits: Limits,
        tls: ssl.SSLContext | None,
        started: Callable[[str, int], None] | None,
        most_connections: int,
    ) -> None:
        self._app = app
        self._address = address
        self._tls = tls
        self._on_start = started
        self._most = most_connections
        self.connections = Connections(app, limits)
        self.started = False
        """Whether it ever listened."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._crowd_logged = float("-inf")
        self._connecting: set[asyncio.Task[None]] = set()

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT or `stop`."""
        uvloop.run(self.serve())

    def stop(self) -> None:
        """Stop in good order; from any thread."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._stopping.set)
            except RuntimeError:  # it has stopped
                return

    async def serve(self) -> None:
        """Start the application, listen, and end with both in order."""
        self._loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.add_signal_handler(number, self._stopping.set)
        wanted, files = self._most, raise_file_limit()
        self._most = min(wanted, room_for_connections(files))
        if self._most < wanted:
            log("few-files", files=files, connections=self._most)
        lifespan = Lifespan(self._app)
        failure = await lifespan.start()
        if failure:
            log("start-failed", reason=failure)
            return
        try:
            listeners = await self._listen(*self._address)
        except OSError as error:
            log("start-failed", reason=f"cannot listen: {error.strerror}")
            await lifespan.stop()
            return
        tasks = [self._loop.create_task(self._accept(listener)) for listener in listeners]
        tasks.append(self._loop.create_task(self._look_after()))
        self.started = True
        if self._on_start is not None:
            self._on_start(*listeners[0].getsockname()[:2])
        await self._stopping.wait()
        for task in (*tasks, *self._connecting):
            task.cancel()
        for listener in listeners:
            listener.close()
        await self._drain()
        await lifespan.stop()

    async def _listen(self, host: str, port: int) -> list[socket.socket]:
        """A socket for each address that a name has."""
        listeners: list[socket.socket] = []
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, address in dict.fromkeys((entry[0], entry[4][:2]) for entry in found):
            try:
                listener = socket.create_server(address, family=family, backlog=4096)
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL and listeners:  # a machine without IPv6
                    continue
                for other in listeners:
                    other.close()
                raise
            listener.setblocking(False)
            listeners.append(listener)
        return listeners

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # no file is left, or the client has gone already
                await asyncio.sleep(0.1)
                continue
            if len(self.connections.all) >= self._most:
                self._turn_away(connection)
            else:
                protocol = CollectorProtocol(self.connections, loop)
                self.connections.all.add(protocol)  # counts from here on, through its handshake
                task = loop.create_task(self._connect(connection, protocol))
                self._connecting.add(task)
                task.add_done_callback(self._connecting.discard)
            await asyncio.sleep(0)  # a crowd at the door does not keep those inside waiting

    def _turn_away(self, connection: socket.socket) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._crowd_logged > CROWD_LOG_SECONDS:
            self._crowd_logged = now
            log("too-many-connections", connections=self._most)
        with connection:
            if self._tls is None:
                try:
                    connection.send(_TOO_MANY)
                except OSError:  # it has gone
                    return

    async def _connect(self, connection: socket.socket, protocol: CollectorProtocol) -> None:
        """Make a connection of an accepted socket, after its TLS handshake if there is one."""
        seconds = min(HANDSHAKE_SECONDS, self.connections.limits.seconds) if self._tls else None
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, connection, ssl=self._tls, ssl_handshake_timeout=seconds
            )
        except (OSError, asyncio.CancelledError):  # the handshake failed, or took too long
            if protocol.transport is None:
                self.connections.all.discard(protocol)
                connection.close()

    async def _look_after(self) -> None:
        """Once a second, cut off clients that take too long."""
        while True:
            await asyncio.sleep(1)
            now = asyncio.get_running_loop().time()
            for connection in list(self.connections.all):
                try:
                    connection.cut_off_if_slow(now)
                except Exception as error:  # the others are looked after all the same
                    log_fault("internal-error", error)

    async def _drain(self) -> None:
        """Let what is under way come to its answer; what has arrived in part gets little time for the rest."""
        self.connections.is_draining = True
        loop, everybody = asyncio.get_running_loop(), self.connections.all
        for connection in list(everybody):
            connection.drain()
        begin, hurried = loop.time(), False
        while everybody and loop.time() - begin < ANSWER_SECONDS:
            if not hurried and loop.time() - begin > HALF_SECONDS:
                hurried = True
                for connection in list(everybody):
                    connection.hurry()
            await asyncio.sleep(0.05)
        for connection in list(everybody):
            if connection.transport is not None:
                connection.transport.abort()


def make_server(
    app: Any,
    host: str,
    port: int,
    limits: Limits,
    tls: tuple[str, str] | None = None,
    started: Callable[[str, int], None] | None = None,
    most_connections: int = MOST_CONNECTIONS,
) -> Server:
    """
    A server for an application; `tls` is a certificate and a key file.

    `started` is called with the address it listens on, once it does.
    """
    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        context.set_alpn_protocols(["http/1.1"])
    return Server(app, (host, port), limits, context, started, most_connections)


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
