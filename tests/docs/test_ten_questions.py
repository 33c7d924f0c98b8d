"""Every query, command, page and program of docs/how-to/ten-questions.md, on weeks of an app."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.shared.collectors import Service, in_thread

from reticent.plan import Plan
from reticent_collector import dashboard
from reticent_collector.cli.root import reticent as command
from reticent_collector.http import Collector
from reticent_collector.results import unix_seconds, write_results
from reticent_collector.stores import Count, RoundKey, SealedRounds, open_store
from reticent_lab.fleet import VectorisedFleet

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "ten-questions.md").read_text()
SECTIONS = re.findall(r"^## (\d+)\. ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
TEXT = """
min_reports = 20
[plan]
name = "app"
version = {version}
round = "7d"
[metrics.minutes]
kind = "mean"
unit = "minute"
max_value = 100
epsilon = 4.0
[metrics.crashed]
kind = "flag"
epsilon = 4.0
[metrics.startup]
kind = "histogram"
unit = "second"
max_value = 8
buckets = 8
mechanism = "hadamard-bit"
epsilon = 4.0
[metrics.command]
kind = "choice"
labels = ["build", "test", "run"]
mechanism = "hadamard-bit"
epsilon = 4.0
[segments]
os = ["linux", "macos"]
version = ["2.2", "2.3"]
"""
PLANS = [Plan.from_toml(TEXT.format(version=version)) for version in (1, 2)]
WEEKS = (7, 46, 47, 50, 51, 55, 59)  # those between had no collector
DEVICES = 3_000
FIRST = PLANS[0].round_at(unix_seconds("", "2023-01-02"))
LATER = float(PLANS[0].round(FIRST + WEEKS[-1] + 10).start)
QUICK, SLOW = 20, 25
"""Minutes of linux and macos; in the second plan all have ten more."""


def fill(url: str) -> None:
    place = np.arange(DEVICES)
    tags = np.stack([place % 2, place // 2 % 2], axis=1).astype(np.uint8)
    new = tags[:, 1] == 1
    with closing(open_store(url)) as store:
        backend = store.backend
        assert isinstance(backend, SealedRounds)
        fleets = [VectorisedFleet(plan, DEVICES, seed=plan.version) for plan in PLANS]
        for plan in PLANS:
            store.register(plan)
        for week in WEEKS:
            upgraded = week >= 50
            plan, fleet = PLANS[upgraded], fleets[upgraded]
            values: dict[str, Any] = {
                "minutes": np.where(tags[:, 0] == 0, QUICK, SLOW) + 10 * upgraded,
                "crashed": np.where(new, place % 10 < 3, place % 10 < 1).astype(int),
                "startup": place % 4,
                "command": np.where(place % 10 < 6, 1, np.where(place % 10 < 9, 0, 2)),
            }
            counts = {
                tags: by_metric for (_, tags), by_metric in fleet.counts(FIRST + week, values, tags).items()
            }
            backend.put_sealed(RoundKey(plan.name, plan.version, FIRST + week), Count(DEVICES, counts))
        write_results(store, lambda: LATER)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ten")
    fill(f"sqlite:///{path / 'app.db'}")
    return path


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    store = open_store(f"sqlite:///{folder / 'app.db'}")
    app = Collector([], store, pages=dashboard, clock=lambda: LATER, seal_every=None)
    with in_thread(app) as served:
        yield served


def block(text: str, language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return str(found)


def test_there_are_ten_and_each_is_answered_in_three_ways() -> None:
    assert [int(number) for number, _, _ in SECTIONS] == [*range(1, 11)]
    for _, _, text in SECTIONS:
        assert block(text, "sql").count(";") == 1
        assert block(text, "console").count("\n") == 1, "one step"
        assert "Page: " in text


def test_every_query_answers(folder: Path) -> None:
    answers = []
    with closing(sqlite3.connect(folder / "app.db")) as database:
        database.row_factory = sqlite3.Row
        for _, title, text in SECTIONS:
            rows = [dict(row) for row in database.execute(block(text, "sql"))]
            assert rows, title
            answers.append(rows)
    mean, crashes, share, startup, year, commands, versions, change, devices, everything = answers
    newest = {row["os"]: row for row in mean[:3]}
    assert newest["linux"]["lower"] <= QUICK + 10 <= newest["linux"]["upper"]
    assert newest["macos"]["lower"] <= SLOW + 10 <= newest["macos"]["upper"]
    assert len(crashes) == len(WEEKS)
    assert all(row["lower"] <= 0.2 <= row["upper"] for row in crashes[:3])
    assert all(row["clear"] for row in crashes[:3])
    assert share[0]["lower"] <= 20 <= share[0]["upper"]
    assert startup[0]["lower"] <= 3 < startup[0]["upper"]
    rise = next(row for row in year if row["metric"] == "minutes")
    assert rise["lower"] <= 10 <= rise["upper"]
    assert [row["label"] for row in commands] == ["test", "build", "run"]
    assert [row["versions"] for row in (versions[0], versions[-1])] == ["2", "1"]
    assert change[0]["clear"] == 0
    assert any(row["clear"] for row in change[2:]), "when the minutes rose by ten"
    assert devices[0]["devices"] == DEVICES
    assert len(everything) > 10 * len(WEEKS)


@pytest.mark.parametrize(("title", "text"), [(title, text) for _, title, text in SECTIONS])
def test_every_command_answers(folder: Path, monkeypatch: pytest.MonkeyPatch, title: str, text: str) -> None:
    monkeypatch.chdir(folder)
    program, *arguments = shlex.split(block(text, "console").removeprefix("$ "))
    done = CliRunner().invoke(command, arguments, env={"COLUMNS": "200"})
    assert (program, done.exit_code) == ("reticent", 0), done.output
    assert len(done.output.splitlines()) >= (1 if "parquet" in done.output else 3)
    if "baseline" in arguments or "--against" in arguments:
        answer = json.loads(CliRunner().invoke(command, [*arguments, "--json"]).output)
        assert answer["differences"]
    if "pandas" in title:
        names: dict[str, Any] = {}
        exec(block(text, "python"), names)  # noqa: S102
        assert len(names["frame"]) == names["same"].height >= names["weeks"].shape[0] > len(WEEKS)


@pytest.mark.parametrize("address", re.findall(r"`(/plans/[^`]+)`", PAGE))
def test_every_page_is_there(service: Service, address: str) -> None:
    answer = service.get(address, Accept="text/html")
    assert answer.status == 200
    assert "±" in answer.body.decode()
