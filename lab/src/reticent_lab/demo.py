"""What `reticent demo` sets up: a real collector on a sped-up clock, and a fleet that reports to it."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from reticent.device import Device, Policy
from reticent.errors import ReticentError
from reticent.frozen import replace
from reticent.plan import Metric, Plan
from reticent.reports import packed_header
from reticent.testing import ManualClock
from reticent_collector import dashboard
from reticent_collector.http import Collector, Health, log, make_server
from reticent_collector.results import Results
from reticent_collector.stores import RoundKey, open_store
from reticent_lab.demo_page import Truth, demo_page
from reticent_lab.fleet import EDITOR, VectorisedFleet, send_packed
from reticent_lab.fleet.population import taken_by
from reticent_lab.simulate import true_values

SDK_DEVICES = 20
RHYTHM = (0.5, 1.0, 1.4, 0.9)  # How likely a sitting begins in the night, morning, afternoon or evening
PARTS = 20
LIVE_ROUNDS = 1000  # Rounds that a demo goes on for while its page is open
LIVE_PARTS = 10
LIVE_PAUSE = 1.0  # Seconds between two parts of the reports of a round
PATIENCE = 60.0
MOST_TRUTHS = 60
FALSE_ALARM = 1e-6  # How often a sound demo ends with exit code 3, over all its numbers together


@dataclass(frozen=True, slots=True)
class TruthBeside:
    """One number of the demo: what is true, what was estimated, and whether the interval holds it."""

    round: int
    metric: str
    bucket: int | None
    truth: float
    estimate: dict[str, Any]
    absurd: bool  #: Outside even an interval that chance leaves once in a million demos

    @property
    def inside(self) -> bool:
        """Whether the interval holds the truth."""
        return bool(self.estimate["lower"] <= self.truth <= self.estimate["upper"])

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        place = {} if self.bucket is None else {"bucket": self.bucket}
        where = {"round": self.round, "metric": self.metric, **place}
        return {**where, "truth": self.truth, "inside": self.inside, **self.estimate}


class DemoPages:
    """The dashboard, and a page at /demo on which the truth stands beside the estimates."""

    static = staticmethod(dashboard.static)
    login_page = staticmethod(dashboard.login_page)
    problem_page = staticmethod(dashboard.problem_page)

    def __init__(self, truths: Callable[[], list[Truth]]) -> None:
        self._truths = truths

    def handlers(
        self, results: Results, health: Callable[[], Health], public: Collection[str] = ()
    ) -> dict[str, Callable[[Request], Response]]:
        """All pages of the dashboard, and this one."""
        page = dashboard.page_of(lambda request: demo_page(results, self._truths()))
        return {"/demo": page, **dashboard.handlers(results, health, public)}


class Habits:
    """What the people of a demo do: use of an app by the day, brought to the range of each metric."""

    def __init__(self, plan: Plan, devices: int, rounds: int, seed: int) -> None:
        self._plan = plan
        self._rounds = rounds
        self.tags = np.zeros((devices, len(plan.segments)), dtype=np.uint8)
        for place, segment in enumerate(plan.segments):
            known = max(1, len(segment.values))
            self.tags[:, place] = np.minimum((np.arange(devices) + place) % (known + 1), known - 1)
        per_day = max(1, 86_400 // plan.round_seconds)
        rhythm = RHYTHM if per_day == len(RHYTHM) else ()
        self._usage = {}
        for top in {int(metric.max_value) or 1 for metric in plan.metrics}:
            usage = EDITOR.scaled(top, rounds_per_day=per_day, rhythm=rhythm)
            values = usage.values(devices, rounds, np.random.default_rng(seed))
            if top > 1 and plan.segments:
                values[:, self.tags[:, 0] == 0] //= 2  # the app is less at home there
            self._usage[top] = values

    def values(self, number: int) -> dict[str, Any]:
        """By metric, the values of all devices in a round of the demo; the rounds repeat themselves."""
        return {
            metric.name: taken_by(metric, self._usage[int(metric.max_value) or 1][number % self._rounds])
            for metric in self._plan.metrics
        }


class Demo:
    """The collector, the devices and the clock of a demo."""

    def __init__(
        self, folder: Path, devices: int, rounds: int, port: int, seed: int, plan: Plan | None = None
    ) -> None:
        self.plan = plan or Plan.from_toml(files("reticent_lab").joinpath("demo.toml").read_text())
        self.sdk_devices = min(SDK_DEVICES, devices // 10)
        self.url = ""
        self._folder = folder
        self._rounds = rounds
        self._open_rounds = -(-self.plan.grace_seconds // self.plan.round_seconds)
        self._clock = ManualClock()
        self._first = self.plan.round_at(time.time()) - rounds - self._open_rounds
        self._clock.now = float(self.plan.round(self._first - 1).start)
        few = devices * self.plan.asked // (len(self.plan.metrics) * max(1, self.plan.answers.window))
        if few < 2 * self.plan.min_reports:
            raise ReticentError(
                f"plan {self.plan.name}: {devices:,} devices are about {few:,} reports of a metric in a round, and"
                f" readers see groups of at least {self.plan.min_reports:,}.\n  Hint: simulate more with --devices"
            )
        self._habits = Habits(self.plan, devices, rounds + 1, seed)
        self._truths: deque[Truth] = deque(maxlen=MOST_TRUTHS)
        """What is true of each round that was answered, which only a demo knows."""
        self._fleet = VectorisedFleet(self.plan, devices - self.sdk_devices, seed)
        self._devices: list[Device] = []
        self._collector = Collector(
            [self.plan],
            open_store(f"sqlite:///{folder / 'collector.db'}"),
            clock=self._clock,
            seal_every=0.05,
            pages=DemoPages(lambda: list(self._truths)),
        )
        self._server = make_server(
            self._collector, "127.0.0.1", port, self._collector.limits, started=self._started
        )
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._server.run, name="reticent-demo", daemon=True)

    def __enter__(self) -> Demo:
        log.quiet = True
        self._thread.start()
        while not self._listening.wait(0.1):
            if not self._thread.is_alive():
                raise ReticentError("the collector could not start: the port may be in use. Try --port 0")
        for number in range(self.sdk_devices):
            self._devices.append(
                Device(
                    self.plan,
                    self._folder / f"device-{number}.db",
                    consent="granted",
                    policy=replace(Policy.unlimited(), do_not_track=False),
                    endpoint=self.url,
                    segment={
                        segment.name: segment.tags[tag]
                        for segment, tag in zip(self.plan.segments, self._habits.tags[number], strict=True)
                    },
                    clock=self._clock,
                )
            )
        return self

    def __exit__(self, *exception: object) -> None:
        for device in self._devices:
            device.close()
        self._server.stop()
        self._thread.join(30)
        log.quiet = False

    def _started(self, host: str, port: int) -> None:
        self.url = f"http://{host}:{port}"
        self._listening.set()

    def play(self) -> Iterator[list[TruthBeside]]:
        """Let the rounds pass; compares each as it is sealed. The rounds of the last grace stay open."""
        last = self._rounds + self._open_rounds - 1
        for number in range(last + 1):
            yield from self._pass(number, PARTS if number == last else 1, 0.0)

    def live(self) -> Iterator[list[TruthBeside]]:
        """Go on, slowly enough to watch: the days repeat themselves, and reports come in parts."""
        first = self._rounds + self._open_rounds
        for number in range(first, first + LIVE_ROUNDS):
            yield from self._pass(number, LIVE_PARTS, LIVE_PAUSE)

    def _truth_of(self, number: int) -> Mapping[str, Any]:
        return true_values(self.plan, self._habits.values(number))

    def _pass(self, number: int, parts: int, pause: float) -> Iterator[list[TruthBeside]]:
        current = self.plan.round(self._first + number)
        values = self._habits.values(number)
        self._clock.now = (current.start + current.end) / 2
        for place, device in enumerate(self._devices):
            for metric in self.plan.metrics:
                _record(device, metric, int(values[metric.name][place]))
        self._clock.now = current.end + 60.0  # the round is over: devices answer, and send
        for device in self._devices:
            device.flush(timeout=30.0)
        rest = {name: column[self.sdk_devices :] for name, column in values.items()}
        batch = self._fleet.packed(current.number, rest, self._habits.tags[self.sdk_devices :])
        self._truths.append(Truth(current.number, self._truth_of(number)))
        if parts == 1:
            send_packed(self.url, batch)
        else:
            self._send_slowly(current.number, batch, parts, pause)
        if number >= self._open_rounds:
            yield self._compared(number - self._open_rounds)

    def _send_slowly(self, number: int, batch: bytes, parts: int, pause: float) -> None:
        """A round that stays open gets its reports in parts, so that most of them are shown."""
        header = packed_header(batch)
        part = header.width * -(-header.reports // parts)
        for place in range(header.start, len(batch), part):
            time.sleep(pause)
            send_packed(self.url, batch[: header.start] + batch[place : place + part])
            self._collector.store.take_step(RoundKey(self.plan.name, self.plan.version, number))

    def _compared(self, number: int) -> list[TruthBeside]:
        round_number = self._first + number
        query = f"/v1/estimates?plan={self.plan.name}&round={round_number}"
        deadline = time.monotonic() + PATIENCE
        while not (usual := self._get(query)) or any(row["state"] != "sealed" for row in usual):
            if time.monotonic() > deadline:
                raise ReticentError(f"round {round_number} was not sealed in time")
            time.sleep(0.02)
        certain = self._get(f"{query}&confidence={1 - FALSE_ALARM / (self._rounds * 25)}")
        truths = self._truth_of(number)
        comparisons = []
        for row, wide in zip(usual, certain, strict=True):
            parts = zip(row.get("buckets", [row]), wide.get("buckets", [wide]), strict=True)
            for place, (truth, (part, sure)) in enumerate(zip(truths[row["metric"]], parts, strict=True)):
                bucket = place if "buckets" in row else None
                absurd = not sure["lower"] <= truth <= sure["upper"]
                comparisons.append(
                    TruthBeside(round_number, row["metric"], bucket, float(truth), part, absurd)
                )
        return comparisons

    def _get(self, path: str) -> list[dict[str, Any]]:
        with urllib.request.urlopen(self.url + path, timeout=30) as response:  # noqa: S310
            estimates: list[dict[str, Any]] = json.load(response)["estimates"]
        return estimates


def _record(device: Device, metric: Metric, value: int) -> None:
    """What a program does with a value; a device without one does nothing."""
    if value < 0:
        return
    if metric.labels:
        device.choose(metric.name, metric.labels[value])
    else:
        device.set(metric.name, value)
