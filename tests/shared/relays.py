"""Relays in threads, what stands behind them, and reports to send through them."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from tests.shared.collectors import Answer, Service, in_thread, usage
from tests.shared.plans import BARE, SAMPLED

from reticent.plan import Plan
from reticent.reports import Report
from reticent_collector.http import Client, Relay, Wire
from reticent_collector.stores import RoundKey

PLANS = [Plan.from_toml(text) for text in (usage(1), usage(2), BARE, SAMPLED)]
PLAN = PLANS[0]
NOW = PLAN.round_at(time.time())
NDJSON, PACKED = "application/x-ndjson", "application/vnd.reticent.packed"


def url_of(service: Service) -> str:
    return f"http://127.0.0.1:{service.port}"


@contextmanager
def relaying(to: str, key: str | None = None, timeout: float = 10.0, **options: Any) -> Iterator[Service]:
    options = {"batch": 1, "seconds": 15.0, "patience": 20.0, **options}
    with in_thread(Relay(PLANS, Client(to, key, timeout), **options)) as service:
        yield service


def post_all(service: Service, reports: list[Report], **headers: str) -> list[Answer]:
    """Send reports at once, each on a connection of its own."""
    with ThreadPoolExecutor(len(reports)) as pool:
        return list(pool.map(service.send, reports))


def counted(store: Any, number: int = NOW, plan: Plan = PLAN) -> int:
    counts = store.counts(RoundKey(plan.name, plan.version, number))
    return sum(by_metric["minutes"].devices for by_metric in counts.values())


class Recorder:
    """Something that takes packed batches as a collector does, and keeps every byte that it was sent."""

    def __init__(self, answer: Callable[[bytes], bytes] | None = None) -> None:
        self.requests: list[bytes] = []
        self.peers: list[str] = []
        self._answer = answer or self.accept
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def accept(self, body: bytes) -> bytes:
        batch = Wire(PLANS).packed(body, NOW * PLAN.round_seconds, 10**6)
        return respond(202, {"accepted": batch.accepted, "rejected": []})  # type: ignore[union-attr]

    def _run(self) -> None:
        while True:
            try:
                connection, (address, _) = self._server.accept()
            except OSError:
                return
            self.peers.append(address)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # the relay may have had enough of an answer
            while request := read_request(connection):
                self.requests.append(request)
                connection.sendall(self._answer(request.partition(b"\r\n\r\n")[2]))


def read_request(connection: socket.socket) -> bytes:
    data = b""
    while True:
        head, end, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if end and length and len(body) == int(length[1]):
            return data
        more = connection.recv(1 << 16)
        if not more:
            return b""
        data += more


def respond(status: int, document: object, *headers: str) -> bytes:
    body = json.dumps(document).encode()
    lines = [f"HTTP/1.1 {status} Something", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body
