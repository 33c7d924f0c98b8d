"""Kinds of programs: real click, typer, argparse, ASGI and WSGI programs, with a real device."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import click
import pytest
import typer
from click.testing import CliRunner
from tests.shared.plans import TOOL
from typer.testing import CliRunner as TyperRunner

from reticent.device import Device, Policy
from reticent.errors import UsageError
from reticent.plan import Plan
from reticent.programs import Action, AsgiTelemetry, CommandLine, WsgiTelemetry, exit_status, timer
from reticent.testing import Sandbox, sandbox

HEAD = """
[plan]
name = "tool"
version = 1
round = "1d"
owner = "tool@example.org"
"""
MEAN = """
[metrics.{name}]
kind = "mean"
max_value = {top}
epsilon = 0.5
flip = 0.2
unit = "{unit}"
"""
USED_BUILD = '[metrics.used_build]\nkind = "flag"\nepsilon = 0.5\nflip = 0.2\n'
COMMANDS = TOOL + MEAN.format(name="duration", top=100_000, unit="millisecond") + USED_BUILD


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(COMMANDS)
    return path


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with sandbox() as box:
        yield box


Run = Callable[..., int]


def with_click(telemetry: CommandLine) -> Run:
    @click.group()
    def cli() -> None: ...

    @cli.command()
    @click.option("--code", type=int, default=0)
    def build(code: int) -> None:
        sys.exit(code)

    cli.command("publish")(lambda: None)
    telemetry.add_to(cli)
    return lambda *words: CliRunner().invoke(cli, words).exit_code


def with_typer(telemetry: CommandLine) -> Run:
    app = typer.Typer()

    @app.command()
    def build(code: int = 0) -> None:
        raise typer.Exit(code)

    app.command("publish")(lambda: None)
    telemetry.add_to(app)
    return lambda *words: TyperRunner().invoke(app, words).exit_code


def with_argparse(telemetry: CommandLine) -> Run:
    def run(*words: str) -> int:
        parser = argparse.ArgumentParser()
        commands = parser.add_subparsers(dest="command", required=True)
        commands.add_parser("build").add_argument("--code", type=int, default=0)
        commands.add_parser("publish")
        telemetry.add_to(commands)
        try:
            arguments = parser.parse_args(words)
            with telemetry.running(arguments.command):
                sys.exit(getattr(arguments, "code", 0))
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 1

    return run


FRAMEWORKS = {"click": with_click, "typer": with_typer, "argparse": with_argparse}


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> Callable[[CommandLine], Run]:
    return FRAMEWORKS[request.param]


def test_a_command_is_recorded(framework: Callable[[CommandLine], Run], plan: Path, box: Sandbox) -> None:
    run = framework(CommandLine(plan, plan.parent / "state", debug=True))
    assert run("build") == 0
    values = box.values()
    assert 0 < values.pop("duration") < 60_000  # type: ignore[operator]
    assert values == {"command": "build", "used_build": 1}
    assert not (plan.parent / "state").exists()


def test_a_failure_is_recorded_and_passed_on(
    framework: Callable[[CommandLine], Run], plan: Path, box: Sandbox
) -> None:
    run = framework(CommandLine(plan, plan.parent / "state", debug=True))
    assert run("build", "--code", "7") == 7
    assert box.values()["failed"] == 1


def test_a_command_that_is_no_label_is_not_recorded_by_name(
    framework: Callable[[CommandLine], Run], plan: Path, box: Sandbox
) -> None:
    run = framework(CommandLine(plan, plan.parent / "state", debug=True))
    assert run("publish") == 0
    assert set(box.values()) == {"duration"}


def test_the_rounds_of_a_program_that_has_ended_are_answered(
    framework: Callable[[CommandLine], Run], plan: Path, box: Sandbox
) -> None:
    framework(CommandLine(plan, plan.parent / "state", debug=True))("build")
    box.next_round()
    assert [report.plan for report in box.reports] == ["tool"]


@pytest.mark.parametrize("action", Action)
def test_the_command_telemetry(
    framework: Callable[[CommandLine], Run], action: Action, plan: Path, box: Sandbox
) -> None:
    run = framework(CommandLine(plan, plan.parent / "state"))
    assert run("telemetry", str(action)) == 0
    assert run("telemetry", "maybe") == 2
    assert box.values() == {}
    chosen = {Action.ON: "granted", Action.OFF: "denied"}.get(action, "granted")
    with Device(plan, plan.parent / "state") as device:
        assert device.consent == chosen


@pytest.mark.parametrize("broken", ["no plan", "not a plan", "the state is a folder"])
def test_a_broken_installation_never_stops_the_program(
    framework: Callable[[CommandLine], Run], broken: str, plan: Path
) -> None:
    state = plan.parent / "state"
    if broken == "no plan":
        plan.unlink()
    elif broken == "not a plan":
        plan.write_text("[plan")
    else:
        state.mkdir()
    run = framework(CommandLine(plan, state, consent="granted"))
    assert run("build", "--code", "3") == 3
    assert run("build") == 0


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SystemExit(None), 0), (SystemExit(0), 0), (SystemExit(5), 5), (SystemExit("no"), 1),
        (KeyboardInterrupt(), 130), (ValueError(), 1), (click.UsageError("x"), 2),
        (click.exceptions.Exit(0), 0), (click.exceptions.Exit(4), 4),
    ],
)  # fmt: skip
def test_exit_status(error: BaseException, status: int) -> None:
    assert exit_status(error) == status


# The question


class Terminal:
    """A terminal with a person in front of it who types `answer`."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.shown = ""

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self.answer

    def write(self, text: str) -> int:
        self.shown += text
        return len(text)

    def flush(self) -> None: ...


@pytest.mark.parametrize(
    ("answer", "consent"), [("y\n", "granted"), ("\n", "denied"), ("n\n", "denied"), ("", "unset")]
)
def test_the_question_is_asked_once_there_is_a_terminal(
    answer: str, consent: str, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sandbox(consent="unset") as box:
        telemetry = CommandLine(plan, plan.parent / "state", question="May we?", debug=True)
        with telemetry.running("build"):
            pass
        assert box.device.consent == "unset"
        terminal = Terminal(answer)
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)
        with telemetry.running("build"):
            assert terminal.shown == ""
        assert "May we?" in terminal.shown
        assert box.device.consent == consent
        terminal.shown = ""
        with telemetry.running("build"):
            pass
        assert ("May we?" in terminal.shown) is (consent == "unset")


def test_nobody_is_asked_where_a_rule_silences_the_device(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    terminal = Terminal("y\n")
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    with CommandLine(plan, plan.parent / "state").running("build"):
        pass
    assert terminal.shown == ""


# Sending


PROGRAM = """
import sys, time
from reticent import Policy
from reticent.programs import CommandLine
policy = Policy(silent_in_ci=False, silent_in_containers=False, shortest_round=1)
line = CommandLine(sys.argv[1], sys.argv[2], endpoint=sys.argv[3], key="secret-key", consent="granted", policy=policy)
with line.running("build"):
    pass
"""


def test_a_report_is_sent_by_another_process_and_the_command_does_not_wait(plan: Path) -> None:
    """The collector does not answer until the command has ended."""
    plan.write_text(COMMANDS.replace('"1d"', '"1s"\ngrace = "1h"'))
    bodies: list[tuple[str | None, bytes]] = []
    asked = Event()
    ended: list[bool] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.set()
            deadline = time.monotonic() + 20
            while not ended and time.monotonic() < deadline:
                time.sleep(0.01)
            bodies.append((self.headers["Authorization"], body))
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    environment = {name: value for name, value in os.environ.items() if name != "RETICENT_SANDBOX"}
    state = plan.parent / "state"
    command = [sys.executable, "-c", PROGRAM, str(plan), str(state), f"http://127.0.0.1:{server.server_port}"]
    try:
        for _ in range(8):  # a process that sends may find the file locked by the next command
            subprocess.run(command, env=environment, check=True, timeout=10)
            (plan.parent / "state-sent").unlink()
            if asked.wait(2.1):
                break
        ended.append(True)
        deadline = time.monotonic() + 20
        while not bodies and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        server.shutdown()
        server.server_close()
    key, body = bodies[0]
    assert key == "Bearer secret-key"
    assert json.loads(body)["plan"] == "tool"


def started(plan: Path, monkeypatch: pytest.MonkeyPatch, consent: Any, runs: int = 1) -> list[list[str]]:
    """The processes that a program starts."""
    from reticent.device import Policy

    commands: list[list[str]] = []

    class Process:
        stdin = None

        def __init__(self, command: list[str], **_: object) -> None:
            commands.append(command)

    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    policy = Policy(silent_in_ci=False, silent_in_containers=False)
    line = CommandLine(
        plan,
        plan.parent / "state",
        endpoint="http://127.0.0.1:1",
        key="k",
        consent=consent,
        policy=policy,
        debug=True,
    )
    for _ in range(runs):
        with line.running("build"):
            pass
    return commands


def test_a_process_is_started_at_most_once_an_hour(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(started(plan, monkeypatch, "granted", runs=3)) == 1
    stamp = plan.parent / "state-sent"
    os.utime(stamp, (time.time() - 3601, time.time() - 3601))
    assert len(started(plan, monkeypatch, "granted")) == 1
    assert stamp.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("consent", ["unset", "denied", "local"])
def test_without_consent_no_process_is_started(
    consent: str, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert started(plan, monkeypatch, consent) == []


IDLE = """
import sys
from reticent.programs import CommandLine
line = CommandLine(sys.argv[1], sys.argv[2])
with line.running("build"):
    pass
print(*sorted({"tomllib", "reticent.plan", "reticent.device.session"} & set(sys.modules)))
"""


@pytest.mark.parametrize("choice", ["", "unset", "denied", "local"])
def test_a_command_that_nobody_agreed_to_loads_no_device(plan: Path, choice: str) -> None:
    state = plan.parent / "state"
    if choice:
        with closing(Device(plan, state, policy=Policy.unlimited())) as device:
            assert device.set_consent(choice)  # type: ignore[arg-type]
    before = state.read_bytes() if choice else b""
    done = subprocess.run(
        [sys.executable, "-c", IDLE, str(plan), str(state)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert bool(done.stdout.strip()) == (choice == "local")
    assert state.exists() == bool(choice)
    assert choice == "local" or not choice or state.read_bytes() == before


def test_in_a_sandbox_no_process_is_started(
    plan: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert started(plan, monkeypatch, "granted") == []


def test_the_key_is_on_no_command_line(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [command] = started(plan, monkeypatch, "granted")
    assert not [word for word in command if word == "k" or "127.0.0.1" in word]


# Web services


WEB = Plan.from_toml(
    HEAD
    + "".join(
        MEAN.format(name=name, top=1000, unit=unit)
        for name, unit in {
            "requests": "", "requests_files": "", "requests_other": "", "requests_2xx": "", "requests_5xx": "",
            "seconds": "second", "seconds_files": "millisecond",
        }.items()
    )
)  # fmt: skip


@pytest.fixture
def web() -> Iterator[Sandbox]:
    from reticent.device import Policy

    with sandbox(WEB, policy=Policy.unlimited()) as box:
        yield box


def get_asgi(app: Any, *paths: str) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None: ...

    async def run() -> None:
        for path in paths:
            try:
                await app({"type": "http", "path": path, "method": "GET"}, receive, send)
            except ValueError:
                assert path == "/broken"

    asyncio.run(run())


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    if scope["path"] == "/broken":
        raise ValueError
    await send(
        {"type": "http.response.start", "status": 404 if scope["path"] == "/none" else 200, "headers": []}
    )
    await send({"type": "http.response.body", "body": b"hello"})


def wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    path = environ["PATH_INFO"]
    if path == "/broken":
        raise ValueError
    start_response("404 Not Found" if path == "/none" else "200 OK", [])
    return [b"hello"]


def get_wsgi(app: Any, *paths: str) -> None:
    for path in paths:
        try:
            body = app({"PATH_INFO": path}, lambda *_: None)
            assert list(body) == [b"hello"]
            body.close()
            body.close()
        except ValueError:
            assert path == "/broken"


@pytest.mark.parametrize("kind", ["asgi", "wsgi"])
def test_requests_are_counted_by_status_and_route(kind: str, web: Sandbox) -> None:
    paths = ("/files/diary.txt", "/files/", "/none", "/broken", "/requests/secret")
    if kind == "asgi":
        get_asgi(AsgiTelemetry(asgi, web.device), *paths)
    else:
        get_wsgi(WsgiTelemetry(wsgi, web.device), *paths)
    values = web.values()
    files, all_seconds = values.pop("seconds_files"), values.pop("seconds")
    assert 0 < files / 1000 < all_seconds < 60  # type: ignore[operator]
    assert values == {
        "requests": 5, "requests_files": 2, "requests_other": 3, "requests_2xx": 3, "requests_5xx": 1,
    }  # fmt: skip


def test_a_label_function_that_raises_disturbs_no_request(web: Sandbox) -> None:
    get_asgi(AsgiTelemetry(asgi, web.device, label=lambda path: {}[path]), "/files/")  # type: ignore[no-any-return]
    assert web.values()["requests_other"] == 1


def test_what_is_no_request_is_passed_on_uncounted(web: Sandbox) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(AsgiTelemetry(app, web.device)({"type": "websocket", "path": "/"}, None, None))  # type: ignore[arg-type]
    asyncio.run(AsgiTelemetry(app, web.device)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["websocket", "lifespan"]
    assert web.values() == {}
    assert web.device.status().problem == "the device is closed"


def test_a_timer_adds_also_where_the_block_raises(web: Sandbox) -> None:
    for _ in range(2):
        before = web.values().get("seconds", 0)
        with pytest.raises(KeyError), timer(web.device, "seconds"):
            raise KeyError
        assert web.values()["seconds"] > before  # type: ignore[operator]


# The sandbox


def test_a_sandbox_takes_the_path_of_a_plan_and_shows_labels(plan: Path) -> None:
    with sandbox(plan) as box:
        box.device.choose("command", "test")
        assert box.values() == {"command": "test"}
        box.device.close()
        assert box.values() == {"command": "test"}


def test_a_sandbox_reaches_the_device_of_a_program(plan: Path) -> None:
    original = Device.__init__
    with sandbox() as box:
        with pytest.raises(UsageError, match="has not opened a device"):
            box.values()
        with Device(str(plan), state="/nowhere/state", endpoint="https://example.org") as device:
            device.add("failed")
        first = box.round
        assert box.values() == {"failed": 1}
        box.next_round()
        assert [report.round for report in box.reports] == [first]
        assert os.environ["RETICENT_SANDBOX"] == "1"
    assert Device.__init__ is original
    assert "RETICENT_SANDBOX" not in os.environ


def test_without_a_state_file_it_is_in_the_users_folder(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the command is run, it is the same device; the process that sends gets its file."""
    home = plan.parent / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    monkeypatch.delenv("RETICENT_SANDBOX", raising=False)
    from reticent.device import Policy

    aloud = Policy(silent_in_ci=False, silent_in_containers=False)
    sent: list[str] = []
    monkeypatch.setattr(CommandLine, "_send_later", lambda line, state: sent.append(state))
    for folder in (plan.parent, home):
        monkeypatch.chdir(folder)
        line = CommandLine(plan, endpoint="http://127.0.0.1:1", consent="granted", policy=aloud, debug=True)
        with line.running("build"):
            pass
    (made,) = (home / "state").rglob("*.db")
    assert sent == [str(made)] * 2
