"""Pages of other origins may send reports, if the operator says so by origin, and do nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from tests.shared.collectors import Answer, Service, in_thread, make_reports
from tests.shared.plans import BARE

from reticent.plan import Plan
from reticent.reports import to_json
from reticent_collector.cli.root import reticent as command
from reticent_collector.http import Collector
from reticent_collector.stores import open_store

ALLOWED, OTHER = "https://app.example.org", "https://elsewhere.example.org"
PLAN = Plan.from_toml(BARE)
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}
NOW = 500_000 * 3600 + 60


@pytest.fixture(scope="module", params=[(ALLOWED,), ()], ids=["allowed", "default"])
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    app = Collector([PLAN], open_store("memory:"), allowed_origins=request.param, clock=lambda: NOW)
    with in_thread(app) as running:
        running.origins = request.param  # type: ignore[attr-defined]
        yield running


def allowed_by(answer: Answer) -> str | None:
    return answer.headers.get("access-control-allow-origin")


def test_a_preflight_is_answered_for_origins_that_are_named(service: Service) -> None:
    for origin in (ALLOWED, OTHER, "null", f"{ALLOWED}.evil.example"):
        answer = service.call("OPTIONS", "/v1/reports", None, {"Origin": origin, **PREFLIGHT})
        named = origin in service.origins  # type: ignore[attr-defined]
        assert (answer.status == 200) == named
        assert allowed_by(answer) == (origin if named else None)
        assert "access-control-allow-credentials" not in answer.headers


def test_a_report_of_a_page_is_counted_and_the_page_may_read_the_answer(service: Service) -> None:
    report, late = make_reports(PLAN, 500_000, 1)[0], make_reports(PLAN, 5, 1)[0]
    for origin in (ALLOWED, OTHER):
        named = origin in service.origins  # type: ignore[attr-defined]
        for sent, status in ((report, 202), (late, 410)):
            headers = {"Content-Type": "application/json", "Origin": origin}
            answer = service.call("POST", "/v1/reports", to_json(sent), headers)
            assert answer.status == status
            assert allowed_by(answer) == (origin if named else None)
            if named:
                assert answer.headers["access-control-expose-headers"] == "retry-after"


def test_nothing_but_reports_is_open_to_pages(service: Service) -> None:
    for path in ("/v1/plans", "/v1/estimates", "/metrics", "/healthz", "/v1/reports/", "/"):
        for method in ("GET", "OPTIONS"):
            assert allowed_by(service.call(method, path, None, {"Origin": ALLOWED, **PREFLIGHT})) is None
    refused = service.call(
        "OPTIONS", "/v1/reports", None, {"Origin": ALLOWED, "Access-Control-Request-Method": "DELETE"}
    )
    assert refused.status in (400, 405)


def test_requests_without_an_origin_are_answered_as_ever(service: Service) -> None:
    answer = service.send(make_reports(PLAN, 500_000, 1, seed="other")[0])
    assert (answer.status, allowed_by(answer)) == (202, None)


@pytest.mark.parametrize(
    "origin", ["app.example.org", "https://app.example.org/", "*", "null", "https://a b"]
)
def test_an_origin_is_a_scheme_and_a_host(origin: str) -> None:
    arguments = ["serve", "examples/plan.toml", "--store", "memory:", "--allow-origin", origin]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2
    assert "expected an origin such as https://app.example.org, without a path" in done.stderr
