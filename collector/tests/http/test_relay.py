"""The relay: it hides who sent a report, and acknowledges what the collector has acknowledged, nothing else."""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import chi2
from tests.shared.collectors import (
    RelayService,
    Service,
    in_thread,
    make_certificate,
    make_keys,
    make_reports,
    usage,
)
from tests.shared.relays import (
    NDJSON,
    NOW,
    PACKED,
    PLAN,
    PLANS,
    Recorder,
    counted,
    post_all,
    relaying,
    url_of,
)

from reticent.reports import to_json, to_ndjson, to_packed
from reticent_collector.http import Access, Collector, KeyFile, Limits, shuffled
from reticent_collector.stores import open_store

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
    number = PLAN.round_at(time.time()) - 1
    reports = [*make_reports(PLAN, number, 120, seed=1), *make_reports(PLANS[1], number, 60, seed=1)]
    reports.insert(77, make_reports(PLAN, 7, 1)[0])
    before = [counted(behind[1], number, plan) for plan in PLANS[:2]]  # an hour ago it was the current round
    with relaying(url_of(behind[0])) as relay:
        answer = relay.post(to_ndjson(reports), NDJSON)
    assert answer.json == {"accepted": 180, "rejected": [{"index": 77, "code": "late"}]}
    assert [counted(behind[1], number, plan) for plan in PLANS[:2]] == [before[0] + 120, before[1] + 60]


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


def test_a_batch_goes_on_in_another_order() -> None:
    body = to_packed(make_reports(PLAN, NOW, 30), PLAN)
    with Recorder() as recorder, relaying(recorder.url, batch=30) as relay:
        assert relay.post(body, PACKED).status == 202
    (request,) = recorder.requests
    passed_on = request.partition(b"\r\n\r\n")[2]
    assert sorted(passed_on) == sorted(body)
    assert passed_on != body  # one order in 30! is the same


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


# As a process


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
