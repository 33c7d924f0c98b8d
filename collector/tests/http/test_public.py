"""What everybody may read: the results of chosen plans, finished and folded, and nothing else."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Iterator
from html import unescape
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from starlette.datastructures import URL
from starlette.requests import Request
from tests.shared.plans import BARE

from reticent.plan import Plan
from reticent_collector import dashboard
from reticent_collector.cli.root import reticent as command
from reticent_collector.counts import ABOUT
from reticent_collector.dashboard.points import PointReader
from reticent_collector.dashboard.public import public_handlers
from reticent_collector.http import Collector, Readers
from reticent_collector.results import Results, Selection
from reticent_collector.stores import Layout, RoundKey, create_key, open_store

BROWSER = {"Accept": "text/html,*/*;q=0.8"}

PUBLISHED = [
    "/public",
    "/public/app-usage",
    "/public/app-usage.json",
    "/public/app-usage.toml",
    "/public/app-usage/minutes",
    "/public/app-usage/minutes.json",
    "/public/app-usage/minutes.csv",
    "/public/app-usage/minutes/chart.svg",
    "/public/app-usage/minutes/embed",
    "/public/app-usage/spread",
    "/public/app-usage/spread.json",
    "/public/app-usage/spread/chart.svg",
]
PRIVATE = [
    "/",
    "/plans/app-usage",
    "/plans/app-usage/what-if",
    "/plans/app-usage/metrics/minutes",
    "/plans/app-usage/metrics/minutes.csv",
    "/plans/app-usage/metrics/minutes.svg",
    "/v1/plans",
    "/v1/plans/app-usage",
    "/v1/estimates?plan=app-usage",
    "/v1/changes?plan=app-usage",
    "/v1/rounds",
    "/metrics",
    "/openapi.json",
    "/health",
    "/nowhere",
    "/publicity",
]


class Place:
    """A collector with keys that publishes one of its two plans: three sealed rounds, one open."""

    def __init__(self, tools: Any, public: tuple[str, ...]) -> None:
        text = tools.usage().replace("min_reports = 1", "min_reports = 20")
        self.plan, self.other = Plan.from_toml(text), Plan.from_toml(BARE)
        self.store = open_store("memory:")
        self.store.register(self.plan)
        self.first = 500_000
        for place, count in ((0, 60), (1, 10), (168, 60), (504, 600)):
            number = RoundKey("app-usage", 1, self.first + place)
            reports = tools.make_reports(self.plan, self.first + place, count)
            self.store.append({number: b"".join(map(Layout(self.plan).pack, reports))})
            if place < 504:
                self.store.seal(number)
        for more in (1, 2):  # readers with a key are shown a part of the open round
            self.store.take_step(number)
            reports = tools.make_reports(self.plan, self.first + 504, 600, more)
            self.store.append({number: b"".join(map(Layout(self.plan).pack, reports))})
        self.store.take_step(number)
        self.reader, key = create_key("reader", "", now=0)
        self.store.add_key(key)
        clock = float((self.first + 505) * 3600)
        self.collector = Collector(
            [self.plan, self.other],
            self.store,
            pages=dashboard,
            public=public,
            clock=lambda: clock,
            seal_every=None,
        )
        self.results = Results(self.store, lambda: clock)


@pytest.fixture(scope="module")
def published(tools: Any) -> Iterator[tuple[Any, Place]]:
    place = Place(tools, ("app-usage",))
    with tools.in_thread(place.collector) as service:
        yield service, place


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/plans/app-usage",
        "/plans/app-usage/metrics/minutes",
        "/plans/app-usage/metrics/spread?every=day&since=2027-01-01&until=2027-03-01&confidence=80",
    ],
)
def test_the_data_of_a_page_is_there(published: tuple[Any, Place], path: str) -> None:
    service, place = published
    page = service.get(path, place.reader).body.decode()
    kinds = {}
    for address in re.findall(r'href="(/v1/[^"]*)"', page):
        answer = service.get(unescape(address), place.reader)
        assert answer.status == 200, address
        kinds[answer.headers["content-type"].partition(";")[0]] = address
    assert set(kinds) == {"application/json", "text/csv"}


def test_chosen_plans_are_open_and_nothing_else_is(published: tuple[Any, Place]) -> None:
    service, _ = published
    for path in PUBLISHED:
        answer = service.get(path)
        assert answer.status == 200, path
        assert answer.headers["cache-control"] == "public, max-age=60"
        assert "set-cookie" not in answer.headers
    for path in PRIVATE:
        assert service.get(path).status == 401, path
        assert service.get(path, **BROWSER).status == 303, path
    for path in (
        "/public/bare",
        "/public/bare.json",
        "/public/bare.toml",
        "/public/bare/saves",
        "/public/bare/saves.csv",
        "/public/bare/saves/chart.svg",
        "/public/nope",
        "/public/app-usage/nope",
        "/public/app-usage/minutes/nope",
        "/public/",
        "/public%2F..%2Fhealth",
        "/public/../health",
    ):
        answer = service.get(path)
        assert answer.status == 404, path
        assert b"reports" not in answer.body
    same = (service.get(path).body.replace(name.encode(), b"") for path, name in
            (("/public/bare", "bare"), ("/public/nope", "nope")))  # fmt: skip
    assert len(set(same)) == 1, "a plan that is not public is as if it were not there"
    for method in ("POST", "PUT", "DELETE"):
        assert service.call(method, "/public/app-usage", b"", {}).status == 405


def test_without_public_nothing_is(tools: Any) -> None:
    with tools.in_thread(Place(tools, ()).collector) as service:
        for path in (*PUBLISHED, *PRIVATE):
            assert service.get(path).status == 401, path


def test_every_route_is_known_to_these_tests(published: tuple[Any, Place]) -> None:
    """A public address that nobody thought of fails here."""
    _, place = published
    paths = dashboard.handlers(place.results, place.collector.health, ("app-usage",))
    shapes = {
        path.replace("app-usage", "{plan}").replace("minutes", "{metric}").replace("spread", "{metric}")
        for path in PUBLISHED
    }
    assert {path for path in paths if path.startswith("/public")} == shapes
    assert not [
        path for path in dashboard.handlers(place.results, place.collector.health) if "public" in path
    ]


def test_only_what_is_finished_and_large_enough_is_shown(published: tuple[Any, Place]) -> None:
    service, place = published
    rows = service.get("/public/app-usage/minutes.json").json
    assert rows["about"] == ABOUT
    wanted = [
        result.to_dict()
        for result in place.results.estimates(Selection("app-usage", metric="minutes", every="week"))
        if result.state == "sealed"
    ]
    everything = place.results.estimates(Selection("app-usage", metric="minutes", every="week"))
    assert [result.state for result in everything] == ["open", "sealed", "sealed"]
    assert [row["reports"] for row in wanted] == [60, 60], "two finished weeks; a round of 10 is in neither"
    assert rows["estimates"] == json.loads(json.dumps(wanted))
    assert {row["state"] for row in rows["estimates"]} == {"sealed"}
    assert all(row["reports"] >= 20 for row in rows["estimates"])
    table = list(csv.DictReader(io.StringIO(service.get("/public/app-usage/minutes.csv").body.decode())))
    assert [row["value"] for row in table if row["value"]] == [str(row["value"]) for row in rows["estimates"]]
    page = service.get("/public/app-usage").body.decode()
    assert ABOUT in page
    assert page.count("60 reports, ") == 3
    assert "fewer than 20 reports" in page
    assert service.get("/public/app-usage.toml").body.decode() == place.plan.text


def test_a_chart_can_be_shown_elsewhere_and_a_page_cannot(published: tuple[Any, Place]) -> None:
    service, _ = published
    embed = service.get("/public/app-usage/minutes/embed")
    assert "frame-ancestors *" in embed.headers["content-security-policy"]
    assert "script" not in embed.headers["content-security-policy"]
    assert "x-frame-options" not in embed.headers
    assert b"<script" not in embed.body
    assert ABOUT.encode() in embed.body
    image = service.get("/public/app-usage/minutes/chart.svg")
    assert image.headers["content-type"] == "image/svg+xml"
    root = ElementTree.fromstring(image.body)  # noqa: S314
    assert ABOUT in "".join(root.itertext())
    for path in set(PUBLISHED) - {"/public/app-usage/minutes/embed"}:
        answer = service.get(path)
        if not path.endswith("chart.svg"):
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"], path
            assert answer.headers["x-frame-options"] == "DENY"


def test_an_answer_is_the_same_for_everybody_and_can_be_kept(published: tuple[Any, Place]) -> None:
    service, place = published
    first = service.get("/public/app-usage/minutes")
    for headers in ({"Authorization": f"Bearer {place.reader}"}, {"Host": "elsewhere.example"}):
        assert service.call("GET", "/public/app-usage/minutes", None, headers).body == first.body
    assert service.get("/public/app-usage/minutes?x=1").body == first.body
    again = service.get("/public/app-usage/minutes", **{"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert b"Log out" not in first.body


def test_a_crowd_is_answered_from_memory(
    published: tuple[Any, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, _ = published
    for path in PUBLISHED:
        service.get(path)

    def never(*arguments: object, **named: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Results, "periods", never)
    monkeypatch.setattr(Results, "plans", never)
    assert {service.get(path).status for path in PUBLISHED * 3} == {200}


def test_every_path_of_many_metrics_is_answered_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are kept, however many metrics a plan has; an older collector kept 128 answers."""
    plan = Plan.from_toml(
        BARE + "".join(f"[metrics.m{n}]\nkind = 'mean'\nmax_value = 1\nepsilon = 1.0\n" for n in range(150))
    )
    store = open_store("memory:")
    store.register(plan)
    table = public_handlers(PointReader(Results(store)), {plan.name})["/public/{plan}/{metric}.csv"]

    def ask() -> set[int]:
        scopes = [
            {"type": "http", "method": "GET", "headers": [], "path": f"/public/{plan.name}/{metric.name}.csv",
             "path_params": {"plan": plan.name, "metric": metric.name}}
            for metric in plan.metrics
        ]  # fmt: skip
        return {table(Request(scope)).status_code for scope in scopes}

    assert ask() == {200}
    monkeypatch.setattr(Results, "versions", None)
    assert ask() == {200}


def test_an_answer_is_made_anew_after_a_minute(
    published: tuple[Any, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, _ = published
    assert service.get("/public/app-usage.toml").status == 200
    calls, real, later = [], Results.versions, time.monotonic() + 60
    monkeypatch.setattr(
        Results, "versions", lambda results, name: (calls.append(name), real(results, name))[1]
    )
    assert (service.get("/public/app-usage.toml").status, calls) == (200, [])
    monkeypatch.setattr("reticent_collector.dashboard.public.time.monotonic", lambda: later)
    assert (service.get("/public/app-usage.toml").status, calls) == (200, ["app-usage"])


def test_a_crowd_leaves_room_for_those_with_a_key(
    published: tuple[Any, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, place = published
    assert Readers.most_public < Readers.most_waiting
    monkeypatch.setattr(Readers, "most_public", 0)
    assert service.get("/public/app-usage").status == 503
    assert service.get("/v1/plans", place.reader).status == 200


# Refusals in a browser


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/nowhere", 404, "Page not found"),
        ("GET", "/v1/reports", 405, "This address is not a page"),
        ("POST", "/health", 405, "This address is not a page"),
        ("GET", "/v1/estimates?plan=nope", 404, "Page not found"),
        ("GET", "/v1/estimates", 400, "This request is invalid"),
        ("GET", "/public/nope", 404, "There is no such plan"),
    ],
)
def test_a_browser_gets_a_page_and_a_program_a_document(
    published: tuple[Any, Place], method: str, path: str, status: int, words: str
) -> None:
    service, place = published
    key = {"Authorization": f"Bearer {place.reader}"}
    page = service.call(method, path, b"" if method == "POST" else None, {**BROWSER, **key})
    assert page.status == status
    assert page.headers["content-type"].startswith("text/html")
    assert words in page.body.decode()
    assert b'href="/' in page.body
    answer = service.call(method, path, b"" if method == "POST" else None, {"Accept": "*/*", **key})
    assert answer.status == status
    if not path.startswith("/public"):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json["status"] == status


def test_other_refusals_have_pages_too(published: tuple[Any, Place], monkeypatch: pytest.MonkeyPatch) -> None:
    service, place = published
    key = {"Authorization": f"Bearer {place.reader}"}
    form = {"Content-Type": "application/x-www-form-urlencoded", **BROWSER}
    assert b"too large" in service.call("POST", "/login", b"key=" + b"x" * 5000, form).body
    refused = service.call("POST", "/logout", b"", {**form, "Origin": "https://elsewhere.example"})
    assert refused.status == 403
    assert b"Access denied" in refused.body
    monkeypatch.setattr(Readers, "most_waiting", -Readers.threads)
    busy = service.call("GET", "/v1/plans", None, {**BROWSER, **key})
    assert (busy.status, busy.headers["retry-after"]) == (503, "5")
    assert b"The collector is busy" in busy.body
    monkeypatch.undo()

    def broken(*arguments: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(Results, "plans", broken)
    failed = service.call("GET", "/v1/plans", None, {**BROWSER, **key})
    assert failed.status == 500
    assert b"secret" not in failed.body
    assert b"This page failed" in failed.body


def test_a_plan_that_is_not_served_cannot_be_public(tmp_path: Any, tools: Any) -> None:
    (tmp_path / "plan.toml").write_text(tools.usage())
    options = ["--store", f"sqlite:///{tmp_path / 'x.db'}", "--listen", "127.0.0.1:0", "--public", "nope"]
    result = CliRunner().invoke(command, ["serve", str(tmp_path / "plan.toml"), *options])
    assert result.exit_code == 1
    assert "--public nope" in result.output
    assert "app-usage" in result.output


def test_an_answer_is_kept_by_the_path_that_was_asked_for(published: tuple[Any, Place]) -> None:
    """An older Starlette takes the URL of a request from its Host header, slashes and all."""
    _, place = published

    class Misled(Request):
        url = URL("http://host/public/app-usage/minutes.json?/public/app-usage/spread.json")

    def answer(kind: type[Request], metric: str) -> Any:
        path, plan = f"/public/app-usage/{metric}.json", "app-usage"
        about = {"path": path, "path_params": {"plan": plan, "metric": metric}, "query_string": b""}
        return json.loads(
            ask(kind({"type": "http", "method": "GET", "headers": [(b"host", b"x")], **about})).body
        )

    ask = dashboard.handlers(place.results, Mock(), ["app-usage"])["/public/{plan}/{metric}.json"]
    for kind, metric in ((Misled, "spread"), (Request, "minutes")):
        assert {row["metric"] for row in answer(kind, metric)["estimates"]} == {metric}
