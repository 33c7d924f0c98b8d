"""The Python device lives the lives of transitions.json, and others by chance, through its public names."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp
from threading import Event, Thread
from typing import Any

import pytest
from spec import interpreter, random_lives

from reticent.device import Device, Policy
from reticent.plan import Plan
from reticent.reports import to_json
from reticent.testing import ManualClock

DOCUMENT = json.loads(interpreter.FILE.read_text())
PLANS = {name: Plan.from_toml(text) for name, text in DOCUMENT["plans"].items()}
LIVES = {life["name"]: life for life in DOCUMENT["lives"]}
Failures = dict[int, dict[str, str]]
"""What differs from the rules, by row and field."""


class Collector:
    """A collector on loopback that answers as it is told, then 202; it can hold an answer back."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.bodies: list[str] = []
        self.elsewhere = 0  #: Requests to the address that a redirect names
        self.arrived, self.released = Event(), Event()
        self.released.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                if self.path != "/lives/v1/reports":
                    collector.elsewhere += 1
                collector.bodies.append(body)
                answer = collector.answers.pop(0) if collector.answers else {"status": 202}
                collector.arrived.set()
                collector.released.wait(20)
                if "drop" in answer:
                    self.close_connection = True
                    return
                content = json.dumps({"code": answer["code"]}) if "code" in answer else "<html>"
                self.send_response(answer["status"])
                if 300 <= answer["status"] < 400:
                    self.send_header("Location", "/elsewhere")
                if "retry_after" in answer:
                    self.send_header("Retry-After", str(answer["retry_after"]))
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content.encode())

            def do_GET(self) -> None:
                collector.elsewhere += 1
                self.send_response(202)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/lives"


class Runner:
    """One life of a device."""

    def __init__(self, collector: Collector, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.collector = collector
        self.state = folder / "state"
        self.clock = ManualClock()
        self.device: Device | None = None
        self.environment: tuple[str, ...] = ()
        self.secret: bytes | None = None
        self.nonsense = 0
        draw = os.urandom

        def urandom(size: int) -> bytes:
            if size != 32:
                return draw(size)
            if self.secret is not None:
                return self.secret
            self.nonsense += 1  # nothing may be drawn now
            return hashlib.sha256(f"nonsense {self.nonsense}".encode()).digest()

        patch.setattr(os, "urandom", urandom)
        patch.setattr("reticent.device.policy.environment", lambda: self.environment)

    def run(self, rows: list[dict[str, Any]]) -> Failures:
        """What differs, by row and field."""
        failures: Failures = {}
        is_broken = False
        for number, row in enumerate(rows):
            expected = row.get("then")
            problems: dict[str, str] = {}
            try:
                observed = self.step(row, expected)
                if expected is not None and not is_broken:
                    problems = differences(expected, observed)
            except Exception as error:
                is_broken = True
                problems = {"raised": f"{type(error).__name__}: {error}"}
            if is_broken:
                problems = problems or {"raised": "earlier"}
            if expected is not None and problems:
                failures[number] = problems
        if self.device is not None:
            self.device.close()
        return failures

    def step(self, row: dict[str, Any], expected: dict[str, Any] | None) -> dict[str, Any]:
        self.clock.now = float(row["at"])
        number = None if expected is None else expected.get("secret")
        self.secret = None if number is None else interpreter.secret(number)
        self.collector.answers = list(row.get("answers", []))
        self.collector.bodies = []
        self.collector.elsewhere = 0
        call = self.call_while_sending if "while_sending" in row else getattr(self, row["do"])
        result = call(row)
        if expected is None or self.device is None:
            return {}
        return {"result": result, "sent": self.collector.bodies, **self.look()}

    def look(self) -> dict[str, Any]:
        if self.device is None:
            raise ValueError("no program runs")
        status, receipt = self.device.status(), self.device.receipt()
        reasons = [status.consent] if status.consent in ("unset", "denied") else []
        reasons += ["paused"] if status.paused else []
        reasons += list(status.silenced_by)
        reasons += ["refused"] if status.refused else []
        reasons += ["expired"] if status.plan_expired else []
        reasons += ["state"] if status.problem else []
        return {
            "consent": self.device.consent,
            "active": status.active,
            "reasons": reasons,
            "version": status.version,
            "epoch": status.epoch,
            "reports": interpreter.listed(receipt.reports),  # type: ignore[arg-type]
            "loss": receipt.total_loss,
            "elsewhere": self.collector.elsewhere,
            "next": status.next_answer,
        }

    # Events

    def open(self, row: dict[str, Any]) -> None:
        self.environment = tuple(row.get("environment", ()))
        self.device = Device(
            PLANS[row["plan"]],
            self.state.parent / "missing" / "folder" / "state" if row.get("unusable") else self.state,
            consent=row["consent"],
            ask_again=row.get("ask_again", True),
            policy=policy_of(row.get("policy", {})),
            endpoint=self.collector.endpoint,
            clock=self.clock,
        )

    def close(self, row: dict[str, Any]) -> None:
        if self.device is not None:
            self.device.close()

    def kill(self, row: dict[str, Any]) -> None:
        self.killed = self.device  # it is left as it is, with the file open

    def add(self, row: dict[str, Any]) -> None:
        if self.device is not None:
            self.device.add(row["metric"], row["amount"])
            self.device.save()

    def write(self, row: dict[str, Any]) -> None:
        if self.device is not None:
            self.device.save()

    def flush(self, row: dict[str, Any]) -> int:
        return self.device.flush() if self.device is not None else 0

    def report(self, row: dict[str, Any]) -> str | None:
        if self.device is None:
            return None
        report = self.device.report(self.device.current_round if row.get("current") else None)
        return None if report is None else to_json(report).decode()

    def consent(self, row: dict[str, Any]) -> bool:
        return self.device is not None and self.device.set_consent(row["choice"])

    def pause(self, row: dict[str, Any]) -> bool:
        return self.device is not None and self.device.pause()

    def resume(self, row: dict[str, Any]) -> bool:
        return self.device is not None and self.device.resume()

    def forget(self, row: dict[str, Any]) -> bool:
        return self.device is not None and self.device.forget()

    def call_while_sending(self, row: dict[str, Any]) -> object:
        collector, results = self.collector, []
        collector.answers = [row["while_sending"]]
        collector.arrived.clear()
        collector.released.clear()
        sending = Thread(target=lambda: self.flush(row))
        calling = Thread(target=lambda: results.append(getattr(self, row["do"])(row)))
        try:
            sending.start()
            if not collector.arrived.wait(10):
                raise ValueError("nothing is sent")
            calling.start()
            calling.join(0.2)
            has_waited = calling.is_alive()
        finally:
            collector.released.set()
        calling.join(20)
        sending.join(20)
        return results[0] if has_waited else "it did not wait"

    def damage(self, row: dict[str, Any]) -> None:
        content = bytearray(self.state.read_bytes())
        if row["how"] == "truncate":
            content = content[: len(content) // 2]
        elif row["how"] == "zeros":
            content = bytearray(len(content))
        else:  # one bit of the secret
            place = max(content.find(interpreter.secret(number)) for number in range(random_lives.SECRETS))
            if place >= 0:  # it may be damaged already
                content[place] ^= 1
        self.state.write_bytes(content)

    def delete(self, row: dict[str, Any]) -> None:
        for file in self.state.parent.iterdir():
            file.unlink()


def policy_of(settings: Any) -> Policy:
    """A policy by the names of the rules."""
    if settings == "unlimited":
        return Policy.unlimited()
    return Policy(**settings)


def differences(expected: dict[str, Any], observed: dict[str, Any]) -> dict[str, str]:
    """What is not as the rules say, by field."""
    problems = {}
    for name, value in expected.items():
        if name == "secret":
            continue
        if name == "loss":
            least, most = value
            loss = observed.get("loss", -1.0)
            if loss < least - 1e-12 or (most is not None and loss > most * (1 + 1e-6) + 1e-9):
                problems["loss"] = f"{loss} is not in {value}"
        elif observed.get(name) != value:
            problems[name] = f"expected {value}, got {observed.get(name)}"
    if observed.get("elsewhere"):
        problems["elsewhere"] = "a redirect was followed"
    return problems


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()


def failures_of(rows: list[dict[str, Any]], collector: Collector, patch: pytest.MonkeyPatch) -> Failures:
    folder = Path(mkdtemp(prefix="reticent-"))
    try:
        return Runner(collector, folder, patch).run(rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("name", LIVES)
def test_a_life(name: str, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failures_of(LIVES[name]["rows"], collector, monkeypatch) == {}


def check_random_lives(first: int, count: int, collector: Collector) -> None:
    """The device shows what the rules say, and its receipt never less than an independent account has."""
    found = {}
    for life in random_lives.document(first, count)["lives"]:
        with pytest.MonkeyPatch.context() as patch:
            if failures := failures_of(life["rows"], collector, patch):
                found[life["name"]] = failures
    assert found == {}


def test_random_lives(collector: Collector) -> None:
    check_random_lives(0, 30, collector)


@pytest.mark.soak
@pytest.mark.parametrize("thousand", range(10))
def test_ten_thousand_random_lives(thousand: int, collector: Collector) -> None:
    check_random_lives(1000 * thousand, 1000, collector)
