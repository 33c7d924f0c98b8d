"""A forked child shares neither connection nor lock nor thread with its parent."""

from __future__ import annotations

from collections.abc import Callable

Run = Callable[..., str]


def test_parent_and_child_use_one_state(run: Run) -> None:
    script = """
    d = device(Path("state"))
    d.add("metric_1", 1)
    child = os.fork()
    d.add("metric_1", 10 if child else 100)
    if child == 0:
        d.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    d.add("metric_1", 500)
    assert d._recorded(HERE) == {"metric_1": 611}, d._recorded(HERE)
    report = d.report(HERE)
    if os.fork() == 0:
        os._exit(0 if d.report(HERE) == report else 1)
    assert os.wait()[1] == 0
    assert d.status().notes == {}
    """
    run(script)


def test_a_child_that_exits_normally_leaves_the_parents_file_alone(run: Run) -> None:
    """Interpreter shutdown closes what it finds; it must find nothing of the parent's."""
    script = """
    d = device(Path("state"))
    d.add("metric_1", 1)
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    for _ in range(50):
        d.add("metric_1", 1)
    assert d._recorded(HERE) == {"metric_1": 51}
    assert d.status().notes == {}
    """
    run(script)


def test_a_fork_while_other_threads_write(run: Run) -> None:
    """The lock may be held by a thread that does not exist in the child."""
    script = """
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)     # forking with threads is the point
    d = device(Path("state"))
    stop = threading.Event()
    def work():
        while not stop.is_set():
            d.add("metric_1", 1)
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads: thread.start()
    for _ in range(8):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            d.add("metric_3", 1)
            d.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    for thread in threads: thread.join()
    assert d._recorded(HERE)["metric_3"] == 8, d._recorded(HERE)
    assert not list(Path(".").glob("*quarantined*"))
    """
    run(script)


def test_a_child_starts_its_own_thread(run: Run) -> None:
    script = """
    import time, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    with device(Path("state"), transport=RecordingTransport()) as d:
        assert sum(thread.name == "reticent" for thread in threading.enumerate()) == 1
        if os.fork() == 0:
            assert not any(thread.name == "reticent" for thread in threading.enumerate())
            d.add("metric_1", 1)
            signal.alarm(20)
            while sum(thread.name == "reticent" for thread in threading.enumerate()) != 1:
                time.sleep(0.01)
            os._exit(0)
        assert os.wait()[1] == 0
    assert not any(thread.name == "reticent" for thread in threading.enumerate())
    """
    run(script)


def test_multiprocessing_by_fork(run: Run) -> None:
    script = """
    import multiprocessing
    d = device(Path("state"))
    def work(amount):
        d.add("metric_1", amount)
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=work, args=(n,)) for n in (1, 2, 3)]
    for child in children: child.start()
    for child in children: child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert d._recorded(HERE) == {"metric_1": 6}
    """
    run(script)


def test_values_that_could_not_be_written_before_a_fork_are_the_parents(run: Run) -> None:
    script = """
    import subprocess
    d = device(Path("state"))
    hold = "import sqlite3; c = sqlite3.connect('state', isolation_level=None); c.execute('BEGIN IMMEDIATE')"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold + "; print(flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )
    holder.stdout.readline()
    d.add("metric_1", 5)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.read(reading, 1)             # until the file is free
        d.add("metric_1", 100)
        os._exit(0 if d.close() else 1)
    holder.kill(), holder.wait(), holder.stdin.close(), holder.stdout.close()
    os.write(writing, b"x")
    assert os.wait()[1] == 0
    assert d._recorded(HERE) == {"metric_1": 105}, d._recorded(HERE)
    """
    run(script)


def test_a_child_inherits_no_open_state_file(run: Run) -> None:
    """SQLite's rule: a connection must not be carried across a fork, not even to be closed."""
    script = """
    def held():
        names = (os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd"))
        return [name for name in names if "/state" in name]
    if not os.path.isdir("/proc/self/fd"):
        sys.exit(0)
    d = device(Path("state").absolute())
    d.add("metric_1", 1)
    assert held()
    if os.fork() == 0:
        os._exit(len(held()))
    assert os.wait()[1] == 0
    """
    run(script)


def test_a_device_that_another_thread_opens_during_a_fork(run: Run) -> None:
    """It is opened at every line that looks for devices to bring to rest: the others come to rest all the same."""
    script = """
    if not os.path.isdir("/proc/self/fd"):
        sys.exit(0)
    devices = [device(Path(f"state-{number}")) for number in range(3)]
    for d in devices: d.add("metric_1", 1)
    late = []
    def trace(frame, event, argument):
        if len(late) < 20 and os.path.basename(frame.f_code.co_filename) in ("_weakrefset.py", "weakref.py"):
            late.append(device(Path(f"late-{len(late)}")))
            late[-1].add("metric_1", 1)
        return trace
    sys.unraisablehook = lambda raised: os._exit(7)
    sys.settrace(trace)
    child = os.fork()
    sys.settrace(None)
    if child == 0:
        os._exit(any(os.path.realpath(f"/proc/self/fd/{name}").endswith(tuple("state-%d" % n for n in range(3)))
                     for name in os.listdir("/proc/self/fd")))
    assert late
    assert os.waitpid(child, 0)[1] == 0
    """
    run(script)


def test_a_fork_behind_pythons_back(run: Run) -> None:
    """
    A library in C forks without Python's hooks: the child notices by its process id when it uses the file.

    It cannot tell what it recorded before that from what its parent had in memory, and drops both: once each.
    """
    script = """
    import ctypes
    d = device(Path("state"))
    d.add("metric_1", 1)
    inherited = d._session.file._connection
    child = ctypes.PyDLL(None).fork()
    d.add("metric_1", 10 if child else 1000)
    if child == 0:
        d.save()
        d.add("metric_1", 100)
        d.save()
        own = d._session.file._connection is not inherited
        inherited.in_transaction        # raises if it was closed
        os._exit(0 if own and not d.status().notes else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert d._recorded(HERE) == {"metric_1": 111}, d._recorded(HERE)
    """
    run(script)
