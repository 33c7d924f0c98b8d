"""The life of a device: its construction, values and rounds; and that it never raises."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from tests.shared.devices import HERE, InFile, Make, identity
from tests.shared.state_files import what_is_in

from reticent.device import Device, Policy, SecretDraws, answer
from reticent.errors import ParameterError, PlanError, StateError
from reticent.plan import Plan
from reticent.reports import to_json
from reticent.testing import ManualClock, RecordingTransport

# Construction


def test_construction_raises_what_it_must(state: Path, plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(PlanError):
        Device(tmp_path / "missing.toml", state, consent="granted", policy=Policy.unlimited())
    with pytest.raises(ParameterError, match="https"):
        Device(
            plan, state, consent="granted", endpoint="http://collector.example.org", policy=Policy.unlimited()
        )
    with pytest.raises(StateError, match="there is no state file"):
        Device.open(state)
    assert not state.exists()
    with pytest.raises(ParameterError, match="max_epsilon"):
        Policy(max_epsilon=-1)


def test_a_plan_file_will_do(tmp_path: Path, plan_text: str, clock: ManualClock) -> None:
    (tmp_path / "plan.toml").write_text(plan_text)
    with Device(
        str(tmp_path / "plan.toml"),
        str(tmp_path / "state"),
        consent="granted",
        clock=clock,
        policy=Policy.unlimited(),
    ) as device:
        assert device.report(HERE) is not None


def test_after_close_nothing_happens_and_nothing_raises(device_of: Make) -> None:
    device = device_of()
    device.close()
    device.close()
    device.add("editor_seconds")
    assert device.report(HERE) is None
    assert device.flush() == 0
    assert not device.forget()
    assert device.receipt().problem == device.status().problem == "the device is closed"
    assert device.status().notes == {"closed": 1}


def test_a_device_that_was_closed_without_consent_stays_closed(device_of: Make, state: Path) -> None:
    device = device_of(consent="unset")
    assert device.close()
    assert not device.set_consent("granted")
    assert not state.exists()


def test_a_clock_that_raises_is_no_concern_of_the_host(plan: Plan, state: Path, clock: ManualClock) -> None:
    broken = False

    def moody() -> float:
        if broken:
            raise OSError("no clock")
        return clock()

    with Device(plan, state, consent="granted", clock=moody, policy=Policy.unlimited()) as device:
        broken = True
        device.add("editor_seconds")
        assert device.report() is None
        assert device.current_round == -1
        assert device.status().notes


# Values


def test_values_add_up_and_stop_at_the_top(device_of: Make, in_file: InFile) -> None:
    device = device_of()
    device.add("editor_seconds", 20)
    device.add("editor_seconds", 0.5)
    device.add("opened_files")
    device.add("opened_files", 10**9)
    device.set("browser_seconds", 7)
    device.set("browser_seconds", 5)
    device.save()
    assert in_file().totals == {
        (HERE, "browser_seconds"): "5",
        (HERE, "editor_seconds"): "41/2",
        (HERE, "opened_files"): "64",
    }


def test_denominators_do_not_grow_without_end(device_of: Make, in_file: InFile) -> None:
    """Each odd number up to 1,000: exact, the sum would have a denominator of more than 2¹⁴⁰⁰."""
    device, denominators = device_of(), range(3, 1_000, 2)
    for denominator in denominators:
        device.add("editor_seconds", Fraction(1, denominator))
    device.save()
    [text] = in_file().totals.values()
    total = Fraction(text)
    assert total.denominator.bit_length() <= 1201
    assert float(total) == pytest.approx(sum(1 / denominator for denominator in denominators), abs=1e-9)


def test_the_report_is_that_of_the_law(device_of: Make, state: Path, plan: Plan) -> None:
    device = device_of(segment={"os": "linux"})
    device.add("editor_seconds", 9_000)
    device.add("opened_files", 3)
    report = device.report(HERE)
    assert report is not None
    draws = SecretDraws(identity(state).secret, plan.name, 0)
    values = {"editor_seconds": 9_000, "opened_files": 3}
    assert report == answer(draws, plan, HERE, values, {"os": "linux"}).report


def test_bad_calls_are_noted_and_never_raise(device_of: Make) -> None:
    device = device_of()
    device.add("no_such_metric")
    device.add(None)  # type: ignore[arg-type]
    device.add(["unhashable"])  # type: ignore[arg-type]
    device.add("editor_seconds", "many")
    device.add("editor_seconds", -3)
    device.set("editor_seconds", float("inf"))
    device.add("editor_seconds", round=HERE + 1)
    device.add("editor_seconds", round="soon")  # type: ignore[arg-type]
    assert device.report(HERE + 1) is None
    assert device.report(-1) is None
    assert device.report(True) is None
    device.report(HERE)  # writes the notes down
    assert device.status().notes == {
        "above-range": 1,
        "bad-round": 3,
        "below-range": 1,
        "future-round": 2,
        "not-a-number": 1,
        "unknown-metric": 2,
        "unknown-metric: no_such_metric": 1,
    }


# Rounds


def test_a_round_is_answered_once(device_of: Make, clock: ManualClock) -> None:
    device = device_of()
    device.add("editor_seconds", 9_000)
    first = device.report(HERE)
    device.add("editor_seconds", 9_000)
    device.set("opened_files", 64)
    assert device.report(HERE) == first
    clock.advance(21_600)
    assert device.report(HERE) == first
    assert device.report() == first
    device.report(HERE + 1)
    assert device.status().notes == {"late-value": 2}


def test_by_default_the_latest_finished_round_is_answered(device_of: Make, clock: ManualClock) -> None:
    device = device_of()
    assert device.report() is None, "the device was not there"
    clock.advance(21_600)
    assert device.report() is None, "it was there for a part of it only"
    clock.advance(21_600)
    report = device.report()
    assert report is not None
    assert report.round == HERE + 1


def test_rounds_nothing_happened_in_are_answered_with_zeros(
    device_of: Make, clock: ManualClock, transport: RecordingTransport, state: Path, plan: Plan
) -> None:
    """The program ran and was not used: presence must not depend on use."""
    device_of(transport=transport).close()
    clock.advance(21_600)
    device_of(transport=transport).close()
    clock.advance(21_600)
    device = device_of(transport=transport)
    assert device.flush() == 1
    assert transport.reports[0].round == HERE + 1
    assert transport.bodies[0] == to_json(identity(state).law(plan, HERE + 1, {}))
    assert device.flush() == 0


def test_rounds_whose_grace_is_over_are_not_answered(
    device_of: Make, clock: ManualClock, transport: RecordingTransport, in_file: InFile
) -> None:
    device = device_of(transport=transport)
    clock.advance(21_600)
    device.add("editor_seconds", 4_711)
    clock.advance(10 * 21_600)
    device.flush()
    assert [report.round for report in transport.reports] == [HERE + 10]
    assert in_file().totals == {}, "values that will never be answered go too"


def test_all_rounds_that_are_due_are_answered(state: Path, plan_text: str, clock: ManualClock) -> None:
    plan = Plan.from_toml(plan_text.replace('grace = "6h"', 'grace = "30d"'))
    transport = RecordingTransport()
    with Device(plan, state, consent="granted", clock=clock, policy=Policy.unlimited()) as device:
        clock.advance(100 * 21_600)
        device.flush()
        assert device.status().waiting == 99
    with closing(
        Device(plan, state, consent="granted", clock=clock, transport=transport, policy=Policy.unlimited())
    ) as device:
        device.flush(timeout=30)
        rounds = [report.round for report in transport.reports]
        assert rounds == sorted(rounds)
        assert set(rounds) == set(range(HERE + 1, HERE + 100))


def waiting(state: Path) -> list[tuple[int, float]]:
    """The rounds whose reports wait, and when each is to be sent."""
    return [(kept.round, kept.next_try) for kept in what_is_in(state).waiting]


def test_a_report_is_spread_over_three_quarters_of_the_next_round(
    device_of: Make, clock: ManualClock, state: Path, plan: Plan
) -> None:
    device = device_of()
    clock.advance(2 * 21_600)
    device.flush()
    [(_, send_at)] = waiting(state)
    delay = SecretDraws(identity(state).secret, plan.name, 0).delay(HERE + 1)
    assert send_at == pytest.approx(plan.round(HERE + 1).end + delay / 2**64 * 16_200)


def test_raw_values_leave_the_files_with_the_answer(device_of: Make, state: Path, tmp_path: Path) -> None:
    device = device_of()
    needle = Fraction(12_345_678_901, 2_000_003)
    device.add("editor_seconds", needle)
    device.add("browser_seconds", needle)
    device.save()
    inside = b"12345678901/2000003"

    def holding() -> list[str]:
        return [file.name for file in tmp_path.iterdir() if inside in file.read_bytes()]

    assert holding(), "the test looks for the right bytes"
    device.report(HERE)
    assert holding() == []
    assert state.with_name("state.db-wal").stat().st_size == 0


NO_DESCRIPTORS = """
import os, resource, sys
from reticent.device import Device, Policy
consent, plan = sys.argv[1:]
device = Device(plan, "state", consent=consent, policy=Policy.unlimited(), endpoint="http://127.0.0.1:1")
device.add("editor_seconds", 3)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
problem = device.receipt().problem
assert str(device.status()) and device.preview() is None, problem
assert consent == "unset" or problem == "the state file cannot be read or written", problem
assert device.report() is None and device.flush(0.1) == 0 and device.current_round > 0
device.save(), device.pause(), device.resume(), device.forget(), device.consent, device.start()
assert consent == "unset" or device.set_consent("denied") is False
for descriptor in held:
    os.close(descriptor)
assert device.set_consent("granted") and device.status().active and device.preview()
print(device.close())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit to lower")
@pytest.mark.parametrize("consent", ["granted", "unset"])
def test_a_program_that_can_open_no_more_files_gets_no_exception(consent: str, tmp_path: Path) -> None:
    """Not even by what is loaded when it is first used; and all of it works once there are files again."""
    plan = Path(__file__).parents[3] / "examples/plan.toml"
    script = [sys.executable, "-c", NO_DESCRIPTORS, consent, str(plan)]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
