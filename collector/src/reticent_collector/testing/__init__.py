"""For authors of a store: `check_store` asserts all that reticent relies on."""

from __future__ import annotations

from reticent_collector.testing.store import check_store
from reticent_collector.testing.store_bench import Bench, BrokenLawError

__all__ = ["Bench", "BrokenLawError", "check_store"]
