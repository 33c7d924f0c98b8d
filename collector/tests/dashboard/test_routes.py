from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from reticent.errors import StoreError
from reticent_collector.http.log import REPEAT_SECONDS, _Repeats, log_queue
from reticent_lab.fleet import SdkFleet


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/plans/nope", 404, "no plan called"),
        ("/plans/app-usage/metrics/nope", 404, "no metric called"),
        ("/plans/nope/metrics/nope", 404, "no plan called"),
        ("/plans/app-usage/metrics/editor_seconds?by=country", 400, "by: expected one of os, channel."),
        ("/plans/app-usage/metrics/starts?segment=os:beos", 400, "segment os: expected one of"),
        ("/plans/app-usage/metrics/starts?confidence=101", 400, "confidence: expected"),
        ("/plans/app-usage/metrics/starts?confidence=97", 400, "confidence: expected one of 80, 90, 95, 99"),
        ("/plans/app-usage?rounds=0", 400, "rounds: expected a whole number from 1 to 1,000"),
        ("/plans/app-usage?rounds=1001", 400, "rounds: expected"),
        ("/plans/app-usage?rounds=%C2%B2", 400, "rounds: expected"),
        (f"/plans/app-usage?rounds={'x' * 5000}", 400, "rounds: expected"),
        ("/plans/app-usage/metrics/starts?view=x", 400, "view: expected one of cut, raw, norm-sub"),
        ("/plans/app-usage/metrics/starts?segment=os", 400, "segment: expected"),
        ("/plans/app-usage/metrics/starts?at=9999-12-31T23:00-12:00", 400, "at: expected a date"),
        ("/plans/app-usage/metrics/starts?at=0001-01-01T00:00%2B12:00", 400, "at: expected a date"),
        (
            "/plans/app-usage/metrics/starts?every=year",
            400,
            "every: expected one of round, window, day, week, month",
        ),
    ],
)
def test_what_is_not_there_is_said_in_words(world: Any, path: str, status: int, message: str) -> None:
    answer = world.get(path)
    assert answer.status == status
    assert message in answer.text
    assert "Go " in answer.text
    if "/metrics/" in path:
        place, mark, query = path.partition("?")
        answer = world.get(f"{place}.svg{mark}{query}")
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status
        assert message in answer.json()["detail"]


@pytest.mark.parametrize(
    ("error", "status"), [(StoreError("disk at /secret/place is full"), 503), (KeyError("secret"), 500)]
)
def test_errors_never_show_what_is_inside(
    make_world: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    world = make_world()

    def broken(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(world.store, "rounds", broken)
    for path in (
        "/",
        "/plans/app-usage",
        "/plans/app-usage/metrics/starts",
        "/plans/app-usage/metrics/starts.csv",
    ):
        answer = world.get(path)
        assert answer.status == status
        assert "secret" not in answer.text
        assert "Traceback" not in answer.text


def test_the_log_says_where_a_page_failed_and_not_what_was_in_it(
    make_world: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = make_world()
    faults: list[Exception] = [KeyError("what was asked"), StoreError("the disk is full")]

    def broken(*arguments: object) -> None:
        raise faults.pop(0)

    monkeypatch.setattr(world.store, "rounds", broken)
    monkeypatch.setattr("reticent_collector.http.log.quiet", False)
    monkeypatch.setattr("reticent_collector.http.log._repeats", _Repeats())
    capsys.readouterr()
    assert [world.get(path).status for path in ("/", "/")] == [500, 503]
    assert log_queue.flush()
    logged = capsys.readouterr().err
    internal, store = (json.loads(line) for line in logged.splitlines())
    assert (internal["event"], internal["kind"]) == ("internal-error", "KeyError")
    assert re.fullmatch(r"reticent_collector/results/reader\.py:\d+", internal["at"])
    assert "what was asked" not in logged
    assert (store["event"], store["reason"]) == ("store-failed", "the disk is full")


def test_a_store_that_is_away_is_a_line_and_not_one_for_each_who_asks(
    make_world: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world, reasons = make_world(), ["it is away"] * 20 + ["the disk is full"] * 20

    def broken(*arguments: object) -> None:
        raise StoreError(reasons.pop(0))

    monkeypatch.setattr(world.store, "rounds", broken)
    monkeypatch.setattr("reticent_collector.http.log.quiet", False)
    now = [100.0]
    monkeypatch.setattr("reticent_collector.http.log._repeats", _Repeats(lambda: now[0]))
    capsys.readouterr()
    assert {world.get("/").status for _ in range(40)} == {503}
    assert log_queue.flush()
    told = [json.loads(line)["reason"] for line in capsys.readouterr().err.splitlines()]
    assert told == ["it is away", "the disk is full"]
    now[0] += REPEAT_SECONDS
    reasons.append("it is away")
    assert world.get("/").status == 503
    assert log_queue.flush()
    assert "it is away" in capsys.readouterr().err


def test_a_health_function_that_fails_is_a_page_too(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "health", None)
    answer = world.get("/health")
    assert answer.status == 500
    assert "This page failed" in answer.text


def test_static_files_may_be_kept_for_ever(world: Any) -> None:
    page = world.get("/").page
    addresses = [address for address in page.addresses if address.startswith("/static/")]
    assert len(addresses) == 3
    for address in addresses:
        first = world.get(address)
        assert first.status == 200
        assert "immutable" in first.headers["cache-control"]
        assert first.headers["etag"].strip('"') in address
        again = world.get(address, {"If-None-Match": first.headers["etag"]})
        assert (again.status, again.text) == (304, "")
    kinds = {world.get(address).headers["content-type"].partition(";")[0] for address in addresses}
    assert kinds == {"text/css", "text/javascript", "image/svg+xml"}
    assert world.get("/static/../conftest.py").status == 404
    assert world.get("/static/dashboard.css").status == 404


def test_only_get_is_answered(world: Any) -> None:
    from http.client import HTTPConnection

    connection = HTTPConnection("127.0.0.1", world.port, timeout=10)
    connection.request("POST", "/", body=b"")
    assert connection.getresponse().status == 405
    connection.close()


def test_pages_over_many_rounds(make_world: Callable[..., Any]) -> None:
    world = make_world()
    fleet = SdkFleet(world.plan, 12, seed=5, segments=[{"os": "linux"}, {"os": "macos"}] * 6)
    last = world.plan.round_at(world.now) - 1
    values = {metric.name: [2] * 12 for metric in world.plan.metrics}
    for place in range(160):
        world.answer(fleet, last - place, values, seal=place > 0)
    for path in (
        "/",
        "/plans/app-usage/metrics/editor_seconds?by=os",
        "/plans/app-usage/metrics/editor_spread",
    ):
        address = path if path == "/" else f"{path}{'&' if '?' in path else '?'}every=round&rounds=160"
        assert world.get(address).status == 200
    answer = world.get("/plans/app-usage/metrics/editor_seconds?every=round&rounds=160&by=os")
    assert len(answer.text) < 300_000
    assert len(answer.page.rows) < 120, "the rest is in a file"
    table = world.get("/plans/app-usage/metrics/editor_seconds.csv?every=round&rounds=160")
    assert len(table.text.splitlines()) == 161
