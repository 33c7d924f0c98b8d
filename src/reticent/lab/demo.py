"""What `reticent demo` sets up: a real collector on a sped-up clock, and a fleet that reports to it."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent import dashboard
from reticent.collector import Collector, log, make_server
from reticent.device import Device
from reticent.errors import ReticentError
from reticent.lab.fleet import EDITOR, VectorisedFleet, send_packed
from reticent.plan import Metric, Plan
from reticent.stores import open_store
from reticent.testing import ManualClock

SDK_DEVICES = 20
RHYTHM = (0.5, 1.0, 1.4, 0.9)
"""How likely a sitting begins in the night, morning, afternoon or evening."""
PATIENCE = 60.0
FALSE_ALARM = 1e-6
"""How often a sound demo ends with exit code 3, over all its figures together."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of the demo: what is true, what was estimated, and whether the interval holds it."""

    round: int
    metric: str
    bucket: int | None
    truth: float
    estimate: dict[str, Any]
    absurd: bool
    """Outside even an interval that chance leaves once in a million demos."""

    @property
    def inside(self) -> bool:
        """Whether the interval holds the truth."""
        return bool(self.estimate["lower"] <= self.truth <= self.estimate["upper"])

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        place = {} if self.bucket is None else {"bucket": self.bucket}
        where = {"round": self.round, "metric": self.metric, **place}
        return {**where, "truth": self.truth, "inside": self.inside, **self.estimate}


class Stage:
    """The collector, the devices and the clock of a demo."""

    def __init__(self, folder: Path, devices: int, rounds: int, port: int, seed: int) -> None:
        self.plan = Plan.from_toml(files("reticent.lab").joinpath("demo.toml").read_text())
        self.sdk_devices = min(SDK_DEVICES, devices // 10)
        self._rounds = rounds
        self._clock = ManualClock()
        self._first = self.plan.round_at(time.time()) - rounds - 1
        self._clock.now = float(self.plan.round(self._first - 1).start)
        top = int(self.plan.metrics[0].max_value)
        usage = EDITOR.scaled(top, rounds_per_day=len(RHYTHM), rhythm=RHYTHM)
        self._values = usage.values(devices, rounds + 1, np.random.default_rng(seed))
        self._tags = (np.arange(devices) % 3 == 0).astype(np.uint8)[:, None]
        self._values[:, self._tags[:, 0] == 1] //= 2  # the app is less at home there
        self._fleet = VectorisedFleet(self.plan, devices - self.sdk_devices, seed)
        self._folder = folder
        self._collector = Collector(
            [self.plan],
            open_store(f"sqlite:///{folder / 'collector.db'}"),
            clock=self._clock,
            seal_every=0.05,
            pages=dashboard,
        )
        self._server = make_server(
            self._collector, "127.0.0.1", port, self._collector.limits, started=self._started
        )
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._server.run, name="reticent-demo", daemon=True)
        self.url = ""
        self._devices: list[Device] = []

    def __enter__(self) -> Stage:
        log.quiet = True
        self._thread.start()
        while not self._listening.wait(0.1):
            if not self._thread.is_alive():
                raise ReticentError("the collector could not start; is the port taken? Try --port 0")
        segments = [
            {"os": "windows" if tag else "linux"} for tag in self._tags[: self.sdk_devices, 0].tolist()
        ]
        self._devices = [
            Device(
                self.plan,
                self._folder / f"device-{number}.db",
                endpoint=self.url,
                segment=segment,
                clock=self._clock,
            )
            for number, segment in enumerate(segments)
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for device in self._devices:
            device.close()
        self._server.should_exit = True
        self._thread.join(30)
        log.quiet = False

    def _started(self, host: str, port: int) -> None:
        self.url = f"http://{host}:{port}"
        self._listening.set()

    def play(self) -> Iterator[list[Row]]:
        """Let the rounds pass; gives the figures of each as it is sealed. One more round stays open."""
        for number in range(self._rounds + 1):
            self._one_round(number)
            if number:
                yield self._sealed(number - 1)

    def _one_round(self, number: int) -> None:
        """A round passes: devices record, answer when it is over, and send."""
        asked = self.plan.round(self._first + number)
        values = self._values[number]
        self._clock.now = asked.start + 3600.0
        for place, device in enumerate(self._devices):
            for metric in self.plan.metrics:
                device.set(metric.name, int(values[place]))
        self._clock.now = asked.end + 60.0
        for device in self._devices:
            device.flush(timeout=30.0)
        rest = values[self.sdk_devices :]
        batch = self._fleet.packed(
            asked.number, {metric.name: rest for metric in self.plan.metrics}, self._tags[self.sdk_devices :]
        )
        send_packed(self.url, batch)

    def _sealed(self, number: int) -> list[Row]:
        """Wait until a round is sealed, then compare."""
        asked = self._first + number
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = self._get(f"/v1/estimates?plan={self.plan.name}&round={asked}")
            if found and all(each["state"] == "sealed" for each in found):
                strict = 1 - FALSE_ALARM / (self._rounds * 25)
                sure = self._get(f"/v1/estimates?plan={self.plan.name}&round={asked}&confidence={strict}")
                return [
                    row
                    for usual, certain in zip(found, sure, strict=True)
                    for row in self._rows(number, usual, certain)
                ]
            time.sleep(0.02)
        raise ReticentError(f"round {asked} was not sealed in time")

    def _rows(self, number: int, usual: dict[str, Any], certain: dict[str, Any]) -> Iterator[Row]:
        metric = self.plan.by_name[usual["metric"]]
        truths = _truths(metric, self._values[number])
        pairs = zip(usual.get("buckets", [usual]), certain.get("buckets", [certain]), strict=True)
        for place, (truth, (found, sure)) in enumerate(zip(truths, pairs, strict=True)):
            bucket = None if metric.kind == "mean" else place
            absurd = not sure["lower"] <= truth <= sure["upper"]
            yield Row(self._first + number, metric.name, bucket, truth, found, absurd)

    def _get(self, path: str) -> list[dict[str, Any]]:
        with urllib.request.urlopen(self.url + path, timeout=30) as response:  # noqa: S310
            estimates: list[dict[str, Any]] = json.load(response)["estimates"]
        return estimates


def _truths(metric: Metric, values: NDArray[np.int32]) -> list[float]:
    if metric.kind == "mean":
        return [float(values.mean())]
    edges = [float(edge) for edge in metric.mechanism.buckets.edges]  # type: ignore[union-attr]
    shares: list[float] = (np.histogram(values, edges)[0] / len(values)).tolist()
    return shares
