"""
Two collectors share a lake and are killed: an acknowledged report is durable and counted exactly once.

Each client sends to either collector, and again to either when an answer is lost, so many reports are stored
by both.
"""

from __future__ import annotations

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


def two_collectors(folder: Path, plan: str) -> list[Service]:
    services = []
    for name in ("one", "two"):
        (folder / name).mkdir()
        service = Service(folder / name, plan, store=f"lake:///{folder / 'lake'}")
        services.append(service.start("--clock-skew", "0"))
    return services


@pytest.mark.parametrize("kills", [2, MANY])
def test_two_collectors_on_a_lake_lose_nothing_and_count_nothing_twice(tmp_path: Path, kills: int) -> None:
    services = two_collectors(tmp_path, usage())
    try:
        clients = hammer(services, kills)
    finally:
        for service in services:
            service.stop()
    assert check_all_counted(clients, services[0].store, services[0].plans[0]) > CLIENTS * kills
    assert sum(client.lost_answers for client in clients) >= kills
    assert all("Traceback" not in service.log for service in services)


@pytest.mark.parametrize("kills", [2, MANY])
def test_killed_while_both_seal_the_rounds_of_a_lake(tmp_path: Path, kills: int) -> None:
    """Rounds of a second, of which either collector seals the other's reports too."""
    services = two_collectors(tmp_path, usage(round_length="1s", grace="1s"))
    try:
        clients = hammer(services, kills, longest_pause=1.5)
        wait_until_sealed(services[0])
    finally:
        for service in services:
            service.stop()
    assert check_sealed_rounds(clients, services[0].store, services[0].plans[0]) >= 2
