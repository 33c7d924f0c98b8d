"""Rounds are sealed when their time is over, while others fill, and never change again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.reports import to_json
from reticent_collector.counts import count_reports
from reticent_collector.http import Sealer, seal_due
from reticent_collector.stores import Layout, RoundKey, open_store


def test_due_rounds_are_sealed_and_no_others(tools: Any) -> None:
    plan = Plan.from_toml(tools.usage())
    store = open_store("memory:")
    store.register(plan)
    keys = [RoundKey(plan.name, 1, number) for number in (10, 11, 12)]
    for key in keys:
        store.append({key: b"".join(map(Layout(plan).pack, tools.make_reports(plan, key.round, 3)))})
    closes = plan.round(11).closes
    assert seal_due(store, closes + 1.9) == keys[:1]
    assert seal_due(store, closes + 2) == keys[1:2]
    assert seal_due(store, closes + 2) == []
    assert store.unsealed() == keys[2:]


class Damaged:
    """A store of three rounds, of which the first cannot be sealed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sealed: list[int] = []
        self.calls = 0

    def plans(self) -> list[Plan]:
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("who knows")
        return [self.plan]

    def unsealed(self) -> list[RoundKey]:
        return [RoundKey(self.plan.name, 1, number) for number in (1, 2, 3)]

    def claim(self, key: RoundKey) -> AbstractContextManager[bool]:
        return nullcontext(True)

    def seal(self, key: RoundKey) -> bool:
        if key.round == 1:
            raise StoreError("round 1 is damaged")
        self.sealed.append(key.round)
        return True

    def sweep(self) -> None:
        pass


def test_a_round_that_cannot_be_sealed_does_not_keep_others_from_it(
    tools: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And each fault is logged once, however often it is met."""
    monkeypatch.setattr("reticent_collector.http.log.quiet", False)
    store = Damaged(Plan.from_toml(tools.usage()))
    sealer = Sealer(store, clock=lambda: 1e9, every=0.01)  # type: ignore[arg-type]
    end = time.monotonic() + 10
    while store.calls < 5 and time.monotonic() < end:
        time.sleep(0.01)
    sealer.stop()
    assert {2, 3} == set(store.sealed)
    assert sealer.sealed == len(store.sealed)
    said = map(json.loads, capsys.readouterr().err.splitlines())
    due, round_1 = (line for line in said if line["event"] == "seal-failed")
    assert (due["kind"], due["at"].partition(":")[0]) == (
        "RuntimeError",
        "reticent_collector/stores/store.py",
    )
    assert (round_1["reason"], round_1["round"]) == ("round 1 is damaged", 1)


class Slow(Damaged):
    """A store of three open rounds; a step of the second one takes ten seconds, by a clock of its own."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.calls = 1
        self.now = 0.0
        self.steps: list[tuple[int, float]] = []

    def take_step(self, key: RoundKey) -> None:
        self.steps.append((key.round, self.now))
        self.now += 10 if key.round == 2 else 0.0

    def sweep(self) -> None:
        self.now += 2

    def stored_reports(self) -> int:
        return 0


def test_a_round_that_takes_long_to_count_takes_its_steps_rarely(
    tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So counting for readers never takes more than a tenth of a core; other rounds do not wait for it."""
    store = Slow(Plan.from_toml(tools.usage()))
    monkeypatch.setattr("reticent_collector.http.writing.write_results", lambda *_, **__: None)
    monkeypatch.setattr("reticent_collector.http.writing.time", SimpleNamespace(monotonic=lambda: store.now))
    sealer = Sealer(store, clock=lambda: 0.0, every=0.001)  # type: ignore[arg-type]
    while store.now < 300:
        time.sleep(0.001)
    sealer.stop()
    slow = [at for number, at in store.steps if number == 2]
    assert len(slow) >= 3
    assert all(after - before >= 100 for before, after in pairwise(slow))
    assert len([number for number, _ in store.steps if number == 3]) > 10 * len(slow)


def test_rounds_are_sealed_during_upload_and_never_change(start: Callable[..., Any], tools: Any) -> None:
    """Rounds of a second under a steady upload: each report that was taken counts in its round."""
    service = start(tools.usage(round_length="1s", grace="1s"), options=("--clock-skew", "0"))
    plan = service.plans[0]
    taken: list[Any] = []
    late: list[Any] = []
    stop = threading.Event()

    def upload(seed: int) -> None:
        connection = service.connection()
        while not stop.wait(0.005):
            number = service.now(plan)
            report = tools.make_reports(plan, number, 1, f"{seed} {time.monotonic()}")[0]
            connection.request("POST", "/v1/reports", to_json(report), {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            (taken if response.status == 202 else late).append(report)
        connection.close()

    threads = [threading.Thread(target=upload, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    states: dict[int, list[Any]] = {}
    sealed: list[int] = []
    end = time.monotonic() + 30
    while len(sealed) < 2 and time.monotonic() < end:
        for estimate in service.get("/v1/estimates?plan=app-usage&metric=minutes").json["estimates"]:
            states.setdefault(estimate["round"], []).append(estimate)
        sealed = [number for number, seen in states.items() if seen[-1]["state"] == "sealed"]
        time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(sealed) >= 2
    assert any(states[number][0]["state"] == "open" for number in sealed)
    counts = dict.fromkeys(states, 0)
    for (number, _), by_metric in count_reports(taken, plan).items():
        counts[number] = counts.get(number, 0) + by_metric["minutes"].devices
    for number in sealed:
        said = [each for each in states[number] if each["state"] == "sealed"]
        assert all(each == said[0] for each in said)
        assert said[0]["reports"] == counts[number]
    assert len(late) < len(taken) / 10
    old = tools.make_reports(plan, min(sealed), 1, "late")[0]
    answer = service.send(old)
    assert (answer.status, answer.json["code"]) == (410, "late")
    service.stop()
    store = open_store(service.store)
    for number in sealed:
        final = store.counts(RoundKey(plan.name, 1, number))
        assert sum(each["minutes"].devices for each in final.values()) == counts[number]
    store.close()
