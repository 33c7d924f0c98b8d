"""
Single points by HTTP, in one run on one machine: the collector beside two databases of time series.

    python -m benchmarks.databases             # about two minutes
    python -m benchmarks.databases --quick     # a look

InfluxDB and VictoriaMetrics are those of Debian's packages `influxdb` and `victoria-metrics`; what is not found on
PATH is left out. They do another task: they store values that anyone may read, and the collector counts noisy
bits, each report once. Each has the durability that it comes with: InfluxDB syncs its log before it answers,
VictoriaMetrics answers from memory and writes later, and the collector syncs before it answers.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from benchmarks import load
from benchmarks.collector import Table
from benchmarks.load import collector, singles, wrk

POINTS = Path(__file__).with_name("points.lua")
Rate = Callable[[int, float], float]
"""Answered requests a second over so many connections, for so many seconds."""

INFLUX = """
reporting-disabled = true
bind-address = "127.0.0.1:{rpc}"
[meta]
dir = "{folder}/meta"
[data]
dir = "{folder}/data"
wal-dir = "{folder}/wal"
index-version = "tsi1"
query-log-enabled = false
[http]
bind-address = "127.0.0.1:{port}"
log-enabled = false
[monitor]
store-enabled = false
"""


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(port: int, method: str, path: str) -> int:
    """The status of one answer."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path)
    status = connection.getresponse().status
    connection.close()
    return status


@contextmanager
def server(command: list[str], port: int, ready: str) -> Iterator[None]:
    """A server that runs as long as the `with` block, from its first answer on."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        for _ in range(150):
            with suppress(OSError, HTTPException):
                if ask(port, "GET", ready) < 300:
                    break
            time.sleep(0.2)
        else:
            raise RuntimeError(f"{command[0]} did not answer within 30 s")
        yield
    finally:
        process.terminate()
        process.wait(60)


def influxdb(running: ExitStack, program: str, folder: Path) -> Rate:
    """InfluxDB with one database; its log is synced before each answer."""
    port = free_port()
    config = folder / "influxdb.conf"
    config.write_text(INFLUX.format(folder=folder / "influxdb", port=port, rpc=free_port()))
    running.enter_context(server([program, "-config", str(config)], port, "/ping"))
    assert ask(port, "POST", "/query?q=CREATE+DATABASE+points") == 200
    return lambda connections, seconds: wrk(
        f"http://127.0.0.1:{port}", connections, seconds, POINTS, RETICENT_PATH="/write?db=points"
    )


def victoria_metrics(running: ExitStack, program: str, folder: Path) -> Rate:
    """VictoriaMetrics, which takes the same lines; it answers before it writes."""
    port = free_port()
    command = [program, f"-storageDataPath={folder}/victoria", f"-httpListenAddr=127.0.0.1:{port}"]
    running.enter_context(server(command, port, "/health"))
    return lambda connections, seconds: wrk(
        f"http://127.0.0.1:{port}", connections, seconds, POINTS, RETICENT_PATH="/write"
    )


def main() -> None:
    """Measure turn by turn, and print."""
    parser = load.arguments(__doc__)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    runs, seconds = (1, 2.0) if chosen.quick else (3, 5.0)
    table = Table()
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="reticent-bench-")))
        service = running.enter_context(collector(f"sqlite:///{folder}/single.db"))
        rates: dict[str, Rate] = {
            "reticent, synced": lambda connections, seconds: singles([service.port], connections, seconds)
        }
        for name, program, start in (
            ("InfluxDB, synced", "influxd", influxdb),
            ("VictoriaMetrics, not synced", "victoria-metrics", victoria_metrics),
        ):
            found = shutil.which(program)
            if found is None:
                print(f"{name}: {program} is not installed, so it is left out")
            else:
                rates[name] = start(running, found, folder)
        for connections in (64, 256):
            seen: dict[str, list[float]] = {name: [] for name in rates}
            for _ in range(runs):
                for name, rate in rates.items():
                    seen[name].append(rate(connections, seconds))
            ours = max(seen["reticent, synced"])
            for name, values in seen.items():
                table.add(f"{name}, {connections} connections", "points/s", values, ours)


if __name__ == "__main__":
    main()
