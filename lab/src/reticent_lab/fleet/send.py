"""Sending a simulated fleet's reports to a real collector."""

from __future__ import annotations

import json
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from reticent.errors import ReticentError
from reticent.reports import packed_header

MOST_AT_ONCE = 100_000  # Reports per request
_TRY_AGAIN = (429, 503)
_LONGEST_WAIT = 30.0


class SendError(ReticentError):
    """The collector did not take a batch, or not all of it."""


def send_packed(
    endpoint: str, batch: bytes, key: str | None = None, timeout: float = 60.0, patience: float = 120.0
) -> int:
    """
    Send a packed batch to a collector, in parts if it is long; returns how many reports were accepted.

    A busy collector (429 or 503) is asked again after the time it names, for at most `patience` seconds in all: a
    report that arrives twice counts once. Raises `SendError` when a batch or some of its reports are refused.
    """
    header = packed_header(batch)
    head = batch[: header.start]
    step = header.width * MOST_AT_ONCE
    deadline = time.monotonic() + patience
    accepted = 0
    for place in range(header.start, len(batch), step):
        part = head + batch[place : place + step]
        status, wait, answer = _request(endpoint, part, key, timeout)
        while status in _TRY_AGAIN and time.monotonic() + wait <= deadline:
            time.sleep(wait)
            status, wait, answer = _request(endpoint, part, key, timeout)
        if status != 202:
            raise SendError(f"{endpoint}: {answer.get('code', status)}: {answer.get('detail', '')}")
        taken = int(answer.get("accepted", 0))
        rejected = answer.get("rejected", [])
        if rejected:
            raise SendError(
                f"{endpoint}: {rejected[0].get('code')}: {len(rejected)} of "
                f"{taken + len(rejected)} reports were refused."
            )
        accepted += taken
    return accepted


def _request(
    endpoint: str, batch: bytes, key: str | None, timeout: float
) -> tuple[int, float, dict[str, Any]]:
    parts = urlsplit(endpoint)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.netloc, timeout=timeout)
    headers = {"content-type": "application/vnd.reticent.packed"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    try:
        connection.request("POST", f"{parts.path.rstrip('/')}/v1/reports", batch, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, HTTPException, ValueError) as error:
        raise SendError(f"{endpoint}: {error}") from error
    finally:
        connection.close()
    wait = response.getheader("retry-after", "")
    return response.status, min(float(wait), _LONGEST_WAIT) if wait.isdigit() else 1.0, answer
