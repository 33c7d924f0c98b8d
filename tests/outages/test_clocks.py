"""
Clocks that are wrong by days: the collector's, for a while; and those of some devices, always.

Nothing that was acknowledged is lost, a sealed result never changes, no round is sealed because a clock was
wrong for a moment, and honest devices do not notice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shared.clients import by_round
from tests.shared.collectors import Service, in_thread, make_reports, usage

from reticent import Device
from reticent.device import Policy
from reticent.plan import Plan
from reticent.testing import ManualClock
from reticent_collector.http import Collector, SteadyClock
from reticent_collector.stores import RoundKey, open_store

DAYS = 3 * 86_400.0


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reticent_collector.http.log.quiet", True)


class Clocks:
    """A clock that anybody may set, and one that nobody can."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_700_000_000.0, 100.0
        self.clock = SteadyClock(lambda: self.wall, lambda: self.steady, tolerance=60, doubt=900)

    def after(self, seconds: float, jump: float = 0.0) -> float:
        """What the clock says after so many seconds, and a jump of the machine's; less what was at first."""
        self.wall += seconds + jump
        self.steady += seconds
        return self.clock() - 1_700_000_000.0


@pytest.mark.parametrize("jump", [DAYS, -DAYS, 61, -61])
def test_a_jump_is_believed_when_it_has_lasted(jump: float) -> None:
    clocks = Clocks()
    assert clocks.after(10) == 10
    assert clocks.after(1, jump) == 11
    assert clocks.after(899) == 910
    assert clocks.after(1) == 911 + jump
    assert clocks.after(1) == 912 + jump


@pytest.mark.parametrize("jump", [DAYS, -DAYS])
def test_a_jump_that_is_undone_was_never_there_and_the_next_one_is_doubted_anew(jump: float) -> None:
    clocks = Clocks()
    assert clocks.after(1, jump) == 1
    assert clocks.after(890) == 891
    assert clocks.after(1, -jump) == 892
    assert clocks.after(1, jump) == 893
    assert clocks.after(899) == 1792
    assert clocks.after(1) == 1793 + jump


def test_a_jump_on_top_of_a_jump_is_doubted_from_then_on() -> None:
    clocks = Clocks()
    assert clocks.after(1, DAYS) == 1
    assert clocks.after(899, DAYS) == 900
    assert clocks.after(899) == 1799
    assert clocks.after(1) == 1800 + 2 * DAYS


@pytest.mark.parametrize("step", [60, -60, 0.5, -0.5])
def test_small_steps_and_drift_are_followed_at_once(step: float) -> None:
    clocks = Clocks()
    assert [clocks.after(1, step) for _ in range(5)] == [n * (1 + step) for n in range(1, 6)]


def test_the_clock_of_this_machine_is_unix_time() -> None:
    clock = SteadyClock()
    assert abs(clock() - time.time()) < 5
    assert clock() <= clock()


def test_a_collector_whose_clock_jumps_seals_nothing_and_refuses_nobody(
    eventually: Callable[..., float],
) -> None:
    """Three days ahead, three days back, and right again, while devices send."""
    shift, looks = [0.0], [0]

    def wall() -> float:
        looks[0] += 1
        return time.time() + shift[0]

    plan = Plan.from_toml(usage())
    store = open_store("memory:")
    app = Collector([plan], store, clock=SteadyClock(wall), seal_every=0.02)
    reports = make_reports(plan, plan.round_at(time.time()), 40)
    key = RoundKey(plan.name, plan.version, reports[0].round)
    with in_thread(app) as service:
        for place, jump in enumerate((0.0, DAYS, 0.0, -DAYS)):
            shift[0] = jump
            seen = looks[0]
            eventually(lambda seen=seen: looks[0] > seen + 5)  # the sealer has looked at the clock
            for report in reports[10 * place : 10 * place + 10]:
                assert service.send(report).status == 202
            assert [(info.key, info.state) for info in store.rounds()] == [(key, "open")]
        assert store.counts(key) == by_round(reports, plan)[key.round]
        assert app.health().rejected == {}


def test_a_clock_that_is_believed_too_soon_ends_the_round(eventually: Callable[..., float]) -> None:
    """
    Why: with the bare clock of the machine, the same jump seals the open round and refuses everybody.

    What was acknowledged is counted even so, and stays as it is when the clock goes back.
    """
    shift = [0.0]
    plan = Plan.from_toml(usage())
    store = open_store("memory:")
    app = Collector([plan], store, clock=lambda: time.time() + shift[0], seal_every=0.02)
    reports = make_reports(plan, plan.round_at(time.time()), 12)
    key = RoundKey(plan.name, plan.version, reports[0].round)
    with in_thread(app) as service:
        for report in reports[:10]:
            assert service.send(report).status == 202
        shift[0] = DAYS
        eventually(lambda: [info.state for info in store.rounds()] == ["sealed"])
        assert service.send(reports[10]).status == 410
        for back in (0.0, -DAYS):
            shift[0] = back
            assert service.send(reports[11]).status == (410 if back == 0 else 425)
            assert store.counts(key) == by_round(reports[:10], plan)[key.round]


SHIM = """
import time
machine = time.time
time.time = lambda: machine() + float(open({!r}).read())
import reticent_collector.cli.serve
reticent_collector.cli.serve.SEAL_SECONDS = 0.05
"""


def test_reticent_serve_does_not_believe_a_jump(tmp_path: Path, eventually: Callable[..., float]) -> None:
    """A real process, to which the time of the machine is what a file says it is."""
    ahead = tmp_path / "ahead"
    ahead.write_text("0")
    (tmp_path / "sitecustomize.py").write_text(SHIM.format(str(ahead)))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    service = Service(tmp_path, usage(), PYTHONPATH=path)
    service.fresh = True
    service.start()
    plan = service.plans[0]
    reports = make_reports(plan, plan.round_at(time.time()), 2)
    try:
        assert service.send(reports[0]).status == 202
        ahead.write_text(str(DAYS))
        eventually(lambda: "clock-jumped" in service.log)
        time.sleep(0.5)  # the sealer looks all the while
        assert service.send(reports[1]).status == 202
        (found,) = service.get("/v1/rounds").json["rounds"]
        assert (found["state"], found["reports"]) == ("open", 2)
    finally:
        assert service.stop() == 0
    assert '"event": "clock-jumped", "seconds": 259200' in service.log


def test_devices_with_wrong_clocks_are_refused_and_counted_and_others_do_not_notice(tmp_path: Path) -> None:
    """One that is days ahead keeps its report and sends it when it is time; one that is behind is late."""
    plan = Plan.from_toml(usage())
    app = Collector([plan], open_store("memory:"))
    number = plan.round_at(time.time())
    sent = {}
    with in_thread(app) as service:
        for name, wrong in (("ahead", DAYS), ("behind", -DAYS), ("right", 0.0)):
            clock = ManualClock(plan.round(number - 1).start + wrong)
            with Device(
                plan,
                tmp_path / name,
                consent="granted",
                clock=clock,
                endpoint=f"http://127.0.0.1:{service.port}",
                policy=Policy.unlimited(),
            ) as device:
                clock.now = plan.round(number).start + wrong
                device.set("minutes", 7)
                clock.now = plan.round(number).end + wrong
                sent[name] = device.flush(timeout=20)
        assert sent == {"ahead": 0, "behind": 0, "right": 1}
        health = app.health()
        assert health.rejected == {"early": 1, "late": 1}
        assert health.accepted == 1
        assert [(info.key.round, info.reports) for info in app.store.rounds()] == [(number, 1)]
