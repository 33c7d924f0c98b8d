"""Answers of some length are compressed for those who ask for it, except in a browser's session."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.shared.collectors import Service, bearer, usage

from reticent_collector.http.compression import accepts_gzip

GZIP = {"Accept-Encoding": "gzip, deflate"}


@pytest.fixture(scope="module")
def service(start: Callable[..., Service]) -> Service:
    return start(usage(1), keys=("reader", "ingest"), options=("--public", "all"))


def key(service: Any) -> dict[str, str]:
    return bearer(service.keys["reader"])


@pytest.mark.parametrize("path", ["/openapi.json", "/metrics", "/public/app-usage", "/health"])
def test_the_same_content_in_fewer_bytes(service: Service, path: str) -> None:
    plain = service.call("GET", path, headers=key(service))
    packed = service.call("GET", path, headers={**GZIP, **key(service)})
    assert (plain.status, packed.status) == (200, 200)
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) == int(packed.headers["content-length"]) < len(plain.body) / 2
    assert "content-encoding" not in plain.headers

    def without_figures(body: bytes) -> bytes:
        return re.sub(rb"[0-9][0-9.e+]*", b"", body)

    assert without_figures(gzip.decompress(packed.body)) == without_figures(plain.body)
    for answer in (plain, packed):
        assert "accept-encoding" in answer.headers["vary"].lower()


def test_what_is_short_is_sent_as_it_is(service: Service) -> None:
    for path in ("/healthz", "/readyz", "/v1/rounds"):
        answer = service.call("GET", path, headers={**GZIP, **key(service)})
        assert "content-encoding" not in answer.headers
        assert answer.json


def test_a_session_of_a_browser_is_never_compressed(service: Any) -> None:
    """A page of somebody else can make the browser send its cookie, with a query of that page's choice."""
    form = f"key={service.keys['reader']}".encode()
    cookie = service.call("POST", "/login", form).headers["set-cookie"].partition(";")[0]
    for path in ("/", "/health", "/openapi.json", "/v1/plans/app-usage"):
        answer = service.call("GET", path, headers={**GZIP, "Cookie": cookie})
        assert answer.status == 200
        assert "content-encoding" not in answer.headers


def test_an_etag_of_a_compressed_answer_is_weak_and_still_matches(service: Any) -> None:
    path = "/public/app-usage"
    plain = service.call("GET", path)
    packed = service.call("GET", path, headers=GZIP)
    assert packed.headers["etag"] == "W/" + plain.headers["etag"]
    again = service.call("GET", path, headers={**GZIP, "If-None-Match": packed.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert "accept-encoding" in again.headers["vary"].lower()


def test_static_files_and_heads(service: Any) -> None:
    page = service.call("GET", "/public/app-usage").body.decode()
    file = re.findall(r'"(/static/[^"]+\.css[^"]*)"', page)[0]
    packed = service.call("GET", file, headers=GZIP)
    assert packed.headers["content-encoding"] == "gzip"
    head = service.call("HEAD", file, headers=GZIP)
    assert (head.status, head.body, "content-encoding" in head.headers) == (200, b"", False)


def test_reports_are_answered_as_ever(service: Any) -> None:
    headers = {**GZIP, **bearer(service.keys["ingest"]), "Content-Type": "application/json"}
    answer = service.call("POST", "/v1/reports", b"{}", headers)
    assert answer.status == 400
    assert "content-encoding" not in answer.headers


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"gzip", True),
        (b"GZIP", True),
        (b"deflate, gzip;q=1.0, *;q=0.5", True),
        (b"gzip ; q=0.001", True),
        (b"gzip;q=0", False),
        (b"gzip; q=0.000", False),
        (b"xgzip", False),
        (b"br", False),
        (b"identity", False),
        (b"", False),
    ],
)
def test_what_asks_for_it(value: bytes, expected: bool) -> None:
    assert accepts_gzip([(b"accept-encoding", value)]) is expected
    assert not accepts_gzip([(b"accept-encoding", value), (b"cookie", b"a=b")])
    assert not accepts_gzip([])
