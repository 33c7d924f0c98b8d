"""sqlite-utils and datasette, as they are installed, with a few lines of telemetry."""

from __future__ import annotations

import ast
import runpy
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from reticent.testing import sandbox

PROGRAMS = Path(__file__).parents[2] / "examples" / "programs"
HEAD = '[plan]\nname = "{name}"\nversion = 1\nround = "1d"\n'
MEAN = '\n[metrics.{name}]\nkind = "mean"\nmax_value = 1000\nepsilon = 0.5\nflip = 0.2\n'
FLAG = '\n[metrics.{name}]\nkind = "flag"\nepsilon = 0.5\nflip = 0.2\n'
COMMAND = """
[metrics.command]
kind = "choice"
labels = ["query", "insert", "tables", "schema"]
mechanism = "hadamard-bit"
epsilon = 0.5
flip = 0.2
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("file", sorted(PROGRAMS.glob("*.py")), ids=lambda file: file.stem)
def test_fifteen_lines_are_enough(file: Path) -> None:
    code = ast.unparse(ast.parse(file.read_text()).body[1:])  # type: ignore[arg-type]  # without the docstring
    assert len([line for line in code.splitlines() if line.strip()]) <= 15


def test_the_commands_of_sqlite_utils_are_counted(place: Path) -> None:
    pytest.importorskip("sqlite_utils")
    import sqlite_utils.cli

    group = sqlite_utils.cli.cli
    (place / "plan.toml").write_text(
        HEAD.format(name="sqlite-utils") + COMMAND + MEAN.format(name="duration") + FLAG.format(name="failed")
    )
    invoke = group.invoke
    try:
        with sandbox() as box:
            runpy.run_path(str(PROGRAMS / "sqlite_utils_telemetry.py"))
            run = CliRunner()
            (place / "dogs.csv").write_text("name,age\nRex,7\n")
            assert run.invoke(group, ["insert", "dogs.db", "dogs", "dogs.csv", "--csv"]).exit_code == 0
            assert box.values()["command"] == "insert"
            shown = run.invoke(group, ["dogs.db", "select name from dogs"])  # its default command, query
            assert '"Rex"' in shown.output
            values = box.values()
            assert 0 < values.pop("duration") < 1000  # type: ignore[operator]
            assert values == {"command": "query"}
            assert run.invoke(group, ["tables", "nothing/nowhere.db"]).exit_code == 2
            assert box.values()["failed"] == 1
            assert "Plan sqlite-utils version 1: active" in run.invoke(group, ["telemetry", "status"]).output
            assert box.values()["command"] == "tables"
            box.next_round()
            assert [report.plan for report in box.reports] == ["sqlite-utils"]
        assert not (place / "telemetry.db").exists()
    finally:
        group.invoke = invoke  # type: ignore[method-assign]
        group.commands.pop("telemetry", None)


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """A real server, with its start and its end."""
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(app, port=0, loop="asyncio", http="h11", ws="none", log_level="error")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


def test_the_requests_of_datasette_are_counted(place: Path) -> None:
    pytest.importorskip("datasette")
    from datasette.app import Datasette
    from datasette.plugins import pm

    names = ["requests", "requests_dogs", "requests_other", "requests_2xx", "requests_4xx", "seconds"]
    text = HEAD.format(name="datasette") + "".join(MEAN.format(name=name) for name in names)
    (place / "plan.toml").write_text(text)
    with closing(sqlite3.connect(place / "dogs.db")) as connection:
        connection.execute("CREATE TABLE dogs (name TEXT)")
    plugins = set(pm.get_plugins())
    (place / "mine").mkdir()
    (place / "mine" / "telemetry.py").write_text((PROGRAMS / "datasette_telemetry.py").read_text())
    try:
        with sandbox() as box:
            app = Datasette([str(place / "dogs.db")], plugins_dir=str(place / "mine")).app()
            with serving(app) as address:
                for path in ("/dogs/dogs.json", "/dogs", "/-/versions.json"):
                    with urllib.request.urlopen(address + path, timeout=20) as answer:  # noqa: S310
                        assert answer.status == 200
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    urllib.request.urlopen(address + "/diary/private", timeout=20)  # noqa: S310
            values = box.values()
            assert values.pop("seconds") > 0  # type: ignore[operator]
            assert values == {
                "requests": 4, "requests_dogs": 2, "requests_other": 2, "requests_2xx": 3, "requests_4xx": 1,
            }  # fmt: skip
            box.next_round()
            assert [report.plan for report in box.reports] == ["datasette"]
        assert not (place / "telemetry.db").exists()
    finally:
        for plugin in set(pm.get_plugins()) - plugins:
            pm.unregister(plugin)
