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
from reticent.cli import DEVICE_VERBS
from reticent.device.schema import TABLES
from reticent_collector.cli.root import reticent as command
from reticent_collector.http import Health, render_metrics
from reticent_collector.http.log import ERROR_EVENTS, WARNING_EVENTS
from reticent_collector.results import Results
from reticent_collector.stores import open_store
from reticent_collector.stores.sql_schema import POSTGRES_RECORDS, POSTGRES_TABLES

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
COLLECTOR = Path(reticent_collector.__file__).parent
PYTHON = (REFERENCE / "python.md").read_text()
WITH_SESSIONS = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if page.parent.name not in ("how-to", "start")
    and not page.name.startswith("tutorial")
    and ">>> " in page.read_text()
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
        for file in (COLLECTOR / part).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in ("log", "log_fault", "line_of", "announce")
    )
    events = {ast.literal_eval(call.args[0]) for call in calls if isinstance(call.args[0], ast.Constant)}
    writing = (COLLECTOR / "http" / "writing.py").read_text()
    events |= set(re.findall(r'"(\w+-failed)"', writing))  # handed on to `log_fault` by the sealer
    page = (REFERENCE / "http.md").read_text().split("## What is logged")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert len(events) > 10
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == events
    levels = {
        "error": ERROR_EVENTS,
        "warning": WARNING_EVENTS,
        "info": events - ERROR_EVENTS - WARNING_EVENTS,
    }
    for level, expected in levels.items():
        rows = re.findall(rf"^\| (`.*?) \| {level} \|", page, re.MULTILINE)
        assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == expected


def test_every_table_is_in_the_page_and_no_other() -> None:
    collector, device = (REFERENCE / "schema.md").read_text().split("## The device")
    made = re.findall(r"CREATE TABLE (\w+)", (POSTGRES_TABLES + POSTGRES_RECORDS).replace("{number}", "N"))
    assert set(re.findall(r"^- `(\w+)`:", collector, re.MULTILINE)) == set(made)
    assert re.findall(r"^- `(\w+)`:", device, re.MULTILINE) == list(TABLES)


def test_every_verb_is_in_the_page_and_no_other() -> None:
    lists = "".join(re.findall(r"^- .*$", (REFERENCE / "cli.md").read_text(), re.MULTILINE))
    named = set(re.findall(r"`([a-z]+(?: [a-z]+)?)`", lists))
    context = click.Context(command)
    verbs = {name: command.get_command(context, name) for name in command.list_commands(context)}
    below = {name: list(getattr(verb, "commands", [])) or [""] for name, verb in verbs.items()}
    below["device"] = list(DEVICE_VERBS)
    assert named == {f"{name} {verb}".strip() for name, each in below.items() for verb in each}


def test_the_site_shows_the_help_of_every_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx", reason="the group `docs` is not installed (make docs)")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    text = importlib.import_module("from_code").help_of_verbs()
    sections = dict(re.findall(r"^## reticent (.+)\n\n```text\n(.*)$", text, re.MULTILINE))
    assert {"serve", "keys create", "device", "device receipt", "count", "agent"} <= set(sections)
    assert [
        name for name, usage in sections.items() if not usage.lower().startswith(f"usage: reticent {name}")
    ] == []


def test_the_modules_of_the_page_are_there() -> None:
    rows = re.findall(r"^- \[`([\w.]+)`\]\(../../[\w-]+/src/([^)]*)\.py\): (.*)$", PYTHON, re.MULTILINE)
    assert len(rows) > 20
    for name, source, names in rows:
        module = importlib.import_module(name)
        assert source.replace("/", ".").removesuffix(".__init__") == name
        assert [each for each in re.findall(r"`(\w+)`", names) if not hasattr(module, each)] == []
