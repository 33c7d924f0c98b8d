"""`reticent count`: a lake to a table of counts, what it does with bad files, and estimates of the counts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from reticent.counts import ABOUT, count_reports
from reticent.frames import read_counts
from reticent.plan import Plan
from reticent.reports import Report
from reticent.stores import Layout, RoundKey, open_store

PLAN = Plan.from_toml(
    'min_reports = 1\n[plan]\nname = "app-usage"\nversion = 1\nround = "6h"\n'
    '[metrics.minutes]\nkind = "mean"\nunit = "minute"\nmax_value = 360\nepsilon = 1.0\n'
    '[metrics.hours]\nkind = "histogram"\nmax_value = 24\nbuckets = 8\n'
    'mechanism = "hadamard-bit"\nepsilon = 1.0\n'
    '[segments]\nos = ["linux", "macos"]\n'
)
KEYS = [RoundKey("app-usage", 1, number) for number in (81_650, 81_651, 81_652)]
LAKE, COUNTS = ("--store", "lake:///reticent-lake"), ("--counts", "counts.parquet")


def reports(number: int) -> list[Report]:
    draws = random.Random(number)
    return [
        Report(
            PLAN.name,
            1,
            number,
            draws.randbytes(16),
            bytes([draws.randrange(4) << 6]),
            draws.randrange(256),
            {"os": draws.choice(["linux", "macos", "amiga"])},
        )
        for _ in range(200)
    ]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Three rounds, the first of them sealed, from two collectors that took 90 reports of each both."""
    folder = tmp_path / "lake"
    one, two = (open_store(f"lake:///{folder}") for _ in range(2))
    one.register(PLAN)
    for key in KEYS:
        records = [Layout(PLAN).pack(report) for report in reports(key.round)]
        one.append({key: b"".join(records[:10])})
        two.append({key: b"".join(records[190:])})
        one.append({key: b"".join(records[:150])})
        two.append({key: b"".join(records[60:])})
    assert one.seal(KEYS[0])
    one.close()
    two.close()
    return folder


def a_file(lake: Path) -> Path:
    """The file of the second collector that has reports 60 to 189 of the last round."""
    (path,) = (lake / "reports" / "plan=app-usage" / "version=1" / "round=81652").glob("*-130.parquet")
    return path


@pytest.mark.parametrize("engine", ["duckdb", "arrow"])
@pytest.mark.parametrize("suffix", ["parquet", "json"])
def test_counts_of_open_rounds(run: Any, lake: Path, tmp_path: Path, engine: str, suffix: str) -> None:
    out = tmp_path / f"counts.{suffix}"
    done = run("count", lake, "--engine", engine, "--out", out)
    assert done.exit_code == 0, done.output
    assert [line.split() for line in done.stdout.splitlines()][1:3] == [
        ["app-usage", "1", "81651", "open", "4", "0", "200"],
        ["app-usage", "1", "81652", "open", "4", "0", "200"],
    ]
    file = read_counts(out)
    assert list(file.by_round) == KEYS[1:]
    for key in KEYS[1:]:
        expected = count_reports(reports(key.round), PLAN)
        assert file.counts(key) == {tags: by_metric for (_, tags), by_metric in expected.items()}


@pytest.mark.parametrize(
    ("options", "rounds"),
    [
        ((), [(81651, "open"), (81652, "open")]),
        (("--sealed",), [(81650, "sealed"), (81651, "open"), (81652, "open")]),
        (("--round", 81650, "--round", 81652), [(81650, "sealed"), (81652, "open")]),
        (("--plan", "app-usage", "--version", 2), []),
    ],
)
def test_rounds_are_chosen(run: Any, lake: Path, options: tuple[object, ...], rounds: list[Any]) -> None:
    done = run("count", f"lake:///{lake}", "--json", *options)
    assert done.exit_code == 0, done.output
    assert [(row["round"], row["state"]) for row in json.loads(done.stdout)["rounds"]] == rounds


def test_json_has_the_counts(run: Any, lake: Path) -> None:
    done = run("count", lake, "--round", 81650, "--json", "--engine", "arrow")
    (counted,) = json.loads(done.stdout)["rounds"]
    expected = count_reports(reports(81650), PLAN)
    for row in counted["counts"]:
        counts = expected[81650, tuple(row["tags"])][row["metric"]]
        assert list(zip(row["reports"], row["ones"], strict=True)) == [
            numbers[1:] for numbers in counts.rows()
        ]
    assert (len(counted["counts"]), counted["reports"]) == (3 * 2, 200)


@pytest.mark.parametrize("engine", ["duckdb", "arrow"])
def test_bad_files_stop_it_and_nothing_is_written(run: Any, lake: Path, tmp_path: Path, engine: str) -> None:
    bad, out = a_file(lake), tmp_path / "counts.parquet"
    bad.write_bytes(bad.read_bytes()[:-9])
    done = run("count", lake, "--engine", engine, "--out", out)
    assert done.exit_code == 1
    assert f"round=81652/{bad.name}: cannot be read as Parquet" in done.stderr
    assert not out.exists()


def test_with_skip_bad_the_rest_is_counted(run: Any, lake: Path, tmp_path: Path) -> None:
    bad, out = a_file(lake), tmp_path / "counts.json"
    bad.write_text("dear diary")
    done = run("count", lake, "--skip-bad", "--out", out, "--json")
    assert done.exit_code == 3
    (path,) = json.loads(done.stdout)["rounds"][1]["skipped"]
    assert path.endswith(bad.name)
    assert f"left out: {path}: cannot be read as Parquet" in done.stderr
    file = read_counts(out)
    assert list(file.skipped) == [path]
    assert [info.reports for info in file.rounds()] == [160, 200]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--round", 5), 1, "round: expected a round of this lake, got 5"),
        (("--master", "local"), 2, "are for --engine spark"),
        (("--engine", "spark", "--conf", "x"), 2, "expected NAME=VALUE"),
    ],
)
def test_what_is_asked_in_vain_is_said(
    run: Any, lake: Path, options: tuple[object, ...], code: int, message: str
) -> None:
    done = run("count", lake, *options)
    assert (done.exit_code, message in done.stderr) == (code, True), done.output


# Estimates of a file of counts are those of the store it was counted from


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--metric", "editor_seconds", "--confidence", "0.5"],
        ["--by", "os", "--last", "1"],
        ["--segment", "os:linux", "--plan", "app-usage"],
    ],
    ids=" ".join,
)
def test_a_file_of_counts_answers_as_the_lake_does(run: Any, folder: Path, options: list[str]) -> None:
    stored = json.loads(run("estimate", *LAKE, *options, "--json").stdout)["estimates"]
    counted = json.loads(run("estimate", *COUNTS, *options, "--json").stdout)["estimates"]
    assert counted == stored
    assert counted
    assert run("estimate", *COUNTS, *options).output == run("estimate", *LAKE, *options).output


def test_estimates_say_whom_they_are_about(run: Any, folder: Path) -> None:
    assert run("estimate", *COUNTS).stdout.endswith(ABOUT + "\n")
    assert json.loads(run("estimate", *COUNTS, "--json").stdout)["about"] == ABOUT
    assert "devices that take part" in ABOUT


def test_the_file_is_taken_before_a_store_of_the_environment(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETICENT_STORE", "sqlite:///nope.db")
    assert run("estimate", *COUNTS).exit_code == 0
    assert run("estimate").exit_code == 1


def test_an_export_of_counts_is_that_of_the_lake(run: Any, folder: Path) -> None:
    assert run("export", "counted.csv", *COUNTS).exit_code == 0
    assert run("export", "stored.csv", *LAKE).exit_code == 0
    assert Path("counted.csv").read_text() == Path("stored.csv").read_text()


def test_sealed_rounds_are_final(run: Any, folder: Path) -> None:
    assert run("rounds", *LAKE, "--seal").exit_code == 0
    done = run("count", "reticent-lake", "--engine", "arrow", "--sealed", "--out", "sealed.json")
    assert done.exit_code == 0
    estimates = json.loads(run("estimate", "--counts", "sealed.json", "--json").stdout)["estimates"]
    assert {row["round"]: row["state"] for row in estimates} == {900_000: "open", 100: "sealed"}
