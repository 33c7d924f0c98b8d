"""`reticent serve` as a real process on a real port, over a real file; and reports to send to it."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from queue import Queue
from typing import Any

from tests.shared.forked import Forked
from tests.shared.plans import USAGE
from tests.shared.reports import any_answers

from reticent.plan import Plan
from reticent.reports import Report, pack_bits, to_json
from reticent_collector.http import Limits, make_server
from reticent_collector.stores import create_key, open_store


def usage(version: int = 1, round_length: str = "1h", grace: str = "1h") -> str:
    """The plan `USAGE`, of such a version and such rounds."""
    return USAGE.format(version=version, round=round_length, grace=grace)


def make_reports(plan: Plan, number: int, count: int, seed: object = 0) -> list[Report]:
    """Reports of as many devices; the same seed makes the same ones."""
    draw = random.Random(f"{seed} {number}")
    return [
        any_answers(
            Report(
                plan.name,
                plan.version,
                number,
                draw.randbytes(16),
                pack_bits([draw.randrange(2) for _ in range(plan.bits)]),
                draw.randrange(256) if plan.uses_cohort else None,
                {segment.name: draw.choice(segment.tags) for segment in plan.segments},
            ),
            plan,
            draw,
        )
        for _ in range(count)
    ]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Service:
    """`reticent serve`, in a process of its own."""

    verb = "serve"
    listen_variable = "RETICENT_LISTEN"
    fresh = sys.platform != "linux"
    """Whether Python starts anew for it: needed where that is the subject."""

    def __init__(
        self, folder: Path, *plans: str, store: str | None = None, scheme: str = "http", **env: str
    ) -> None:
        self.folder = folder
        self.store = store or f"sqlite:///{folder / 'store.db'}"
        self.plan_files = []
        for place, text in enumerate(plans):
            path = folder / f"plan-{place}.toml"
            path.write_text(text)
            self.plan_files.append(str(path))
        self.plans = [Plan.from_toml(text) for text in plans]
        self.log_file = folder / "log"
        self.env = {"RETICENT_STORE": self.store, self.listen_variable: "127.0.0.1:0", **env}
        self.scheme = scheme
        self.host, self.port = "127.0.0.1", 0
        self.process: subprocess.Popen[bytes] | Forked | None = None

    def start(self, *options: str, port: int | None = None) -> Service:
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("RETICENT_")}
        listen = {} if port is None else {self.listen_variable: f"127.0.0.1:{port}"}
        begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        arguments, env = [self.verb, *self.plan_files, *options], {**inherited, **self.env, **listen}
        with self.log_file.open("ab") as log:
            self.process = (
                subprocess.Popen(
                    [str(Path(sys.executable).with_name("reticent")), *arguments],
                    env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )
                if self.fresh
                else Forked(arguments, env, log.fileno(), min(2.0, self.plans[0].round_seconds / 10))
            )  # fmt: skip
        for _ in range(6000):
            said = self.log_file.read_bytes()[begin:].decode()
            found = re.search(r"Listening on (https?)://127\.0\.0\.1:(\d+)\n", said)
            if found:
                assert found[1] == self.scheme
                self.port = int(found[2])
                return self
            assert self.process.poll() is None, said
            time.sleep(0.01)
        raise AssertionError(said)

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def stop(self, how: int = signal.SIGTERM) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(40)

    def connection(self, timeout: float = 30.0) -> HTTPConnection:
        return HTTPConnection(self.host, self.port, timeout=timeout)

    def call(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = self.connection()
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def get(self, path: str, key: str | None = None, **headers: str) -> Answer:
        return self.call("GET", path, None, {**bearer(key), **headers})

    def post(self, body: bytes, kind: str = "application/json", key: str | None = None) -> Answer:
        return self.call("POST", "/v1/reports", body, {"Content-Type": kind, **bearer(key)})

    def send(self, report: Report, key: str | None = None) -> Answer:
        return self.post(to_json(report), key=key)

    def raw(self, *parts: bytes, pause: float = 0.05, patience: float = 10.0) -> bytes:
        """All that is answered to bytes, until the server closes or is silent for a while."""
        with socket.create_connection((self.host, self.port), timeout=patience) as connection:
            for place, part in enumerate(parts):
                time.sleep(pause if place else 0)
                connection.sendall(part)
            said = b""
            try:
                while more := connection.recv(1 << 16):
                    said += more
            except (TimeoutError, ConnectionResetError):
                pass
            return said

    def now(self, plan: Plan) -> int:
        """The round under way."""
        return plan.round_at(time.time())


class RelayService(Service):
    """`reticent relay`, in a process of its own."""

    verb = "relay"
    listen_variable = "RETICENT_RELAY_LISTEN"


def bearer(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def make_keys(store: str, *roles: str) -> dict[str, str]:
    """A key for each role; "revoked" is an admin's that is so."""
    opened = open_store(store)
    texts = {}
    for role in roles:
        texts[role], key = create_key("admin" if role == "revoked" else role, "", int(time.time()))
        opened.add_key(key)
        if role == "revoked":
            assert opened.revoke_key(key.id, int(time.time()))
    opened.close()
    return texts


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        capture_output=True, check=True,
    )  # fmt: skip
    return certificate, key


@contextmanager
def in_thread(
    app: Any, limits: Limits | None = None, tls: tuple[str, str] | None = None
) -> Iterator[Service]:
    """The same server in a thread of this process, where a test can reach into its store."""
    limits, addresses = limits or Limits(), Queue[int]()
    server = make_server(app, "127.0.0.1", 0, limits, tls, started=lambda _, port: addresses.put(port))
    thread = threading.Thread(target=server.run)
    thread.start()
    service = Service.__new__(Service)
    service.host, service.port = "127.0.0.1", addresses.get(timeout=20)

    def stop() -> None:
        server.stop()
        thread.join(40)
        assert not thread.is_alive()

    service.stop_server = stop  # type: ignore[attr-defined]
    try:
        yield service
    finally:
        stop()
