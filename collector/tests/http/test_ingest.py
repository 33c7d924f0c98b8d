"""Single reports of one group: each gets the answer that is its own, once, whatever becomes of the others."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.reports import to_json
from reticent_collector.http import Access, Ingest, Limits, Wire
from reticent_collector.http.log import log_queue
from reticent_collector.stores import Key, RoundKey, open_store

NOW = 1_800_000_000.0
ROUND = int(NOW // 3600)
HEADERS = [(b"host", b"localhost"), (b"content-type", b"application/json")]


class Queue:
    """In place of a committer: what was submitted, and how it is read."""

    read: Any

    def __init__(self) -> None:
        self.submitted: list[Any] = []

    def submit_one(self, report: Any) -> None:
        self.submitted.append(report)


class Desk:
    """An ingest path, reports sent to it by name, and the answers they got."""

    def __init__(self, tools: Any) -> None:
        self.plan = Plan.from_toml(tools.usage())
        self.store = open_store("memory:")
        self.queue = Queue()
        committer: Any = self.queue
        self.ingest = Ingest(Wire([self.plan]), committer, Access(self.store), Limits(), lambda: NOW)
        self.answers: dict[str, list[int]] = defaultdict(list)
        self._tools = tools

    def body(self, name: str, number: int = ROUND) -> bytes:
        return to_json(self._tools.make_reports(self.plan, number, 1, name)[0])

    def send(self, name: str, body: bytes) -> None:
        admission = self.ingest.admit(HEADERS)
        self.ingest.take(admission, body, lambda answer: self.answers[name].append(answer.status))

    def commit(self, outcomes: dict[int, bool | StoreError]) -> list[RoundKey]:
        """Read what was submitted, and call back with what became of each round; returns the rounds."""
        submitted, self.queue.submitted = self.queue.submitted, []
        parts = self.queue.read(submitted)
        for records, done in parts:
            (outcome,) = {outcomes[key.round] for key in records} or {True}
            done(outcome)
        return [key for records, _ in parts for key in records]


@pytest.fixture
def desk(tools: Any) -> Desk:
    return Desk(tools)


OUTCOMES = {True: 202, False: 410, StoreError("disk full"): 503}


@pytest.mark.parametrize("few", [0, 100], ids=["at once", "one by one"])
@pytest.mark.parametrize("outcomes", [*itertools.product(OUTCOMES, repeat=2)])
def test_each_report_of_a_group_gets_the_answer_of_its_own_round(
    desk: Desk, outcomes: tuple[bool | StoreError, ...], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wire, "few", few)
    expected = {}
    for place in range(12):
        desk.send(f"now {place}", desk.body(f"now {place}"))
        desk.send(f"before {place}", desk.body(f"before {place}", ROUND - 1))
        expected |= {f"now {place}": OUTCOMES[outcomes[0]], f"before {place}": OUTCOMES[outcomes[1]]}
    for name, body, status in (
        ("broken", b"{", 400),
        ("old", desk.body("old", ROUND - 9), 410),
        ("early", desk.body("early", ROUND + 2), 425),
        ("unknown", desk.body("x").replace(desk.plan.name.encode(), b"nobody"), 404),
    ):
        desk.send(name, body)
        expected[name] = status
    assert desk.answers == {}, "nobody is answered before the commit"
    rounds = desk.commit({ROUND: outcomes[0], ROUND - 1: outcomes[1]})
    assert sorted(key.round for key in rounds) == [ROUND - 1, ROUND]
    assert desk.answers == {name: [status] for name, status in expected.items()}
    refused = [status for status in expected.values() if status != 202]
    assert sum(desk.ingest.refused.values()) == len(refused)


def test_a_fault_in_reading_answers_everybody_and_quotes_nobody(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("reticent_collector.http.log.quiet", False)

    def fails(bodies: Iterable[bytes], now: float) -> None:
        raise RuntimeError(f"cannot read {list(bodies)}")

    monkeypatch.setattr(Wire, "singles", lambda self, bodies, now: fails(bodies, now))
    for name in "abc":
        desk.send(name, desk.body(name))
    assert desk.commit({}) == []
    assert desk.answers == {name: [500] for name in "abc"}
    assert log_queue.flush()
    said = capsys.readouterr().err
    assert "internal-error" in said
    assert "plan" not in said


def test_an_answer_that_fails_does_not_swallow_those_after_it(desk: Desk) -> None:
    desk.send("a", desk.body("a"))
    admission = desk.ingest.admit(HEADERS)

    def gone(answer: object) -> None:
        raise RuntimeError("the transport is gone")

    desk.ingest.take(admission, desk.body("b"), gone)
    desk.send("c", desk.body("c"))
    desk.commit({ROUND: True})
    assert desk.answers == {"a": [202], "c": [202]}


def test_acknowledged_reports_are_counted_for_their_keys(desk: Desk) -> None:
    keys = [Key(f"key{place}", "ingest", bytes([place]) * 32, "", 0) for place in range(2)]
    admission = desk.ingest.admit(HEADERS)
    for place in range(9):
        mine = admission._replace(key=keys[place % 3 == 0])
        desk.ingest.take(mine, desk.body(str(place)), lambda answer: None)
    desk.commit({ROUND: True})
    assert {line.id: line.reports for line in desk.ingest.traffic.table(keys)} == {"key0": 6, "key1": 3}
