"""Every --help reads alike, and what it shows as an example works."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest

from reticent import cli
from reticent.cli import DEVICE_VERBS
from reticent.plan import Plan
from reticent_collector.cli.root import reticent
from reticent_collector.stores import open_store


def verbs(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from verbs(command, (*path, name))
        else:
            yield (*path, name), command


VERBS = {path: command for path, command in verbs(reticent) if path != ("device",)}
EXAMPLE = re.compile(r"Example:\n((?:  .+\n?)+)")
SLOW = {"agent", "audit", "demo", "relay", "serve", "simulate"}
"""Their examples take longer than a second or two, or do not end: they are parsed, and not run."""


def examples(text: str | None) -> list[str]:
    example = EXAMPLE.search(inspect.cleandoc(text or "").replace("\b", ""))
    return [line.strip() for line in example[1].splitlines() if line.strip()] if example else []


EXAMPLES = [
    line
    for text in (
        *(command.help for command in VERBS.values()),
        *(verb.run.__doc__ for verb in DEVICE_VERBS.values()),
    )
    for line in examples(text)
]


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_every_verb_has_an_example_and_json_and_says_what_options_do(run: Any, path: tuple[str, ...]) -> None:
    shown = run(*path, "--help").output
    assert f"Example:\n    reticent {' '.join(path)}" in shown
    assert ("--json" in shown) == (
        path
        not in {("agent",), ("relay",), ("serve",), ("plan", "export"), ("plan", "new"), ("plan", "types")}
    )  # an export is JSON, types are source code, and a new plan is TOML
    options = [option for option in VERBS[path].params if isinstance(option, click.Option)]
    assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize("verb", DEVICE_VERBS)
def test_every_verb_of_a_device_has_an_example_and_json(run: Any, verb: str) -> None:
    shown = run("device", verb, "--help").output
    assert f"reticent device {verb}" in shown.partition("Example:")[2]
    assert "--json" in shown


def test_the_list_of_verbs_is_that_of_the_packages() -> None:
    """`reticent --help` tells of verbs that are not installed, so it cannot ask their packages."""
    summaries = {path[0]: command.short_help for path, command in VERBS.items() if len(path) == 1}
    groups = {
        name: command.short_help
        for name in reticent.list_commands(click.Context(reticent))
        if isinstance(command := reticent.get_command(click.Context(reticent), name), click.Group)
    }
    told = {name: verb.summary for name, verb in cli.VERBS.items() if name != "device"}
    assert told == summaries | groups
    shown = cli.help_text(["device", *told])
    assert all(line.split()[0] in cli.VERBS for line in shown.partition("Commands:\n")[2].splitlines())
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize("group", ["keys", "plan", "store"])
def test_no_line_in_a_list_of_commands_is_cut_off(
    run: Any, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "..." not in run(*group.split(), "--help").output.partition("Commands:")[2]


@pytest.mark.parametrize("line", EXAMPLES)
def test_each_example_works(run: Any, folder: Path, line: str) -> None:
    program, *arguments = shlex.split(line)
    assert program == "reticent"
    (folder / "seconds.csv").write_text("seconds\n0\n0\n600\n7200\n")
    (folder / "starts.csv").write_text("start_ms\n80\n90\n150\n900\n")
    if arguments[0] in SLOW:
        VERBS[arguments[0],].make_context("reticent", arguments[1:]).close()
        return
    if arguments[:2] == ["plan", "certify"]:  # checks proofs where Coq is installed
        VERBS["plan", "certify"].make_context("reticent", arguments[2:]).close()
        return
    if arguments[:2] == ["keys", "revoke"]:
        made = run("keys", "create", "--role", "reader", *arguments[3:], "--json")
        arguments[2] = re.search(r'"id": "(\w+)"', made.output)[1]  # type: ignore[index]
    if arguments[:2] == ["store", "delete"]:  # of a plan whose newest version no longer asks it
        text, _, _ = (folder / "plan-v2.toml").read_text().partition("[metrics.editor_hours]")
        with closing(open_store(arguments[3])) as store:
            store.register(Plan.from_toml(text + "[segments]\nos = ['linux', 'macos']\n"))
    if "--endpoint" in arguments:
        arguments[arguments.index("--endpoint") :] = []  # no collector runs there now
    done = run(*arguments)
    assert done.exit_code == (3 if arguments[0] == "doctor" and len(arguments) > 1 else 0), done.output


def test_help_loads_nothing_that_takes_long() -> None:
    script = (
        "import sys; from reticent.cli import help_text, added_verbs; "
        "help_text(list(added_verbs())); [load() for load in added_verbs().values()]; "
        "brought = {'asyncio', 'ssl'} if 'wrapt' in sys.modules else set(); "  # by older OpenTelemetry SDKs
        "print({'asyncio', 'http.client', 'numpy', 'sqlite3', 'ssl'} & set(sys.modules) - brought)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
