"""
A disk that is full for a while: a real one, filled by a real file, under load.

Every report gets 202 or 503 with Retry-After; the process lives; what was acknowledged is there and counts
once; when there is room again the collector takes reports by itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.shared.clients import at_work, check_all_counted, check_sealed_rounds, wait_until_sealed
from tests.shared.collectors import Service, usage
from tests.shared.plans import MINUTES
from tests.shared.postgres import PostgresServer

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.stores import RoundKey, open_store

STORES = {"sqlite": "sqlite:///{}/store.db", "lake": "lake:///{}/lake"}


@pytest.mark.parametrize("kind", STORES)
def test_a_full_disk_loses_nothing_and_is_over_by_itself(
    disk: Callable[[str], Any], tmp_path: Path, eventually: Callable[..., float], kind: str
) -> None:
    small = disk("40m")
    service = Service(tmp_path, usage(), store=STORES[kind].format(small.folder)).start("--clock-skew", "0")
    try:
        assert service.get("/readyz").status == 200
        with at_work([service]) as clients:
            eventually(lambda: all(len(client.acknowledged) > 5 for client in clients))
            small.fill()
            eventually(lambda: all(client.refused["unavailable"] > 2 for client in clients))
            eventually(lambda: service.get("/readyz").status == 503)
            assert service.get("/healthz").status == 200
            assert service.get("/v1/rounds").status == 200
            small.free()
            freed = time.monotonic()
            eventually(lambda: all(client.times[-1:] > [freed] for client in clients), 10)
            eventually(lambda: service.get("/readyz").status == 200, 10)
    finally:
        assert service.stop() == 0
    assert check_all_counted(clients, service.store, service.plans[0]) > 20
    assert sum(client.lost_answers for client in clients) == 0
    assert {code for client in clients for code in client.refused} == {"unavailable"}
    assert "Traceback" not in service.log
    assert service.log.count('"event": "commits-fail"') == service.log.count('"event": "commits-work"') >= 1


@pytest.mark.soak
def test_a_postgresql_whose_disk_is_full(
    disk: Callable[[str], Any], tmp_path: Path, eventually: Callable[..., float]
) -> None:
    """Its tables cannot grow, while what it has set aside for its log is still there."""
    small = disk("250m")
    server = PostgresServer(small.folder)
    service = Service(tmp_path, usage(), store=server.new_database()).start("--clock-skew", "0")
    try:
        with at_work([service], patience=120) as clients:
            eventually(lambda: all(len(client.acknowledged) > 5 for client in clients))
            small.fill()
            eventually(lambda: all(client.refused["unavailable"] > 20 for client in clients))
            eventually(lambda: service.get("/readyz").status == 503)
            small.free()
            freed = time.monotonic()
            eventually(lambda: all(client.times[-1:] > [freed] for client in clients), 30)
            eventually(lambda: service.get("/readyz").status == 200)
        assert service.stop() == 0
        assert check_all_counted(clients, service.store, service.plans[0]) > 20
        assert "Traceback" not in service.log
    finally:
        service.stop()
        server.stop()


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("lake", marks=pytest.mark.soak)])
def test_a_round_that_ends_on_a_full_disk_is_sealed_later_and_right(
    disk: Callable[[str], Any], tmp_path: Path, eventually: Callable[..., float], kind: str
) -> None:
    """Rounds of a second: some end, and are due, while nothing can be written."""
    small = disk("40m")
    store = STORES[kind].format(small.folder)
    plan = usage(round_length="1s", grace="1s")
    service = Service(tmp_path, plan, store=store).start("--clock-skew", "0")
    try:
        with at_work([service], patience=120) as clients:
            eventually(lambda: all(len(client.acknowledged) > 5 for client in clients))
            small.fill()
            eventually(lambda: '"event": "seal-failed"' in service.log)
            small.free()
            freed = time.monotonic()
            eventually(lambda: all(client.times[-1:] > [freed] for client in clients), 10)
        wait_until_sealed(service)
        sealed = service.get("/v1/rounds").json["rounds"]
    finally:
        assert service.stop() == 0
    check_sealed_rounds(clients, service.store, service.plans[0])
    assert len({each["round"] for each in sealed}) == len(sealed) >= 2
    assert service.log.count('"event": "sealed"') == len(sealed)
    assert "Traceback" not in service.log


def test_a_little_room_is_enough_for_a_log_that_has_filled_the_disk(disk: Callable[[str], Any]) -> None:
    """
    SQLite's write-ahead log takes pages of 4 kB where a report takes 17 bytes: it can fill a disk by itself.

    Then 0.6 MB of room, an empty store and as much again, are enough to empty it and go on for good.
    """
    small = disk("3m")
    small.ballast.write_bytes(bytes(600_000))
    plan = Plan.from_toml(MINUTES)
    key, store = RoundKey("small", 1, 7), open_store(f"sqlite:///{small.folder}/store.db")
    store.register(plan)

    def append() -> None:
        assert store.append({key: os.urandom(16) + b"\x80"})[key].accepted == 1

    before = 0
    with suppress(StoreError):
        while before < 5000:
            append()
            before += 1
    for _ in range(5):
        with pytest.raises(StoreError, match="disk is full"):
            append()
    with pytest.raises(StoreError, match="disk is full"):
        store.ping()
    with pytest.raises(StoreError, match="disk is full"):
        store.seal(key)
    small.free()
    for _ in range(2000):
        append()
    store.ping()
    assert store.verify() == []
    assert store.seal(key)
    (row,) = store.counts(key)[()]["minutes"].rows()
    assert row == (0, before + 2000, before + 2000)
    store.close()
