"""The process: how it starts, what it says, how it fails and recovers, and how it ends."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.reports import to_json, to_ndjson
from reticent_collector.cli.root import reticent as command
from reticent_collector.http import Collector
from reticent_collector.stores import Appended, RoundKey, open_store

RETICENT = str(Path(sys.executable).with_name("reticent"))


@pytest.fixture
def plan_file(tmp_path: Path, tools: Any) -> str:
    path = tmp_path / "plan.toml"
    path.write_text(tools.usage())
    return str(path)


def refused(*arguments: str) -> str:
    """What `reticent serve` says when it does not start; tests/cli/test_errors.py has more such cases."""
    done = CliRunner().invoke(command, ["serve", *arguments])
    assert done.exit_code == 1
    return done.stderr


# Starting


def test_an_expired_plan_is_warned_about(plan_file: str, tmp_path: Path) -> None:
    Path(plan_file).write_text(
        Path(plan_file).read_text().replace("[plan]", "[plan]\nexpires = 2020-01-01", 1)
    )
    told = refused(plan_file, "--store", f"sqlite:///{tmp_path}/s.db", "--listen", "0.0.0.0:0")
    assert "expired on 2020-01-01: devices no longer answer it." in told


def test_with_keys_it_may_listen_anywhere(start: Callable[..., Any], tools: Any, tmp_path: Path) -> None:
    service = tools.Service(tmp_path, tools.usage())
    tools.make_keys(service.store, "reader")
    process = subprocess.Popen(
        [RETICENT, "serve", *service.plan_files, "--store", service.store, "--listen", "0.0.0.0:0"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    assert any(line.startswith("Listening on http://0.0.0.0:") for line in lines)
    process.terminate()
    assert process.wait(30) == 0
    process.stderr.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--listen", "0.0.0.0:0"), "0.0.0.0:0 can be reached from elsewhere"),
        (("--listen", "[::]:0"), ":::0 can be reached from elsewhere"),
        (("--behind-proxy",), "A collector behind a proxy can be reached from elsewhere"),
    ],
)
def test_without_keys_it_serves_this_machine_alone(
    plan_file: str, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    """The set-up that the documentation has for a proxy was open to the world."""
    store = f"sqlite:///{tmp_path}/s.db"
    text = refused(plan_file, "--store", store, "--listen", "127.0.0.1:0", *options)
    assert words in text
    assert f"Hint: reticent keys create --store {store} --role ingest" in text


def test_a_rate_below_one_report_a_second_is_refused(plan_file: str, tmp_path: Path) -> None:
    arguments = ["serve", plan_file, "--store", f"sqlite:///{tmp_path}/s.db", "--rate", "0.5"]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2
    assert "expected 0 or at least 1 report a second, got 0.5." in done.stderr


def test_another_plan_of_the_same_version_is_refused(plan_file: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    opened = open_store(store)
    opened.register(Plan.from_toml(Path(plan_file).read_text().replace("360", "370")))
    opened.close()
    told = refused(plan_file, "--store", store, "--listen", "127.0.0.1:0")
    assert "is already registered with different content: metrics.minutes, metrics.spread." in told


def test_settings_come_from_the_environment_and_the_store_from_a_file(tools: Any, tmp_path: Path) -> None:
    secret = tmp_path / "store-url"
    secret.write_text(f"sqlite:///{tmp_path / 'from-file.db'}\n")
    service = tools.Service(
        tmp_path, tools.usage(), RETICENT_STORE_FILE=str(secret), RETICENT_MAX_BATCH="3", RETICENT_MAX_BODY="2000",
        RETICENT_RATE="1000", RETICENT_QUEUE="50", RETICENT_CLOCK_SKEW="0", RETICENT_READ_TIMEOUT="1",
    )  # fmt: skip
    del service.env["RETICENT_STORE"]
    service.start()
    try:
        plan = service.plans[0]
        reports = tools.make_reports(plan, service.now(plan), 4)
        assert service.post(to_ndjson(reports[:3]), "application/x-ndjson").status == 202
        assert service.post(to_ndjson(reports), "application/x-ndjson").status == 413
        assert service.post(b" " * 2001).status == 413
        assert (tmp_path / "from-file.db").exists()
    finally:
        assert service.stop() == 0


def test_tls(tools: Any, tmp_path: Path) -> None:
    certificate, key = tools.make_certificate(tmp_path)
    service = tools.Service(tmp_path, tools.usage(), scheme="https")
    keys = tools.make_keys(service.store, "reader", "ingest")
    service.start("--tls-cert", str(certificate), "--tls-key", str(key))
    try:
        plan = service.plans[0]
        trusted = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", service.port, context=trusted, timeout=20)
        for report in tools.make_reports(plan, service.now(plan), 3):
            sent = {"Content-Type": "application/json", **tools.bearer(keys["ingest"])}
            connection.request("POST", "/v1/reports", to_json(report), sent)
            response = connection.getresponse()
            assert (response.status, response.read()) == (202, b'{"accepted":1}')
        connection.request("POST", "/v1/reports", b"x" * (17 << 20), {"Content-Type": "application/json"})
        assert connection.getresponse().status == 413
        connection.close()
        form = f"key={keys['reader']}".encode()
        connection.request("POST", "/login", form, {"Content-Type": "application/x-www-form-urlencoded"})
        response = connection.getresponse()
        response.read()
        assert response.status == 303
        assert "secure" in str(response.getheader("Set-Cookie")).lower()
        connection.close()
        with pytest.raises(OSError):  # noqa: PT011 (plain HTTP gets nothing)
            tools.Service.get(service, "/healthz")
    finally:
        assert service.stop() == 0


# Ending


def head_of(body: bytes, query: str = "") -> bytes:
    lines = (f"POST /v1/reports{query} HTTP/1.1", "Host: localhost", "Content-Type: application/json")
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode()


def half_sent(service: Any, report: Any) -> tuple[socket.socket, bytes]:
    body = to_json(report)
    connection = socket.create_connection((service.host, service.port), timeout=20)
    connection.sendall(head_of(body) + body[:20])
    return connection, body[20:]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_an_orderly_end_answers_what_is_under_way(tools: Any, tmp_path: Path, how: int) -> None:
    service = tools.Service(tmp_path, tools.usage()).start()
    plan = service.plans[0]
    reports = tools.make_reports(plan, service.now(plan), 3)
    idle = service.connection()
    idle.request("GET", "/healthz")
    idle.getresponse().read()
    connection, rest = half_sent(service, reports[0])
    assert service.send(reports[1]).status == 202
    time.sleep(0.2)
    begin = time.monotonic()
    service.process.send_signal(how)
    assert idle.sock.recv(1) == b""
    connection.sendall(rest)
    with pytest.raises(OSError):  # noqa: PT011 (nothing new is taken)
        service.get("/healthz")
    said = connection.recv(1 << 16)
    assert said.startswith(b"HTTP/1.1 202 Accepted\r\nconnection: close\r\n")
    assert service.process.wait(20) == 0
    assert time.monotonic() - begin < 10
    connection.close()
    idle.close()
    store = open_store(service.store)
    assert [info.reports for info in store.rounds()] == [2]
    store.close()
    assert '"event": "stopped"' in service.log


def test_half_a_request_does_not_keep_it_from_ending(tools: Any, tmp_path: Path) -> None:
    """It had 30 s for the rest; now it is asked to send again, and what it sent is not kept."""
    service = tools.Service(tmp_path, tools.usage()).start()
    plan = service.plans[0]
    connection, _ = half_sent(service, tools.make_reports(plan, service.now(plan), 1)[0])
    time.sleep(0.2)
    begin = time.monotonic()
    service.process.terminate()
    assert service.process.wait(15) == 0
    assert (
        time.monotonic() - begin < 4
    )  # it takes one second, and took five with 3 s for the rest of a request
    answer = connection.recv(1 << 16)
    connection.close()
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n")
    assert b"\r\nretry-after: 1\r\n" in answer


def test_an_end_under_load_loses_nothing_that_was_acknowledged(tools: Any, tmp_path: Path) -> None:
    service = tools.Service(tmp_path, tools.usage()).start()
    plan = service.plans[0]

    def upload(seed: int) -> int:
        taken, connection = 0, service.connection()
        try:
            for number in range(1_000_000):
                report = tools.make_reports(plan, service.now(plan), 1, f"{seed} {number}")[0]
                connection.request(
                    "POST", "/v1/reports", to_json(report), {"Content-Type": "application/json"}
                )
                response = connection.getresponse()
                assert (response.status, response.read()) == (202, b'{"accepted":1}')
                taken += 1
        except (OSError, http.client.HTTPException):
            return taken
        finally:
            connection.close()
        raise AssertionError("it never ended")

    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(upload, seed) for seed in range(4)]
        time.sleep(3)
        assert service.stop() == 0
        taken = sum(each.result() for each in waiting)
    store = open_store(service.store)
    assert taken > 100
    assert sum(info.reports for info in store.rounds()) == taken
    store.close()


# What it says


def test_an_end_commits_what_is_queued_before_it_closes_the_store(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the server did: here there is none."""
    plan, url = Plan.from_toml(tools.usage()), f"sqlite:///{tmp_path / 'store.db'}"
    store = open_store(url)
    append, answers = store.append, []
    monkeypatch.setattr(store, "append", lambda records: (time.sleep(0.2), append(records))[1])

    async def live() -> None:
        app = Collector([plan], store)
        to_app: asyncio.Queue[Any] = asyncio.Queue()
        from_app: asyncio.Queue[Any] = asyncio.Queue()
        task = asyncio.create_task(app({"type": "lifespan"}, to_app.get, from_app.put))
        await to_app.put({"type": "lifespan.startup"})
        assert (await from_app.get())["type"] == "lifespan.startup.complete"
        host, kind = (b"host", b"localhost"), (b"content-type", b"application/json")
        (report,) = tools.make_reports(plan, plan.round_at(time.time()), 1)
        assert app.ingest is not None
        app.ingest.take(app.ingest.admit([host, kind]), to_json(report), answers.append)
        await to_app.put({"type": "lifespan.shutdown"})
        await task

    asyncio.run(live())
    assert [answer.status for answer in answers] == [202]
    assert open_store(url).stored_reports() == 1


def test_the_log_tells_nothing_about_anybody(tools: Any, tmp_path: Path) -> None:
    service = tools.Service(tmp_path, tools.usage(round_length="1s", grace="1s"))
    keys = tools.make_keys(service.store, "ingest", "reader")
    service.start("--read-timeout", "0.5")
    plan = service.plans[0]
    reports = tools.make_reports(plan, service.now(plan), 30)
    bodies = [to_json(report) for report in reports]
    headers = {"Content-Type": "application/json", "User-Agent": "Spy/1.0", **tools.bearer(keys["ingest"])}
    for body in bodies:
        service.call("POST", "/v1/reports", body, headers)
        service.post(body, key="wrong-key")
    for wrong in (b"\xff", b"{", bodies[0][:-1], b'{"plan":"marker-in-a-body"}'):
        service.post(wrong, key=keys["ingest"])
    service.raw(b"marker-in-nonsense\r\n\r\n")
    service.raw(
        b"POST /marker-in-a-path HTTP/1.1\r\nContent-Length: 9\r\nX-Marker: marker-in-a-header\r\n\r\n"
    )
    service.get("/v1/estimates?plan=marker-in-a-query", keys["reader"])
    service.get("/v1/estimates?plan=app-usage&metric=marker-in-a-query", keys["reader"])
    service.call(
        "POST", "/login", f"key={keys['reader']}".encode(), {"Cookie": "reticent_session=marker.1.2"}
    )
    service.call(
        "GET", "/", None, {"Upgrade": "websocket", "Connection": "Upgrade", **tools.bearer(keys["reader"])}
    )
    end = time.monotonic() + 20
    while '"event": "sealed"' not in service.log and time.monotonic() < end:
        time.sleep(0.1)
    assert service.stop() == 0
    said = service.log
    assert '"event": "sealed"' in said
    ids = [json.loads(body)["id"] for body in bodies]
    for secret in (
        *keys.values(),
        *(key.split("_", 3)[3] for key in keys.values()),
        *ids,
        "marker",
        "wrong-key",
        "Spy",
    ):
        assert secret not in said
    assert not re.search(r"127\.0\.0\.1(?!:\d+\n)", said.replace("Listening on http://", ""))
    assert re.findall(r"127\.0\.0\.1:(\d+)", said) == [str(service.port)]
    assert "Traceback" not in said
    for line in said.splitlines():
        if line.startswith("{"):
            assert {"time", "event"} <= json.loads(line).keys() <= {
                "time", "level", "event", "store", "open_reports", "plan", "version", "round", "reason", "kind",
            }  # fmt: skip


# When the store fails


class Moody:
    """A store that fails, or waits, when it is told to."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.failing = False
        self.broken = False
        self.gate = threading.Event()
        self.gate.set()

    def __getattr__(self, name: str) -> Any:
        if self.failing and name in ("rounds", "plans", "counts", "keys", "unsealed"):
            raise StoreError("the disk is on fire")
        if self.broken and name == "rounds":
            raise RuntimeError("marker-in-an-error")
        return getattr(self._store, name)

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        assert self.gate.wait(20)
        if self.failing:
            raise StoreError("the disk is on fire")
        return self._store.append(records)  # type: ignore[no-any-return]

    def ping(self) -> None:
        if self.failing:
            raise StoreError("the disk is on fire")
        self._store.ping()


@pytest.fixture
def moody(tools: Any, tmp_path: Path) -> Moody:
    return Moody(open_store(f"sqlite:///{tmp_path / 'store.db'}"))


def test_a_failing_store_is_said_so_and_recovers(
    tools: Any, moody: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent_collector.http.log.quiet", True)
    monkeypatch.setattr("reticent_collector.http.health.FRESH_SECONDS", 0.0)
    plan = Plan.from_toml(tools.usage())
    with tools.in_thread(Collector([plan], moody)) as service:
        reports = tools.make_reports(plan, service.now(plan), 10)
        assert service.send(reports[0]).status == 202
        moody.failing = True
        for answer in (
            service.send(reports[1]),
            service.post(to_ndjson(reports), "application/x-ndjson"),
            service.get("/readyz"),
            service.get("/v1/estimates?plan=app-usage"),
            service.get("/v1/rounds"),
            service.get("/v1/plans"),
            service.get("/metrics"),
        ):
            assert (answer.status, answer.json["code"]) == (503, "unavailable")
            assert int(answer.headers["retry-after"]) > 0
        assert service.get("/healthz").status == 200
        moody.failing = False
        assert service.post(to_ndjson(reports), "application/x-ndjson").json["accepted"] == 10
        assert service.get("/readyz").status == 200
        (found,) = service.get("/v1/rounds").json["rounds"]
        assert found["reports"] == 10


def test_a_full_queue_is_said_so_and_empties(
    tools: Any, moody: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent_collector.http.log.quiet", True)
    plan = Plan.from_toml(tools.usage())
    with (
        tools.in_thread(Collector([plan], moody, most_waiting=3)) as service,
        ThreadPoolExecutor(8) as threads,
    ):
        reports = tools.make_reports(plan, service.now(plan), 20)
        moody.gate.clear()
        first = threads.submit(service.send, reports[0])
        time.sleep(0.3)
        waiting = [threads.submit(service.send, report) for report in reports[1:4]]
        time.sleep(0.3)
        for answer in (service.send(reports[4]), service.post(to_ndjson(reports), "application/x-ndjson")):
            assert (answer.status, answer.json["code"]) == (503, "busy")
            assert int(answer.headers["retry-after"]) > 0
        moody.gate.set()
        assert [each.result().status for each in (first, *waiting)] == [202] * 4
        assert service.send(reports[4]).status == 202


def test_what_goes_wrong_inside_is_a_500_that_tells_nothing(
    tools: Any, moody: Moody, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent_collector.http.log.quiet", False)
    plan = Plan.from_toml(tools.usage())
    with tools.in_thread(Collector([plan], moody)) as service:
        moody.broken = True
        answer = service.get("/v1/rounds")
        assert (answer.status, answer.json["code"]) == (500, "internal")
        assert answer.headers["x-content-type-options"] == "nosniff"
        moody.broken = False
        assert service.get("/v1/rounds").status == 200
    said = capfd.readouterr().err
    assert '"event": "internal-error", "kind": "RuntimeError"' in said
    assert "marker" not in said
    assert "Traceback" not in said


def test_a_client_that_leaves_does_not_keep_others_waiting(
    tools: Any, moody: Moody, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its report is written all the same; who comes after it gets an answer."""
    monkeypatch.setattr("reticent_collector.http.log.quiet", True)
    plan = Plan.from_toml(tools.usage())
    with tools.in_thread(Collector([plan], moody)) as service, ThreadPoolExecutor(4) as threads:
        reports = tools.make_reports(plan, service.now(plan), 6)
        moody.gate.clear()
        for report, extra in ((reports[0], ""), (reports[1], ""), (reports[2], "?the=long-way")):
            body = to_json(report)
            with socket.create_connection((service.host, service.port)) as leaving:
                leaving.sendall(head_of(body, extra) + body)
                time.sleep(0.2)
        staying = [threads.submit(service.send, report) for report in reports[3:]]
        time.sleep(0.2)
        moody.gate.set()
        assert [each.result().status for each in staying] == [202] * 3
        assert service.get("/v1/rounds").json["rounds"][0]["reports"] == 6
