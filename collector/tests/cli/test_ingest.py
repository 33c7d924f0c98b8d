"""`reticent ingest`: reports from files and pipes, into stores and running collectors, each counted once."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.shared.collectors import Service, in_thread, make_keys, make_reports, usage
from tests.shared.commands import Run
from tests.shared.plans import BARE

from reticent.plan import Plan
from reticent.reports import Report, to_json, to_ndjson, to_packed
from reticent_collector.counts import count_reports
from reticent_collector.http import Collector, Limits
from reticent_collector.stores import RoundKey, Store, open_store

PLAN = Plan.from_toml(usage())
NOW = PLAN.round_at(time.time())


@pytest.fixture
def url(tmp_path: Path) -> str:
    address = f"sqlite:///{tmp_path / 'store.db'}"
    store = open_store(address)
    store.register(PLAN)
    store.close()
    return address


def stored(url: str) -> int:
    """The reports in the round, each id once."""
    store = open_store(url)
    try:
        return sum(counts["minutes"].devices for counts in store.counts(RoundKey(PLAN.name, 1, NOW)).values())
    finally:
        store.close()


def answer(result: Any) -> Any:
    return json.loads(result.stdout)


@pytest.mark.parametrize("kind", ["lines", "packed"])
def test_every_report_counts_once_however_often_its_file_is_taken(
    run: Run, url: str, tmp_path: Path, kind: str
) -> None:
    reports = make_reports(PLAN, NOW, 20_000)  # more than one block
    file = tmp_path / "reports"
    file.write_bytes(to_ndjson(reports) if kind == "lines" else to_packed(reports, PLAN))
    first = run("ingest", file, "--store", url, "--json")
    assert first.exit_code == 0, first.output
    assert answer(first) == {"accepted": 20_000, "late": 0, "refused": {}, "first": []}
    again = run("ingest", file, "--store", url)
    assert again.stdout == "20,000 accepted, 0 late, 0 refused.\n"
    store = open_store(url)
    counts = store.counts(RoundKey(PLAN.name, 1, NOW))
    assert {(NOW, tags): by_metric for tags, by_metric in counts.items()} == count_reports(reports, PLAN)
    store.close()


def test_a_round_that_is_not_sealed_yet_is_announced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(usage().replace("min_reports = 1\n", "min_reports = 100\n"))
    plan = Plan.load(tmp_path / "plan.toml")
    file, url = tmp_path / "reports.ndjson", f"sqlite:///{tmp_path / 'new.db'}"
    file.write_bytes(b"\n".join(to_json(report) for report in make_reports(plan, NOW, 4)))
    assert run("ingest", file, "--store", url, "--register", tmp_path / "plan.toml").exit_code == 0
    shown = run("estimate", "--store", url).output
    assert shown.startswith("No estimates: ")
    assert "After its grace a round is sealed" in shown


def test_bad_lines_are_named_and_stop_no_good_one(run: Run, url: str, tmp_path: Path) -> None:
    good = [to_json(report) for report in make_reports(PLAN, NOW, 4)]
    late = to_json(make_reports(PLAN, 5, 1)[0])
    other = to_json(replace(make_reports(PLAN, NOW, 1)[0], plan="other"))
    file = tmp_path / "reports.ndjson"
    file.write_bytes(b"\n".join([good[0], b"", b"{}", good[1], late, b"  ", good[2], other, good[3]]))
    result = run("ingest", file, "--store", url, "--json")
    assert result.exit_code == 3
    summary = answer(result)
    assert (summary["accepted"], summary["late"], summary["refused"]) == (
        4,
        1,
        {"malformed": 1, "unknown_plan": 1},
    )
    assert [(row["where"], row["code"]) for row in summary["first"]] == [
        ("line 3", "malformed"),
        ("line 5", "late"),
        ("line 8", "unknown_plan"),
    ]
    assert stored(url) == 4
    shown = run("ingest", file, "--store", url)
    assert shown.exit_code == 3
    assert "line 3: malformed: The body is not a valid report of this plan.\n" in shown.stderr
    assert "Hint: a line is a report in JSON" in shown.stderr


def test_bad_records_of_a_packed_batch_are_named(run: Run, url: str, tmp_path: Path) -> None:
    reports = [*make_reports(PLAN, NOW, 3), *make_reports(PLAN, 5, 1)]
    file = tmp_path / "reports.packed"
    file.write_bytes(to_packed(reports, PLAN))
    summary = answer(run("ingest", file, "--store", url, "--json"))
    assert (summary["accepted"], summary["late"]) == (3, 1)
    assert [row["where"] for row in summary["first"]] == ["report 4"]
    file.write_bytes(to_packed(reports, PLAN)[:-1])
    cut = run("ingest", file, "--store", url)
    assert cut.exit_code == 1
    assert cut.stdout == "3 accepted, 0 late, 0 refused.\n"
    assert "whole records" in cut.stderr
    bare = Plan.from_toml(BARE)
    file.write_bytes(to_packed(make_reports(bare, bare.round_at(time.time()), 5), bare))
    assert answer(run("ingest", file, "--store", url, "--json"))["refused"] == {"unknown_plan": 5}


def test_a_round_that_takes_nothing_is_said(run: Run, url: str, tmp_path: Path) -> None:
    file, reports = tmp_path / "reports.ndjson", make_reports(PLAN, NOW, 20)
    file.write_bytes(to_ndjson(reports[:10]))
    assert run("ingest", file, "--store", url).exit_code == 0
    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
        database.execute("DROP TABLE records_1")
    file.write_bytes(to_ndjson(reports))
    result = run("ingest", file, "--store", url)
    assert result.exit_code == 1
    assert result.stdout == "0 accepted, 0 late, 0 refused.\n"
    assert f"round {NOW} of {PLAN.name} version 1 is damaged" in result.stderr


def test_strict_stops_at_the_first_block_with_a_bad_line(run: Run, url: str, tmp_path: Path) -> None:
    reports = make_reports(PLAN, NOW, 20_000)
    lines = [b"{}", *map(to_json, reports)]
    file = tmp_path / "reports.ndjson"
    file.write_bytes(b"\n".join(lines))
    strict = run("ingest", file, "--store", url, "--strict", "--json")
    assert strict.exit_code == 3
    assert 0 < answer(strict)["accepted"] < 20_000
    assert answer(run("ingest", file, "--store", url, "--json"))["refused"] == {"malformed": 1}
    assert stored(url) == 20_000


def test_a_store_is_made_for_a_plan(run: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(usage())
    (tmp_path / "reports").write_bytes(to_ndjson(make_reports(PLAN, NOW, 3)))
    url = f"lake:///{tmp_path / 'lake'}"
    missing = run("ingest", tmp_path / "reports", "--store", url)
    assert (missing.exit_code, "there is no such store" in missing.output) == (1, True)
    made = run("ingest", tmp_path / "reports", "--store", url, "--register", tmp_path / "plan.toml", "--json")
    assert (made.exit_code, answer(made)["accepted"]) == (0, 3)
    assert stored(url) == 3


def test_it_goes_to_one_place_only(run: Run, url: str, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "reports").write_bytes(b"")
    (tmp_path / "two words").write_text("two words")
    file = str(tmp_path / "reports")
    for wrong in (
        ("ingest", file),
        ("ingest", file, "--store", url, "--url", "http://127.0.0.1:1"),
        ("ingest", file, "--store", url, "--key-file", file),
        ("ingest", file, "--url", "http://127.0.0.1:1", "--register", file),
        ("ingest", file, "--url", "http://127.0.0.1:1", "--key-file", tmp_path / "two words"),
        ("ingest", file, "--url", "http://collector.example.org"),
    ):
        assert run(*wrong).exit_code == 2, wrong
    monkeypatch.setenv("RETICENT_STORE", url)
    assert run("ingest", file).exit_code == 0
    assert run("ingest", file, "--url", "http://127.0.0.1:1").exit_code == 0  # nothing to send


# Pipes


class Pipe:
    """`reticent ingest -` in a process of its own, which tells its progress twice a second and waits little."""

    def __init__(self, *options: str) -> None:
        hasty = "output.PROGRESS_SECONDS = 0.5; ingest.BLOCK_SECONDS = 0.1"
        program = f"from reticent.cli import main; from reticent_collector.cli import ingest, output; {hasty}; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, "ingest", "-", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def end(self) -> tuple[int, Any, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, json.loads(out) if out else None, err.decode()


@pytest.fixture
def pipes() -> Iterator[Any]:
    opened: list[Pipe] = []

    def make(*options: str) -> Pipe:
        opened.append(Pipe(*options))
        return opened[-1]

    yield make
    for pipe in opened:
        pipe.process.kill()
        pipe.process.communicate()


def wait_for(url: str, reports: int) -> None:
    deadline = time.monotonic() + 30
    while stored(url) < reports:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("kind", ["lines", "packed"])
def test_what_trickles_is_committed_while_the_pipe_stays_open(url: str, pipes: Any, kind: str) -> None:
    reports = make_reports(PLAN, NOW, 3)
    data = to_ndjson(reports) if kind == "lines" else to_packed(reports, PLAN)
    step = len(data) // 3
    pipe = pipes("--store", url, "--json")
    pipe.write(data[: step + 20])  # the second one has come in part
    wait_for(url, 1)
    pipe.write(data[step + 20 :])
    wait_for(url, 3)
    assert pipe.end()[:2] == (0, {"accepted": 3, "late": 0, "refused": {}, "first": []})


def test_a_run_that_was_killed_is_repeated_without_counting_anything_twice(url: str, pipes: Any) -> None:
    lines = to_ndjson(make_reports(PLAN, NOW, 20_000))
    for part in (0.4, 0.9):
        pipe = pipes("--store", url)
        try:
            pipe.write(lines[: int(part * len(lines))])
            wait_for(url, 1)
        finally:
            pipe.process.kill()
            assert pipe.process.wait(60) == -signal.SIGKILL
    assert 0 < stored(url) <= 18_000
    pipe = pipes("--store", url, "--json")
    pipe.write(lines)
    code, summary, _ = pipe.end()
    assert (code, summary["accepted"]) == (0, 20_000)
    assert stored(url) == 20_000


def test_progress_is_told_without_a_terminal_and_ctrl_c_ends_with_the_summary(url: str, pipes: Any) -> None:
    pipe = pipes("--store", url, "--json")
    line = to_ndjson(make_reports(PLAN, NOW, 1))
    deadline = time.monotonic() + 60
    while not select.select([pipe.process.stderr], [], [], 0.1)[0]:
        assert time.monotonic() < deadline
        pipe.write(line)  # the same report, until there is something to read
    pipe.process.send_signal(signal.SIGINT)
    assert pipe.process.wait(60) == 130, "it ends by the signal, before its input does"
    code, summary, progress = pipe.end()
    assert code == 130
    first = re.match(r"(\d+) accepted, 0 late, 0 refused; continuing\.\n", progress)
    assert first
    assert summary["accepted"] >= int(first[1]) >= 1
    assert stored(url) == 1


def test_ctrl_c_waits_for_the_commit_under_way(
    url: str, monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path
) -> None:
    """Raised in the middle, it would leave out of the summary what is stored, or be lost in a callback."""
    append = Store.append

    def interrupted(store: Store, records: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return append(store, records)

    monkeypatch.setattr(Store, "append", interrupted)
    monkeypatch.setattr("reticent_collector.cli.ingest.BLOCK_BYTES", 1000)
    file = tmp_path / "reports"
    file.write_bytes(to_ndjson(make_reports(PLAN, NOW, 50)))
    result = run("ingest", file, "--store", url, "--json")
    assert result.exit_code == 130
    accepted = json.loads(result.stdout)["accepted"]
    assert 0 < accepted < 50
    monkeypatch.undo()
    assert stored(url) == accepted


def test_early_reports_are_not_final(url: str, run: Run, tmp_path: Path) -> None:
    """Their round has not begun: with --strict the others are taken all the same, and people hear what to do."""
    early, good = make_reports(PLAN, NOW + 2, 1), make_reports(PLAN, NOW, 2)
    file = tmp_path / "reports"
    file.write_bytes(to_ndjson([*early, *good]))
    result = run("ingest", file, "--store", url, "--strict")
    assert result.exit_code == 3
    assert "early: The round has not started" in result.stderr
    assert "Hint: run it again when the rounds of early reports have begun" in result.stderr
    assert stored(url) == 2


def test_a_line_without_end_takes_no_memory(url: str, pipes: Any) -> None:
    pipe = pipes("--store", url, "--json")
    for _ in range(300):
        pipe.write(b"a" * (1 << 20))
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pipe.process.pid}/status").read_text())
    assert peak is not None
    assert int(peak[1]) < 200_000
    pipe.write(b"\n" + to_ndjson(make_reports(PLAN, NOW, 1)))
    code, summary, _ = pipe.end()
    assert (code, summary["accepted"], summary["refused"]) == (3, 1, {"malformed": 1})


# Into a running collector


@pytest.fixture
def collector(tmp_path: Path, url: str) -> Iterator[Service]:
    """With small limits, and keys."""
    keys = make_keys(url, "ingest", "reader")
    for role, text in keys.items():
        (tmp_path / role).write_text(text + "\n")
    limits = Limits(batch=100, body=20_000)
    with in_thread(Collector([PLAN], open_store(url), limits=limits), limits) as service:
        yield service


@pytest.mark.parametrize("kind", ["lines", "packed"])
def test_a_collector_takes_what_a_store_does_in_batches_that_it_likes(
    run: Run, url: str, tmp_path: Path, collector: Service, kind: str
) -> None:
    reports: list[Report] = [*make_reports(PLAN, NOW, 1500), *make_reports(PLAN, 5, 2)]
    lines = to_ndjson(reports[:1000]) + b"\n{}\n" + to_ndjson(reports[1000:])
    file = tmp_path / "reports"
    file.write_bytes(lines if kind == "lines" else to_packed(reports, PLAN))
    options = ("--url", f"http://127.0.0.1:{collector.port}", "--key-file", tmp_path / "ingest", "--json")
    summary = answer(run("ingest", file, *options))
    wrong = {"malformed": 1} if kind == "lines" else {}
    assert (summary["accepted"], summary["late"]) == (1500, 2)
    assert summary["refused"] == wrong
    places = ["line 1002", "line 1503", "line 1504"] if kind == "lines" else ["report 1501", "report 1502"]
    assert [row["where"] for row in summary["first"]] == places
    assert answer(run("ingest", file, *options)) == summary
    assert stored(url) == 1500


def test_a_store_takes_reports_beside_its_running_collector(
    run: Run, url: str, tmp_path: Path, collector: Service
) -> None:
    """Each has what the other took: a report that both were given counts once, before and after the seal."""
    reports, key = make_reports(PLAN, NOW, 40), (tmp_path / "ingest").read_text().strip()
    (tmp_path / "reports").write_bytes(to_ndjson(reports[:30]))
    assert collector.post(to_ndjson(reports[:10]), "application/x-ndjson", key).json["accepted"] == 10
    summary = answer(run("ingest", tmp_path / "reports", "--store", url, "--json"))
    assert summary["accepted"] == 30
    assert collector.post(to_ndjson(reports), "application/x-ndjson", key).json["accepted"] == 40
    assert stored(url) == 40
    store = open_store(url)
    assert store.seal(RoundKey(PLAN.name, 1, NOW))
    store.close()
    assert stored(url) == 40


def test_what_a_collector_does_not_take_is_said_in_a_line(
    run: Run, tmp_path: Path, collector: Service
) -> None:
    (tmp_path / "reports").write_bytes(to_ndjson(make_reports(PLAN, NOW, 3)))
    (tmp_path / "unknown").write_text("reticent_ingest_unknown")
    address = f"http://127.0.0.1:{collector.port}"
    for options, word in (
        ((), "a key is required"),
        (("--key-file", tmp_path / "unknown"), "the key is unknown or revoked"),
        (("--key-file", tmp_path / "reader"), "its role is reader, expected ingest"),
    ):
        refused = run("ingest", tmp_path / "reports", "--url", address, *options)
        assert refused.exit_code == 1
        assert refused.stdout == "0 accepted, 0 late, 0 refused.\n"
        assert word in refused.stderr
        assert "Traceback" not in refused.stderr
    lost = run("ingest", tmp_path / "reports", "--url", "http://127.0.0.1:1", "--retry-for", "0.3")
    assert (lost.exit_code, "cannot connect" in lost.stderr) == (1, True)
    assert os.environ.get("RETICENT_STORE") is None
