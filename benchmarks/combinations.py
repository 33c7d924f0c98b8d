"""
Sealing a round by its reports and the combinations of their tags: time and peak memory, each in its own process.

    python -m benchmarks combinations                                                    # three minutes
    python -m benchmarks combinations --reports 10000000,100000000 --combinations 1      # ten minutes
    python -m benchmarks combinations --reports 1000000 --combinations 16,4284

Goals: 4,284 combinations within 3 times the CPU of 16, 20,000 within 1,024 MiB; 10 million reports with one
combination within 3 s and 400 MiB, 100 million in ten times that time and in the same memory.

Each combination has counts of its own, of 16 cohorts. Every seal is of a store in a SQLite file.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from benchmarks.load import arguments
from reticent.plan import Plan
from reticent_collector.stores import Layout, RoundKey, open_store

GROUP = 20_000
"""Reports in a commit."""


def plan_of(combinations: int) -> Plan:
    """A mean, a histogram with 16 cohorts, and so many combinations of two tags."""
    countries = max(1, combinations // 84 if combinations >= 84 else 1)
    versions = -(-combinations // countries)
    tags = "".join(
        f"{name} = {json.dumps([f'{name}{place}' for place in range(count)])}\n"
        for name, count in (("country", countries), ("version", versions))
    )
    return Plan.from_toml(
        '[plan]\nname = "combinations"\nversion = 1\nround = "6h"\n'
        '[metrics.minutes]\nkind = "mean"\nmax_value = 360\nepsilon = 1.0\n'
        '[metrics.files]\nkind = "histogram"\nmax_value = 100\nbuckets = 10\n'
        'mechanism = "hadamard-bit"\nepsilon = 1.0\n'
        f"[segments]\n{tags}"
    )


def fill(url: str, reports: int, combinations: int) -> RoundKey:
    """An open round whose reports are spread evenly over the combinations."""
    plan, draws = plan_of(combinations), np.random.default_rng(combinations)
    layout, key = Layout(plan), RoundKey(plan.name, 1, 81_652)
    sizes = [len(segment.tags) - 1 for segment in plan.segments]  # without that of unknown tags
    with closing(open_store(url)) as store:
        store.register(plan)
        for start in range(0, reports, GROUP):
            rows = draws.integers(0, 256, (min(GROUP, reports - start), layout.width), dtype=np.uint8)
            first = layout.width - plan.report_bytes - len(sizes)
            for place, size in enumerate(sizes, first):
                rows[:, place] %= size
            rows[:, -1] &= 0xFF & ~((1 << -plan.bits % 8) - 1)
            store.append({key: rows.tobytes()})
    return key


def seal(url: str) -> None:
    """What a process of its own does: prints seconds, CPU seconds, reports, cells and peak memory."""
    with closing(open_store(url)) as store:
        (key,) = store.unsealed()
        begin, used = time.perf_counter(), time.process_time()
        store.seal(key)
        seconds, cpu = time.perf_counter() - begin, time.process_time() - used
        counts = store.counts(key)
        (info,) = store.rounds()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {"seconds": seconds, "cpu": cpu, "reports": info.reports, "cells": len(counts), "peak": peak}
        )
    )


def main() -> None:
    """Print one table."""
    parser = arguments(__doc__)
    parser.add_argument("--reports", default="4000000", help="one number, or several with commas")
    parser.add_argument("--combinations", default="16,264,2244,4284,20000")
    parser.add_argument("--seal", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.seal:
        seal(chosen.seal)
        return
    for reports in map(int, chosen.reports.split(",")):
        table(reports, [int(number) for number in chosen.combinations.split(",")])


def table(reports: int, sizes: list[int]) -> None:
    """One size of a round, by combinations."""
    least = 0.0
    print(f"{reports:,} reports\n\n{'tags':>10}{'seconds':>10}{'CPU':>8}{'ratio':>8}{'peak MiB':>10}")
    for combinations in sizes:
        with tempfile.TemporaryDirectory(prefix="reticent-combinations-") as folder:
            url = f"sqlite:///{Path(folder) / 'store.db'}"
            fill(url, reports, combinations)
            command = [sys.executable, "-m", "benchmarks.combinations", "--seal", url]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603
        found = json.loads(done.stdout)
        assert found["reports"] == reports, found
        least = least or found["cpu"]
        print(
            f"{found['cells']:10,}{found['seconds']:10.2f}{found['cpu']:8.2f}{found['cpu'] / least:8.2f}"
            f"{found['peak']:10,.0f}",
            flush=True,
        )
    print()


if __name__ == "__main__":
    main()
