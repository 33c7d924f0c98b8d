"""A plan of one metric, for lakes of little content."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.shared.lakes import new_lake
from tests.shared.plans import MINUTES

from reticent.plan import Plan
from reticent_collector.stores import Store
from reticent_lake.store import LakeBackend


@pytest.fixture
def plan() -> Plan:
    return Plan.from_toml(MINUTES)


@pytest.fixture
def store(tmp_path: Path, plan: Plan) -> Store:
    """An empty lake that knows the plan."""
    return new_lake(tmp_path / "lake", plan)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Merge four parts at a time, so that all steps of it can be tried."""
    monkeypatch.setattr(LakeBackend, "merged_at_once", 4)
    return 4
