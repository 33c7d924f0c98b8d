"""
An acknowledged report is durable and counted exactly once, whatever dies.

Clients send reports and keep on until each is acknowledged, or its round is over. Meanwhile the collector is
killed with SIGKILL at random moments and started again; so is the database, where there is one.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tacit.counts import Counts, count_reports
from tacit.plan import Plan
from tacit.reports import Report, to_json, to_ndjson, to_packed
from tacit.stores import RoundKey, open_store

CLIENTS = 4
NDJSON, PACKED = "application/x-ndjson", "application/vnd.tacit.packed"


@dataclass
class Client:
    """One that never gives up, and remembers what it was told."""

    number: int
    tools: Any
    services: list[Any]
    plan: Plan
    acknowledged: list[Report] = field(default_factory=list)
    late: list[Report] = field(default_factory=list)
    """Refused because the round was over; an answer lost before may have been an acknowledgement."""
    doubtful: list[Report] = field(default_factory=list)
    """Those of them that were sent before, without an answer."""
    failures: list[str] = field(default_factory=list)
    lost_answers: int = 0

    def run(self, stop: threading.Event) -> None:
        draw, batch = random.Random(self.number), 0
        while not stop.is_set():
            batch += 1
            size = draw.choice([1, 1, 1, 7, 40])
            now = self.plan.round_at(time.time())
            self.deliver(self.tools.make_reports(self.plan, now, size, f"{self.number} {batch}"), draw)

    def deliver(self, reports: list[Report], draw: random.Random) -> None:
        tried = False
        kind = "application/json" if len(reports) == 1 else draw.choice([NDJSON, PACKED])
        body = (
            to_json(reports[0]) if len(reports) == 1
            else to_ndjson(reports) if kind == NDJSON
            else to_packed(reports, self.plan)
        )  # fmt: skip
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                answer = draw.choice(self.services).post(body, kind)
            except (OSError, HTTPException):
                self.lost_answers += 1
                tried = True
                time.sleep(0.02)
                continue
            if answer.status == 202:
                refused = {each["index"]: each["code"] for each in answer.json.get("rejected", [])}
                self.failures += [code for code in refused.values() if code != "late"]
                over = [report for place, report in enumerate(reports) if place in refused]
                self.acknowledged += [report for place, report in enumerate(reports) if place not in refused]
                self.late += over
                self.doubtful += over if tried else []
                return
            if answer.status == 410:
                self.late += reports
                self.doubtful += reports if tried else []
                return
            if answer.status != 503:
                self.failures.append(f"{answer.status} {answer.body!r}")
                return
            tried = True
            time.sleep(0.02)
        self.failures.append("gave up")


def hammer(
    tools: Any, services: list[Any], kills: int, disturb: Callable[[int], None] = lambda turn: None
) -> list[Client]:
    """Clients at work while collectors die; returns them when every report has its answer."""
    plan, draw = services[0].plans[0], random.Random(len(services) + kills)
    clients = [Client(number, tools, services, plan) for number in range(CLIENTS)]
    stop = threading.Event()
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        for turn in range(kills):
            time.sleep(draw.uniform(0.2, 1.0))
            service = draw.choice(services)
            assert service.stop(signal.SIGKILL) == -signal.SIGKILL
            disturb(turn)
            service.start("--clock-skew", "0", port=service.port)
        time.sleep(0.5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return clients


def by_round(reports: list[Report], plan: Plan) -> dict[int, dict[tuple[str, ...], dict[str, Counts]]]:
    found: dict[int, dict[tuple[str, ...], dict[str, Counts]]] = {}
    for (number, tags), by_metric in count_reports(reports, plan).items():
        found.setdefault(number, {})[tags] = by_metric
    return found


def check_all_counted(clients: list[Client], url: str, plan: Plan) -> int:
    """Everything was acknowledged in the end: the counts of the store are those of all reports."""
    sent = [report for client in clients for report in client.acknowledged]
    assert [failure for client in clients for failure in client.failures] == []
    assert sum(len(client.late) for client in clients) == 0
    assert len({report.id for report in sent}) == len(sent)
    store = open_store(url)
    assert store.verify() == []
    for number, expected in by_round(sent, plan).items():
        key = RoundKey(plan.name, plan.version, number)
        assert store.counts(key) == expected
        assert store.seal(key)
        assert store.counts(key) == expected
        assert [info.reports for info in store.rounds() if info.key == key] == [
            sum(report.round == number for report in sent)
        ]
    store.close()
    return len(sent)


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.soak)])
def test_killed_collectors_lose_nothing_and_count_nothing_twice(
    tools: Any, tmp_path: Path, kills: int
) -> None:
    service = tools.Service(tmp_path, tools.usage()).start("--clock-skew", "0")
    try:
        clients = hammer(tools, [service], kills)
    finally:
        service.stop()
    assert check_all_counted(clients, service.store, service.plans[0]) > 200
    assert sum(client.lost_answers for client in clients) > kills  # the kills did hit somebody
    assert "Traceback" not in service.log


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.soak)])
def test_killed_while_rounds_are_sealed(tools: Any, tmp_path: Path, kills: int) -> None:
    """
    Rounds of three seconds: they end, and are sealed, while collectors die.

    What was acknowledged is in its round. What was refused as late, but had been sent before without an
    answer, may be in it as well: nobody can know, and so a round's reports lie between the two.
    """
    service = tools.Service(tmp_path, tools.usage(round_length="3s", grace="2s")).start("--clock-skew", "0")
    plan = service.plans[0]
    try:
        clients = hammer(tools, [service], kills)
        end = time.monotonic() + 15
        while any(each["state"] == "open" for each in service.get("/v1/rounds").json["rounds"]):
            assert time.monotonic() < end
            time.sleep(0.2)
    finally:
        service.stop()
    assert [failure for client in clients for failure in client.failures] == []
    taken = Counter(report.round for client in clients for report in client.acknowledged)
    doubtful = Counter(report.round for client in clients for report in client.doubtful)
    expected = by_round([report for client in clients for report in client.acknowledged], plan)
    store = open_store(service.store)
    assert store.verify() == []
    assert store.unsealed() == []
    exact = 0
    for info in store.rounds():
        number = info.key.round
        assert taken[number] <= info.reports <= taken[number] + doubtful[number]
        if not doubtful[number]:
            assert store.counts(info.key) == expected[number]
            exact += 1
    store.close()
    assert set(taken) <= {info.key.round for info in store_rounds(service.store)}
    assert exact >= 2
    assert sum(client.lost_answers for client in clients) > kills


def store_rounds(url: str) -> list[Any]:
    store = open_store(url)
    found = store.rounds()
    store.close()
    return found


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.soak)])
def test_two_collectors_on_postgresql_which_dies_too(
    tools: Any, tmp_path: Path, postgres: Any, kills: int
) -> None:
    """A report may reach both collectors; the database stops as in a crash, and comes back."""
    url = postgres.new_database()
    services = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        services.append(tools.Service(folder, tools.usage(), store=url).start("--clock-skew", "0"))

    def disturb(turn: int) -> None:
        if turn % 2:
            postgres.stop(signal.SIGQUIT)
            time.sleep(0.3)
            postgres.start()

    try:
        clients = hammer(tools, services, kills, disturb)
    finally:
        for service in services:
            service.stop()
    assert check_all_counted(clients, url, services[0].plans[0]) > 100
    assert sum(client.lost_answers for client in clients) > 0
