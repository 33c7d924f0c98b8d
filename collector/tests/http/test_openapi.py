"""The document tells the truth: it is the one in docs/, and a machine that knows it finds nothing wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.shared.plans import BARE

from reticent.reports import to_json
from reticent_collector.cli.serve import serve
from reticent_collector.http import DETAILS, openapi_document

ROOT = Path(__file__).parents[3]


def test_the_document_in_docs_is_this_one() -> None:
    """docs/reference/http.md says how it is made anew."""
    assert json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text()) == openapi_document()


def test_the_server_hands_out_the_same(collector: Any) -> None:
    assert collector.get("/openapi.json").json == openapi_document()


def test_every_code_is_in_the_document_and_in_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "http.md").read_text()
    assert set(openapi_document()["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]) == set(
        DETAILS
    )
    assert [code for code in DETAILS if not re.search(rf"\b{code}\b", page.split("## Problems")[1])] == []


def test_every_operation_is_in_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "http.md").read_text()
    for path, methods in openapi_document()["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in page


def test_every_setting_has_the_variable_that_the_page_says() -> None:
    for option in serve.params:
        if option.name not in ("plans", "help"):
            assert option.envvar == option.opts[0].replace("--", "RETICENT_").replace("-", "_").upper()


@pytest.fixture(scope="module")
def filled(start: Callable[..., Any], tools: Any) -> Any:
    service = start(tools.usage(), BARE, keys=("admin",))
    for plan in service.plans:
        for report in tools.make_reports(plan, service.now(plan), 5):
            assert service.send(report, service.keys["admin"]).status == 202
    return service


def test_right_reports_match_the_schema(tools: Any, filled: Any) -> None:
    schema = {**openapi_document()["components"]["schemas"]["Report"]}
    for plan in filled.plans:
        for report in tools.make_reports(plan, filled.now(plan), 20):
            jsonschema_rs.validate(schema, json.loads(to_json(report)))


def test_a_machine_that_knows_the_document_finds_nothing(tools: Any, filled: Any) -> None:
    """
    Schemathesis makes right and wrong requests for every operation, and checks every answer against it.

    But for one check: whether a request of the right shape is right depends on the plan, unknown to it.
    """
    schema = schemathesis.openapi.from_dict(openapi_document())
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == sum(len(methods) for methods in openapi_document()["paths"].values())
    for operation in operations:
        examine(operation, f"http://{filled.host}:{filled.port}", tools.bearer(filled.keys["admin"]))
    assert "Traceback" not in filled.log
    assert "internal-error" not in filled.log


def examine(operation: Any, address: str, headers: dict[str, str]) -> None:
    cases = st.one_of(operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode)

    @settings(
        max_examples=8, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=cases)
    def ask(case: Any) -> None:
        case.call_and_validate(base_url=address, headers=headers, excluded_checks=[positive_data_acceptance])

    ask()
