"""`reticent count`: a lake to counts, or to sealed rounds, and what it does with bad files."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from reticent.plan import Plan
from reticent.reports import Report
from reticent_collector.counts import count_reports
from reticent_collector.stores import Layout, RoundKey, open_store

PLAN = Plan.from_toml(
    'min_reports = 1\n[plan]\nname = "app-usage"\nversion = 1\nround = "6h"\n'
    '[metrics.minutes]\nkind = "mean"\nunit = "minute"\nmax_value = 360\nepsilon = 1.0\n'
    '[metrics.hours]\nkind = "histogram"\nmax_value = 24\nbuckets = 8\n'
    'mechanism = "hadamard-bit"\nepsilon = 1.0\n'
    '[segments]\nos = ["linux", "macos"]\n'
)
KEYS = [RoundKey("app-usage", 1, number) for number in (81_650, 81_651, 81_652)]


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
    """The file of the second collector that has reports 60 to 199 of the last round."""
    (path,) = (lake / "reports" / "plan=app-usage" / "version=1" / "round=81652").glob("*-140.parquet")
    return path


@pytest.mark.parametrize("engine", ["duckdb", "arrow"])
def test_counts_of_open_rounds(run: Any, lake: Path, engine: str) -> None:
    before = everything(lake)
    done = run("count", lake, "--engine", engine)
    assert done.exit_code == 0, done.output
    assert [line.split() for line in done.stdout.splitlines()][1:3] == [
        ["app-usage", "1", "81651", "open", "4", "0", "200"],
        ["app-usage", "1", "81652", "open", "4", "0", "200"],
    ]
    assert everything(lake) == before


def everything(lake: Path) -> dict[str, bytes]:
    """What is in a lake."""
    return {str(path): path.read_bytes() for path in lake.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("options", "rounds"),
    [
        ((), [(81651, "open"), (81652, "open")]),
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
def test_bad_files_stop_it(run: Any, lake: Path, engine: str) -> None:
    bad = a_file(lake)
    bad.write_bytes(bad.read_bytes()[:-9])
    done = run("count", lake, "--engine", engine)
    assert done.exit_code == 1
    assert f"round=81652/{bad.name}: cannot be read as Parquet" in done.stderr


def test_with_skip_bad_the_rest_is_counted(run: Any, lake: Path) -> None:
    bad = a_file(lake)
    bad.write_text("dear diary")
    done = run("count", lake, "--skip-bad", "--json")
    assert done.exit_code == 3
    rounds = json.loads(done.stdout)["rounds"]
    (path,) = rounds[1]["skipped"]
    assert path.endswith(bad.name)
    assert f"left out: {path}: cannot be read as Parquet" in done.stderr
    assert [counted["reports"] for counted in rounds] == [200, 160]


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


# Sealing


@pytest.mark.parametrize("engine", ["duckdb", "arrow"])
def test_what_an_engine_seals_is_what_a_collector_seals(run: Any, lake: Path, engine: str) -> None:
    """The same bytes in the same files, from a copy of the lake, and the reports are gone."""
    copy = lake.with_name("copy")
    shutil.copytree(lake, copy)
    collector = open_store(f"lake:///{copy}")
    assert [collector.seal(key) for key in KEYS[1:]] == [True, True]
    done = run("count", lake, "--seal", "--engine", engine)
    assert done.exit_code == 0, done.output
    assert [line.split() for line in done.stdout.splitlines()][1:] == [
        ["app-usage", "1", "81651", "sealed", "4", "0", "200"],
        ["app-usage", "1", "81652", "sealed", "4", "0", "200"],
        ["2", "rounds", "sealed."],
    ]
    counts = [
        {
            str(path.relative_to(folder)): data
            for path in folder.rglob("*.json")
            if (data := path.read_bytes())
        }
        for folder in (lake / "counts", copy / "counts")
    ]
    assert counts[0] == counts[1]
    assert len(counts[0]) == 3
    assert list((lake / "reports").rglob("*.parquet")) == []
    results = pq.read_table(lake / "results").to_pylist()  # the table of results follows the seal
    assert {row["round"] for row in results if row["every"] == "round"} == {key.round for key in KEYS}
    assert open_store(f"lake:///{lake}").verify() == []
    assert run("count", lake, "--seal").output == "No rounds to seal.\n"


def test_a_round_that_is_not_over_is_not_sealed(run: Any, lake: Path) -> None:
    number = PLAN.round_at(time.time())
    key = KEYS[0]._replace(round=number)
    store = open_store(f"lake:///{lake}")
    store.append({key: b"".join(map(Layout(PLAN).pack, reports(5)))})
    done = run("count", lake, "--seal", "--json")
    assert [counted["round"] for counted in json.loads(done.stdout)["rounds"]] == [81651, 81652]
    assert store.unsealed() == [key]
    done = run("count", lake, "--seal", "--round", number)
    assert done.exit_code == 1
    assert f"round: expected one whose grace is over, got {number}, until" in done.stderr


def test_a_damaged_round_is_not_sealed_and_others_are(run: Any, lake: Path) -> None:
    (bad,) = (lake / "reports" / "plan=app-usage" / "version=1" / "round=81651").glob("*-140.parquet")
    bad.write_text("dear diary")
    done = run("count", lake, "--seal", "--json")
    assert done.exit_code == 3
    first, second = json.loads(done.stdout)["rounds"]
    assert (first["round"], first["state"], first["counts"]) == (81651, "closing", [])
    assert bad.name in first["problem"]
    assert (second["round"], second["state"], second["reports"]) == (81652, "sealed", 200)
    assert "not sealed: round 81651 of app-usage version 1: reports/plan=" in done.stderr
    assert bad.exists()
    assert run("store", "repair", "--store", f"lake:///{lake}", "--yes").exit_code == 0
    done = run("count", lake, "--seal", "--json")
    (counted,) = json.loads(done.stdout)["rounds"]
    assert (done.exit_code, counted["state"], counted["reports"]) == (3, "sealed", 160)
    assert list(counted["skipped"]) == [bad.name]


def test_of_several_who_seal_at_once_each_round_has_one(lake: Path) -> None:
    """Processes of their own, one of which is killed as soon as it has begun: the others finish."""
    command = [sys.executable, "-m", "reticent", "count", str(lake), "--seal", "--json", "--engine"]
    started = [
        subprocess.Popen([*command, engine], stdout=subprocess.PIPE, text=True)
        for engine in ("duckdb", "arrow", "duckdb")
    ]
    while started[0].poll() is None and not list((lake / "seals").rglob("round=81651/lease-*")):
        time.sleep(0.005)
    started[0].kill()
    started[0].communicate()
    for process in started[1:]:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        rounds = json.loads(out)["rounds"]
        assert {counted["round"] for counted in rounds} <= {81651, 81652}
        assert all(counted["state"] == "sealed" and counted["reports"] == 200 for counted in rounds)
    store = open_store(f"lake:///{lake}")
    assert store.unsealed() == []
    for key in KEYS:
        expected = count_reports(reports(key.round), PLAN)
        assert store.counts(key) == {tags: by_metric for (_, tags), by_metric in expected.items()}


def foreign(folder: Path) -> None:
    (folder / "diary.txt").write_text("dear diary")


def of_another_format(folder: Path) -> None:
    (folder / "lake.json").write_text('{"reticent": "lake", "format": 2}')


def without_its_plan(folder: Path) -> None:
    open_store(f"lake:///{folder}").close()
    (folder / "plans" / "app-usage").mkdir(parents=True)
    (folder / "plans" / "app-usage" / "v1.toml").write_text("not a plan")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "there is no lake"),
        (foreign, "expected a lake or an empty folder; it was not changed"),
        (of_another_format, "written by a newer version of reticent: its format is number 2"),
        (without_its_plan, "plans/app-usage/v1.toml: holds a plan that cannot be read"),
    ],
)
@pytest.mark.parametrize("seal", [[], ["--seal"]])
def test_what_is_no_lake_is_said_and_left_alone(
    run: Any, tmp_path: Path, make: Callable[[Path], None], message: str, seal: list[str]
) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    make(folder)
    before = everything(folder)
    done = run("count", folder, *seal)
    assert (done.exit_code, message in done.stderr) == (1, True), done.output
    assert everything(folder) == before
