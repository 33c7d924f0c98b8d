"""The figures that a second implementation computes from losses.md are those of the Python device, to the last bit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from spec import losses as reference

from reticent import losses
from reticent.plan import Plan

VECTORS: list[dict[str, Any]] = json.loads(reference.FILE.read_text())


def test_the_file_is_what_the_second_implementation_writes() -> None:
    assert reference.text() == reference.FILE.read_text()
    source = (reference.FILE.parent / "losses.py").read_text()
    assert "import reticent" not in source
    assert "from reticent" not in source


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: ",".join(vector["metrics"]))
def test_the_figures_of_a_plan(vector: dict[str, Any]) -> None:
    plan = Plan.from_toml(vector["plan"])
    assert losses.loss_of_report(plan) == vector["report"]
    assert losses.lifetime_of(plan) == vector["lifetime"]
    for metric in plan.metrics:
        figures, mechanism = vector["metrics"][metric.name], metric.mechanism
        assert losses.loss_of_answer(mechanism) == figures["epsilon"]
        assert losses.loss_of_round(metric) == figures["round"]
        assert [losses.loss_of_classes(mechanism, used + 1) for used in range(mechanism.classes)] == figures[
            "widths"
        ]
        assert losses.loss_for_life(mechanism) == figures["widths"][-1]
