"""`reticent count`: a lake to a table of counts, and what it does with bad files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reticent.cli.count import count
from reticent.cli.root import Verbs
from reticent.counts import count_reports
from reticent.frames import read_counts
from reticent.plan import Plan
from reticent.reports import Report
from reticent.stores import Layout, RoundKey
from reticent.stores.lake import open_lake

PLAN = Plan.from_toml(
    '[plan]\nname = "app-usage"\nversion = 1\nround = "6h"\n'
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
    one, two = (open_lake(f"lake:///{folder}") for _ in range(2))
    one.register(PLAN)
    for key in KEYS:
        records = [Layout(PLAN).pack(report) for report in reports(key.round)]
        for store, chosen in (
            (one, records[:10]),
            (two, records[190:]),
            (one, records[:150]),
            (two, records[60:]),
        ):
            store.append({key: b"".join(chosen)})
    assert one.seal(KEYS[0])
    one.close()
    two.close()
    return folder


def run(*arguments: object) -> Result:
    """The command below a group, as in `reticent`: errors are a line and an exit code."""
    group = Verbs("reticent", commands={"count": count})
    return CliRunner().invoke(group, ["count", *map(str, arguments)])


def a_file(lake: Path) -> Path:
    """The file of the second collector that has reports 60 to 189 of the last round."""
    (path,) = (lake / "reports" / "plan=app-usage" / "version=1" / "round=81652").glob("*-130.parquet")
    return path


@pytest.mark.parametrize("engine", ["duckdb", "arrow"])
@pytest.mark.parametrize("suffix", ["parquet", "json"])
def test_counts_of_open_rounds(lake: Path, tmp_path: Path, engine: str, suffix: str) -> None:
    out = tmp_path / f"counts.{suffix}"
    done = run(lake, "--engine", engine, "--out", out)
    assert done.exit_code == 0, done.output
    shown = [line.split() for line in done.stdout.splitlines()]
    assert shown[1:3] == [
        ["app-usage", "1", "81651", "open", "4", "0", "200"],
        ["app-usage", "1", "81652", "open", "4", "0", "200"],
    ]
    found = read_counts(out)
    assert list(found.counts) == KEYS[1:]
    for key in KEYS[1:]:
        expected = count_reports(reports(key.round), PLAN)
        assert found.counts[key] == {tags: by_metric for (_, tags), by_metric in expected.items()}
    assert {(each.metric, each.round) for each in found.estimates()} == {
        (name, key.round) for name in ("minutes", "hours") for key in KEYS[1:]
    }


def test_rounds_are_chosen(lake: Path) -> None:
    def chosen(*options: object) -> list[tuple[int, str]]:
        done = run(f"lake:///{lake}", "--json", *options)
        assert done.exit_code == 0, done.output
        return [(each["round"], each["state"]) for each in json.loads(done.stdout)["rounds"]]

    assert chosen() == [(81651, "open"), (81652, "open")]
    assert chosen("--sealed") == [(81650, "sealed"), (81651, "open"), (81652, "open")]
    assert chosen("--round", 81650, "--round", 81652) == [(81650, "sealed"), (81652, "open")]
    assert chosen("--plan", "app-usage", "--version", 2) == []


def test_json_has_the_counts(lake: Path) -> None:
    done = run(lake, "--round", 81650, "--json", "--engine", "arrow")
    (found,) = json.loads(done.stdout)["rounds"]
    expected = count_reports(reports(81650), PLAN)
    for row in found["counts"]:
        counts = expected[81650, tuple(row["tags"])][row["metric"]]
        assert list(zip(row["reports"], row["ones"], strict=True)) == [each[1:] for each in counts.rows()]
    assert len(found["counts"]) == 3 * 2
    assert found["reports"] == 200


@pytest.mark.parametrize("engine", ["duckdb", "arrow"])
def test_bad_files_stop_it_and_nothing_is_written(lake: Path, tmp_path: Path, engine: str) -> None:
    bad, out = a_file(lake), tmp_path / "counts.parquet"
    bad.write_bytes(bad.read_bytes()[:-9])
    done = run(lake, "--engine", engine, "--out", out)
    assert done.exit_code == 1
    assert f"round=81652/{bad.name}: cannot be read as Parquet" in done.stderr
    assert not out.exists()


def test_with_skip_bad_the_rest_is_counted(lake: Path, tmp_path: Path) -> None:
    bad, out = a_file(lake), tmp_path / "counts.json"
    bad.write_text("dear diary")
    done = run(lake, "--skip-bad", "--out", out, "--json")
    assert done.exit_code == 3
    (path,) = json.loads(done.stdout)["rounds"][1]["skipped"]
    assert path.endswith(bad.name)
    assert f"left out: {path}: cannot be read as Parquet" in done.stderr
    found = read_counts(out)
    assert list(found.skipped) == [path]
    assert found.totals(KEYS[2])["minutes"].reports == 160


def test_what_is_asked_in_vain_is_said(lake: Path, tmp_path: Path) -> None:
    for arguments, code, message in (
        ((lake, "--round", 5), 1, "round: expected a round of this lake, got 5"),
        ((tmp_path / "nowhere",), 1, "there is no lake"),
        ((lake, "--out", "counts.csv"), 2, "expected a name that ends in .parquet or .json"),
        ((lake, "--master", "local"), 2, "are for --engine spark"),
        ((lake, "--engine", "spark", "--conf", "x"), 2, "expected NAME=VALUE"),
    ):
        done = run(*arguments)
        assert (done.exit_code, message in done.stderr) == (code, True), done.output


def test_help_has_an_example() -> None:
    assert "reticent count lake:///reticent-lake --plan app-usage" in run("--help").output
