"""`reticent demo` against its own real collector."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import click
import pytest
from click.testing import CliRunner
from tests.shared.plans import COMMAND, CRASHED

from reticent_collector.cli.root import reticent as command
from reticent_collector.stores import open_store
from reticent_lab.demo import Demo
from reticent_lab.fleet import VectorisedFleet


def demo(*options: str) -> click.testing.Result:
    return CliRunner().invoke(
        command, ["demo", "--once", "--port", "0", "--devices", "2000", "--rounds", "2", *options]
    )


def test_truth_lies_beside_estimates_and_the_store_can_be_kept(tmp_path: Path) -> None:
    result = demo("--seed", "5", "--json", "--keep", str(tmp_path))
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert len(rows) == 2 * (1 + 12 + 12)
    assert all((row["lower"] <= row["truth"] <= row["upper"]) == row["inside"] for row in rows)
    assert any(row["value"] != row["truth"] for row in rows)
    assert {row["reports"] for row in rows if row["metric"] != "editor_spread_4"} == {2000}
    kept = open_store(f"sqlite:///{tmp_path / 'collector.db'}")
    assert sorted(info.state for info in kept.rounds()) == ["open", "sealed", "sealed"]
    assert {info.reports for info in kept.rounds()} == {2000}
    kept.close()
    again = demo("--keep", str(tmp_path))
    assert (again.exit_code, "holds an earlier demo" in again.stderr) == (1, True)


def test_the_page_has_the_truth_beside_each_estimate_while_rounds_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent_lab.demo.LIVE_PAUSE", 0.0)
    with Demo(tmp_path, devices=2000, rounds=2, port=0, seed=5) as running:

        def get(path: str) -> str:
            with urlopen(running.url + path, timeout=30) as answer:  # noqa: S310
                return str(answer.read().decode())

        assert "No round has enough reports yet" in get("/demo")
        compared = [row for rows in running.play() for row in rows]
        page = get("/demo")
        assert 'data-refresh="1"' in page
        inside = sum(row.inside for row in compared)
        assert len(compared) == 2 * 25
        assert f"{inside} of {len(compared)} true figures" in page
        rounds = running.live()
        next(rounds)
        assert re.search(rf"\d+ of {3 * 25} true figures", get("/demo")), "the newest round is sealed now"


class Idle(VectorisedFleet):
    """Answers as if nobody used the app."""

    def packed(self, round_number: int, values: object, tags: Any = None) -> bytes:
        return super().packed(round_number, {}, tags)


def test_absurd_figures_end_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet whose answers are about other values than the truth is noticed; a person sees both."""
    monkeypatch.setattr("reticent_lab.demo.VectorisedFleet", Idle)
    result = demo("--devices", "20000")
    assert result.exit_code == 3
    assert "further off than chance allows" in result.output
    assert "±" in result.output
    assert "http://127.0.0.1:" in result.output
    scripted = demo("--devices", "20000", "--json")
    assert scripted.exit_code == 3
    assert len(json.loads(scripted.stdout)["rows"]) == 2 * (1 + 12 + 12)


HEAD = '[plan]\nname = "own"\nversion = 1\nround = "1d"\ngrace = "2d"\n'
OWN = HEAD + COMMAND + CRASHED + '[segments]\nos = ["linux", "macos", "windows"]\n'


def test_a_plan_of_your_own_is_played_until_its_rounds_are_sealed(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(OWN)
    result = demo(str(tmp_path / "plan.toml"), "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert [row["metric"] for row in rows] == 2 * (["command"] * 4 + ["crashed"])
    assert {row["reports"] for row in rows} == {2000}


def test_sampled_answers_of_your_own_are_played_and_too_few_devices_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        OWN.replace("flip = 0.2", "") + '[answers]\nkind = "sampled"\nwindow = "7d"\nmetrics = 1\n'
    )
    few = demo(str(tmp_path / "plan.toml"))
    assert few.exit_code == 1
    assert "2,000 devices are about 142 reports of a metric in a round" in few.stderr
    result = demo(str(tmp_path / "plan.toml"), "--json", "--devices", "20000")
    assert result.exit_code == 0, result.output
    assert {row["metric"] for row in json.loads(result.stdout)["rows"]} == {"command", "crashed"}
