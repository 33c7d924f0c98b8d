"""Browsers turned against the dashboard: scripts in texts, forms of others, frames, caches, redirects."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

import pytest

from reticent.errors import PlanError
from reticent.plan import Plan
from reticent.reports import Report, to_json
from reticent_collector.stores import Layout, RoundKey, create_key
from reticent_lab.fleet import SdkFleet

PAYLOADS = {
    "element": "<zzz yyy=1>zzz</zzz>",
    "attribute": "\" yyy=1 onclick=alert(1) '",
    "quote": "' yyy='1' x=`",
    "end of a tag": "\"><zzz yyy='1'>",
    "script": "</title></svg></textarea></script><script>zzz()</script>",
    "picture": "<img src=x onerror=zzz>",
    "svg": "</text><animate onbegin=zzz attributeName=x><foreignObject><zzz>",
    "comment": "--><zzz><!--",
    "cdata": "]]><zzz yyy=1><![CDATA[",
    "template": "{{ 7 * 191 }}{% raw %}<zzz>",
    "entity": "&lt;zzz&gt;&#60;zzz&#62;&quot; yyy=1",
    "address": "javascript:zzz()//",
    "controls": "\x01\x0b\x0c\x1f\u2028\u2029\u202e<zzz>\x7f",
    "lines": "\r\n\r\n<zzz>\r\nSet-Cookie: zzz=1",
    "nul": "<z\x00zz yyy=1>",
}

PLAN = """
min_reports = 1
[plan]
name = "hostile"
version = 1
round = "1h"
grace = "1h"
owner = {text}

[metrics.mean]
kind = "mean"
unit = {text}
description = {text}
max_value = 10
epsilon = 2.0

[metrics.spread]
kind = "histogram"
unit = {text}
description = {text}
max_value = 10
buckets = 4
mechanism = "hadamard-bit"
epsilon = 2.0

[metrics.windows]
kind = "histogram"
unit = {text}
description = {text}
max_value = 10
buckets = 4
mechanism = "d-bit-flip"
bits = 2
epsilon = 2.0

[segments]
os = ["a", "b"]
"""
NOW = 1_800_000_000 + 1800.0
DEVICES = 60

PAGES = [
    "/",
    "/plans/hostile",
    "/plans/hostile/metrics/mean",
    "/plans/hostile/metrics/mean?by=os&tag=a",
    "/plans/hostile/metrics/spread",
    "/plans/hostile/metrics/spread?view=norm-sub&segment=os:a",
    "/plans/hostile/metrics/windows",
    "/health",
]


def quoted(text: str) -> str:
    """A text in TOML; JSON's escapes are TOML's, but for that of DEL."""
    return json.dumps(text).replace("\x7f", "\\u007f")


def fill(store: Any) -> None:
    """Two sealed rounds and an open one."""
    (plan,) = store.plans()
    fleet = SdkFleet(plan, DEVICES, 3, [{"os": "ab"[device % 2]} for device in range(DEVICES)])
    now, layout = plan.round_at(NOW), Layout(plan)
    store.stored_reports()
    for number in (now - 3, now - 2, now):
        values = {metric.name: [4] * DEVICES for metric in plan.metrics}
        key = RoundKey(plan.name, plan.version, number)
        store.append({key: b"".join(map(layout.pack, fleet.reports(number, values)))})
        if number != now:
            store.seal(key)


@pytest.fixture(scope="module")
def with_text(attack: Any) -> Iterator[Callable[[str], Any]]:
    """A collector whose plan says a text wherever a plan may say one."""
    with ExitStack() as stack:
        made: dict[str, Any] = {}

        def opened(text: str) -> Any:
            if text not in made:
                plan = PLAN.format(text=quoted(text))
                made[text] = stack.enter_context(attack(plan, fill=fill, clock=lambda: NOW))
            return made[text]

        yield opened


def read(target: Any, path: str, **headers: str) -> Any:
    return target.service.get(path, target.texts["reader"], Accept="text/html", **headers)


def skeleton(page: Any) -> list[tuple[str, tuple[str, ...]]]:
    """The elements and the names of their attributes: what a text must never change."""
    return [(tag, tuple(sorted(attributes))) for tag, attributes in page.tags]


def check_harmless(page: Any) -> None:
    for tag, attributes in page.tags:
        assert "zzz" not in tag
        wrong = [name for name in attributes if name.startswith(("yyy", "on", "style")) or "zzz" in name]
        assert not wrong, (tag, wrong)
        assert tag not in ("iframe", "object", "embed", "base", "img", "animate", "foreignobject")
    assert "".join(page.scripts).strip() == ""
    for address in page.addresses:
        parts = urlsplit(address)
        assert (parts.scheme, parts.netloc) == ("", ""), address


@pytest.fixture(scope="module")
def harmless(with_text: Any, page_of: Any) -> Callable[[str], dict[str, Any]]:
    """The elements of every page when the texts of the plan are harmless; a rate has a warning of its own."""

    @cache
    def pages(unit: str) -> dict[str, Any]:
        return {path: skeleton(page_of(read(with_text(unit), path).body.decode())) for path in PAGES}

    return lambda text: pages("page/minute" if "/" in text else "minute")


@pytest.mark.parametrize("name", PAYLOADS)
def test_texts_of_a_plan_change_no_element(
    with_text: Any, page_of: Any, harmless: Callable[[str], dict[str, Any]], name: str
) -> None:
    """Every page has the elements and attributes that it has with a harmless text."""
    hostile = with_text(PAYLOADS[name])
    for path in PAGES:
        found = read(hostile, path)
        assert found.status == 200, path
        page = page_of(found.body.decode())
        check_harmless(page)
        assert skeleton(page) == harmless(PAYLOADS[name])[path], path
    data = read(hostile, "/v1/plans")
    assert data.headers["content-type"].startswith("application/json")
    if name == "template":
        assert "1337" not in "".join(page_of(read(hostile, "/plans/hostile").body.decode()).texts)


def gathered(store: Any) -> None:
    """An open round in which every report claims the same cohort."""
    (plan,) = store.plans()
    store.stored_reports()
    number, layout = plan.round_at(NOW), Layout(plan)
    made = [
        Report(plan.name, plan.version, number, place.to_bytes(16, "big"), bytes(plan.report_bytes), 0)
        for place in range(200)
    ]
    store.append({RoundKey(plan.name, plan.version, number): b"".join(map(layout.pack, made))})


WARNED = ["/health", "/plans/hostile/metrics/windows", "/plans/hostile/metrics/spread"]


@pytest.fixture(scope="module")
def warned(attack: Any, page_of: Any) -> Callable[[str], dict[str, Any]]:
    """Pages that warn, of a plan whose unit is a text, with a key that has it for a label; made once each."""
    made: dict[str, dict[str, Any]] = {}

    def pages(text: str) -> dict[str, Any]:
        if text not in made:
            with attack(PLAN.format(text=quoted(text)), fill=gathered, clock=lambda: NOW) as target:
                target.app.store.add_key(replace(create_key("ingest", text, 0)[1], id="00000000"))
                target.app.access.refresh()
                made[text] = {path: page_of(read(target, path).body.decode()) for path in WARNED}
        return made[text]

    return pages


@pytest.mark.parametrize("name", PAYLOADS)
def test_texts_in_a_warning_and_labels_of_keys_change_no_element(warned: Any, name: str) -> None:
    """Uneven buckets are named with the plan's unit, keys with their label: both are texts of others."""
    hostile, plain = warned(PAYLOADS[name]), warned("minute")
    for path in WARNED:
        assert any("than chance explains" in text for text in plain[path].texts), path
        check_harmless(hostile[path])
        assert skeleton(hostile[path]) == skeleton(plain[path]), path
    assert sum("minute" in text for text in plain["/health"].texts) >= 2, "the label and the unit are there"


FORMULAS = (
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "\uff1d1",
    "\x00=1",
    "@a\r=1",
)


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_of_a_table_is_a_formula(with_text: Any, formula: str) -> None:
    """A spreadsheet that opens the CSV finds text; the other forms say what the plan says."""
    target = with_text(formula)
    query = "/v1/estimates?plan=hostile&last=1"
    table = read(target, f"{query}&format=csv").body.decode()
    lines = list(csv.DictReader(io.StringIO(table, newline="")))
    assert {line["unit"] for line in lines} == {"'" + formula.replace("\r", "\n")}
    for line in lines:
        numbers = {name: text for name, text in line.items() if name not in ("unit", "plan", "metric")}
        assert all(text[:1] not in "=+@\t\r" for text in numbers.values() if text)
        assert all(float(text) < 0 for text in numbers.values() if text.startswith("-"))
    told = target.service.get(query, target.texts["reader"]).json["estimates"]
    assert {each["unit"] for each in told} == {formula}


def test_a_unit_that_is_none_stays_as_it_is(with_text: Any) -> None:
    table = read(with_text("minute"), "/v1/estimates?plan=hostile&format=csv").body.decode()
    assert {line["unit"] for line in csv.DictReader(io.StringIO(table))} == {"minute"}


def test_the_checks_would_notice(page_of: Any) -> None:
    plain = '<p title="minute">minute</p><script src="/static/x"></script>'
    for text in (PAYLOADS["element"], PAYLOADS["attribute"], PAYLOADS["end of a tag"], PAYLOADS["script"]):
        page = page_of(plain.replace("minute", text))
        assert skeleton(page) != skeleton(page_of(plain))
        with pytest.raises(AssertionError):
            check_harmless(page)


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
@pytest.mark.parametrize("place", ["name", "metric", "segment", "tag", "group"])
def test_names_cannot_be_hostile(place: str, payload: str) -> None:
    """Names of plans, metrics, segments and groups, and tags: the reader takes letters, digits and a few."""
    plan = PLAN.format(text='""')
    edits = {
        "name": ('"hostile"', quoted(payload)),
        "metric": ("[metrics.mean]", f"[metrics.{quoted(payload)}]"),
        "segment": ("os =", f"{quoted(payload)} ="),
        "tag": ('"a"', quoted(payload)),
        "group": ("[segments]", f'[groups.{quoted(payload)}]\nmetrics = ["mean"]\nmax_total = 1\n[segments]'),
    }
    assert Plan.from_toml(plan.replace(*edits["group"]).replace(quoted(payload), "fine"))
    with pytest.raises(PlanError):
        Plan.from_toml(plan.replace(*edits[place]))


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_questions_change_no_element(with_text: Any, page_of: Any, payload: str) -> None:
    """Whatever stands in the address: its query by every name, and the names in its path."""
    target = with_text("minute")
    names = ("confidence", "rounds", "by", "tag", "segment", "round", "view", payload)
    queries = [urlencode([(name, payload)]) for name in names]
    queries.append(urlencode({"segment": f"os:{payload}"}))
    paths = [
        *(f"{path.partition('?')[0]}?{query}" for path in PAGES[2:5:2] for query in queries),
        f"/plans/{quote(payload, safe='')}",
        f"/plans/hostile/metrics/{quote(payload, safe='')}",
        f"/plans/hostile?{urlencode({'by': 'os', 'tag': payload})}",
        f"/login?{urlencode({'next': payload})}",
        f"/login?{urlencode({'next': '/' + payload})}",
    ]
    for path in paths:
        answer = read(target, path)
        assert answer.status in (200, 400, 404), path
        if answer.headers["content-type"].startswith("text/html"):
            check_harmless(page_of(answer.body.decode()))
        assert "set-cookie" not in answer.headers


def test_texts_of_a_report_are_never_said(attack: Any, tools: Any) -> None:
    """A tag outside the plan's set becomes "other"; anything else is refused without being repeated."""
    with attack(tools.usage()) as target:
        plan = target.service.plans[0]
        for payload in PAYLOADS.values():
            report = tools.make_reports(plan, target.service.now(plan), 1, payload)[0]
            fields = json.loads(to_json(report))
            for change in (
                {"plan": payload[:60]},
                {"id": payload},
                {"bits": payload},
                {"segment": {payload: "linux"}},
                {payload: 1},
            ):
                answer = target.service.post(
                    json.dumps({**fields, **change}).encode(), key=target.texts["ingest"]
                )
                assert answer.status in (400, 404)
                assert b"zzz" not in answer.body
                assert answer.headers["content-type"] == "application/problem+json"
            fields["segment"] = {"os": payload}
            answer = target.service.post(json.dumps(fields).encode(), key=target.texts["ingest"])
            assert answer.status == 202
        answer = read(target, "/plans/app-usage/metrics/minutes?by=os")
        assert b"zzz" not in answer.body
        assert b'value="other"' in answer.body


HOSTS = [
    "evil.example//x", 'x"><zzz yyy=1>', "x/../..", "x#zzz", "x?zzz=1", "x\\evil.example", "evil.example", "",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_lies_changes_no_address(with_text: Any, page_of: Any, host: str) -> None:
    """What names no host is refused; what might, changes nothing on the page."""
    target = with_text("minute")
    for path in PAGES[2:5:2]:
        usual, found = read(target, path), read(target, path, Host=host)
        if found.status == 400:
            assert found.json["code"] == "bad_request"
            assert b"zzz" not in found.body
        else:
            assert page_of(found.body.decode()).addresses == page_of(usual.body.decode()).addresses


# Forms of other sites, frames, caches, cookies

ELSEWHERE = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://{host}.evil.example"},
    {"Origin": "http://evil.example/{host}"},
    {"Origin": "http://evil.example@{host}"},
    {"Origin": "{host}"},
    {"Origin": "http://{host}", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "http://{host}", "Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": ""},
    {"Sec-Fetch-Site": "Same-Origin"},
    {"Sec-Fetch-Site": "same-origin, cross-site"},
]


@pytest.mark.parametrize("headers", ELSEWHERE, ids=str)
@pytest.mark.parametrize("path", ["/login", "/logout"])
def test_forms_of_other_sites_log_nobody_in_or_out(target: Any, path: str, headers: dict[str, str]) -> None:
    host = f"{target.service.host}:{target.service.port}"
    sent = {name: value.format(host=host) for name, value in headers.items()}
    sent |= {"Content-Type": "application/x-www-form-urlencoded", "Cookie": target.cookie("reader")}
    answer = target.service.call("POST", path, urlencode({"key": target.texts["reader"]}).encode(), sent)
    assert (answer.status, answer.json["code"]) == (403, "forbidden")
    assert "set-cookie" not in answer.headers


def test_links_log_nobody_in_or_out(target: Any) -> None:
    """A link or a picture elsewhere is a GET; with a session's cookie too, it changes nothing."""
    cookie = {"Cookie": target.cookie("reader")}
    for path in ("/logout", f"/login?{urlencode({'key': target.texts['reader']})}"):
        answer = target.service.call("GET", path, None, cookie)
        assert answer.status == (405 if path == "/logout" else 200)
        assert "set-cookie" not in answer.headers


TARGETS = [
    "//evil.example", "///evil.example", "/\\evil.example", "\\/evil.example", "/\t/evil.example",
    "/\n/evil.example", "https:evil.example", "https:/evil.example", "https://evil.example", "@evil.example",
    ".evil.example", "javascript:alert(1)", "data:text/html,x", "\x00//evil.example", " //evil.example",
    "/%09/evil.example", "/..//evil.example", "/.//evil.example", "/?//evil.example", "/#//evil.example",
    "/%2f%2fevil.example", "/%5cevil.example", "/\u2044evil.example", "/\uff0fevil.example",
    "/a//evil.example", "\\\\evil.example", "evil.example", "/\r\nSet-Cookie: x=y", "", "/\u2028",
]  # fmt: skip


@pytest.mark.parametrize("wanted", TARGETS)
def test_whoever_logs_in_stays_here(target: Any, page_of: Any, wanted: str) -> None:
    """Location, resolved as a browser does it, is on this server; so is what the page would send on."""
    body = urlencode({"key": target.texts["reader"], "next": wanted}).encode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    here = f"http://{target.service.host}:{target.service.port}"
    answer = target.service.call("POST", "/login", body, form)
    place = answer.headers["location"]
    assert answer.status == 303
    assert place.isascii()
    assert place.isprintable()
    assert place.startswith("/")
    assert not place.startswith(("//", "/\\"))
    assert urlsplit(urljoin(f"{here}/login", place)).netloc == urlsplit(here).netloc
    page = page_of(target.service.get(f"/login?{urlencode({'next': wanted})}").body.decode())
    (hidden,) = [each["value"] for each in page.all("input") if each["name"] == "next"]
    assert hidden.startswith("/")
    assert not hidden.startswith(("//", "/\\"))
    assert hidden.isprintable()


def test_the_way_to_log_in_leads_back_here(target: Any) -> None:
    for path in (
        "//evil.example",
        "/%0d%0aSet-Cookie:%20x=y",
        "/\\evil.example",
        "/plans/x?next=//evil.example",
    ):
        said = target.service.raw(
            f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\nConnection: close\r\n\r\n".encode(),
            pause=0,
        )
        head = said.partition(b"\r\n\r\n")[0]
        assert head.count(b"location: ") == head.count(b"location: /login?next=/") <= 1
        assert b"\nset-cookie" not in head.lower()


PRIVATE = [
    "/", "/plans/app-usage", "/plans/app-usage/metrics/minutes.csv", "/plans/app-usage/metrics/minutes",
    "/plans/nothing", "/health", "/v1/plans",
    "/v1/estimates?plan=app-usage", "/v1/estimates?plan=app-usage&format=csv", "/v1/estimates", "/v1/rounds",
    "/metrics", "/openapi.json", "/nowhere", "/login", "/v1/reports", "/healthz",
]  # fmt: skip


@pytest.mark.parametrize("path", PRIVATE)
def test_nothing_private_is_framed_kept_or_guessed_at(target: Any, path: str) -> None:
    """For a key, a session, and nobody: the way to log in, too, names the address that was asked for."""
    for sent in (
        {"Authorization": f"Bearer {target.texts['reader']}"},
        {"Cookie": target.cookie("reader")},
        {},
    ):
        for accept in ("text/html", "application/json"):
            headers = target.service.call("GET", path, None, {**sent, "Accept": accept}).headers
            assert headers["cache-control"] == "no-store"
            assert headers["x-frame-options"] == "DENY"
            policy = {part.strip() for part in headers["content-security-policy"].split(";")}
            assert {"frame-ancestors 'none'", "default-src 'none'", "base-uri 'none'"} <= policy
            assert "form-action 'self'" in policy
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-opener-policy"] == headers["referrer-policy"] == "same-origin"
            assert not {"access-control-allow-origin", "server"} & headers.keys()


def test_a_plan_is_asked_for_anew_each_time(target: Any) -> None:
    """Devices and relays may keep it, if they ask whether it is still the same."""
    assert (
        target.service.get("/v1/plans/app-usage", target.texts["reader"]).headers["cache-control"]
        == "no-cache"
    )


@pytest.mark.parametrize("secure", [False, True])
def test_the_cookie_of_a_session_is_for_this_server_alone(attack: Any, tools: Any, secure: bool) -> None:
    with attack(tools.usage(), secure_cookies=secure) as target:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode({"key": target.texts["reader"]}).encode()
        for path, sent in (("/login", body), ("/logout", b"")):
            (first, *rest) = target.service.call("POST", path, sent, form).headers["set-cookie"].split(";")
            flags = {part.strip().lower().partition("=")[0]: part.partition("=")[2] for part in rest}
            assert flags.keys() - {"expires"} == {"httponly", "samesite", "path", "max-age"} | (
                {"secure"} if secure else set()
            )
            assert (flags["samesite"].lower(), flags["path"]) == ("strict", "/")
            assert target.texts["reader"] not in first
