"""
What the collector takes, in one run on one machine, the load beside it: as ratios and in reports a second.

    python -m benchmarks.collector                 # everything but the millions, some minutes
    python -m benchmarks.collector --quick         # a look
    python -m benchmarks.collector --millions      # ten million reports in an open round: slowest commit, start
    python -m benchmarks.collector --beside PATH   # and the `reticent` command of another version

Ratios compare durable single reports with those of a collector that does nothing else (`benchmarks.bare`), and
batches with the bytes of their records written and synced to a plain file, in the same run: absolute figures depend
on the machine and on who else uses it. Each is measured several times; the best run is the figure, since the others
were disturbed, and the spread is shown. PostgreSQL is measured when RETICENT_BENCH_POSTGRES holds the address of an
empty database.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks import load
from benchmarks.load import PLAN, batches, collector, ndjson, packed, records, singles, synced, this_round
from reticent_collector.stores import Layout, RoundKey, open_store

NDJSON, PACKED = "application/x-ndjson", "application/vnd.reticent.packed"


class Table:
    """Figures with their ratios, printed as they come."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, float | list[float]]] = {}

    def add(
        self, name: str, unit: str, runs: Sequence[float], measure: float = 0.0, least: bool = False
    ) -> float:
        """The figure is the best of some runs, beside a measure that was taken with it."""
        best = min(runs) if least else max(runs)
        self.rows[name] = {"best": best, "runs": sorted(runs)}
        if measure:
            self.rows[name]["ratio"] = best / measure
        ratio = f"{best / measure:6.2f} of the measure" if measure else ""
        spread = f"   ({', '.join(f'{run:,.6g}' for run in sorted(runs))})" if len(runs) > 1 else ""
        print(f"{name:<58} {best:>14,.6g} {unit} {ratio}{spread}", flush=True)
        return best


def single_reports(table: Table, folder: Path, runs: int, seconds: float, beside: str | None) -> None:
    """The bare collector, the real one and perhaps another version of it, turn by turn, all durable."""
    with ExitStack() as running:
        processes = {
            "bare collector": running.enter_context(load.bare(f"{folder}/bare.db")),
            "durable single reports": running.enter_context(collector(f"sqlite:///{folder}/single.db")),
        }
        if beside:
            other = collector(f"sqlite:///{folder}/other.db", command=beside)
            processes["the other version"] = running.enter_context(other)
        for connections in (64, 256):
            rates: dict[str, list[float]] = {name: [] for name in processes}
            for _ in range(runs):
                for name, process in processes.items():
                    rates[name].append(singles([process.port], connections, seconds))
            measure = max(rates["bare collector"])
            for name, rate in rates.items():
                table.add(f"{name}, {connections} connections", "reports/s", rate, measure)


def batch_reports(table: Table, folder: Path, runs: int, scale: int) -> None:
    """Lines of JSON by the thousand, packed batches by ten thousand; bodies are made beforehand."""
    with collector(f"sqlite:///{folder}/batch.db") as service:
        for name, kind, make, size, count in (
            ("NDJSON, batches of 1,000", NDJSON, ndjson, 1_000, 100 * scale),
            ("packed, batches of 10,000", PACKED, packed, 10_000, 50 * scale),
        ):
            rates, plain = [], []
            for _ in range(runs):
                bodies = [make(size) for _ in range(count)]
                rates.append(size * count / batches(service.port, kind, bodies, connections=16))
                plain.append(size * count / synced(folder / "plain", size * Layout(PLAN).width, count))
            table.add(f"{name}: records written and synced", "reports/s", plain)
            table.add(name, "reports/s", rates, max(plain))


def millions(table: Table, folder: Path, reports: int) -> None:
    """An open round of ten million: its slowest commit, what a report costs in memory, and a start with them."""
    url = f"sqlite:///{folder}/open.db"
    with collector(url) as service:
        empty, start = service.memory, service.seconds_to_start
    store = open_store(url)
    key = RoundKey(PLAN.name, PLAN.version, this_round())
    commits, syncs = [], []
    for _ in range(reports // 10_000):
        group = records(10_000).tobytes()
        syncs.append(synced(folder / "plain", len(group), 1))
        begin = time.perf_counter()
        store.append({key: group})
        commits.append(time.perf_counter() - begin)
    store.close()
    table.add("slowest of as many plain writes that were synced", "ms", [max(syncs) * 1000])
    table.add(f"slowest commit of 10,000 while {reports:,} arrive", "ms", [max(commits) * 1000])
    with collector(url) as service:
        memory = (service.memory - empty) / reports
        table.add(f"memory per open report, {reports:,} of them", "bytes", [memory])
        table.add(f"start with {reports:,} open reports", "s", [service.seconds_to_start])
        table.add("start with none", "s", [start])


def postgres(table: Table, url: str, runs: int, seconds: float) -> None:
    """Two collectors on one database."""
    with collector(url) as one, collector(url) as two:
        for connections in (64, 256):
            rates = [singles([one.port, two.port], connections, seconds) for _ in range(runs)]
            table.add(f"PostgreSQL, two collectors, single, {connections} connections", "reports/s", rates)


def lake(table: Table, folder: Path, runs: int, seconds: float, scale: int) -> None:
    """Two collectors on one lake: every commit group is a Parquet file, written and synced."""
    url = f"lake:///{folder}/lake"
    with collector(url) as one, collector(url) as two:
        rates = [singles([one.port, two.port], 256, seconds) for _ in range(runs)]
        table.add("lake, two collectors, single, 256 connections", "reports/s", rates)
        rates.clear()
        for _ in range(runs):
            bodies = [packed(10_000) for _ in range(50 * scale)]
            rates.append(10_000 * len(bodies) / batches(one.port, PACKED, bodies, connections=16))
        table.add("lake, one collector, packed, batches of 10,000", "reports/s", rates)


def main() -> None:
    """Measure, print, and write the figures to the file of --json."""
    parser = load.arguments(__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--only", choices=["single", "batch", "postgres", "lake"])
    parser.add_argument("--millions", action="store_true", help="ten million reports; one with --quick")
    parser.add_argument("--beside", help="the command of another version, for single reports")
    chosen = parser.parse_args()
    runs, seconds, scale = (1, 2.0, 1) if chosen.quick else (3, 4.0, 3)
    table, url = Table(), os.environ.get("RETICENT_BENCH_POSTGRES")
    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
        folder = Path(name)
        parts = {
            "single": lambda: single_reports(table, folder, runs, seconds, chosen.beside),
            "batch": lambda: batch_reports(table, folder, runs, scale),
            "postgres": lambda: postgres(table, url, runs, seconds) if url else None,
            "lake": lambda: lake(table, folder, runs, seconds, scale),
        }
        if chosen.millions:
            millions(table, folder, 1_000_000 if chosen.quick else 10_000_000)
        else:
            for part in [chosen.only] if chosen.only else parts:
                parts[part]()
    if chosen.json:
        chosen.json.write_text(json.dumps(table.rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
