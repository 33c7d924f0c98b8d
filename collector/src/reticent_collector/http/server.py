"""The HTTP server: accepts connections, cuts off slow clients, reloads its certificate, and stops in order."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

from reticent_collector.http.limits import Limits, ServerContext
from reticent_collector.http.listening import bind
from reticent_collector.http.log import log, log_fault, log_queue
from reticent_collector.http.problems import ProblemError, response_of
from reticent_collector.http.protocol import CollectorProtocol, ConnectionState, deadline_seconds
from reticent_collector.http.requests import ASGI, Message

KEPT_FILES = 64  # files kept from connections: for the store, and for the process itself
CROWD_LOG_SECONDS = 60.0

_TOO_MANY = response_of(ProblemError(503, "busy", "Too many connections; try again.", retry_after=5)).replace(
    b"\r\n", b"\r\nconnection: close\r\n", 1
)


class Server:
    """
    Serves an ASGI application, and takes reports for one with an `ingest` attribute.

    It raises the limit of open files as far as the system allows, and takes no more connections than that leaves room
    for, counted from accept on: a crowd is turned away, and the store never runs out of files.

    It listens at host and port once the application has started, or on `listeners` if given; then it calls `started`
    with its address. `tls` is a certificate and a key file.
    """

    def __init__(
        self,
        app: Any,
        host: str,
        port: int,
        limits: Limits,
        tls: tuple[str, str] | None = None,
        started: Callable[[str, int], None] | None = None,
        listeners: Sequence[socket.socket] = (),
    ) -> None:
        self._app = app
        self._listen: Callable[[], Sequence[socket.socket]] = lambda: listeners or bind(host, port)
        self._tls_files = tls
        self._on_start = started
        self._most = limits.connections
        self.context = ServerContext(app, limits)
        self._tls: ssl.SSLContext | None = None
        self._load_tls()
        self._deadlines = deadline_seconds(limits)
        self.started = False  # whether it ever listened
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._crowd_logged = float("-inf")
        self._connecting: set[asyncio.Task[None]] = set()
        self._reloading: asyncio.Task[None] | None = None

    def run(self, lifeline: int | None = None) -> None:
        """Serve until SIGTERM, SIGINT or `stop`, or until the other end of the pipe `lifeline` is closed."""
        log_queue.start()
        try:
            uvloop.run(self.serve(lifeline))
        finally:
            log_queue.stop()

    def stop(self) -> None:
        """Stop in order; from any thread."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._stopping.set)
            except RuntimeError:  # it has stopped
                return

    def _reload(self) -> None:
        """SIGHUP: load the certificate again, and what the application reads from files."""
        self.reload_tls()
        reload = getattr(self._app, "reload", None)
        if reload is not None:
            self._reloading = asyncio.get_running_loop().create_task(reload())

    def reload_tls(self) -> None:
        """Load the certificate and key again, for new connections; invalid files change nothing."""
        if self._tls_files is None:
            return
        try:
            self._load_tls()
        except (OSError, ValueError) as error:
            log("tls-kept", reason=f"{type(error).__name__}: the new certificate or key is not valid")
        else:
            log("tls-reloaded")

    def _load_tls(self) -> None:
        if self._tls_files is not None:
            self._tls = tls_context(*self._tls_files)
            self.context.figures.certificate_expires = certificate_end(Path(self._tls_files[0]).read_text())

    async def serve(self, lifeline: int | None = None) -> None:
        """Start the application, listen, and stop both in order."""
        loop = self._loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._stopping.set)
            loop.add_signal_handler(signal.SIGHUP, self._reload)
        if lifeline is not None:
            loop.add_reader(lifeline, self._stopping.set)
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
            listeners = self._listen()
        except OSError as error:
            log("start-failed", reason=f"cannot listen: {error.strerror}")
            await lifespan.stop()
            return
        for listener in listeners:
            listener.setblocking(False)
            loop.add_reader(listener, self._accept, listener)
        looking = loop.create_task(self._look_after())
        self.started = True
        log_queue.flush()  # what is said so far comes before the address
        if self._on_start is not None:
            address = listeners[0].getsockname()
            self._on_start(*(address[:2] if isinstance(address, tuple) else (address, 0)))
        await self._stopping.wait()
        looking.cancel()
        for listener in listeners:
            loop.remove_reader(listener)
            listener.close()  # those who wait to be accepted wait on where another process has the socket too
        await self._drain()
        if lifeline is not None:
            loop.remove_reader(lifeline)
        await lifespan.stop()

    def _accept(self, listener: socket.socket) -> None:
        """Accept one connection at a time: a crowd does not delay those already connected."""
        loop = asyncio.get_running_loop()
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # another process took it, or the client has gone
            return
        except OSError:  # no file is left
            loop.remove_reader(listener)
            loop.call_later(0.1, self._accept_again, listener)
            return
        connection.setblocking(False)
        if len(self.context.all) >= self._most:
            self._turn_away(connection)
        else:
            protocol = CollectorProtocol(self.context, loop)
            self.context.all.add(protocol)  # counts from here on, through its handshake
            task = loop.create_task(self._connect(connection, protocol))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    def _accept_again(self, listener: socket.socket) -> None:
        if not self._stopping.is_set():
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

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
        """Turn an accepted socket into a connection, after its TLS handshake if there is one."""
        limits = self.context.limits
        seconds = min(limits.handshake_seconds, limits.seconds) if self._tls else None
        try:
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, connection, ssl=self._tls, ssl_handshake_timeout=seconds
            )
        except (OSError, asyncio.CancelledError):  # the handshake failed, or took too long
            if protocol.transport is None:
                self.context.all.discard(protocol)
                connection.close()

    async def _look_after(self) -> None:
        """Every second, see to the deadlines of connections and give memory back."""
        while True:
            await asyncio.sleep(1)
            self.context.give_back()
            self._end_overdue()

    def _end_overdue(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in list(self.context.all):
            try:
                connection.end_if_overdue(now, self._deadlines[connection.state])
            except Exception as error:  # the others are looked after all the same
                log_fault("internal-error", error)

    async def _drain(self) -> None:
        """
        Answer what is under way, and end.

        A report being committed gets its response, however long that takes (within reason). Everything else has little
        time: a request to arrive in full, a page to be made and read.
        """
        connections = self.context.all
        limits = self.context.limits
        self.context.is_draining = True
        self._deadlines[ConnectionState.ENDING] = limits.arriving_seconds
        for connection in list(connections):
            connection.close_if_idle()
        await self._wait(lambda: not connections, limits.arriving_seconds)
        for task in self._connecting:
            task.cancel()
        for connection in list(connections):
            connection.refuse_the_rest()
        await self._wait(
            lambda: not any(one.state is ConnectionState.COMMITTING for one in connections),
            limits.answer_seconds,
        )
        await self._wait(lambda: not connections, limits.arriving_seconds)
        for connection in list(connections):
            if connection.transport is not None:
                connection.transport.abort()

    async def _wait(self, condition: Callable[[], bool], seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while not condition() and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)
            self._end_overdue()


make_server = Server


class Lifespan:
    """Sends startup and shutdown to an application."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message] = asyncio.Queue()

    async def _run(self) -> None:
        try:
            await self._app({"type": "lifespan", "asgi": ASGI}, self._to_app.get, self._from_app.put)
        except Exception as error:
            self._from_app.put_nowait(
                {"type": "lifespan.failed", "message": f"{type(error).__name__}: {error}"}
            )

    async def start(self) -> str:
        """Start the application; returns the reason of a failure, or ""."""
        self._task = asyncio.create_task(self._run())
        self._to_app.put_nowait({"type": "lifespan.startup"})
        message = await self._from_app.get()
        return "" if message["type"] == "lifespan.startup.complete" else str(message.get("message", "failed"))

    async def stop(self) -> None:
        """Shut the application down."""
        self._to_app.put_nowait({"type": "lifespan.shutdown"})
        await self._task


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """TLS with a certificate and its key, two files; raises `OSError` or `ValueError` when they do not match."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key, password="")  # there is no one to ask for a passphrase
    context.set_alpn_protocols(["http/1.1"])
    return context


def certificate_end(pem: str) -> float:
    """
    Until when the first certificate of a PEM file is valid, in Unix seconds; 0 when that cannot be read.

    Its outer parts are (RFC 5280): a sequence of the signed part and the signature; in the signed part an optional
    version, the serial number, the algorithm, the issuer, and the two ends of the validity.
    """
    start, end = pem.find(ssl.PEM_HEADER), pem.find(ssl.PEM_FOOTER)
    try:
        certificate = ssl.PEM_cert_to_DER_cert(pem[start : end + len(ssl.PEM_FOOTER)])
        parts = _der_parts(_der_parts(_der_parts(certificate)[0][1])[0][1])
        without_version = parts[1:] if parts[0][0] == _DER_VERSION else parts
        tag, text = _der_parts(without_version[3][1])[1]
        digits = text.decode("ascii")
        if tag == _DER_SHORT_TIME:  # two digits of the year, from 1950 to 2049
            digits = ("19" if digits >= "50" else "20") + digits
        return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except (ValueError, IndexError):
        return 0.0


_DER_VERSION = 0xA0
_DER_SHORT_TIME = 0x17


def _der_parts(data: bytes) -> list[tuple[int, bytes]]:
    """The elements of an ASN.1 sequence in DER, each with its tag."""
    parts = []
    while data:
        tag, length, start = data[0], data[1], 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(data[2:start])
        if start + length > len(data):
            raise ValueError("the certificate is cut off")
        parts.append((tag, data[start : start + length]))
        data = data[start + length :]
    return parts


def raise_file_limit() -> int:
    """Raise this process's limit of open files as far as allowed; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # some systems say that there is no limit, and then have one
        return soft
    return hard if hard != resource.RLIM_INFINITY else sys.maxsize


def room_for_connections(files: int) -> int:
    """
    How many connections a process with so many files may have.

    >>> room_for_connections(20_000), room_for_connections(100)
    (19936, 50)
    """
    return max(files - KEPT_FILES, files // 2)
