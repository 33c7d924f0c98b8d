"""With --log-json every line of standard error is one JSON object with a time and a level, whatever happens."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.shared.collectors import make_keys, usage

from reticent_collector.http.log import line_of

RETICENT = str(Path(sys.executable).with_name("reticent"))


def lines_of(text: str) -> list[dict[str, Any]]:
    """All lines, of which each is an object with a time, a level and an event."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert list(line)[:3] == ["time", "level", "event"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line["time"])
        assert line["level"] in ("info", "warning", "error")
    return lines


def run(*arguments: str, code: int, **env: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **env},
    )
    assert (done.returncode, done.stdout) == (code, "")
    return lines_of(done.stderr)


PROGRAM = """
import os, sys
from reticent_collector.cli.root import reticent
if os.environ.get("BROKEN"):
    import reticent_collector.cli.serve as serve
    def broken(*arguments):
        raise RuntimeError("marker-of-a-bug")
    serve._serve = broken
reticent(sys.argv[1:], prog_name="reticent")
"""


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    path = tmp_path / "plan.toml"
    path.write_text(usage().replace("[plan]", "[plan]\nexpires = 2020-01-01", 1))
    return str(path)


def test_a_collector_from_its_start_to_its_end(tmp_path: Path, plan_file: str) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    make_keys(store, "reader")
    process = subprocess.Popen(
        [RETICENT, "serve", plan_file, "--store", store, "--listen", "127.0.0.1:0", "--log-json"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    told = ""
    while "listening" not in told:
        told += process.stderr.readline()
    process.terminate()
    told += process.stderr.read()
    process.stderr.close()
    assert process.wait(30) == 0
    lines = lines_of(told)
    assert [line["event"] for line in lines] == ["plan-expired", "started", "listening", "stopped"]
    assert [line["level"] for line in lines] == ["warning", "info", "info", "info"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", lines[2]["url"])


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_collector_that_does_not_start(tmp_path: Path, plan_file: str, workers: str) -> None:
    (line,) = run(
        "serve", plan_file, "--store", f"lake:///{tmp_path}/l", "--listen", "0.0.0.0:0", "--log-json",
        "--workers", workers, code=1,
    )[1:]  # fmt: skip
    assert (line["level"], line["event"]) == ("error", "start-failed")
    assert "can be reached from elsewhere, and the store has no keys." in line["reason"]


def test_options_that_are_wrong(tmp_path: Path, plan_file: str) -> None:
    settings = {"RETICENT_LOG_JSON": "1", "RETICENT_STORE": f"sqlite:///{tmp_path}/s.db"}
    (line,) = run("serve", plan_file, "--rate", "0.5", code=2, **settings)
    assert "expected 0 or at least 1 report a second, got 0.5." in line["reason"]
    (line,) = run("serve", str(tmp_path / "none.toml"), code=2, **settings)
    assert "does not exist" in line["reason"]
    (line,) = run("relay", plan_file, "--to", "nowhere", "--log-json", code=2)
    assert line["event"] == "start-failed"
    config = tmp_path / "reticent.toml"
    config.write_text("log-json = true\nrate = 0.5\n")
    (line,) = run("serve", plan_file, "--config", str(config), "--store", "memory:", code=2)
    assert "got 0.5" in line["reason"]


def test_a_bug_is_a_line_that_quotes_nothing(tmp_path: Path, plan_file: str) -> None:
    for workers in ("1", "2"):
        (line,) = run(
            "serve", plan_file, "--store", f"lake:///{tmp_path}/l", "--listen", "127.0.0.1:0", "--log-json",
            "--workers", workers, code=1, BROKEN="1",
        )  # fmt: skip
        assert (line["level"], line["event"], line["kind"]) == ("error", "internal-error", "RuntimeError")
        assert "marker" not in str(line)


LIBRARIES = """
import asyncio, logging, sys, threading, warnings
from reticent_collector.http.log import take_standard_error
take_standard_error()
warnings.warn("marker")
logging.getLogger("psycopg.pool").warning("error connecting to marker")
logging.getLogger("a").info("marker")
thread = threading.Thread(target=lambda: 1 / 0, name="marker")
thread.start()
thread.join()
async def forgotten():
    asyncio.get_running_loop().call_soon(lambda: {}["marker"])
    await asyncio.sleep(0.01)
asyncio.run(forgotten())
class Bad:
    def __del__(self):
        raise ValueError("marker")
Bad()
"""


def test_what_libraries_and_threads_say_is_a_line_too() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", LIBRARIES],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = lines_of(done.stderr)
    assert "marker" not in done.stderr
    assert [(line["event"], line.get("of"), line["kind"]) for line in lines] == [
        ("library-warning", "py.warnings", "WARNING"),
        ("library-warning", "psycopg.pool", "WARNING"),
        ("internal-error", None, "ZeroDivisionError"),
        ("library-warning", "asyncio", "KeyError"),
        ("internal-error", None, "ValueError"),
    ]


def test_levels() -> None:
    levels = [json.loads(line_of(event))["level"] for event in ("sealed", "tls-kept", "commits-fail")]
    assert levels == ["info", "warning", "error"]


def test_a_relay(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(usage())
    process = subprocess.Popen(
        [RETICENT, "relay", str(plan), "--to", "http://127.0.0.1:9", "--listen", "127.0.0.1:0", "--log-json"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    told = ""
    while "listening" not in told:
        told += process.stderr.readline()
    process.terminate()
    told += process.stderr.read()
    process.stderr.close()
    assert process.wait(30) == 0
    assert [line["event"] for line in lines_of(told)] == ["started", "listening", "stopped"]
