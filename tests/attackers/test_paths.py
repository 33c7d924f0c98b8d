"""Addresses written so that two parts of a server might read them differently."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest

from reticent_collector.dashboard import assets

ASSET = next(iter(assets()))

AROUND_THE_DOOR = [
    *(f"{public}{trick}" for public in ("/static", "/healthz", "/login", "/readyz") for trick in (
        "/../v1/plans", "/..%2fv1%2fplans", "/%2e%2e/v1/plans", "/%2e%2e%2fv1%2fplans", "/.%2e/v1/plans",
        "/..;/v1/plans", ";/../v1/plans", "/..\\v1\\plans", "/%2e%2e%5cv1%5cplans", "//../v1/plans",
        "/%252e%252e/v1/plans", "%2f..%2fv1/plans", "/..%c0%afv1/plans", "/..%00/v1/plans", "/./../v1/plans",
        "/..", "/%2e%2e", "/../", "/../metrics", "/../plans/app-usage", "%00/../v1/plans", "/%00", "//",
        "/../../../../etc/passwd", "/%2e%2e/%2e%2e/pages.py", "/..%2f..%2ftemplates%2fbase.html",
    )),
    "/v1/plans/", "//v1/plans", "/v1//plans", "/./v1/plans", "/v1/./plans", "/x/../v1/plans", "/V1/plans",
    "/v1/plans%00", "/v1/plans;x", "/v1/plans%20", "/v1/plans.json", "/v1\\plans", "/%2e",
    "/%ff%fe", "/%00", "/plans/%00", "/plans/app-usage/", "/plans//metrics/minutes", "/plans/app-usage%00",
    "/plans/app-usage/metrics/", "/plans/..%2fhealth", "/metrics/", "/health/", "/health.csv", "/login%00",
    "/login/", "/logout/", "/login.json", "/static", "/STATIC/" + ASSET, "/static/" + ASSET.upper(),
    f"/static/{ASSET}%00", f"/static/{ASSET}/", f"/static//{ASSET}", f"/static/./{ASSET}", "/index.json",
]  # fmt: skip
"""No route is here: nobody gets anything, and whoever has no key is not told more than that one is needed."""

SAME_ROUTE = ["/v1%2fplans", "/v1/plans%0a", "/%76%31/plans", "/v1/%70lans", "http://evil.example/v1/plans"]
"""Other spellings of one address, which take the same key."""


def status(target: Any, path: str, *lines: str) -> tuple[int, bytes]:
    head = "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", "Connection: close", *lines, "", ""])
    said = target.service.raw(head.encode("latin-1"), pause=0)
    assert said.count(b"HTTP/1.1 ") == 1, path
    front, _, body = said.partition(b"\r\n\r\n")
    return int(front.split()[1]), body


@pytest.mark.parametrize("path", AROUND_THE_DOOR)
def test_no_trick_leads_anywhere(target: Any, path: str) -> None:
    with_key, body = status(target, path, f"Authorization: Bearer {target.texts['admin']}")
    without_key, refused = status(target, path)
    assert with_key in (400, 404)
    open_to_all = unquote(path).startswith("/static/")
    assert without_key == (with_key if open_to_all or with_key == 400 else 401)
    for said in (body, refused):
        assert b"minutes" not in said
        assert b"root:" not in said
        assert b"Traceback" not in said


@pytest.mark.parametrize("path", SAME_ROUTE)
def test_another_spelling_needs_the_same_key(target: Any, path: str) -> None:
    assert status(target, path)[0] == 401
    assert status(target, path, f"Authorization: Bearer {target.texts['ingest']}")[0] == 403
    assert status(target, path, f"Authorization: Bearer {target.texts['reader']}")[0] == 200


def test_a_static_file_is_where_it_is(target: Any) -> None:
    assert status(target, f"/static/{ASSET}")[0] == 200
    assert status(target, f"/static/%{ord(ASSET[0]):02x}{ASSET[1:]}")[0] == 200


@pytest.mark.parametrize(
    "path",
    ["/v1%2freports", "/v1/%72eports", "http://evil.example/v1/reports", "/v1/reports?x"],
)
def test_reports_by_another_spelling_need_the_same_key(target: Any, path: str) -> None:
    """They go the long way, around the quick path from the parser: with the same rules."""
    for key, wanted in ((None, 401), ("reader", 403), ("ingest", 400)):
        lines = ["Host: x", "Content-Type: application/json", "Content-Length: 2", "Connection: close"]
        if key:
            lines.append(f"Authorization: Bearer {target.texts[key]}")
        said = target.service.raw("\r\n".join([f"POST {path} HTTP/1.1", *lines, "", "{}"]).encode(), pause=0)
        assert int(said.split()[1]) == wanted
