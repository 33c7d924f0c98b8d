"""
Two collectors share a lake and are killed: an acknowledged report is durable and counted exactly once.

The clients are those of test_exactly_once: each sends to either collector, and again to either when an answer
is lost, so many reports are stored by both.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tacit.stores.lake import open_lake


@pytest.fixture(scope="module")
def clients_of() -> ModuleType:
    """`hammer`, `by_round` and `check_all_counted`, which any store can be put to."""
    path = Path(__file__).with_name("test_exactly_once.py")
    spec = spec_from_file_location("exactly_once_on_a_lake", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def two_collectors(tools: Any, folder: Path, plan: str) -> list[Any]:
    services = []
    for name in ("one", "two"):
        (folder / name).mkdir()
        service = tools.Service(folder / name, plan, store=f"lake:///{folder / 'lake'}")
        services.append(service.start("--clock-skew", "0"))
    return services


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.soak)])
def test_two_collectors_on_a_lake_lose_nothing_and_count_nothing_twice(
    tools: Any, clients_of: ModuleType, tmp_path: Path, kills: int
) -> None:
    services = two_collectors(tools, tmp_path, tools.usage())
    try:
        clients = clients_of.hammer(tools, services, kills)
    finally:
        for service in services:
            service.stop()
    assert clients_of.check_all_counted(clients, services[0].store, services[0].plans[0]) > 100
    assert sum(client.lost_answers for client in clients) > 0
    assert all("Traceback" not in service.log for service in services)


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.soak)])
def test_killed_while_both_seal_the_rounds_of_a_lake(
    tools: Any, clients_of: ModuleType, tmp_path: Path, kills: int
) -> None:
    """What was refused as late, but had been sent before without an answer, may be counted or not."""
    services = two_collectors(tools, tmp_path, tools.usage(round_length="3s", grace="2s"))
    plan = services[0].plans[0]
    try:
        clients = clients_of.hammer(tools, services, kills)
        end = time.monotonic() + 30
        while any(each["state"] != "sealed" for each in services[0].get("/v1/rounds").json["rounds"]):
            assert time.monotonic() < end
            time.sleep(0.2)
    finally:
        for service in services:
            service.stop()
    assert [failure for client in clients for failure in client.failures] == []
    taken = Counter(report.round for client in clients for report in client.acknowledged)
    doubtful = Counter(report.round for client in clients for report in client.doubtful)
    expected = clients_of.by_round([report for client in clients for report in client.acknowledged], plan)
    store = open_lake(services[0].store)
    assert store.verify() == []
    assert store.unsealed() == []
    rounds = {info.key.round: info for info in store.rounds()}
    assert set(taken) <= set(rounds)
    for number, info in rounds.items():
        assert taken[number] <= info.reports <= taken[number] + doubtful[number]
        if not doubtful[number]:
            assert store.counts(info.key) == expected[number]
    assert sum(not doubtful[number] for number in rounds) >= 2
