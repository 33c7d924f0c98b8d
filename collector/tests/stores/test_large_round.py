"""A round of ten million reports: memory, starting again, sealing. By hand, with `make soak`."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from reticent.plan import Plan
from reticent_collector.stores import RoundKey, open_store

REPORTS, GROUP = 10_000_000, 10_000


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("place", ["sqlite:///{}/large.db", "lake:///{}/lake"], ids=["sqlite", "lake"])
def test_ten_million_reports_are_counted_from_the_log(tmp_path: Path, plan: Plan, place: str) -> None:
    url, key = place.format(tmp_path), RoundKey(plan.name, 1, 7)
    store = open_store(url)
    store.register(plan)
    draws, ones = np.random.default_rng(5), 0
    for _ in range(REPORTS // GROUP):
        records = draws.integers(0, 256, (GROUP, 17), dtype=np.uint8)
        records[:, 16] &= 0x80
        ones += int((records[:, 16] > 0).sum())
        assert store.append({key: records.tobytes()})[key].accepted == GROUP
    store.close()
    again = open_store(url)
    start = time.monotonic()
    assert again.stored_reports() == REPORTS
    assert time.monotonic() - start < 60
    assert again.seal(key)
    minutes = again.counts(key)[()]["minutes"]
    assert [(reports, hits) for _, reports, hits in minutes.rows()] == [(REPORTS, ones)]
    again.close()
