"""How a report is sent: every network outcome is one of three."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Protocol

from reticent.errors import ParameterError
from reticent.frozen import frozen

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_TEMPORARY = {
    401: "wrong-key",
    403: "wrong-key",
    404: "wrong-path",
    405: "wrong-path",
    408: "timeout",
    425: "too-busy",
    429: "too-busy",
}
"""Statuses of the 4xx kind, with their fault."""

FINAL_CODES = (
    "malformed", "bad_request", "unknown_plan", "not_acceptable", "version_mismatch", "late", "too_large",
    "unsupported_media_type",
)  # fmt: skip
"""The collector's own codes that are final for a report. All else may pass: a proxy answers 4xx too."""

_REASONS = {
    "no-key": "the collector wants a key",
    "wrong-key": "the key is unknown or revoked, or is not an ingest key",
    "bad-name": "the host has no address",
    "proxy": "the proxy of this machine's settings refuses the connection, or is none of http://",
    "refused": "the host refused the connection; is this the port of the collector, and does it run?",
    "certificate": "the certificate is not trusted",
    "not-https": "the other side does not speak TLS; is this the port for https?",
    "wrong-path": "there is no collector at this path",
    "not-a-collector": "another server answered, such as a login page or a proxy",
    "bad-answer": "the answer is not HTTP, or is too long",
    "timeout": "no answer in time",
    "network": "the network failed",
    "too-busy": "the collector asks to come later: it is busy, or the clock of this device is ahead",
    "server-error": "the collector, or a proxy before it, failed",
    "transport": "the program's own transport failed",
    "rejected": "the collector will never take it; reticent device receipt has the reason",
}
"""Why a report was not accepted, by the outcome of sending it."""


@frozen()
class Accepted:
    """The collector has it."""


@frozen()
class Rejected:
    """The collector will never take it; `code` says why."""

    code: str


@frozen()
class Retry:
    """
    It did not arrive, or not now; try again, after so many seconds if the collector said so.

    `fault` says what went wrong: a key of `_REASONS`.
    """

    after: float | None = None
    fault: str = ""


Outcome = Accepted | Rejected | Retry


class Transport(Protocol):
    """Sends one report as JSON to the collector. May block, must respect `timeout`, may raise anything."""

    def send(self, body: bytes, timeout: float) -> Outcome:
        """Send a report; `timeout` in seconds."""


class HttpTransport:
    """
    POST {endpoint}/v1/reports, with `Authorization: Bearer KEY`.

    HTTPS, or plain HTTP to this machine only; an address that ends with /v1/reports is taken as well. HTTPS goes
    through the proxy that the environment or the system names (`https_proxy`, `no_proxy`), by CONNECT, so that it sees
    the name of the host and nothing else. No redirects are followed, no cookies kept, no header sent that differs
    between devices; of the answer at most 4 kB are read.

    >>> HttpTransport("http://collector.example.org")
    Traceback (most recent call last):
    ...
    reticent.errors.ParameterError: endpoint: expected an https:// address, got http://collector.example.org.
      Hint: plain http:// is for a collector on this machine only
    """

    def __init__(self, endpoint: str, key: str | None = None) -> None:
        address = _read_endpoint(endpoint)
        if key is not None:
            _check_key(key)
        self._secure = address.scheme == "https"
        self._host = address.hostname or ""
        self._port = address.port
        self._path = address.path.rstrip("/").removesuffix("/v1/reports") + "/v1/reports"
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"

    def __repr__(self) -> str:
        return f"HttpTransport({'https' if self._secure else 'http'}://{self._host})"

    def send(self, body: bytes, timeout: float) -> Outcome:
        """Send a report within `timeout` seconds in total; whatever goes wrong is a `Retry`."""
        from reticent.device.exchange import post  # HTTP and TLS take longer to load than all of a device

        answer = post(self._host, self._port, self._path, self._headers, body, timeout, secure=self._secure)
        if isinstance(answer, str):
            return Retry(fault=answer)
        result = outcome(*answer)
        if isinstance(result, Retry) and result.fault == "wrong-key" and "Authorization" not in self._headers:
            return Retry(result.after, "no-key")
        return result


def outcome(status: int, retry_after: str | None, content: bytes) -> Outcome:
    """
    What an answer of the collector means.

    Only 202 is an acceptance: a hotel's login page answers 200 to anything. Only a code of the collector's own is a
    rejection: a proxy answers 4xx as well.

    >>> outcome(202, None, b""), outcome(503, "120", b"")
    (Accepted(), Retry(after=120.0, fault='server-error'))
    >>> outcome(400, None, b'{"code": "late"}'), outcome(404, None, b"<html>")
    (Rejected(code='late'), Retry(after=None, fault='wrong-path'))
    >>> outcome(400, None, b"<html>"), outcome(451, None, b'{"code": "blocked"}')
    (Retry(after=None, fault='not-a-collector'), Retry(after=None, fault='not-a-collector'))
    >>> outcome(404, None, b'{"code": "unknown_plan"}'), outcome(404, None, b'{"code": "not_found"}')
    (Rejected(code='unknown_plan'), Retry(after=None, fault='wrong-path'))
    """
    if status == 202:
        return Accepted()
    code = _code(content)
    if 400 <= status < 500 and code in FINAL_CODES:
        return Rejected(code)
    fault = _TEMPORARY.get(status, "server-error" if status >= 500 else "not-a-collector")
    return Retry(_seconds(retry_after), fault)


def in_words(result: str) -> str:
    """The outcome of sending a report, with its reason."""
    return f"{result}: {_REASONS[result]}" if result in _REASONS else result


def _read_endpoint(endpoint: str) -> SplitResult:
    """The parts of an address; raises `ParameterError` where reports cannot be sent there."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        host = parts.hostname or ""
        port = parts.port
    except (ValueError, TypeError):
        parts = urlsplit("")
        host = "?"
        port = None
    # Neither what may hold a password or a key, nor anything else of an address that is not understood.
    quoted = f"{parts.scheme}://{host}" if parts.scheme else f"{host or 'nothing'} without https://"
    if host and not _is_host(host):
        quoted = "an invalid host name"
    if (
        not _is_host(host)
        or parts.scheme not in ("https", "http")
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
        or port == 0
        or not re.fullmatch(r"[!-~]*", parts.path)
    ):
        raise ParameterError(
            "endpoint",
            "an address such as https://telemetry.example.org",
            quoted,
            "no user, query or #, no port 0, and nothing but printable ASCII in the path",
        )
    if parts.scheme == "http" and not is_loopback(host):
        hint = "plain http:// is for a collector on this machine only"
        raise ParameterError("endpoint", "an https:// address", quoted, hint)
    return parts


def _check_key(key: object) -> None:
    """Raise `ParameterError`, which never quotes the key, unless it can stand in a header."""
    if not isinstance(key, str):
        raise ParameterError("key", "a text", type(key).__name__)
    if re.fullmatch(r"[!-~]{1,512}", key):
        return
    problem = "a character that is not printable ASCII"
    if not key:
        problem = "nothing"
    elif "\n" in key or "\r" in key:
        problem = "a line break in it"
    elif any(map(str.isspace, key)):
        problem = "a space in it"
    elif len(key) > 512:
        problem = f"{len(key)} characters"
    hint = "a file or a variable often ends with a line break: strip it"
    raise ParameterError("key", "1 to 512 printable ASCII characters without spaces", problem, hint)


def _is_host(host: str) -> bool:
    if ":" not in host:
        return re.fullmatch(r"(?:[\w-]{1,63}\.)*[\w-]{1,63}\.?", host) is not None
    from ipaddress import IPv6Address

    try:
        return bool(IPv6Address(host))
    except ValueError:
        return False


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
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
