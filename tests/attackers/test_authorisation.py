"""Every address with every method and every credential; an address that nobody thought of fails a test."""

from __future__ import annotations

from itertools import product
from typing import Any
from urllib.parse import urlencode

import pytest

from reticent.reports import to_json
from reticent_collector.dashboard import assets
from reticent_collector.http import COOKIE, openapi_document

EVERYBODY = frozenset({"none", "wrong", "revoked", "ingest", "reader", "admin"})
READERS = frozenset({"reader", "admin"})
SENDERS = frozenset({"ingest", "admin"})

MATRIX = {
    ("POST", "/v1/reports"): (SENDERS, 202),
    ("GET", "/v1/plans"): (READERS, 200),
    ("GET", "/v1/plans/{name}"): (READERS, 200),
    ("GET", "/v1/estimates"): (READERS, 200),
    ("GET", "/v1/changes"): (READERS, 200),
    ("GET", "/v1/differences"): (READERS, 200),
    ("GET", "/v1/trends"): (READERS, 200),
    ("GET", "/v1/notes"): (READERS, 200),
    ("POST", "/v1/notes"): (frozenset({"admin"}), 201),
    ("GET", "/v1/rounds"): (READERS, 200),
    ("GET", "/metrics"): (READERS, 200),
    ("GET", "/openapi.json"): (READERS, 200),
    ("GET", "/healthz"): (EVERYBODY, 200),
    ("GET", "/readyz"): (EVERYBODY, 200),
    ("GET", "/login"): (EVERYBODY, 200),
    ("POST", "/login"): (EVERYBODY, 303),  # what is asked for is in the form: it holds a reader's key here
    ("POST", "/logout"): (EVERYBODY, 303),
    ("GET", "/"): (READERS, 200),
    ("GET", "/plans/{plan}"): (READERS, 200),
    ("GET", "/plans/{plan}/metrics/{metric}"): (READERS, 200),
    ("GET", "/plans/{plan}/metrics/{metric}.csv"): (READERS, 200),
    ("GET", "/plans/{plan}/metrics/{metric}.svg"): (READERS, 404),  # there is no figure to draw
    ("GET", "/plans/{plan}/what-if"): (READERS, 200),
    ("GET", "/health"): (READERS, 200),
    ("GET", "/static/{name}"): (EVERYBODY, 200),
}
"""Who gets through, and with which answer. HEAD is allowed wherever GET is; nothing else is."""

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
PATHS = sorted({path for _, path in MATRIX})


def fill(path: str) -> str:
    asset = next(iter(assets()))
    place = path.replace("{plan}", "app-usage").replace("{metric}", "minutes")
    place = place.replace("{name}", asset if path.startswith("/static") else "app-usage")
    of_a_plan = ("/v1/estimates", "/v1/changes", "/v1/differences", "/v1/trends")
    return f"{place}?plan=app-usage" if path in of_a_plan else place


def credential(target: Any, transport: str, kind: str) -> dict[str, str]:
    if kind == "none":
        return {}
    if transport == "header":
        text = target.texts.get(kind, "reticent_admin_00000000_" + "A" * 43)
        return {"Authorization": f"Bearer {text}"}
    return {"Cookie": f"{COOKIE}=00000000.99999999999.{'0' * 64}" if kind == "wrong" else target.cookie(kind)}


def body_for(target: Any, tools: Any, method: str, path: str) -> tuple[bytes | None, dict[str, str]]:
    if method in ("GET", "HEAD", "OPTIONS", "TRACE"):
        return None, {}
    if path == "/login":
        form = urlencode({"key": target.texts["reader"]}).encode()
        return form, {"Content-Type": "application/x-www-form-urlencoded"}
    if path == "/v1/notes":
        return b'{"text": "2.3 released"}', {"Content-Type": "application/json"}
    plan = target.service.plans[0]
    report = tools.make_reports(plan, target.service.now(plan), 1, "matrix")[0]
    return to_json(report), {"Content-Type": "application/json"}


def expected(method: str, path: str, kind: str, transport: str) -> int:
    if (method, path, transport) == ("POST", "/v1/reports", "cookie"):
        return 401  # reports come with a key in its header: a session, an admin's too, is nothing here
    if (method, path, transport) == ("POST", "/v1/notes", "cookie") and kind in READERS:
        return 401  # notes too come with a key in its header
    allowed = MATRIX.get(("GET" if method == "HEAD" else method, path))
    if allowed is None:
        public = path == "/v1/reports" or any(
            who == EVERYBODY for (_, at), (who, _) in MATRIX.items() if at == path
        )
        roles, status = EVERYBODY if public else READERS, 405
    else:
        roles, status = allowed
    if kind in roles:
        return status
    return 401 if kind in ("none", "wrong", "revoked") else 403


@pytest.mark.parametrize("transport", ["header", "cookie"])
@pytest.mark.parametrize("path", PATHS)
def test_every_method_with_every_credential(target: Any, tools: Any, path: str, transport: str) -> None:
    """Expected and found answers of one address, as two tables, so that a failure shows all of it."""
    found, wanted = {}, {}
    for method, kind in product(METHODS, sorted(EVERYBODY)):
        body, headers = body_for(target, tools, method, path)
        sent = {**headers, **credential(target, transport, kind)}
        found[method, kind] = target.service.call(method, fill(path), body, sent).status
        wanted[method, kind] = expected(method, path, kind, transport)
    assert found == wanted


def test_the_matrix_has_every_route_of_the_application(target: Any) -> None:
    routes = {
        (method, route.path) for route in target.app._api._app.routes for method in route.methods - {"HEAD"}
    }
    assert routes | {("POST", "/v1/reports")} == set(MATRIX)


def test_the_matrix_agrees_with_the_published_document() -> None:
    for path, operations in openapi_document()["paths"].items():
        for method, operation in operations.items():
            roles, _ = MATRIX[method.upper(), path]
            assert frozenset(operation["x-roles"]) == ({"public"} if roles == EVERYBODY else roles), path


def test_a_route_that_is_not_in_the_matrix_would_be_noticed(target: Any) -> None:
    from starlette.routing import Route

    router = target.app._api._app.router
    router.routes.append(Route("/secrets", lambda request: None))
    try:
        with pytest.raises(AssertionError):
            test_the_matrix_has_every_route_of_the_application(target)
        assert target.service.get("/secrets").status == 401, "and it is behind a key all the same"
    finally:
        router.routes.pop()


@pytest.mark.parametrize("path", ["/v1/plans", "/", "/v1/reports"])
def test_a_key_counts_nowhere_but_in_its_header(target: Any, path: str) -> None:
    key = target.texts["admin"]
    method, body = ("POST", b"{}") if path == "/v1/reports" else ("GET", None)
    for place, headers in (
        (f"{path}?key={key}&access_token={key}&token={key}", {}),
        (path, {"X-Api-Key": key, "X-Auth-Token": key, "Proxy-Authorization": f"Bearer {key}"}),
        (path, {"Authorization": f"Basic {key}"}),
        (path, {"Cookie": f"{COOKIE}={key}; Authorization=Bearer {key}"}),
        (path, {"X-Forwarded-For": "127.0.0.1", "X-Real-Ip": "127.0.0.1", "Forwarded": "for=127.0.0.1"}),
        (path, {"X-Original-Url": "/healthz", "X-Rewrite-Url": "/healthz", "X-Http-Method-Override": "GET"}),
    ):
        sent = {**headers, "Content-Type": "application/json"}
        assert target.service.call(method, place, body, sent).status == 401


def test_no_refusal_tells_whether_there_is_such_a_plan(target: Any) -> None:
    for path in ("/v1/plans/{}", "/plans/{}", "/plans/{}.json", "/plans/{}/metrics/minutes"):
        answers = [target.service.get(path.format(name)) for name in ("app-usage", "nothing")]
        assert answers[0].status == answers[1].status == 401
        assert answers[0].body == answers[1].body


def test_no_site_can_use_an_admin_s_session_to_send_reports(target: Any, tools: Any) -> None:
    """
    Sessions send no reports, wherever a page comes from. Were it otherwise: what a page elsewhere can make a
    browser send without asking first has one of three types, none of which is taken; and asking first is
    answered without leave.
    """
    body, json = body_for(target, tools, "POST", "/v1/reports")
    before = target.open_reports()
    for origin in ("https://evil.example", f"http://{target.service.host}:{target.service.port}"):
        sent = {**json, "Cookie": target.cookie("admin"), "Origin": origin}
        answer = target.service.call("POST", "/v1/reports", body, sent)
        assert (answer.status, answer.json["code"]) == (401, "unauthorized")
    assert target.open_reports() == before
    with_key = {**json, "Cookie": target.cookie("admin"), "Authorization": f"Bearer {target.texts['ingest']}"}
    assert target.service.call("POST", "/v1/reports", body, with_key).status == 202, "beside a key: no harm"
    cookie = {"Cookie": target.cookie("admin"), "Origin": "https://evil.example"}
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert (
            target.service.call("POST", "/v1/reports", body, {**cookie, "Content-Type": kind}).status == 415
        )
    assert target.service.call("POST", "/v1/reports", body, cookie).status == 415
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    answer = target.service.call("OPTIONS", "/v1/reports", None, {**cookie, **asked})
    assert answer.status == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]
