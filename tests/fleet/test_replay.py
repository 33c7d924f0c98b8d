"""Long batches are sent in parts, whole records each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest

from tacit.fleet import ReplayError, VectorisedFleet, replay, send_packed
from tacit.mechanisms import OneBitMean
from tacit.plan import Metric, Plan
from tacit.reports import from_packed

PLAN = Plan("p", 1, 60, 60, (Metric("a", OneBitMean(1, 60)),))


class Collector(BaseHTTPRequestHandler):
    bodies: list[bytes]
    status = 202

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.bodies.append(body)
        answer = json.dumps(
            {"accepted": len(from_packed(body, PLAN)), "code": "busy", "detail": "wait"}
        ).encode()
        self.send_response(self.status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, type[Collector]]]:
    handler = type("Here", (Collector,), {"bodies": []})
    made = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}", handler
    made.shutdown()
    made.server_close()


def batch(devices: int) -> bytes:
    return VectorisedFleet(PLAN, devices, seed=1).packed(7, {"a": np.zeros(devices)})


def test_all_reports_arrive_once(
    server: tuple[str, type[Collector]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "MOST_AT_ONCE", 40)
    url, handler = server
    whole = batch(100)
    assert send_packed(url, whole, key="k") == 100
    assert [len(from_packed(body, PLAN)) for body in handler.bodies] == [40, 40, 20]
    assert [report for body in handler.bodies for report in from_packed(body, PLAN)] == from_packed(
        whole, PLAN
    )


def test_a_refusal_says_why(server: tuple[str, type[Collector]]) -> None:
    url, handler = server
    handler.status = 503
    with pytest.raises(ReplayError, match="busy: wait"):
        send_packed(url, batch(3))
