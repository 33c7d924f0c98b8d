"""`tacit demo` and the shape of every verb's help."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from tacit.cli.root import tacit


def test_truth_lies_in_the_intervals_about_as_often_as_promised() -> None:
    result = CliRunner().invoke(
        tacit, ["demo", "--devices", "1000", "--rounds", "3", "--seed", "5", "--json"]
    )
    answer = json.loads(result.stdout)
    assert result.exit_code == 0
    rows = answer["rows"]
    assert len(rows) == 3 * (1 + 12 + 12)
    assert all(row["lower"] <= row["truth"] <= row["upper"] for row in rows if row["inside"])
    assert any(row["value"] != row["truth"] for row in rows)


def test_a_seed_repeats_a_run() -> None:
    arguments = ["demo", "--devices", "100", "--rounds", "2", "--json", "--seed"]
    first, again, other = (CliRunner().invoke(tacit, [*arguments, seed]).stdout for seed in ("1", "1", "2"))
    assert first == again != other


def test_a_person_sees_truth_beside_estimates() -> None:
    result = CliRunner().invoke(tacit, ["demo", "--devices", "200", "--rounds", "2"])
    assert result.exit_code == 0
    assert "±" in result.output
    assert "intervals" in result.output


def verbs(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from verbs(command, (*path, name))
        else:
            yield (*path, name), command


@pytest.mark.parametrize(
    ("path", "command"),
    list(verbs(tacit)),
    ids=lambda part: "-".join(part) if isinstance(part, tuple) else "",
)
def test_every_verb_has_help_with_an_example_and_json(path: tuple[str, ...], command: click.Command) -> None:
    shown = CliRunner().invoke(tacit, [*path, "--help"]).output
    assert f"Example:\n    tacit {' '.join(path)}" in shown
    assert "--json" in shown
