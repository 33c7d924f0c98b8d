"""Several processes that share a port: they are started again, counted together, and end with their supervisor."""

from __future__ import annotations

import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from collector.tests.http.test_restarts import der, presented
from tests.shared.clients import MANY, at_work, check_all_counted
from tests.shared.collectors import Service, make_certificate, make_keys, make_reports, usage

from reticent_collector.cli.root import reticent as command
from reticent_collector.http import Supervisor, Worker

LINUX = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks /proc about another process")
pytestmark = LINUX


def workers_of(service: Service) -> list[int]:
    assert service.process is not None
    number = service.process.pid
    return [int(child) for child in Path(f"/proc/{number}/task/{number}/children").read_text().split()]


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Three workers on a lake, with keys."""
    folder = tmp_path_factory.mktemp("workers")
    made = Service(folder, usage(), store=f"lake:///{folder / 'lake'}")
    made.keys = make_keys(made.store, "ingest", "reader")  # type: ignore[attr-defined]
    made.start("--workers", "3")
    yield made
    assert made.stop() == 0
    assert "Traceback" not in made.log


# One of them dies


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("sqlite", 3),
        *(pytest.param(kind, *MANY.values, marks=MANY.marks) for kind in ("sqlite", "lake", "postgresql")),
    ],
)
def test_killed_workers_lose_nothing_and_are_started_again(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, kills: int
) -> None:
    url = f"{kind}:///{tmp_path / 'store'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres").new_database()
    service, draw = (
        Service(tmp_path, usage(), store=url).start("--clock-skew", "0", "--workers", "2"),
        random.Random(1),
    )
    try:
        with at_work([service]) as clients:
            for turn in range(kills):
                answers = sum(len(client.times) for client in clients)
                until(lambda answers=answers: sum(len(client.times) for client in clients) > answers + 8)
                time.sleep(draw.uniform(0, 0.2))
                before = workers_of(service)
                os.kill(before[turn % 2], signal.SIGKILL)
                until(lambda before=before: len(set(workers_of(service)) - set(before)) == 1)
        assert service.log.count('"event": "worker-ended"') == kills
    finally:
        assert service.stop() == 0
    assert check_all_counted(clients, url, service.plans[0]) > 50
    assert "Traceback" not in service.log


# All of them are one collector


def metrics(service: Any, name: str) -> dict[str, float]:
    """A figure by worker."""
    text = service.get("/metrics", service.keys["reader"]).body.decode()
    return {
        worker: float(value)
        for worker, value in re.findall(rf'^reticent_{name}{{worker="(\d+)"}} (\S+)$', text, re.MULTILINE)
    }


def test_any_worker_answers_for_all(service: Any) -> None:
    """Each request has a connection of its own, so any worker may get it; the figures are of all of them."""
    plan, before = service.plans[0], sum(metrics(service, "accepted_total").values())
    for report in make_reports(plan, service.now(plan), 60, "any"):
        assert service.send(report, service.keys["ingest"]).status == 202
    until(lambda: sum(metrics(service, "accepted_total").values()) == before + 60)
    by_worker = metrics(service, "requests_total")
    assert set(by_worker) == {"0", "1", "2"}
    assert sum(count > 0 for count in by_worker.values()) >= 2  # more than one took part
    for _ in range(12):
        page = service.get("/health", service.keys["reader"]).body.decode()
        assert f'<dt>Accepted</dt><dd class="value">{before + 60:,.0f}</dd>' in page
        assert f"<td><b>{before + 60:,.0f}</b></td>" in page, "from the only key that sends"


def test_a_session_is_good_with_any_worker(service: Any) -> None:
    body = urlencode({"key": service.keys["reader"]}).encode()
    answer = service.call("POST", "/login", body, {"Content-Type": "application/x-www-form-urlencoded"})
    cookie = str(answer.headers["set-cookie"]).split(";")[0]
    assert [service.get("/v1/plans", Cookie=cookie).status for _ in range(24)] == [200] * 24


def test_figures_of_a_worker_that_ended_are_gone_until_it_is_back(service: Any) -> None:
    """Its counts begin at 0 again, under its own label: so a rate over them is right."""
    before = workers_of(service)
    taken = metrics(service, "requests_total")
    os.kill(before[0], signal.SIGKILL)
    until(lambda: len(set(workers_of(service)) - set(before)) == 1)
    until(lambda: set(metrics(service, "requests_total")) == {"0", "1", "2"})
    later = metrics(service, "requests_total")
    assert sum(later[worker] == count for worker, count in taken.items()) >= 2
    assert sum(later.values()) <= sum(taken.values())


# Signals


def test_a_new_certificate_reaches_every_worker_and_so_does_the_end_of_the_supervisor(tmp_path: Path) -> None:
    """
    The supervisor has one thread: a lock that another held would stay locked in a worker for ever.
    """
    used, new = tmp_path / "used", tmp_path / "new"
    for folder in (used, new):
        folder.mkdir()
        make_certificate(folder)
    second = der(new / "cert.pem")
    service = Service(tmp_path, usage(), store=f"lake:///{tmp_path / 'lake'}", scheme="https")
    service.fresh = True
    service.start("--workers", "2", "--tls-cert", str(used / "cert.pem"), "--tls-key", str(used / "key.pem"))
    assert service.process is not None
    assert os.listdir(f"/proc/{service.process.pid}/task") == [str(service.process.pid)]
    for name in ("cert.pem", "key.pem"):
        shutil.copy(new / name, used / name)
    service.process.send_signal(signal.SIGHUP)
    until(lambda: service.log.count("tls-reloaded") == 2)
    assert {presented(service.port) for _ in range(12)} == {second}
    workers = workers_of(service)
    assert service.stop(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    assert service.log.count('"event": "stopped"') == 2


def test_what_a_killed_supervisor_left_is_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    listener = socket.create_server(("127.0.0.1", 0))

    def supervise() -> None:
        Supervisor(1, [listener], wait_for_the_end, lambda: None).run()

    def folders() -> set[Path]:
        return set(tmp_path.glob("reticent-workers-*"))

    def start() -> tuple[int, Path]:
        before = folders()
        process = os.fork()
        if process == 0:
            supervise()
            os._exit(0)
        until(lambda: any((folder / "0").exists() for folder in folders() - before))
        (made,) = (folder for folder in folders() - before if (folder / "0").exists())
        return process, made

    first, left = start()
    second, used = start()
    assert folders() == {left, used}, "what is in use stays"
    worker = int((left / "0").read_bytes())
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)
    until(lambda: not Path(f"/proc/{worker}").exists() or "Z (" in Path(f"/proc/{worker}/status").read_text())
    third, newest = start()
    assert folders() == {used, newest}
    for process in (second, third):
        os.kill(process, signal.SIGTERM)
        assert os.waitpid(process, 0)[1] == 0
    assert folders() == set()
    listener.close()


def wait_for_the_end(worker: Worker) -> int:
    """A worker that publishes its process id, and ends with its supervisor."""
    worker.publish(str(os.getpid()).encode())
    worker.ready()
    select.select([worker.lifeline], [], [])
    return 0


# What does not start


def test_a_store_in_memory_belongs_to_one_process(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(usage())
    arguments = [
        "serve",
        str(plan),
        "--store",
        "memory:",
        "--listen",
        "127.0.0.1:0",
        "--workers",
        "2",
    ]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 1
    assert "--workers 2: a store in memory belongs to one process." in done.stderr
    assert "postgresql:// or lake://" in done.stderr


def test_what_keeps_one_worker_from_starting_is_said_once(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(usage())
    done = subprocess.run(
        [str(Path(sys.executable).with_name("reticent")), "serve", str(plan), "--store", f"lake:///{tmp_path}/lake",
         "--listen", "127.0.0.1:0", "--workers", "3", "--behind-proxy"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("can be reached from elsewhere, and the store has no keys.") == 1
    assert "Traceback" not in done.stderr


SUPERVISED = """
import os, signal, sys, time
from reticent_collector.http.workers import Supervisor

def work(worker):
    {}

sys.exit(Supervisor(2, [], work, lambda: print("started", flush=True)).run())
"""


def supervised(work: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SUPERVISED.format(work)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_a_worker_that_keeps_ending_is_started_at_growing_intervals() -> None:
    work = (
        "signal.signal(15, lambda *_: os._exit(0))",
        "worker.ready()",
        "os.kill(os.getpid(), 9 * worker.number)",
    )
    with supervised("; ".join([*work, "[time.sleep(0.02) for _ in range(2000)]"])) as process:
        assert process.stdout is not None
        pauses = []
        for line in process.stdout:
            if '"worker-ended"' in line:
                assert '"worker": 1, "code": -9' in line
                pauses.append(float(re.search(r'"again_seconds": ([\d.]+)', line)[1]))  # type: ignore[index]
                if len(pauses) == 4:
                    process.terminate()
        assert process.wait(20) == 0
    assert pauses == [0.2, 0.4, 0.8, 1.6]


def test_a_supervisor_whose_log_has_no_reader_starts_workers_again() -> None:
    """The second worker ends twice; then it ends all of them."""
    work = """
    signal.signal(15, lambda *_: os._exit(0))
    worker.ready()
    starts = os.open(worker.folder / "starts", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(starts, b".")
    is_enough = os.fstat(starts).st_size == 4
    os.kill(os.getppid() if is_enough else os.getpid(), 15 if is_enough else 9 * worker.number)
    while True:
        time.sleep(0.02)  # a pause would miss a signal just before it
"""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", SUPERVISED.format(work.strip())]
    with subprocess.Popen(command, stderr=writer, stdout=subprocess.DEVNULL) as process:
        os.close(writer)
        assert process.wait(20) != 1


def test_a_system_that_makes_no_process_for_a_while_ends_no_worker() -> None:
    """As when memory is short, which is why a worker ended."""
    work = """
    signal.signal(15, lambda *_: os._exit(0))
    worker.ready()
    while True:
        time.sleep(0.02)  # a pause would miss a signal just before it

calls, fork = [], os.fork
def os_fork():
    calls.append(0)
    if len(calls) == 2:
        raise OSError(12, "Cannot allocate memory")
    return fork()
os.fork = os_fork
"""
    with supervised(work.strip()) as process:
        assert process.stdout is not None
        assert '"worker-not-started", "worker": 1' in process.stdout.readline()
        assert process.stdout.readline() == "started\n"
        process.terminate()
        assert process.wait(20) == 0


def test_what_a_worker_left_for_the_others_goes_with_it() -> None:
    """The first worker writes down whose figures there are; the second one dies when it was seen."""
    work = """
    worker.publish(b"")
    worker.ready()
    for turn in range(20_000):
        if worker.number:
            time.sleep(0.02)  # a pause would miss a signal just before it
        print(sorted(worker.published()), flush=True)
        time.sleep(0.001)
    return 0
"""
    with supervised(work.strip()) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line == "[0, 1]\n" and "[0, 1]\n" not in lines[:-1]:
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                os.kill(int(children[1]), signal.SIGKILL)
            if ("[0, 1]\n" in lines and line == "[0]\n") or len(lines) > 15_000:
                break
        process.terminate()
    assert lines[-1] == "[0]\n"


@pytest.mark.parametrize(("work", "code"), [("return 3", 3), ("os.abort()", 1), ("raise ValueError('x')", 1)])
def test_nothing_is_started_again_that_never_served(work: str, code: int) -> None:
    with supervised(work) as process:
        output, _ = process.communicate(timeout=20)
    assert process.returncode == code
    assert "started" not in output
    assert "worker-ended" not in output


def test_a_worker_that_ends_badly_when_asked_to_is_in_the_exit_code() -> None:
    work = (
        "signal.signal(15, lambda *_: os._exit(4)); worker.ready(); [time.sleep(0.02) for _ in range(2000)]"
    )
    with supervised(work) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.terminate()
        assert process.wait(20) == 1
