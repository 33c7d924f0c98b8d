"""`python -m reticent_paper`: what it writes, says and refuses."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import reticent_paper
from reticent_paper import EXPERIMENTS, Experiment
from reticent_paper.__main__ import reproduce
from reticent_paper.claims import ClaimVerdict, ExperimentResult, NumberTable, PaperClaim


@pytest.fixture
def asked(monkeypatch):
    """Experiments that only note what they were asked for."""
    settings = []

    class Quick(Experiment):
        def run(self, setting):
            settings.append(setting)
            claims = (
                PaperClaim(
                    "§5", f"{self.name} is good", "1", ClaimVerdict.CORRECTED, "never [at all]", "E22"
                ),
                PaperClaim("§5", f"{self.name} is quick", "2", ClaimVerdict.HOLDS),
            )
            return ExperimentResult(
                self.name, self.name.title(), "", (NumberTable("t", "T", ("a",), ((1,),)),), (), claims
            )

    quick = tuple(Quick(own.name, own.function, own.about) for own in EXPERIMENTS)
    monkeypatch.setattr(reticent_paper, "EXPERIMENTS", quick)
    return settings


def call(*arguments: object):
    return CliRunner().invoke(reproduce, [str(argument) for argument in arguments])


def test_names_and_defaults_are_the_papers(asked, tmp_path):
    done = call("fig5", "tables", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert [(s.seed, s.repetitions, s.fleets, s.days) for s in asked] == [
        (2017, 3000, (300_000, 1_000_000, 3_000_000), 31)
    ] * 2
    assert (
        "4 claims: 2 hold, 0 hold with a condition, 2 needed correcting, 0 not checkable on public data"
        in done.output
    )
    assert "never [at all]" in done.output, "brackets are not markup"
    assert "fig5: histogram estimation" in done.stderr, "progress, also without a terminal"
    assert "index.html" in done.output
    assert (tmp_path / "out" / "fig5-t.csv").read_text() == "a\n1\n"


def test_all_is_all_in_order(asked, tmp_path):
    done = call("all", "--out", tmp_path, "--json")
    answer = json.loads(done.stdout)
    assert [result["name"] for result in answer["results"]] == [own.name for own in EXPERIMENTS]
    assert done.stderr == "", "no bars"
    assert answer["page"].endswith("index.html")


def test_the_fleet_shrinks(asked, tmp_path):
    call("fig4", "--devices", 3000, "--seed", 5, "--repetitions", 10, "--out", tmp_path)
    (setting,) = asked
    assert (setting.fleets, setting.seed, setting.repetitions) == ((300, 1000, 3000), 5, 10)


def test_own_values_replace_the_stand_in(asked, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(
        "individual,day,value\n" + "".join(f"{i},{d},{100 * d}\n" for i in range(4) for d in range(3))
    )
    done = call("fig3", "--values", file, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    (setting,) = asked
    (counter,) = setting.populations
    assert (counter.name, counter.max_value, setting.days) == ("mine", 86_400, 3)
    assert "4 recorded individuals" in (tmp_path / "out" / "index.html").read_text()


def test_a_file_per_counter(asked, tmp_path):
    """Three files are three counters; the days are those that all of them have."""
    for name, days in {"a": 5, "b": 3, "c": 4}.items():
        rows = "".join(f"{i},{d},{d}\n" for i in range(2) for d in range(days))
        (tmp_path / f"{name}.csv").write_text("individual,day,value\n" + rows)
    files = [word for name in "abc" for word in ("--values", tmp_path / f"{name}.csv")]
    assert call("fig4", *files, "--out", tmp_path / "out").exit_code == 0
    (setting,) = asked
    assert ([counter.name for counter in setting.populations], setting.days) == (["a", "b", "c"], 3)


def test_own_values_run_through(tmp_path):
    """The real Figure 3 on a file: 30 individuals, half of them never there, become 1,000 devices."""
    file = tmp_path / "mine.csv"
    rows = [f"{i},{d},{4000 * (i % 7) if i % 2 else 0}" for i in range(30) for d in range(6)]
    file.write_text("individual,day,value\n" + "\n".join(rows) + "\n")
    done = call("fig3", "--values", file, "--devices", 1000, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    (result,) = json.loads(done.stdout)["results"]
    assert {row[0] for row in result["tables"][0]["rows"]} == {"mine"}
    assert result["tables"][0]["rows"][0][3] == 1000
    assert (tmp_path / "out" / "fig3.svg").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["fig9", "--out", "x"],
        ["--out", "x"],
        ["fig3"],
        ["fig3", "--out", "x", "--devices", "10"],
        ["fig3", "--out", "x", "--repetitions", "0"],
        ["fig3", "--out", "x", "--values", "nowhere.csv"],
    ],
)
def test_wrong_usage_is_exit_code_2(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = call(*arguments)
    assert done.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_others_is_refused_before_anything_is_run(asked, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    done = call("fig3", "--out", tmp_path)
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert "--out" in done.output
    assert asked == []


def test_a_file_that_is_no_table_is_a_failure(asked, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("a,b\n1,2\n")
    done = call("fig3", "--values", file, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "individual, day, value" in done.output
    assert not (tmp_path / "out").exists()


def test_an_earlier_report_is_written_over(asked, tmp_path):
    call("fig3", "--out", tmp_path)
    assert call("fig4", "--out", tmp_path).exit_code == 0
    assert not (tmp_path / "fig3-t.csv").exists()


def test_the_help_names_every_experiment():
    text = call("--help").output
    assert all(name in text for name in ("all", *(own.name for own in EXPERIMENTS)))
