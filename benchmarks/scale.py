"""
Sealing a large round of a lake: DuckDB, its count by hand, PyArrow, and Spark on one worker and on two.

    python -m benchmarks.scale [--reports 10000000,100000000] [--folder FOLDER] [--engines hand,duckdb,arrow,spark]
    python -m benchmarks.scale --reports 40000000,100000000 --engines hand,duckdb    # at most 1.25 times by hand
    python -m benchmarks.scale --reports 8000000 --per-file 4000000 --engines hand,duckdb    # larger parts

The lake is made in a folder of its own inside FOLDER, some 25 bytes per report, and deleted afterwards. Each
engine runs in a process of its own, on links to the same files; executors of Spark get 2 GiB each.
Times are of the whole seal, from its first file to the removal of the reports; by hand, of the query alone. Neither
has the start of Java, nor the making of the lake.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tests.shared.spark import spark_cluster

from benchmarks.load import arguments
from reticent.plan import Plan
from reticent_collector.stores import RoundKey, open_store
from reticent_lake.frames import Arrow, CountingEngine, DuckDB, Spark, seal_lake, spark_session
from reticent_lake.store import Columns, Part, folder_of

PLAN = Plan.from_toml(
    '[plan]\nname = "scale"\nversion = 1\nround = "6h"\n'
    '[metrics.seconds]\nkind = "mean"\nmax_value = 21600\nepsilon = 1.0\n'
    '[metrics.hours]\nkind = "histogram"\nmax_value = 21600\nbuckets = 32\n'
    'mechanism = "hadamard-bit"\nepsilon = 1.0\n'
)
KEY = RoundKey(PLAN.name, 1, 81_652)
PER_FILE = 1_000_000
REPEATED = 0.05
"""The share of reports that two collectors took."""

BY_HAND = """
SELECT cohort, count(*), sum((bits >> 7) & 1), sum((bits >> 6) & 1)
FROM (
    SELECT min(cohort::BIGINT << 8 | bits_0) >> 8 AS cohort, min(cohort::BIGINT << 8 | bits_0) & 255 AS bits
    FROM read_parquet({files})
    GROUP BY id_high, id_low
)
GROUP BY cohort
"""
"""Written by hand for this one plan, with knowledge of the schema, DuckDB and the rule for duplicates."""


def make_lake(folder: Path, reports: int, per_file: int = PER_FILE) -> None:
    """A round of so many distinct reports, and then some of each file once more."""
    store = open_store(f"lake:///{folder}")
    store.register(PLAN)
    store.close()
    columns, draws = Columns(PLAN), np.random.default_rng(1)
    target = folder / folder_of(KEY)
    target.mkdir(parents=True)
    for number, start in enumerate(range(0, reports, per_file), 1):
        rows = draws.integers(0, 256, (min(per_file, reports - start), columns.layout.width), dtype=np.uint8)
        rows[:, -1] &= 0xC0
        again = rows[: int(len(rows) * REPEATED)]
        for writer, part in enumerate((rows, again)):
            if len(part):
                name = Part(f"{writer:032x}", number, number, len(part)).name
                (target / name).write_bytes(columns.encode(KEY, part))
    os.sync()  # as the parts of a collector are: else the seal, which syncs, would wait for them


def by_hand(folder: Path) -> tuple[float, int]:
    """Seconds and reports of the query above, with the settings that reticent uses."""
    import duckdb

    files = [str(path) for path in sorted((folder / folder_of(KEY)).iterdir())]
    with tempfile.TemporaryDirectory(dir=folder) as spilled:
        settings = {"memory_limit": "2GiB", "temp_directory": spilled, "preserve_insertion_order": False}
        connection = duckdb.connect(":memory:", config=settings)
        start = time.perf_counter()
        rows = connection.execute(BY_HAND.format(files=files)).fetchall()
        return time.perf_counter() - start, sum(row[1] for row in rows)


def by_engine(folder: Path, engine: CountingEngine) -> tuple[float, int]:
    """Seconds and reports of a seal, all checks of the files included; of a copy, because it removes them."""
    copy = folder.with_name(f"{folder.name}-sealed")
    shutil.copytree(folder, copy, copy_function=os.link)
    try:
        store = open_store(f"lake:///{copy}")
        start = time.perf_counter()
        (sealed,) = seal_lake(store, [KEY], engine)
        seconds = time.perf_counter() - start
        assert sealed.state == "sealed", sealed.problem
        return seconds, sealed.reports
    finally:
        shutil.rmtree(copy)


def by_spark(folder: Path, workers: int) -> tuple[float, int]:
    """The same on a cluster of this machine, once Java has warmed up on a smaller round that is not timed."""
    small = folder.with_name(f"{folder.name}-small")
    with (
        spark_cluster(workers, memory="2g", folder=folder.parent) as cluster,
        spark_session(cluster.url, {"spark.executor.memory": "2g"}) as spark,
    ):
        if not small.exists():
            make_lake(small, 4_000_000, per_file=200_000)
        for _ in range(2):
            by_engine(small, Spark(spark))
        return by_engine(folder, Spark(spark))


RUNS = {
    "hand": by_hand,
    "duckdb": lambda folder: by_engine(folder, DuckDB(folder=str(folder.parent))),
    "arrow": lambda folder: by_engine(folder, Arrow()),
    "spark1": lambda folder: by_spark(folder, 1),
    "spark2": lambda folder: by_spark(folder, 2),
}


def alone(name: str, folder: Path) -> dict[str, float]:
    """One run in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, "-m", "benchmarks.scale", "--run", name, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(name: str, folder: Path) -> None:
    """What `alone` starts: prints seconds, reports, and what the process used."""
    seconds, reports = RUNS[name](folder)
    used = resource.getrusage(resource.RUSAGE_SELF)
    costs = {"peak": used.ru_maxrss / 1024, "cpu": used.ru_utime + used.ru_stime}
    print(json.dumps({"seconds": seconds, "reports": reports, **costs}))


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--reports", default="5000000", help="one number, or several with commas")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--engines", default="hand,duckdb,arrow,spark")
    parser.add_argument("--per-file", type=int, default=PER_FILE, help="rows of a part")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.run:
        run(chosen.run, chosen.folder)
        return
    for reports in map(int, chosen.reports.split(",")):
        place = Path(tempfile.mkdtemp(prefix="reticent-scale-", dir=chosen.folder))
        try:
            engines = chosen.engines.replace("spark", "spark1,spark2").split(",")
            report(place / "lake", reports, chosen.per_file, engines)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def report(lake: Path, reports: int, per_file: int, names: list[str]) -> None:
    """Make the lake, run all, and compare."""
    start = time.perf_counter()
    make_lake(lake, reports, per_file)
    size = sum(path.stat().st_size for path in lake.rglob("*.parquet")) / 1e9
    made = f"{size:.2f} GB, made in {time.perf_counter() - start:.0f} s"
    print(f"{reports:,} reports, {REPEATED:.0%} of them twice; {made}\n")
    print(f"{'':12}{'seconds':>10}{'M reports/s':>14}{'CPU seconds':>14}{'peak MiB':>12}")
    found = {}
    for name in names:
        found[name] = alone(name, lake)
        assert found[name]["reports"] == reports, found[name]
        seconds, peak = found[name]["seconds"], found[name]["peak"]
        # Of Spark, this process has no part but the question.
        shown = "" if name.startswith("spark") else f"{found[name]['cpu']:14.1f}{peak:12,.0f}"
        print(f"{name:12}{seconds:10.1f}{reports / seconds / 1e6:14.2f}{shown}", flush=True)
    for name, other in (("duckdb", "hand"), ("spark2", "spark1")):
        if {name, other} <= found.keys():
            ratio, cpu = (found[name][of] / found[other][of] for of in ("seconds", "cpu"))
            of_cpu = "" if name.startswith("spark") else f", {cpu:.2f} of CPU time"
            print(f"\n{name} / {other}: {ratio:.2f}{of_cpu}", end="")
    print()


if __name__ == "__main__":
    main()
