"""
How long readers wait after a restart: 400 days of 12 metrics in 36 countries.

    python -m benchmarks history                    # some eight minutes, most of them to fill the store
    python -m benchmarks history --keep history     # the folder keeps the store for the next run
    python -m benchmarks history --keep history --part metrics

The collector is started again before each page, so that nothing is in memory. After that ten readers ask for the same
pages without a pause, and every tenth of a second what monitors and devices ask for is timed beside them.

A new version of the plan begins after the first 250 days. Half of the metrics rise or fall all the time and the others
stay as they are: comparisons are worked out where figures differ. With `--without-results` the table of results is
not written, and all figures are computed from the counts.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import numpy as np

from benchmarks.load import RETICENT, Process, arguments, collector
from reticent.plan import Plan
from reticent_collector.results import write_results
from reticent_collector.stores import Layout, RoundKey, open_store

DAY = 86_400
READERS = 10
NEW_VERSION = 250
"""Days after which the second version of the plan begins."""
MEAN = """
[metrics.minutes_{number}]
kind = "mean"
unit = "minute"
max_value = 1440
epsilon = 1.0
flip = 0.1
"""
PLAN = (
    """
[plan]
name = "history"
version = 1
round = "1d"
grace = "1h"

[segments]
country = [{countries}]
"""
    + "".join(MEAN.format(number=number) for number in range(8))
    + """
[metrics.starts]
kind = "histogram"
edges = [0, 1, 2, 4, 8, 16, 32, 64]
mechanism = "d-bit-flip"
bits = 2
epsilon = 4.0

[metrics.spread]
kind = "histogram"
unit = "minute"
max_value = 1440
buckets = 8
mechanism = "hadamard-bit"
epsilon = 2.0

[metrics.theme]
kind = "choice"
labels = ["light", "dark", "own"]
mechanism = "hadamard-bit"
epsilon = 2.0

[metrics.crashed]
kind = "flag"
epsilon = 1.0
"""
).replace("{countries}", ", ".join(f'"c{number:02}"' for number in range(36)))

METRIC = "/plans/history/metrics"
PAGES = (
    "/",
    "/?every=day&rounds=366",
    "/?every=month",
    "/plans/history",
    "/plans/history/what-if",
    f"{METRIC}/minutes_0",
    f"{METRIC}/minutes_0?every=day&rounds=1000",
    f"{METRIC}/minutes_0?every=round&rounds=1000",
    f"{METRIC}/minutes_0?every=day&rounds=1000&by=country",
    f"{METRIC}/minutes_0?every=week&by=country",
    f"{METRIC}/minutes_0?every=week&against=year",
    f"{METRIC}/minutes_0?every=week&segment=country:c01",
    f"{METRIC}/minutes_0?every=week&version=1",
    f"{METRIC}/minutes_1",
    f"{METRIC}/starts",
    f"{METRIC}/starts?every=week&by=country",
    f"{METRIC}/starts?every=day&rounds=1000&by=country",
    f"{METRIC}/spread?every=day&rounds=1000",
    f"{METRIC}/theme?every=week&by=country",
    f"{METRIC}/crashed?every=week&by=country",
    f"{METRIC}/minutes_0.svg?every=day&rounds=1000&by=country",
    f"{METRIC}/spread.csv?every=week&by=country",
    f"{METRIC}/minutes_0.csv?every=day&rounds=1000&by=country",
    "/public/history",
    "/public/history.json",
    "/public/history/spread",
    "/public/history/minutes_0.csv",
    "/public/history/minutes_0/chart.svg",
    "/v1/plans",
    "/v1/rounds?last=1000",
    "/v1/estimates?plan=history",
    "/v1/estimates?plan=history&every=day",
    "/v1/estimates?plan=history&metric=minutes_0&every=day&by=country&last=400",
    "/v1/estimates?plan=history&every=week&format=csv",
    "/v1/estimates?plan=history&every=week&format=arrow",
    "/v1/changes?plan=history&every=week&last=4",
    "/v1/changes?plan=history&metric=minutes_0&every=week",
    "/v1/differences?plan=history&metric=minutes_0&every=week&by=country&baseline=c00",
    "/v1/trends?plan=history&every=week",
    "/health",
    "/metrics",
)
COMPUTED = (
    "/?confidence=99",
    f"{METRIC}/minutes_0?every=week&confidence=99",
    f"{METRIC}/minutes_0?every=week&by=country&confidence=99",
    f"{METRIC}/starts?every=week&by=country&confidence=99",
    f"{METRIC}/starts?every=week&by=country&version=1",
)
"""Figures that are not in the table of results: of another confidence, or of one version of the plan with tags."""
MONITORED = ("/metrics", "/health", "/readyz", "/healthz", "/v1/plans")
COMMANDS = (
    ("export", "{folder}/weeks.csv", "--every", "week"),
    ("export", "{folder}/days.csv", "--every", "day"),
    ("export", "{folder}/countries.csv", "--every", "week", "--metric", "minutes_0", "--by", "country"),
    ("export", "{folder}/days.parquet", "--every", "day"),
    ("estimate", "--every", "week", "--last", "4"),
    ("compare", "--metric", "minutes_0", "--by", "country", "--baseline", "c00"),
)


def fill(url: str, days: int, reports: int, results: bool) -> None:
    """Sealed rounds up to yesterday, and the results of all periods."""
    versions = [Plan.from_toml(PLAN), Plan.from_toml(PLAN.replace("version = 1", "version = 2"))]
    layout, draw = Layout(versions[0]), np.random.default_rng(1)
    slopes = np.repeat(
        [(-1) ** (place // 2) * (place % 2 == 0) for place in range(len(versions[0].metrics))],
        [metric.bits for metric in versions[0].metrics],
    )
    today = int(time.time()) // DAY
    with closing(open_store(url)) as store:
        for plan in versions:
            store.register(plan)
        for place in range(days):
            plan = versions[place >= NEW_VERSION]
            made = draw.integers(0, 256, (reports, layout.width), dtype=np.uint8)
            made[:, 17] %= 36
            chances = 0.5 + slopes * (place / 400 - 0.5) / 4
            bits = np.packbits(draw.random((reports, plan.bits)) < chances, axis=1)
            made[:, -bits.shape[1] :] = bits
            key = RoundKey(plan.name, plan.version, today - 1 - days + place)
            store.append({key: made.tobytes()})
            store.seal(key)
        begin = time.perf_counter()
        periods = write_results(store) if results else 0
        print(f"results of {periods:,} periods written in {time.perf_counter() - begin:.0f} s")


def ask(port: int, path: str) -> tuple[float, int]:
    """Seconds until a page is there, and its bytes."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
        begin = time.perf_counter()
        connection.request("GET", path)
        response = connection.getresponse()
        size = len(response.read())
        assert response.status in (200, 503), (path, response.status)
        return (time.perf_counter() - begin if response.status == 200 else -1.0), size


def serve(url: str, folder: str) -> Process:
    """A collector that was started just now."""
    plan = Path(folder) / "plan.toml"
    plan.write_text(PLAN.replace("version = 1", "version = 2"))
    return collector(url, "--public", "history", plan=plan)


def time_pages(url: str, folder: str, paths: Sequence[str]) -> None:
    """Each page after a restart, and again."""
    print(f"{'page':<84} {'first, s':>9} {'again, s':>9} {'kB':>8}")
    slowest = 0.0
    for path in paths:
        with serve(url, folder) as service:
            first, size = ask(service.port, path)
            again, _ = ask(service.port, path)
            slowest = max(slowest, first)
            print(f"{path:<84} {first:>9.2f} {again:>9.2f} {size / 1000:>8.0f}", flush=True)
    print(f"the slowest of them: {slowest:.2f} s")


def time_commands(url: str, folder: str) -> None:
    """Commands on the store, with the start of Python."""
    for command in COMMANDS:
        words = [word.format(folder=folder) for word in command]
        begin = time.perf_counter()
        subprocess.run([RETICENT, *words, "--store", url], check=True, capture_output=True)  # noqa: S603
        shown = " ".join(word.rpartition("/")[2] for word in words)
        print(f"{'reticent ' + shown:<84} {time.perf_counter() - begin:>9.2f}", flush=True)


def time_monitoring(url: str, folder: str, seconds: float) -> None:
    """What programs watch a collector by, alone and while ten readers never pause."""
    with serve(url, folder) as service:
        first = ask(service.port, "/metrics")[0]
        alone = {path: sorted(ask(service.port, path)[0] for _ in range(20)) for path in MONITORED}
        stop, answers = threading.Event(), Counter[bool]()

        def read(place: int) -> None:
            draw = random.Random(place)
            while not stop.is_set():
                answers[ask(service.port, draw.choice(PAGES[:-1]))[0] >= 0] += 1

        readers = [threading.Thread(target=read, args=(place,)) for place in range(READERS)]
        for reader in readers:
            reader.start()
        beside: dict[str, list[float]] = {path: [] for path in MONITORED}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for path, times in beside.items():
                times.append(ask(service.port, path)[0])
            time.sleep(0.1)
        stop.set()
        for reader in readers:
            reader.join()
    print(f"the first /metrics after a start: {1000 * first:.0f} ms")
    print(f"beside {READERS} readers who never pause: {answers[True]:,} pages, {answers[False]:,} times busy")
    print(
        f"{'ms':<12} {'alone: median':>15} {'slowest':>9} {'beside: median':>16} {'99 %':>9} {'slowest':>9} {'of':>6}"
    )
    for path, times in beside.items():
        times.sort()
        one, other = (
            [1000 * found[min(len(found) - 1, int(share * len(found)))] for share in (0.5, 0.99, 1.0)]
            for found in (alone[path], times)
        )
        print(
            f"{path:<12} {one[0]:>15.0f} {one[2]:>9.0f} {other[0]:>16.0f} {other[1]:>9.0f} {other[2]:>9.0f}"
            f" {len(times):>6}"
        )


def main() -> None:
    """Fill a store, or take one that is there, and measure."""
    parser = arguments(__doc__)
    parser.add_argument("--days", type=int, default=400)
    parser.add_argument("--reports", type=int, default=10_000, help="In each of them.")
    parser.add_argument("--seconds", type=float, default=20.0, help="Of scrapes beside readers.")
    parser.add_argument("--keep", help="A folder for the store.")
    parser.add_argument("--without-results", action="store_true")
    parser.add_argument("--part", choices=["pages", "metrics"], help="One half of it.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or temporary
        Path(folder).mkdir(exist_ok=True)
        url = f"sqlite:///{folder}/history.db"
        if not (Path(folder) / "history.db").exists():
            fill(url, given.days, given.reports, not given.without_results)
        print("goal: each page and file within 1 s for the first time, /metrics within 100 ms beside readers")
        if given.part != "metrics":
            time_pages(url, folder, PAGES)
            time_commands(url, folder)
            print("not in the table of results, so computed from the counts:")
            time_pages(url, folder, COMPUTED)
        if given.part != "pages":
            time_monitoring(url, folder, given.seconds)


if __name__ == "__main__":
    main()
