"""Pages of the reference say what the code says."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from pathlib import Path

import click
import pytest

import reticent_collector
from reticent.device.schema import TABLES
from reticent_collector.cli.root import reticent as command
from reticent_collector.http import Health, render_metrics
from reticent_collector.results import Results
from reticent_collector.stores import open_store
from reticent_collector.stores.sql_schema import POSTGRES_RECORDS, POSTGRES_TABLES

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PYTHON = (REFERENCE / "python.md").read_text()
WITH_SESSIONS = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if page.parent.name != "how-to" and not page.name.startswith("tutorial") and ">>> " in page.read_text()
]


@pytest.mark.parametrize("page", WITH_SESSIONS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_sessions_run_as_printed(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = re.sub(r"^```.*$", "", page.read_text(), flags=re.MULTILINE)  # a fence ends what is printed
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    done = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert done.attempted > 0
    assert done.failed == 0


def test_every_metric_of_the_collector_is_in_the_page_and_no_other() -> None:
    text, _ = render_metrics(Results(open_store("memory:")), Health("1.0", "memory:"), "text/plain")
    exposed = set(re.findall(r"^# TYPE (\w+)", text.decode(), re.MULTILINE))
    page = (REFERENCE / "metrics.md").read_text().split("## Names")[1].split("\n## ")[0]
    assert len(exposed) > 15
    assert set(re.findall(r"`(reticent_\w+)`", page)) == exposed


def test_every_event_of_the_log_is_in_the_page_and_no_other() -> None:
    calls = (
        node
        for part in ("http", "dashboard", "cli")
        for file in (Path(reticent_collector.__file__).parent / part).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("log", "log_fault")
    )
    events = {ast.literal_eval(call.args[0]) for call in calls if isinstance(call.args[0], ast.Constant)}
    writing = (Path(reticent_collector.__file__).parent / "http" / "writing.py").read_text()
    events |= set(re.findall(r'"(\w+-failed)"', writing))  # handed on to `log_fault` by the sealer
    page = (REFERENCE / "http.md").read_text().split("## What is logged")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert len(events) > 10
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == events


def test_every_table_is_in_the_page_and_no_other() -> None:
    collector, device = (REFERENCE / "schema.md").read_text().split("## The device")
    made = re.findall(r"CREATE TABLE (\w+)", (POSTGRES_TABLES + POSTGRES_RECORDS).replace("{number}", "N"))
    assert set(re.findall(r"^- `(\w+)`:", collector, re.MULTILINE)) == set(made)
    assert re.findall(r"^- `(\w+)`:", device, re.MULTILINE) == list(TABLES)


def test_every_verb_is_in_the_page_and_no_other() -> None:
    lists = "".join(re.findall(r"^- .*$", (REFERENCE / "cli.md").read_text(), re.MULTILINE))
    named = set(re.findall(r"`([a-z]+(?: [a-z]+)?)`", lists))
    assert named == {
        f"{name} {below}".strip()
        for name, verb in command.commands.items()
        for below in (verb.commands if isinstance(verb, click.Group) else [""])
    }


def test_the_modules_of_the_page_are_there() -> None:
    rows = re.findall(r"^- \[`([\w.]+)`\]\(../../src/([^)]*)\.py\): [^.\n]*(.*)$", PYTHON, re.MULTILINE)
    assert len(rows) > 20
    for name, source, names in rows:
        module = importlib.import_module(name)
        assert source.replace("/", ".").removesuffix(".__init__") == name
        assert [each for each in re.findall(r"`(\w+)`", names) if not hasattr(module, each)] == []
