"""Clients that never give up, collectors that die, and whether the counts come out right."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException

import pytest
from tests.shared.collectors import Answer, Service, make_reports

from reticent.plan import Plan
from reticent.reports import Report, to_json, to_ndjson, to_packed
from reticent_collector.counts import Counts, count_reports
from reticent_collector.stores import RoundKey, open_store

CLIENTS = 4
MANY = pytest.param(int(os.environ.get("KILLS", "100")), marks=[pytest.mark.soak, pytest.mark.timeout(1800)])
"""Kills of a long run: `KILLS=10 make soak ARGS=tests/end_to_end` for fewer of them."""
NDJSON, PACKED = "application/x-ndjson", "application/vnd.reticent.packed"


@dataclass
class Client:
    """One that never gives up, and remembers what it was told."""

    number: int
    services: list[Service]
    plan: Plan
    patience: float = 60.0
    """Seconds after which a report that nobody takes is a failure."""
    acknowledged: list[Report] = field(default_factory=list)
    late: list[Report] = field(default_factory=list)
    """Refused because the round was over; an answer lost before may have been an acknowledgement."""
    doubtful: list[Report] = field(default_factory=list)
    """Those of them that were sent before, without an answer."""
    failures: list[str] = field(default_factory=list)
    lost_answers: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """How often it was told to try again later, by code."""
    times: list[float] = field(default_factory=list)
    """When each answer of 202 came, by the monotonic clock."""

    def run(self, stop: threading.Event) -> None:
        draw, batch = random.Random(self.number), 0
        while not stop.is_set():
            batch += 1
            size = draw.choice([1, 1, 1, 7, 40])
            now = self.plan.round_at(time.time())
            self.deliver(make_reports(self.plan, now, size, f"{self.number} {batch}"), draw)

    def deliver(self, reports: list[Report], draw: random.Random) -> None:
        tried = False
        kind = "application/json" if len(reports) == 1 else draw.choice([NDJSON, PACKED])
        body = (
            to_json(reports[0]) if len(reports) == 1
            else to_ndjson(reports) if kind == NDJSON
            else to_packed(reports, self.plan)
        )  # fmt: skip
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            try:
                answer = draw.choice(self.services).post(body, kind)
            except (OSError, HTTPException):
                self.lost_answers += 1
                tried = True
                time.sleep(0.05)
                continue
            is_lost = not tried and draw.random() < 0.1  # it is sent again, as when its answer is lost
            if not is_lost and self.settled(reports, answer, tried):
                return
            tried = True
            time.sleep(0.02)
        self.failures.append("gave up")

    def settled(self, reports: list[Report], answer: Answer, tried: bool) -> bool:
        """Note what an answer says; whether it is the last word on these reports."""
        if answer.status == 202:
            refused = {each["index"]: each["code"] for each in answer.json.get("rejected", [])}
            self.failures += [code for code in refused.values() if code != "late"]
            over = [report for place, report in enumerate(reports) if place in refused]
            self.acknowledged += [report for place, report in enumerate(reports) if place not in refused]
            self.times.append(time.monotonic())
        elif answer.status == 410:
            over = reports
        elif answer.status == 503 and int(answer.headers.get("retry-after", "0")) >= 1:
            self.refused[answer.json["code"]] += 1
            return False
        else:
            over = []
            self.failures.append(f"{answer.status} {dict(answer.headers)} {answer.body!r}")
        self.late += over
        self.doubtful += over if tried else []
        return True


@contextmanager
def at_work(services: list[Service], patience: float = 60.0) -> Iterator[list[Client]]:
    """Clients that send to any of the collectors meanwhile; afterwards every report has its answer."""
    clients = [Client(number, services, services[0].plans[0], patience) for number in range(CLIENTS)]
    stop = threading.Event()
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield clients
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def hammer(
    services: list[Service],
    kills: int,
    disturb: Callable[[int], None] = lambda turn: None,
    longest_pause: float = 0.3,
) -> list[Client]:
    """
    Clients at work while collectors die; returns them when every report has its answer.

    A collector stays dead until somebody missed it, so every kill costs at least one answer.
    """
    draw = random.Random(len(services) + kills)

    def wait_until(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.01)

    def go_on() -> None:
        """Until each client has an answer again."""
        before = [len(client.times) for client in clients]
        wait_until(
            lambda: all(len(client.times) > count for client, count in zip(clients, before, strict=True))
        )

    def lost_answers() -> int:
        return sum(client.lost_answers for client in clients)

    def kill(service: Service) -> None:
        before = lost_answers()
        assert service.stop(signal.SIGKILL) == -signal.SIGKILL
        wait_until(lambda: lost_answers() > before)

    with at_work(services) as clients:
        for turn in range(kills):
            go_on()
            time.sleep(draw.uniform(0, longest_pause))
            service = draw.choice(services)
            kill(service)
            disturb(turn)
            service.start("--clock-skew", "0", port=service.port)
        go_on()
    return clients


def by_round(reports: list[Report], plan: Plan) -> dict[int, dict[tuple[str, ...], dict[str, Counts]]]:
    """The counts that reports come to, worked out without a store."""
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


def check_sealed_rounds(clients: list[Client], url: str, plan: Plan) -> int:
    """
    Every round is sealed, and has what was acknowledged; returns how many can be told exactly.

    What was refused as late, but had been sent before without an answer, may be in its round as well: nobody
    can know, and so the reports of such a round lie between the two.
    """
    assert [failure for client in clients for failure in client.failures] == []
    taken = Counter(report.round for client in clients for report in client.acknowledged)
    doubtful = Counter(report.round for client in clients for report in client.doubtful)
    expected = by_round([report for client in clients for report in client.acknowledged], plan)
    store = open_store(url)
    assert store.verify() == []
    assert store.unsealed() == []
    rounds = {info.key.round: info for info in store.rounds()}
    assert set(taken) <= set(rounds)
    for number, info in rounds.items():
        assert taken[number] <= info.reports <= taken[number] + doubtful[number]
        if not doubtful[number]:
            assert store.counts(info.key) == expected[number]
    store.close()
    return sum(not doubtful[number] for number in rounds)


def wait_until_sealed(service: Service, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while any(each["state"] != "sealed" for each in service.get("/v1/rounds").json["rounds"]):
        assert time.monotonic() < end, service.get("/v1/rounds").body
        time.sleep(0.05)
