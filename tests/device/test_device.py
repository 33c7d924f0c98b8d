"""The life of a device: values, rounds, plans, pauses; and that it never raises."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from tacit.device import Device, Policy
from tacit.device.answer import answer
from tacit.device.prf import SecretDraws
from tacit.errors import ParameterError, PlanError, StateError
from tacit.plan import Plan
from tacit.reports.codec import to_json
from tacit.testing import ManualClock, RecordingTransport

Make = Callable[..., Device]
Query = Callable[..., list[tuple[object, ...]]]
HERE = 80_000


def expected(plan: Plan, query: Query, number: int, values: dict[str, object]) -> bytes:
    """The report by the pure law, from the secret in the file."""
    [(secret, epoch)] = query("SELECT secret, epoch FROM device")
    assert isinstance(secret, bytes)
    assert isinstance(epoch, int)
    return to_json(answer(SecretDraws(secret, plan.name, epoch), plan, number, values).report)


# Values


def test_values_add_up_and_stop_at_the_top(device_of: Make, query: Query) -> None:
    device = device_of()
    device.add("editor_seconds", 20)
    device.add("editor_seconds", 0.5)
    device.add("opened_files")
    device.add("opened_files", 10**9)
    device.set("browser_seconds", 7)
    device.set("browser_seconds", 5)
    assert query("SELECT metric, value FROM totals ORDER BY metric") == [
        ("browser_seconds", "5"),
        ("editor_seconds", "41/2"),
        ("opened_files", "64"),
    ]


def test_the_report_is_that_of_the_law(device_of: Make, query: Query, plan: Plan) -> None:
    device = device_of(segment={"os": "linux"})
    device.add("editor_seconds", 9_000)
    device.add("opened_files", 3)
    report = device.report(HERE)
    assert report is not None
    [(secret,)] = query("SELECT secret FROM device")
    assert isinstance(secret, bytes)
    draws = SecretDraws(secret, plan.name, 0)
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
        "unknown-metric": 3,
    }


def test_nothing_private_in_words(device_of: Make, caplog: pytest.LogCaptureFixture) -> None:
    device = device_of()
    device.add("editor_seconds", 4711)
    report = device.report(HERE)
    assert report is not None
    shown = repr(device) + str(device.status()) + repr(device.status()) + caplog.text
    assert "4711" not in shown
    assert report.id.hex() not in shown
    assert repr(device) == "Device(plan='app-usage')"


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


def test_another_process_gives_the_same_bytes(device_of: Make) -> None:
    first = device_of()
    first.add("editor_seconds", 9_000)
    second = device_of()
    second.add("editor_seconds", 600)
    report = second.report(HERE)
    assert first.report(HERE) == report


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
    device_of: Make, clock: ManualClock, transport: RecordingTransport, query: Query, plan: Plan
) -> None:
    """The program was not even running: presence must not depend on use."""
    device_of(transport=transport).close()
    clock.advance(2 * 21_600)
    device = device_of(transport=transport)
    assert device.flush() == 1
    assert transport.reports[0].round == HERE + 1
    assert transport.bodies[0] == expected(plan, query, HERE + 1, {})
    assert device.flush() == 0


def test_rounds_whose_grace_is_over_are_not_answered(
    device_of: Make, clock: ManualClock, transport: RecordingTransport, query: Query
) -> None:
    device = device_of(transport=transport)
    clock.advance(21_600)
    device.add("editor_seconds", 4_711)
    clock.advance(10 * 21_600)
    device.flush()
    assert [report.round for report in transport.reports] == [HERE + 10]
    assert query("SELECT * FROM totals") == [], "values that will never be answered go too"


def test_catching_up_is_bounded(state: Path, plan_text: str, clock: ManualClock) -> None:
    plan = Plan.from_toml(plan_text.replace('grace = "6h"', 'grace = "30d"'))
    transport = RecordingTransport()
    with Device(plan, state, clock=clock) as device:
        clock.advance(100 * 21_600)
        device.flush()
        assert device.status().waiting == 64
    with Device(plan, state, clock=clock, transport=transport) as device:
        device._background[1].stop() if device._background else None
        device.flush(timeout=30)
        rounds = [report.round for report in transport.reports]
        assert rounds == sorted(rounds)
        assert set(rounds) == set(range(HERE + 36, HERE + 100))


def test_which_rounds_are_answered_and_when_does_not_depend_on_values(
    plan: Plan, tmp_path: Path, clock: ManualClock
) -> None:
    """Two devices with one secret, one idle and one busy with nonsense: all but the bits is the same."""
    import shutil

    idle_file, busy_file = tmp_path / "idle", tmp_path / "busy"
    Device(plan, idle_file, clock=clock).close()
    shutil.copy(idle_file, busy_file)
    sent, schedules = [], []
    start = clock.now
    for file in (idle_file, busy_file):
        clock.now = start
        transport = RecordingTransport()
        device = Device(plan, file, clock=clock, transport=transport)
        for _ in range(6):
            if file == busy_file:
                device.add("editor_seconds", 9_999)
                device.add("editor_hours", float("nan"))
                device.set("opened_files", 10**9)
            clock.advance(21_600)
            device._work_on_state()
            schedules.append([(kept.report.round, kept.next_try) for kept in waiting(device)])
            device.flush()
        sent.append([(r.round, r.id, r.cohort, len(r.bits)) for r in transport.reports])
        device.close()
    assert sent[0] == sent[1]
    assert schedules[:6] == schedules[6:]
    assert len(sent[0]) == 5


def waiting(device: Device) -> list:  # type: ignore[type-arg]
    from tacit.device import outbox

    assert device._core is not None
    with device._core.state.view() as connection:
        return [kept for kept in outbox.everything(connection, "app-usage") if kept.state == "waiting"]


def test_a_report_is_spread_over_three_quarters_of_the_next_round(
    device_of: Make, clock: ManualClock, query: Query, plan: Plan
) -> None:
    device = device_of()
    clock.advance(2 * 21_600)
    device.flush()
    [(secret,)] = query("SELECT secret FROM device")
    assert isinstance(secret, bytes)
    [kept] = waiting(device)
    delay = SecretDraws(secret, plan.name, 0).delay(HERE + 1)
    assert kept.next_try == pytest.approx(plan.round(HERE + 1).end + delay / 2**64 * 16_200)


def test_raw_values_leave_the_files_with_the_answer(device_of: Make, state: Path, tmp_path: Path) -> None:
    device = device_of()
    needle = Fraction(12_345_678_901, 2_000_003)
    device.add("editor_seconds", needle)
    device.add("browser_seconds", needle)
    inside = b"12345678901/2000003"

    def found() -> list[str]:
        return [file.name for file in tmp_path.iterdir() if inside in file.read_bytes()]

    assert found(), "the test looks for the right bytes"
    device.report(HERE)
    assert found() == []
    assert state.with_name("state.db-wal").stat().st_size == 0


# Plans


def with_epsilon(plan_text: str, version: int, epsilon: str) -> Plan:
    text = plan_text.replace("version = 1", f"version = {version}")
    return Plan.from_toml(text.replace("epsilon = 2.0", f"epsilon = {epsilon}"))


def test_a_round_is_answered_under_the_plan_it_began_with(
    device_of: Make, clock: ManualClock, plan_text: str, query: Query, plan: Plan
) -> None:
    device_of().close()
    clock.advance(21_600)
    newer = with_epsilon(plan_text, 2, "1.0")
    device = device_of(newer)
    device.set("opened_files", 30)
    clock.advance(21_600)
    device.set("opened_files", 30)
    clock.advance(21_600)
    old, new = device.report(HERE + 1), device.report(HERE + 2)
    assert old is not None
    assert new is not None
    assert (old.version, new.version) == (1, 2)
    assert to_json(old) == expected(plan, query, HERE + 1, {"opened_files": 30})
    assert to_json(new) == expected(newer, query, HERE + 2, {"opened_files": 30})


def test_an_older_process_answers_under_the_newer_plan_when_it_is_due(
    device_of: Make, clock: ManualClock, plan_text: str
) -> None:
    old = device_of()
    device_of(with_epsilon(plan_text, 2, "1.0"))
    clock.advance(21_600)
    clock.advance(21_600)
    report = old.report()
    assert report is not None
    assert report.version == 2


def test_a_plan_built_by_hand_serves_as_long_as_it_is_handed_in(
    state: Path, clock: ManualClock, plan: Plan
) -> None:
    from dataclasses import replace

    by_hand = replace(plan, text="")
    with Device(by_hand, state, clock=clock) as device:
        assert device.report(HERE) is not None
    with Device.open(state, clock=clock) as alone:
        assert alone.plan is None
        assert alone.report(HERE - 1) is None
        assert alone.status().version == 1
        assert len(alone.receipt().reports) == 1


def test_changed_parameters_without_a_new_version_are_refused(
    device_of: Make, plan_text: str, query: Query
) -> None:
    device_of().close()
    device = device_of(with_epsilon(plan_text, 1, "1.9"))
    device.add("opened_files", 3)
    assert device.report(HERE) is None
    assert device.flush() == 0
    assert query("SELECT * FROM totals") == query("SELECT * FROM reports") == []
    [reason] = device.status().refused
    assert "is not the version 1 this device holds" in reason
    assert not device.status().active


def test_other_words_in_a_plan_are_no_other_plan(device_of: Make, plan_text: str) -> None:
    device_of().close()
    described = plan_text.replace("max_value = 64", 'max_value = 64\nunit = "file"\ndescription = "open"')
    device = device_of(Plan.from_toml(described))
    assert device.status().refused == ()


def test_an_older_version_is_refused(device_of: Make, plan_text: str) -> None:
    device_of(with_epsilon(plan_text, 2, "1.0")).close()
    device = device_of()
    assert device.report(HERE) is None
    [reason] = device.status().refused
    assert reason == "version 1 is older than version 2, which this device holds"


def test_an_expired_plan_is_not_answered(state: Path, plan_text: str, clock: ManualClock) -> None:
    """Round 80,000 of six hours begins on 2024-10-04."""
    for expires, answers in (("2024-10-03", False), ("2024-10-04", True)):
        text = plan_text.replace('grace = "6h"', f'grace = "6h"\nexpires = {expires}')
        with Device(Plan.from_toml(text), state.with_name(expires), clock=clock) as device:
            assert (device.report(HERE) is not None) == answers


def test_another_round_length_needs_another_name(device_of: Make, plan_text: str) -> None:
    device_of().close()
    with pytest.raises(StateError, match="another round length needs another plan name"):
        device_of(Plan.from_toml(plan_text.replace('round = "6h"', 'round = "3h"')))


# The person's wishes


def test_a_pause_silences_the_rounds_it_overlaps(
    device_of: Make, clock: ManualClock, transport: RecordingTransport, query: Query
) -> None:
    device = device_of(transport=transport)
    clock.advance(21_600)
    device.add("editor_seconds", 100)
    assert device.pause()
    assert query("SELECT * FROM totals") == []
    device.add("editor_seconds", 100)
    assert device.report(HERE + 1) is None
    clock.advance(21_600)
    assert device.flush() == 0
    assert device.status().paused
    assert device.resume()
    device.add("editor_seconds", 100)
    clock.advance(21_600)
    clock.advance(21_600)
    device.flush()
    assert [report.round for report in transport.reports] == [HERE + 3]
    assert device.report(HERE + 1) is None
    assert device.report(HERE + 2) is None
    assert query("SELECT secret IS NOT NULL, epoch FROM device") == [(1, 0)]


def test_a_pause_holds_back_what_waits_and_resume_lets_it_go(
    device_of: Make, clock: ManualClock, transport: RecordingTransport
) -> None:
    device = device_of(transport=transport)
    clock.advance(21_600)
    first = device.report(HERE + 1)
    device.pause()
    assert device.flush() == 0
    assert device.resume()
    assert device.flush() == 1
    assert transport.reports == [first]


def test_a_pause_by_another_process_counts(device_of: Make, state: Path, clock: ManualClock) -> None:
    device = device_of()
    with Device.open(state, clock=clock) as other:
        assert other.pause()
    device.add("editor_seconds", 5)
    assert device.report(HERE) is None
    assert device.status().paused
    assert not device.status().active


def test_forget_is_a_new_epoch(
    device_of: Make, clock: ManualClock, transport: RecordingTransport, query: Query, tmp_path: Path
) -> None:
    device = device_of(transport=transport)
    clock.advance(21_600)
    clock.advance(21_600)
    assert device.flush() == 1
    unsent = device.report(HERE + 2)
    assert unsent is not None
    device._work_on_state()
    device.add("editor_seconds", 77, round=HERE + 1)
    [(old,)] = query("SELECT secret FROM device")
    assert isinstance(old, bytes)
    before = device.receipt()
    assert device.forget()
    assert query("SELECT epoch, secret = ? FROM device", old) == [(1, 0)]
    assert [file.name for file in tmp_path.iterdir() if old in file.read_bytes()] == []
    assert device.flush() == 0
    assert device.report(HERE + 2) == unsent, "handed out before; the receipt stays"
    assert device.report(HERE) is None
    after = device.receipt()
    assert after.losses == before.losses
    assert [(told.round, told.state) for told in after.reports] == [
        (HERE + 1, "accepted"),
        (HERE + 2, "expired"),
    ]
    assert [(epoch.number, epoch.reason) for epoch in after.epochs] == [(0, "enrolled"), (1, "forgotten")]
    clock.advance(21_600)
    clock.advance(21_600)
    assert device.flush() == 1
    assert transport.reports[-1].round == HERE + 3
    assert {entry.epoch for entry in device.receipt().losses} == {0, 1}


def test_forget_drops_what_never_left(device_of: Make, clock: ManualClock, query: Query) -> None:
    device = device_of()
    clock.advance(2 * 21_600)
    device.flush()
    assert device.status().waiting == 1
    assert device.forget()
    assert query("SELECT * FROM reports") == []
    assert device.report(HERE + 1) is None


@pytest.mark.parametrize("value", ["1", "true", "yes"])
def test_do_not_track_leaves_no_trace(
    plan: Plan, state: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", value)
    with Device(plan, state, clock=clock, transport=RecordingTransport()) as device:
        device.add("editor_seconds", 5)
        assert device.report(HERE) is None
        assert device.flush() == 0
        assert device.status().do_not_track
        assert "DO_NOT_TRACK" in device.receipt().problem
        assert not device.pause()
    assert not state.exists()


@pytest.mark.parametrize("value", ["", "0", "false", "False"])
def test_do_not_track_can_be_set_to_no(device_of: Make, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", value)
    assert device_of().report(HERE) is not None


def test_do_not_track_set_later_counts_too(device_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    device = device_of()
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    assert device.report(HERE) is None
    assert device.status().do_not_track


# Construction


def test_construction_raises_what_it_must(state: Path, plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(PlanError):
        Device(tmp_path / "missing.toml", state)
    with pytest.raises(ParameterError, match="https"):
        Device(plan, state, endpoint="http://collector.example.org")
    with pytest.raises(StateError, match="there is no state file"):
        Device.open(state)
    assert not state.exists()
    with pytest.raises(ParameterError, match="max_epsilon"):
        Policy(max_epsilon=-1)


def test_a_plan_file_will_do(tmp_path: Path, plan_text: str, clock: ManualClock) -> None:
    (tmp_path / "plan.toml").write_text(plan_text)
    with Device(str(tmp_path / "plan.toml"), str(tmp_path / "state"), clock=clock) as device:
        assert device.report(HERE) is not None


def test_after_close_nothing_happens_and_nothing_raises(device_of: Make) -> None:
    device = device_of()
    device.close()
    device.close()
    device.add("editor_seconds")
    assert device.report(HERE) is None
    assert device.flush() == 0
    assert not device.forget()
    assert "cannot be read" in device.receipt().problem
    assert "cannot be read" in device.status().problem


def test_a_clock_that_raises_is_no_concern_of_the_host(plan: Plan, state: Path, clock: ManualClock) -> None:
    broken = False

    def moody() -> float:
        if broken:
            raise OSError("no clock")
        return clock()

    with Device(plan, state, clock=moody) as device:
        broken = True
        device.add("editor_seconds")
        assert device.report() is None
        assert device.current_round == -1
        assert device.status().notes
