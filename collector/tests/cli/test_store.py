"""Keys, rounds, estimates, exports and backups of a real SQLite store, from the command line."""

from __future__ import annotations

import csv
import json
import os
import pwd
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from reticent.plan import Plan
from reticent_collector.cli.root import reticent as command
from reticent_collector.counts import count_reports
from reticent_collector.estimates import estimate
from reticent_collector.stores import Layout, RoundKey, open_store
from reticent_lab.fleet import SdkFleet

PLAN = Plan.from_toml(
    "min_reports = 1\n" + (Path(__file__).parents[3] / "examples" / "plan.toml").read_text()
)
VALUES = np.random.default_rng(1).integers(0, 21600, 300).tolist()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with one round long over and one still open."""
    address = f"sqlite:///{tmp_path / 'reticent.db'}"
    store, layout = open_store(address), Layout(PLAN)
    store.register(PLAN)
    fleet = SdkFleet(PLAN, len(VALUES), seed=1, segments=[{"os": "linux"}, {"os": "macos"}] * 150)
    for number in (100, 900_000):
        reports = fleet.reports(number, {metric.name: VALUES for metric in PLAN.metrics})
        store.append({RoundKey(PLAN.name, 1, number): b"".join(layout.pack(report) for report in reports)})
    store.close()
    return address


def test_keys_are_shown_once_and_kept_as_a_hash(url: str) -> None:
    made = json.loads(
        run("keys", "create", "--store", url, "--role", "ingest", "--label", "fleet", "--json").stdout
    )
    assert set(made) == {"key", "id", "role", "plans"}
    (listed,) = json.loads(run("keys", "list", "--store", url, "--json").stdout)["keys"]
    assert (listed["id"], listed["role"], listed["label"]) == (made["id"], "ingest", "fleet")
    assert made["key"] not in run("keys", "list", "--store", url).output
    assert made["key"].encode() not in Path(url.removeprefix("sqlite:///")).read_bytes()
    assert run("keys", "revoke", made["id"], "--store", url).exit_code == 0
    assert json.loads(run("keys", "list", "--store", url, "--json").stdout)["keys"][0]["revoked_at"] > 0
    missing = run("keys", "revoke", "00000000", "--store", url)
    assert missing.exit_code == 1
    assert "no key has the id" in missing.output


def test_a_person_gets_the_key_alone_on_standard_output(url: str) -> None:
    result = run("keys", "create", "--store", url, "--role", "reader")
    assert result.stdout.startswith("reticent_reader_")
    assert len(result.stdout.split()) == 1


def test_rounds_are_listed_and_sealed_when_due(url: str) -> None:
    before = json.loads(run("rounds", "--store", url, "--json").stdout)["rounds"]
    assert [(each["round"], each["state"], each["reports"]) for each in before] == [
        (900_000, "open", 300),
        (100, "open", 300),
    ]
    after = json.loads(run("rounds", "--store", url, "--seal", "--json").stdout)
    assert after["sealed"] == 1
    assert [each["state"] for each in after["rounds"]] == ["open", "sealed"]
    assert "sealed" in run("rounds", "--store", url).output


def test_a_damaged_round_keeps_no_other_from_its_seal(url: str) -> None:
    store, layout = open_store(url), Layout(PLAN)
    fleet = SdkFleet(PLAN, 300, seed=2)
    reports = fleet.reports(101, {metric.name: VALUES for metric in PLAN.metrics})
    store.append({RoundKey(PLAN.name, 1, 101): b"".join(map(layout.pack, reports))})
    store.close()
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        database.execute("DROP TABLE records_1")
    sealing = run("rounds", "--store", url, "--seal")
    assert sealing.exit_code == 1
    assert f"round 100 of {PLAN.name} version 1 is damaged" in sealing.output
    states = {
        row["round"]: row["state"]
        for row in json.loads(run("rounds", "--store", url, "--json").stdout)["rounds"]
    }
    assert states == {900_000: "open", 101: "sealed", 100: "damaged"}
    with closing(open_store(url)) as store:
        assert [period.every for period in store.backend.written(PLAN.name)].count("round") == 1


def test_estimates_are_those_of_the_reports(url: str) -> None:
    result = run(
        "estimate", "--store", url, "--metric", "editor_seconds", "--by", "os", "--every", "round", "--json"
    )
    found = json.loads(result.stdout)["estimates"]
    assert [(each["round"], each["segment"]) for each in found] == [
        (number, {"os": tag}) for number in (900_000, 100) for tag in ("macos", "linux")
    ]
    fleet = SdkFleet(PLAN, len(VALUES), seed=1, segments=[{"os": "linux"}, {"os": "macos"}] * 150)
    counts = count_reports(fleet.reports(100, {metric.name: VALUES for metric in PLAN.metrics}), PLAN)
    expected = estimate(PLAN.by_name["editor_seconds"], counts[100, ("linux",)]["editor_seconds"])
    assert (found[3]["value"], found[3]["lower"], found[3]["upper"]) == (
        expected.value,
        expected.lower,
        expected.upper,
    )
    shown = run("estimate", "--store", url, "--segment", "os:linux", "--last", "1").output
    assert "provisional" in shown
    assert "±" in shown


def test_exports_have_a_row_per_number(url: str, tmp_path: Path) -> None:
    assert run("export", tmp_path / "all.csv", "--store", url).exit_code == 0
    with (tmp_path / "all.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * (1 + 1 + 32)
    assert run("export", tmp_path / "all.parquet", "--store", url).exit_code == 0
    table = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    assert [row["value"] for row in table] == [float(row["value"]) for row in rows]
    assert run("export", tmp_path / "all.xlsx", "--store", url).exit_code == 2


def test_check_and_backup(url: str, tmp_path: Path) -> None:
    assert json.loads(run("store", "check", "--store", url, "--json").stdout)["problems"] == []
    assert run("store", "backup", tmp_path / "copy.db", "--store", url).exit_code == 0
    copy = f"sqlite:///{tmp_path / 'copy.db'}"
    assert run("rounds", "--store", copy, "--json").stdout == run("rounds", "--store", url, "--json").stdout
    assert run("store", "backup", tmp_path / "copy.db", "--store", url).exit_code == 1


def test_damage_is_found(url: str) -> None:
    run("rounds", "--store", url, "--seal")
    database = sqlite3.connect(url.removeprefix("sqlite:///"))
    database.execute("UPDATE counts SET reports = '[7]' WHERE metric = 'editor_seconds'")
    database.commit()
    database.close()
    result = run("store", "check", "--store", url)
    assert result.exit_code == 3


def test_the_store_can_come_from_the_environment(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("rounds").exit_code == 2
    monkeypatch.setenv("RETICENT_STORE", url)
    assert run("rounds").exit_code == 0
    monkeypatch.delenv("RETICENT_STORE")
    (tmp_path / "secret").write_text(url + "\n")
    monkeypatch.setenv("RETICENT_STORE_FILE", str(tmp_path / "secret"))
    assert run("rounds").exit_code == 0
    assert run("rounds", "--store", "mysql://x").exit_code == 1


@pytest.mark.parametrize(
    "verb", [["rounds"], ["estimate"], ["store", "check"], ["store", "backup", "copy.db"], ["keys", "list"]]
)
@pytest.mark.parametrize("kind", ["sqlite", "lake"])
def test_a_mistyped_store_is_not_made(verb: list[str], kind: str, tmp_path: Path) -> None:
    result = run(*verb, "--store", f"{kind}:///{tmp_path / 'typo'}")
    assert result.exit_code == 1
    assert "no such store" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", [["store", "check"], ["store", "repair"], ["keys", "list"], ["rounds"]])
@pytest.mark.parametrize("kind", ["empty", "database", "text"])
def test_a_file_of_something_else_does_not_become_a_store(verb: list[str], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file.db"
    if kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("a text " * 1000)
    else:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA user_version = 7")  # and no table yet
            database.commit()
    before = path.read_bytes()
    done = CliRunner().invoke(command, [*verb, "--store", f"sqlite:///{path}"])
    assert done.exit_code == 1
    assert {
        "empty": "is an empty file",
        "database": "is not a database of reticent",
        "text": "not a database",
    }[kind] in done.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["sqlite", "lake"])
def test_what_administrators_did_is_kept_and_no_secret_with_it(url: str, kind: str, tmp_path: Path) -> None:
    target = f"{kind}:///{tmp_path / 'target'}"
    assert run("rounds", "--store", url, "--seal").exit_code == 0
    begun = int(time.time())
    made = json.loads(
        run("keys", "create", "--store", target, "--role", "ingest", "--label", "fleet", "--json").stdout
    )
    run("keys", "revoke", "00000000", "--store", target)  # there is none: nothing was done
    assert run("keys", "revoke", made["id"], "--store", target).exit_code == 0
    assert run("store", "copy", url, target).exit_code == 0
    assert run("store", "repair", "--store", target).exit_code == 0
    assert run("store", "prune", "--store", target, "--older-than", "9000d").exit_code == 0  # only shown
    assert run("store", "prune", "--store", target, "--older-than", "9000d", "--yes").exit_code == 0
    assert run("store", "results", "--store", target, "--rebuild").exit_code == 0
    log = json.loads(run("store", "log", "--store", target, "--json").stdout)["actions"]
    assert sorted(entry["action"] for entry in log) == [
        "copied",
        "key created",
        "key revoked",
        "pruned",
        "results rebuilt",
    ]
    about = {entry["action"]: entry["about"] for entry in log}
    assert about["key created"] == f"{made['id']}, ingest, fleet"
    assert about["key revoked"] == made["id"]
    assert about["copied"] == f"from {url}"
    assert about["pruned"].startswith("1 round that ended by ")
    assert {entry["user"] for entry in log} == {pwd.getpwuid(os.getuid()).pw_name}
    assert all(begun <= entry["at"] <= time.time() for entry in log)
    assert [entry["at"] for entry in log] == sorted(entry["at"] for entry in log)
    assert made["key"] not in json.dumps(log)
    assert run("store", "check", "--store", target).exit_code == 0
    shown = run("store", "log", "--store", target).output
    assert "key revoked" in shown
    assert json.loads(run("store", "log", "--store", url, "--json").stdout)["actions"] == []


def test_a_metric_is_shown_first_and_deleted_when_asked_to(url: str, tmp_path: Path) -> None:
    assert run("rounds", "--store", url, "--seal").exit_code == 0
    asked = ("store", "delete", "--store", url, "--plan", PLAN.name, "--metric", "editor_hours", "--json")
    assert run("store", "results", "--store", url).exit_code == 0
    refused = run(*asked, "--yes")
    assert refused.exit_code == 1
    assert "the newest version of the plan, 1, still asks it" in refused.output
    text, _, _ = PLAN.text.partition("[metrics.editor_hours]")
    newer = text.replace("version = 1", "version = 2") + "[segments]\nos = ['windows', 'macos', 'linux']\n"
    with closing(open_store(url)) as store:
        store.register(Plan.from_toml(newer))
        before = store.counts(RoundKey(PLAN.name, 1, 100))
        logged = len(store.noted())
    shown = json.loads(run(*asked).stdout)
    assert (shown["versions"], [row["round"] for row in shown["rounds"]], shown["deleted"]) == (
        [1],
        [100],
        False,
    )
    with closing(open_store(url)) as store:
        assert (store.counts(RoundKey(PLAN.name, 1, 100)), len(store.noted())) == (before, logged)
    assert json.loads(run(*asked, "--yes").stdout) == shown | {"deleted": True}
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        assert database.execute("PRAGMA freelist_count").fetchone() == (0,), "the space was given back"
    with closing(open_store(url)) as store:
        after = store.counts(RoundKey(PLAN.name, 1, 100))
        entry = store.noted()[-1]
    assert {name for kept in after.values() for name in kept} == {"editor_seconds", "browser_seconds"}
    for tags, kept in after.items():
        assert kept == {name: counts for name, counts in before[tags].items() if name != "editor_hours"}
    assert entry[1:] == (pwd.getpwuid(os.getuid()).pw_name, "metric deleted", f"editor_hours of {PLAN.name}")
    assert run("store", "check", "--store", url).exit_code == 0
    listed = run("estimate", "--store", url, "--plan", PLAN.name, "--every", "round", "--last", "9", "--json")
    assert listed.exit_code == 0
    assert "editor_seconds" in listed.stdout
    assert "editor_hours" not in listed.stdout
    assert run("export", tmp_path / "out.csv", "--store", url, "--every", "round").exit_code == 0
    exported = (tmp_path / "out.csv").read_text()
    assert "editor_seconds" in exported
    assert "editor_hours" not in exported
    unknown = run("estimate", "--store", url, "--plan", PLAN.name, "--metric", "editor_hours")
    assert (unknown.exit_code, "expected one of editor_seconds, browser_seconds" in unknown.output) == (
        1,
        True,
    )
