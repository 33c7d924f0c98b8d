"""
`add`, `set`, `max` and `choose` touch memory only: from signal handlers, finalizers and threads, and totals stay exact.

Values reach the file within a second, before a round is answered, at a fork, at `close` and at the end.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.shared.devices import HERE, InFile, Make
from tests.shared.processes import run_script
from tests.shared.state_files import what_is_in

from reticent.device import Device, Policy, StateFile
from reticent.device.process import Hosted
from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Metric, Plan
from reticent.testing import ManualClock, sandbox

PRELUDE = """
import gc, os, signal, sys, threading, time
from pathlib import Path
from reticent.device import Device, Policy, pending
from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Metric, Plan
from reticent.testing import ManualClock

HERE = 80_000
TOP = 10**12
PLAN = Plan("app-usage", 1, 21_600, 21_600, tuple(Metric(f"m{n}", OneBitMean(1, TOP), Flip(0.2)) for n in range(4)))
SECONDS = float(sys.argv[1])

def device(path="state"):
    clock = ManualClock(HERE * 21_600 + 60.0)
    return Device(PLAN, path, consent="granted", clock=clock, policy=Policy.unlimited())

pending.FOLD_AT = 2                 # values are merged at nearly every call: in the middle of it, then
signal.alarm(int(SECONDS) + 40)     # a deadlock ends the program
until = time.monotonic() + SECONDS
"""

Run = Callable[[str], str]
LENGTHS = [
    pytest.param(0.5, id="half a second"),
    pytest.param(600.0, id="ten minutes", marks=pytest.mark.soak),
]


@pytest.fixture(params=LENGTHS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a script in a process of its own, for so long."""
    seconds = request.param

    def start(script: str) -> str:
        return run_script(tmp_path, PRELUDE, script, seconds, timeout=seconds + 60).stdout

    return start


# In the middle of anything


@pytest.mark.timeout(700)
def test_a_signal_handler_in_the_middle_of_any_call(run: Run) -> None:
    """Every 2 ms, in `add`, while values are merged, and while the file is written or a report made."""
    run(
        """
        d, handled, added = device(), 0, 0
        def handler(*_):
            global handled
            handled += 1
            d.add("m1")
            d.set("m2", handled)
            d.add("no such metric")
        signal.signal(signal.SIGVTALRM, handler)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.002, 0.002)
        while time.monotonic() < until or handled < 50:
            for _ in range(1000):
                d.add("m0")
                added += 1
            d.save()
            d.status()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        assert d._recorded(HERE) == {"m0": added, "m1": handled, "m2": handled}, (d._recorded(HERE), added, handled)
        assert d.status().notes["unknown-metric: no?such?metric"] == handled
        """
    )


@pytest.mark.timeout(700)
def test_a_signal_handler_that_reports_and_flushes(run: Run) -> None:
    """Whatever it interrupts, it is refused or served, and never waits for itself."""
    run(
        """
        d = device()
        d.status(), d.report(HERE - 2)      # what these load cannot be loaded in the middle of loading it
        def handler(*_):
            global handled
            handled += 1
            d.report(HERE - 1)
            d.status()
            d.flush(timeout=0)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.005)      # again, but not within itself without end
        signal.signal(signal.SIGVTALRM, handler)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.005)
        added = handled = 0
        while time.monotonic() < until or handled < 8:
            d.add("m0")
            added += 1
            if not added % 5000:
                d.save()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        assert d._recorded(HERE) == {"m0": added}, (d._recorded(HERE), added)
        """
    )


@pytest.mark.timeout(700)
def test_a_finalizer_in_the_middle_of_any_call(run: Run) -> None:
    run(
        """
        d, finalized, added = device(), 0, 0
        class Thing:
            def __init__(self):
                self.me = self          # only the garbage collector can end it, wherever it runs
            def __del__(self):
                global finalized
                finalized += 1
                d.add("m1")
                d.add("m2", "not a number")
        gc.set_threshold(50, 2, 2)
        while time.monotonic() < until or not added:
            for _ in range(500):
                Thing()
                d.add("m0")
                added += 1
            d.save()
        gc.collect()
        assert finalized == added
        assert d._recorded(HERE) == {"m0": added, "m1": added, "m2": 0}, (d._recorded(HERE), added)
        notes = d.status().notes
        assert notes["not-a-number"] == added, (notes, added)
        assert set(notes) <= {"not-a-number", "state-busy"}, notes
        """
    )


@pytest.mark.timeout(700)
def test_eight_threads_two_children_and_a_coroutine(run: Run) -> None:
    """At full speed, with forks in between: nothing is lost, nothing counted twice, nothing waits for ever."""
    run(
        """
        import asyncio, multiprocessing, warnings
        warnings.simplefilter("ignore", DeprecationWarning)     # forking with threads is the point
        d, counts = device(), [0] * 9
        def work(place):
            while time.monotonic() < until or not counts[place]:
                for _ in range(100):
                    d.add("m0")
                    counts[place] += 1
        async def tick():
            while time.monotonic() < until or not counts[8]:
                d.add("m1")
                counts[8] += 1
                await asyncio.sleep(0)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        threads.append(threading.Thread(target=lambda: asyncio.run(tick())))
        for thread in threads: thread.start()
        def child():
            for _ in range(1000):
                d.add("m2")
        forks, context = 0, multiprocessing.get_context("fork")
        while time.monotonic() < until or forks < 2:
            process = context.Process(target=child)
            process.start()
            process.join()
            assert process.exitcode == 0
            forks += 1
        for thread in threads: thread.join()
        expected = {"m0": sum(counts[:8]), "m1": counts[8], "m2": 1000 * forks}
        assert d._recorded(HERE) == expected, (d._recorded(HERE), expected)
        assert set(d.status().notes) <= {"state-busy"}, d.status().notes
        """
    )


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["add", "set", "max"]),
        st.sampled_from([0, 1, 2, 5, 7, 10, 12, 0.5, -1]),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(calls=CALLS)
def test_a_total_is_what_the_calls_come_to_one_after_the_other_whenever_it_is_written(
    calls: list[tuple[str, float, bool]],
) -> None:
    expected = Fraction(0)
    plan = Plan("app", 1, 3600, 3600, (Metric("saves", OneBitMean(1, 10), Flip(0.2)),))
    with sandbox(plan, policy=Policy.unlimited()) as box:
        for verb, number, writes in calls:
            getattr(box.device, verb)("saves", number)
            value = Fraction(min(10, max(0, number)))
            expected = {
                "add": min(Fraction(10), expected + value),
                "set": value,
                "max": max(expected, value),
            }[verb]
            if writes:
                box.device.save()
        assert box.values() == ({"saves": expected} if calls else {})


def test_the_largest_value_of_several_devices_on_one_file_counts() -> None:
    with sandbox(Plan("app", 1, 3600, 3600, (Metric("saves", OneBitMean(1, 10), Flip(0.2)),))) as box:
        with Device(
            box.plan, box.state, consent="granted", clock=box.clock, policy=Policy.unlimited()
        ) as other:
            box.device.max("saves", 3)
            other.max("saves", 8)
            assert box.device.save()
            assert other.save()
            box.device.max("saves", 5)
        assert box.values() == {"saves": 8}


def test_memory_stays_bounded_while_nothing_can_be_written(device_of: Make, state: Path) -> None:
    """One change per round and metric, however many calls: the file is locked all the time."""
    device = device_of()
    with closing(sqlite3.connect(state, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(20_000):
            device.add("opened_files", Fraction(1, 1000))
        assert device._session is not None
        assert len(device._session._pending) < 2_000
        other.execute("ROLLBACK")
    assert device._recorded(HERE) == {"opened_files": 20}


# When values reach the file


def total(state: Path) -> list[str]:
    return [*what_is_in(state).totals.values()]


def test_values_reach_the_file_by_themselves(device_of: Make, state: Path) -> None:
    """Within a second; a busy machine may be late."""
    device = device_of()
    for expected in ("5", "12"):
        device.add("editor_seconds", 5 if expected == "5" else 7)
        assert total(state) != [expected], "in memory only"
        deadline = time.monotonic() + 30
        while total(state) != [expected] and time.monotonic() < deadline:
            time.sleep(0.02)
        assert total(state) == [expected]


def test_recording_opens_no_transaction(device_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    device = device_of()

    def refuse(*_: object, **__: object) -> object:
        raise AssertionError("the file is used")

    with monkeypatch.context() as patch:
        patch.setattr(StateFile, "_hold", refuse)
        for _ in range(3000):
            device.add("editor_seconds")
            device.set("opened_files", 3)
            device.add("editor_seconds", "nothing")
    assert device._recorded(HERE) == {"editor_seconds": 3000, "opened_files": 3}
    assert device.status().notes == {"not-a-number": 3000}


ENDS = {
    "exit": "",
    "sys.exit": "sys.exit(0)",
    "an exception": "sys.excepthook = lambda *_: None; raise SystemExit",
    "close": "d.close(); os._exit(0)",
    "a fork": "os.fork() or os._exit(0); os.wait(); os._exit(0)",
    "multiprocessing": """
import multiprocessing
def child():
    d.add("m0", 10)
p = multiprocessing.get_context("fork").Process(target=child); p.start(); p.join()
os._exit(p.exitcode)""",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_program_that_ends_has_written_its_values(tmp_path: Path, end: str) -> None:
    script = "d = device()\nd.add('m0', 7)\n" + ENDS[end]
    run_script(tmp_path, PRELUDE, script, 1.0)
    assert total(tmp_path / "state") == ["17" if end == "multiprocessing" else "7"]


def test_a_kill_loses_what_was_not_written_and_nothing_else(tmp_path: Path) -> None:
    script = """
    d = device()
    d.add("m0", 7)
    report = d.report(HERE - 1)
    d.add("m0", 100)
    if os.fork() == 0:
        d.add("m0", 5000)
        os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
    assert d.report(HERE - 1) == report
    os.kill(os.getpid(), signal.SIGTERM)
    """
    with pytest.raises(AssertionError):
        run_script(tmp_path, PRELUDE, script, 1.0)  # it is killed
    assert total(tmp_path / "state") == ["107"], "written at the fork; the child's are gone"


# Writes that fail


def test_a_write_that_fails_loses_nothing_and_newer_values_win(device_of: Make) -> None:
    """At each step of the write: what waits is applied in the order of its calls, once."""
    failures = 0
    for place in range(1, 200):
        device = device_of()
        device.set("editor_seconds", 1000)
        device.save()
        device.set("editor_seconds", 10)
        device.add("opened_files", 1, round=HERE - 1)
        left = [place]

        def step(left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] == 0

        assert device._session is not None
        connection = device._session.file._connection
        assert connection is not None
        connection.set_progress_handler(step, 10)
        failures += not device.save()
        connection.set_progress_handler(None, 10)
        device.set("editor_seconds", 20)
        device.add("editor_seconds", 3)
        assert device._recorded(HERE) == {"editor_seconds": 23}
        assert device._recorded(HERE - 1) == {"opened_files": min(place, 64)}
        device.close()
        if left[0] > 0:
            break
    assert failures >= 5, "the write has steps to fail at"
    assert left[0] > 0, "and all of them were tried"


def test_a_file_locked_at_close_is_said_and_the_values_are_written_later(
    device_of: Make, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent.device.device.LONGEST_CLOSE", 0.1)
    device = device_of()
    device.add("editor_seconds", 5)
    with closing(sqlite3.connect(state, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert device.close() is False
        assert "could not write" in device.status().problem
        other.execute("ROLLBACK")
    deadline = time.monotonic() + 30
    while not total(state) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert total(state) == ["5"]
    assert device.close() is True


def test_the_end_of_a_program_waits_while_others_write(
    device_of: Make, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is never free when it tries, and changes in between: there is a queue, and its turn comes."""
    monkeypatch.setattr("reticent.device.process.WRITE_AFTER", 3600.0)  # no thread takes part
    monkeypatch.setattr("reticent.device.process.LONGEST_CLOSE", 0.01)
    device = device_of()
    device.add("editor_seconds", 5)
    stamp, looks = StateFile.stamp, []

    def others_write(file: StateFile) -> tuple[int, ...]:
        looks.append(file)
        if len(looks) % 2 == 0:  # after a try: somebody else's turn is over, and the next one's begins
            other.execute("UPDATE device SET only = 1")
            other.execute("COMMIT")
            if len(looks) < 20:
                other.execute("BEGIN IMMEDIATE")
        return stamp(file)

    monkeypatch.setattr(StateFile, "stamp", others_write)
    with closing(sqlite3.connect(state, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        device.before_exit()
        assert total(state) == ["5"]


@pytest.mark.parametrize("progress", [False, True])
def test_the_end_of_a_program_does_not_wait_for_ever(
    progress: bool, device_of: Make, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that does not change is waited for once; one that changes, until the time is up."""
    monkeypatch.setattr("reticent.device.process.WRITE_AFTER", 3600.0)
    monkeypatch.setattr("reticent.device.process.LONGEST_CLOSE", 0.01)
    monkeypatch.setattr("reticent.device.process.LONGEST_EXIT", 0.5)
    device, looks = device_of(), [0]
    device.add("editor_seconds", 5)
    stamp = StateFile.stamp

    def look(file: StateFile) -> tuple[int, ...]:
        looks[0] += 1
        return (*stamp(file), looks[0] * progress)

    monkeypatch.setattr(StateFile, "stamp", look)
    with closing(sqlite3.connect(state, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        device.before_exit()
        assert (looks[0] > 2) is progress
        assert total(state) == []
        other.execute("ROLLBACK")
    device.before_exit()
    assert total(state) == ["5"]


def test_values_that_keep_coming_do_not_hold_up_the_end(
    device_of: Make, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent.device.process.WRITE_AFTER", 3600.0)
    device = device_of()
    assert device._session is not None
    write, writes = type(device._session).write_pending, [0]

    def and_one_more(engine: object, patience: float) -> None:
        write(engine, patience)  # type: ignore[arg-type]
        writes[0] += 1
        device.add("editor_seconds", 1)

    device.add("editor_seconds", 5)
    monkeypatch.setattr(type(device._session), "write_pending", and_one_more)
    device.before_exit()
    assert writes == [1]
    assert total(state) == ["5"]


def test_flush_is_as_patient_with_a_busy_file_as_an_answer_is(
    device_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, transaction = device_of(), StateFile.transaction
    waits = []

    def noted(file: StateFile, **options: float) -> object:
        waits.append(options["patience"])
        return transaction(file, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(StateFile, "transaction", noted)
    device.add("editor_seconds", 5)
    device.flush()
    assert waits
    assert min(waits) >= 2.0


def test_threads_that_write_at_once(device_of: Make, plan: Plan, state: Path, clock: ManualClock) -> None:
    """Two devices on one file, four threads each: every value is counted once."""
    devices = [device_of(), device_of()]

    def work(device: Device) -> None:
        for _ in range(50):
            device.add("editor_seconds", 1)
            device.save(timeout=20)

    threads = [threading.Thread(target=work, args=(devices[n % 2],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [device.save(timeout=20) for device in devices] == [True, True]
    assert devices[0]._recorded(HERE) == {"editor_seconds": 400}


def test_names_that_the_plan_does_not_have_are_noted_by_name(device_of: Make, in_file: InFile) -> None:
    device = device_of(segment={"os": "linux", "flavour": "sweet"})
    device.add("editor_secs")
    device.set("a name\nwith everything" + "x" * 100, 1)
    device.save()
    notes = device.status().notes
    assert notes["unknown-metric: editor_secs"] == 1
    assert notes["unknown-segment: flavour"] == 1
    assert max(map(len, notes)) < 90
    for number in range(100):
        device.add(f"name-{number}")
    assert len(device.status().notes) < 20, "names of any number are bounded"


def test_what_went_wrong_is_kept_where_no_value_is(device_of: Make, in_file: InFile) -> None:
    device = device_of()
    device.add("editor_secs")
    assert device.close()
    assert in_file().notes == {"unknown-metric: editor_secs": 1}


def test_a_value_that_comes_as_the_writer_ends_is_written(
    device_of: Make, in_file: InFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer's thread has looked for the last time, and the call has found it running."""
    plain, late = Hosted._write_soon, []

    def write_soon(device: Hosted) -> bool:
        done = plain(device)
        if done and not late:
            late.append(1)
            device.add("opened_files", 2)  # type: ignore[attr-defined]
        return done

    monkeypatch.setattr(Hosted, "_write_soon", write_soon)
    device = device_of()
    device.add("opened_files", 1)
    deadline = time.monotonic() + 10
    while in_file().totals.get((HERE, "opened_files")) != "3" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert in_file().totals == {(HERE, "opened_files"): "3"}
