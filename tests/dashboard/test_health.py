from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from reticent.collector import Health, KeyTraffic
from reticent.dashboard.views.health import health_page

QUIET = Health("0.1.0", "memory:", 86_400.0, accepted=1000, commit_p99_ms=3.0, queue=1)
KEY = KeyTraffic("1f2e3d4c", "phones", "ingest", True, 30, 750, 4, 0, reports_lately=600)


def lines(health: Health) -> dict[str, str]:
    return {
        line.name: line.shown(health) for _, lines in health_page(health).shown["sections"] for line in lines
    }


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
def test_what_calls_for_a_look(change: dict[str, Any], worries: list[str]) -> None:
    assert health_page(replace(QUIET, **change)).twin["worries"] == worries


def test_nobody_could_look_at_cohorts() -> None:
    assert lines(QUIET)["Cohorts"] == "unknown"
    assert health_page(QUIET).twin["uneven"] is None


def test_a_share_is_of_all_that_came() -> None:
    shown = lines(replace(QUIET, accepted=80, rejected={"late": 10, "malformed": 10}))
    assert (shown["Late"], shown["Rejected"]) == ("10 (10 %)", "10 (10 %)")


def test_each_key_is_a_line_with_its_share() -> None:
    other = replace(KEY, id="5a6b7c8d", active=False, label="", reports=250, reports_lately=0)
    view = health_page(replace(QUIET, keys=(KEY, other), rate=5.0))
    first, second = view.shown["keys"]
    assert (first["reports"], first["share"]) == ("750", "75 %")
    assert (first["rate"], first["share_lately"]) == ("2", "100 %")
    assert (second["share"], second["rate"], second["role"]) == ("25 %", "0", "ingest, revoked")
    assert view.twin["keys"] == [asdict(KEY), asdict(other)]
    assert view.shown["other_keys"] == 0


def test_a_collector_that_just_started_divides_by_the_time_it_had() -> None:
    (line,) = health_page(replace(QUIET, keys=(KEY,), uptime_seconds=60.0)).shown["keys"]
    assert line["rate"] == "10"


def test_of_very_many_keys_the_busiest_are_shown() -> None:
    keys = tuple(replace(KEY, id=f"{place:08x}") for place in range(1000))
    view = health_page(replace(QUIET, keys=keys))
    assert (len(view.shown["keys"]), view.shown["other_keys"]) == (50, 950)
    assert len(view.twin["keys"]) == 1000


def test_a_key_over_its_rate_is_marked() -> None:
    over = replace(KEY, limited=9, limited_lately=2)
    (line,) = health_page(replace(QUIET, keys=(over,), rate=5.0)).shown["keys"]
    assert (line["limited"], line["over"]) == ("9", "over its rate")


def test_codes_are_listed_by_frequency() -> None:
    rejected = {"a": 1, "b": 9, "c": 1}
    assert health_page(replace(QUIET, rejected=rejected)).shown["rejected"] == [("b", 9), ("a", 1), ("c", 1)]
