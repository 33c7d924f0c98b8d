"""Sending a simulated fleet's reports to a real collector."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import urlsplit

from tacit.errors import TacitError
from tacit.reports import packed_header


class ReplayError(TacitError):
    """The collector did not take a batch."""


MOST_AT_ONCE = 100_000


def send_packed(endpoint: str, batch: bytes, key: str | None = None, timeout: float = 60.0) -> int:
    """Send a packed batch to a collector, in parts if it is long; returns how many reports were accepted."""
    header = packed_header(batch)
    head, step = batch[: header.start], header.width * MOST_AT_ONCE
    parts = [head + batch[place : place + step] for place in range(header.start, len(batch), step)]
    return sum(_send(endpoint, part, key, timeout) for part in parts)


def _send(endpoint: str, batch: bytes, key: str | None, timeout: float) -> int:
    parts = urlsplit(endpoint)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.netloc, timeout=timeout)
    headers = {"content-type": "application/vnd.tacit.packed"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    try:
        connection.request("POST", "/v1/reports", batch, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, ValueError) as error:
        raise ReplayError(f"{endpoint}: {error}") from error
    finally:
        connection.close()
    if response.status != 202:
        raise ReplayError(f"{endpoint}: {answer.get('code', response.status)}: {answer.get('detail', '')}")
    accepted: int = answer["accepted"]
    return accepted
