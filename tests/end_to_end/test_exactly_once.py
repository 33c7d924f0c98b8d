"""
An acknowledged report is durable and counted exactly once, whatever dies.

Clients send reports and keep on until each is acknowledged, or its round is over. Meanwhile the collector is
killed with SIGKILL at random moments and started again; so is the database, where there is one.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from tests.shared.clients import (
    CLIENTS,
    MANY,
    check_all_counted,
    check_sealed_rounds,
    hammer,
    wait_until_sealed,
)
from tests.shared.collectors import Service, usage
from tests.shared.postgres import PostgresServer


@pytest.mark.parametrize("kills", [3, MANY])
def test_killed_collectors_lose_nothing_and_count_nothing_twice(tmp_path: Path, kills: int) -> None:
    service = Service(tmp_path, usage()).start("--clock-skew", "0")
    try:
        clients = hammer([service], kills)
    finally:
        service.stop()
    assert check_all_counted(clients, service.store, service.plans[0]) > CLIENTS * kills
    assert sum(client.lost_answers for client in clients) >= kills
    assert "Traceback" not in service.log


@pytest.mark.parametrize("kills", [3, MANY])
def test_killed_while_rounds_are_sealed(tmp_path: Path, kills: int) -> None:
    """Rounds of a second: they end, and are sealed, while collectors die."""
    service = Service(tmp_path, usage(round_length="1s", grace="1s")).start("--clock-skew", "0")
    try:
        clients = hammer([service], kills, longest_pause=1.0)
        wait_until_sealed(service)
    finally:
        service.stop()
    assert check_sealed_rounds(clients, service.store, service.plans[0]) >= 2
    assert sum(client.lost_answers for client in clients) >= kills


@pytest.mark.parametrize("kills", [2, MANY])
def test_two_collectors_on_postgresql_which_dies_too(
    tmp_path: Path, postgres: PostgresServer, kills: int
) -> None:
    """A report may reach both collectors; the database stops as in a crash, and comes back."""
    url = postgres.new_database()
    services = two_collectors(tmp_path, url, usage())

    def disturb(turn: int) -> None:
        if turn % 2:
            postgres.stop(signal.SIGQUIT)
            time.sleep(0.1)
            postgres.start()

    try:
        clients = hammer(services, kills, disturb)
    finally:
        for service in services:
            service.stop()
    assert check_all_counted(clients, url, services[0].plans[0]) > CLIENTS * kills
    assert sum(client.lost_answers for client in clients) >= kills


@pytest.mark.parametrize("kills", [3, MANY])
def test_two_collectors_on_one_sqlite_file(tmp_path: Path, kills: int) -> None:
    """A report may reach both collectors, and is counted once; either is killed while the other goes on."""
    store = f"sqlite:///{tmp_path}/shared.db"
    services = two_collectors(tmp_path, store, usage())
    try:
        clients = hammer(services, kills)
    finally:
        for service in services:
            service.stop()
    assert check_all_counted(clients, store, services[0].plans[0]) > CLIENTS * kills
    assert sum(client.lost_answers for client in clients) >= kills
    assert not any("Traceback" in service.log for service in services)


@pytest.mark.parametrize("kills", [2, MANY])
def test_two_collectors_on_one_sqlite_file_seal_rounds_between_them(tmp_path: Path, kills: int) -> None:
    """Both want to seal each round, and die while they do."""
    store = f"sqlite:///{tmp_path}/shared.db"
    services = two_collectors(tmp_path, store, usage(round_length="1s", grace="1s"))
    try:
        clients = hammer(services, kills, longest_pause=1.0)
        wait_until_sealed(services[0])
    finally:
        for service in services:
            service.stop()
    assert check_sealed_rounds(clients, store, services[0].plans[0]) >= 2
    assert not any("Traceback" in service.log for service in services)


def two_collectors(tmp_path: Path, store: str, plan: str) -> list[Service]:
    services = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        services.append(Service(folder, plan, store=store).start("--clock-skew", "0"))
    return services
