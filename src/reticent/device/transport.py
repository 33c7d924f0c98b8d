"""How a report travels: every outcome of a network is one of three."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from reticent.errors import ParameterError

if TYPE_CHECKING:
    from http.client import HTTPConnection

_LARGEST_ANSWER = 4096
_TEMPORARY = {401, 403, 408, 425, 429}
"""Statuses of the 4xx kind that may pass: a key not known yet, a timeout, too many requests."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The collector has it."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The collector will never take it; `code` says why."""

    code: str


@dataclass(frozen=True, slots=True)
class Retry:
    """It did not arrive, or not now; try again, after so many seconds if the collector said so."""

    after: float | None = None


Outcome = Accepted | Rejected | Retry


class Transport(Protocol):
    """Takes one report as JSON to the collector. May block, must respect `timeout`, may raise anything."""

    def send(self, body: bytes, timeout: float) -> Outcome:
        """Send a report; `timeout` in seconds."""


class HttpTransport:
    """
    POST {endpoint}/v1/reports, with `Authorization: Bearer KEY`.

    HTTPS, or plain HTTP to this machine only. No redirects are followed, no cookies kept, no proxy asked, no
    header sent that differs between devices; of the answer at most 4 kB are read.

    >>> HttpTransport("http://collector.example.org")
    Traceback (most recent call last):
    ...
    reticent.errors.ParameterError: endpoint: expected an https:// address, got http://collector.example.org.
      Hint: plain http:// is for a collector on this machine only
    """

    def __init__(self, endpoint: str, key: str | None = None) -> None:
        from urllib.parse import urlsplit

        parts = urlsplit(endpoint)
        try:
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port = "", None
        shown = f"{parts.scheme}://{host}"
        if (
            not host
            or parts.scheme not in ("https", "http")
            or parts.query
            or parts.fragment
            or parts.username
        ):
            raise ParameterError(
                "endpoint", "an address such as https://telemetry.example.org", shown, "no user, query or #"
            )
        if parts.scheme == "http" and not is_loopback(host):
            hint = "plain http:// is for a collector on this machine only"
            raise ParameterError("endpoint", "an https:// address", shown, hint)
        if key is not None and not re.fullmatch(r"[!-~]{1,512}", key):
            raise ParameterError("key", "printable ASCII without spaces", "something else")
        self._secure = parts.scheme == "https"
        self._host, self._port = host, port
        self._path = parts.path.rstrip("/") + "/v1/reports"
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"

    def __repr__(self) -> str:
        return f"HttpTransport({'https' if self._secure else 'http'}://{self._host})"

    def send(self, body: bytes, timeout: float) -> Outcome:
        """Send a report; whatever goes wrong on the way is a `Retry`."""
        from http.client import HTTPException

        connection = self._connect(timeout)
        try:
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
            content = b"" if response.status == 202 else response.read(_LARGEST_ANSWER)
            return outcome(response.status, response.getheader("Retry-After"), content)
        except (OSError, HTTPException):
            return Retry()
        finally:
            connection.close()

    def _connect(self, timeout: float) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        kind = HTTPSConnection if self._secure else HTTPConnection
        return kind(self._host, self._port, timeout=timeout)


def outcome(status: int, retry_after: str | None, content: bytes) -> Outcome:
    """
    What an answer of the collector means.

    Only 202 is an acceptance: a hotel's login page answers 200 to anything.

    >>> outcome(202, None, b""), outcome(503, "120", b""), outcome(200, None, b"<html>")
    (Accepted(), Retry(after=120.0), Retry(after=None))
    >>> outcome(400, None, b'{"code": "late"}')
    Rejected(code='late')
    """
    if status == 202:
        return Accepted()
    if 400 <= status < 500 and status not in _TEMPORARY:
        return Rejected(_code(content) or f"http-{status}")
    return Retry(_seconds(retry_after))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


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
    import time
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
