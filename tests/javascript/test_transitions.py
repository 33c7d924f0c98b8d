"""The JavaScript device lives the lives of spec/transitions.json."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from spec import interpreter
from tests.javascript.conftest import HERE

from reticent.plan import Plan
from reticent_collector.plans import export_plan

DOCUMENT = json.loads(interpreter.FILE.read_text())


@pytest.fixture(scope="module")
def failures(node: str) -> dict[str, dict[str, dict[str, str]]]:
    """What differs, by life, row and field."""
    plans = {name: export_plan(Plan.from_toml(text)) for name, text in DOCUMENT["plans"].items()}
    done = subprocess.run(
        [node, str(HERE / "transitions.mjs")],
        input=json.dumps({"document": DOCUMENT, "plans": plans}),
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, dict[str, str]]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("life", DOCUMENT["lives"], ids=lambda life: life["name"])
def test_a_life(life: dict[str, Any], failures: dict[str, dict[str, dict[str, str]]]) -> None:
    known = life["fails"].get("javascript", {}).get("rows", {})
    differing = failures.get(life["name"], {})
    seen = {row: sorted(problems) for row, problems in differing.items()}
    assert seen == known, differing  # a mark goes when its row is put right
