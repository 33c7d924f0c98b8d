from __future__ import annotations

from typing import Any

import pytest

from reticent.dashboard.health import Health
from reticent.dashboard.views.health import health_page

QUIET: dict[str, object] = {
    "accepted": 1000,
    "duplicate": 0,
    "late": 0,
    "rejected": {},
    "commit_p99_ms": 3.0,
    "queue": 1,
}

KEY: dict[str, object] = {
    "id": "1f2e3d4c",
    "label": "phones",
    "role": "ingest",
    "active": True,
    "requests": 30,
    "reports": 750,
    "refused": 4,
    "limited": 0,
    "reports_lately": 600,
    "limited_lately": 0,
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
        ({"late": 10, "rejected": {"late": 10}}, []),
        ({"late": 500, "rejected": {"late": 500}}, ["Late"]),
        ({"keys": [{**KEY, "limited": 9}]}, []),
        ({"keys": [KEY, {**KEY, "limited": 9, "limited_lately": 1}]}, ["Over the rate"]),
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


def test_what_is_late_is_counted_once() -> None:
    """The collector has it twice, by itself and among the refused: a share is of what came."""
    health = Health.of({"accepted": 80, "late": 10, "rejected": {"late": 10, "malformed": 10}})
    assert (health.received, health.refused) == (100, 10)
    rows = {
        row["name"]: row["value"]
        for _, rows in health_page(health.to_dict()).shown["sections"]
        for row in rows
    }
    assert (rows["Late"], rows["Rejected"]) == ("10 (10 %)", "10 (10 %)")


def test_each_key_is_a_line_with_its_share() -> None:
    other = {**KEY, "id": "5a6b7c8d", "active": False, "label": "", "reports": 250, "reports_lately": 0}
    view = health_page({"keys": [KEY, other], "rate": 5.0})
    first, second = view.shown["keys"]
    assert (first["reports"], first["share"], first["rate"], first["share_lately"]) == (
        "750",
        "75 %",
        "2",
        "100 %",
    )
    assert (second["share"], second["rate"], second["role"]) == ("25 %", "0", "ingest, revoked")
    assert view.twin["keys"] == [KEY, other]
    assert view.shown["other_keys"] == 0


def test_a_collector_that_just_started_divides_by_the_time_it_had() -> None:
    (line,) = health_page({"keys": [KEY], "uptime_seconds": 60.0}).shown["keys"]
    assert line["rate"] == "10"


def test_of_very_many_keys_the_busiest_are_shown() -> None:
    view = health_page({"keys": [{**KEY, "id": f"{place:08x}"} for place in range(1000)]})
    assert (len(view.shown["keys"]), view.shown["other_keys"]) == (50, 950)
    assert len(view.twin["keys"]) == 1000


@pytest.mark.parametrize(
    "given", [None, "keys", 5, [None], [{}], [{**KEY, "reports": "many"}], [{**KEY, "active": 1}], {"a": KEY}]
)
def test_keys_of_another_shape_are_passed_by(given: object) -> None:
    assert Health.of({"keys": given}).keys == ()


def test_a_key_over_its_rate_is_marked() -> None:
    (line,) = health_page({"keys": [{**KEY, "limited": 9, "limited_lately": 2}], "rate": 5.0}).shown["keys"]
    assert (line["limited"], line["over"]) == ("9", "over its rate")


def test_codes_are_listed_by_frequency() -> None:
    assert Health.of({"rejected": {"a": 1, "b": 9, "c": 1}}).rejected_by_code == [
        ("b", 9),
        ("a", 1),
        ("c", 1),
    ]
