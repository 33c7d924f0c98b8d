"""A request: what has arrived of it, the checks that make its head unambiguous, and its way through an application."""

from __future__ import annotations

import asyncio
import re
from enum import Enum, auto
from http import HTTPStatus
from io import BytesIO
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
AT_ONCE = 1 << 16  # bytes of a response that are written before the client has to read

_HOST = re.compile(rb"[\w.~!$&'()*+,;=%:\[\]-]*", re.ASCII)
"""The characters of a host and a port (RFC 3986, section 3.2.2)."""
_PATH = re.compile(rb'/[!"$-~]*')
_ABSOLUTE = re.compile(rb'https?://([^/?#@]+)(/[!"$-~]*)?', re.IGNORECASE)


def _refused(detail: str) -> ProblemError:
    return ProblemError(400, "bad_request", detail)


HEAD_TOO_LARGE = ProblemError(431, "too_large", "The head of the request is too large.")
TOO_MANY_HEADERS = ProblemError(431, "too_large", "The request has too many headers.")
NO_HOST = _refused("A request needs exactly one Host header with a valid host.")
BAD_FRAMING = _refused("A body needs one Content-Length, or one Transfer-Encoding: chunked, not both.")
BAD_TARGET = _refused("The target of a request must be a path, or http:// with a host and a path.")
BAD_VERSION = _refused("The HTTP version must be 1.1 or 1.0.")


class Afterwards(Enum):
    """What happens to a connection after the response to a request."""

    NEXT = auto()  # it takes the next request
    LINGER = (
        auto()
    )  # it ends; what the client still sends is read for a while, so that the response is not lost
    CLOSE = auto()  # it ends; the client sends no more


NEXT, LINGER, CLOSE = (
    Afterwards.NEXT,
    Afterwards.LINGER,
    Afterwards.CLOSE,
)  # an attribute of an Enum is slow to find


class Request:
    """A request as far as it has arrived."""

    __slots__ = (
        *("admission", "afterwards", "arrived", "body", "exchange", "expects", "headers", "length"),
        *("lines", "method", "refusal", "size", "target", "version"),
    )

    def __init__(self) -> None:
        self.method = self.target = b""
        self.version = "1.1"
        self.headers: Headers = []
        self.arrived = 0  # bytes so far, framing included
        self.length = 0  # of the body, as the head declares it; 0 when it does not
        self.size = 0  # bytes of the body so far
        self.body = BytesIO()  # joined: small parts take no more memory than large ones
        self.expects = False  # whether the client waits for 100 Continue before it sends the body
        self.afterwards = NEXT
        self.admission: Admission | None = None  # of reports whose key and type are in order
        self.refusal: ProblemError | None = None  # the answer to a request whose body is not kept
        self.exchange: Exchange | None = None  # with the application
        self.lines = b""  # header lines that its response gets besides its own

    @property
    def path(self) -> str:
        """The path, decoded and without the query."""
        return unquote(self.target.partition(b"?")[0].decode("ascii"))

    def problem(self, limits: Limits) -> ProblemError | None:
        """Why the head is refused: too large, or servers might read it in different ways; else reads its framing."""
        hosts: list[bytes] = []
        lengths: list[bytes] = []
        codings: list[bytes] = []
        expected: list[bytes] = []
        size = len(self.target)
        wanted = {
            b"host": hosts,
            b"content-length": lengths,
            b"transfer-encoding": codings,
            b"expect": expected,
        }
        for name, value in self.headers:
            size += len(name) + len(value) + 4
            if name in wanted:
                wanted[name].append(value)
        if size > limits.head:
            return HEAD_TOO_LARGE
        if self.version not in ("1.0", "1.1"):
            return BAD_VERSION
        # Before 1.1 a request may do without a host.
        if len(hosts) > 1 or not (hosts or self.version == "1.0") or not all(map(_HOST.fullmatch, hosts)):
            return NO_HOST
        if not self._is_framed(lengths, codings):
            return BAD_FRAMING
        self.length = int(lengths[0]) if lengths else 0
        self.expects = self.version == "1.1" and [value.lower() for value in expected] == [b"100-continue"]
        return None if self._take_target() else BAD_TARGET

    def _is_framed(self, lengths: list[bytes], codings: list[bytes]) -> bool:
        """Whether there is one way only to read where the body ends."""
        if codings:
            return not lengths and self.version == "1.1" and [one.lower() for one in codings] == [b"chunked"]
        return len(lengths) <= 1 and all(map(bytes.isdigit, lengths))

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


class Progress(Enum):
    """How far the application's response has come."""

    NONE = auto()
    BEGUN = auto()
    OVER = auto()


class Exchange:
    """One complete request, and the application's response to it."""

    def __init__(self, connection: CollectorProtocol, request: Request) -> None:
        self._connection = connection
        self._request = request
        self._body: bytes | None = request.body.getvalue()  # None: the application has it
        self._leaves = asyncio.Event()  # set when the client sends no more or is gone, and after the response
        self.progress = Progress.NONE
        self._has_body = request.method != b"HEAD"
        self._is_chunked = False
        self._left: int | None = None
        """Bytes of the response that its length promises and that have not come."""

    def start(self, app: Any) -> None:
        """Run the application in a task of its own."""
        self._task = self._connection.loop.create_task(self._run(app))

    def disconnect(self) -> None:
        """Tell the application that the client has gone, or at least sends no more."""
        self._leaves.set()

    async def _run(self, app: Any) -> None:
        try:
            await app(self._scope(), self._receive, self._send)
            if self._is_awaited:
                raise RuntimeError("the application did not finish its response")
        except Exception as error:
            log_fault("internal-error", error)
            if not self._is_awaited:
                return
            if self.progress is Progress.BEGUN:  # too late to say so: the response is seen to be cut off
                self._connection.abort()
            else:
                self._connection.answer(ProblemError(500, "internal"))

    @property
    def _is_awaited(self) -> bool:
        """Whether the response is not complete, and somebody may still read it."""
        return self.progress is not Progress.OVER and self._connection.is_answering(self._request)

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
            "path": request.path,
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": request.headers,
            "server": tuple(address[:2]) if isinstance(address, tuple) else None,
            "client": None,  # no address is ever looked at
        }

    async def _receive(self) -> Message:
        """The whole body; then, once there is one, a disconnect."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if not self._is_awaited:
            if self.progress is Progress.OVER:
                raise RuntimeError(f"{message['type']} after the response")
            return
        if message["type"] == "http.response.start" and self.progress is Progress.NONE:
            self._send_head(message["status"], message.get("headers", ()))
        elif message["type"] == "http.response.body" and self.progress is Progress.BEGUN:
            await self._send_body(message.get("body", b""), message.get("more_body", False))
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
        if self._has_body and self._left is None:
            if request.version == "1.1":
                self._is_chunked = True
                lines.append(b"transfer-encoding: chunked")
            else:
                self._connection.end_after(request)
        if self._connection.is_last(request):
            self._connection.end_after(request)
            lines.append(b"connection: close")
        elif request.version == "1.0":
            lines.append(b"connection: keep-alive")
        self.progress = Progress.BEGUN
        self._connection.transport.write(b"\r\n".join([*lines, b"", b""]))

    async def _send_body(self, body: bytes, more: bool) -> None:
        """
        In pieces, each when the client has read the one before.

        Of one large write, TLS would hide from the connection how much of it the client has read.
        """
        self._connection.hold_response(len(body))
        for start in range(0, max(len(body), 1), AT_ONCE):
            piece = body[start : start + AT_ONCE]
            is_end = not more and start + AT_ONCE >= len(body)
            self._write(piece, is_end)
            if is_end:
                self.progress = Progress.OVER
                self._leaves.set()
                self._connection.end_answer()
                return
            await self._connection.writable.wait()
            if not self._is_awaited:
                return

    def _write(self, piece: bytes, is_end: bool) -> None:
        if not self._has_body:
            return
        if self._left is not None:
            self._left -= len(piece)
            if self._left < 0 or (self._left and is_end):
                raise RuntimeError("the response body does not match its content-length")
        elif self._is_chunked:
            piece = b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b""
            piece += b"0\r\n\r\n" if is_end else b""
        if piece:
            self._connection.transport.write(piece)
