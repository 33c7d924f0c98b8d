"""`reticent simulate` as a person types it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from reticent.mechanisms import OneBitMean
from reticent.plan import Metric
from reticent_collector.cli.root import reticent as command
from reticent_collector.estimates import estimate
from reticent_lab.fleet.population import POPULATIONS

PLAN = str(Path(__file__).parents[3] / "examples" / "plan.toml")


def run(*options: str) -> Result:
    return CliRunner().invoke(command, ["simulate", PLAN, *options])


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    file = tmp_path / "use.csv"
    rows = [f"p{person},{day},{person * 100 + day}" for person in range(300) for day in range(3)]
    file.write_text("individual,day,value\n" + "\n".join(rows))
    return file


def test_a_person_sees_truth_coverage_and_losses_and_gets_pictures(recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "of [b]me"
    result = run("--values", str(recorded), "--repetitions", "2", "--seed", "1", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "300 devices, 3 rounds, 2 repetitions, seed 1" in result.output
    assert "never change" in result.output
    assert f"results.json are in {out}." in result.output
    names = {file.name for file in out.iterdir()}
    assert {"results.json", "rounds.csv", "people.csv", "editor_seconds-estimates.png"} < names
    assert {f"{name}-people.svg" for name in ("editor_seconds", "browser_seconds", "editor_hours")} < names
    with (out / "rounds.csv").open() as text:
        rows = list(csv.DictReader(text))
    assert len(rows) == 3 * (1 + 1 + 32)
    of_file = [row for row in rows if row["metric"] == "editor_hours" and row["round"] == "0"]
    assert sum(float(row["truth"]) for row in of_file) == pytest.approx(1)


SAMPLED = """
[plan]
name = "sampled"
version = 1
round = "1d"
grace = "6h"
owner = "telemetry@example.org"

[answers]
kind = "sampled"
window = "3d"
metrics = 1

[metrics.seconds]
kind = "mean"
max_value = 30000
epsilon = 1.0

[metrics.hours]
kind = "histogram"
max_value = 30000
buckets = 4
mechanism = "hadamard-bit"
epsilon = 2.0
"""


def test_a_sampled_plan_has_its_windows_and_their_loss_instead_of_people(
    recorded: Path, tmp_path: Path
) -> None:
    plan, out = tmp_path / "sampled.toml", tmp_path / "out"
    plan.write_text(SAMPLED)
    options = ["simulate", str(plan), "--values", str(recorded), "--repetitions", "2", "--seed", "1"]
    result = CliRunner().invoke(command, [*options, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "over all windows" in result.output
    assert "never change" not in result.output
    assert "Between any two histories a window loses 2.0 at most; 3 rounds touch up to 2 windows: 4.0." in (
        " ".join(result.output.split())
    )
    with (out / "windows.csv").open() as text:
        rows = list(csv.DictReader(text))
    assert [(row["metric"], row["window"]) for row in rows] == [("seconds", "0"), *[("hours", "0")] * 4]
    answer = json.loads((out / "results.json").read_text())
    assert answer["loss"] == {"window": 2.0, "windows": 2, "any_history": 4.0}
    assert not {file.name for file in out.iterdir()} & {"people.csv", "seconds-people.svg"}


def test_json_is_the_same_for_the_same_seed() -> None:
    options = ("--population", "uniform", "--devices", "500", "--rounds", "2", "--repetitions", "2", "--json")
    first, again = run(*options, "--seed", "7"), run(*options, "--seed", "7")
    assert first.exit_code == 0, first.output
    assert first.stdout == again.stdout
    answer = json.loads(first.stdout)
    assert (answer["devices"], answer["rounds"], answer["repetitions"], answer["seed"]) == (500, 2, 2, 7)
    assert set(answer["metrics"]["editor_seconds"]["people"]["share_by_width"]) == {"1", "2"}


def test_metrics_may_have_files_of_their_own(recorded: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("individual,day,value\n" + "\n".join(f"p{person},0,7" for person in range(300)))
    result = run(
        "--values", str(recorded), "--values", f"editor_hours={other}", "--repetitions", "1", "--json"
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["rounds"] == 1
    assert answer["metrics"]["editor_hours"]["rounds"][0]["truth"] == 1.0
    assert answer["metrics"]["editor_seconds"]["rounds"][0]["truth"] < 21600


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "either --values FILE, or --population NAME"),
        (("--values", "a.csv", "--population", "uniform"), "either --values"),
        (("--values", "a.csv", "--values", "b.csv"), "give the metric as well"),
        (("--values", "editor_seconds=a.csv"), "No values for browser_seconds, editor_hours"),
        (("--values", "absent.csv"), "absent.csv"),
        (("--population", "martians"), "one of age-in-days"),
    ],
)
def test_mistakes_are_named(options: tuple[str, ...], words: str) -> None:
    result = run(*options)
    assert result.exit_code in (1, 2)
    assert words in " ".join(result.output.split())
    assert not isinstance(result.exception, KeyError)


def test_the_help_names_every_population() -> None:
    text = " ".join(CliRunner().invoke(command, ["simulate", "--help"]).output.split())
    assert ", ".join(POPULATIONS) in text


def test_intervals_that_miss_end_with_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates that take the noise for more than it is: all at a quarter look like less than nothing."""

    def mistaken(metric: Metric, counts: Any, confidence: float) -> Any:
        noisier = replace(metric, mechanism=OneBitMean(0.3, 21600)) if metric.kind == "mean" else metric
        return estimate(noisier, counts, confidence)

    monkeypatch.setattr("reticent_lab.simulate.simulation.estimate", mistaken)
    quarter = tmp_path / "quarter.csv"
    quarter.write_text("individual,day,value\n" + "\n".join(f"p{person},0,5400" for person in range(5000)))
    assert run("--values", str(quarter), "--repetitions", "10").exit_code == 3


def test_days_are_added_up_to_weeks_and_a_flag_has_no_total(tmp_path: Path) -> None:
    values, numbered = tmp_path / "values.csv", tmp_path / "numbered.csv"
    rows = [(person, day) for person in range(20) for day in range(1, 16)]
    for file, label in ((values, "2026-08-{:02}"), (numbered, "{}")):
        lines = [f"{person},{label.format(day)},{day}" for person, day in rows]
        file.write_text("individual,day,value\n" + "\n".join(lines) + "\n")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        '[plan]\nname = "p"\nversion = 1\nround = "7d"\n'
        '[metrics.amount]\nkind = "mean"\nmax_value = 100\nepsilon = 1\nflip = 0.2\n'
        '[metrics.active]\nkind = "flag"\nepsilon = 1\nflip = 0.2\n'
    )
    arguments = ["simulate", str(plan), "--seed", "3", "--repetitions", "2", "--devices", "20"]
    weeks = json.loads(CliRunner().invoke(command, [*arguments, "--values", str(values), "--json"]).output)
    assert weeks["rounds"] == 2
    days = json.loads(CliRunner().invoke(command, [*arguments, "--values", str(numbered), "--json"]).output)
    assert days["rounds"] == 15
    shown = CliRunner().invoke(command, [*arguments, "--values", str(values)]).output
    assert "above its range" not in shown  # 1+…+7 and 8+…+14 are at most 100; a flag has no total to clip
    plan.write_text(plan.read_text().replace("max_value = 100", "max_value = 50"))
    shown = CliRunner().invoke(command, [*arguments, "--values", str(values)]).output
    assert "amount: 25.7% of the total is above its range" in shown  # 77 counts as 50: 27 of 105
    assert "active: " not in shown


MIXED = """
[plan]
name = "mixed"
version = 1
round = "{round}"

[metrics.minutes]
kind = "mean"
max_value = 60
epsilon = 1
flip = 0.2

[metrics.crashed]
kind = "flag"
epsilon = 1
flip = 0.2

[metrics.theme]
kind = "choice"
labels = ["light", "dark"]
mechanism = "hadamard-bit"
epsilon = 1
flip = 0.2

[metrics.start]
kind = "histogram"
edges = [0, 10, 100]
absent = true
mechanism = "hadamard-bit"
epsilon = 1
flip = 0.2

[metrics.apps]
kind = "split"
labels = ["mail", "web"]
max_value = 60
mechanism = "hadamard-bit"
epsilon = 1
flip = 0.2
"""
ROWS = """individual,day,minutes,crashed,theme,start,apps/mail,apps/web
anna,2026-11-02,30,1,dark,0,30,0
anna,2026-11-03,20,0,light,50,0,20
ben,2026-11-03,,,,,,
"""


@pytest.mark.parametrize(
    ("length", "truths"),
    [
        ("1d", {
            "minutes": [[15], [10]],
            "crashed": [[0.5], [0]],
            "theme": [[0, 0.5, 0.5], [0.5, 0, 0.5]],
            "start": [[0.5, 0, 0.5], [0, 0.5, 0.5]],
            "apps": [[15, 0, 45], [0, 10, 50]],
        }),
        ("2d", {
            "minutes": [[25]],
            "crashed": [[0.5]],
            "theme": [[0.5, 0, 0.5]],
            "start": [[0, 0.5, 0.5]],
            "apps": [[15, 10, 35]],
        }),
    ],
)  # fmt: skip
def test_one_table_has_the_values_of_all_kinds(
    length: str, truths: dict[str, list[list[float]]], tmp_path: Path
) -> None:
    """Two people, of whom one does nothing: totals of a round's days, and the last label and measurement."""
    plan, values = tmp_path / "plan.toml", tmp_path / "values.csv"
    plan.write_text(MIXED.format(round=length))
    values.write_text(ROWS)
    arguments = ["simulate", str(plan), "--values", str(values), "--devices", "20", "--repetitions", "1"]
    answer = json.loads(CliRunner().invoke(command, [*arguments, "--json"]).stdout)
    found = {
        name: [
            [row["truth"] for row in metric["rounds"] if row["round"] == place]
            for place in range(len(truths[name]))
        ]
        for name, metric in answer["metrics"].items()
    }
    assert found == {
        name: [pytest.approx(numbers) for numbers in of_metric] for name, of_metric in truths.items()
    }
    values.write_text(ROWS.replace("start,", "begin,"))
    missing = CliRunner().invoke(command, arguments)
    assert missing.exit_code == 2
    assert "expected a column for each metric; missing: start" in " ".join(missing.output.split())
    with_another = CliRunner().invoke(command, [*arguments, "--population", "start=uniform"])
    assert with_another.exit_code == 0, with_another.output
