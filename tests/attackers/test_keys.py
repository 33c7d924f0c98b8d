"""Guessing keys: what is compared, what a hundred thousand guesses leave behind, whom they slow down."""

from __future__ import annotations

import gc
import hmac
import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest

from reticent_collector.http import COOKIE, Access, Ingest, Limits, ProblemError
from reticent_collector.stores import create_key, open_store


@pytest.fixture
def made() -> tuple[Access, str, Any]:
    store = open_store("memory:")
    text, key = create_key("reader", "", 0)
    store.add_key(key)
    return Access(store, rate=1000.0), text, key


class Watched(dict[bytes, Any]):
    """Keys that note what they are asked for."""

    asked: list[bytes]

    def get(self, name: Any, default: Any = None) -> Any:
        self.asked.append(name)
        return super().get(name, default)

    def __getitem__(self, name: bytes) -> Any:
        pytest.fail("keys are looked up with get alone")


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """What was compared in constant time."""
    seen: list[tuple[Any, Any]] = []

    def compare(left: Any, right: Any) -> bool:
        seen.append((left, right))
        return hmac.compare_digest(left, right)

    class Fake:
        compare_digest, new = staticmethod(compare), staticmethod(hmac.new)

    monkeypatch.setattr("reticent_collector.http.access.hmac", Fake)
    return seen


def guesses(text: str) -> list[bytes]:
    """Guesses that share more and more with the right key."""
    right = text.encode()
    return [right[:size] + b"A" * (len(right) - size) for size in range(0, len(right), 7)] + [b"", b"\xff"]


def test_what_is_looked_up_and_compared_are_hashes(
    made: tuple[Access, str, Any], compared: list[tuple[Any, Any]]
) -> None:
    """A guess that is nearly right has a hash like any other: no time depends on how much of it is right."""
    access, text, key = made
    access._keys = Watched(access._keys)
    access._keys.asked = []
    for guess in guesses(text):
        assert access.known(guess) is None
    assert access._keys.asked == [sha256(guess).digest() for guess in guesses(text)]
    assert compared == []
    assert access.known(text.encode()) == key
    assert compared == [(key.hash, sha256(text.encode()).digest())]


def test_seals_of_sessions_are_compared_whole(
    made: tuple[Access, str, Any], compared: list[tuple[Any, Any]]
) -> None:
    access, _, key = made
    name, end, seal = access.session(key).split(".")
    for forged in (seal[:-1] + "x", "0" * 64, "", seal.upper(), seal + "0"):
        header = [(b"cookie", f"{COOKIE}={name}.{end}.{forged}".encode())]
        with pytest.raises(ProblemError, match="unauthorized"):
            access.require(header, ("reader",))
        assert compared[-1] == (seal.encode(), forged.encode())


def headers_of(number: int) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer reticent_reader_%08x_%043d" % (number, number))]


def blocks_left_by(work: Callable[[], None]) -> int:
    """Pieces of memory that are in use afterwards and were not before."""
    gc.collect()
    before = sys.getallocatedblocks()
    work()
    gc.collect()
    return sys.getallocatedblocks() - before


def test_a_hundred_thousand_wrong_keys_leave_nothing(made: tuple[Access, str, Any]) -> None:
    """Nothing is kept of a key that is not known, and the allowance of those that are is not touched."""
    access, text, key = made

    def guess() -> None:
        for number in range(100_000):
            with suppress(ProblemError):  # pytest.raises would keep something of each
                access.require(headers_of(number), ("reader",))
                pytest.fail("a wrong key was taken")

    assert blocks_left_by(guess) < 1000
    assert (len(access._keys), len(access._allowances)) == (1, 0)
    access.spend(access.known(text.encode()), 999)
    assert set(access._allowances) == {key.id}


def test_a_hundred_thousand_wrong_keys_have_no_line_and_no_series(made: tuple[Access, str, Any]) -> None:
    """What is counted by key is counted for keys of the store; the others are one number together."""
    access, text, key = made
    nobody: Any = SimpleNamespace()
    ingest = Ingest(nobody, nobody, access, Limits(), lambda: 0.0)
    kind = (b"content-type", b"application/json")

    def guess() -> None:
        for number in range(100_000):
            with suppress(ProblemError):
                ingest.admit([kind, *headers_of(number)])
                pytest.fail("a wrong key was taken")

    assert blocks_left_by(guess) < 1000
    assert ingest.traffic.table(access.all_keys) == ()
    assert dict(ingest.refused) == {"unauthorized": 100_000}
    with pytest.raises(ProblemError, match="forbidden"):
        ingest.admit([kind, (b"authorization", f"Bearer {text}".encode())])
    (line,) = ingest.traffic.table(access.all_keys)
    assert (line.id, line.requests, line.refused) == (key.id, 1, 1), "a known key is counted"


def test_series_are_as_many_as_keys_that_exist(attack: Any, tools: Any) -> None:
    with attack(tools.usage()) as target:
        plan = target.service.plans[0]
        (report,) = tools.make_reports(plan, target.service.now(plan), 1)

        def series() -> set[str]:
            page = target.service.get("/metrics", target.texts["reader"]).body.decode()
            return {line.partition(" ")[0] for line in page.splitlines() if line.startswith("reticent_key_")}

        before = series()
        names = {f'reticent_key_{name}_total{{key="{target.keys[role].id}"}}'
                 for name in ("requests", "reports", "refused", "limited") for role in ("ingest", "admin")}  # fmt: skip
        assert before == names
        for number in range(200):
            wrong = headers_of(number)[0][1].decode().removeprefix("Bearer ")
            assert target.service.send(report, wrong).status == 401
        assert series() == before


def test_the_test_of_memory_would_notice(made: tuple[Access, str, Any]) -> None:
    """A collector that kept a bucket for whatever name it is given would fail."""
    access, _, key = made

    def forget_nothing() -> None:
        for number in range(1000):
            access.spend(type(key)(f"{number:08x}", "reader", key.hash, "", 0), 1)

    assert blocks_left_by(forget_nothing) > 1000


def test_wrong_keys_do_not_use_up_the_rate_of_right_ones(attack: Any, tools: Any) -> None:
    with attack(tools.usage(), rate=3.0) as target:
        plan = target.service.plans[0]
        reports = tools.make_reports(plan, target.service.now(plan), 3)
        for number in range(50):
            wrong = headers_of(number)[0][1].decode().removeprefix("Bearer ")
            assert target.service.send(reports[0], wrong).status == 401
        answers = [target.service.send(report, target.texts["ingest"]).status for report in reports]
        assert answers == [202, 202, 202]
        assert target.app.ingest.refused["unauthorized"] == 50
        assert set(target.app.ingest.refused) == {"unauthorized"}


def test_a_key_over_its_rate_is_held_back_whatever_it_sends(attack: Any, tools: Any) -> None:
    """
    One batch may overdraw the allowance; after it the key waits some seconds, and other keys do not. A batch
    that never fits is refused, and costs nobody anything: it took all devices of its key with it for hours.
    """
    with attack(tools.usage(), rate=2.0) as target:
        plan = target.service.plans[0]
        reports = tools.make_reports(plan, target.service.now(plan), 21)
        too_many, most = (b"\n".join(map(tools.to_json, some)) for some in (reports, reports[:20]))
        key = target.texts["ingest"]
        answer = target.service.post(too_many, "application/x-ndjson", key)
        assert (answer.status, answer.json["code"]) == (413, "too_large")
        assert answer.json["detail"] == "This key may send 2 reports a second, and 20 per batch."
        assert target.service.post(most, "application/x-ndjson", key).status == 202
        for kind, body in (
            ("application/json", tools.to_json(reports[0])),
            ("application/vnd.reticent.packed", b"x"),
        ):
            answer = target.service.post(body, kind, key)
            assert (answer.status, answer.json["code"]) == (429, "rate_limited")
            assert 7 <= int(answer.headers["retry-after"]) <= 10
        assert target.service.send(reports[0], target.texts["admin"]).status == 202
        page = target.service.get("/health", target.texts["reader"]).body.decode()
        assert "Over the rate" in page.partition("Needs attention: ")[2].partition("<")[0]
        limited = target.service.get("/metrics", target.texts["reader"]).body.decode()
        for role, count in (("ingest", 2), ("admin", 0)):
            (line,) = [
                line
                for line in limited.splitlines()
                if line.startswith("reticent_key_limited_total{") and target.keys[role].id in line
            ]
            assert float(line.rpartition(" ")[2]) == count
