"""A plan of one metric, for lakes of little content."""

from __future__ import annotations

import pytest
from tests.shared.plans import MINUTES

from reticent.plan import Plan


@pytest.fixture
def plan() -> Plan:
    return Plan.from_toml(MINUTES)
