"""
How long readers wait after a restart: 400 days of 12 metrics in 36 countries.

    python -m benchmarks history                    # some five minutes
    python -m benchmarks history --days 100 --keep /tmp/history

The collector is started again before each page, so that nothing is in memory. After that ten readers ask for the same
pages without a pause, and `/metrics` is scraped every tenth of a second beside them.

`--keep` names a folder in which the store stays for the next run. With `--without-results` the table of results is not
written, and all figures are computed from the counts.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import threading
import time
from collections import Counter
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
    "/?every=week",
    "/plans/history",
    f"{METRIC}/minutes_0",
    f"{METRIC}/minutes_0?rounds=1000",
    f"{METRIC}/minutes_0?rounds=1000&by=country",
    f"{METRIC}/minutes_0?every=week&by=country",
    f"{METRIC}/starts",
    f"{METRIC}/starts?every=week&by=country",
    f"{METRIC}/spread?rounds=1000",
    f"{METRIC}/spread.csv?every=week&by=country",
    "/public/history",
    "/public/history/spread",
    "/public/history/minutes_0.csv",
    "/v1/estimates?plan=history",
    "/v1/estimates?plan=history&every=week",
    "/v1/estimates?plan=history&metric=minutes_0&by=country&last=400",
    "/v1/estimates?plan=history&every=week&format=csv",
    "/v1/changes?plan=history&every=week&last=4",
    "/health",
    "/metrics",
)
COMMANDS = (
    ("export", "{folder}/weeks.csv", "--every", "week"),
    ("export", "{folder}/days.csv"),
    ("export", "{folder}/countries.csv", "--every", "week", "--metric", "minutes_0", "--by", "country"),
    ("estimate", "--every", "week", "--last", "4"),
)


def fill(url: str, days: int, reports: int, results: bool) -> None:
    """Sealed rounds up to yesterday, and the results of all periods."""
    plan = Plan.from_toml(PLAN)
    layout, draw = Layout(plan), np.random.default_rng(1)
    today = int(time.time()) // DAY
    with closing(open_store(url)) as store:
        store.register(plan)
        for number in range(today - 1 - days, today - 1):
            made = draw.integers(0, 256, (reports, layout.width), dtype=np.uint8)
            made[:, 17] %= 36
            made[:, -1] &= 256 - (1 << (-plan.bits % 8))
            key = RoundKey(plan.name, plan.version, number)
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
    plan.write_text(PLAN)
    return collector(url, "--public", "history", plan=plan)


def time_pages(url: str, folder: str) -> None:
    """Each page after a restart, and again."""
    print(f"{'page':<64} {'first, s':>9} {'again, s':>9} {'kB':>8}")
    for path in PAGES:
        with serve(url, folder) as service:
            first, size = ask(service.port, path)
            again, _ = ask(service.port, path)
            print(f"{path:<64} {first:>9.2f} {again:>9.2f} {size / 1000:>8.0f}", flush=True)


def time_commands(url: str, folder: str) -> None:
    """Commands on the store, with the start of Python."""
    for command in COMMANDS:
        words = [word.format(folder=folder) for word in command]
        begin = time.perf_counter()
        subprocess.run([RETICENT, *words, "--store", url], check=True, capture_output=True)  # noqa: S603
        shown = " ".join(word.rpartition("/")[2] for word in words)
        print(f"{'reticent ' + shown:<64} {time.perf_counter() - begin:>9.2f}", flush=True)


def time_metrics(url: str, folder: str, seconds: float) -> None:
    """Scrapes while ten readers never pause."""
    with serve(url, folder) as service:
        alone = sorted(ask(service.port, "/metrics")[0] for _ in range(20))
        stop, answers = threading.Event(), Counter[bool]()

        def read(place: int) -> None:
            draw = random.Random(place)
            while not stop.is_set():
                answers[ask(service.port, draw.choice(PAGES[:-1]))[0] >= 0] += 1

        readers = [threading.Thread(target=read, args=(place,)) for place in range(READERS)]
        for reader in readers:
            reader.start()
        beside = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            beside.append(ask(service.port, "/metrics")[0])
            time.sleep(0.1)
        stop.set()
        for reader in readers:
            reader.join()
    beside.sort()
    print("goal: each page and file within 1 s for the first time, /metrics within 100 ms")
    print(f"/metrics alone: median {1000 * alone[10]:.0f} ms, slowest {1000 * alone[-1]:.0f} ms")
    print(
        f"/metrics beside {READERS} readers who never pause ({answers[True]:,} pages, {answers[False]:,} times busy): "
        f"{len(beside)} scrapes, median {1000 * beside[len(beside) // 2]:.0f} ms, "
        f"99 % within {1000 * beside[int(0.99 * len(beside))]:.0f} ms, slowest {1000 * beside[-1]:.0f} ms"
    )


def main() -> None:
    """Fill a store, or take one that is there, and measure."""
    parser = arguments(__doc__)
    parser.add_argument("--days", type=int, default=400)
    parser.add_argument("--reports", type=int, default=10_000, help="In each of them.")
    parser.add_argument("--seconds", type=float, default=20.0, help="Of scrapes beside readers.")
    parser.add_argument("--keep", help="A folder for the store.")
    parser.add_argument("--without-results", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or temporary
        Path(folder).mkdir(exist_ok=True)
        url = f"sqlite:///{folder}/history.db"
        if not (Path(folder) / "history.db").exists():
            fill(url, given.days, given.reports, not given.without_results)
        time_pages(url, folder)
        time_commands(url, folder)
        time_metrics(url, folder, given.seconds)


if __name__ == "__main__":
    main()
