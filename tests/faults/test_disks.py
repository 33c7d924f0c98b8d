"""Disks that fill up, files that are locked for long, and a year of use."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

Run = Callable[..., str]


def test_a_full_disk_is_noted_and_nothing_is_lost(run: Run) -> None:
    """No file may grow (RLIMIT_FSIZE): writes fail as on a full disk, then space is there again."""
    script = """
    import resource
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    state = Path("state")
    d = device(state)
    d.add("metric_1", 1)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    d.add("metric_1", 10)
    d.add("metric_3", 7)
    assert d.report(HERE) is None
    assert not d.pause()
    assert d.flush() == 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    d.add("metric_1", 100)
    assert d._recorded(HERE) == {"metric_1": 111, "metric_3": 7}, d._recorded(HERE)
    assert d.report(HERE) is not None
    assert set(d.status().notes) <= {"state-full", "state-broken"} and d.status().notes
    assert d.status().epoch == 0
    """
    run(script)


def test_a_full_disk_at_construction_says_so(run: Run) -> None:
    script = """
    import resource
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    silent = device(Path("state"))
    assert "cannot be created" in silent.status().problem, silent.status().problem
    assert silent.report(HERE) is None
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert device(Path("state")).report(HERE) is not None
    """
    run(script)


def test_a_locked_file_does_not_hold_up_the_host(run: Run) -> None:
    script = """
    import sqlite3, time
    d = device(Path("state"))
    other = sqlite3.connect("state", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    start = time.monotonic()
    d.add("metric_1", 5)
    assert time.monotonic() - start < 0.2
    d.save()
    assert time.monotonic() - start < 2
    other.execute("ROLLBACK")
    other.close()
    d.add("metric_1", 6)
    assert d._recorded(HERE) == {"metric_1": 11}
    assert d.status().notes["state-busy"] >= 1
    """
    run(script)


def test_values_set_while_locked_keep_their_order(run: Run) -> None:
    script = """
    import sqlite3
    d = device(Path("state"))
    d.add("metric_1", 900)
    other = sqlite3.connect("state", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    d.add("metric_1", 1)
    d.set("metric_1", 5)
    d.add("metric_1", 2)
    other.execute("ROLLBACK")
    other.close()
    assert d._recorded(HERE) == {"metric_1": 7}
    """
    run(script)


def test_read_only_places_say_so(run: Run) -> None:
    """As root, nothing is read-only: the script gives up its rights first."""
    script = """
    import shutil, sqlite3, tempfile
    import reticent.device.session, reticent.device.receipt

    folder = Path(tempfile.mkdtemp())
    for _ in range(2):  # loads all that is needed: another user may not read it
        first = device(folder / "state")
        first.status()
        first.close()
    user = os.geteuid() or 65534
    for place in [folder, *folder.iterdir()]:
        os.chown(place, user, -1)
    child = os.fork()
    if child == 0:
        os.setuid(user)
        def refused():
            return device(folder / "state").status().problem
        os.chmod(folder / "state", 0o400)
        assert "read and write permission" in refused(), refused()
        os.chmod(folder / "state", 0o600)
        os.chmod(folder, 0o500)
        assert "write permission" in refused(), refused()
        os.chmod(folder, 0o700)
        assert refused() == "", refused()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    shutil.rmtree(folder)
    assert status == 0
    """
    run(script)


def test_a_reader_in_another_process_delays_the_wiping_and_not_the_answer(run: Run) -> None:
    script = """
    import sqlite3
    from fractions import Fraction
    d = device(Path("state"))
    d.add("metric_1", Fraction(123456789, 1000003))
    d.save()
    reader = sqlite3.connect("state", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM totals").fetchall()
    assert d.report(HERE) is not None
    files = [Path("state"), Path("state-wal")]
    assert any(b"123456789/1000003" in file.read_bytes() for file in files)
    reader.close()
    d.add("metric_1", 1)
    d.save()
    assert not any(b"123456789/1000003" in file.read_bytes() for file in files)
    """
    run(script)


YEAR = """
import json
rounds = int(sys.argv[1])
plan = Plan("app-usage", 1, 21_600, 21_600, tuple(
    Metric(f"metric_number_{n}", OneBitMean(1, 1000, step=250), Flip(0.2)) for n in range(50)
))
clock = ManualClock(HERE * 21_600 + 60.0)
transport = RecordingTransport()
largest = 0

def size():
    # The database and its log; the index of the log (-shm) lives in memory.
    return sum(file.stat().st_size for file in Path(".").iterdir() if not file.name.endswith("-shm"))

d = Device(plan, Path("state"), consent="granted", clock=clock, transport=transport, policy=Policy.unlimited())
for number in range(rounds):
    for n in range(number % 7, 50, 7):
        d.add(f"metric_number_{n}", (number * 37 + n * 11) % 1000 + 0.25)
    largest = max(largest, size())
    clock.advance(21_600)
    d.flush(timeout=30)
largest = max(largest, size())
print(json.dumps({"bytes": largest, "accepted": d.status().accepted, "notes": d.status().notes}))
"""


@pytest.mark.parametrize(
    "rounds", [120, pytest.param(1460, marks=pytest.mark.soak)], ids=["a month", "a year"]
)
def test_the_file_stays_small(run: Run, rounds: int) -> None:
    """Fifty metrics, a report every six hours, every receipt kept: at most 512 kB a year, with the log."""
    result = json.loads(run(YEAR, rounds, timeout=280))
    assert result["accepted"] == rounds - 1
    assert result["notes"] == {}
    fixed = 300_000
    assert result["bytes"] <= fixed + (512_000 - fixed) * rounds / 1460
