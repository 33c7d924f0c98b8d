"""What benchmarks share: servers to measure, loads for them, and the best of several runs."""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import numpy as np

from reticent.plan import Plan
from reticent.reports import Report, to_json, to_packed
from reticent_collector.stores import Layout

ROOT = Path(__file__).parents[1]
PLAN_FILE = ROOT / "examples" / "plan.toml"
PLAN = Plan.load(PLAN_FILE)
LUA = Path(__file__).with_name("post.lua")
RETICENT = str(Path(sys.executable).with_name("reticent"))


class Process:
    """A server in a process of its own, with the port it listens on; it is stopped at the end of a `with` block."""

    def __init__(self, *command: str) -> None:
        self.begin = time.perf_counter()
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # noqa: S603
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            found = re.match(r"Listening on https?://127\.0\.0\.1:(\d+)", line)
            if found:
                self.seconds_to_start = time.perf_counter() - self.begin
                self.port = int(found[1])
                break
        else:
            raise RuntimeError("".join(said))
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    @property
    def cpu_seconds(self) -> float:
        """Seconds of one core that it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> int:
        """Bytes that are resident."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def peak_memory(self) -> int:
        """Most bytes that were resident."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) * 1024

    @property
    def url(self) -> str:
        """Its address, where it speaks HTTP."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(120)


def bare(path: str) -> Process:
    """The least that a collector can be, on a file of SQLite: see `benchmarks.bare`."""
    return Process(sys.executable, str(Path(__file__).with_name("bare.py")), path)


def collector(store: str, *options: str, plan: Path = PLAN_FILE, command: str = RETICENT) -> Process:
    """`reticent serve` on a store, by this version or by the command of another one."""
    return Process(command, "serve", str(plan), "--store", store, "--listen", "127.0.0.1:0", *options)


def relay(url: str, *options: str, plan: Path = PLAN_FILE) -> Process:
    """`reticent relay` before the collector at an address."""
    return Process(RETICENT, "relay", str(plan), "--to", url, "--listen", "127.0.0.1:0", *options)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser whose --help is the docstring of a benchmark."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def best(work: Callable[[int], object], repeat: int) -> float:
    """Seconds of the quickest of some runs, called with their numbers: the others were disturbed."""
    times = []
    for number in range(repeat):
        start = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - start)
    return min(times)


def this_round() -> int:
    """The round under way; one that ends during the benchmark has six hours of grace."""
    return PLAN.round_at(time.time())


# Single reports


def singles(ports: list[int], connections: int, seconds: float, scheme: str = "http") -> float:
    """Acknowledged single reports a second, over as many keep-alive connections, by wrk; none may fail."""
    if shutil.which("wrk") is None and scheme == "http":
        return _singles_by_threads(ports, min(connections, 32), seconds)
    share, rates = connections // len(ports), [0.0] * len(ports)

    def work(place: int) -> None:
        address = f"{scheme}://127.0.0.1:{ports[place]}"
        rates[place] = wrk(address, share, seconds, LUA, RETICENT_ROUND=str(this_round()))

    _all(work, len(ports))
    return sum(rates)


def wrk(address: str, connections: int, seconds: float, script: Path, **environment: str) -> float:
    """Answered requests a second over as many keep-alive connections, by wrk; none may fail."""
    program = shutil.which("wrk")
    assert program, "wrk is needed: it is a package of Debian"
    said = subprocess.run(  # noqa: S603
        [program, "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--timeout", "30s", "-s", str(script), address],
        env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True,
    ).stdout  # fmt: skip
    assert "Non-2xx" not in said, said
    assert "Socket errors" not in said, said
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    assert found, said
    return float(found[1])


def _singles_by_threads(ports: list[int], connections: int, seconds: float) -> float:
    """Without wrk: slower than what it measures."""
    done, end = [0] * connections, time.monotonic() + seconds

    def work(place: int) -> None:
        connection = HTTPConnection("127.0.0.1", ports[place % len(ports)])
        draw = random.Random(f"{place} {time.time()}")
        while time.monotonic() < end:
            report = Report(
                PLAN.name, PLAN.version, this_round(), draw.randbytes(16), b"\xa0", 7, {"os": "linux"}
            )
            connection.request("POST", "/v1/reports", to_json(report), {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            assert response.status == 202
            done[place] += 1

    _all(work, connections)
    return sum(done) / seconds


def _all(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# Batches


def ndjson(count: int) -> bytes:
    """A batch of fresh reports as lines of JSON."""
    draw, number = random.Random(os.urandom(16)), this_round()
    tags = [segment.tags for segment in PLAN.segments]
    names = [segment.name for segment in PLAN.segments]
    return b"".join(
        to_json(
            Report(
                PLAN.name, PLAN.version, number, draw.randbytes(16), bytes([draw.randrange(8) << 5]),
                draw.randrange(256), dict(zip(names, map(draw.choice, tags), strict=True)),
            )
        ) + b"\n"
        for _ in range(count)
    )  # fmt: skip


def records(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Fresh reports as records of a store."""
    draw = np.random.default_rng()
    made = draw.integers(0, 256, (count, Layout(PLAN).width), dtype=np.uint8)
    made[:, 17] %= len(PLAN.segments[0].tags)
    made[:, 18] &= 0b1110_0000
    return made


def packed(count: int) -> bytes:
    """A packed batch of fresh reports."""
    rounds = np.full((count, 1), this_round(), dtype=">u8").view(np.uint8)
    return to_packed([], PLAN) + np.concatenate([rounds, records(count)], axis=1).tobytes()


def batches(port: int, kind: str, bodies: list[bytes], connections: int) -> float:
    """Seconds until all bodies are acknowledged, over as many connections."""
    waiting = iter(bodies)
    lock = threading.Lock()

    def work(place: int) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        while True:
            with lock:
                body = next(waiting, None)
            if body is None:
                connection.close()
                return
            connection.request("POST", "/v1/reports", body, {"Content-Type": kind})
            response = connection.getresponse()
            said = response.read()
            assert response.status == 202, said
            assert b'"rejected":[]' in said, said[:200]

    begin = time.perf_counter()
    _all(work, connections)
    return time.perf_counter() - begin


def synced(path: Path, size: int, count: int) -> float:
    """Seconds to write so many blocks to a file, each synced: the least that durability takes."""
    data = os.urandom(size)
    with path.open("wb", buffering=0) as file:
        begin = time.perf_counter()
        for _ in range(count):
            file.write(data)
            os.fdatasync(file.fileno())
        return time.perf_counter() - begin
