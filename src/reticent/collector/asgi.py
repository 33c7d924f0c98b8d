"""Requests that are not reports: one request through an ASGI application, and the application's lifespan."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from reticent.collector.log import log_fault
from reticent.collector.problems import ProblemError

if TYPE_CHECKING:
    from reticent.collector.protocol import CollectorProtocol
    from reticent.collector.requests import Request

ASGI = {"version": "3.0", "spec_version": "2.3"}
Message = Any


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
            self._send_body(message.get("body", b""), message.get("more_body", False))
            await self._connection.writable.wait()
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
