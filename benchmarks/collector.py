"""
What the collector takes, in one run on one machine, the load beside it: as ratios and in reports a second.

    python -m benchmarks.collector                 # everything but the millions, some minutes
    python -m benchmarks.collector --quick         # a look
    python -m benchmarks.collector --millions      # one and ten million reports in an open round: memory, start
    python -m benchmarks.collector --millions --reports 1000000,10000000,100000000      # some ten minutes
    python -m benchmarks.collector --beside PATH   # and the `reticent` command, or the checkout, of another version

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
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks import load
from benchmarks.load import PLAN, batches, collector, ndjson, packed, records, singles, synced, this_round
from reticent_collector.stores import Layout, RoundKey, open_store

NDJSON, PACKED = "application/x-ndjson", "application/vnd.reticent.packed"
GOALS = {64: "0.74", 256: "0.70", NDJSON: "500,000", PACKED: "5,000,000"}
"""Of single reports by connections, to the bare collector; of batches by type, reports a second."""


class Table:
    """Figures with their ratios, printed as they come."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, float | list[float]]] = {}

    def add(
        self,
        name: str,
        unit: str,
        runs: Sequence[float],
        measure: float = 0.0,
        least: bool = False,
        goal: str = "",
    ) -> float:
        """The figure is the best of some runs, beside a measure that was taken with it, and what was asked."""
        best = min(runs) if least else max(runs)
        self.rows[name] = {"best": best, "runs": sorted(runs)}
        if measure:
            self.rows[name]["ratio"] = best / measure
        ratio = f"{best / measure:6.2f} of the measure" if measure else ""
        spread = f"   ({', '.join(f'{run:,.6g}' for run in sorted(runs))})" if len(runs) > 1 else ""
        asked = f"   goal: {goal}" if goal else ""
        print(f"{name:<58} {best:>14,.6g} {unit} {ratio}{spread}{asked}", flush=True)
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
                goal = GOALS[connections] if name == "durable single reports" else ""
                table.add(f"{name}, {connections} connections", "reports/s", rate, measure, goal=goal)


def batch_reports(table: Table, folder: Path, runs: int, scale: int, beside: str | None) -> None:
    """Lines of JSON by the thousand, packed batches by ten thousand; bodies are made beforehand."""
    with ExitStack() as running:
        processes = {"": running.enter_context(collector(f"sqlite:///{folder}/batch.db"))}
        if beside:
            other = collector(f"sqlite:///{folder}/other-batch.db", command=beside)
            processes[", the other version"] = running.enter_context(other)
        for name, kind, make, size, count in (
            ("NDJSON, batches of 1,000", NDJSON, ndjson, 1_000, 100 * scale),
            ("packed, batches of 10,000", PACKED, packed, 10_000, 50 * scale),
        ):
            plain = []
            rates: dict[str, list[float]] = {version: [] for version in processes}
            for _ in range(runs):
                for version, process in processes.items():
                    bodies = [make(size) for _ in range(count)]
                    seconds = batches(process.port, kind, bodies, connections=16)
                    rates[version].append(size * count / seconds)
                plain.append(size * count / synced(folder / "plain", size * Layout(PLAN).width, count))
            table.add(f"{name}: records written and synced", "reports/s", plain)
            for version, rate in rates.items():
                table.add(f"{name}{version}", "reports/s", rate, max(plain), goal=GOALS[kind])


def millions(table: Table, folder: Path, sizes: Sequence[int], seconds: float) -> None:
    """An open round that grows to each size: its slowest commit, the collector's memory at work, and its start."""
    url = f"sqlite:///{folder}/open.db"
    key = RoundKey(PLAN.name, PLAN.version, this_round())
    empty, _, start = at_work(url, seconds)
    table.add("memory with no open reports, at work", "MB", [empty / 1e6])
    table.add("start with no open reports", "s", start, least=True)
    there, first_most = 0, 0
    for size in sizes:
        commits, syncs = [], []
        with closing(open_store(url)) as store:
            for _ in range((size - there) // 10_000):
                group = records(10_000).tobytes()
                syncs.append(synced(folder / "plain", len(group), 1))
                begin = time.perf_counter()
                store.append({key: group})
                commits.append(time.perf_counter() - begin)
        there = size
        table.add(f"slowest plain write, synced, up to {size:,}", "ms", [max(syncs) * 1000])
        table.add(f"slowest commit of 10,000, up to {size:,}", "ms", [max(commits) * 1000])
        memory, most, starts = at_work(url, seconds)
        within = "at most 1.1 of the first size"
        table.add(f"memory with {size:,} open reports, at work", "MB", [memory / 1e6], empty / 1e6)
        first_most = first_most or most
        table.add(
            f"most memory with {size:,}, also while they are counted",
            "MB",
            [most / 1e6],
            first_most / 1e6,
            goal=within,
        )
        table.add(
            f"start with {size:,} open reports", "s", starts, min(start), least=True, goal="at most 1.2"
        )


def at_work(url: str, seconds: float) -> tuple[int, int, list[float]]:
    """
    The memory of a collector that takes single reports, the most it had, and how long each of three starts took.

    Two seconds after its start it counts all open reports, for readers, where a tenth of them are new.
    """
    starts = []
    most = 0
    for _ in range(3):
        with collector(url) as service:
            starts.append(service.seconds_to_start)
            singles([service.port], 64, seconds)
            memory = service.memory
            most = max(most, service.peak_memory)
    return memory, most, starts


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
    parser.add_argument("--millions", action="store_true", help="open rounds of --reports instead")
    parser.add_argument("--reports", default="1000000,10000000", help="with --millions: sizes that grow")
    parser.add_argument("--beside", help="another version: its command, or a checkout with an environment")
    chosen = parser.parse_args()
    if chosen.beside and Path(chosen.beside).is_dir():
        chosen.beside = str(Path(chosen.beside) / ".venv" / "bin" / "reticent")
    runs, seconds, scale = (1, 2.0, 1) if chosen.quick else (3, 4.0, 3)
    table, url = Table(), os.environ.get("RETICENT_BENCH_POSTGRES")
    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
        folder = Path(name)
        parts = {
            "single": lambda: single_reports(table, folder, runs, seconds, chosen.beside),
            "batch": lambda: batch_reports(table, folder, runs, scale, chosen.beside),
            "postgres": lambda: postgres(table, url, runs, seconds) if url else None,
            "lake": lambda: lake(table, folder, runs, seconds, scale),
        }
        if chosen.millions:
            millions(table, folder, [int(size) for size in chosen.reports.split(",")], seconds)
        else:
            for part in [chosen.only] if chosen.only else parts:
                parts[part]()
    if chosen.json:
        chosen.json.write_text(json.dumps(table.rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
