"""
What the collector takes, in one run on one machine, the load beside it: as ratios and in reports a second.

    python -m benchmarks.collector                 # everything, some minutes
    python -m benchmarks.collector --quick         # a look

The ratio compares durable single reports with those of a collector that does nothing else (`benchmarks.bare`), in
the same run: absolute figures depend on the machine and on who else uses it. Each is measured several times; the best
run is the figure, since the others were disturbed, and the spread is shown. PostgreSQL is measured when
RETICENT_BENCH_POSTGRES holds the address of an empty database.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from functools import partial
from operator import truediv
from pathlib import Path

from benchmarks.load import PLAN, bare, batches, collector, ndjson, packed, records, singles, this_round
from reticent.stores import RoundKey, open_store

NDJSON, PACKED = "application/x-ndjson", "application/vnd.reticent.packed"


class Table:
    """Figures with their targets, printed as they come."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, float | list[float]]] = {}

    def measure(
        self, name: str, unit: str, runs: int, work: Callable[[], float], least: bool = False
    ) -> float:
        """Run `work` some times; the best is the figure."""
        found = sorted((work() for _ in range(runs)), reverse=not least)
        self.rows[name] = {"best": found[0], "runs": found}
        spread = f"   ({', '.join(f'{each:,.6g}' for each in found)})" if runs > 1 else ""
        print(f"{name:<58} {found[0]:>14,.6g} {unit}{spread}", flush=True)
        return found[0]


def single_reports(table: Table, folder: Path, runs: int, seconds: float) -> None:
    """The bare collector against the real one, turn by turn, both durable."""
    with bare(f"{folder}/bare.db") as measure, collector(f"sqlite:///{folder}/single.db") as durable:
        for connections in (64, 256):
            rates: dict[str, list[float]] = {"bare collector": [], "durable single reports": []}
            for _ in range(runs):
                for rate, process in zip(rates.values(), (measure, durable), strict=True):
                    rate.append(singles([process.port], connections, seconds))
            best = [
                table.measure(f"{name}, {connections} connections", "reports/s", runs, rate.pop)
                for name, rate in rates.items()
            ]
            name = f"ratio of the two, {connections} connections"
            table.measure(name, "(target 0.6)", 1, partial(truediv, best[1], best[0]))


def batch_reports(table: Table, folder: Path, runs: int, scale: int) -> None:
    """Lines of JSON by the thousand, packed batches by ten thousand; bodies are made beforehand."""
    with collector(f"sqlite:///{folder}/batch.db") as service:
        for name, kind, make, size, count in (
            ("NDJSON, batches of 1,000", NDJSON, ndjson, 1_000, 100 * scale),
            ("packed, batches of 10,000", PACKED, packed, 10_000, 50 * scale),
        ):

            def work(
                kind: str = kind, make: Callable[[int], bytes] = make, size: int = size, count: int = count
            ) -> float:
                bodies = [make(size) for _ in range(count)]
                return size * count / batches(service.port, kind, bodies, connections=16)

            table.measure(name, "reports/s", runs, work)


def memory_and_start(table: Table, folder: Path, reports: int) -> None:
    """What an open report costs in memory, and how long a collector takes to start with many of them."""
    url = f"sqlite:///{folder}/open.db"
    with collector(url) as service:
        bare, bare_start = service.memory, service.seconds_to_start
    store = open_store(url)
    key = RoundKey(PLAN.name, PLAN.version, this_round())
    for _ in range(reports // 100_000):
        store.append({key: records(100_000).tobytes()})
    store.close()
    with collector(url) as service:
        table.measure(
            f"memory per open report, {reports:,} of them",
            "bytes",
            1,
            lambda: (service.memory - bare) / reports,
        )
        table.measure(f"start with {reports:,} open reports", "s", 1, lambda: service.seconds_to_start)
        table.measure("start with none", "s", 1, lambda: bare_start)


def postgres(table: Table, url: str, runs: int, seconds: float) -> None:
    """Two collectors on one database."""
    with collector(url) as one, collector(url) as two:
        for connections in (64, 256):
            table.measure(
                f"PostgreSQL, two collectors, single, {connections} connections", "reports/s", runs,
                lambda connections=connections: singles([one.port, two.port], connections, seconds),  # type: ignore[misc]
            )  # fmt: skip


def lake(table: Table, folder: Path, runs: int, seconds: float, scale: int) -> None:
    """Two collectors on one lake: every commit group is a Parquet file, written and synced."""
    url = f"lake:///{folder}/lake"
    with collector(url) as one, collector(url) as two:
        table.measure(
            "lake, two collectors, single, 256 connections", "reports/s", runs,
            lambda: singles([one.port, two.port], 256, seconds),
        )  # fmt: skip
        count = 50 * scale

        def work() -> float:
            bodies = [packed(10_000) for _ in range(count)]
            return 10_000 * count / batches(one.port, PACKED, bodies, connections=16)

        table.measure("lake, one collector, packed, batches of 10,000", "reports/s", runs, work)


def main() -> None:
    """Measure, print, and write the figures where --json says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--only", choices=["single", "batch", "memory", "postgres", "lake"])
    asked = parser.parse_args()
    runs, seconds, scale = (1, 2.0, 1) if asked.quick else (3, 4.0, 3)
    table, url = Table(), os.environ.get("RETICENT_BENCH_POSTGRES")
    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
        folder = Path(name)
        if asked.only in (None, "single"):
            single_reports(table, folder, runs, seconds)
        if asked.only in (None, "batch"):
            batch_reports(table, folder, runs, scale)
        if asked.only in (None, "postgres") and url:
            postgres(table, url, runs, seconds)
        if asked.only in (None, "lake"):
            lake(table, folder, runs, seconds, scale)
        if asked.only in (None, "memory"):
            memory_and_start(table, folder, 1_000_000 if asked.quick else 10_000_000)
    if asked.json:
        asked.json.write_text(json.dumps(table.rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
