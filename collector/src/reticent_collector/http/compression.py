"""
Compressed answers for readers that ask for them.

The length of a compressed answer depends on whether what an attacker chose in a request resembles what the answer
keeps secret (BREACH). An attacker's page can make a browser send requests with its cookie, but not with a key in a
header: so a request with a cookie is never answered with gzip.
"""

from __future__ import annotations

import asyncio
import gzip

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reticent_collector.http.problems import Headers

LEAST_BYTES = 1_000  # less is not worth it
LEVEL = 4
KINDS = (
    b"text/",
    b"application/json",
    b"application/toml",
    b"application/openmetrics-text",
    b"image/svg+xml",
)


class Compression:
    """An ASGI application whose answers are compressed where that is asked for, safe and worth it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        may_compress = scope["method"] == "GET" and accepts_gzip(scope["headers"])
        start: Message | None = None  # held until the body is there

        async def send_compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                head, start = start, None
                body = message.get("body", b"")
                head["headers"] = [*head["headers"], (b"vary", b"accept-encoding")]
                if may_compress and not message.get("more_body") and is_worth_it(head["headers"], body):
                    # On a thread: a large page would keep reports waiting.
                    body = await asyncio.to_thread(gzip.compress, body, LEVEL, mtime=0)
                    message = {**message, "body": body}
                    head["headers"] = _headers_of(head["headers"], len(body))
                await send(head)
            await send(message)

        await self._app(scope, receive, send_compressed)


def accepts_gzip(headers: Headers) -> bool:
    """
    Whether a request asks for gzip, and has no cookie.

    >>> accepts_gzip([(b"accept-encoding", b"br, gzip;q=0.5")]), accepts_gzip([(b"accept-encoding", b"gzip;q=0")])
    (True, False)
    """
    codings: dict[bytes, bytes] = {}
    for name, value in headers:
        if name == b"cookie":
            return False
        if name == b"accept-encoding":
            for part in value.lower().split(b","):
                coding, _, weight = part.partition(b";")
                codings[coding.strip()] = weight.replace(b" ", b"").removeprefix(b"q=")
    asked = codings.get(b"gzip")
    return asked is not None and bool(asked.strip(b"0.") or not asked)


def is_worth_it(headers: Headers, body: bytes) -> bool:
    """Whether an answer is text of some length, and not compressed yet."""
    kind = b""
    for name, value in headers:
        if name.lower() == b"content-encoding":
            return False
        if name.lower() == b"content-type":
            kind = value
    return len(body) > LEAST_BYTES and kind.startswith(KINDS)


def _headers_of(headers: Headers, length: int) -> Headers:
    """The headers of the compressed answer. Its ETag is weak: the same content in other bytes."""
    changed = [(b"content-encoding", b"gzip"), (b"content-length", b"%d" % length)]
    for name, value in headers:
        if name.lower() == b"etag":
            changed.append((name, value if value.startswith(b"W/") else b"W/" + value))
        elif name.lower() != b"content-length":
            changed.append((name, value))
    return changed
