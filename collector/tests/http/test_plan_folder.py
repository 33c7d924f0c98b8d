"""Plans from a folder: taken up on SIGHUP, by every worker; one that is wrong does not keep the others out."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.shared.collectors import Service, make_reports, usage
from tests.shared.plans import BARE

from reticent.plan import Plan
from reticent_collector.cli.root import reticent as command


def until(condition: Callable[[], object], service: Service) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, service.log
        time.sleep(0.02)


def events(service: Service, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in service.log.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def status(service: Service, plan: Plan) -> int:
    (report,) = make_reports(plan, service.now(plan), 1, time.monotonic_ns())
    return service.send(report).status


@pytest.mark.parametrize("workers", [1, 2])
def test_new_plans_are_taken_up_without_a_restart(tmp_path: Path, workers: int) -> None:
    plans = tmp_path / "plans"
    plans.mkdir()
    (plans / "usage.toml").write_text(usage())
    (plans / "README").write_text("not a plan")
    store = f"sqlite:///{tmp_path}/s.db" if workers == 1 else f"lake:///{tmp_path}/lake"
    service = Service(tmp_path, store=store)
    service.plan_files, service.plans = [str(plans)], [Plan.from_toml(usage())]
    service.start("--workers", str(workers))
    assert service.process is not None
    try:
        first, second, bare = (Plan.from_toml(text) for text in (usage(), usage(2), BARE))
        assert (status(service, first), status(service, second), status(service, bare)) == (202, 409, 404)
        (plans / "broken.toml").write_text("[plan]\nname = 5\n")
        (plans / "changed.toml").write_text(usage().replace("360", "370"))
        (plans / "newer.toml").write_text(usage(2))
        (plans / "other.toml").write_text(BARE)
        read = len(events(service, "plans-read"))
        service.process.send_signal(signal.SIGHUP)
        until(lambda: len(events(service, "plans-read")) == read + workers, service)
        for _ in range(4 * workers):  # any worker may answer
            assert (status(service, first), status(service, second), status(service, bare)) == (202, 202, 202)
        reasons = " ".join(line["reason"] for line in events(service, "plan-refused"))
        assert "is already registered with different content" in reasons
        assert "broken.toml" in service.log
        assert {plan["name"] for plan in service.get("/v1/plans").json["plans"]} == {first.name, bare.name}
    finally:
        assert service.stop() == 0


def test_a_file_of_its_own_is_read_again_too(tmp_path: Path) -> None:
    service = Service(tmp_path, usage()).start()
    assert service.process is not None
    try:
        Path(service.plan_files[0]).write_text("nonsense")
        service.process.send_signal(signal.SIGHUP)
        until(lambda: "Warning: not served" in service.log, service)
        until(lambda: events(service, "plans-read"), service)
        assert status(service, service.plans[0]) == 202
        Path(service.plan_files[0]).write_text(usage(2))
        service.process.send_signal(signal.SIGHUP)
        until(lambda: len(events(service, "plans-read")) == 2, service)
        assert status(service, Plan.from_toml(usage(2))) == 202
        assert status(service, service.plans[0]) == 202, "a version that was served once still is"
    finally:
        assert service.stop() == 0


def test_a_folder_in_which_no_plan_can_be_served(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("nonsense")
    done = CliRunner().invoke(command, ["serve", str(tmp_path), "--store", f"sqlite:///{tmp_path}/s.db"])
    assert done.exit_code == 1
    assert f"{tmp_path}: expected plans in files named *.toml, found none that can be served." in done.stderr
    assert not (tmp_path / "s.db").exists()
