"""One request to the collector, within one limit of time and bytes, and what the answer means."""

from __future__ import annotations

import io
import json
import re
import socket
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any

from reticent.device.transport import Accepted, Outcome, Rejected, Retry

_LARGEST_ANSWER = 4096
_LARGEST_EXCHANGE = 65_536
"""So many bytes are read in one attempt, headers and answers of the kind "100 Continue" included."""
_TEMPORARY = {
    401: "wrong-key",
    403: "wrong-key",
    404: "wrong-path",
    405: "wrong-path",
    408: "timeout",
    425: "too-busy",
    429: "too-busy",
}
"""Statuses of the 4xx kind that may pass, with their fault: a key not known yet, a timeout, too many requests."""


def post(
    host: str,
    port: int | None,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    timeout: float,
    *,
    secure: bool,
) -> Outcome:
    """Post a body and read the answer in `timeout` seconds, all together."""
    deadline = time.monotonic() + timeout
    connection, line = HTTPConnection(host, port), None
    try:
        connection.sock = line = _connect(host, port, deadline, secure=secure)
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        content = b"" if response.status == 202 else response.read(_LARGEST_ANSWER)
        result = outcome(response.status, response.getheader("Retry-After"), content)
    except (OSError, HTTPException) as error:
        return Retry(fault=_fault(error))
    finally:
        if line is not None:
            line.hang_up()
    if isinstance(result, Retry) and result.fault == "wrong-key" and "Authorization" not in headers:
        return Retry(result.after, "no-key")
    return result


def _connect(host: str, port: int | None, deadline: float, *, secure: bool) -> _Bounded:
    """A connection to the first address that takes one."""
    failure: OSError = TimeoutError()
    number = port or (443 if secure else 80)
    for family, kind, protocol, _, address in socket.getaddrinfo(host, number, type=socket.SOCK_STREAM):
        plain = socket.socket(family, kind, protocol)
        try:
            plain.settimeout(_left(deadline))
            plain.connect(address)
            if secure:
                context = ssl.create_default_context()
                return _Bounded(context.wrap_socket(plain, server_hostname=host), deadline)
            return _Bounded(plain, deadline)
        except OSError as error:
            plain.close()
            failure = error
    raise failure


class _Bounded(io.RawIOBase):
    """
    A connection with one limit for the whole attempt: of time, and of bytes read.

    A limit for each read, which is what a socket has, is never reached by a server that sends a byte now and
    then, or the same "100 Continue" without end.
    """

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._bytes_left = _LARGEST_EXCHANGE

    def makefile(self, mode: str) -> io.BufferedReader:
        """What `http.client` reads from."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is, within the limits."""
        if self._bytes_left <= 0:
            raise HTTPException
        self._connection.settimeout(_left(self._deadline))
        count = self._connection.recv_into(buffer)
        self._bytes_left -= count
        return count

    def sendall(self, data: bytes) -> None:
        """Send all of it, within the limit of time."""
        self._connection.settimeout(_left(self._deadline))
        self._connection.sendall(data)

    def close(self) -> None:
        """`http.client` does this before it reads the answer; see `hang_up`."""

    def hang_up(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _fault(error: Exception) -> str:
    """What went wrong, as in `Retry`."""
    kinds: tuple[tuple[type[Exception], str], ...] = (
        (ssl.SSLCertVerificationError, "certificate"),
        (ssl.SSLError, "not-https"),
        (socket.gaierror, "bad-name"),
        (ConnectionRefusedError, "refused"),
        (TimeoutError, "timeout"),
        (OSError, "network"),
    )
    return next((fault for kind, fault in kinds if isinstance(error, kind)), "bad-answer")


def outcome(status: int, retry_after: str | None, content: bytes) -> Outcome:
    """
    What an answer of the collector means.

    Only 202 is an acceptance: a hotel's login page answers 200 to anything. A path that is not there is a
    refusal where the collector says so with a code of its own; otherwise it may not be the collector's.

    >>> outcome(202, None, b""), outcome(503, "120", b"")
    (Accepted(), Retry(after=120.0, fault='server-error'))
    >>> outcome(400, None, b'{"code": "late"}'), outcome(404, None, b"<html>")
    (Rejected(code='late'), Retry(after=None, fault='wrong-path'))
    """
    if status == 202:
        return Accepted()
    code = _code(content)
    if 400 <= status < 500 and (status not in _TEMPORARY or (code and status in (404, 405))):
        return Rejected(code or f"http-{status}")
    fault = _TEMPORARY.get(status, "server-error" if status >= 500 else "not-a-collector")
    return Retry(_seconds(retry_after), fault)


def _code(content: bytes) -> str:
    """The code of a problem document (RFC 9457), if it has a plausible one."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    code = document.get("code") if isinstance(document, dict) else None
    return code if isinstance(code, str) and re.fullmatch(r"[a-z0-9_-]{1,64}", code) else ""


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After, in seconds or as a date."""
    if retry_after is None:
        return None
    if re.fullmatch(r"\d{1,9}", retry_after.strip()):
        return float(retry_after)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
