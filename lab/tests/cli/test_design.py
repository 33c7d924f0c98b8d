"""`reticent design`, as a person and as a script meets it, and against `reticent plan check`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from reticent_collector.cli.root import reticent as command

ROOT = Path(__file__).parents[3]
MEAN = "--range 21600 --devices 100000 --unit second --name editor_seconds"
SHARES = "--range 24 --devices 300000 --kind histogram --buckets 32 --name hours"


def run(arguments: str) -> Result:
    return CliRunner().invoke(command, ["design", *arguments.split()])


def answer(arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(f"{arguments} --json").stdout)
    return found


def row(output: str, label: str) -> list[str]:
    """The figures of a line of a table, without units."""
    line = next(line for line in output.splitlines() if line.startswith(label + " "))
    return re.findall(r"infinite|[\d.,]+(?:e-?\d+)?", line.removeprefix(label))


@pytest.mark.parametrize(
    "arguments",
    [
        f"{MEAN} --half-width 240 --epsilon 1",
        f"{MEAN} --half-width 500",
        f"{MEAN} --lifetime 3 --flip 0",
        f"{SHARES} --half-width 0.02",
        f"{SHARES} --epsilon 0.5 --change-time 1 --confidence 0.9",
        f"{MEAN} --promise any-history --year 54 --round 6h",
        f"{MEAN} --promise any-history --half-width 200 --window 14d",
        f"{SHARES} --promise any-history --year 20 --half-width 0.02",
        "--devices 9000 --labels build,test --epsilon 1 --name command",
        "--devices 9000 --edges 0,1,60 --epsilon 1 --promise any-history --name minutes",
        "--devices 9000 --kind flag --epsilon 1 --name used",
        "--range 1/3 --devices 5000 --kind histogram --buckets 3 --half-width 0.1 --segments 2 --name thirds",
    ],
)
def test_plan_check_says_the_same_of_the_plan_that_is_written(arguments: str, tmp_path: Path) -> None:
    found = answer(arguments)
    name, path = found["goal"]["name"], str(tmp_path / "plan.toml")
    Path(path).write_text(found["plan"])
    options = re.search(r"#   reticent plan check \S+ (.*)", found["plan"])
    assert options
    checked = CliRunner().invoke(command, ["plan", "check", path, *options[1].split(), "--json"])
    assert checked.exit_code == 0
    metric = json.loads(checked.stdout)["metrics"][name]
    assert metric["loss"] == found["chosen"]["loss"]
    assert metric["half_width"] == found["chosen"]["half_width"]
    assert metric["mechanism"] == found["chosen"]["mechanism"]
    shown = CliRunner().invoke(command, ["plan", "check", path, *options[1].split()]).output
    card, widths = shown.split("Expected accuracy")
    chosen = row(run(arguments).output, "chosen")
    losses = row(card, name)
    assert losses == chosen[-len(losses) :]
    assert f"±{chosen[-len(losses) - 1]}" in widths


def test_a_goal_that_can_be_met(tmp_path: Path) -> None:
    result = run(f"{MEAN} --half-width 250 --epsilon 1 --out {tmp_path}")
    assert result.exit_code == 0
    # tanh(ε/2) = tanh(1/2) · 241.8 / 250 at ε = 0.9618
    assert "±250 second is achievable: one-bit-mean with epsilon 0.962 and flip 0.2" in result.output
    assert "give up" not in result.output
    assert "epsilon = 0.962\nflip = 0.2\n" in result.output
    written = (tmp_path / "editor_seconds-design.toml").read_text()
    assert written == answer(f"{MEAN} --half-width 250 --epsilon 1")["plan"]
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == [f"editor_seconds-design.{kind}" for kind in ("png", "svg", "toml")]


def test_a_goal_that_cannot_be_met_says_what_to_give_up() -> None:
    result = run(f"{MEAN} --half-width 120 --epsilon 1")
    assert result.exit_code == 3
    assert "±120 second is not achievable within epsilon 1.0; the nearest" in result.output
    # (241.8 / 120)² = 4.060 times the devices (a little less: the interval is not quite normal), and
    # tanh(ε/2) = tanh(1/2) · 241.8 / 120 at ε = 3.334; without flips ±145.1 would still be too wide
    for line in (
        "406,000 devices instead of 100,000",
        "epsilon 3.34 instead of 1",
        "±242 second instead of ±120 second",
        "no flip alone is enough",
    ):
        assert f"  {line}\n" in result.output
    ways = {way["part"]: way["instead"] for way in answer(f"{MEAN} --half-width 120 --epsilon 1")["give_up"]}
    assert ways == {"devices": 406_000, "epsilon": 3.34, "half_width": 242, "flip": None}
    for part, instead in (("devices", 406_000), ("epsilon", 3.34), ("half-width", 242)):
        goal = {"devices": "100000", "epsilon": "1", "half-width": "120", part: str(instead)}
        options = " ".join(f"--{key} {value}" for key, value in goal.items())
        assert run(f"--range 21600 {options}").exit_code == 0


def test_the_promise_decides_how_devices_answer() -> None:
    kept, changing = (
        answer(f"{MEAN} --round 6h {wanted}") for wanted in ("--epsilon 1", "--promise any-history --year 54")
    )
    assert (kept["chosen"]["answers"], changing["chosen"]["answers"]) == ("remembered", "sampled")
    assert kept["ways"] == changing["ways"], "both have the figures of both ways"
    assert changing["ways"]["sampled"]["loss"] == changing["chosen"]["loss"]
    assert changing["ways"]["sampled"]["half_width"]["week"] == changing["chosen"]["half_width"]
    assert kept["ways"]["remembered"]["half_width"]["round"] == kept["chosen"]["half_width"]
    assert (
        changing["chosen"]["loss"] | {"window": 1.0, "any_history": 54.0, "constant": None}
        == (changing["chosen"]["loss"])
    )
    assert '[answers]\nkind = "sampled"\nwindow = "7d"' in changing["plan"]
    assert 'round = "6h"' in changing["plan"]
    shown = run(f"{MEAN} --round 6h --promise any-history --year 54").output
    assert row(shown, "remembered, flip 0.2")[:3] == ["1.0", "2.0", "1,015"]
    assert row(shown, "sampled, once in 7d")[:3] == ["infinite", "infinite", "54"]
    assert changing["reason"] in " ".join(shown.split())


@pytest.fixture
def values(tmp_path: Path) -> Path:
    """Two rounds of 100 people, of whom one is far above the others."""
    file = tmp_path / "values.csv"
    rows = [[str(person), str(person % 50 * 60), "0" if person else "80000"] for person in range(100)]
    file.write_text("\n".join(map(",".join, [["device", "2026-01-01", "2026-01-02"], *rows])))
    return file


def test_values_choose_the_range(values: Path, tmp_path: Path) -> None:
    wanted = f"--values {values} --unit second --epsilon 1 --out {tmp_path / 'out'}"
    found = answer(wanted)
    ranges = {tried["max_value"]: tried for tried in found["ranges"]}
    assert found["goal"]["devices"] == 100, "as many as individuals"
    assert found["goal"]["max_value"] == min(ranges, key=lambda top: ranges[top]["rmse"])
    assert found["goal"]["bias"] == pytest.approx(ranges[found["goal"]["max_value"]]["bias"])
    assert max(ranges) == 86_400, "the first round number above all values"
    assert f"max_value = {found['goal']['max_value']:.0f}" in found["section"]
    assert len(found["files"]) == 3
    shown = run(wanted).output
    assert f"{found['goal']['max_value']:,.0f} chosen" in shown
    assert "of it is clipping" in shown
    fixed = answer(f"--values {values} --unit second --epsilon 1 --range 7000 --devices 5000")
    assert (fixed["goal"]["max_value"], fixed["goal"]["devices"]) == (7000, 5000)
    assert 7000 in [tried["max_value"] for tried in fixed["ranges"]]


def test_a_half_width_may_be_that_of_a_day_or_a_week() -> None:
    for per, rounds in (("round", 1), ("day", 4), ("week", 28)):
        found = answer(f"{MEAN} --epsilon 1 --round 6h --per {per}")
        assert found["goal"]["period"] == rounds
        if per != "day":
            assert found["chosen"]["half_width"] == found["ways"]["remembered"]["half_width"][per]


def test_values_above_the_range_are_in_the_last_bucket(values: Path) -> None:
    shares = answer(f"--values {values} --epsilon 1 --edges 0,60,120")["shares"]
    # of 200 values 99 are 0, one is 80,000, and of 0 to 49 minutes each comes twice
    assert [bucket["share"] for bucket in shares] == pytest.approx([101 / 200, 99 / 200])


def test_values_choose_edges(values: Path) -> None:
    found = answer(f"--values {values} --unit second --epsilon 1 --buckets 4")
    edges = found["goal"]["edges"]
    assert edges[:2] == [0, 1], "half of all values are 0"
    assert edges[-1] == 86_400
    assert [bucket["from"] for bucket in found["shares"]] == edges[:-1]
    assert found["shares"][0]["share"] == pytest.approx(101 / 200)
    assert sum(bucket["share"] for bucket in found["shares"]) == pytest.approx(1)
    assert [
        bucket["to"] for bucket in answer(f"--values {values} --epsilon 1 --buckets 2 --range 60")["shares"]
    ] == [
        30,
        60,
    ]
    assert (
        "Buckets, for the values of 100 individuals in 2 rounds"
        in run(f"--values {values} --epsilon 1 --buckets 4").output
    )


def test_a_file_that_cannot_be_read_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("seconds\nmany\n")
    for file, says in (("none.csv", "No such file"), ("bad.csv", "line 2: value: expected a whole number")):
        result = run(f"--values {tmp_path / file} --epsilon 1")
        assert result.exit_code == 1
        assert says in result.output
        assert "Traceback" not in result.output


def test_json_has_everything() -> None:
    found = answer(f"{SHARES} --half-width 0.02 --epsilon 1")
    assert found["met"] is False
    assert found["goal"] | {"kind": "histogram", "buckets": 32, "half_width": 0.02} == found["goal"]
    assert [each["label"] for each in found["neighbours"]][:3] == ["chosen", "epsilon / 2", "epsilon × 2"]
    assert {key: value for key, value in found["neighbours"][0].items() if key != "label"} == found["chosen"]
    assert found["section"].startswith("[metrics.hours]\nkind = ")
    assert found["section"] in found["plan"]
    assert found["files"] == []


def test_what_has_no_bound_is_null_and_said() -> None:
    assert answer(f"{MEAN} --lifetime 2 --flip 0")["chosen"]["loss"]["change_per_round"] is None
    assert row(run(f"{MEAN} --lifetime 2 --flip 0").output, "chosen")[-2:] == ["infinite", "infinite"]


def test_an_expected_share_is_beside_the_worst() -> None:
    output = run(f"{SHARES} --epsilon 1 --expected-share 0.9").output
    assert "at a share of 0.9; ±" in output
    assert ", at worst" in run(f"{SHARES} --epsilon 1").output


def test_256_buckets_are_one_too_many_for_hadamard() -> None:
    shares = "--range 24 --devices 300000 --kind histogram --epsilon 1 --buckets"
    assert "255 buckets or fewer" in run(f"{shares} 256").output
    assert "255 buckets or fewer" not in run(f"{shares} 255").output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            f"{MEAN} --half-width 240 --epsilon 1 --lifetime 2",
            "--epsilon: expected either epsilon or lifetime",
        ),
        (f"{MEAN} --half-width 30000", "--half-width: expected a number above 0 and below 10800"),
        (f"{MEAN} --half-width -1", "--half-width: expected a number above 0"),
        (f"{MEAN}", "--half-width: expected a half-width, or a limit on privacy, got neither"),
        (f"{MEAN} --half-width x", "expected a number such as 0.2 or 1/3, got 'x'"),
        (f"{MEAN} --half-width 240 --epsilon 0", "--epsilon: expected a number from 0.001 to 20, got 0"),
        (f"{MEAN} --half-width 240 --flip 0.5", "--flip: expected a number from 0 to 0.499"),
        (f"{MEAN} --half-width 240 --flip 0.1 --change-time 1", "--flip: expected either"),
        (f"{MEAN} --half-width 240 --change-time 0.001", "--change-time: expected a number from 0.00401"),
        (f"{MEAN} --half-width 240 --segments 0", "--segments: expected a number from 1 to 100,000"),
        (f"{MEAN} --half-width 240 --confidence 1", "--confidence: expected a number between 0 and 1"),
        (f"{MEAN} --half-width 240 --kind mean --buckets 8", "a mean and a flag have neither"),
        (f"{MEAN} --half-width 0.1 --kind histogram", "--kind histogram needs --buckets K or --edges"),
        ("--devices 9 --epsilon 1 --kind choice --buckets 3", "--kind choice needs --labels"),
        (f"{MEAN} --epsilon 1 --edges 0,5,9", "--range: expected none with --edges"),
        ("--devices 9 --epsilon 1 --labels a,b --edges 0,1,2", "either --edges or --labels"),
        ("--devices 9 --epsilon 1 --edges 0,9,5", "--edges: expected at least three numbers"),
        ("--devices 9 --epsilon 1 --labels a,a", "--name, --unit or --labels does not suit a plan"),
        ("--devices 9 --epsilon 1", "--range: expected the top of the counter's range, or --values"),
        ("--range 9 --epsilon 1", "--devices: expected a number of devices, or --values FILE"),
        ("--values x.csv --expected-mean 3 --epsilon 1", "--expected-mean: expected none with --values"),
        ("--values x.csv --kind flag --epsilon 1", "--values: expected a mean or a histogram"),
        (f"{MEAN} --epsilon 1 --per window", "--per window: expected --promise any-history"),
        (f"{MEAN} --epsilon 1 --per day --round 7h", "--per day: expected rounds that divide it, got 7h"),
        (
            f"{MEAN} --epsilon 1 --per-report 2 --metrics 3",
            "--per-report: expected none with promise constant",
        ),
        (
            f"{MEAN} --epsilon 0.01 --metrics 20",
            "--metrics: expected fewer metrics, or a larger limit, got 20",
        ),
        (f"{MEAN} --half-width 240 --expected-share 0.1", "--expected-share is for a histogram"),
        (f"{SHARES} --half-width 0.1 --expected-mean 3", "--expected-mean is for a mean"),
        (f"{SHARES} --half-width 0.1 --expected-share 3", "--expected-share: expected a number from 0 to 1"),
        (
            f"{MEAN} --promise any-history --year 9 --flip 0.1",
            "--flip: expected no flip with promise any-history",
        ),
        (f"{MEAN} --promise any-history --lifetime 2", "--lifetime: expected none with promise any-history"),
        (f"{MEAN} --promise any-history --year 9 --epsilon 1", "--epsilon: expected either epsilon or year"),
        (f"{MEAN} --promise any-history --year 0.01", "--year: expected a number from 0.053"),
        (f"{MEAN} --year 9", "--year: expected none with promise constant"),
        (f"{MEAN} --epsilon 1 --window 7d", "--window: expected none with promise constant"),
        (
            f"{MEAN} --promise any-history --year 9 --window 36h",
            "--window: expected whole rounds of 1d, got 36h",
        ),
        (f"{MEAN} --epsilon 1 --round 1w", "expected a duration such as 30m, 6h or 7d, got '1w'"),
        ("--range 0 --devices 10 --half-width 1", "--range: expected a number from 1e-09 to 1e+15, got 0"),
        ("--range 24 --devices 0 --half-width 1", "--devices: expected a number from 1 to"),
        (
            "--range 24 --devices 10 --half-width 9 --name A",
            "--name, --unit or --labels does not suit a plan",
        ),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(arguments: str, says: str) -> None:
    result = run(arguments)
    assert result.exit_code == 2
    assert says in result.output


def test_a_name_cannot_smuggle_anything_into_the_plan(tmp_path: Path) -> None:
    name = 'a"\nversion = 1\nround = "1d"\n[metrics.b]\nkind = "mean"\nmax_value = 1\nepsilon = 9\n#'
    arguments = [
        "--range",
        "24",
        "--devices",
        "10",
        "--half-width",
        "9",
        "--name",
        name,
        "--out",
        str(tmp_path),
    ]
    assert CliRunner().invoke(command, ["design", *arguments]).exit_code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("devices", "hinted"), [(1_000, True), (100_000, False)])
def test_plan_check_points_here_when_a_half_width_is_poor(devices: int, hinted: bool) -> None:
    """±0.361 of 1 with 1,000 devices and ±0.0361 with a hundred times as many."""
    path = str(ROOT / "examples" / "plan.toml")
    output = CliRunner().invoke(command, ["plan", "check", path, "--devices", str(devices)]).output
    assert ("reticent design helps" in output) == hinted


def test_help_ends_with_an_example_that_runs() -> None:
    text = run("--help").output
    example = re.search(r"reticent design (--range.*)", text)
    assert example
    assert run(example[1]).exit_code == 0
    assert "Exit code 3" in text
