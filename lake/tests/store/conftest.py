"""A plan of one metric, for lakes of little content."""

from __future__ import annotations

import pytest

from reticent.plan import Plan


@pytest.fixture
def plan() -> Plan:
    return Plan.from_toml(
        '[plan]\nname = "small"\nversion = 1\nround = "1h"\n'
        '[metrics.minutes]\nkind = "mean"\nmax_value = 60\nepsilon = 1.0\n'
    )
