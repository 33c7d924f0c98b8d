"""Collectors that the tests of the collector share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.shared.collectors import Service, in_thread, make_keys, usage
from tests.shared.plans import BARE, SAMPLED
from tests.shared.relays import PLANS

from reticent_collector.http import Collector, Limits
from reticent_collector.stores import open_store


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Service]]:
    """Start collectors, which end with the tests."""
    services: list[Service] = []

    def make(*plans: str, options: tuple[str, ...] = (), keys: tuple[str, ...] = (), **given: str) -> Service:
        service = Service(tmp_path_factory.mktemp("collector"), *plans, **given)
        services.append(service)
        if keys:
            service.keys = make_keys(service.store, *keys)  # type: ignore[attr-defined]
        return service.start(*options)

    yield make
    for service in services:
        if service.process is not None and service.process.poll() is None:
            service.process.kill()
            service.process.wait()


@pytest.fixture(scope="session")
def collector(start: Callable[..., Service]) -> Service:
    """A collector without keys, for two versions of a plan, a bare one and one with sampled answers."""
    return start(
        usage(1),
        usage(2),
        BARE,
        SAMPLED,
        options=("--max-batch", "1000", "--max-body", "200000", "--read-timeout", "1"),
    )


ROLES = ("ingest", "reader", "admin", "revoked")


@pytest.fixture(scope="session")
def locked(start: Callable[..., Service]) -> Service:
    """A collector with a key of each role, and a revoked one."""
    return start(usage(1), keys=ROLES)


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Any]]:
    """A collector for a relay, and its store."""
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('behind') / 'store.db'}")
    with in_thread(Collector(PLANS, store, limits=Limits(batch=50))) as service:
        yield service, store
