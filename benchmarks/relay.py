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
from functools import partial
from operator import truediv
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
            rates: dict[str, list[float]] = {"the collector alone": [], "through a relay": []}
            microseconds = {"relay": float("inf"), "collector behind it": float("inf")}
            for _ in range(RUNS):
                rates["the collector alone"].append(singles([alone.port], connections, SECONDS))
                before = through.cpu_seconds, alone.cpu_seconds
                rates["through a relay"].append(singles([through.port], connections, SECONDS))
                reports = rates["through a relay"][-1] * SECONDS
                spent = through.cpu_seconds - before[0], alone.cpu_seconds - before[1]
                for name, seconds in zip(microseconds, spent, strict=True):
                    microseconds[name] = min(microseconds[name], 1e6 * seconds / reports)
            best = [
                table.measure(f"{name}, {connections} connections", "reports/s", RUNS, rate.pop)
                for name, rate in rates.items()
            ]
            ratio = partial(truediv, best[1], best[0])
            table.measure(f"ratio of the two, {connections} connections", "", 1, ratio)
            for name, figure in microseconds.items():
                table.measure(
                    f"time of a core per report, {name}, {connections} connections", "us", 1, [figure].pop
                )


if __name__ == "__main__":
    main()
