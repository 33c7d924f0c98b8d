"""Readers keep nobody from sending: their work is beside the event loop, bounded, and refused beyond."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from typing import Any
from urllib.parse import quote

import pytest

from reticent.errors import ParameterError
from reticent.plan import Plan
from reticent.reports import to_json
from reticent_collector import dashboard
from reticent_collector.http import Collector, Readers
from reticent_collector.results import Result, Results, Selection
from reticent_collector.stores import open_store

FIGURES = "/v1/estimates?plan=app-usage&every=round"
PATIENCE = 20
ROOM = Readers.threads + Readers.most_waiting


class Gate:
    """A place in the work for readers where it waits."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self.opened = threading.Event()
        self.threads: set[str] = set()

    def __call__(self, *anything: Any, **more: Any) -> Any:
        self.threads.add(threading.current_thread().name)
        self.reached.release()
        assert self.opened.wait(PATIENCE)
        return None


@contextmanager
def served(tools: Any) -> Iterator[tuple[Any, Plan]]:
    plan = Plan.from_toml(tools.usage())
    with tools.in_thread(Collector([plan], open_store("memory:"), pages=dashboard)) as service:
        for report in tools.make_reports(plan, service.now(plan), 3):
            assert service.post(to_json(report)).status == 202
        yield service, plan


def before(monkeypatch: pytest.MonkeyPatch, place: str | type, name: str, gate: Gate) -> None:
    """Let the gate stand before a function of a class or a module."""
    holder = import_module(place) if isinstance(place, str) else place
    original = getattr(holder, name)

    def gated(*arguments: Any, **named: Any) -> Any:
        gate()
        return original(*arguments, **named)

    monkeypatch.setattr(holder, name, gated)


@pytest.mark.parametrize(
    ("path", "place", "name"),
    [
        (FIGURES, Results, "estimates"),
        (FIGURES, Result, "to_dict"),
        (f"{FIGURES}&format=csv", "reticent_collector.http.api", "csv_text"),
        (f"{FIGURES}&format=arrow", "reticent_collector.http.api", "arrow_bytes"),
        ("/v1/rounds", Results, "rounds"),
        ("/v1/plans", Results, "plans"),
        ("/metrics", "reticent_collector.http.api", "render_metrics"),
        ("/", "reticent_collector.dashboard.endpoints", "render"),
        ("/health", Results, "uneven"),
    ],
)
def test_reports_are_taken_while_a_reader_waits_for_any_part_of_an_answer(
    tools: Any, monkeypatch: pytest.MonkeyPatch, path: str, place: str | type, name: str
) -> None:
    gate, usual = Gate(), sys.getswitchinterval()
    with served(tools) as (service, plan), ThreadPoolExecutor(1) as pool:
        before(monkeypatch, place, name, gate)
        reading = pool.submit(service.get, path)
        try:
            assert gate.reached.acquire(timeout=PATIENCE)
            for report in tools.make_reports(plan, service.now(plan), 5, "meanwhile"):
                assert service.post(to_json(report)).status == 202
            assert service.get("/healthz").status == 200
            assert not reading.done()
            assert sys.getswitchinterval() < usual  # those who take reports get their turn soon
        finally:
            gate.opened.set()
        assert reading.result(PATIENCE).status == 200
    assert sys.getswitchinterval() == usual
    assert all(thread.startswith("reticent-reader") for thread in gate.threads)


def test_readers_beyond_the_queue_are_refused_and_come_again(
    tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, room, beyond = Gate(), ROOM, 4
    with served(tools) as (service, plan), ThreadPoolExecutor(room + beyond) as pool:
        before(monkeypatch, Results, "estimates", gate)
        reading = [pool.submit(service.get, FIGURES) for _ in range(room + beyond)]
        try:
            first = [one.result() for one in islice(as_completed(reading, PATIENCE), beyond)]
            for refused in first:
                assert (refused.status, refused.json["code"]) == (503, "busy")
                assert refused.headers["retry-after"] == "5"
            for _ in range(Readers.threads):
                assert gate.reached.acquire(timeout=PATIENCE)
            assert service.get("/").status == 503  # pages are readers too
            assert service.get(f"/static/{next(iter(dashboard.assets()))}").status == 200
            (report,) = tools.make_reports(plan, service.now(plan), 1, "meanwhile")
            assert service.post(to_json(report)).status == 202
            assert not gate.reached.acquire(blocking=False)  # no more than so many are worked for at once
        finally:
            gate.opened.set()
        answers = sorted(one.result(PATIENCE).status for one in reading)
        assert answers == [200] * room + [503] * beyond
        assert service.get(FIGURES).status == 200


def test_a_failing_answer_makes_room(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tools) as (service, _):
        for _ in range(2 * (ROOM)):
            assert service.get("/v1/estimates?plan=other").status == 404
        assert service.get(FIGURES).status == 200


def test_an_answer_has_so_many_numbers_at_most_and_the_rest_can_be_asked_for(
    tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round has 1 + 8 + 16 numbers: those of a mean and two histograms."""
    monkeypatch.setattr("reticent_collector.http.api.MOST_NUMBERS", 60)
    plan, store = Plan.from_toml(tools.usage()), open_store("memory:")
    collector = Collector([plan], store)
    with tools.in_thread(collector) as service:
        now = service.now(plan)
        for number in (now, now - 1):
            for report in tools.make_reports(plan, number, 4):
                assert service.post(to_json(report)).status == 202
        assert service.get(FIGURES).status == 200
        assert service.get(f"{FIGURES}&metric=minutes&by=os").status == 200
        refused = service.get(f"{FIGURES}&by=os")  # 2 rounds, 5 tags: windows, macos, linux, other, (few)
        assert refused.status == 400
        for word in ("60 numbers", "at most 1 periods", "250 numbers", "since and until"):
            assert word in refused.json["detail"]
        pages = [
            service.get(f"{FIGURES}&by=os&round={number}").json["estimates"] for number in (now, now - 1)
        ]
        whole = collector.results.estimates(Selection("app-usage", by="os", every="round"))
        assert [row["round"] for page in pages for row in page] == [result.round for result in whole]
        picked = quote("os:(few)")
        assert service.get(f"{FIGURES}&segment={picked}").json["estimates"] == []


def test_the_bound_is_for_who_sets_one(tools: Any) -> None:
    plan, store = Plan.from_toml(tools.usage()), open_store("memory:")
    store.register(plan)
    assert Results(store).estimates(Selection("app-usage", most=1)) == []
    with pytest.raises(ParameterError):
        Results(store).estimates(Selection("app-usage", metric="none", most=1))
    store.close()
