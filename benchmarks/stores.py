"""
What a store takes and holds: reports/s by size of commit group, and a round of millions from start to seal.

    python -m benchmarks stores [--reports 10000000] [--postgres postgresql://user@host/empty-database]

Ratios are to plain durable writes of the same bytes in the same run, so that they hold on other machines.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.load import arguments
from reticent.plan import Plan
from reticent_collector.stores import Layout, RoundKey, Store, open_store

PLAN = Plan.from_toml(
    '[plan]\nname = "bench"\nversion = 1\nround = "6h"\n'
    + "".join(
        f'[metrics.mean_{n}]\nkind = "mean"\nmax_value = 21600\nepsilon = 1.0\nflip = 0.2\n' for n in range(8)
    )
    + "".join(
        f'[metrics.histogram_{n}]\nkind = "histogram"\nmax_value = 21600\nbuckets = 32\nepsilon = 1.0\n'
        'mechanism = "hadamard-bit"\nflip = 0.2\n'
        for n in range(2)
    )
    + '[segments]\nos = ["windows", "macos", "linux"]\n'
)
LAYOUT = Layout(PLAN)
SIZES = (1, 100, 1_000, 10_000)
SECONDS = 3.0


def groups(size: int, seed: int) -> Iterator[bytes]:
    """Groups of reports that never repeat."""
    draws = np.random.default_rng(seed)
    while True:
        records = draws.integers(0, 256, (size, LAYOUT.width), dtype=np.uint8)
        records[:, 17] %= 4
        yield records.tobytes()


def durable_writes(folder: Path, size: int) -> float:
    """Reports/s when their bytes are only written to a file and synced, group by group."""
    with (folder / "plain").open("wb", buffering=0) as file:

        def write(group: bytes) -> None:
            file.write(group)
            os.fdatasync(file.fileno())

        return rate(write, size, seed=1)


def rate(write: Callable[[bytes], object], size: int, seed: int) -> float:
    """Reports/s over some seconds; making the reports is not counted."""
    spent, done = 0.0, 0
    for group in groups(size, seed):
        start = time.perf_counter()
        write(group)
        spent += time.perf_counter() - start
        done += size
        if spent > SECONDS:
            return done / spent
    raise AssertionError


def appending(store: Store, name: str, plain: dict[int, float]) -> None:
    """Append at each size of commit group, in a round of its own."""
    store.register(PLAN)
    for number, size in enumerate(SIZES):
        key = RoundKey(PLAN.name, 1, number)
        per_second = rate(lambda group, key=key: store.append({key: group}), size, seed=100 + number)
        print(f"{name + f', groups of {size:,}':38}{per_second:14,.0f}{per_second / plain[size]:10.2f}")
        store.seal(key)


@contextmanager
def measured(name: str, reports: int) -> Iterator[None]:
    """Print the time of some work and the most memory the process held meanwhile (on Linux)."""
    clear, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if clear.exists():
        clear.write_text("5")
    start = time.perf_counter()
    yield
    spent = time.perf_counter() - start
    peak = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    memory = f"{int(peak[0]) / 1024:10,.0f} MiB at most" if peak else ""
    print(f"{name:38}{spent:12.1f} s{reports / spent:14,.0f}/s{memory}")


def large_round(open_again: Callable[[], Store], name: str, reports: int) -> None:
    """A round of millions: filled, asked for its counts, loaded at start, sealed."""
    key, store = RoundKey(PLAN.name, 1, 1_000), open_again()
    store.register(PLAN)
    source, slowest = groups(10_000, seed=7), 0.0
    with measured(f"{name}: append in groups of 10,000", reports):
        for _ in range(reports // 10_000):
            group = next(source)
            start = time.perf_counter()
            store.append({key: group})
            slowest = max(slowest, time.perf_counter() - start)
    print(f"{'':38}{slowest * 1000:12.0f} ms for the slowest group")
    with measured(f"{name}: provisional counts", reports):
        store.counts(key)
    store.close()
    store = open_again()
    with measured(f"{name}: list rounds, as a reader", reports):
        store.rounds()
    with measured(f"{name}: load at start", reports):
        store.stored_reports()
    with measured(f"{name}: seal", reports):
        store.seal(key)
    store.close()


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--reports", type=int, default=10_000_000)
    parser.add_argument("--postgres", help="an empty database")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        opened: dict[str, Callable[[], Store]] = {
            "SQLite": lambda: open_store(f"sqlite:///{folder}/bench.db"),
            "lake": lambda: open_store(f"lake:///{folder}/lake"),
        }
        if chosen.postgres:
            opened["PostgreSQL"] = lambda: open_store(chosen.postgres)
        print(f"{LAYOUT.width} bytes per record\n\n{'':38}{'reports/s':>14}{'ratio':>10}")
        plain = {size: durable_writes(folder, size) for size in SIZES}
        for size, per_second in plain.items():
            print(f"{f'written and synced, groups of {size:,}':38}{per_second:14,.0f}{1:10.2f}")
        for name, open_again in opened.items():
            store = open_again()
            appending(store, name, plain)
            store.close()
        print(f"\nA round of {chosen.reports:,} reports")
        for name, open_again in opened.items():
            large_round(open_again, name, chosen.reports)


if __name__ == "__main__":
    main()
