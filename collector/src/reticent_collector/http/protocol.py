"""
One connection of the server: strict HTTP/1.1 over httptools.

A report is answered from the parser's callbacks, without a task; other requests go through ASGI. Both use one
parser, so there is one reading of where a request ends. Requests on a connection are answered in order. What
could be read in more than one way is refused, and the connection is closed.
"""

from __future__ import annotations

import asyncio
import fcntl
import sys
import termios
from collections import deque
from functools import cached_property
from typing import Any

import httptools

from reticent_collector.http.ingest import ONE_ACCEPTED, Intake
from reticent_collector.http.limits import Connections
from reticent_collector.http.log import log_fault
from reticent_collector.http.problems import Accepted, ProblemError, response_of
from reticent_collector.http.requests import HEAD_TOO_LARGE, Exchange, Request

INGEST_PATH = b"/v1/reports"
TOO_MANY_BYTES = ProblemError(503, "busy", "Too many large bodies at once; try again.", retry_after=1)
STOPPING = ProblemError(503, "busy", "The collector is stopping; try again.", retry_after=1)


class CollectorProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, shared: Connections, loop: asyncio.AbstractEventLoop) -> None:
        self.shared = shared
        self.loop = loop
        self.transport: Any = None
        self._parser = httptools.HttpRequestParser(self)
        self._reading: Request | None = None  # the request whose bytes arrive
        self._head_complete = self._offers_upgrade = False
        self._current: Request | None = None  # the request that is answered next
        self._behind: deque[Request] = deque()  # those that arrived after it
        self._is_deaf = False  # whether further bytes are ignored
        self._is_half_closed = False  # whether the client has sent all it will
        self._said_all = False
        self._arrived = 0  # bytes of the arriving request, framing included
        self._repeated: tuple[bytes, int, Request] | None = None
        """The head of the last report, the length with its body, and what was read from it."""
        self.held = 0  # bytes of bodies in memory
        self.arriving_since: float | None = None
        """When the first byte of the request came that arrives; None between requests."""
        self._idle_since: float | None = None
        self._unread_since: tuple[float, int] | None = None
        """When the client last kept pace, and the bytes on their way to it then."""
        self.writable = asyncio.Event()

    @cached_property
    def _ingest(self) -> Intake | None:
        """The application's ingest path; the application has started by the first request."""
        return getattr(self.shared.app, "ingest", None)

    # Bytes come in

    def connection_made(self, transport: Any) -> None:
        """A client has connected and finished its TLS handshake."""
        self.transport = transport
        self.writable.set()
        self.arriving_since = self.loop.time()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended; a report waiting for its commit is committed all the same."""
        self.shared.all.discard(self)
        self._is_deaf = self._said_all = True
        self._repeated = self._reading = None
        self._behind.clear()
        if self._current is not None:
            self._current.parts = []  # parser and connection know each other: this one may stay for a while
            if self._current.exchange is not None:
                self._current.exchange.disconnect()
        self._release(self.held)
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        if self._is_deaf:
            return
        if self._reading is None and self._current is None and self._repeated is not None:
            head, length, request = self._repeated
            # The same bytes between two requests are read in the same way: only the body is new.
            if len(data) == length and data.startswith(head):
                self._take_again(request, data[len(head) :])
                return
        if self.arriving_since is None:
            self.arriving_since = self.loop.time()
            self._idle_since = None
        at_rest = self._reading is None and self._current is None
        self._arrived += len(data)
        self._feed(data)
        if at_rest:
            self._remember(data)
        limits = self.shared.limits
        if self._reading is not None:
            if not self._head_complete and self._arrived > limits.head:
                self.refuse(HEAD_TOO_LARGE)
            elif self._arrived > limits.head + 2 * limits.body:
                self.refuse(ProblemError(413, "too_large"))
        self._pause_or_resume()

    def _feed(self, data: bytes) -> None:
        try:
            while True:
                try:
                    return self._parser.feed_data(data)
                except httptools.HttpParserUpgrade as upgrade:
                    if self._is_deaf or self._reading is None:
                        return None
                    # The parser takes what follows for another protocol. The offer is ignored (RFC 9110,
                    # section 7.8): it reads the head again without it, and then the body.
                    data = self._reading.head_without_upgrade() + data[upgrade.args[0] :]
                    self._parser, self._reading = httptools.HttpRequestParser(self), None
        except httptools.HttpParserCallbackError as error:
            log_fault("internal-error", error.__context__ or error)
            self.refuse(ProblemError(500, "internal"))
        except httptools.HttpParserError:
            self.refuse(ProblemError(400, "bad_request"))

    def _remember(self, data: bytes) -> None:
        """Keep the head of a report if the bytes were one whole request: the next one may have the same."""
        request = self._current
        if request is None or request.admission is None or self._is_deaf:
            return
        length = data.find(b"\r\n\r\n") + 4
        if request.is_complete and length + request.size == len(data):
            self._repeated = data[:length], len(data), request

    def eof_received(self) -> bool:
        """The client sends no more, and may still read: its complete requests are answered."""
        self._is_deaf = self._is_half_closed = True
        cut, self._reading = self._reading, None
        if cut is not None and cut in self._behind:
            self._behind.remove(cut)
        is_tls = self.transport.get_extra_info("sslcontext") is not None  # which has no half of a connection
        return self._current not in (None, cut) and not self._said_all and not is_tls

    # The parser's callbacks

    def on_message_begin(self) -> None:
        """A request begins."""
        if not self._is_deaf:
            self._reading = Request()
            self._head_complete = self._offers_upgrade = False

    def on_url(self, target: bytes) -> None:
        """The target, or a part of it."""
        if self._reading is not None:
            self._reading.target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; those after a chunked body are ignored."""
        if self._reading is not None and not self._head_complete:
            self._reading.headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head is complete: check it, and begin unless other requests come first."""
        request = self._reading
        if request is None:
            return
        request.method, request.version = self._parser.get_method(), self._parser.get_http_version()
        self._head_complete = True
        problem = request.problem(self.shared.limits)
        if problem is not None:
            self.refuse(problem)
            return
        if self._parser.should_upgrade():
            self._offers_upgrade = True
            return
        request.keep_alive = self._parser.should_keep_alive()
        if request.version == "1.1":
            expected = [value.lower() for name, value in request.headers if name == b"expect"]
            request.expects = expected == [b"100-continue"]
        if self._current is None:
            self._begin(request)
        elif len(self._behind) < self.shared.limits.pipelined:
            self._behind.append(request)
        else:
            self._is_deaf, self._reading = True, None

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        request = self._reading
        if request is None:
            return
        request.size += len(body)
        if request.size > self.shared.limits.body:
            self.refuse(self.shared.limits.too_large())
        elif request.refusal is None and not (request.exchange and request.exchange.is_answered):
            request.parts.append(body)
            self.held += len(body)
            self.shared.hold(len(body))
            if request.exchange is not None:
                request.exchange.news.set()
            elif request is self._current:
                self._go_on(request)

    def on_message_complete(self) -> None:
        """The request is complete."""
        request = self._reading
        if request is None or self._offers_upgrade:
            return
        request.is_complete = True
        self._reading = self.arriving_since = None
        self._arrived = 0
        if not request.keep_alive:
            self._is_deaf = True
        if request.exchange is not None:
            request.exchange.news.set()
        elif request is self._current:
            self._go_on(request)

    # Answers

    def _begin(self, request: Request) -> None:
        """It is this request's turn; its body may still be arriving."""
        self._current = request
        app, ingest = self.shared.app, self._ingest
        if request.refusal is not None:
            self.finish(request.refusal)
        elif (
            ingest is None
            or request.target != INGEST_PATH
            or request.method != b"POST"
            or (app.cross_origin is not None and any(name == b"origin" for name, _ in request.headers))
        ):
            self._go_on(request)
        else:
            request.is_report = True
            try:
                request.admission = ingest.admit(request.headers)
            except ProblemError as problem:
                # Sent once the body was read, unless the body is too large or has not been sent.
                if problem.code == "too_large" or request.expects:
                    self.refuse(problem)
                    return
                request.refusal = problem
                self._release_body(request)
            if request.expects and not request.is_complete:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._go_on(request)

    def _go_on(self, request: Request) -> None:
        """More of the current request has arrived. The application gets a small body once it is complete."""
        if not request.is_report:
            if request.is_complete or request.expects or request.size > self.shared.limits.unread:
                request.exchange = Exchange(self, request)
                request.exchange.start(self.shared.app)
        elif not request.is_complete:
            return
        elif request.admission is None or self._ingest is None:
            self.finish(request.refusal or ProblemError(503, "unavailable"))
        else:
            parts = request.parts
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            self._release_body(request)
            self._ingest.take(request.admission, body, self.finish)

    def _take_again(self, request: Request, body: bytes) -> None:
        """A report whose head is byte for byte the one before it."""
        self._current, self._idle_since = request, None
        if self._ingest is None or request.admission is None:
            self.finish(ProblemError(503, "unavailable"))
            return
        try:
            request.admission = self._ingest.admit_again(request.admission, request.headers)
        except ProblemError as problem:
            self._repeated = None
            self.finish(problem)
        else:
            self._ingest.take(request.admission, body, self.finish)

    def finish(self, answer: Accepted | ProblemError) -> None:
        """Answer the current request without the application."""
        request = self._current
        if request is None or self._said_all:
            return
        is_last = self.is_last(request)
        response = ONE_RESPONSE if answer is ONE_ACCEPTED else response_of(answer)
        if is_last:
            response = response.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)
        if request.method == b"HEAD":
            response = response[: response.index(b"\r\n\r\n") + 4]
        self.transport.write(response)
        self.end_answer(is_last)

    def is_last(self, request: Request) -> bool:
        """Whether the connection ends with the response to this request."""
        return (
            not (request.keep_alive and request.is_complete)
            or (self._is_deaf and not self._behind)
            or self.shared.is_draining
            or not self.writable.is_set()
        )

    def end_answer(self, is_last: bool) -> None:
        """The response to the current request is written: continue with the next one, or close."""
        request, self._current = self._current, None
        if self._said_all:
            return
        if is_last:
            self._close_after_reading()
            return
        self._idle_since = self.loop.time()
        if request is not None and request.exchange is not None:
            self._release_body(request)  # what the application did not take: reading may have stopped for it
            self._pause_or_resume()
        if self._behind:
            self._begin(self._behind.popleft())
            self._pause_or_resume()

    def _close_after_reading(self) -> None:
        """Close, but read on for a while: closing with unread bytes resets the connection, and the response is lost."""
        self._is_deaf = self._said_all = True
        self.arriving_since = self._reading = None
        self._behind.clear()
        self._release(self.held)
        if self.transport.can_write_eof() and not self._is_half_closed and not self.transport.is_closing():
            self.transport.write_eof()
            self.transport.resume_reading()
            limits = self.shared.limits
            seconds = limits.arriving_seconds if self.shared.is_draining else limits.linger_seconds
            self.loop.call_later(seconds, self.transport.close)
        else:
            self.transport.close()

    def refuse(self, problem: ProblemError) -> None:
        """Answer the arriving request with a problem, after the responses before it, and close."""
        if self._said_all or self.transport is None:
            return
        self._is_deaf = True
        request, self._reading = self._reading or Request(), None
        request.refusal, request.keep_alive = problem, False
        if request is not self._current:
            self._release_body(request)
            if self._current is None:
                self._begin(request)
            elif request not in self._behind:
                self._behind.append(request)
        elif request.exchange is None:
            self._release_body(request)
            self.finish(problem)
        else:
            request.exchange.disconnect()
            if request.exchange.is_answered:  # one answer has begun: no second one
                self.transport.close()
            else:
                self.finish(problem)

    # Limits

    def shed(self) -> None:
        """Drop the bodies in memory: others need the room."""
        self.refuse(TOO_MANY_BYTES)
        if self.held:  # of requests that arrived in full and wait for their turn
            self._release(self.held)
            self.transport.abort()

    def taken(self, request: Request) -> bytes:
        """What arrived of a body since the last call: the application takes it."""
        body = b"".join(request.parts)
        self._release_body(request)
        self._pause_or_resume()
        return body

    def _release_body(self, request: Request) -> None:
        self._release(sum(map(len, request.parts)))
        request.parts = []

    def _release(self, size: int) -> None:
        size = min(size, self.held)
        self.held -= size
        self.shared.let_go(size)

    def _pause_or_resume(self) -> None:
        """Read on only while nothing that was read is waiting."""
        waits = self._current and self._current.exchange and self.held > self.shared.limits.unread
        if self._said_all or self.transport.is_closing():
            return
        if waits or self._behind:
            self.transport.pause_reading()
        elif not self.transport.is_reading():
            self.transport.resume_reading()
            if self.arriving_since is not None:
                self.arriving_since = self.loop.time()

    def pause_writing(self) -> None:
        """The client does not read its responses."""
        self.writable.clear()

    def resume_writing(self) -> None:
        """The client has read most of what waited for it."""
        self._unread_since = None
        self.writable.set()

    def cut_off_if_slow(self, now: float) -> None:
        """End a request that does not arrive in time, a response that is not read, an idle connection."""
        limits = self.shared.limits
        if self.transport is None:
            return  # it is at its TLS handshake, which has a limit of its own
        if self._reads_too_slowly(now):
            self.transport.abort()  # closing would wait for the client to take the rest
        elif self.arriving_since is not None and self.transport.is_reading():
            if now - self.arriving_since > limits.seconds:
                self.refuse(ProblemError(408, "timeout"))
        elif self._current is None and self._idle_since and now - self._idle_since > limits.idle_seconds:
            self.transport.close()

    def _reads_too_slowly(self, now: float) -> bool:
        """
        Whether bytes have waited for `seconds`, and the client took fewer than its share of them.

        The system's own buffer counts as well: it holds megabytes and makes room in large steps, so bytes leave
        this process far less evenly than the client reads them.
        """
        limits, since = self.shared.limits, self._unread_since
        waiting = self.transport.get_write_buffer_size()
        if not waiting:
            self._unread_since = None
            return False
        if since is not None and now - since[0] <= limits.seconds:
            return False
        waiting += _unsent(self.transport.get_extra_info("socket"))
        if since is not None and waiting > since[1] - limits.reading_rate * limits.seconds:
            return True
        self._unread_since = now, waiting
        return False

    # The end of the server

    @property
    def is_committing(self) -> bool:
        """Whether a complete report is still unanswered."""
        request = self._current
        return (
            request is not None
            and request.is_complete
            and request.target.partition(b"?")[0] == INGEST_PATH
            and not (request.exchange and request.exchange.is_answered)
        )

    def close_if_idle(self) -> None:
        """The server is stopping: close between two requests; a new connection may still send one."""
        if self.transport and self._idle_since is not None and not (self._current or self._reading):
            self.transport.close()

    def refuse_the_rest(self) -> None:
        """Stop waiting for requests that have not arrived in full."""
        if self._reading is not None:
            self.refuse(STOPPING)
        elif self.transport and self._current is None and not self._said_all:
            self.transport.close()


def _unsent(connection: Any) -> int:
    """Bytes in the system's buffer that the other side has not acknowledged; 0 where the system does not tell."""
    try:
        return int.from_bytes(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except (OSError, ValueError):  # it is closed by now
        return 0


ONE_RESPONSE = response_of(ONE_ACCEPTED)  # made once: the response to most requests
