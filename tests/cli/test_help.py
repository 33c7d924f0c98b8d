"""Every --help reads alike, and what it shows as an example works."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from reticent import cli


def verbs(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from verbs(command, (*path, name))
        else:
            yield (*path, name), command


VERBS = dict(verbs(cli.command()))
EXAMPLE = re.compile(r"Example:\n((?:  .+\n?)+)")
SLOW = {"audit", "demo", "serve", "simulate"}
"""Their examples take longer than a second or two, or do not end: they are parsed, and not run."""


def examples(command: click.Command) -> list[str]:
    found = EXAMPLE.search((command.help or "").replace("\b", ""))
    return [line.strip() for line in found[1].splitlines() if line.strip()] if found else []


EXAMPLES = [line for command in VERBS.values() for line in examples(command)]


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_every_verb_has_an_example_and_json(run: Any, path: tuple[str, ...]) -> None:
    shown = run(*path, "--help").output
    assert f"Example:\n    reticent {' '.join(path)}" in shown
    assert ("--json" in shown) == (path not in {("serve",), ("plan", "export")})  # an export is JSON


@pytest.mark.parametrize("line", EXAMPLES)
def test_each_example_works(run: Any, folder: Path, line: str) -> None:
    program, *arguments = shlex.split(line)
    assert program == "reticent"
    if arguments[0] in SLOW:
        VERBS[arguments[0],].make_context("reticent", arguments[1:]).close()
        return
    if arguments[:2] == ["keys", "revoke"]:
        made = run("keys", "create", "--role", "reader", *arguments[3:], "--json")
        arguments[2] = re.search(r'"id": "(\w+)"', made.output)[1]  # type: ignore[index]
    if "--endpoint" in arguments:
        arguments[arguments.index("--endpoint") :] = []  # no collector runs there now
    done = run(*arguments)
    assert done.exit_code == (3 if arguments[0] == "doctor" and len(arguments) > 1 else 0), done.output


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_sections_stand_in_one_order(path: tuple[str, ...]) -> None:
    text = (VERBS[path].help or "").replace("\b", "")
    assert examples(VERBS[path]), "no example"
    assert all(line.startswith(f"reticent {' '.join(path)}") for line in examples(VERBS[path]))
    after = text[EXAMPLE.search(text).end() :].strip()  # type: ignore[union-attr]
    assert after == "" or after.startswith("Exit code ")
    assert "Exit code" not in EXAMPLE.split(text)[0]


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_each_parameter_is_described(path: tuple[str, ...]) -> None:
    for parameter in VERBS[path].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert re.match(r"[A-Za-z\[].*[.\]]$", parameter.help), parameter.help
            if not parameter.is_flag and not isinstance(parameter.type, click.Choice):
                assert parameter.metavar, parameter.name
        elif not isinstance(parameter.type, click.Choice):
            assert parameter.metavar, parameter.name
            word = parameter.metavar.rstrip(".")
            assert word in (VERBS[path].help or ""), f"{word} is not explained"


def test_one_option_is_one_thing_everywhere() -> None:
    metavars: dict[str, set[str | None]] = defaultdict(set)
    for command in VERBS.values():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.is_flag:
                metavars[parameter.opts[0]].add(parameter.metavar)
    several = {name: found for name, found in metavars.items() if len(found) > 1}
    assert several == {
        "--out": {"DIR", "COUNTS"},  # a folder of several files, or the one file of reticent count
        "--plan": {"NAME", "PLAN"},  # a plan that a store knows, or a file
    }


def test_options_of_one_name_share_their_words() -> None:
    """Where several verbs have an option of their own wording, it is on purpose."""
    words: dict[str, set[str]] = defaultdict(set)
    for command in VERBS.values():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                words[parameter.opts[0]].add(parameter.help or "")
    for name in ("--json", "--metric", "--segment", "--by", "--confidence", "--counts"):
        assert len(words[name]) == 1, words[name]


def test_the_version_is_that_of_the_package(run: Any) -> None:
    from importlib.metadata import version

    assert run("--version").output == f"reticent, version {version('reticent')}\n"
