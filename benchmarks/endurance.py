"""
Half an hour at the rate that the documentation claims: does it keep up, stay small, and count exactly?

    python -m benchmarks.endurance --minutes 30 --rate 15000 --out endurance
    python -m benchmarks.endurance --minutes 1                      # a look
    python -m benchmarks.endurance --crowd                          # idle and slow clients beside honest ones

A real `reticent serve` on a store of its own (or --store), single reports as JSON, due at fixed times, latency
counted from then. Rounds are short, so that they are sealed while the load goes on. Writes OUT.json and
OUT.png. Exit code 1 when a claim is missed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks import crowd
from benchmarks.load import PLAN_FILE, Process, arguments, collector
from benchmarks.open_loop import OpenLoop
from benchmarks.requests import Requests
from reticent.plan import Plan
from reticent_collector.plots import COLOURS, drawing, panels, save
from reticent_collector.stores import RoundKey, open_store

ROUNDS = 15
"""In a run, whatever its length; each has half its length of grace."""
WINDOWS = 60
"""Parts of a run whose latencies are shown apart."""
LEVELS = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}
LEAST_RATE = 0.99
MOST_P99_MS = 100.0
MOST_GROWTH = 1.02
"""Memory in the last third to memory in the middle one, medians; in the first, rounds still fill up."""


@dataclass(slots=True)
class Watch:
    """What the collector used, sampled."""

    seconds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    """MiB that are resident."""

    def look(self, at: float, process: Process) -> None:
        """Take a sample."""
        self.seconds.append(at)
        self.memory.append(process.memory / 2**20)

    def summary(self) -> dict[str, float]:
        """Medians of each third, and the slope of a line through the second half."""
        third, half = max(1, len(self.memory) // 3), len(self.memory) // 2
        slope = float(np.polyfit(self.seconds[half:], self.memory[half:], 1)[0]) if half > 1 else 0.0
        parts = self.memory[:third], self.memory[third:-third] or self.memory, self.memory[-third:]
        first, middle, last = (float(np.median(part)) for part in parts)
        return {
            "first_third_mib": round(first, 1),
            "middle_third_mib": round(middle, 1),
            "last_third_mib": round(last, 1),
            "growth": round(last / middle, 4),
            "most_mib": round(max(self.memory), 1),
            "slope_mib_per_hour": round(slope * 3600, 1),
        }


def plan_of(minutes: float) -> str:
    """The example's plan with short rounds."""
    seconds = max(4, round(minutes * 60 / ROUNDS))
    text = PLAN_FILE.read_text()
    return text.replace('round = "6h"', f'round = "{seconds}s"').replace(
        'grace = "6h"', f'grace = "{max(2, seconds // 2)}s"'
    )


async def offer(load: OpenLoop, process: Process, minutes: float) -> Watch:
    """Put the load on a collector, and watch it."""
    watch, begin = Watch(), time.monotonic()
    running = asyncio.create_task(load.run())
    every = min(5.0, max(0.5, minutes * 60 / 360))
    with _progress() as (bar, task):
        while not running.done():
            await asyncio.wait([running], timeout=every)
            watch.look(time.monotonic() - begin, process)
            told = f"{load.acknowledged:,} acknowledged, {sum(load.errors.values()):,} errors"
            bar.update(task, completed=load.due / load.total, told=f"{told}, {watch.memory[-1]:.0f} MiB")
    await running
    return watch


@contextmanager
def _progress() -> Iterator[tuple[Progress, Any]]:
    console = Console(stderr=True)
    columns = BarColumn(), TextColumn("{task.fields[told]}"), TimeRemainingColumn()
    with Progress(
        *columns, console=console, disable=not console.is_terminal, refresh_per_second=1, transient=True
    ) as bar:
        yield bar, bar.add_task("load", total=1.0, told="")


def wait_for_seals(url: str, plan: Plan, numbers: list[int]) -> None:
    """Until the rounds are sealed that the load went to; the collector does it."""
    ends = plan.round(max(numbers)).closes + 60
    while time.time() < ends:
        with closing(open_store(url)) as store:
            rounds = store.rounds(plan.name)
        if {info.key.round for info in rounds if info.state == "sealed"} >= set(numbers):
            return
        time.sleep(1)


def check_counts(url: str, requests: Requests, load: OpenLoop) -> list[dict[str, Any]]:
    """Each round: is it sealed, and are its counts those of the reports that were acknowledged in it?"""
    plan, store = requests.plan, open_store(url)
    states = {info.key.round: info for info in store.rounds(plan.name)}
    rows = []
    for number, sent in sorted(load.rounds.items()):
        info = states.get(number)
        counted = store.counts(RoundKey(plan.name, plan.version, number)) if info else {}
        acknowledged = sum(sent.acknowledged)
        reports = info.reports if info else 0
        rows.append(
            {
                "round": number,
                "state": info.state if info else "missing",
                "acknowledged": acknowledged,
                "unknown": sent.unknown,
                "counted": reports,
                "exact": counted == requests.counts(number, sent.acknowledged),
                "possible": acknowledged <= reports <= acknowledged + sent.unknown,
            }
        )
    store.close()
    return rows


def run(minutes: float, rate: float, connections: int, url: str, folder: Path) -> dict[str, Any]:
    """Everything, as figures."""
    path = folder / "plan.toml"
    path.write_text(plan_of(minutes))
    requests = Requests(Plan.load(path))
    with collector(url, plan=path) as process:
        load = OpenLoop(process.port, requests, rate, minutes * 60, connections)
        gc.freeze()
        begin, used = time.monotonic(), time.process_time()
        before = process.cpu_seconds
        watch = uvloop.run(offer(load, process, minutes))
        seconds = time.monotonic() - begin
        cores = {
            "collector": round((process.cpu_seconds - before) / seconds, 3),
            "generator": round((time.process_time() - used) / seconds, 3),
        }
        wait_for_seals(url, requests.plan, list(load.rounds))
    figures = {
        "minutes": minutes,
        "offered_rate": rate,
        "connections": connections,
        "store": url.partition(":")[0],
        "due": load.total,
        "acknowledged": load.acknowledged,
        "errors": dict(load.errors.most_common()),
        "achieved_rate": round(load.acknowledged / max(seconds, minutes * 60), 1),
        "cores": cores,
        "latency_ms": _levels(load.latencies),
        "memory": watch.summary(),
        "rounds": check_counts(url, requests, load),
        "over_time": {
            "latency_ms": [_levels(part) for part in np.array_split(load.latencies, WINDOWS)],
            "memory_seconds": [round(each, 1) for each in watch.seconds],
            "memory_mib": [round(each, 1) for each in watch.memory],
        },
    }
    figures["claims"] = claims(figures)
    return figures


def _levels(latencies: np.ndarray[Any, np.dtype[np.float32]]) -> dict[str, float | None]:
    known = latencies[~np.isnan(latencies)]
    if not len(known):
        return dict.fromkeys((*LEVELS, "most"))
    found = np.percentile(known, [*LEVELS.values(), 100.0])
    return {name: round(float(value) * 1000, 2) for name, value in zip((*LEVELS, "most"), found, strict=True)}


def claims(figures: dict[str, Any]) -> dict[str, bool]:
    """What is claimed, and whether it held."""
    rounds = figures["rounds"]
    return {
        f"at least {LEAST_RATE:.0%} of the offered rate was acknowledged": (
            figures["achieved_rate"] >= LEAST_RATE * figures["offered_rate"]
        ),
        "none was lost: every report that was due was acknowledged": figures["acknowledged"]
        == figures["due"],
        f"99 of 100 took less than {MOST_P99_MS:g} ms": (figures["latency_ms"]["p99"] or np.inf)
        < MOST_P99_MS,
        f"memory in the last third is at most {MOST_GROWTH} of that in the middle one": (
            figures["memory"]["growth"] <= MOST_GROWTH
        ),
        "every round was sealed": all(each["state"] == "sealed" for each in rounds),
        "every round counts exactly what was acknowledged in it": all(
            each["exact"] if not each["unknown"] else each["possible"] for each in rounds
        ),
    }


@drawing
def picture(figures: dict[str, Any], out: Path) -> Path:
    """Latency and memory over time."""
    minutes = figures["minutes"]
    figure, (above, below) = panels(rows=2, width=7.5, height=2.6)
    middles = (np.arange(WINDOWS) + 0.5) * minutes / WINDOWS
    for name, colour in zip(LEVELS, COLOURS, strict=False):
        values = [np.nan if each[name] is None else each[name] for each in figures["over_time"]["latency_ms"]]
        above.plot(middles, values, label=name, color=colour)
    above.set(yscale="log", ylabel="latency (ms)", xlim=(0, minutes))
    above.set_title(f"{figures['offered_rate']:,.0f} single reports a second, each durable when acknowledged")
    above.legend(ncols=4, loc="upper right")
    sampled = np.array(figures["over_time"]["memory_seconds"]) / 60
    below.plot(sampled, figures["over_time"]["memory_mib"], color=COLOURS[0])
    below.set(xlabel="minutes", ylabel="collector's memory (MiB)", xlim=(0, minutes), ylim=(0, None))
    (file,) = save(figure, out.parent, out.name, kinds=("png",))
    return file


def tell(figures: dict[str, Any]) -> None:
    """The figures in lines."""
    latency, memory = figures["latency_ms"], figures["memory"]
    exact = sum(each["exact"] for each in figures["rounds"])
    print(
        f"due {figures['due']:,}, acknowledged {figures['acknowledged']:,}, errors {figures['errors'] or 0}"
    )
    print(f"rate {figures['achieved_rate']:,.0f}/s of {figures['offered_rate']:,.0f}/s offered")
    print("latency " + ", ".join(f"{name} {value} ms" for name, value in latency.items()))
    print(
        f"memory by thirds {memory['first_third_mib']}, {memory['middle_third_mib']}, "
        f"{memory['last_third_mib']} MiB, growth {memory['growth']:.3f}; at most {memory['most_mib']}, "
        f"{memory['slope_mib_per_hour']:+} MiB an hour"
    )
    print(f"rounds {len(figures['rounds'])}, of which {exact} count exactly what was acknowledged")
    print(f"cores   collector {figures['cores']['collector']}, generator {figures['cores']['generator']}")
    tell_claims(figures["claims"])


def tell_claims(found: dict[str, bool]) -> None:
    """Each claim, and whether it held."""
    for claim, held in found.items():
        print(f"{'held  ' if held else 'MISSED'}  {claim}")


def main() -> int:
    """Run, tell, write; returns the exit code."""
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=15_000.0, help="reports a second")
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--store", help="an empty one; a temporary SQLite file unless given")
    parser.add_argument("--out", type=Path, help="write OUT.json and OUT.png")
    parser.add_argument("--crowd", action="store_true", help="idle and slow clients instead")
    parser.add_argument("--idle", type=int, default=2000)
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--strangers", type=int, default=400, help="who never shake hands")
    parser.add_argument("--pairs", type=int, default=5, help="measurements with and without the crowd")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    asked = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="reticent-endurance-") as name:
        url = asked.store or f"sqlite:///{name}/store.db"
        if asked.crowd:
            figures = crowd.measure(url, asked.idle, asked.slow, asked.strangers, asked.pairs, asked.seconds)
            crowd.tell(figures)
            tell_claims(figures["claims"])
        else:
            figures = run(asked.minutes, asked.rate, asked.connections, url, Path(name))
            tell(figures)
    if asked.out:
        figures["machine"] = {"cores": os.cpu_count(), "python": sys.version.split()[0]}
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        Path(f"{asked.out}.json").write_text(json.dumps(figures, indent=1) + "\n")
        if not asked.crowd:
            print(picture(figures, asked.out))
    return 0 if all(figures["claims"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
