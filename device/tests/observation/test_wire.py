"""
Whoever watches the wire sees no value: not in sizes, headers, order, number of requests, or times.

Two devices with one secret and different values are compared byte for byte: all but the answer bits must be
equal. With secrets of their own, whole populations must be of one shape. A leaky device is caught by the same
comparison.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.shared.devices import HERE, SECONDS, clock_in
from tests.shared.plans import APP_USAGE, EDITOR_HOURS, EDITOR_SECONDS, OPENED_FILES
from tests.shared.state_files import what_is_in

from reticent.device import Accepted, Device, HttpTransport, Outcome, Policy, Retry
from reticent.plan import Plan
from reticent.reports import from_json

ROUNDS = 8
PLAN = Plan.from_toml(
    APP_USAGE
    + EDITOR_SECONDS
    + EDITOR_HOURS
    + OPENED_FILES
    + """
[metrics.browser_seconds]
kind = "mean"
max_value = 21600
epsilon = 3.0

[groups.time]
metrics = ["editor_seconds", "browser_seconds"]
max_total = 21600
"""
)

Use = Callable[[Device, int], None]
"""What a program records in a round."""


def idle(device: Device, number: int) -> None:
    pass


def busy(device: Device, number: int) -> None:
    for _ in range(number % 5 + 1):
        device.add("editor_seconds", 4_000.125 * (number % 7))
    device.set("editor_hours", 21_600)
    device.set("browser_seconds", 21_600)
    device.add("opened_files", 64)


def confused(device: Device, number: int) -> None:
    device.add("editor_seconds", float("nan"))
    device.set("editor_hours", -(10**30))
    device.add("opened_files", "many")
    device.add("no_such_metric", 5)


USES: list[Use] = [idle, busy, confused]


class Leaky(HttpTransport):
    """Tells in a header how many bits are 1: a leak that leaves the body as it is."""

    def send(self, body: bytes, timeout: float) -> Outcome:
        self._headers["X-Trace"] = "t" * ones(body)
        return super().send(body, timeout)


class Anxious(HttpTransport):
    """Sends twice when the bits look important."""

    def send(self, body: bytes, timeout: float) -> Outcome:
        if ones(body) >= 3:
            super().send(body, timeout)
        return super().send(body, timeout)


def ones(body: bytes) -> int:
    return sum(byte.bit_count() for byte in from_json(body).bits)


@pytest.fixture
def twin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state file to copy: all devices of a comparison have its secret, a fixed one."""
    path = tmp_path / "twin"
    with monkeypatch.context() as patch:
        patch.setattr(os, "urandom", lambda count: bytes(range(count)))
        Device(PLAN, path, consent="granted", clock=clock_in(), policy=Policy.unlimited()).close()
    return path


def observed(state: Path, use: Use, transport: Any, tap: Any) -> tuple[list[bytes], list[float]]:
    """The requests of some rounds in the order they came, and when each was meant to be sent."""
    clock = clock_in()
    times: list[float] = []
    tap.take()
    with closing(
        Device(PLAN, state, consent="granted", clock=clock, transport=transport, policy=Policy.unlimited())
    ) as device:
        for number in range(HERE + 1, HERE + 1 + ROUNDS):
            clock.now = number * SECONDS + 60.0
            use(device, number)
            device._work_on_state()
            times += planned(state)
            device.flush(timeout=30.0)
    return tap.take(), times


def planned(state: Path) -> list[float]:
    return [kept.next_try for kept in what_is_in(state).waiting]


def without_bits(request: bytes) -> tuple[bytes, dict[str, Any]]:
    """A request with each answer bit left out: the head as it came, and the rest of the body."""
    head, _, body = request.partition(b"\r\n\r\n")
    report = json.loads(body)
    report["bits"] = len(report["bits"])
    return head, report


def shapes(requests: list[bytes]) -> list[tuple[int, bytes, dict[str, Any]]]:
    """All that a watcher can tell requests apart by, but for the answer bits."""
    return [(len(request), *without_bits(request)) for request in requests]


def copies(twin: Path) -> Iterator[Path]:
    for number in range(100):
        copy = twin.with_name(f"copy-{number}")
        shutil.copy(twin, copy)
        yield copy


def test_two_devices_with_one_secret_differ_in_nothing_but_their_bits(twin: Path, wiretap: Any) -> None:
    seen, times = [], []
    for state, use in zip(copies(twin), USES, strict=False):
        requests, planned_times = observed(state, use, HttpTransport(wiretap.address), wiretap)
        seen.append(requests)
        times.append(planned_times)
    assert len(seen[0]) == ROUNDS - 1
    assert shapes(seen[0]) == shapes(seen[1]) == shapes(seen[2])
    assert times[0] == times[1] == times[2], "to the last bit: the delay is drawn from the secret alone"
    assert len(set(times[0])) == ROUNDS - 1
    assert seen[0] != seen[1], "the values do change the bits, so something was compared"


@pytest.mark.parametrize("leak", [Leaky, Anxious])
def test_a_leaky_device_is_caught(twin: Path, wiretap: Any, leak: type[HttpTransport]) -> None:
    """By the same comparison."""
    first, second = (
        shapes(observed(state, use, leak(wiretap.address), wiretap)[0])
        for state, use in zip(copies(twin), (idle, busy), strict=False)
    )
    assert first != second


def test_a_device_that_waits_by_its_values_is_caught(
    twin: Path, wiretap: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The times come from the file; a device that lets a value into them is told apart."""
    from reticent.device import outbox

    plain = outbox.put

    def hasty(state: Any, report: Any, send_at: float, *rest: Any, **more: Any) -> Any:
        return plain(state, report, send_at + sum(report.bits), *rest, **more)

    monkeypatch.setattr(outbox, "put", hasty)
    first, second = (
        observed(state, use, HttpTransport(wiretap.address), wiretap)[1]
        for state, use in zip(copies(twin), (idle, busy), strict=False)
    )
    assert first != second


def test_retries_do_not_depend_on_values(twin: Path, wiretap: Any) -> None:
    """Three refusals in a row: each device tries the same reports in the same order, with the same bytes."""
    seen = []
    for state, use in zip(copies(twin), USES, strict=False):
        wiretap.refuse = 3
        requests, _ = observed(state, use, HttpTransport(wiretap.address), wiretap)
        bodies: dict[int, set[bytes]] = {}
        for request in requests:
            body = request.partition(b"\r\n\r\n")[2]
            bodies.setdefault(json.loads(body)["round"], set()).add(body)
        assert all(len(versions) == 1 for versions in bodies.values())
        seen.append(shapes(requests))
    assert seen[0] == seen[1] == seen[2]


def test_populations_with_different_values_have_one_shape(tmp_path: Path, wiretap: Any) -> None:
    """
    Twelve devices each, with secrets of their own: every request of either population has one and the same
    head, and a length that only the digits of the public cohort change.
    """
    populations = []
    for use in (idle, busy):
        shape = set()
        for number in range(12):
            state = tmp_path / f"{use.__name__}-{number}"
            clock = clock_in()
            with closing(
                Device(
                    PLAN,
                    state,
                    consent="granted",
                    clock=clock,
                    endpoint=wiretap.address,
                    policy=Policy.unlimited(),
                )
            ) as device:
                clock.now += SECONDS
                use(device, HERE + 1)
                clock.now += SECONDS
                device.flush(timeout=30.0)
            [request] = wiretap.take()
            head, report = without_bits(request)
            digits = len(str(report["cohort"]))
            shape.add(
                (_without_length(head), len(request.partition(b"\r\n\r\n")[2]) - digits, report["bits"])
            )
        populations.append(shape)
    assert populations[0] == populations[1]
    assert len(populations[0]) == 1


def _without_length(head: bytes) -> bytes:
    return b"\r\n".join(line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length"))


def test_accepted_and_refused_are_all_a_transport_may_say() -> None:
    """An outcome carries nothing of a report back into the schedule but these."""
    assert fields(Accepted) == ()
    assert [field.name for field in fields(Retry)] == ["after", "fault"]
