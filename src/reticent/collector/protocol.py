"""
The server's side of a connection: uvicorn's, with a short way for reports and a guard against slow clients.

uvicorn makes a task, a scope and an event for each request, which costs several times what a report does.
Here a request to the ingest path is answered from the parser's callbacks; every other one goes uvicorn's way.
The parser is the same for both (llhttp), so there is one reading of what a request is.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from reticent.collector.ingest import ONE_ACCEPTED, Accepted, Admission, Ingest, Limits
from reticent.collector.problems import ProblemError

INGEST_PATH = b"/v1/reports"
IDLE_SECONDS = 75.0
LINGER_SECONDS = 2.0
"""How long a connection stays open for reading after the last answer, so that the answer is not lost."""
SLOWEST_READING = 1024
"""Bytes a second of an answer that a client has to take at least."""

_HOST = re.compile(rb"[\w.~!$&'()*+,;=%:\[\]-]*", re.ASCII)
"""The characters of a host and a port (RFC 3986, section 3.2.2)."""


_HEAD_TOO_LARGE = ProblemError(431, "too_large", "The head of the request is too large.")
_NO_HOST = ProblemError(400, "bad_request", "A request has one Host header, and that names a host.")
_TOO_MANY = ProblemError(503, "busy", "More clients are connected than can be; try again.", retry_after=5)


def _response(answer: Accepted | ProblemError) -> bytes:
    lines = [b"HTTP/1.1 %d %s" % (answer.status, HTTPStatus(answer.status).phrase.encode())]
    return b"\r\n".join([*lines, *(b": ".join(header) for header in answer.headers), b"", answer.body])


def _last(response: bytes) -> bytes:
    """A response after which the connection is closed."""
    return response.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)


_ONE_ACCEPTED = _response(ONE_ACCEPTED)
"""Made once: most requests are answered by it."""


class CollectorProtocol(HttpToolsProtocol):
    """One connection."""

    parts: list[bytes] | None = None
    """The body of a report request so far; None while no such request is being read."""
    size = 0
    head_size = 0
    """Bytes of the head that is being read; -1 once it is complete."""
    arrived = 0
    """Bytes of the request that is being read, with all that is wrapped around its body."""
    admission: Admission | None = None
    refusal: ProblemError | None = None
    busy = False
    """Whether a report request waits for its commit."""
    keep_alive = True
    draining = False
    """Whether the server is stopping: the answer to what is under way is the last one."""
    said_all = False
    """Whether the last answer was given; whatever comes in after it is not looked at."""
    arriving_since: float | None = None
    """When the first byte of the request came that is being read; None between requests."""
    idle_since: float | None = None
    running: RequestResponseCycle | None = None
    """The request that the application is at, on the long way."""
    unread: tuple[float, int] | None = None
    """When the client last took its share of an answer, and the bytes that waited for it then."""

    @property
    def ingest(self) -> Ingest | None:
        """The ingest path, once the application has started."""
        ingest: Ingest | None = getattr(self.config.loaded_app, "ingest", None)
        return ingest

    @property
    def is_cross_origin(self) -> bool:
        """Whether pages of other origins may send reports; their requests go uvicorn's way."""
        return getattr(self.config.loaded_app, "cross_origin", None) is not None

    @property
    def limits(self) -> Limits:
        """What a request may bring."""
        return self.ingest.limits if self.ingest else Limits()

    def connection_made(self, transport: Any) -> None:
        """A client has connected: its first request had better come soon, unless it is one too many."""
        super().connection_made(transport)
        self.arriving_since = self.loop.time()
        most, self.limit_concurrency = self.limit_concurrency, None  # uvicorn would also refuse who is in
        if most is not None and len(self.connections) > most:
            self.connections.discard(self)
            self.said_all = True
            self.transport.write(_last(_response(_TOO_MANY)))
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended: tell it to the request that is running, not only to the last in a row."""
        super().connection_lost(exc)
        if self.running is not None and not self.running.response_complete:
            self.running.disconnected = True
            self.running.message_event.set()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        """Bytes came in."""
        if self.said_all:
            return
        if self.arriving_since is None:
            self.arriving_since = self.loop.time()
            self.idle_since = None
        if self.head_size >= 0:
            self.head_size += len(data)
        self.arrived += len(data)
        super().data_received(data)
        limits = self.limits
        if self.head_size > limits.head:
            self.cut_off(_HEAD_TOO_LARGE)
        elif self.arrived > limits.head + 2 * limits.body:
            self.cut_off(ProblemError(413, "too_large"))

    def on_message_begin(self) -> None:
        """A request begins; what uvicorn needs for it is made when it turns out to be uvicorn's."""
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header came; those after a body in chunks are not looked at."""
        if self.head_size >= 0:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole: decide which way the request goes."""
        ingest = self.ingest
        self._check_head()
        self.head_size = -1
        if self.busy or self.said_all:
            self.keep_alive = False  # more requests before the answer to this one: answer it, then close
            return
        if (
            ingest is None
            or self.url != INGEST_PATH
            or self.parser.get_method() != b"POST"
            or self.expect_100_continue
            or self.parser.should_upgrade()
            or (self.is_cross_origin and any(name == b"origin" for name, _ in self.headers))
            or (self.cycle is not None and not self.cycle.response_complete)
        ):
            self._go_the_long_way()
            return
        self.parts, self.size, self.admission, self.refusal = [], 0, None, None
        try:
            self.admission = ingest.admit(self.headers)
        except ProblemError as problem:
            self.refusal = problem
            if problem.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                self.cut_off(problem)

    def _check_head(self) -> None:
        """Refuse a head that is too large, or in doubt about its host (RFC 9112, section 3.2)."""
        if self.head_size > self.limits.head:  # perhaps of a body that came with it: look closer
            lengths = (len(name) + len(value) + len(": \r\n") for name, value in self.headers)
            if len(self.url) + sum(lengths) > self.limits.head:
                self.cut_off(_HEAD_TOO_LARGE)
                return
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) == 1:
            named = _HOST.fullmatch(hosts[0]) is not None
        else:
            named = not hosts and self.parser.get_http_version() != "1.1"  # before 1.1 it may do without
        if not named:
            self.cut_off(_NO_HOST)

    def _go_the_long_way(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body came."""
        if self.parts is None:
            if self.cycle is not None and not self.busy:
                super().on_body(body)
            return
        self.size += len(body)
        if self.refusal is None:
            self.parts.append(body)
            if self.ingest is not None and self.size > self.ingest.limits.body:
                self.parts.clear()
                self.refusal = self.ingest.too_large()
                self.cut_off(self.refusal)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self.arriving_since = None
        self.head_size = self.arrived = 0
        if self.parts is None:
            if self.cycle is not None and not self.busy:
                super().on_message_complete()
            return
        parts, self.parts = self.parts, None
        self.keep_alive = self.parser.should_keep_alive()
        self.busy = True
        ingest = self.ingest
        if self.refusal is not None or self.admission is None or ingest is None:
            self._finish(self.refusal or ProblemError(503, "unavailable"))
        else:
            ingest.take(self.admission, parts[0] if len(parts) == 1 else b"".join(parts), self._finish)

    def _finish(self, answer: Accepted | ProblemError) -> None:
        self.busy = False
        self.server_state.total_requests += 1
        if self.said_all or self.transport is None or self.transport.is_closing():
            return
        response = _ONE_ACCEPTED if answer is ONE_ACCEPTED else _response(answer)
        if self.keep_alive and not self.draining and not self.flow.write_paused:
            self.transport.write(response)
            self.idle_since = self.loop.time()
        else:
            self._say_last(response)

    def shutdown(self) -> None:
        """The server is stopping: close when nothing is under way."""
        self.draining = True
        if not self.busy and self.parts is None and not self.said_all:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self.cut_off(ProblemError(400, "bad_request"))

    def cut_off(self, problem: ProblemError) -> None:
        """Say why, and close; a report that waits for its commit gets its own answer first, and no other."""
        if self.busy:
            self.keep_alive = False
        elif self.said_all or self.transport is None or self.transport.is_closing():
            return
        elif self.cycle is not None and not (self.cycle.response_complete and self.head_size >= 0):
            self.transport.close()  # another answer is on its way, or was given: no second one
        else:
            self._say_last(_response(problem))

    def _say_last(self, response: bytes) -> None:
        """
        Answer, then close; what still comes in is thrown away for a while.

        Closing at once, with bytes unread, would reset the connection, and the client might never see why.
        """
        self.said_all = True
        self.arriving_since = None
        self.transport.write(_last(response))
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self.transport.close)
        else:
            self.transport.close()

    def resume_writing(self) -> None:
        """The client has taken most of what waited for it."""
        self.unread = None
        super().resume_writing()

    def cut_off_if_slow(self, now: float, seconds: float) -> None:
        """End a request that does not arrive in time, an answer that is not taken, an unused connection."""
        if self._reads_too_slowly(now, seconds):
            self.transport.abort()  # closing would wait for the client to take the rest
        elif self.arriving_since is not None and now - self.arriving_since > seconds:
            self.cut_off(ProblemError(408, "timeout"))
        elif self.idle_since is not None and now - self.idle_since > IDLE_SECONDS and not self.busy:
            self.transport.close()

    def _reads_too_slowly(self, now: float, seconds: float) -> bool:
        """Whether an answer waited for so long, and the client took less of it than it has to."""
        waiting = self.transport.get_write_buffer_size()
        if not waiting:
            self.unread = None
        elif self.unread is None:
            self.unread = now, waiting
        elif now - self.unread[0] > seconds:
            if waiting > self.unread[1] - SLOWEST_READING * seconds:
                return True
            self.unread = now, waiting
        return False
