"""A collector as a device would reach it."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from reticent.cli.doctor.check import Area, Check
from reticent.device import HttpTransport
from reticent.errors import ParameterError

AREA = Area("endpoint")
TIMEOUT = 5.0
SOON = 14 * 86_400
"""Seconds before its end at which a certificate is worth a note."""
SKEW = 300.0
"""Seconds that a collector lets a device's clock run fast (--clock-skew)."""


def endpoint(url: str) -> Iterator[Check]:
    """Everything about one address. The answers say no more than that it lives."""
    try:
        HttpTransport(url)
    except ParameterError as error:
        yield AREA.failure("address", error, "give the address that the devices have")
        return
    try:
        yield from _asked(url)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        yield AREA.problem(
            "reachable", f"its certificate is refused: {reason}", "mend it: devices do not send"
        )
    except (OSError, HTTPException) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        yield AREA.problem("reachable", f"no answer: {reason}", "is the collector running, its port open?")


def _asked(url: str) -> Iterator[Check]:
    with closing(_connected(url)) as connection:
        socket: Any = connection.sock
        expires = _expiry(socket.getpeercert()) if isinstance(socket, ssl.SSLSocket) else None
        status, date = _get(connection, url, "/healthz")
    if status != 200:
        yield AREA.problem(
            "reachable", f"/healthz answers {status}, not 200", "is this a collector of reticent?"
        )
        return
    yield AREA.ok("reachable", "a collector answers")
    with closing(_connected(url)) as connection:
        status, _ = _get(connection, url, "/readyz")
    if status == 200:
        yield AREA.ok("ready", "it can write to its store")
    else:
        yield AREA.problem(
            "ready", f"/readyz answers {status}: it cannot write", "look at its store and disk"
        )
    if expires is not None:
        yield certificate(expires - time.time())
    yield clock(date, time.time())


def certificate(left: float) -> Check:
    """
    How long its certificate lasts.

    >>> certificate(90 * 86_400).message, certificate(3 * 86_400).state
    ('lasts 90 more days', 'note')
    """
    message = f"lasts {left / 86_400:.0f} more days"
    return AREA.ok("certificate", message) if left > SOON else AREA.note("certificate", message, "renew it")


def clock(date: str | None, now: float) -> Check:
    """
    The clock here against the Date of an answer, where something on the way adds one.

    >>> clock("Thu, 01 Jan 1970 00:10:00 GMT", 601.0).message
    'agrees within 1 s'
    >>> clock("Thu, 01 Jan 1970 00:10:00 GMT", 1200.0).state, clock(None, 0.0).state
    ('problem', 'note')
    """
    if date is None:
        return AREA.note("clock", "not compared: the answer has no Date, as collectors send none")
    try:
        ahead = now - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return AREA.note("clock", "not compared: the Date of the answer cannot be read")
    if abs(ahead) > SKEW:
        return AREA.problem(
            "clock",
            f"here is {abs(ahead):,.0f} s {'ahead' if ahead > 0 else 'behind'}",
            "set the clocks by NTP: reports of a round that is not open are refused",
        )
    return AREA.ok("clock", f"agrees within {max(1.0, abs(ahead)):.0f} s")


def _connected(url: str) -> HTTPConnection:
    """A connection without proxies or redirects, as a device makes one."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT)
    connection.connect()
    return connection


def _get(connection: HTTPConnection, url: str, path: str) -> tuple[int, str | None]:
    connection.request("GET", urlsplit(url).path.rstrip("/") + path)
    response = connection.getresponse()
    return response.status, response.getheader("Date")


def _expiry(found: Any) -> float | None:
    """When a certificate ends, in unix seconds."""
    end = (found or {}).get("notAfter")
    return None if end is None else float(ssl.cert_time_to_seconds(end))
