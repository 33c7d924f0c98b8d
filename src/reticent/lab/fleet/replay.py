"""Sending a simulated fleet's reports to a real collector."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ParameterError, ReticentError
from reticent.lab.fleet.fleets import Tags, VectorisedFleet
from reticent.lab.fleet.population import Population
from reticent.reports import packed_header

MOST_AT_ONCE = 100_000
"""Reports per request."""
_TRY_AGAIN = (429, 503)
_LONGEST_WAIT = 30.0


class ReplayError(ReticentError):
    """The collector did not take a batch, or not all of it."""


def replay(
    fleet: VectorisedFleet,
    values: Population | Mapping[str, NDArray[Any]],
    rounds: Sequence[int],
    endpoint: str,
    key: str | None = None,
    tags: Tags | None = None,
    progress: Callable[[int, int], None] | None = None,
    patience: float = 120.0,
) -> int:
    """
    Let a fleet answer some rounds, and send the reports to a collector; returns how many were accepted.

    `values` has one array per metric, whole[rounds, devices]; or is a population, drawn with the fleet's
    seed, whose values then stand for every metric of the plan. The rounds must be open by the collector's
    clock. `progress` is told how many of all rounds are sent. Raises `ReplayError` as soon as a report is
    refused; what was accepted stays so, and sending it again changes nothing.
    """
    if not isinstance(values, Mapping):
        drawn = values.values(fleet.devices, len(rounds), np.random.default_rng(fleet.seed))
        values = {metric.name: drawn for metric in fleet.plan.metrics}
    for name, column in values.items():
        if np.shape(column) != (len(rounds), fleet.devices):
            expected = f"an array of {len(rounds)} rounds x {fleet.devices} devices"
            raise ParameterError(f"values of {name}", expected, f"one of shape {np.shape(column)}")
    accepted = 0
    for place, number in enumerate(rounds):
        row = {name: column[place] for name, column in values.items()}
        accepted += send_packed(endpoint, fleet.packed(number, row, tags), key, patience=patience)
        if progress is not None:
            progress(place + 1, len(rounds))
    return accepted


def send_packed(
    endpoint: str, batch: bytes, key: str | None = None, timeout: float = 60.0, patience: float = 120.0
) -> int:
    """
    Send a packed batch to a collector, in parts if it is long; returns how many reports were accepted.

    A collector that is busy (429 or 503) is asked again after the time it names, for at most `patience`
    seconds in all. That is safe: a report that arrives twice counts once. Raises `ReplayError` when a batch
    or some of its reports are refused.
    """
    header = packed_header(batch)
    head, step = batch[: header.start], header.width * MOST_AT_ONCE
    deadline = time.monotonic() + patience
    accepted = 0
    for place in range(header.start, len(batch), step):
        part = head + batch[place : place + step]
        status, wait, answer = _request(endpoint, part, key, timeout)
        while status in _TRY_AGAIN and time.monotonic() + wait <= deadline:
            time.sleep(wait)
            status, wait, answer = _request(endpoint, part, key, timeout)
        if status != 202:
            raise ReplayError(f"{endpoint}: {answer.get('code', status)}: {answer.get('detail', '')}")
        taken, rejected = int(answer.get("accepted", 0)), answer.get("rejected", [])
        if rejected:
            raise ReplayError(
                f"{endpoint}: {rejected[0].get('code')}: {len(rejected)} of "
                f"{taken + len(rejected)} reports were refused."
            )
        accepted += taken
    return accepted


def _request(
    endpoint: str, batch: bytes, key: str | None, timeout: float
) -> tuple[int, float, dict[str, Any]]:
    """The status, how long to wait before asking again, and the answer."""
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
        raise ReplayError(f"{endpoint}: {error}") from error
    finally:
        connection.close()
    wait = response.getheader("retry-after", "")
    return response.status, min(float(wait), _LONGEST_WAIT) if wait.isdigit() else 1.0, answer
