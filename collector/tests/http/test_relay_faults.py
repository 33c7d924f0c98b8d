"""A report that a relay acknowledges is one that the collector has acknowledged: through cuts, lies and kills."""

from __future__ import annotations

import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest
from tests.shared.collectors import (
    RelayService,
    Service,
    bearer,
    make_reports,
    usage,
)
from tests.shared.relays import (
    NDJSON,
    NOW,
    PLAN,
    PLANS,
    Recorder,
    counted,
    post_all,
    read_request,
    relaying,
    respond,
    url_of,
)

from reticent.reports import Report, to_json, to_ndjson, to_packed
from reticent_collector.stores import open_store

# Acknowledged by the collector, or not at all


@pytest.mark.parametrize(
    "answer",
    [
        respond(200, {"accepted": 3, "rejected": []}),
        respond(202, {}),
        respond(202, "thank you"),
        respond(202, {"accepted": 2, "rejected": []}),
        respond(202, {"accepted": 4, "rejected": []}),
        respond(202, {"accepted": True, "rejected": [{"index": 0, "code": "late"}, {"index": 1, "code": "late"}]}),
        respond(202, {"accepted": 2, "rejected": [{"index": 3, "code": "late"}]}),
        respond(202, {"accepted": 2, "rejected": [{"index": -1, "code": "late"}]}),
        respond(202, {"accepted": 1, "rejected": [{"index": 0, "code": "late"}, {"index": 0, "code": "late"}]}),
        respond(202, {"accepted": 2, "rejected": [{"index": 0, "code": "accepted"}]}),
        respond(202, {"accepted": 2, "rejected": [{"index": 0, "code": "bored"}]}),
        respond(202, {"accepted": 3, "rejected": []})[:-1],
        respond(302, {}, "location: /login"),
        respond(200, {"code": "accepted"}),
        respond(400, {"code": "accepted"}),
        respond(503, {"code": "late"}),
        respond(401, {"code": "unauthorized"}),
        respond(403, {"code": "forbidden"}),
        respond(404, "<html>"),
        respond(404, {"code": "not_found"}),
        respond(413, {"code": "too_large"}),
        respond(429, {"code": "rate_limited"}, "retry-after: 600"),
        respond(500, {"code": "internal"}),
        respond(503, {"code": "busy"}, "retry-after: 1"),
        respond(202, {"accepted": 3, "rejected": []}) + respond(202, {}),
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3,
        b"HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{",
        b"HTTP/1.1 202 Accepted\r\nx: " + b"y" * 400_000,
        b"SSH-2.0\r\n",
    ],
    ids=range(29),
)  # fmt: skip
def test_what_the_collector_did_not_acknowledge_is_to_be_sent_again(answer: bytes) -> None:
    reports = make_reports(PLAN, NOW, 3)
    with (
        Recorder(lambda _: answer) as recorder,
        relaying(recorder.url, batch=3, timeout=0.1, patience=0.15) as relay,
    ):
        for refusal in [*post_all(relay, reports), relay.post(to_ndjson(reports), NDJSON)]:
            assert (refusal.status, refusal.json["code"], refusal.headers["retry-after"]) == (
                503,
                "unavailable",
                "5",
            )
        assert relay.get("/readyz").status == 503
        assert relay.get("/healthz").status == 200


@pytest.mark.parametrize(
    ("status", "code"), [(404, "unknown_plan"), (409, "version_mismatch"), (400, "malformed")]
)
def test_a_batch_that_is_refused_as_a_whole_is_refused_report_by_report(status: int, code: str) -> None:
    with (
        Recorder(lambda _: respond(status, {"code": code})) as recorder,
        relaying(recorder.url, batch=3) as relay,
    ):
        answers = post_all(relay, make_reports(PLAN, NOW, 3))
        assert {(answer.status, answer.json["code"]) for answer in answers} == {(status, code)}


def test_each_client_gets_the_answer_for_its_own_report() -> None:
    """The collector refuses some, by their place in an order that only the relay knows."""
    reports = make_reports(PLAN, NOW, 40)
    codes = {report.id: ("late", "early", "accepted")[place % 3] for place, report in enumerate(reports)}

    def judge(body: bytes) -> bytes:
        start = len(to_packed([], PLAN))
        width = (len(body) - start) // 40
        ids = [body[place + 8 : place + 24] for place in range(start, len(body), width)]
        refused = [{"index": place, "code": codes[each]} for place, each in enumerate(ids)]
        refused = [row for row in refused if row["code"] != "accepted"]
        return respond(202, {"accepted": 40 - len(refused), "rejected": refused})

    with Recorder(judge) as recorder, relaying(recorder.url, batch=40) as relay:
        answers = post_all(relay, reports)
        assert [answer.json.get("code", "accepted") for answer in answers] == [
            codes[each.id] for each in reports
        ]
        answer = relay.post(to_ndjson(reports), NDJSON).json
        assert answer["rejected"] == [
            {"index": place, "code": codes[report.id]}
            for place, report in enumerate(reports)
            if codes[report.id] != "accepted"
        ]
        assert answer["accepted"] == 13


def test_no_more_wait_than_may_and_a_collector_that_hangs_frees_them() -> None:
    release = threading.Event()

    def hang(_: bytes) -> bytes:
        release.wait(20)
        return respond(503, {})

    reports = make_reports(PLAN, NOW, 5)
    with (
        Recorder(hang) as recorder,
        relaying(recorder.url, batch=3, patience=1.5, timeout=0.6, most_waiting=4) as relay,
        ThreadPoolExecutor(4) as pool,
    ):
        waiting = [pool.submit(relay.send, report) for report in reports[:3]]
        while not recorder.requests:
            time.sleep(0.01)
        busy = relay.post(to_ndjson(reports[3:]), NDJSON)
        assert (busy.status, busy.json["code"], busy.headers["retry-after"]) == (503, "busy", "1")
        waiting.append(pool.submit(relay.send, reports[3]))  # behind them, and answered with them
        answers = [answer.result() for answer in waiting]
        assert {(answer.status, answer.json["code"]) for answer in answers} == {(503, "unavailable")}
        assert len(recorder.requests) >= 2  # each attempt had a limit of its own
        assert len(set(recorder.requests)) == 1
        release.set()


def test_what_is_answered_makes_room_for_others() -> None:
    with Recorder() as recorder, relaying(recorder.url, most_waiting=2) as relay:
        for report in make_reports(PLAN, NOW, 8):
            assert relay.send(report).status == 202


def test_a_plan_with_few_reports_does_not_wait_for_one_with_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions take turns, however many reports of one of them wait."""
    monkeypatch.setattr("reticent_collector.http.relay.MOST_IN_BATCH", 2)
    crowd, few = make_reports(PLAN, NOW, 60), make_reports(PLANS[1], NOW, 1)

    with Recorder() as recorder:

        def slowly(body: bytes) -> bytes:
            time.sleep(0.01)
            return recorder.accept(body)

        recorder._answer = slowly
        with relaying(recorder.url) as relay, ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(relay.post, to_ndjson(crowd), NDJSON)
            while not recorder.requests:
                time.sleep(0.001)
            assert relay.send(few[0]).status == 202
            sent_before = len(recorder.requests)
            assert waiting.result().status == 202
    assert len(recorder.requests) == 31
    assert sent_before < 20


def test_whether_a_round_is_open_is_for_the_collector_to_say() -> None:
    """The clock of a relay may be wrong: this collector takes reports of rounds long over and far away."""
    with Recorder(lambda _: respond(202, {"accepted": 1, "rejected": []})) as recorder:
        with relaying(recorder.url) as relay:
            for number in (0, 7, NOW, NOW + 1000, 2**53 - 1):
                assert relay.send(make_reports(PLAN, number, 1)[0]).status == 202
        assert len(recorder.requests) == 5


# A cut connection


class CuttingProxy:
    """Stands between relay and collector, and cuts a connection once: after so many bytes of one direction."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.cut: tuple[str, float] | None = None
        """Of the next exchange: the direction, and the share of its bytes that pass."""
        self.exchanges = 0
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, socket.create_connection(("127.0.0.1", self._port)) as upstream:
            while request := read_request(connection):
                self.exchanges += 1
                cut, self.cut = self.cut, None
                if cut is not None and cut[0] == "request":
                    upstream.sendall(request[: round(cut[1] * len(request))])
                    return
                upstream.sendall(request)
                answer = upstream.recv(1 << 16)
                if cut is not None:
                    connection.sendall(answer[: round(cut[1] * len(answer))])
                    return
                connection.sendall(answer)


@pytest.fixture(scope="module")
def cutting(behind: tuple[Service, Any]) -> Iterator[tuple[CuttingProxy, Service]]:
    proxy = CuttingProxy(behind[0].port)
    with relaying(proxy.url, batch=3) as relay:
        yield proxy, relay
    proxy.close()


SHARES = [0.0, 0.02, 0.2, 0.5, 0.9, 0.995, 1.0]
"""From before the first byte, through the head and the body, to after the last one."""


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("direction", ["request", "answer"])
def test_a_connection_cut_at_any_point_loses_and_doubles_nothing(
    behind: tuple[Service, Any], cutting: tuple[CuttingProxy, Service], direction: str, share: float
) -> None:
    proxy, relay = cutting
    reports = make_reports(PLAN, NOW, 6, seed=(direction, share))
    before, exchanges = counted(behind[1]), proxy.exchanges
    proxy.cut = direction, share
    assert {answer.status for answer in post_all(relay, reports[:3])} == {202}
    assert counted(behind[1]) == before + 3
    sent_again = direction == "request" or share < 1
    assert proxy.exchanges == exchanges + 1 + sent_again
    assert {answer.status for answer in post_all(relay, reports[3:])} == {202}  # and it goes on
    assert counted(behind[1]) == before + 6


# As processes


class Fleet:
    """Clients that send until each report is acknowledged."""

    def __init__(self, reports: list[Report], clients: int = 8) -> None:
        self.acknowledged: set[bytes] = set()
        self.port = 0
        self._threads = [
            threading.Thread(target=self._run, args=(reports[place::clients],)) for place in range(clients)
        ]

    def _run(self, reports: list[Report]) -> None:
        connection = None
        for report in reports:
            while report.id not in self.acknowledged:
                try:
                    connection = connection or HTTPConnection("127.0.0.1", self.port, timeout=20)
                    headers = {"Content-Type": "application/json", **bearer(None)}
                    connection.request("POST", "/v1/reports", to_json(report), headers)
                    response = connection.getresponse()
                    response.read()
                except (OSError, HTTPException):
                    assert connection is not None
                    connection.close()
                    connection = None
                    time.sleep(0.01)
                else:
                    if response.status == 202:
                        self.acknowledged.add(report.id)
                    else:
                        assert response.status == 503
                        time.sleep(0.01)
        if connection is not None:
            connection.close()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def busy(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)


@pytest.mark.parametrize(
    ("kills", "reports"),
    [(2, 200), pytest.param(100, 10_000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])],
)
def test_nothing_acknowledged_is_lost_or_doubled_when_relay_and_collector_are_killed(
    tmp_path: Path, kills: int, reports: int
) -> None:
    """Each is killed in turn, at any moment, and started again on its port."""
    draws = random.Random(16)
    (tmp_path / "collector").mkdir()
    (tmp_path / "relay").mkdir()
    collector = Service(tmp_path / "collector", usage()).start()
    relay = RelayService(tmp_path / "relay", usage())
    options = ("--to", url_of(collector), "--batch", "4", "--wait", "0.02", "--retry-for", "1")
    fleet = Fleet(make_reports(PLAN, NOW, reports))
    fleet.port = relay.start(*options).port
    fleet.start()
    try:
        for kill in range(kills):
            goal = (kill + 1) * reports // (kills + 2)
            while len(fleet.acknowledged) < goal:
                time.sleep(0.002)
            time.sleep(draws.random() * 0.02)
            victim = (relay, collector)[kill % 2]
            assert victim.stop(signal.SIGKILL) == -signal.SIGKILL
            acknowledged = len(fleet.acknowledged)
            store = open_store(collector.store)
            assert counted(store) >= acknowledged
            store.close()
            victim.start(*(options if victim is relay else ()), port=victim.port)
        while fleet.busy:
            time.sleep(0.01)
    finally:
        relay.stop()
        collector.stop()
    assert len(fleet.acknowledged) == reports
    store = open_store(collector.store)
    assert store.verify() == []
    assert counted(store) == reports
    store.close()
