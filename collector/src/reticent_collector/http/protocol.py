"""
One connection of the server: strict HTTP/1.1 over httptools, one request at a time.

A connection is in one state. Each state has one deadline, which begins when the state does; it is looked at every
second. `Limits` has the figures.

    state       the connection                          ends with                  deadline           at the deadline
    CONNECTING  is accepted, and at its TLS handshake   NEW                        handshake_seconds  closed
    NEW         has sent nothing yet                    a first byte: HEAD         seconds            408, ENDING
    HEAD        sends the head of a request             an empty line: BODY        seconds            408, ENDING
    BODY        sends the body, if any                  its last byte: COMMITTING  that of HEAD       408, ENDING
                                                        for reports, or ANSWERING
    COMMITTING  waits until its reports are durable     the response               answering_seconds  503, ENDING
    ANSWERING   waits for the application               the response               answering_seconds  503, or reset
    SENDING     reads what the application has written  it has: ANSWERING          reading_rate,      reset
                so far, more than a buffer holds                                   over seconds
    FLUSHING    reads the rest of a complete response   it has: IDLE or ENDING     as SENDING         reset
    IDLE        is between two requests                 a first byte: HEAD         idle_seconds       closed
    ENDING      has its last response; what it sends    the client closes          linger_seconds     closed
                is thrown away
    CLOSED      is gone

After a response small enough for the buffers of the system the next state is IDLE, or ENDING after the last one.

There is no pipelining: when anything but empty lines comes before the response, that response is the last one. What
could be read in more than one way is refused, and the connection ends. A client that sends no more and still reads
gets the response to a complete request.

Every byte of a request counts in a `Budget` until it is answered: first in that of strangers, then, for reports with a
valid key, in that of reports. Bytes of a response count until the client has read them.

Reports are handed to the application's `ingest` without a task, whatever the query or the origin; every other request
goes through ASGI. Both use one parser, so there is one reading of where a request ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import math
import sys
import termios
from enum import Enum, auto
from functools import cached_property
from typing import Any

import httptools

from reticent_collector.http.ingest import ONE_ACCEPTED, Intake
from reticent_collector.http.limits import LARGE, Budget, Limits, ServerContext
from reticent_collector.http.log import log_fault
from reticent_collector.http.problems import Acknowledgement, ProblemError, response_of
from reticent_collector.http.requests import (
    CLOSE,
    HEAD_TOO_LARGE,
    LINGER,
    NEXT,
    TOO_MANY_HEADERS,
    Afterwards,
    Exchange,
    Progress,
    Request,
)

INGEST_PATH = "/v1/reports"
TOO_MANY_BYTES = ProblemError(503, "busy", "Too many large bodies at once; try again.", retry_after=1)
STOPPING = ProblemError(503, "busy", "The collector is stopping; try again.", retry_after=1)
HIGH_WATER = 1 << 14  # bytes of a response in this process from which on the client has to read first


class ConnectionState(Enum):
    """What a connection is at; the docstring of this module has the table."""

    CONNECTING = auto()
    NEW = auto()
    HEAD = auto()
    BODY = auto()
    COMMITTING = auto()
    ANSWERING = auto()
    SENDING = auto()
    FLUSHING = auto()
    IDLE = auto()
    ENDING = auto()
    CLOSED = auto()


# Looked up once: an attribute of an Enum is slow to find.
HEAD = ConnectionState.HEAD
BODY = ConnectionState.BODY
COMMITTING = ConnectionState.COMMITTING
ANSWERING = ConnectionState.ANSWERING
IDLE = ConnectionState.IDLE
ENDING = ConnectionState.ENDING
AT_REST = (ConnectionState.NEW, ConnectionState.IDLE)
ARRIVING = (ConnectionState.HEAD, ConnectionState.BODY)
UNDER_WAY = (
    ConnectionState.COMMITTING,
    ConnectionState.ANSWERING,
    ConnectionState.SENDING,
    ConnectionState.FLUSHING,
)
UNREAD = (ConnectionState.SENDING, ConnectionState.FLUSHING)


def deadline_seconds(limits: Limits) -> dict[ConnectionState, float]:
    """
    How long a connection may be in each state.

    >>> deadline_seconds(Limits()).keys() == set(ConnectionState)
    True
    """
    return {
        ConnectionState.CONNECTING: math.inf,  # the event loop ends a handshake
        ConnectionState.NEW: limits.seconds,
        ConnectionState.HEAD: limits.seconds,
        ConnectionState.BODY: limits.seconds,
        ConnectionState.COMMITTING: limits.answering_seconds,
        ConnectionState.ANSWERING: limits.answering_seconds,
        ConnectionState.SENDING: limits.seconds,
        ConnectionState.FLUSHING: limits.seconds,
        ConnectionState.IDLE: limits.idle_seconds,
        ConnectionState.ENDING: limits.linger_seconds,
        ConnectionState.CLOSED: math.inf,
    }


class CollectorProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, context: ServerContext, loop: asyncio.AbstractEventLoop) -> None:
        self.context = context
        self.loop = loop
        self.transport: Any = None
        self.state = ConnectionState.CONNECTING
        self.since = loop.time()  # when its deadline began
        self._parser: Any = None
        self._request: Request | None = None  # from its first byte to the last of its response
        self._repeated: tuple[bytes, int, Request] | None = None
        """The head of the last report, the length with its body, and what was read from it."""
        self.budget = context.strangers
        self.held = 0  # bytes that count in the budget
        self._complete_since = self.since  # when the last byte of its request came
        self._unread = 0  # bytes on their way to the client when the deadline for reading them began
        self.writable = asyncio.Event()

    @cached_property
    def _ingest(self) -> Intake | None:
        """The application's ingest path; the application has started by the first request."""
        return getattr(self.context.app, "ingest", None)

    def _enter(self, state: ConnectionState) -> None:
        self.state = state
        self.since = self.loop.time()

    # Bytes come in

    def connection_made(self, transport: Any) -> None:
        """A client has connected and finished its TLS handshake."""
        self.transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER, low=0)
        self.writable.set()
        self._parser = httptools.HttpRequestParser(self)
        self._enter(ConnectionState.NEW)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended; a report waiting for its commit is committed all the same."""
        self.context.all.discard(self)
        if self.state is not COMMITTING:  # its bytes are in memory until the commit
            self._release()
        self._enter(ConnectionState.CLOSED)
        self._forget()
        self._parser = None  # it knows this connection, too: only a collection of garbage would free them
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        if self.state is IDLE and self._repeated is not None:
            head, length, request = self._repeated
            # The same bytes between two requests are read in the same way: only the body is new.
            reports = self.context.reports
            if len(data) == length and data.startswith(head) and reports.held + length <= reports.limit:
                self._take_again(request, data, len(head))
                return
        if self.state in UNDER_WAY:
            if data.strip(b"\r\n"):
                self.end_after(self._request)
        elif self.state in AT_REST:
            data = data.lstrip(b"\r\n")
            if data:
                self._enter(HEAD)
                self.budget = self.context.strangers
                self._request = Request()
                self._read(self._request, data)
                self._remember(data)
                self._begin()
        elif self.state in ARRIVING and self._request is not None:
            self._read(self._request, data)
            self._begin()

    def _read(self, request: Request, data: bytes) -> None:
        """Read more of a request; then it is complete, refused, or more has to come."""
        request.arrived += len(data)
        self._feed(data)
        if request.refusal is None and self.state in (HEAD, BODY, ANSWERING):
            self._hold(self.budget, self.held + len(data))  # it may be the largest of too many, and give up
        limits = self.context.limits
        if self.state is HEAD and request.arrived > limits.head:
            self._refuse(HEAD_TOO_LARGE)
        elif self.state is BODY and request.arrived > limits.head + 2 * self._most(request):
            self._refuse(request.refusal or limits.too_large(self._most(request)))
        elif self.state is BODY and request.expects:
            if request.refusal is not None:
                self._refuse(request.refusal)
            else:
                request.expects = False
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _feed(self, data: bytes) -> None:
        try:
            while True:
                try:
                    return self._parser.feed_data(data)  # type: ignore[no-any-return]
                except httptools.HttpParserUpgrade as upgrade:
                    if self.state is not HEAD or self._request is None:
                        return None
                    # The parser takes what follows for another protocol. The offer is ignored (RFC 9110,
                    # section 7.8): it reads the head again without it, and then the body.
                    data = self._request.head_without_upgrade() + data[upgrade.args[0] :]
                    self._parser = httptools.HttpRequestParser(self)
                    self._request.target = b""
                    self._request.headers = []
        except httptools.HttpParserCallbackError as error:
            log_fault("internal-error", error.__context__ or error)
            self._refuse(ProblemError(500, "internal"))
        except httptools.HttpParserError:
            if self.state in ARRIVING:
                self._refuse(ProblemError(400, "bad_request"))
            else:
                self.end_after(self._request)

    def _remember(self, data: bytes) -> None:
        """Keep the head of reports if the bytes were one whole request: the next one may have the same."""
        request = self._request
        if self.state is not ANSWERING or request is None or request.admission is None:
            return
        length = data.find(b"\r\n\r\n") + 4
        if request.afterwards is NEXT and length + request.size == len(data):
            self._repeated = data[:length], len(data), request

    def eof_received(self) -> bool:
        """The client sends no more, and may still read: its complete request is answered."""
        request = self._request
        if self.state not in UNDER_WAY or request is None:
            return False
        request.afterwards = CLOSE
        if request.exchange is not None:
            request.exchange.disconnect()
        return self.transport.get_extra_info("sslcontext") is None  # which has no half of a connection

    # The parser's callbacks

    def on_message_begin(self) -> None:
        """A request begins; not the first one that came with these bytes, where one is complete."""
        if self.state is ANSWERING:
            self.end_after(self._request)

    def on_url(self, target: bytes) -> None:
        """The target, or a part of it."""
        if self.state is HEAD and self._request is not None:
            self._request.target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; those after a chunked body are ignored."""
        if self.state is HEAD and self._request is not None:
            if len(self._request.headers) >= self.context.limits.headers:
                self._refuse(TOO_MANY_HEADERS)
            else:
                self._request.headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head is complete: check it, and see what its body may be."""
        request = self._request
        if self.state is not HEAD or request is None:
            return
        request.method = self._parser.get_method()
        request.version = self._parser.get_http_version()
        limits = self.context.limits
        problem = request.problem(limits)
        if problem is not None:
            self._refuse(problem)
            return
        if self._parser.should_upgrade():
            return  # the head is read again without that offer
        if not self._parser.should_keep_alive():
            request.afterwards = LINGER
        if request.method == b"POST" and request.path == INGEST_PATH and self._ingest is not None:
            self._admit(request, self._ingest)
        if request.length > self._most(request):
            self._refuse(request.refusal or limits.too_large(self._most(request)))
            return
        self.state = BODY  # with the deadline of the head

    def _admit(self, request: Request, ingest: Intake) -> None:
        request.lines = lines_for_pages(request, getattr(self.context.app, "allowed_origins", ()))
        try:
            request.admission = ingest.admit(request.headers)
        except ProblemError as problem:
            request.refusal = problem  # the answer, once the body was read and thrown away
        else:
            self._hold(self.context.reports, self.held)

    def _most(self, request: Request) -> int:
        """The most bytes that the body of a request may have."""
        limits = self.context.limits
        return limits.body if request.admission is not None else min(limits.small_body, limits.body)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        request = self._request
        if self.state is not BODY or request is None:
            return
        request.size += len(body)
        if request.size > self._most(request):
            self._refuse(request.refusal or self.context.limits.too_large(self._most(request)))
        elif request.refusal is None:
            request.body.write(body)

    def on_message_complete(self) -> None:
        """The request is complete; it is answered when all that came with it has been looked at."""
        if self.state is BODY:
            self._enter(ANSWERING)
            self._complete_since = self.since

    # Responses

    def _begin(self) -> None:
        """Answer a request if it is complete."""
        request = self._request
        if self.state is not ANSWERING or request is None:
            return
        if request.refusal is not None:
            self.answer(request.refusal)
        elif request.admission is not None and self._ingest is not None:
            body = request.body.getvalue()
            request.body.close()
            self.state = COMMITTING
            self._ingest.take(request.admission, body, self.finish)
        else:
            request.exchange = Exchange(self, request)
            request.exchange.start(self.context.app)

    def _take_again(self, request: Request, data: bytes, start: int) -> None:
        """Take reports whose head is byte for byte the one before it."""
        self._request = request
        self.state = COMMITTING
        self.since = self._complete_since = self.loop.time()
        ingest = self._ingest
        if ingest is None or request.admission is None:
            self.answer(ProblemError(503, "unavailable"))
            return
        try:
            request.admission = ingest.admit_again(request.admission, request.headers)
        except ProblemError as problem:
            self._repeated = None
            self.answer(problem)
            return
        self.held = len(data)
        self.budget = self.context.reports
        self.budget.held += self.held
        ingest.take(request.admission, data[start:], self.finish)

    def finish(self, answer: Acknowledgement | ProblemError) -> None:
        """The fate of the reports is known; the client may have gone."""
        self._release()
        request = self._request
        if self.state is not COMMITTING or request is None:
            return
        if answer is not ONE_ACCEPTED or request.lines or self.is_last(request):
            self.answer(answer)
            return
        # What nearly every report gets: the same bytes, and the connection waits for the next one.
        self.transport.write(ONE_RESPONSE)
        now = self.loop.time()
        self.context.figures.reports.add(now - self._complete_since)
        if self.writable.is_set():
            self._request = None
            self.state = IDLE
            self.since = now
        else:
            self._await_reader()

    def answer(self, answer: Acknowledgement | ProblemError) -> None:
        """Answer the request without the application."""
        request = self._request
        if request is None:
            return
        response = self._response(answer, request)
        self.transport.write(response)
        self.end_answer(len(response))

    def _response(self, answer: Acknowledgement | ProblemError, request: Request) -> bytes:
        response = response_of(answer)
        lines = request.lines
        if self.is_last(request):
            self.end_after(request)
            lines = b"connection: close\r\n" + lines
        start, _, rest = response.partition(b"\r\n")
        response = start + b"\r\n" + lines + rest
        if request.method == b"HEAD":
            response = response[: response.index(b"\r\n\r\n") + 4]
        return response

    def is_answering(self, request: Request) -> bool:
        """Whether the application's response to a request is awaited."""
        return self._request is request and self.state in (ANSWERING, ConnectionState.SENDING)

    def is_last(self, request: Request) -> bool:
        """Whether the connection ends with the response to this request."""
        return request.afterwards is not NEXT or self.context.is_draining

    def end_after(self, request: Request | None) -> None:
        """End the connection with the response to a request."""
        if request is not None and request.afterwards is NEXT:
            request.afterwards = LINGER

    def hold_response(self, size: int) -> None:
        """Count bytes of the application's response instead of those of the request."""
        self._hold(self.context.responses, size)

    def end_answer(self, size: int = 0) -> None:
        """The response is written; `size` are bytes of it that are not counted yet."""
        if self.state is COMMITTING:
            self.context.figures.reports.add(self.loop.time() - self._complete_since)
        elif self.state in UNDER_WAY:
            self.context.figures.other.add(self.loop.time() - self._complete_since)
        if self.writable.is_set():
            self._end_request()
            return
        self._await_reader()
        if size:
            self._hold(self.context.responses, size)

    def _await_reader(self) -> None:
        """The response is complete, and the client has to read the rest of it."""
        self._enter(ConnectionState.FLUSHING)
        self._unread = self._bytes_on_their_way()

    def _end_request(self) -> None:
        """The response is read, or small: the request is over."""
        request = self._request
        if request is None or request.afterwards is not NEXT:
            self._end(CLOSE if request is None else request.afterwards)
            return
        if self.held:
            self._release()
        self._request = None
        self.state = IDLE
        self.since = self.loop.time()

    def _end(self, afterwards: Afterwards) -> None:
        """Close; linger if the client may still send: closing with unread bytes resets the connection."""
        self._release()
        self._forget()
        self._enter(ENDING)
        lingers = afterwards is LINGER and self.transport.can_write_eof()
        if lingers and not self.transport.is_closing():
            self.transport.write_eof()
        else:
            self.transport.close()

    def abort(self) -> None:
        """Reset the connection: too late for a response, or nobody reads it."""
        self._release()
        self._forget()
        self._enter(ENDING)
        self.transport.abort()

    def _forget(self) -> None:
        """Let go of the request; the application hears that nobody waits for its response."""
        request = self._request
        self._request = None
        self._repeated = None
        if request is not None and request.exchange is not None:
            request.exchange.disconnect()

    def _refuse(self, problem: ProblemError) -> None:
        """Answer the request with a problem, and end the connection."""
        if self.state in (ENDING, ConnectionState.CLOSED):
            return
        if self._request is None:
            self._request = Request()
        exchange = self._request.exchange
        if exchange is not None and exchange.progress is not Progress.NONE:  # no second response
            self.abort()
            return
        self.end_after(self._request)
        self.answer(problem)

    # Limits

    def _hold(self, budget: Budget, size: int) -> None:
        """Hold so many bytes of one kind, instead of what was held before."""
        self._release()
        self.budget = budget
        self.held = size
        budget.held += size
        if budget.held > budget.limit:
            self.context.make_room(budget)

    def _release(self) -> None:
        """Bytes of a request or a response are no longer needed."""
        self.budget.held -= self.held
        if self.held > LARGE:
            self.context.has_let_go = True
        self.held = 0

    @property
    def can_give_up(self) -> bool:
        """Whether ending it frees what it holds, and takes back no promise: a report at its commit stays."""
        return self.state in ARRIVING or self.state in UNREAD or self.state is ANSWERING

    def give_up(self) -> None:
        """Let go of its bytes: others need the room."""
        if self.state in UNREAD:
            self.abort()
        else:
            self._release()
            self._refuse(TOO_MANY_BYTES)

    def pause_writing(self) -> None:
        """The client has to read first."""
        self.writable.clear()
        if self.state is ANSWERING:
            self._enter(ConnectionState.SENDING)
            self._unread = self._bytes_on_their_way()

    def resume_writing(self) -> None:
        """The client has read what waited for it."""
        self.writable.set()
        if self.state is ConnectionState.SENDING:
            self._enter(ANSWERING)
        elif self.state is ConnectionState.FLUSHING:
            self._end_request()

    def end_if_overdue(self, now: float, seconds: float) -> None:
        """See to the deadline of its state, which is so many seconds."""
        if now - self.since <= seconds:
            return
        if self.state is ConnectionState.NEW or self.state in ARRIVING:
            self._refuse(ProblemError(408, "timeout"))
        elif self.state in (COMMITTING, ANSWERING):
            self._refuse(ProblemError(503, "unavailable", retry_after=5))
        elif self.state in UNREAD:
            self._end_if_unread(seconds)
        elif self.state is IDLE:
            self._end(CLOSE)
        elif self.state is ENDING:
            self._end_lingering()

    def _end_if_unread(self, seconds: float) -> None:
        """
        Reset the connection unless the client has read its share.

        The system's own buffer counts as well: it holds megabytes and makes room in large steps, so bytes leave
        this process far less evenly than the client reads them.
        """
        waiting = self._bytes_on_their_way()
        if not self.transport.get_write_buffer_size():
            self._end_request()
        elif waiting > self._unread - self.context.limits.reading_rate * seconds:
            self.abort()
        else:
            self._enter(self.state)
            self._unread = waiting

    def _end_lingering(self) -> None:
        if self.transport.is_closing():
            self.transport.abort()  # closing would wait for the client to take the rest
        elif self.transport.get_write_buffer_size():
            # The last response is small, and waits behind others that the client has not read.
            self._request = Request()
            self._request.afterwards = CLOSE
            self._enter(ConnectionState.FLUSHING)
            self._unread = self._bytes_on_their_way()
        else:
            self._enter(ENDING)
            self.transport.close()

    def _bytes_on_their_way(self) -> int:
        """Bytes of responses that the other side has not acknowledged, as far as the system tells."""
        return int(self.transport.get_write_buffer_size()) + _unsent(self.transport.get_extra_info("socket"))

    # The end of the server

    def close_if_idle(self) -> None:
        """The server is stopping: close between two requests; a new connection may still send one."""
        if self.state is IDLE:
            self._end(CLOSE)

    def refuse_the_rest(self) -> None:
        """Stop waiting for requests that have not arrived in full."""
        if self.state in ARRIVING:
            self._refuse(STOPPING)
        elif self.state in AT_REST:
            self._end(CLOSE)


def lines_for_pages(request: Request, origins: Any) -> bytes:
    """Header lines that let a page of an allowed origin read the response (CORS); none for others."""
    for name, value in request.headers:
        if name == b"origin" and value in origins:
            return (
                b"access-control-allow-origin: %s\r\n"
                b"access-control-expose-headers: retry-after\r\nvary: Origin\r\n" % value
            )
    return b""


def _unsent(connection: Any) -> int:
    """Bytes in the system's buffer that the other side has not acknowledged; 0 where the system does not tell."""
    try:
        return int.from_bytes(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except (OSError, ValueError):  # it is closed by now
        return 0


ONE_RESPONSE = response_of(ONE_ACCEPTED)  # made once: the response to most requests
