"""Keys in headers, sessions and their cookies, and rates; tests/attackers has every route with every key."""

from __future__ import annotations

import hmac
import random
import re
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector import dashboard
from reticent_collector.http import COOKIE, SESSION_SECONDS, Access, Collector, ProblemError
from reticent_collector.stores import create_key, open_store

KEYS = ("none", "wrong", "revoked", "ingest", "reader", "admin")


def key_of(locked: Any, kind: str) -> str | None:
    return None if kind == "none" else locked.keys.get(kind, "reticent_admin_00000000_" + "A" * 43)


def test_an_address_that_is_not_there_needs_a_key_too(locked: Any) -> None:
    """Who has no key learns nothing of what there is."""
    assert locked.get("/nowhere").status == 401
    assert locked.get("/nowhere", locked.keys["reader"]).status == 404


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", "bearer", "Basic {}", "{}", "Bearer  x", "Bearer {}x", "Bearer x{}", "Token {}",
     "Bearer {},", "Bearer \u00e9"],
)  # fmt: skip
def test_a_malformed_authorization_is_no_key(locked: Any, tools: Any, value: str) -> None:
    for role, method, path in (("ingest", "POST", "/v1/reports"), ("reader", "GET", "/v1/plans")):
        sent = {"Authorization": value.format(locked.keys[role]), "Content-Type": "application/json"}
        answer = locked.call(method, path, b"{}" if method == "POST" else None, sent)
        assert (answer.status, answer.json["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == 'Bearer realm="reticent"'


def test_the_scheme_may_be_written_in_any_case(locked: Any) -> None:
    for word in ("bearer", "BEARER"):
        answer = locked.call("GET", "/v1/plans", None, {"Authorization": f"{word} {locked.keys['reader']}"})
        assert answer.status == 200


# Sessions


def log_in(locked: Any, key: str, target: str = "/", **headers: str) -> Any:
    body = urlencode({"key": key, "next": target}).encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    return locked.call("POST", "/login", body, {**kind, **headers})


def cookie_of(answer: Any) -> str:
    return str(answer.headers["set-cookie"]).split(";")[0]


def test_logging_in_and_out(locked: Any) -> None:
    answer = log_in(locked, locked.keys["reader"], "/plans/app-usage")
    assert (answer.status, answer.headers["location"]) == (303, "/plans/app-usage")
    attributes = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/", f"max-age={SESSION_SECONDS}"} <= attributes
    assert locked.keys["reader"] not in answer.headers["set-cookie"]
    cookie = cookie_of(answer)
    for path in ("/", "/v1/plans", "/metrics"):
        assert locked.get(path, Cookie=f"a=b; {cookie}").status == 200
    out = locked.call("POST", "/logout", b"", {"Cookie": cookie})
    assert (out.status, out.headers["location"]) == (303, "/login")
    assert f'{COOKIE}=""' in out.headers["set-cookie"]
    assert "max-age=0" in out.headers["set-cookie"].lower()


def test_a_browser_without_a_session_is_sent_to_log_in(locked: Any) -> None:
    answer = locked.get("/plans/app-usage", Accept="text/html")
    assert (answer.status, answer.headers["location"]) == (303, "/login?next=/plans/app-usage")
    assert locked.get("/login").status == 200


@pytest.mark.parametrize("kind", ["ingest", "revoked", "wrong", "", "x" * 3000])
def test_only_readers_get_in(locked: Any, kind: str) -> None:
    answer = log_in(locked, key_of(locked, kind) if kind in KEYS else kind)
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


def test_a_form_that_is_too_large_is_not_read(locked: Any) -> None:
    assert log_in(locked, "x" * 5000).status == 413


def test_forged_cookies_are_refused(locked: Any) -> None:
    cookie = cookie_of(log_in(locked, locked.keys["reader"]))
    name, end, seal = cookie.partition("=")[2].split(".")
    other_id = locked.keys["admin"].split("_")[2]
    hash_in_the_store = sha256(locked.keys["admin"].encode()).digest()
    by_thief = hmac.new(hash_in_the_store, f"session {other_id} {end}".encode(), sha256).hexdigest()
    for forged in (
        f"{name}.{int(end) + 1}.{seal}", f"{other_id}.{end}.{seal}", f"{name}.{end}.{'0' * 64}",
        f"{name}.{end}.", f"{other_id}.{end}.{by_thief}", f"{name}.{end}", "..", "", "x",
        f"{name}.-1.{seal}", f"{name}.\u0663.{seal}", f"{name}.{'9' * 5000}.{seal}", locked.keys["reader"],
    ):  # fmt: skip
        assert locked.get("/v1/plans", Cookie=f"{COOKIE}={forged}".encode()).status == 401, forged
    assert locked.get("/v1/plans", Cookie=f"{COOKIE}={name}.{end}.{seal}").status == 200


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "http://{host}"}, {"Origin": "https://public.example", "Sec-Fetch-Site": "same-origin"}],
)
def test_forms_of_our_own_are_taken(locked: Any, headers: dict[str, str]) -> None:
    host = f"{locked.host}:{locked.port}"
    sent = {name: value.format(host=host) for name, value in headers.items()}
    assert log_in(locked, locked.keys["reader"], **sent).status == 303


def test_headers_come_once(locked: Any) -> None:
    key = f"Authorization: Bearer {locked.keys['reader']}"
    said = locked.raw(f"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{key}\r\n\r\n".encode())
    names = re.findall(rb"^([\w-]+):", said.partition(b"\r\n\r\n")[0], re.MULTILINE)
    assert len(names) == len({name.lower() for name in names})


# Keys that change while the collector runs


def test_a_revoked_key_ends_within_seconds_and_so_do_its_sessions(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent_collector.http.log.quiet", True)
    monkeypatch.setattr("reticent_collector.http.access.REFRESH_SECONDS", 0.1)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    key = tools.make_keys(url, "reader")["reader"]
    app = Collector([Plan.from_toml(tools.usage())], open_store(url), pages=dashboard)
    with tools.in_thread(app) as service:
        cookie = cookie_of(log_in(service, key))
        assert service.get("/v1/plans", key).status == service.get("/v1/plans", Cookie=cookie).status == 200
        store = open_store(url)
        assert store.revoke_key(key.split("_")[2], int(time.time()))
        store.close()
        end = time.monotonic() + 10
        while service.get("/v1/plans", key).status == 200 and time.monotonic() < end:
            time.sleep(0.1)
        assert service.get("/v1/plans", key).status == 401
        assert service.get("/v1/plans", Cookie=cookie).status == 401
        assert service.get("/v1/plans").status == 401  # the last key is gone, and still nothing is open


def test_a_session_ends_in_time() -> None:
    store = open_store("memory:")
    text, key = create_key("reader", "", 0)
    store.add_key(key)
    now = [1000.0]
    access = Access(store, clock=lambda: now[0])
    headers = [(b"cookie", f"{COOKIE}={access.session(key)}".encode())]
    assert access.require(headers, ("reader",)) == key
    now[0] += SESSION_SECONDS - 1
    assert access.require(headers, ("reader",)) == key
    now[0] += 1
    with pytest.raises(ProblemError, match="unauthorized"):
        access.require(headers, ("reader",))
    with pytest.raises(ProblemError, match="unauthorized"):  # another process has another secret
        Access(store, clock=lambda: 1000.0).require(headers, ("reader",))
    assert access.require([(b"authorization", b"Bearer " + text.encode())], ("reader",)) == key


class Failing:
    def keys(self) -> list[Any]:
        raise StoreError("gone")


def test_a_store_that_cannot_be_read_opens_nothing() -> None:
    access = Access(Failing())  # type: ignore[arg-type]
    assert not access.is_open
    with pytest.raises(ProblemError, match="unauthorized"):
        access.require([], ("reader",))


def test_a_store_that_has_lost_its_keys_opens_nothing() -> None:
    """As a lake whose folder is not mounted for a while: whoever says that they are local would be let in."""
    store, local = open_store("memory:"), [(b"host", b"localhost")]
    access = Access(store)
    assert access.require(local, ("reader",)) is None  # it never had a key
    text, key = create_key("reader", "", 0)
    for keys in ([key], [], []):
        store.keys = lambda keys=keys: keys  # type: ignore[method-assign]
        access.refresh()
        with pytest.raises(ProblemError, match="unauthorized"):
            access.require(local, ("reader",))
    store.keys = lambda: [key]  # type: ignore[method-assign]
    access.refresh()
    assert access.require([(b"authorization", b"Bearer " + text.encode())], ("reader",)) == key


def test_keys_stay_known_while_the_store_is_away() -> None:
    store = open_store("memory:")
    text, key = create_key("reader", "", 0)
    store.add_key(key)
    access = Access(store)
    access._store = Failing()  # type: ignore[assignment]
    access.refresh()
    assert access.known(text.encode()) == key


def test_known_keys_end_when_keys_cannot_be_read_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them may have been revoked meanwhile. It is said once, and once more when it is over."""
    told: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(
        "reticent_collector.http.access.log_fault", lambda event, error: told.append((event, {}))
    )
    monkeypatch.setattr(
        "reticent_collector.http.access.log", lambda event, **more: told.append((event, more))
    )
    store, clock = open_store("memory:"), Clock()
    text, key = create_key("reader", "", 0)
    store.add_key(key)
    access = Access(store, steady=clock)
    headers = [(b"authorization", b"Bearer " + text.encode())]
    access._store = Failing()  # type: ignore[assignment]
    for _ in range(10):
        clock.now += 60
        access.refresh()
        assert access.require(headers, ("reader",)) == key
    clock.now += 61
    access.refresh()
    with pytest.raises(ProblemError, match="unavailable") as refused:
        access.require(headers, ("reader",))
    assert (refused.value.status, refused.value.retry_after) == (503, 5)
    access._store = store
    access.refresh()
    assert access.require(headers, ("reader",)) == key
    assert told == [("keys-failed", {}), ("keys-read", {"after_seconds": 601})]


def test_a_store_whose_keys_are_all_revoked_is_not_open_from_the_start() -> None:
    store, local = open_store("memory:"), [(b"host", b"localhost")]
    _, key = create_key("reader", "", 0)
    store.add_key(key)
    assert store.revoke_key(key.id, 1)
    access = Access(store)
    assert not access.is_open
    with pytest.raises(ProblemError, match="unauthorized"):
        access.require(local, ("reader",))


# Rates


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def limited(rate: float) -> tuple[Access, Clock]:
    clock = Clock()
    return Access(open_store("memory:"), rate, steady=clock), clock


def refusal(access: Access, reports: int) -> tuple[int, int | None] | None:
    try:
        access.spend(None, reports)
    except ProblemError as problem:
        return problem.status, problem.retry_after
    return None


def test_an_allowance_that_is_used_up_exactly_is_used_up() -> None:
    """At a level of exactly 0 nothing is taken; any moment later something is."""
    access, clock = limited(8.0)
    assert [refusal(access, 1) for _ in range(9)] == [None] * 8 + [(429, 1)]
    clock.now += 2**-20
    assert [refusal(access, 1) for _ in range(2)] == [None, (429, 1)]


def test_it_fills_up_to_one_second_and_no_further() -> None:
    access, clock = limited(4.0)
    clock.now += 3600
    assert [refusal(access, 1) for _ in range(5)] == [None] * 4 + [(429, 1)]
    clock.now += 0.5
    assert [refusal(access, 1) for _ in range(3)] == [None, None, (429, 1)]


def test_to_look_costs_nothing() -> None:
    access, _ = limited(4.0)
    assert [refusal(access, 0) for _ in range(10)] == [None] * 10
    assert [refusal(access, 4), refusal(access, 0)] == [None, (429, 1)]


@pytest.mark.parametrize(
    ("batch", "later", "wait"),
    [(40, 0.0, 10), (40, 0.25, 9), (40, 1.0, 9), (40, 8.0, 2), (40, 8.25, 1), (40, 9.0, 1), (40, 9.25, None),
     (39, 0.0, 9), (39, 8.75, 1), (39, 9.0, None), (5, 0.0, 1), (5, 0.25, 1), (5, 0.5, None), (4, 0.0, 1)],
)  # fmt: skip
def test_a_debt_is_paid_off_at_the_rate(batch: int, later: float, wait: int | None) -> None:
    """At 4 a second from a full allowance: after a batch of b, the level is 4 - b + 4t."""
    access, clock = limited(4.0)
    assert refusal(access, batch) is None
    clock.now += later
    assert refusal(access, 1) == (None if wait is None else (429, wait))


def test_more_than_ever_fits_is_refused_and_costs_nothing() -> None:
    access, _ = limited(100.0)
    assert refusal(access, 1001) == (413, None)
    assert refusal(access, 100_000) == (413, None)
    assert refusal(access, 1000) is None
    assert refusal(access, 1001) == (413, None)  # before the rate: to wait would not help
    assert refusal(access, 1) == (429, 10)


def test_the_law_of_the_allowance() -> None:
    """
    Over 20,000 requests of any size at any time: nobody is asked to wait for longer than ten seconds, to wait
    that long is enough and a second less is not, and in no span of t seconds are rate · (t + 11) taken.
    """
    draw, rate = random.Random(16), 16.0
    access, clock = limited(rate)
    taken: list[tuple[float, int]] = []
    for _ in range(20_000):
        clock.now += draw.choice([0, 2**-6, 2**-3, 1, 4, 30]) * draw.random()
        reports = draw.choice([1, 1, 1, 5, 16, 17, 100, 159, 160])
        answer = refusal(access, reports)
        if answer is None:
            taken.append((clock.now, reports))
            continue
        status, wait = answer
        assert (status, wait is not None and 1 <= wait <= 10) == (429, True)
        assert wait is not None
        clock.now += wait - 1
        if wait > 1:
            assert refusal(access, 0) is not None
        clock.now += 1
        assert refusal(access, reports) is None
        taken.append((clock.now, reports))
    assert len(taken) == 20_000
    for first in range(0, len(taken), 7):
        brought, begin = 0, taken[first][0]
        for at, reports in taken[first : first + 50]:
            brought += reports
            assert brought < rate * (at - begin + 11)


def test_each_key_has_its_own_allowance(start: Callable[..., Any], tools: Any) -> None:
    service = start(tools.usage(), keys=("ingest", "admin"), options=("--rate", "9"))
    plan = service.plans[0]
    reports = tools.make_reports(plan, service.now(plan), 40)
    answers = [service.send(report, service.keys["ingest"]) for report in reports]
    refused = [answer for answer in answers if answer.status != 202]
    assert refused
    assert len(answers) - len(refused) >= 9
    for answer in refused:
        assert (answer.status, answer.json["code"]) == (429, "rate_limited")
        assert int(answer.headers["retry-after"]) >= 1
    assert service.send(reports[0], service.keys["admin"]).status == 202
    time.sleep(int(refused[-1].headers["retry-after"]))
    assert service.send(reports[0], service.keys["ingest"]).status == 202


# Without keys: for this machine alone


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("localhost", True), ("127.0.0.1", True), ("[::1]", True), ("LocalHost:8000", True), ("127.0.0.1:1", True),
     ("[::1]:65535", True), ("", False), ("evil.example", False), ("localhost.evil.example", False),
     ("evil.example:8000", False), ("127.0.0.1.evil.example", False), ("localhost:", False), ("127.0.0.2", False),
     ("[::2]", False), ("10.0.0.1", False), ("localhost:8000.evil.example", False), ("xlocalhost", False)],
)  # fmt: skip
def test_without_keys_only_names_of_this_machine_are_answered_to(
    collector: Any, tools: Any, host: str, is_local: bool
) -> None:
    """A page that a browser loaded from a name that now leads here sends that name (DNS rebinding)."""
    plan = collector.plans[0]
    body = tools.to_json(tools.make_reports(plan, collector.now(plan), 1, host)[0])
    kind = {"Content-Type": "application/json", "Host": host}
    for method, path, sent, good in (
        ("POST", "/v1/reports", body, 202),
        ("POST", "/v1/reports?long=way", body, 202),
        ("GET", "/v1/plans", None, 200),
        ("GET", "/v1/estimates?plan=app-usage", None, 200),
        ("GET", "/metrics", None, 200),
        ("GET", "/", None, 200),
    ):
        answer = collector.call(method, path, sent, kind)
        assert answer.status == (good if is_local else 403), path
        if not is_local:
            assert answer.json["code"] == "forbidden"
            assert "localhost" in answer.json["detail"]
    assert collector.call("GET", "/healthz", None, {"Host": host}).status == 200


def test_the_host_of_a_target_goes_before_the_header(collector: Any) -> None:
    for target, host, status in (
        ("http://evil.example", "localhost", 403),
        ("http://localhost", "evil.example", 200),
    ):
        sent = f"GET {target}/v1/plans HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
        assert collector.raw(sent).startswith(b"HTTP/1.1 %d " % status)
    assert collector.raw(b"GET /v1/plans HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 403 ")


def test_with_keys_any_host_is_answered_to(locked: Any) -> None:
    assert locked.get("/v1/plans", locked.keys["reader"], Host="telemetry.example.org").status == 200
