"""
What a relay takes, with its collector and the load beside it on one machine.

    python -m benchmarks relay

Single reports to the collector alone, and through a relay to the same collector, turn by turn. Both figures are of
reports that the collector has acknowledged as durable.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.collector import Table
from benchmarks.load import PLAN_FILE, Process, collector, singles

RUNS, SECONDS = 3, 4.0


@contextmanager
def relay(port: int) -> Iterator[Process]:
    """`reticent relay` before the collector at a port."""
    reticent = str(Path(sys.executable).with_name("reticent"))
    to = f"http://127.0.0.1:{port}"
    process = Process(reticent, "relay", str(PLAN_FILE), "--to", to, "--listen", "127.0.0.1:0")
    try:
        yield process
    finally:
        process.stop()


def main() -> None:
    """Measure both at 256 and 1,024 connections, and print the ratio."""
    table = Table()
    with (
        tempfile.TemporaryDirectory(prefix="reticent-bench-") as folder,
        collector(f"sqlite:///{folder}/relay.db") as alone,
        relay(alone.port) as through,
    ):
        for connections in (256, 1024):
            direct, relayed = [], []
            of_relay, of_collector = [], []  # microseconds of a core for each report that goes through both
            for _ in range(RUNS):
                direct.append(singles([alone.port], connections, SECONDS))
                before = through.cpu_seconds, alone.cpu_seconds
                relayed.append(singles([through.port], connections, SECONDS))
                reports = relayed[-1] * SECONDS
                of_relay.append(1e6 * (through.cpu_seconds - before[0]) / reports)
                of_collector.append(1e6 * (alone.cpu_seconds - before[1]) / reports)
            measure = table.add(f"the collector alone, {connections} connections", "reports/s", direct)
            table.add(f"through a relay, {connections} connections", "reports/s", relayed, measure)
            table.add("  time of a core per report, relay", "us", of_relay, least=True)
            table.add("  time of a core per report, collector behind it", "us", of_collector, least=True)


if __name__ == "__main__":
    main()
