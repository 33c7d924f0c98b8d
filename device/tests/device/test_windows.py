"""A device with sampled answers: one report per window, whatever happens, and never because of a value."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import ceil, inf
from pathlib import Path

import pytest
from tests.shared.devices import HERE, SECONDS, InFile, Make, identity
from tests.shared.state_files import change_in, drop, what_is_in

from reticent.device import Device, Policy, SecretDraws, answer
from reticent.plan import Plan
from reticent.reports import Report
from reticent.testing import ManualClock, RecordingTransport

METRICS = "".join(
    f'[metrics.{name}]\nkind = "mean"\nmax_value = 100\nepsilon = 1.0\n' for name in ("first", "second")
) + (
    '[metrics.third]\nkind = "histogram"\nmax_value = 64\nbuckets = 8\nmechanism = "hadamard-bit"\nepsilon = 1\n'
)
REMEMBERED = '[plan]\nname = "windows"\nversion = 1\nround = "6h"\n' + METRICS
DAY, WEEK = 4, 28
"""Rounds."""


def plan_of(window: str = "1d", version: int = 1, metrics: int | None = 1) -> Plan:
    text = REMEMBERED.replace("version = 1", f"version = {version}")
    asked = "" if metrics is None else f"metrics = {metrics}\n"
    return Plan.from_toml(f'{text}[answers]\nkind = "sampled"\nwindow = "{window}"\n{asked}')


@pytest.fixture
def plan() -> Plan:
    return plan_of()


def every_report(device: Device, clock: ManualClock, step: int = 0) -> list[Report]:
    """
    What the device gives when it is asked for every round there was, and some that there were not.

    Of several steps every 16th asks for all rounds, every fourth for those of the last week.
    """
    current, back = device.current_round, 10 if step % 4 else 30 if step % 16 else 90
    asked = [device.report(number) for number in range(max(0, current - back), current + 2)]
    return [report for report in [*asked, device.report()] if report is not None]


def live(device: Device, clock: ManualClock, rounds: int, amount: int = 7) -> list[Report]:
    """So many rounds, with a value in each; the reports that come of it."""
    reports: dict[int, Report] = {}
    for left in reversed(range(rounds)):
        for name in ("first", "second", "third"):
            device.add(name, amount)
        clock.advance(SECONDS)
        for report in every_report(device, clock, left):
            assert reports.setdefault(report.round, report) == report, "asked again, the same bytes come back"
    return list(reports.values())


def windows_of(plan: Plan, reports: list[Report]) -> list[int]:
    return [window.start for report in reports if (window := plan.window_of(report.round))]


def test_one_report_in_each_window_that_began_after_enrolment(
    device_of: Make, clock: ManualClock, state: Path, plan: Plan
) -> None:
    """In the picked round, with the draws of the window; the window of enrolment is left out."""
    device = device_of(plan)
    reports = live(device, clock, 10 * DAY)
    first = plan.window_of(HERE)
    assert first is not None
    assert windows_of(plan, reports) == [first.start + n * DAY * SECONDS for n in range(1, len(reports) + 1)]
    assert len(reports) in (9, 10)
    me = identity(state)
    for report in reports:
        window = plan.window_of(report.round)
        assert window is not None
        draws = SecretDraws(me.secret, plan.name, me.epoch, window.start)
        values = {metric.name: 7 for metric in plan.metrics}
        assert report == answer(draws, plan, report.round, values).report
    assert len({report.round % DAY for report in reports}) > 1, "the round is picked anew in each window"


def test_values_of_rounds_that_are_not_picked_are_never_written(
    device_of: Make, clock: ManualClock, state: Path, in_file: InFile, plan: Plan
) -> None:
    device = device_of(plan)
    kept, rounds = set(), 12 * DAY
    for _ in range(rounds):
        device.set("first", 41)
        device.save()
        kept |= {number for number, _ in in_file().totals}
        clock.advance(SECONDS)
        device.report()
    held = set(in_file().windows)
    me = identity(state)
    for number in kept:
        window = plan.window_of(int(str(number)))
        assert window is not None
        assert window.start in held
        assert SecretDraws(me.secret, plan.name, 0, window.start).picked_round(window) == number
    assert 9 <= len(kept) <= 12


def test_a_round_is_answered_when_it_is_over_only(device_of: Make, clock: ManualClock, plan: Plan) -> None:
    device = device_of(plan)
    for _ in range(3 * DAY):
        assert device.report(device.current_round) is None
        assert device.report(device.current_round + 1) is None
        clock.advance(SECONDS)


def test_what_is_sent_is_what_is_kept(device_of: Make, clock: ManualClock, plan: Plan) -> None:
    """Through the outbox and a restart: the metrics asked are among the bytes."""
    transport = RecordingTransport()
    device = device_of(plan, transport=transport)
    for _ in range(6 * DAY):
        clock.advance(SECONDS)
        device.flush()
    assert len(transport.reports) >= 5
    assert all(report.asked is not None for report in transport.reports)
    assert len(set(windows_of(plan, transport.reports))) == len(transport.reports)
    device.close()
    assert [told.state for told in device_of(plan).receipt().reports] == ["accepted"] * len(transport.reports)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_but_the_bits_depends_on_values(tmp_path: Path, seed: int, plan: Plan) -> None:
    """Two copies of one device, with other values: presence, size, metrics, cohort, id and time are equal."""
    rows = []
    original = tmp_path / "original.db"
    start = HERE * SECONDS + 60.0
    Device(plan, original, consent="granted", clock=ManualClock(start), policy=Policy.unlimited()).close()
    draws = random.Random(seed)
    for copy in range(2):
        path, clock = tmp_path / f"copy-{copy}.db", ManualClock(start)
        shutil.copy(original, path)
        device = Device(plan, path, consent="granted", clock=clock, policy=Policy.unlimited())
        for _ in range(5 * DAY):
            for name in ("first", "second", "third"):
                device.set(name, draws.choice([0, 1, 50, 100, float("nan"), 10**9]))
            clock.advance(SECONDS)
            device.flush()
            device.report()
        device.close()
        held = what_is_in(path)
        reports = [replace(kept, bits=bytes(len(kept.bits)), checksum=b"") for kept in held.reports.values()]
        rows.append((reports, held.windows, held.ledger))
    assert rows[0] == rows[1]
    assert len(rows[0][0]) >= 4


def forget(device: Device, state: Path) -> None:
    device.forget()


def break_file(device: Device, state: Path) -> None:
    device.close()
    state.write_bytes(bytes(5000))


def remove_file(device: Device, state: Path) -> None:
    device.close()
    for path in state.parent.iterdir():
        path.unlink()


@pytest.mark.parametrize("act", [forget, break_file, remove_file])
def test_no_window_is_answered_that_began_before_a_new_secret(
    device_of: Make, clock: ManualClock, state: Path, plan: Plan, act: Callable[[Device, Path], None]
) -> None:
    """Done in every round of a window, in turn: a file that is replaced often answers less, never more."""
    reports: dict[bytes, Report] = {}
    spoiled: set[int] = set()
    device = device_of(plan)
    for number in range(24 * DAY):
        clock.advance(SECONDS)
        new = [report for report in every_report(device, clock, number) if report.id not in reports]
        assert not spoiled & set(windows_of(plan, new))
        reports |= {report.id: report for report in new}
        if number % 9 == 0:
            act(device, state)
            device = device_of(plan)
            assert device.set_consent("granted")
            window = plan.window_of(device.current_round)
            assert window is not None
            spoiled.add(window.start)
    starts = windows_of(plan, list(reports.values()))
    assert len(starts) == len(set(starts)) >= 5


def test_a_window_that_overlaps_do_not_track_is_not_answered(
    device_of: Make, clock: ManualClock, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = device_of(plan)
    clock.now = (HERE // DAY + 2) * DAY * SECONDS + 60.0  # the first round of a window
    assert device.report() is None or True
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    device.add("first", 1)
    device.save()
    clock.advance(60)
    monkeypatch.delenv("DO_NOT_TRACK")
    device.add("first", 1)
    spoiled = plan.window_of(device.current_round)
    reports = live(device, clock, 3 * DAY)
    assert spoiled is not None
    assert spoiled.start not in windows_of(plan, reports)
    assert len(reports) >= 2


def test_a_version_with_the_same_window_takes_over_at_the_next_round(
    device_of: Make, clock: ManualClock, state: Path, plan: Plan
) -> None:
    """The pick stays: a new version in every round gives one report per window all the same."""
    reports: list[Report] = []
    for version in range(1, 6 * DAY):
        device = device_of(plan_of(version=version))
        clock.advance(SECONDS)
        reports += every_report(device, clock)
        device.close()
    distinct = {report.id: report for report in reports}.values()
    starts = windows_of(plan, list(distinct))
    assert len(starts) == len(set(starts)) >= 4
    assert len({report.version for report in distinct}) == len(starts)


def test_another_window_waits_for_the_end_of_the_one_held(
    device_of: Make, clock: ManualClock, in_file: InFile
) -> None:
    device = device_of(plan_of("7d"))
    live(device, clock, WEEK + 2)
    [(start, ends)] = [(window.start, window.end) for window in in_file().windows.values()]
    device.close()
    for version, window in enumerate(("1d", "6h", "3d", "1d", "3d", "6h"), 2):
        device_of(plan_of(window, version)).close()
    rounds = {plan.from_round for plan in in_file().plans.values() if plan.version > 1}
    assert rounds == {int(str(ends)) // SECONDS}
    remembered = Plan.from_toml(REMEMBERED.replace("version = 1", "version = 9"))
    device = device_of(remembered)
    during = live(device, clock, 20)
    assert sum(int(str(start)) <= report.round * SECONDS < int(str(ends)) for report in during) <= 1
    after = live(device, clock, 2 * DAY + 10)
    assert [report.version for report in after[-8:]] == [9] * 8, "one report per round again"


@pytest.mark.parametrize("seed", range(8))
def test_an_operator_cannot_get_more_than_one_report_per_shortest_window(
    device_of: Make, clock: ManualClock, state: Path, in_file: InFile, seed: int
) -> None:
    """
    Versions, windows of all lengths, forget, restarts, clocks that jump both ways, every report asked for.

    In a time T there are at most ⌈T/D⌉ + 1 reports, D being the shortest window that the policy allows.
    """
    draws = random.Random(seed)
    policy = Policy(
        **{**dict.fromkeys(("max_year", "fewest_rounds", "least_flip")), "shortest_window": 2 * 86_400.0}
    )
    version, reports, begin = 1, {}, clock.now
    device = device_of(plan_of("2d"), policy=policy)
    latest = clock.now
    for step in range(100):
        act = draws.randrange(20)
        if act == 0:
            version += 1
            window = draws.choice(["6h", "1d", "2d", "3d", "7d"])
            device.close()
            device = device_of(plan_of(window, version, draws.choice([1, 2, None])), policy=policy)
        elif act == 1:
            device.forget()
        elif act == 2:
            clock.now = max(begin, clock.now - draws.randrange(10) * SECONDS)
        elif act == 3:
            clock.advance(draws.randrange(12) * SECONDS)
        device.add("first", draws.randrange(100))
        clock.advance(SECONDS * draws.random() * 2)
        latest = max(latest, clock.now)
        reports |= {report.id: report for report in every_report(device, clock, step)}
    assert len(reports) <= ceil((latest - begin) / (2 * 86_400)) + 1
    assert len(reports) >= 2
    rows = [(window.start, window.end) for window in in_file().windows.values()]
    assert all(ends <= start for (_, ends), (start, _) in pairwise(rows))
    assert all(ends - start >= 2 * 86_400 for start, ends in rows)


def test_a_clock_that_goes_back_reopens_nothing(device_of: Make, clock: ManualClock, plan: Plan) -> None:
    device = device_of(plan)
    before = live(device, clock, 4 * DAY)
    clock.advance(-8 * DAY * SECONDS)
    again = live(device, clock, 8 * DAY)
    assert {report.id for report in again} <= {report.id for report in before}
    clock.advance(60 * DAY * SECONDS)
    later = {report.id for report in live(device, clock, 3 * DAY)} - {report.id for report in before}
    assert 2 <= len(later) <= 11, "one for each window that was passed and can still be answered"


def test_the_policy_limits_the_windows_of_a_year(device_of: Make, clock: ManualClock) -> None:
    """54 weekly windows touch a year, each at a loss of 1; remembered answers have another limit."""
    plan = plan_of("7d")
    status = device_of(plan, policy=Policy(max_year=53)).status()
    assert not status.active
    assert "max_year" in status.refused[0]
    device = device_of(plan, policy=Policy(max_lifetime=0))
    assert device.status().active
    assert len(live(device, clock, 6 * WEEK)) >= 5


@pytest.mark.parametrize(
    ("window", "metrics", "limit"), [("1d", 1, "shortest_window"), ("7d", None, "max_window")]
)
def test_the_default_policy_looks_at_windows(
    device_of: Make, clock: ManualClock, window: str, metrics: int | None, limit: str
) -> None:
    policy = Policy() if limit == "shortest_window" else Policy(max_window=2)
    status = device_of(plan_of(window, metrics=metrics), policy=policy).status()
    assert any(limit in reason for reason in status.refused)
    assert device_of(plan_of("7d", 2), policy=Policy()).status().active


def test_the_receipt_says_how_many_windows_were_answered(
    device_of: Make, clock: ManualClock, plan: Plan
) -> None:
    device = device_of(plan)
    reports = live(device, clock, 3 * DAY)
    device.pause()
    clock.advance(DAY * SECONDS)
    device.resume()
    reports += live(device, clock, 3 * DAY)
    receipt = device.receipt()
    answered = len({report.id for report in reports})
    assert len(receipt.reports) == answered
    assert [len(told.bits) for told in receipt.reports] == [1] * answered, "the metrics that were asked"
    sentence = f"This file answered {answered} of the {len(receipt.windows)} windows it held."
    assert sentence in str(receipt)
    assert f"at most e^{answered}.0 times as likely from one history of your values as from any other" in str(
        receipt
    )
    assert (receipt.total_loss, receipt.total_lifetime) == (answered, len(receipt.windows))
    assert receipt.to_dict()["windows"][0]["start"] == receipt.windows[0].start


def test_back_to_remembered_answers_is_a_new_memory(device_of: Make, clock: ManualClock) -> None:
    """Metrics that were sampled only have no remembered answers yet: the policy counts them as new."""
    device = device_of(plan_of("7d"))
    live(device, clock, WEEK)
    device.close()
    remembered = Plan.from_toml(REMEMBERED.replace("version = 1", "version = 2"))
    policy = Policy(max_lifetime=5, least_flip=None)
    assert "max_lifetime" in device_of(remembered, policy=policy).status().refused[0]
    before = device_of(remembered, policy=Policy.unlimited())
    assert before.receipt().total_lifetime == 6 + len(before.receipt().windows)
    live(before, clock, 2 * WEEK)
    says = str(before.receipt())
    assert "This file answered " in says
    assert "All answers so far are at most e^" in says, "each kind of answer has its own promise"


def test_receipts_are_summed_up_after_going_back_to_remembered_answers(
    device_of: Make, clock: ManualClock, in_file: InFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last window is over: it holds nothing back."""
    monkeypatch.setattr("reticent.device.outbox.MOST_RECEIPTS", 4)
    device = device_of(plan_of("1d"))
    live(device, clock, 2 * DAY)
    device.close()
    remembered = Plan.from_toml(REMEMBERED.replace("version = 1", "version = 2"))
    device = device_of(remembered, transport=RecordingTransport())
    for _ in range(80):
        clock.advance(SECONDS)
        device.flush()
    assert len(in_file().reports) < 4 + 64
    assert device.receipt().earlier


def test_a_lost_file_of_sampled_answers_has_no_bound_on_the_loss_so_far(
    device_of: Make, clock: ManualClock, state: Path
) -> None:
    """Windows of earlier years are not known any more; remembered answers kept within their limit."""
    device = device_of(plan_of("7d"), policy=Policy())
    live(device, clock, 2 * WEEK)
    device.close()
    drop(state, "totals")
    device = device_of(plan_of("7d"), policy=Policy())
    assert device.set_consent("granted")
    [lost] = [entry for entry in device.receipt().losses if entry.lost]
    assert lost.loss == inf
    assert "Infinite: " in str(device.receipt())


def test_sampled_answers_ask_for_no_new_memory(device_of: Make, clock: ManualClock) -> None:
    """Other privacy parameters a few rounds later are no change of remembered answers: each window is fresh."""
    device_of(plan_of("7d"), policy=Policy()).close()
    clock.advance(2 * SECONDS)
    changed = Plan.from_toml(plan_of("7d", version=2).text.replace("epsilon = 1.0", "epsilon = 0.5"))
    status = device_of(changed, policy=Policy()).status()
    assert (status.refused, status.version) == ((), 2)


def test_a_window_whose_report_is_lost_is_not_answered_again(
    device_of: Make, clock: ManualClock, state: Path, plan: Plan
) -> None:
    """Its values are gone, so that a second report would have the id of the first and other bits."""
    device = device_of(plan)
    while not (reports := live(device, clock, 1)):
        pass
    change_in(state, lambda held: replace(held, reports={}))
    before = device.status().notes
    assert device.report(reports[0].round) is None
    device.flush()
    assert device.status().notes == before  # nothing went wrong either: later rounds are answered
