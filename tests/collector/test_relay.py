"""The relay: it hides who sent a report, and acknowledges what the collector has acknowledged, nothing else."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import chi2
from tests.shared.collectors import (
    BARE,
    SAMPLED,
    Answer,
    RelayService,
    Service,
    bearer,
    in_thread,
    make_certificate,
    make_keys,
    make_reports,
    usage,
)

from reticent.collector import Access, Client, Collector, KeyFile, Limits, Relay, Wire, shuffled
from reticent.plan import Plan
from reticent.reports import Report, to_json, to_ndjson, to_packed
from reticent.stores import RoundKey, open_store

PLANS = [Plan.from_toml(text) for text in (usage(1), usage(2), BARE, SAMPLED)]
PLAN = PLANS[0]
NOW = PLAN.round_at(time.time())
NDJSON, PACKED = "application/x-ndjson", "application/vnd.reticent.packed"


def url_of(service: Service) -> str:
    return f"http://127.0.0.1:{service.port}"


@contextmanager
def relaying(to: str, key: str | None = None, timeout: float = 10.0, **options: Any) -> Iterator[Service]:
    options = {"batch": 1, "seconds": 15.0, "patience": 20.0, **options}
    with in_thread(Relay(PLANS, Client(to, key, timeout), **options)) as service:
        yield service


def post_all(service: Service, reports: list[Report], **headers: str) -> list[Answer]:
    """Send reports at once, each on a connection of its own."""
    with ThreadPoolExecutor(len(reports)) as pool:
        return list(pool.map(service.send, reports))


def counted(store: Any, number: int = NOW, plan: Plan = PLAN) -> int:
    counts = store.counts(RoundKey(plan.name, plan.version, number))
    return sum(by_metric["minutes"].devices for by_metric in counts.values())


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Any]]:
    """A collector for a relay, and its store."""
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('behind') / 'store.db'}")
    with in_thread(Collector(PLANS, store, limits=Limits(batch=50))) as service:
        yield service, store


# What a client is answered


def bodies() -> dict[str, tuple[bytes, str]]:
    """Requests of all kinds, and what is wrong with them."""
    good, late, early = (make_reports(PLAN, number, 5, seed="told") for number in (NOW, 7, NOW + 9))
    unknown = replace(good[0], plan="unknown")
    newer = replace(good[0], version=9)
    mixed = [
        good[0],
        late[0],
        good[1],
        early[0],
        good[1],
        newer,
        *make_reports(PLANS[1], NOW, 3, seed="told"),
    ]
    bare = make_reports(PLANS[2], PLANS[2].round_at(time.time()), 3, seed="told")
    sampled = make_reports(PLANS[3], PLANS[3].round_at(time.time()), 3, seed="told")
    return {
        "one": (to_json(good[2]), "application/json"),
        "one late": (to_json(late[0]), "application/json"),
        "one early": (to_json(early[0]), "application/json"),
        "one of another plan": (to_json(unknown), "application/json"),
        "one of another version": (to_json(newer), "application/json"),
        "one malformed": (b"{}", "application/json"),
        "lines": (to_ndjson([*mixed, *bare, *sampled]), NDJSON),
        "lines, some malformed": (b"{}\n\n" + to_ndjson(mixed) + b"nothing\n", NDJSON),
        "no line that counts": (b"{}\n" + to_json(late[0]), NDJSON),
        "empty lines": (b"\n\n", NDJSON),
        "packed": (to_packed([good[3], late[0], early[0], good[4]], PLAN), PACKED),
        "packed, sampled": (to_packed(sampled, PLANS[3]), PACKED),
        "packed, a tag that is none": (to_packed(good, PLAN)[:-3] + b"\xff" + to_packed(good, PLAN)[-2:], PACKED),
        "packed, of another plan": (to_packed([], replace(PLAN, name="unknown")), PACKED),
        "packed, cut off": (to_packed(good, PLAN)[:-1], PACKED),
        "packed, empty": (to_packed([], PLAN), PACKED),
        "too many lines": (to_ndjson(make_reports(PLAN, NOW, 51)), NDJSON),
        "too many packed": (to_packed(make_reports(PLAN, NOW, 51), PLAN), PACKED),
        "another type": (to_json(good[0]), "text/plain"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def relay(behind: tuple[Service, Any]) -> Iterator[Service]:
    with relaying(url_of(behind[0]), limits=Limits(batch=50)) as service:
        yield service


@pytest.mark.parametrize("name", bodies())
def test_a_client_gets_the_answer_that_the_collector_would_give(
    behind: tuple[Service, Any], relay: Service, name: str
) -> None:
    body, kind = bodies()[name]
    through, direct = relay.post(body, kind), behind[0].post(body, kind)
    assert (through.status, through.json) == (direct.status, direct.json)
    assert relay.post(body, kind).json == direct.json  # once more: a duplicate is acknowledged like a new one


def test_batches_of_clients_are_split_up_and_put_together_again(behind: tuple[Service, Any]) -> None:
    """Two versions and a late report in one request, and batches of the relay that the collector finds too large."""
    number = NOW - 1
    reports = [*make_reports(PLAN, number, 120, seed=1), *make_reports(PLANS[1], number, 60, seed=1)]
    reports.insert(77, make_reports(PLAN, 7, 1)[0])
    with relaying(url_of(behind[0])) as relay:
        answer = relay.post(to_ndjson(reports), NDJSON)
    assert answer.json == {"accepted": 180, "rejected": [{"index": 77, "code": "late"}]}
    assert (counted(behind[1], number), counted(behind[1], number, PLANS[1])) == (120, 60)


def test_the_other_paths(relay: Service) -> None:
    assert [relay.get(path).status for path in ("/healthz", "/readyz", "/v1/reports", "/v1/plans", "/")] == [
        200, 200, 405, 404, 404,
    ]  # fmt: skip


def test_pages_of_allowed_origins_may_send(behind: tuple[Service, Any]) -> None:
    with relaying(url_of(behind[0]), allowed_origins=["https://app.example.org"]) as relay:
        headers = {"Content-Type": "application/json", "Origin": "https://app.example.org"}
        answer = relay.call("POST", "/v1/reports", to_json(make_reports(PLAN, NOW, 1)[0]), headers)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (202, headers["Origin"])
        strange = relay.call("POST", "/v1/reports", b"{}", {**headers, "Origin": "https://other.example.org"})
        assert "access-control-allow-origin" not in strange.headers


# What the collector sees


class Recorder:
    """Something that takes packed batches as a collector does, and keeps every byte that it was sent."""

    def __init__(self, answer: Callable[[bytes], bytes] | None = None) -> None:
        self.requests: list[bytes] = []
        self.peers: list[str] = []
        self._answer = answer or self.accept
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def accept(self, body: bytes) -> bytes:
        batch = Wire(PLANS).packed(body, NOW * PLAN.round_seconds, 10**6)
        return respond(202, {"accepted": batch.accepted, "rejected": []})  # type: ignore[union-attr]

    def _run(self) -> None:
        while True:
            try:
                connection, (address, _) = self._server.accept()
            except OSError:
                return
            self.peers.append(address)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # the relay may have had enough of an answer
            while request := read_request(connection):
                self.requests.append(request)
                connection.sendall(self._answer(request.partition(b"\r\n\r\n")[2]))


def read_request(connection: socket.socket) -> bytes:
    data = b""
    while True:
        head, end, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if end and length and len(body) == int(length[1]):
            return data
        more = connection.recv(1 << 16)
        if not more:
            return b""
        data += more


def respond(status: int, document: object, *headers: str) -> bytes:
    body = json.dumps(document).encode()
    lines = [f"HTTP/1.1 {status} Something", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def send_from(address: str, service: Service, body: bytes, **headers: str) -> int:
    connection = HTTPConnection(service.host, service.port, timeout=30, source_address=(address, 0))
    connection.request("POST", "/v1/reports", body, {"Content-Type": "application/json", **headers})
    status = connection.getresponse().status
    connection.close()
    return status


def test_what_the_collector_sees_depends_on_the_reports_alone() -> None:
    """Who sends them, in which order, with which headers and how they are written makes no difference."""
    reports = make_reports(PLAN, NOW, 30)
    plain = [("127.0.0.1", to_json(report), {}) for report in reports]
    odd = [
        (
            f"127.0.0.{place + 2}",
            json.dumps(dict(reversed(json.loads(to_json(report)).items())), indent=1).encode(),
            {"User-Agent": f"app/{place}", "X-Forwarded-For": "203.0.113.9", "Cookie": f"id={place}",
             "Forwarded": "for=203.0.113.9", "Accept-Language": "gsw", "X-Request-Id": f"{place:032}"},
        )
        for place, report in reversed(list(enumerate(reports)))
    ]  # fmt: skip
    seen = []
    for clients in (plain, odd):
        with Recorder() as recorder, relaying(recorder.url, "key", batch=30) as relay:
            with ThreadPoolExecutor(30) as pool:
                sent = pool.map(lambda client: send_from(client[0], relay, client[1], **client[2]), clients)
                assert set(sent) == {202}
            (request,) = recorder.requests
            assert recorder.peers == ["127.0.0.1"]
            head, _, body = request.replace(recorder.url.encode()[7:], b"HOST").partition(b"\r\n\r\n")
            start = len(to_packed([], PLAN))
            width = (len(body) - start) // 30
            rows = [body[place : place + width] for place in range(start, len(body), width)]
            seen.append((head, body[:start], sorted(rows)))
    assert seen[0] == seen[1]
    head, start_of_body, rows = seen[0]
    assert head.split(b"\r\n") == [
        b"POST /v1/reports HTTP/1.1",
        b"host: HOST",
        b"authorization: Bearer key",
        b"content-type: application/vnd.reticent.packed",
        b"content-length: %d" % (len(start_of_body) + sum(map(len, rows))),
    ]
    assert start_of_body + b"".join(rows) == to_packed(
        sorted(reports, key=lambda report: to_packed([report], PLAN)), PLAN
    )


def test_a_batch_waits_for_enough_reports_of_one_version() -> None:
    with Recorder() as recorder, relaying(recorder.url, batch=5) as relay:
        reports = [
            *make_reports(PLAN, NOW, 4),
            *make_reports(PLANS[1], NOW, 4),
            *make_reports(PLAN, NOW, 5)[4:],
        ]
        with ThreadPoolExecutor(9) as pool:
            waiting = [pool.submit(relay.send, report) for report in reports[:8]]
            time.sleep(0.3)
            assert recorder.requests == []
            answers = [pool.submit(relay.send, reports[8])]
            answers += waiting[:4]
            assert {answer.result().status for answer in answers} == {202}
            assert not any(answer.done() for answer in waiting[4:])
            (request,) = recorder.requests
            assert len(request.partition(b"\r\n\r\n")[2]) == len(to_packed(make_reports(PLAN, NOW, 5), PLAN))
            pool.submit(relay.send, make_reports(PLANS[1], NOW, 5)[4])
            assert {answer.result().status for answer in waiting[4:]} == {202}
    assert len(recorder.requests) == 2


def test_with_few_reports_a_batch_holds_those_that_came_meanwhile() -> None:
    with Recorder() as recorder, relaying(recorder.url, batch=1000, seconds=0.5) as relay:
        assert {answer.status for answer in post_all(relay, make_reports(PLAN, NOW, 3))} == {202}
        assert relay.send(make_reports(PLAN, NOW, 4)[3]).status == 202
    assert [len(request.partition(b"\r\n\r\n")[2]) for request in recorder.requests] == [
        len(to_packed(make_reports(PLAN, NOW, count), PLAN)) for count in (3, 1)
    ]


def rejected_as_uniform(shuffle: Callable[[list[int]], list[int]], draws: int = 12_000) -> bool:
    """Whether the orders of four things are not equally likely; a false alarm in a million runs."""
    counts = Counter(tuple(shuffle([0, 1, 2, 3])) for _ in range(draws))
    expected = draws / 24
    statistic = sum((counts[order] - expected) ** 2 / expected for order in itertools.permutations(range(4)))
    return bool(statistic > chi2.ppf(1 - 1e-6, 23))


def test_every_order_of_a_batch_is_equally_likely() -> None:
    def naive(things: list[int]) -> list[int]:
        """The well-known mistake: each changes places with any."""
        things = list(things)
        for place in range(len(things)):
            other = random.randrange(len(things))
            things[place], things[other] = things[other], things[place]
        return things

    assert not rejected_as_uniform(shuffled)
    assert rejected_as_uniform(naive)
    assert rejected_as_uniform(lambda things: things)
    assert shuffled([]) == []
    assert sorted(shuffled(range(1000))) == list(range(1000))


def test_the_order_is_that_of_the_operating_systems_numbers_and_equal_ones_are_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = iter([(5, 5, 1), (3, 1, 2)])
    monkeypatch.setattr(
        os, "urandom", lambda size: b"".join(number.to_bytes(size // 3, "little") for number in next(numbers))
    )
    assert shuffled("abc") == ["b", "c", "a"]


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


# Keys and certificates


def test_clients_have_keys_of_their_own(behind: tuple[Service, Any], tmp_path: Path) -> None:
    report = make_reports(PLAN, NOW, 1)[0]
    (tmp_path / "keys").write_text("one\ntwo\n")
    with relaying(url_of(behind[0]), keys=KeyFile(tmp_path / "keys")) as relay:
        assert [relay.send(report, key).status for key in (None, "one", "two", "three")] == [
            401,
            202,
            202,
            401,
        ]


def test_client_keys_are_read_again_and_an_empty_file_opens_nothing(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\ntwo\n")
    access = Access(KeyFile(file))

    def known() -> list[bool]:
        access.refresh()
        return [access.is_open, *(access.known(key) is not None for key in (b"one", b"two", b"three", b""))]

    assert known() == [False, True, True, False, False]
    file.write_text("two\nthree\n")
    assert known() == [False, False, True, True, False]
    file.write_text(" \n")
    assert known() == [False, False, True, True, False]
    file.unlink()
    assert known() == [False, False, True, True, False]


def test_a_key_that_the_collector_does_not_take_is_not_the_clients_fault(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    keys = make_keys(store.url, "ingest", "reader", "revoked")
    report = make_reports(PLAN, NOW, 1)[0]
    with in_thread(Collector([PLAN], store)) as collector:
        for key, status in (
            (keys["ingest"], 202),
            (keys["reader"], 503),
            (keys["revoked"], 503),
            (None, 503),
        ):
            with relaying(url_of(collector), key) as relay:
                answer = relay.send(report, "of a client")
                assert answer.status == status
                assert keys["ingest"] not in answer.body.decode()


def test_the_collectors_certificate_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = make_certificate(tmp_path)
    collector = Service(tmp_path, usage(), scheme="https")
    collector.start("--tls-cert", str(certificate), "--tls-key", str(key))
    report, url = make_reports(PLAN, NOW, 1)[0], f"https://127.0.0.1:{collector.port}"
    try:
        with relaying(url, patience=0.5) as relay:
            assert relay.send(report).status == 503
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with relaying(url, patience=0.5) as relay:
            assert relay.send(report).status == 202
    finally:
        collector.stop()


# As processes


def test_a_relay_writes_nothing_and_stops_in_good_order(behind: tuple[Service, Any], tmp_path: Path) -> None:
    relay = RelayService(tmp_path, usage()).start("--to", url_of(behind[0]), "--wait", "0.3")
    before = sorted(path.name for path in tmp_path.iterdir())
    with ThreadPoolExecutor(5) as pool:
        answers = [pool.submit(relay.send, report) for report in make_reports(PLAN, NOW, 5, seed="stop")]
        assert relay.process is not None
        files = {os.readlink(file) for file in Path(f"/proc/{relay.process.pid}/fd").iterdir()}
        time.sleep(0.1)
        assert relay.stop() == 0
        assert {answer.result().status for answer in answers} == {202}
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    written = {name for name in files if name.startswith("/") and not name.startswith("/dev/")}
    assert written <= {str(tmp_path / "log")}
    assert "127.0.0.1" not in relay.log.replace("http://127.0.0.1:", "")


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
