"""The ingest path for any ASGI server; reticent's own server goes a shorter way, see `protocol`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from reticent.collector.ingest import JSON, Accepted, Ingest
from reticent.collector.problems import NO_SNIFFING, ProblemError

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def answer(ingest: Ingest, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request to the ingest path."""
    result: asyncio.Future[Accepted | ProblemError] = asyncio.get_running_loop().create_future()
    try:
        admission = ingest.admit(scope["headers"])
        ingest.take(admission, await _body(receive, ingest), lambda found: _settle(result, found))
        answered = await result
    except ProblemError as problem:
        answered = problem
    if isinstance(answered, ProblemError):
        status, headers = answered.status, [*answered.headers, NO_SNIFFING]
    else:
        length = (b"content-length", b"%d" % len(answered.body))
        status, headers = 202, [(b"content-type", JSON), length, NO_SNIFFING]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answered.body})


def _settle(result: asyncio.Future[Accepted | ProblemError], found: Accepted | ProblemError) -> None:
    """Hand over an answer, if anybody still waits for it."""
    if not result.done():
        result.set_result(found)


async def _body(receive: Receive, ingest: Ingest) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ProblemError(400, "bad_request")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > ingest.limits.body:
            raise ingest.too_large()
    return b"".join(parts)
