"""Stores to run tests against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.shared.plans import MINUTES
from tests.shared.postgres import PostgresServer

from reticent.plan import Plan
from reticent_collector.stores import Store, open_store
from reticent_collector.testing import Bench


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store, once per kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_store()


@pytest.fixture
def opened() -> Iterator[Callable[[str], Store]]:
    """Open stores, which are closed afterwards."""
    stores: list[Store] = []

    def make(url: str) -> Store:
        stores.append(open_store(url))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def bench(url: str, opened: Callable[[str], Store]) -> Bench:
    """A store of each kind, with a plan and reports."""
    return Bench(lambda: opened(url))


@pytest.fixture
def store(bench: Bench) -> Store:
    """The store of the bench."""
    assert isinstance(bench.store, Store)
    return bench.store


@pytest.fixture
def plan() -> Plan:
    return Plan.from_toml(MINUTES)
