"""After a crash at any point a device sends the same bytes, or none: never others."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

Run = Callable[..., str]

KILL = '''
import shutil, sqlite3
from reticent.device import SecretDraws, StateFile, answer
from reticent.device.schema import load

def killing(after, instructions):
    """Every connection kills this process at its n-th step: a statement, or some instructions of one."""
    plain, left = StateFile.connect, [after]
    def step(*_):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0
    def connect(path, patience):
        connection = plain(path, patience)
        if instructions:
            connection.set_progress_handler(step, instructions)
        else:
            connection.set_trace_callback(step)
        return connection
    StateFile.connect = staticmethod(connect)

def fork_and(work):
    """Run in a child; returns what it wrote before it ended, and whether it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, work() or b"")
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    return content, os.WIFSIGNALED(status)
'''

ANSWERING = """
base, state = Path("base"), Path("state")
with device(base) as d:
    for n in range(6):
        d.add(f"metric_{n}", 100 * n)
connection = sqlite3.connect(base)
secret = load(connection).secret
connection.close()
values = {f"metric_{n}": 100 * n for n in range(6)}
law = to_json(answer(SecretDraws(secret, "app-usage", 0), PLAN, HERE, values).report)

instructions, start, stride = map(int, sys.argv[1:])
killed = finished = after = 0
after = start
while not finished:
    for leftover in Path(".").glob("state*"):
        leftover.unlink()
    shutil.copy(base, state)
    def work():
        killing(after, instructions)
        return to_json(device(state).report(HERE))
    told, was_killed = fork_and(work)
    assert told in (b"", law)
    assert bool(told) != was_killed
    with device(state) as again:
        if again.status().waiting:
            again.add("metric_1", 900)      # too late: the round was answered before the crash
        assert to_json(again.report(HERE)) == law
        assert again.status().epoch == 0
    assert not list(Path(".").glob("*quarantined*"))
    killed += was_killed
    finished += not was_killed
    after += stride
print(killed)
"""


def test_killed_at_every_statement_of_answering(run: Run) -> None:
    killed = int(run(KILL + ANSWERING, 0, 0, 1))
    assert killed > 20


def test_killed_within_the_statements_of_answering(run: Run) -> None:
    """Every 5 instructions of SQLite's machine is a step; every 7th of them is a place to die."""
    killed = int(run(KILL + ANSWERING, 5, 3, 7))
    assert killed > 15


def test_killed_while_a_state_file_is_made(run: Run) -> None:
    """A file is there whole or not at all; a device that was never there has lost nothing."""
    script = """
    state = Path("state")
    killed = finished = step = 0
    while not finished:
        for leftover in Path(".").glob("state*"):
            leftover.unlink()
        def work():
            plain, left = sqlite3.connect, [step]
            def kill(*_):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            def connect(*arguments, **options):
                connection = plain(*arguments, **options)
                connection.set_trace_callback(kill)
                return connection
            sqlite3.connect = connect
            device(state)
            return b"made"
        told, was_killed = fork_and(work)
        with device(state) as again:
            assert again.report(HERE) is not None
            assert again.status().epoch == 0
        assert not list(Path(".").glob("*quarantined*")) and not list(Path(".").glob("*.new*"))
        killed, finished, step = killed + was_killed, not was_killed, step + 1
    print(killed)
    """
    assert int(run(KILL + textwrap.dedent(script))) > 15


def test_a_report_is_synced_before_it_is_handed_out(run: Run) -> None:
    """
    What a power cut leaves is what was synced. With synchronous = FULL, SQLite syncs the log before COMMIT
    returns; so the statements of a report must be committed together, under FULL.
    """
    script = """
    from reticent.device import StateFile
    seen, plain = [], StateFile.connect
    def connect(path, patience):
        connection = plain(path, patience)
        connection.set_trace_callback(seen.append)
        return connection
    StateFile.connect = staticmethod(connect)
    d = device(Path("state"))
    d.add("metric_1", 5)
    d.save()
    seen.clear()
    d.report(HERE)
    words = [" ".join(statement.split()[:4]) for statement in seen]
    full, begin = words.index("PRAGMA synchronous = FULL"), words.index("BEGIN IMMEDIATE")
    put = next(i for i, word in enumerate(words) if word.startswith("INSERT INTO reports"))
    erase = next(i for i, word in enumerate(words) if word.startswith("DELETE FROM totals"))
    enter = next(i for i, word in enumerate(words) if word.startswith("INSERT INTO ledger"))
    commit = words.index("COMMIT")
    assert full < begin < min(put, erase, enter) <= max(put, erase, enter) < commit, words
    assert words.count("COMMIT") == 1
    assert not any(word.startswith("PRAGMA synchronous") for word in words[full + 1 : commit])
    """
    run(script)


def test_a_claim_is_synced_before_a_byte_leaves(run: Run) -> None:
    """After a power cut the receipt lists what may have been sent, and a no keeps the secret that it came from."""
    script = """
    from reticent.device import Accepted, StateFile
    seen, plain = [], StateFile.connect
    def connect(path, patience):
        connection = plain(path, patience)
        connection.set_trace_callback(seen.append)
        return connection
    StateFile.connect = staticmethod(connect)
    class Watched:
        def send(self, body, timeout):
            words.extend(" ".join(statement.split()[:4]) for statement in seen)
            return Accepted()
    words, clock = [], ManualClock(HERE * 21_600 + 10.0)
    options = {"consent": "granted", "clock": clock, "policy": Policy.unlimited()}
    with Device(PLAN, Path("state"), **options) as d:
        clock.advance(2 * 21_600)
        d.flush()
    with Device(PLAN, Path("state"), transport=Watched(), **options) as d:
        seen.clear()
        assert d.flush() == 1
    put = max(i for i, word in enumerate(words) if word.startswith("INSERT INTO reports"))
    begin = max(i for i, word in enumerate(words[:put]) if word == "BEGIN IMMEDIATE")
    mode = [word for word in words[:begin] if word.startswith("PRAGMA synchronous")][-1]
    assert mode == "PRAGMA synchronous = FULL", words
    assert "COMMIT" in words[put:]
    """
    run(script)


def test_two_processes_and_many_threads_give_one_answer(run: Run) -> None:
    script = """
    state = Path("state")
    device(state).close()
    children = []
    for child in range(4):
        reading, writing = os.pipe()
        if os.fork() == 0:
            d = device(state)
            d.add("metric_1", child)
            results = []
            def ask():
                results.append(to_json(d.report(HERE)))
            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert len(set(results)) == 1 and len(results) == 4
            os.write(writing, results[0])
            os._exit(0)
        os.close(writing)
        children.append(reading)
    answers = {os.fdopen(reading, "rb").read() for reading in children}
    for _ in children:
        assert os.wait()[1] == 0
    assert len(answers) == 1, answers
    with device(state) as d:
        assert {to_json(d.report(HERE))} == answers
        assert len(d.receipt().reports) == 1
    """
    run(script)


def test_no_value_is_lost_between_processes_and_threads(run: Run) -> None:
    script = """
    state = Path("state")
    device(state).close()
    for child in range(3):
        if os.fork() == 0:
            with device(state) as d:
                def work():
                    for _ in range(40):
                        d.add("metric_1", 1)
                threads = [threading.Thread(target=work) for _ in range(3)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
            os._exit(0)
    for _ in range(3):
        assert os.wait()[1] == 0
    with device(state) as d:
        assert d._recorded(HERE) == {"metric_1": 360}, d._recorded(HERE)
    """
    run(script)


def test_many_processes_make_one_state(run: Run) -> None:
    """All start at once on a file that is not there: one secret comes out."""
    script = """
    go_reading, go_writing = os.pipe()
    pipes = []
    for child in range(6):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(go_writing)
            os.read(go_reading, 1)
            with device(Path("state")) as d:
                os.write(writing, d.report(HERE).id)
            os._exit(0)
        os.close(writing)
        pipes.append(reading)
    os.close(go_writing)
    ids = {os.fdopen(reading, "rb").read() for reading in pipes}
    for _ in pipes:
        assert os.wait()[1] == 0
    assert len(ids) == 1 and len(ids.pop()) == 16
    """
    run(script)
