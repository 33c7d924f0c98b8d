"""Sending a simulated fleet's reports to a real collector."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import urlsplit

from tacit.errors import TacitError


class ReplayError(TacitError):
    """The collector did not take a batch."""


def send_packed(endpoint: str, batch: bytes, key: str | None = None, timeout: float = 60.0) -> int:
    """Send a packed batch to a collector; returns how many reports it accepted."""
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
