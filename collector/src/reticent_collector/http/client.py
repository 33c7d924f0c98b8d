"""An HTTP client of a collector, for the commands and the relay: one request at a time, on one connection."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import ssl
from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import httptools

from reticent.device import HttpTransport
from reticent.errors import ReticentError
from reticent.reports import Verdict

_LONGEST_WAIT = 5.0
_READ_AT_ONCE = 1 << 18
_LARGEST_HEAD = 1 << 16


class UnreachableError(ReticentError):
    """A collector did not answer, or something else did, or it refuses the key."""


class BatchTooLargeError(ReticentError):
    """A collector accepts fewer reports, or fewer bytes, per batch."""


class Response(NamedTuple):
    """A collector's response."""

    status: int
    headers: Mapping[str, str]  # by lower-case name
    body: bytes

    @property
    def retry_after(self) -> float | None:
        """The Retry-After header in seconds; None without one."""
        text = self.headers.get("retry-after", "")
        return float(text) if re.fullmatch(r"[0-9]{1,6}", text) else None

    @property
    def document(self) -> dict[str, Any]:
        """The body as a JSON object; empty when it is none."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}

    def refused(self, reports: int) -> list[tuple[int, Verdict]] | None:
        """
        Which of so many reports were refused, by place; None unless this answers for each of them.

        A report counts as acknowledged only when a collector said so of a batch of that size.

        >>> Response(202, {}, b'{"accepted":1,"rejected":[{"index":0,"code":"late"}]}').refused(2)
        [(0, <Verdict.LATE: 'late'>)]
        >>> Response(202, {}, b'{"accepted":1,"rejected":[]}').refused(2)
        """
        document = self.document
        try:
            if self.status == 202:
                places = [(row["index"], Verdict(row["code"])) for row in document["rejected"]]
                accepted = document["accepted"]
            elif not 400 <= self.status < 500:
                return None
            else:
                places, accepted = [(place, Verdict(document["code"])) for place in range(reports)], 0
        except (KeyError, TypeError, ValueError):
            return None
        distinct = {place for place, _ in places if type(place) is int and 0 <= place < reports}
        complete = len(distinct) == len(places) and accepted == reports - len(places)
        is_sound = type(accepted) is int and all(verdict is not Verdict.ACCEPTED for _, verdict in places)
        return places if complete and is_sound else None


class Client:
    """
    Sends requests to one collector, by HTTPS or, on this machine only, by HTTP.

    Certificates are verified. A request ends after `timeout` seconds, connecting and reading included, and a response
    has at most `most_bytes`. Every request may be sent twice: when a kept connection turns out to be closed, it is sent
    again on a new one.

    >>> Client("http://collector.example.org")
    Traceback (most recent call last):
    ...
    reticent.errors.ParameterError: endpoint: expected an https:// address, got http://collector.example.org.
      Hint: plain http:// is for a collector on this machine only
    """

    def __init__(
        self, url: str, key: str | None = None, timeout: float = 30.0, most_bytes: int = 1 << 28
    ) -> None:
        HttpTransport(url, key)  # checks both as a device does: the key leaves by TLS, or not at all
        parts = urlsplit(url)
        self.url = url.rstrip("/")
        self._host, self._path = parts.hostname or "", parts.path.rstrip("/")
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._headers = f"host: {parts.netloc}\r\n"
        if key is not None:
            self._headers += f"authorization: Bearer {key}\r\n"
        self._timeout = timeout
        self._most_bytes = most_bytes
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def twin(self) -> Client:
        """Another client of the same collector, with its own connection."""
        other = copy(self)
        other._connection = None
        return other

    async def post(self, body: bytes, kind: str) -> Response:
        """`POST /v1/reports`."""
        headers = f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n"
        return await self._request(f"POST {self._path}/v1/reports", headers, body)

    async def deliver(
        self, body: bytes, kind: str, reports: int, patience: float
    ) -> list[tuple[int, Verdict]]:
        """
        Send a batch until the collector has answered for each of its reports; returns those refused, by place.

        Failures are retried for `patience` seconds in all: report ids make that safe. Raises `UnreachableError` after
        that, or at once when a retry cannot help; `BatchTooLargeError`.
        """
        reason, wait = "", 0.1
        try:
            async with asyncio.timeout(patience):
                while True:
                    try:
                        response = await self.post(body, kind)
                    except UnreachableError as error:
                        reason, retry_after = str(error), None
                    else:
                        refused = response.refused(reports)
                        if refused is not None:
                            return refused
                        if response.status == 413:
                            raise BatchTooLargeError(f"{self.url}: the batch is too large.")
                        reason, retry_after = self.problem(response), response.retry_after
                        if response.status not in (408, 429) and response.status < 500:
                            raise UnreachableError(reason)
                    await asyncio.sleep(wait if retry_after is None else retry_after)
                    wait = min(2 * wait, _LONGEST_WAIT)
        except TimeoutError:
            raise UnreachableError(reason or f"{self.url}: no answer within {patience:g} s.") from None

    def problem(self, response: Response) -> str:
        """What an unexpected response means, as a message."""
        code, detail = response.document.get("code"), response.document.get("detail")
        match response.status, code:
            case 401, _ if "authorization" not in self._headers:
                return f"{self.url}: a key is required.\n  Hint: pass --key-file FILE"
            case 401, _:
                reason = "the key is unknown or revoked"
                return f"{self.url}: {reason}.\n  Hint: reticent keys list shows the keys of the store"
            case 403, _:
                reason = detail or "this key does not allow that."
                return f"{self.url}: {reason}\n  Hint: reticent keys list shows each key's role"
            case _, str() if isinstance(detail, str) and code != "not_found":
                return f"{self.url}: {detail}"
            case _:
                return f"{self.url}: not a collector, or a version that is too old: status {response.status}."

    async def get(self, path: str, query: list[tuple[str, str]] | None = None) -> Response:
        """`GET` a path."""
        target = f"{self._path}{path}" + (f"?{urlencode(query)}" if query else "")
        return await self._request(f"GET {target}", "accept: application/json\r\n", b"")

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection[1].transport.abort()
            self._connection = None

    async def _request(self, start: str, headers: str, body: bytes) -> Response:
        request = f"{start} HTTP/1.1\r\n{self._headers}{headers}\r\n".encode() + body
        response: Response | None = None
        try:
            async with asyncio.timeout(self._timeout):
                if self._connection is not None:
                    try:
                        response = await self._exchange(request)
                    except (OSError, EOFError):  # closed by the other side meanwhile
                        self.close()
                if response is None:
                    self._connection = await asyncio.open_connection(
                        self._host, self._port, ssl=self._tls, limit=_READ_AT_ONCE
                    )
                    response = await self._exchange(request)
        except (OSError, EOFError, httptools.HttpParserError) as error:
            raise UnreachableError(f"{self.url}: {self._reason(error)}") from error
        finally:
            if response is None or response.headers.get("connection", "").lower() == "close":
                self.close()
        return response

    async def _exchange(self, request: bytes) -> Response:
        assert self._connection is not None  # noqa: S101  both callers have made one
        reader, writer = self._connection
        writer.write(request)
        await writer.drain()
        answer = _Answer(self._most_bytes)
        while not answer.is_complete:
            data = await reader.read(_READ_AT_ONCE)
            if data:
                answer.feed(data)
            elif answer.ends_with_connection:
                self.close()
                break
            else:
                raise EOFError
        return Response(answer.status, answer.headers, b"".join(answer.parts))

    def _reason(self, error: Exception) -> str:
        match error:
            case ssl.SSLCertVerificationError():
                reason = (
                    f"the certificate is not trusted: {error.verify_message}.\n"
                    "  Hint: set SSL_CERT_FILE to trust other certificates than the system's"
                )
            case ssl.SSLError():
                reason = (
                    "the server does not speak TLS, or no secure version of it.\n"
                    "  Hint: check the port; a collector on this machine may be at http://"
                )
            case socket.gaierror():
                reason = f"the host {self._host} cannot be resolved."
            case TimeoutError():
                reason = f"no answer within {self._timeout:g} s."
            case EOFError():
                reason = "the connection was closed before the answer was complete."
            case OSError():
                cause = os.strerror(error.errno) if error.errno else type(error).__name__
                reason = f"cannot connect: {cause}.\n  Hint: check host and port, and that the collector runs"
            case _:
                reason = "not a collector: the response is not HTTP/1.1."
        return reason


class _Answer:
    """A response as far as it has arrived: the callbacks of httptools."""

    def __init__(self, most_bytes: int) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []
        self.is_complete = False
        self._head_complete = False
        self._size = 0
        self._most_bytes = most_bytes
        self._parser: Any = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Raises `HttpParserError` for what is not a response, or too long."""
        self._size += len(data)
        if self._size > (self._most_bytes if self._head_complete else _LARGEST_HEAD + _READ_AT_ONCE):
            raise httptools.HttpParserError
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise httptools.HttpParserError from None

    @property
    def ends_with_connection(self) -> bool:
        framed = "content-length" in self.headers or "transfer-encoding" in self.headers
        return self._head_complete and not framed

    def on_message_begin(self) -> None:
        """A response begins; one before it was 100 Continue."""
        if self.is_complete:  # two answers to one request
            raise ValueError
        self.headers, self.parts, self._head_complete = {}, [], False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._head_complete = self.status >= 200

    def on_body(self, body: bytes) -> None:
        self.parts.append(body)

    def on_message_complete(self) -> None:
        self.is_complete = self._head_complete
