"""The page of the collector itself: which numbers call for a look, and who sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from tests.dashboard.conftest import Page, World

from reticent.collector import Health, KeyTraffic

QUIET = Health("0.1.0", "memory:", 86_400.0, accepted=1000, commit_p99_ms=3.0, queue=1)
KEY = KeyTraffic("1f2e3d4c", "phones", "ingest", True, 30, 750, 4, 0, reports_lately=600)
Seen = Callable[..., tuple[dict[str, Any], Page]]


@pytest.fixture
def seen(world: World) -> Any:
    """The twin and the page of a collector's health."""
    usual = world.health

    def look(**changes: Any) -> tuple[dict[str, Any], Page]:
        world.health = replace(QUIET, **changes)
        return world.get("/health.json").json(), world.get("/health").page

    yield look
    world.health = usual


def row(page: Page, begins: str) -> list[str]:
    return next(row for row in page.rows if row and row[0].startswith(begins))


@pytest.mark.parametrize(
    ("change", "worries"),
    [
        ({}, []),
        ({"rejected": {"late": 10}}, []),
        ({"rejected": {"late": 11}}, ["Late"]),
        ({"duplicate": 112}, ["Duplicate"]),
        ({"rejected": {"malformed": 6, "early": 6}}, ["Rejected"]),
        ({"commit_p99_ms": 251}, ["Commit"]),
        ({"queue": 10_001}, ["Waiting"]),
        ({"commit_p99_ms": 900, "rejected": {"late": 100}}, ["Late", "Commit"]),
        ({"keys": (replace(KEY, limited=9),)}, []),
        ({"keys": (KEY, replace(KEY, limited=9, limited_lately=1))}, ["Over the rate"]),
    ],
)
def test_what_calls_for_a_look(seen: Seen, change: dict[str, Any], worries: list[str]) -> None:
    twin, page = seen(**change)
    assert twin["worries"] == worries
    assert (f"Worth a look: {', '.join(worries)}." in page.texts) is bool(worries)


def test_a_share_is_of_all_that_came_and_codes_are_listed_by_frequency(seen: Seen) -> None:
    _, page = seen(accepted=80, rejected={"late": 9, "malformed": 10, "early": 1})
    assert {"9 (9 %)", "11 (11 %)"} <= set(page.texts)
    assert [cells[0] for cells in page.rows if cells[0] in ("late", "malformed", "early")] == [
        "malformed",
        "late",
        "early",
    ]


def test_each_key_is_a_line_with_its_share_and_the_busiest_are_shown(seen: Seen) -> None:
    other = replace(KEY, id="5a6b7c8d", active=False, label="", reports=250, reports_lately=0, limited=9)
    twin, page = seen(keys=(KEY, other), rate=5.0)
    assert row(page, "1f2e3d4c")[1:5] == ["750", "75 %", "2", "100 %"]
    assert "ingest, revoked" in row(page, "5a6b7c8d")[0]
    assert row(page, "5a6b7c8d")[1:4] == ["250", "25 %", "0"]
    assert twin["keys"] == [asdict(KEY), asdict(other)]
    _, page = seen(keys=(KEY,), uptime_seconds=60.0)
    assert row(page, "1f2e3d4c")[3] == "10", "a collector that just started divides by the time it had"
    twin, page = seen(keys=tuple(replace(KEY, id=f"{place:08x}") for place in range(1000)))
    assert any(text.startswith("950 other keys") for text in page.texts)
    assert len(twin["keys"]) == 1000
