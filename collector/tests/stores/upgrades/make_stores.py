"""
Make the stores that every later version must open: a SQLite file, a dump of PostgreSQL, a lake, and what is in them.

    python -m collector.tests.stores.upgrades.make_stores FOLDER

They are made once by each version that changes a schema, from its own code, and never changed: a folder is
named after the schema's number. `expected.json` is the same for the three kinds.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from reticent.plan import Plan
from reticent.reports import Report
from reticent_collector.results import write_results
from reticent_collector.stores import Count, CountsByTags, Key, Layout, RoundKey, hash_of, open_store

PLAN = """
min_reports = 10
[plan]
name = "upgrades"
version = {version}
round = "1h"
[metrics.minutes]
kind = "mean"
max_value = 60
epsilon = 1.0
[metrics.files]
kind = "histogram"
max_value = {top}
buckets = 4
mechanism = "hadamard-bit"
epsilon = 1.0
[metrics.words]
kind = "histogram"
max_value = 100
buckets = 6
mechanism = "d-bit-flip"
bits = 3
epsilon = 1.0
[segments]
os = ["windows", "macos", "linux"]
"""
PLANS = [Plan.from_toml(PLAN.format(version=version, top=50 + version)) for version in (1, 2)]
FIRST = 500_016  # the first hour of a day
LATER = (FIRST + 24 * 40) * 3600.0  # when the hours, the day, the week and the month are over
KEYS = [
    Key("aaaa0001", "ingest", hash_of("reticent_ingest_aaaa0001_first"), "of the app", 1_700_000_000),
    Key("aaaa0002", "reader", hash_of("reticent_reader_aaaa0002_second"), "", 1_700_000_100, 1_700_000_200),
]
SEALED = (
    RoundKey("upgrades", 1, FIRST),
    RoundKey("upgrades", 1, FIRST + 1),
    RoundKey("upgrades", 2, FIRST + 3),
)
PRUNED = RoundKey("upgrades", 1, FIRST + 2)
OPEN = RoundKey("upgrades", 2, FIRST + 1000)
SIZES = {SEALED[0]: 300, SEALED[1]: 40, SEALED[2]: 120, PRUNED: 25, OPEN: 600}
COLUMNS = ("metric", "segment", "bucket", "value", "lower", "upper", "reports")  # of results


def reports_on(key: RoundKey, size: int) -> list[Report]:
    """The same reports each time."""
    plan = PLANS[key.version - 1]
    draws = random.Random(repr((*key, size)))
    reports = []
    for _ in range(size):
        bits = (draws.getrandbits(plan.bits) << (-plan.bits % 8)).to_bytes(plan.report_bytes)
        segment = {"os": draws.choice(["windows", "macos", "linux", "plan9"])}
        reports.append(
            Report(key.plan, key.version, key.round, draws.randbytes(16), bits, draws.randrange(256), segment)
        )
    return reports


def packed(key: RoundKey, reports: list[Report]) -> dict[RoundKey, bytes]:
    """Reports as a store takes them."""
    return {key: b"".join(map(Layout(PLANS[key.version - 1]).pack, reports))}


def as_rows(counts: CountsByTags) -> list[Any]:
    """Counts as JSON."""
    return json.loads(json.dumps(sorted(Count(0, counts).rows())))


def fill(url: str) -> dict[str, Any]:
    """Fill an empty store by two collectors; returns what is in it."""
    with closing(open_store(url)) as first, closing(open_store(url)) as second:
        for plan in PLANS:
            first.register(plan)
        for key in KEYS:
            first.add_key(key)
        for key, size in SIZES.items():
            reports = reports_on(key, size)
            half = size // 2
            second.append(packed(key, reports[: half + 5]))  # some reports reach both collectors
            first.append(packed(key, reports[half - 5 :]))
            first.append(packed(key, reports[:3]))
            if key == OPEN:
                first.take_step(key)
            else:
                first.seal(key)
        write_results(first, lambda: LATER)
        first.prune(PRUNED)
        write_results(first, lambda: LATER)
        first.append(packed(OPEN, reports_on(OPEN, 50)))
        first.take_step(OPEN)
    return content_of(url)


def content_of(url: str) -> dict[str, Any]:
    """What a store holds, as JSON."""
    with closing(open_store(url)) as store:
        table = store.table
        assert table is not None
        keys = list(store.keys())
        results = [
            [*period, sorted(([row[name] for name in COLUMNS] for row in table.results(period)), key=repr)]
            for period in sorted(table.written("upgrades"))
        ]
        return {
            "plans": [plan.text for plan in store.plans()],
            "keys": [
                [key.id, key.role, key.hash.hex(), key.label, key.created_at, key.revoked_at] for key in keys
            ],
            "rounds": [[*info.key, info.state] for info in store.rounds()],
            "sealed": [[*key, as_rows(store.counts(key))] for key in SEALED],
            "results": results,
        }


def main(folder: Path) -> None:
    """Make the stores of this version in a new folder."""
    from tests.shared.postgres import postgres_server

    folder.mkdir()
    expected = fill(f"sqlite:///{folder / 'store.db'}")
    lake = fill(f"lake:///{folder / 'lake'}")
    shutil.rmtree(folder / "lake" / "tmp")
    with postgres_server() as server:
        url = server.new_database()
        postgres = fill(url)
        dump = subprocess.run(
            [str(server.programs / "pg_dump"), "--inserts", "--no-owner", "--schema=reticent", url],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert expected == postgres == lake
    lines = (line for line in dump.stdout.splitlines() if line and not line.startswith(("--", "\\")))
    (folder / "store.sql").write_text("\n".join(lines) + "\n")
    (folder / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
