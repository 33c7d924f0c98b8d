from __future__ import annotations

from typing import Any

import pytest

from tacit.dashboard.health import Health
from tacit.dashboard.views.health import health_page

QUIET: dict[str, object] = {
    "accepted": 1000,
    "duplicate": 0,
    "late": 0,
    "rejected": {},
    "commit_p99_ms": 3.0,
    "queue": 1,
}


@pytest.mark.parametrize(
    ("change", "worries"),
    [
        ({}, []),
        ({"late": 10}, []),
        ({"late": 11}, ["Late"]),
        ({"duplicate": 112}, ["Duplicate"]),
        ({"rejected": {"malformed": 6, "early": 6}}, ["Rejected"]),
        ({"commit_p99_ms": 251}, ["Commit"]),
        ({"queue": 10_001}, ["Waiting"]),
        ({"commit_p99_ms": 900, "late": 100}, ["Late", "Commit"]),
    ],
)
def test_what_calls_for_a_look(change: dict[str, object], worries: list[str]) -> None:
    assert Health.of({**QUIET, **change}).worries == worries


def test_nothing_needs_to_be_known() -> None:
    view = health_page({})
    shown = {row["name"]: row["value"] for _, rows in view.shown["sections"] for row in rows}
    assert shown["Accepted"] == shown["Store"] == shown["Commit"] == "unknown"
    assert view.twin["accepted"] is None
    assert view.twin["worries"] == []


def test_foreign_types_and_keys_are_passed_by() -> None:
    given: dict[str, Any] = {"accepted": "many", "late": True, "rejected": {"x": "y", "z": 2}, "secret": "s"}
    twin = Health.of(given).to_dict()
    assert twin["accepted"] is None
    assert twin["late"] is None
    assert twin["rejected"] == {"z": 2}
    assert "secret" not in twin


def test_codes_are_listed_by_frequency() -> None:
    assert Health.of({"rejected": {"a": 1, "b": 9, "c": 1}}).rejected_by_code == [
        ("b", 9),
        ("a", 1),
        ("c", 1),
    ]
