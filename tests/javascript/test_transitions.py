"""The JavaScript device lives the lives of spec/transitions.json, and others by chance."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
from spec import interpreter, random_lives
from tests.javascript.conftest import HERE

from reticent.plan import Plan
from reticent_collector.plans import export_plan

DOCUMENT = json.loads(interpreter.FILE.read_text())


def exported(text: str) -> dict[str, Any]:
    """The export of a plan, with the default grace of the rules."""
    return {**export_plan(Plan.from_toml(text)), "grace_seconds": interpreter.plan_of(text).grace}


Failures = dict[str, dict[str, dict[str, str]]]


def differing(node: str, document: dict[str, Any], zone: str = "UTC") -> Failures:
    """What differs, by life, row and field, on a device in a time zone."""
    plans = {name: exported(text) for name, text in document["plans"].items()}
    done = subprocess.run(
        [node, str(HERE / "transitions.mjs")],
        input=json.dumps({"document": document, "plans": plans}),
        env=os.environ | {"TZ": zone},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: Failures = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def failures(node: str) -> Failures:
    return differing(node, DOCUMENT)


@pytest.mark.parametrize("life", DOCUMENT["lives"], ids=lambda life: life["name"])
def test_a_life(life: dict[str, Any], failures: Failures) -> None:
    assert failures.get(life["name"], {}) == {}


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles"])
def test_a_plan_expires_at_midnight_utc_wherever_a_device_is(node: str, zone: str) -> None:
    lives = [life for life in DOCUMENT["lives"] if life["name"].startswith("expir")]
    assert len(lives) > 1
    assert differing(node, {**DOCUMENT, "lives": lives}, zone) == {}


def test_random_lives(node: str) -> None:
    assert differing(node, random_lives.document(0, 100)) == {}


@pytest.mark.soak
@pytest.mark.parametrize("thousand", range(10))
def test_ten_thousand_random_lives(node: str, thousand: int) -> None:
    """With the same test of the Python device: both are in the same states, and those are what the rules say."""
    assert differing(node, random_lives.document(1000 * thousand, 1000)) == {}
