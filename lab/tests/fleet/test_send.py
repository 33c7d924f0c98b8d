"""A fleet's reports reach a collector, once each, through refusals and waits; a real one counts them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest

from reticent.mechanisms import OneBitMean
from reticent.plan import Metric, Plan
from reticent.reports import from_packed
from reticent_collector.estimates import estimate
from reticent_lab.fleet import GRAN_TURISMO_SPORT, VectorisedFleet, send_packed
from reticent_lab.fleet.send import SendError

PLAN = Plan("p", 1, 60, 60, (Metric("a", OneBitMean(1, 60)),))
MODULE: ModuleType = sys.modules["reticent_lab.fleet.send"]


class Collector(BaseHTTPRequestHandler):
    """Says what the test told it to: (status, headers) for each request in turn, then 202."""

    bodies: list[bytes]
    script: list[tuple[int, dict[str, str]]]
    rejected: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        status, headers = self.script.pop(0) if self.script else (202, {})
        answer: dict[str, Any] = {"code": "busy", "detail": "wait"}
        if status == 202:
            self.bodies.append(body)
            answer = {
                "accepted": len(from_packed(body, PLAN)) - len(self.rejected),
                "rejected": self.rejected,
            }
        text = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments: object) -> None:
        pass


Server = tuple[str, type[Collector]]


@pytest.fixture
def server() -> Iterator[Server]:
    handler = type("Here", (Collector,), {"bodies": [], "script": [], "rejected": []})
    made = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}", handler
    made.shutdown()
    made.server_close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the sender slept, on a clock that only its sleep moves."""
    slept: list[float] = []
    monkeypatch.setattr(MODULE.time, "sleep", slept.append)  # type: ignore[attr-defined]
    monkeypatch.setattr(MODULE.time, "monotonic", lambda: sum(slept))  # type: ignore[attr-defined]
    return slept


def batch(devices: int) -> bytes:
    return VectorisedFleet(PLAN, devices, seed=1).packed(7, {})


def test_all_reports_arrive_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "MOST_AT_ONCE", 40)
    url, handler = server
    whole = batch(100)
    assert send_packed(url, whole, key="k") == 100
    assert [len(from_packed(body, PLAN)) for body in handler.bodies] == [40, 40, 20]
    assert [report for body in handler.bodies for report in from_packed(body, PLAN)] == from_packed(
        whole, PLAN
    )


def test_a_busy_collector_is_asked_again_after_the_time_it_names(server: Server, waits: list[float]) -> None:
    url, handler = server
    handler.script[:] = [(503, {"retry-after": "3"}), (429, {"retry-after": "7"}), (503, {})]
    assert send_packed(url, batch(5)) == 5
    assert waits == [3.0, 7.0, 1.0]
    assert len(handler.bodies) == 1


def test_patience_ends_and_the_refusal_says_why(server: Server, waits: list[float]) -> None:
    url, handler = server
    handler.script[:] = [(503, {"retry-after": "4"})] * 9
    with pytest.raises(SendError, match="busy: wait"):
        send_packed(url, batch(3), patience=10.0)
    assert waits == [4.0, 4.0]


def test_what_waiting_cannot_mend_is_refused_at_once(server: Server, waits: list[float]) -> None:
    url, handler = server
    handler.script[:] = [(401, {})]
    with pytest.raises(SendError, match="busy: wait"):
        send_packed(url, batch(3))
    handler.rejected[:] = [{"index": 0, "code": "late"}]
    with pytest.raises(SendError, match="late: 1 of 3 reports were refused"):
        send_packed(url, batch(3))
    assert waits == []


def test_nobody_listening_is_an_error_of_ours() -> None:
    with pytest.raises(SendError, match=r"http://127\.0\.0\.1:9"):
        send_packed("http://127.0.0.1:9", batch(1))


PLAN_FILE = """
min_reports = 1
[plan]
name = "replayed"
version = 1
round = "1h"
grace = "100d"
owner = "o"
expires = 2099-01-01

[metrics.seconds]
kind = "mean"
max_value = 3600
epsilon = 1.0
flip = 0.2

[metrics.spread]
kind = "histogram"
max_value = 3600
buckets = 12
mechanism = "hadamard-bit"
epsilon = 1.0

[segments]
os = ["linux", "windows"]
"""


@pytest.fixture
def real(tmp_path: Path) -> Iterator[str]:
    """`reticent serve` in a process of its own, on a port of its own, that takes 40,000 reports a second."""
    (tmp_path / "plan.toml").write_text(PLAN_FILE)
    command = [str(Path(sys.executable).with_name("reticent")), "serve", str(tmp_path / "plan.toml")]
    options = ["--store", f"sqlite:///{tmp_path / 'store.db'}", "--listen", "127.0.0.1:0", "--rate", "40000"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*command, *options], stdout=log, stderr=log)
    try:
        for _ in range(600):
            listening = re.search(r"Listening on (http://127\.0\.0\.1:\d+)", (tmp_path / "log").read_text())
            if listening:
                break
            assert process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.05)
        assert listening is not None, (tmp_path / "log").read_text()
        yield listening[1]
    finally:
        process.terminate()
        process.wait(40)


def test_a_real_collector_counts_what_the_fleet_counts(real: str) -> None:
    """
    Three rounds of 30,000 devices. The allowance of 40,000 a second makes the collector say 429 on the way.

    The estimates over HTTP are those of the fleet's own counts, to the last digit.
    """
    plan = Plan.from_toml(PLAN_FILE)
    fleet = VectorisedFleet(plan, 30_000, seed=3)
    drawn = GRAN_TURISMO_SPORT.scaled(3600, rounds_per_day=24).values(30_000, 3, np.random.default_rng(3))
    values = {metric.name: drawn for metric in plan.metrics}
    tags = (np.arange(30_000) % 3).astype(np.uint8)[:, None]
    last = plan.round_at(time.time()) - 1
    rounds = [last - 2, last - 1, last]
    for place, number in enumerate([*rounds, last - 2]):  # the first once more: reports that were accepted
        of_round = {name: of[place % 3] for name, of in values.items()}
        assert send_packed(real, fleet.packed(number, of_round, tags)) == 30_000
    for place, number in enumerate(rounds):
        counts = fleet.counts(number, {name: of[place] for name, of in values.items()}, tags)
        asked = f"{real}/v1/estimates?plan=replayed&round={number}&metric=seconds&segment=os:linux"
        with urlopen(asked, timeout=30) as got:  # noqa: S310
            (row,) = json.load(got)["estimates"]
        expected = estimate(plan.by_name["seconds"], counts[number, ("linux",)]["seconds"])
        assert row["reports"] == 10_000
        assert row["value"] == expected.value
