"""
The whole system at size: a fleet, a relay, a collector, a lake, and two engines that seal it.

    python -m benchmarks.whole [--reports 100000000] [--folder FOLDER] [--out FILE]

The 20 apps of examples/windows-deployment.toml are asked with sampled answers: one report per device and window of
28 rounds, so 100 million reports are those of 100 million devices in 2.8 billion device-rounds. Rounds last two
seconds instead of six hours, and the grace is as long as the sending takes, so that a real collector takes them all.
One report in twenty goes through a relay. After the grace DuckDB seals half of the rounds and a Spark cluster with
two workers the other half. Then every count is compared with what was sent, and every interval with the truth.

FOLDER needs room for 24 bytes of Parquet per report, 2.4 GB for 100 million, and for the engines' temporary files.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from tests.shared.spark import spark_cluster

from benchmarks.load import RETICENT, arguments, collector, relay
from reticent.plan import Plan
from reticent.reports import packed_header
from reticent_collector.estimates import estimate
from reticent_collector.stores import RoundKey, open_store
from reticent_lab.fleet import VectorisedFleet, send_packed

ROOT = Path(__file__).parents[1]
BLOCK = 1_000_000
ROUND, ROUNDS = 2, 28
THROUGH_RELAY = 20
"""One block of so many goes through the relay."""
SENDING = 100_000
"""Reports a second that the grace allows for, at least."""


def plan_text(reports: int) -> str:
    """The deployment of section 6, with sampled answers, short rounds and a grace for the sending."""
    text = (ROOT / "examples/windows-deployment.toml").read_text()
    text = re.sub(r"^(step|flip) = .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^round = .*$", f'round = "{ROUND}s"', text, flags=re.MULTILINE)
    text = re.sub(
        r"^grace = .*$",
        f'grace = "{60 + 2 * ROUND * ROUNDS + reports // SENDING}s"',
        text,
        flags=re.MULTILINE,
    )
    return f'{text}\n[answers]\nkind = "sampled"\nwindow = "{ROUND * ROUNDS}s"\n'


class Fleet:
    """Devices in blocks; what they sent, and the truth about all of them."""

    def __init__(self, plan: Plan, first: int) -> None:
        self.plan, self.first = plan, first
        self.reports = np.zeros(ROUNDS, np.int64)
        self.ones = np.zeros((ROUNDS, len(plan.metrics)), np.int64)
        self.sums = np.zeros((ROUNDS, len(plan.metrics)))

    def batches(self, number: int, devices: int) -> Any:
        """The packed reports of one block, round by round. Use follows the time of day: four slots."""
        random = np.random.default_rng([2017, number])
        names = [metric.name for metric in self.plan.metrics]
        users = random.random((len(names), devices), np.float32) < 0.15
        seconds = random.exponential(4000, (len(names), devices)).astype(np.int32) * users
        slots = [seconds * weight // 4 for weight in (1, 3, 4, 2)]
        # What devices answer about: the group's limit scales down what exceeds it.
        scaled = [slot * np.minimum(1, 21600 / np.maximum(1, slot.sum(axis=0))) for slot in slots]
        means = [slot.sum(axis=1, dtype=np.float64) for slot in scaled]
        fleet = VectorisedFleet(self.plan, devices, seed=7, first=number * BLOCK)
        for place in range(ROUNDS):
            batch = fleet.packed(self.first + place, dict(zip(names, slots[place % 4], strict=True)))
            head = packed_header(batch)
            records = np.frombuffer(batch, np.uint8, offset=head.start).reshape(-1, head.width)
            bits = np.unpackbits(records[:, -((len(names) + 7) // 8) :], axis=1)[:, : len(names)]
            self.reports[place] += len(records)
            self.ones[place] += bits.sum(axis=0, dtype=np.int64)
            self.sums[place] += means[place % 4]
            yield batch


def send(fleet: Fleet, devices: int, collector: str, relay: str) -> float:
    """Make and send all reports, one block being made while another is sent; returns the seconds it took."""
    begun, done, accepted = time.monotonic(), 0, 0
    with ThreadPoolExecutor(2) as senders:
        waiting: list[Future[int]] = []
        for number in range(-(-devices // BLOCK)):
            size = min(BLOCK, devices - number * BLOCK)
            target = relay if number % THROUGH_RELAY == 1 else collector
            for batch in fleet.batches(number, size):
                waiting.append(senders.submit(send_packed, target, batch))
                while len(waiting) > 4:
                    accepted += waiting.pop(0).result()
            done += size
            rate = done / (time.monotonic() - begun)
            print(f"{done:>13,} reports made and sent, {rate:,.0f} a second", flush=True)
        accepted += sum(future.result() for future in waiting)
    if accepted != fleet.reports.sum():
        raise SystemExit(f"{accepted:,} of {fleet.reports.sum():,} reports were accepted")
    return time.monotonic() - begun


def seal(lake: Path, numbers: list[int], *engine: str) -> float:
    """Seal some rounds with an engine; returns the seconds it took."""
    rounds = [word for number in numbers for word in ("--round", str(number))]
    begun = time.monotonic()
    command = [RETICENT, "count", f"lake:///{lake}", "--seal", "--json"]
    subprocess.run([*command, *rounds, *engine], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return time.monotonic() - begun


def compare(store: Any, fleet: Fleet, devices: int) -> dict[str, Any]:
    """Every count against what was sent, and every interval against the truth."""
    covered = numbers = 0
    for place in range(ROUNDS):
        (by_metric,) = store.counts(RoundKey(fleet.plan.name, 1, fleet.first + place)).values()
        for column, metric in enumerate(fleet.plan.metrics):
            counts = by_metric[metric.name]
            sent = (int(fleet.reports[place]), int(fleet.ones[place, column]))
            if (counts.reports, counts.ones) != sent:
                raise SystemExit(f"round {place}, {metric.name}: counted {counts}, sent {sent}")
            figure = estimate(metric, counts)
            truth = fleet.sums[place, column] / devices
            covered += bool(figure.lower <= truth <= figure.upper)
            numbers += 1
    return {"counts equal": numbers, "intervals that hold the truth": covered}


def run(devices: int, folder: Path) -> dict[str, Any]:
    """All of it; what was measured."""
    text, lake = plan_text(devices), folder / "lake"
    (folder / "plan.toml").write_text(text)
    plan = Plan.from_toml(text)
    window = plan.answers.window_of(int(time.time()) // ROUND - ROUNDS, ROUND)
    assert window is not None
    fleet = Fleet(plan, window.first)
    path = folder / "plan.toml"
    with (
        collector(f"lake:///{lake}", "--no-seal", plan=path) as server,
        relay(server.url, "--timeout", "60", plan=path) as through,
    ):
        sending = send(fleet, devices, server.url, through.url)
        peak = server.peak_memory
    stored = sum(path.stat().st_size for path in lake.rglob("*.parquet"))
    closes = plan.round(fleet.first + ROUNDS - 1).closes + 1
    while (left := closes - time.time()) > 0:
        print(f"the grace is over in {left:,.0f} s", flush=True)
        time.sleep(min(left, 30))
    rounds = [*range(fleet.first, fleet.first + ROUNDS)]
    half = ROUNDS // 2
    duckdb = seal(lake, rounds[:half], "--engine", "duckdb")
    print(f"DuckDB sealed {half} rounds in {duckdb:,.1f} s", flush=True)
    with spark_cluster(workers=2, memory="2560m") as cluster:
        engine = ("--engine", "spark", "--master", cluster.url, "--conf", "spark.executor.memory=2g")
        spark = seal(lake, rounds[half:], *engine)
    print(f"Spark sealed {half} rounds in {spark:,.1f} s", flush=True)
    store = open_store(f"lake:///{lake}", readonly=True)
    checked = compare(store, fleet, devices)
    return {
        "reports": int(fleet.reports.sum()),
        "device-rounds": devices * ROUNDS,
        "sent in s": round(sending, 1),
        "reports a second, made, sent and durable": round(devices / sending),
        "collector's peak memory, MiB": peak // 2**20,
        "bytes of Parquet per report": round(stored / devices, 2),
        "DuckDB: reports": int(fleet.reports[:half].sum()),
        "DuckDB: s": round(duckdb, 1),
        "Spark, two workers: reports": int(fleet.reports[half:].sum()),
        "Spark, two workers: s": round(spark, 1),
        **checked,
    }


def main() -> None:
    """Run it, print a table, and write it as JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--reports", type=int, default=100_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=None, help="write what was measured there, as JSON")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="reticent-whole-", dir=chosen.folder))
    begun = time.monotonic()
    try:
        measured = run(chosen.reports, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    measured["whole run, s"] = round(time.monotonic() - begun)
    for name, figure in measured.items():
        print(f"{name:>45}  {figure:,}")
    if chosen.out:
        chosen.out.write_text(json.dumps(measured, indent=2) + "\n")


if __name__ == "__main__":
    main()
