"""A request: its bytes so far, the checks that make its head unambiguous, and its way through an ASGI application."""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from reticent_collector.http.ingest import Admission
from reticent_collector.http.limits import Limits
from reticent_collector.http.log import log_fault
from reticent_collector.http.problems import Headers, ProblemError

if TYPE_CHECKING:
    from reticent_collector.http.protocol import CollectorProtocol

ASGI = {"version": "3.0", "spec_version": "2.3"}
Message = Any
AT_ONCE = 1 << 18  # bytes of a response that are written before the client has to read

_HOST = re.compile(rb"[\w.~!$&'()*+,;=%:\[\]-]*", re.ASCII)
"""The characters of a host and a port (RFC 3986, section 3.2.2)."""
_PATH = re.compile(rb'/[!"$-~]*')
_ABSOLUTE = re.compile(rb'https?://([^/?#@]+)(/[!"$-~]*)?', re.IGNORECASE)


def _refused(detail: str) -> ProblemError:
    return ProblemError(400, "bad_request", detail)


HEAD_TOO_LARGE = ProblemError(431, "too_large", "The head of the request is too large.")
NO_HOST = _refused("A request needs exactly one Host header with a valid host.")
BAD_FRAMING = _refused("A body needs one Content-Length, or one Transfer-Encoding: chunked, not both.")
BAD_TARGET = _refused("The target of a request must be a path, or http:// with a host and a path.")
BAD_VERSION = _refused("The HTTP version must be 1.1 or 1.0.")


class Request:
    """A request as far as it has arrived."""

    __slots__ = (
        *("admission", "exchange", "expects", "headers", "is_complete", "is_report", "keep_alive", "method"),
        *("parts", "refusal", "size", "target", "version"),
    )

    def __init__(self) -> None:
        self.method = self.target = b""
        self.version = "1.1"
        self.headers: Headers = []
        self.parts: list[bytes] = []  # of the body, as long as they are not handed on
        self.size = 0  # bytes of the body so far
        self.expects = False  # whether the client waits for 100 Continue before it sends the body
        self.is_complete = False
        self.is_report = False
        self.keep_alive = True
        self.admission: Admission | None = None  # of a report whose key and type are in order
        self.exchange: Exchange | None = None
        self.refusal: ProblemError | None = None

    def problem(self, limits: Limits) -> ProblemError | None:
        """Why the head is refused: too large, or servers might read it in different ways."""
        sizes = (len(name) + len(value) + len(": \r\n") for name, value in self.headers)
        if len(self.target) + sum(sizes) > limits.head:
            return HEAD_TOO_LARGE
        if self.version not in ("1.0", "1.1"):
            return BAD_VERSION
        hosts, lengths, codings = (
            [value for name, value in self.headers if name == wanted]
            for wanted in (b"host", b"content-length", b"transfer-encoding")
        )
        # Before 1.1 a request may do without a host.
        if len(hosts) > 1 or not (hosts or self.version == "1.0") or not all(map(_HOST.fullmatch, hosts)):
            return NO_HOST
        if len(lengths) > 1 or not all(map(bytes.isdigit, lengths)):
            return BAD_FRAMING
        if codings and (
            lengths or self.version == "1.0" or [value.lower() for value in codings] != [b"chunked"]
        ):
            return BAD_FRAMING
        return None if self._take_target() else BAD_TARGET

    def _take_target(self) -> bool:
        """A path; `http://host/path`, whose host replaces the header's; `*` for OPTIONS (RFC 9112, 3.2)."""
        if self.method == b"CONNECT":
            return False
        if _PATH.fullmatch(self.target):
            return True
        absolute = _ABSOLUTE.fullmatch(self.target)
        if absolute is None or not _HOST.fullmatch(absolute[1]):
            return self.target == b"*" and self.method == b"OPTIONS"
        self.target = absolute[2] or b"/"
        others = [header for header in self.headers if header[0] != b"host"]
        self.headers = [(b"host", absolute[1]), *others]
        return True

    def head_without_upgrade(self) -> bytes:
        """The head again, without the header that offers another protocol."""
        lines = [b": ".join(header) for header in self.headers if header[0] != b"upgrade"]
        start = b"%s %s HTTP/%s" % (self.method, self.target, self.version.encode())
        return b"\r\n".join([start, *lines, b"", b""])


class Exchange:
    """One request and the application's response to it."""

    def __init__(self, connection: CollectorProtocol, request: Request) -> None:
        self._connection = connection
        self._request = request
        self.news = asyncio.Event()  # set when more of the body has arrived, or the client is gone
        self.is_answered = False  # whether the response has begun
        self._is_over = False
        self._is_gone = False
        self._is_read = False  # whether the application has the whole body: its next message is a disconnect
        self._is_last = False
        self._has_body = request.method != b"HEAD"
        self._is_chunked = False
        self._left: int | None = None
        """Bytes of the answer that its length promises and that have not come."""

    def start(self, app: Any) -> None:
        """Run the application in a task of its own."""
        self._task = self._connection.loop.create_task(self._run(app))

    def disconnect(self) -> None:
        """The client is gone, or its request was refused meanwhile."""
        self._is_gone = True
        self.news.set()

    async def _run(self, app: Any) -> None:
        try:
            await app(self._scope(), self._receive, self._send)
            if not self._is_over and not self._is_gone:
                raise RuntimeError("the application did not finish its response")
        except Exception as error:
            log_fault("internal-error", error)
            if self._is_gone or self._is_over:
                return
            self._is_gone = True
            if self.is_answered:  # too late to say so: the answer is seen to be cut off
                self._connection.transport.abort()
            else:
                self._connection.finish(ProblemError(500, "internal"))

    def _scope(self) -> dict[str, Any]:
        request, transport = self._request, self._connection.transport
        path, _, query = request.target.partition(b"?")
        address = transport.get_extra_info("sockname")
        return {
            "type": "http",
            "asgi": ASGI,
            "http_version": request.version,
            "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
            "method": request.method.decode("ascii"),
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": request.headers,
            "server": tuple(address[:2]) if isinstance(address, tuple) else None,
            "client": None,  # no address is ever looked at
        }

    async def _receive(self) -> Message:
        request = self._request
        if request.expects and not request.is_complete and not self.is_answered and not self._is_gone:
            request.expects = False
            self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self._is_gone or self._is_over or request.parts):
            if request.is_complete and not self._is_read:
                break
            self.news.clear()
            await self.news.wait()
        if self._is_gone or self._is_over:
            return {"type": "http.disconnect"}
        body = self._connection.taken(request)
        self._is_read = request.is_complete
        return {"type": "http.request", "body": body, "more_body": not request.is_complete}

    async def _send(self, message: Message) -> None:
        if self._is_gone:
            return
        if message["type"] == "http.response.start" and not self.is_answered:
            self._send_head(message["status"], message.get("headers", ()))
        elif message["type"] == "http.response.body" and self.is_answered and not self._is_over:
            # In pieces: of one large write, TLS would hide from the connection how much of it the client has read.
            body, more = message.get("body", b""), message.get("more_body", False)
            for end in range(AT_ONCE, len(body) + AT_ONCE, AT_ONCE) if body else (0,):
                self._send_body(body[end - AT_ONCE : end], more or end < len(body))
                await self._connection.writable.wait()
                if self._is_gone:
                    return
        else:
            raise RuntimeError(f"{message['type']} out of order")

    def _send_head(self, status: int, headers: Any) -> None:
        request = self._request
        lines = [b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode())]
        for name, value in headers:
            if b"\r" in name + value or b"\n" in name + value:
                raise RuntimeError("a response header contains a line break")
            if name.lower() == b"content-length":
                self._left = int(value)
            lines.append(b"%s: %s" % (name, value))
        self._has_body = self._has_body and status >= 200 and status not in (204, 304)
        self._is_last = self._connection.is_last(request)
        if self._has_body and self._left is None:
            self._is_chunked = request.version == "1.1"
            self._is_last = self._is_last or not self._is_chunked
            if self._is_chunked:
                lines.append(b"transfer-encoding: chunked")
        if self._is_last:
            lines.append(b"connection: close")
        elif request.version == "1.0":
            lines.append(b"connection: keep-alive")
        self.is_answered = True
        self._connection.transport.write(b"\r\n".join([*lines, b"", b""]))

    def _send_body(self, body: bytes, more: bool) -> None:
        if not self._has_body:
            body = b""
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the response body does not match its content-length")
        elif self._is_chunked:
            body = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
            body += b"" if more else b"0\r\n\r\n"
        if body:
            self._connection.transport.write(body)
        if not more:
            self._is_over = True
            self.news.set()
            self._connection.end_answer(self._is_last)
