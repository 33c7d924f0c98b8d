"""
What readers cost those who send: the time until a single report is durable, alone and while readers ask for much.

    python -m benchmarks.readers

Three readers page through months of rounds, apart by segment, as fast as they are answered. One device after the
other sends its report meanwhile. All is one run on one machine: the ratio is the figure.

Before that, what it costs to write the table of results of 1,000 rounds, and the longest page of the dashboard: a
mean in all of them, apart by segment, first and again. After it, the rate of single reports alone and beside ten
people, each of whom opens a page of the dashboard every ten seconds, and every second. They have opened each page
before, since a period is computed once; what that took is printed.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from http.client import HTTPConnection

from benchmarks.load import PLAN, collector, ndjson, records, singles, this_round
from reticent_collector.results import write_results
from reticent_collector.stores import RoundKey, open_store

ROUNDS, REPORTS, READERS, SECONDS = 1000, 2_000, 3, 8.0
FORMS = ("json", "csv", "arrow")


def latencies(port: int, seconds: float) -> list[float]:
    """Milliseconds until each of many single reports was acknowledged, one after the other."""
    connection, found = HTTPConnection("127.0.0.1", port, timeout=60), []
    bodies = iter(ndjson(100_000).splitlines())
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.perf_counter()
        connection.request("POST", "/v1/reports", next(bodies), {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        assert response.status == 202, response.status
        found.append(1000 * (time.perf_counter() - begin))
        time.sleep(0.002)
    return sorted(found)


def page(port: int, place: int, stop: threading.Event, answers: Counter[int]) -> None:
    """Read all rounds again and again, as much at once as the collector gives."""
    connection, draw = HTTPConnection("127.0.0.1", port, timeout=120), random.Random(place)
    at_once = 20_000 // (5 * sum(max(1, len(metric.mechanism.points) - 1) for metric in PLAN.metrics))
    newest = this_round() - 3
    while not stop.is_set():
        last = newest - draw.randrange(ROUNDS - at_once)
        path = f"/v1/estimates?plan={PLAN.name}&by={PLAN.segments[0].name}&round={last - at_once + 1}-{last}"
        connection.request("GET", f"{path}&format={FORMS[place % 3]}")
        response = connection.getresponse()
        response.read()
        answers[response.status] += 1


def visited() -> list[str]:
    """The pages that people open: each metric by day, week and round, apart by segment, and the pages about all."""
    pages = ["/", "/health", *(f"/plans/{PLAN.name}/metrics/{metric.name}" for metric in PLAN.metrics)]
    segment = PLAN.segments[0].name
    return [f"{page}?every={every}&by={segment}" for page in pages for every in ("day", "week", "round")]


def open_page(connection: HTTPConnection, path: str) -> None:
    """One page of the dashboard, which has to be there."""
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    assert response.status == 200, (path, response.status)


def visit(port: int, place: int, pause: float, stop: threading.Event) -> None:
    """Open one page of the dashboard after the other, with a pause between them."""
    connection, draw = HTTPConnection("127.0.0.1", port, timeout=120), random.Random(place)
    stop.wait(pause * place / 10)
    while not stop.wait(pause):
        open_page(connection, draw.choice(visited()))


def rates(port: int, pause: float) -> list[tuple[float, float]]:
    """Single reports a second over 64 connections, alone and beside ten people, by turns."""
    singles([port], 64, 2.0)
    measured = []
    for _ in range(5):
        alone, stop = singles([port], 64, 5.0), threading.Event()
        threads = [threading.Thread(target=visit, args=(port, place, pause, stop)) for place in range(10)]
        for thread in threads:
            thread.start()
        time.sleep(pause)
        measured.append((alone, singles([port], 64, 5.0)))
        stop.set()
        for thread in threads:
            thread.join()
    return measured


def longest_page(port: int) -> tuple[float, float, int]:
    """Seconds until the page is there for the first time, and again, and its bytes."""
    connection, seconds, size = HTTPConnection("127.0.0.1", port, timeout=120), [], 0
    query = f"every=round&rounds={ROUNDS}&by={PLAN.segments[0].name}"
    for _ in range(6):
        begin = time.perf_counter()
        connection.request("GET", f"/plans/{PLAN.name}/metrics/{PLAN.metrics[0].name}?{query}")
        response = connection.getresponse()
        size = len(response.read())
        assert response.status == 200, response.status
        seconds.append(time.perf_counter() - begin)
    return seconds[0], min(seconds[1:]), size


def main() -> None:
    """Fill a store, then measure twice."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/readers.db"
        store = open_store(url)
        store.register(PLAN)
        for number in range(this_round() - 2 - ROUNDS, this_round() - 2):
            key = RoundKey(PLAN.name, PLAN.version, number)
            store.append({key: records(REPORTS).tobytes()})
            store.seal(key)
        store.close()
        with collector(url) as service:  # which finds 1,000 rounds without results
            late = latencies(service.port, SECONDS)
            rate = singles([service.port], 64, SECONDS)
            print(
                f"while results of {ROUNDS:,} rounds are written: a report is durable after "
                f"{late[len(late) // 2]:.1f} ms at the median, {late[-1]:.1f} ms at most; "
                f"{rate:,.0f} single reports a second"
            )
        with closing(open_store(url)) as store:
            write_results(store)  # the rest of them
        with collector(url) as service:
            before = service.memory
            cold, warm, size = longest_page(service.port)
            print(
                f"a page of {ROUNDS:,} rounds by segment: {cold:.2f} s, then {warm:.3f} s; {size / 1000:.0f} kB"
            )
            print(
                f"memory of the collector: {before / 1e6:.0f} MB before it, {service.memory / 1e6:.0f} MB after it"
            )
            latencies(service.port, 1.0)
            alone = latencies(service.port, SECONDS)
            stop, answers = threading.Event(), Counter[int]()
            readers = [
                threading.Thread(target=page, args=(service.port, place, stop, answers))
                for place in range(READERS)
            ]
            for reader in readers:
                reader.start()
            beside = latencies(service.port, SECONDS)
            stop.set()
            for reader in readers:
                reader.join()
            begin, connection = service.cpu_seconds, HTTPConnection("127.0.0.1", service.port, timeout=120)
            for path in visited():
                open_page(connection, path)
            print(
                f"{len(visited())} pages, each for the first time: {service.cpu_seconds - begin:.1f} s of CPU"
            )
            pairs_of = {pause: rates(service.port, pause) for pause in (10.0, 1.0)}
    print(f"{READERS} readers, {ROUNDS:,} rounds: answers {dict(answers)}")
    print(f"{'a report is durable after, in ms':<36} {'alone':>10} {'beside':>10} {'ratio':>8}")
    for name, share in (("median", 0.5), ("99 %", 0.99), ("slowest", 1.0)):
        one, other = (times[min(len(times) - 1, int(share * len(times)))] for times in (alone, beside))
        print(f"{name:<36} {one:>10.2f} {other:>10.2f} {other / one:>8.1f}")
    for pause, pairs in pairs_of.items():
        ratios = sorted(other / one for one, other in pairs)
        print(
            f"single reports a second, alone and beside ten people with a page every {pause:.0f} s: ", end=""
        )
        print("; ".join(f"{one:,.0f} and {other:,.0f}" for one, other in pairs))
        print(f"ratio: {ratios[len(ratios) // 2]:.2f} at the median, {ratios[0]:.2f} to {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
