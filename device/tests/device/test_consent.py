"""Asked first: what each consent lets a device do, whichever came before, and for which questions a choice holds."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.shared.devices import HERE, SECONDS, InFile, Make, identity, with_epsilon

from reticent.device import Accepted, Consent, Device, Outcome, Policy
from reticent.device.session import Session
from reticent.device.state import DeviceState
from reticent.device.statefile import StateFile
from reticent.errors import ParameterError
from reticent.plan import Plan
from reticent.reports import from_json
from reticent.testing import ManualClock, RecordingTransport

STATES: tuple[Consent, ...] = ("unset", "granted", "denied", "local")
EVERY_PAIR = list(itertools.product(STATES, repeat=2))
KEPT = ("totals", "reports", "plans", "ledger", "windows", "pauses", "notes", "attempts")
"""Every table that may hold more than the choice."""


def records(consent: Consent) -> bool:
    return consent in ("granted", "local")


def sampled_text(plan_text: str, window: str) -> str:
    return re.sub(r"flip = .*\n", "", plan_text) + f'\n[answers]\nkind = "sampled"\nwindow = "{window}"\n'


# Every state, every transition


@pytest.mark.parametrize(("before", "after"), EVERY_PAIR)
def test_what_is_recorded_answered_and_sent_after_every_transition(
    before: Consent,
    after: Consent,
    device_of: Make,
    clock: ManualClock,
    transport: RecordingTransport,
    in_file: InFile,
) -> None:
    """Two rounds under the one, then two under the other; the change comes in the middle of a round."""
    device = device_of(consent="unset", transport=transport)
    assert device.set_consent(before)
    for _ in range(2):
        clock.advance(SECONDS)
        device.add("editor_seconds", 5)
        device.flush()
    assert [report.round for report in transport.reports] == ([HERE + 1] if before == "granted" else [])
    assert device.set_consent(after)
    assert device.consent == device.status().consent == after
    device.add("editor_seconds", 7)
    device.save()
    left = [place for place in in_file().totals if place[0] == HERE + 2]
    is_one_consent = after == before or (before, after) == ("granted", "local")
    assert len(left) == (1 if records(after) and is_one_consent else 0)
    if not records(after):
        held = in_file()
        assert held.totals == held.notes == {}
        assert not {kept.state for kept in held.reports.values()} & {"waiting", "local"}
    for _ in range(3):
        clock.advance(SECONDS)
        device.add("editor_seconds", 9)
        device.flush()
    sent = [report.round for report in transport.reports]
    wholly = {HERE + 1} if before == "granted" else set()
    wholly |= {HERE + 3, HERE + 4} if after == "granted" else set()
    wholly |= {HERE + 2} if before == after == "granted" else set()
    assert sent == sorted(wholly)
    states = {number: kept.state for number, kept in in_file().reports.items()}
    assert {states.get(number) for number in (HERE + 3, HERE + 4)} == {
        {"granted": "accepted", "local": "local"}.get(after)
    }


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_a_choice_survives_a_restart_and_wins_over_the_default(
    before: Consent, after: Consent, device_of: Make, clock: ManualClock
) -> None:
    device = device_of(consent=before)
    assert device.consent == before
    assert device.set_consent(after)
    device.close()
    for default in STATES:
        again = device_of(consent=default)
        assert again.consent == after
        assert again.status().chosen_at == int(clock())
        clock.advance(SECONDS)
        again.close()
        clock.now -= SECONDS


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_a_choice_made_in_another_process_holds_in_this_one(
    before: Consent,
    after: Consent,
    device_of: Make,
    clock: ManualClock,
    state: Path,
    transport: RecordingTransport,
) -> None:
    device = device_of(consent="unset", transport=transport)
    device.set_consent(before)
    clock.advance(SECONDS)
    device.add("editor_seconds", 5)  # in memory, and to be written under another consent
    other = device_of(consent="unset")
    assert other.set_consent(after)
    for _ in range(2):
        clock.advance(SECONDS)
        device.flush()
    assert device.consent == after
    wholly = [HERE + 2] if after == "granted" else []
    if before == after == "granted":
        wholly = [HERE + 1, HERE + 2]
    assert [report.round for report in transport.reports] == wholly


@pytest.mark.parametrize("consent", STATES)
def test_a_forked_child_goes_by_the_same_consent(
    consent: Consent, device_of: Make, clock: ManualClock, in_file: InFile
) -> None:
    device = device_of(consent="unset")
    device.set_consent(consent)
    clock.advance(SECONDS)
    child = os.fork()
    if child == 0:
        device.add("editor_seconds", 3)
        done = device.save() and device.consent == consent
        done = done and (device.report(HERE + 1) is not None) == (consent == "granted")
        os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert device.consent == consent
    assert bool(in_file().reports) == (consent == "granted")


def sent_rounds(folder: Path, plan: Plan, choices: tuple[Consent, ...], value: int) -> list[int]:
    """The rounds a device sends whose person chooses in the middle of one round after the other."""
    folder.mkdir()
    clock, transport = ManualClock(HERE * SECONDS + 60.0), RecordingTransport()
    device = Device(
        plan, folder / "state", consent="granted", clock=clock, transport=transport, policy=Policy.unlimited()
    )
    for choice in (*choices, choices[-1], choices[-1]):
        clock.advance(SECONDS)
        device.add("editor_seconds", value)
        device.flush()
        if choice != device.consent:
            assert device.set_consent(choice)
        device.add("editor_seconds", value)
        device.flush()
    device.close()
    return [report.round for report in transport.reports]


def test_every_history_sends_the_rounds_wholly_under_granted(plan: Plan, tmp_path: Path) -> None:
    """And the same ones whatever the values are: that a report is there tells of choices and times alone."""
    for choices in itertools.product(STATES, repeat=2):
        folder = tmp_path / "-".join(choices)
        rounds = sent_rounds(folder.with_suffix(".idle"), plan, choices, 0)
        in_force = ["granted", *choices, choices[-1]]  # at the beginning of each round, and of the next
        whole = [number for number in range(3) if in_force[number] == in_force[number + 1] == "granted"]
        assert rounds == [HERE + 1 + number for number in whole], choices
        assert sent_rounds(folder.with_suffix(".busy"), plan, choices, 21_600) == rounds


# What is kept


@pytest.mark.parametrize("default", ["unset", "denied"])
def test_without_a_choice_no_file_is_made(
    default: Consent, device_of: Make, state: Path, clock: ManualClock
) -> None:
    device = device_of(consent=default, transport=RecordingTransport())
    device.start()
    device.add("editor_seconds", 5)
    clock.advance(2 * SECONDS)
    assert device.report() is None
    assert device.flush() == 0
    assert device.consent == device.status().consent == default
    assert not device.status().active
    assert device.receipt().reports == ()
    preview = device.preview()
    assert preview is not None
    assert preview.state == "example"
    assert preview.unsent_because[0].startswith(f"consent is {default}")
    assert device.plan is not None
    assert device.current_round == HERE + 2
    device.close()
    assert list(state.parent.iterdir()) == []


def test_the_default_is_unset_and_an_unknown_one_is_named(plan: Plan, state: Path) -> None:
    with Device(plan, state) as device:
        assert device.consent == "unset"
    with pytest.raises(ParameterError, match="consent: expected unset, granted, denied or local"):
        Device(plan, state, consent="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("refusal", ["unset", "denied"])
def test_where_nothing_was_sent_nothing_stays_but_the_choice(
    refusal: Consent, device_of: Make, clock: ManualClock, state: Path, in_file: InFile
) -> None:
    device = device_of()
    device.add("editor_seconds", 4_711)
    clock.advance(2 * SECONDS)
    device.flush()  # answered, and never sent: there is no transport
    secret = identity(state).secret
    assert device.set_consent(refusal)
    held = in_file()
    assert [table for table in KEPT if getattr(held, table)] == []
    assert (held.consent.choice, held.consent.questions) == (refusal, "")
    for file in state.parent.iterdir():
        assert secret not in file.read_bytes(), file.name
        assert b"4711" not in file.read_bytes(), file.name
    assert device.receipt().total_lifetime == 0


def test_answers_under_local_that_are_no_longer_listed_are_wiped_too(
    device_of: Make, clock: ManualClock, in_file: InFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reticent.device.outbox.MOST_RECEIPTS", -62)  # the latest is listed
    device = device_of(consent="local")
    for _ in range(4):
        clock.advance(SECONDS)
        device.flush()
    assert [past.state for past in in_file().past.values()] == ["local"]
    assert device.set_consent("denied")
    assert in_file().past == {}


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_threads_that_find_a_new_file_at_once_share_one_session(
    device_of: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread makes the file for a yes; another finds it before the yes is entered."""
    device = device_of(consent="unset")
    found, looked = threading.Event(), threading.Event()
    opened, entered = StateFile.__init__, Session.set_consent

    def open_together(*arguments: Any, **options: Any) -> None:
        if threading.current_thread() is agreeing:
            opened(*arguments, **options)
            assert found.wait(10)
        else:
            found.set()
            wait_until(lambda: device._session is not None)
            opened(*arguments, **options)

    def enter_later(session: Session, choice: Consent) -> bool:
        assert looked.wait(10)
        return entered(session, choice)

    monkeypatch.setattr(StateFile, "__init__", open_together)
    monkeypatch.setattr(Session, "set_consent", enter_later)
    agreeing = threading.Thread(target=device.set_consent, args=("granted",))
    agreeing.start()
    wait_until(Path(device._settings.state).exists)
    assert device.report() is None
    looked.set()
    agreeing.join()
    clock.advance(SECONDS)
    device.add("editor_seconds", 5)
    assert device._recorded(HERE + 1) == {"editor_seconds": 5}


def test_a_yes_starts_no_thread_unless_the_program_did(
    device_of: Make, clock: ManualClock, transport: RecordingTransport
) -> None:
    others = set(threading.enumerate())

    def is_sending() -> bool:
        return any(thread.name == "reticent" for thread in set(threading.enumerate()) - others)

    device = device_of(consent="unset", transport=transport)
    assert device.set_consent("granted")
    assert not is_sending()
    assert device.set_consent("denied")
    device.start()
    assert not is_sending()
    assert device.set_consent("granted")
    assert is_sending()


def test_what_was_sent_stays_counted_and_is_never_drawn_again(
    device_of: Make, clock: ManualClock, state: Path, transport: RecordingTransport
) -> None:
    device = device_of(transport=transport)
    clock.advance(SECONDS)
    device.set("editor_seconds", 21_600)
    clock.advance(SECONDS)
    assert device.flush() == 1
    before, kept = identity(state), device.receipt()
    clock.advance(SECONDS)
    assert device.report() is not None  # handed out, which counts as sent
    assert device.set_consent("denied")
    after = device.receipt()
    assert identity(state) == before, "a new secret would answer the same questions again"
    assert after.total_loss >= kept.total_loss > 0
    assert [(told.round, told.state) for told in after.reports] == [
        (HERE + 1, "accepted"),
        (HERE + 2, "expired"),
    ]
    assert device.set_consent("granted")
    clock.advance(2 * SECONDS)
    device.flush()
    assert [report.round for report in transport.reports] == [HERE + 1, HERE + 4]
    assert identity(state) == before
    assert device.receipt().total_lifetime == kept.total_lifetime


def test_answers_under_local_are_shown_never_sent_and_lose_nothing(
    device_of: Make, clock: ManualClock, transport: RecordingTransport
) -> None:
    device = device_of(consent="local", transport=transport)
    clock.advance(SECONDS)
    device.set("editor_seconds", 21_600)
    clock.advance(SECONDS)
    device.flush()
    [told] = device.receipt().reports
    assert (told.round, told.state) == (HERE + 1, "local")
    assert "0 reports, and 1 that stays on this device" in str(device.receipt())
    assert device.receipt().total_loss == 0
    assert device.report(HERE + 1) is None, "its bytes are not handed out"
    assert device.set_consent("granted")
    assert device.report(HERE + 1) is None
    clock.advance(2 * SECONDS)
    device.flush()
    assert [report.round for report in transport.reports] == [HERE + 3]
    assert device.receipt().total_loss > 0


def test_what_waits_when_local_is_chosen_is_never_sent(
    device_of: Make, clock: ManualClock, transport: RecordingTransport
) -> None:
    device = device_of()
    clock.advance(2 * SECONDS)
    device.flush()
    assert device.status().waiting == 1
    device.set_consent("local")
    device.close()
    device = device_of(transport=transport)
    device.set_consent("granted")
    assert device.flush() == 0


def test_windows_of_sampled_answers_are_wholly_under_granted(
    device_of: Make, clock: ManualClock, plan_text: str
) -> None:
    sampled = Plan.from_toml(sampled_text(plan_text, "1d"))
    for choice in ("denied", "local"):
        transport = RecordingTransport()
        device = device_of(sampled, transport=transport)
        device.set_consent("granted")
        clock.now = (clock.now // 86_400 + 2) * 86_400 + 60.0
        first = device.current_round
        device.flush()
        device.set_consent(choice)
        device.set_consent("granted")
        for _ in range(8):
            clock.advance(SECONDS)
            device.flush()
        windows = [(report.round - first) // 4 for report in transport.reports if report.round >= first]
        assert windows == [1], "the window of the choice was not wholly under granted; the next one is"
        device.close()


def test_a_window_under_local_loses_nothing(device_of: Make, clock: ManualClock, plan_text: str) -> None:
    sampled = Plan.from_toml(sampled_text(plan_text, "1d"))
    device = device_of(sampled, consent="local", transport=RecordingTransport())
    for _ in range(16):
        clock.advance(SECONDS)
        device.flush()
    receipt = device.receipt()
    assert {told.state for told in receipt.reports} == {"local"}
    assert receipt.windows
    assert receipt.total_loss == receipt.total_lifetime == 0


# "denied", a pause and `forget` are the last word

LAST_WORDS: dict[str, tuple[Callable[[Device], bool], Callable[[DeviceState], bool]]] = {
    "denied": (lambda device: device.set_consent("denied"), lambda held: held.consent.choice == "denied"),
    "pause": (lambda device: device.pause(), lambda held: len(held.pauses) == 1),
    "forget": (lambda device: device.forget(), lambda held: held.epoch == 1),
}
"""What a person can do, and what holds of the state file once it is there."""


@pytest.mark.parametrize("word", LAST_WORDS)
def test_a_report_on_its_way_is_waited_for_and_the_next_is_not_sent(
    word: str, device_of: Make, clock: ManualClock, in_file: InFile
) -> None:
    """The first report is on its way when the choice is entered; the second was due in the same turn."""
    act, is_there = LAST_WORDS[word]
    returned: list[tuple[bool, int]] = []
    sent: list[int] = []

    class Slow:
        def send(self, body: bytes, timeout: float) -> Outcome:
            other = threading.Thread(target=choose)
            other.start()
            while not is_there(in_file()):
                time.sleep(0.001)
            time.sleep(0.05)
            assert returned == [], "it returned while a report was on its way"
            sent.append(from_json(body).round)
            return Accepted()

    device = device_of(transport=Slow(), consent="granted")
    second = device_of(consent="granted")

    def choose() -> None:
        done = act(second)
        returned.append((done, len(sent)))

    clock.advance(SECONDS)
    assert device.report(HERE) is not None
    clock.advance(SECONDS)
    assert len(in_file().waiting) == 1
    device.flush()
    deadline = time.monotonic() + 20
    while not returned and time.monotonic() < deadline:
        time.sleep(0.005)
    assert returned == [(True, 1)]
    assert len(sent) == 1
    assert device.flush() == 0


@pytest.mark.parametrize("word", LAST_WORDS)
def test_a_send_that_does_not_end_is_said(
    word: str, device_of: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, in_file: InFile
) -> None:
    from reticent.device import session

    act, is_there = LAST_WORDS[word]
    monkeypatch.setattr(session, "LONGEST_SEND", -1.95)
    answers: list[bool] = []

    class Stuck:
        def send(self, body: bytes, timeout: float) -> Outcome:
            answers.append(act(second))
            return Accepted()

    device, second = device_of(transport=Stuck()), device_of()
    clock.advance(2 * SECONDS)
    device.flush()
    assert answers == [False]
    assert is_there(in_file()), "it is kept all the same"
    assert in_file().consent.in_force == ("denied" if word == "denied" else "granted")


def test_nothing_is_sent_where_nobody_could_wait_for_it(
    device_of: Make, clock: ManualClock, state: Path, transport: RecordingTransport
) -> None:
    """The lock that a sender holds cannot be opened: it sends later, and a pause does not say that it is done."""
    device = device_of(transport=transport)
    clock.advance(2 * SECONDS)
    lock = state.with_name(state.name + "-sending")
    lock.unlink(missing_ok=True)
    lock.mkdir()
    assert device.flush() == 0
    assert transport.reports == []
    assert device.status().waiting == 1
    assert device.pause() is False
    lock.rmdir()
    assert device.pause()
    assert device.resume()
    assert device.flush() == 1


def test_a_sender_that_was_killed_keeps_nobody_waiting(plan_text: str, tmp_path: Path) -> None:
    script = f"""
import os, signal
from reticent.device import Device, Policy
from reticent.plan import Plan
from reticent.testing import ManualClock
class Deadly:
    def send(self, body, timeout):
        os.kill(os.getpid(), signal.SIGKILL)
clock = ManualClock({HERE * SECONDS + 60.0})
plan = Plan.from_toml({plan_text!r})
device = Device(plan, "state", consent="granted", clock=clock, transport=Deadly(), policy=Policy.unlimited())
clock.advance({2 * SECONDS})
device.flush()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    clock = ManualClock((HERE + 2) * SECONDS + 60.0)
    begun = time.monotonic()
    with Device.open(tmp_path / "state", clock=clock) as device:
        assert device.set_consent("denied")
        assert [told.state for told in device.receipt().reports] == ["expired"], "it may have left"
    assert time.monotonic() - begun < 5, "the lock ended with its process"


# Which questions a choice holds for


def longer(text: str) -> str:
    return text + '\n[metrics.crashes]\nkind = "mean"\nmax_value = 9\nepsilon = 0.1\nflip = 0.4\n'


CHANGES: dict[str, tuple[Callable[[str], str], bool]] = {
    "another metric": (longer, True),
    "a metric by another name": (lambda text: text.replace("opened_files", "files_opened"), True),
    "a larger epsilon": (lambda text: text.replace("epsilon = 2.0", "epsilon = 2.5"), True),
    "a smaller epsilon, with new answers": (
        lambda text: text.replace("epsilon = 2.0", "epsilon = 1.5"),
        True,
    ),
    "fewer flips": (lambda text: text.replace("flip = 0.1", "flip = 0.05"), True),
    "more flips": (lambda text: text.replace("flip = 0.1", "flip = 0.3"), False),
    "another joint limit": (lambda text: text.replace("max_total = 21600", "max_total = 21000"), True),
    "other words": (lambda text: text.replace('kind = "mean"', 'kind = "mean"\ndescription = "x"', 1), False),
    "one metric less": (
        lambda text: text[: text.index("[metrics.opened_files]")] + text[text.index("[groups.apps]") :],
        False,
    ),
    "sampled answers": (lambda text: sampled_text(text, "7d"), True),
}


def test_a_choice_for_sampled_answers_is_none_for_remembered_ones(
    device_of: Make, plan_text: str, clock: ManualClock
) -> None:
    device = device_of(Plan.from_toml(sampled_text(plan_text, "7d")), consent="granted")
    assert device.set_consent("granted")
    device.close()
    clock.advance(SECONDS)
    newer = Plan.from_toml(plan_text.replace("version = 1", "version = 2"))
    assert device_of(newer, consent="granted").consent == "unset"


@pytest.mark.parametrize("choice", ["granted", "local"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_choice_lapses_when_a_plan_asks_for_more(
    choice: Consent, change: str, device_of: Make, plan_text: str, clock: ManualClock, in_file: InFile
) -> None:
    device = device_of(consent="granted")
    assert device.set_consent(choice)
    device.close()
    clock.advance(SECONDS)
    rewrite, asks_more = CHANGES[change]
    newer = Plan.from_toml(rewrite(plan_text.replace("version = 1", "version = 2")))
    device = device_of(newer, consent="granted")
    assert device.consent == ("unset" if asks_more else choice)
    device.add("editor_seconds", 5)
    device.save()
    assert bool(in_file().totals) is not asks_more
    if asks_more:
        assert in_file().plans == {}, "nothing was sent, so nothing is kept"
    assert device.set_consent("granted")
    assert device.status().version == 2
    assert device.consent == "granted"
    device.close()
    assert device_of(newer).consent == "granted", "it holds for the new questions now"


def test_the_host_may_say_that_a_choice_holds_for_all_plans(device_of: Make, plan_text: str) -> None:
    device_of().set_consent("granted")
    newer = Plan.from_toml(longer(plan_text.replace("version = 1", "version = 2")))
    device = device_of(newer, consent="unset", ask_again=False)
    assert (device.consent, device.status().version) == ("granted", 2)


@pytest.mark.parametrize("ask_again", [True, False])
def test_denied_never_lapses(ask_again: bool, device_of: Make, plan_text: str) -> None:
    device_of().set_consent("denied")
    newer = Plan.from_toml(longer(plan_text.replace("version = 1", "version = 2")))
    device = device_of(newer, consent="granted", ask_again=ask_again)
    assert device.consent == "denied"
    assert device.forget()
    assert device.consent == "denied"


def test_a_default_that_nobody_chose_does_not_lapse(device_of: Make, plan_text: str) -> None:
    device_of().close()
    device = device_of(with_epsilon(plan_text, 2, "2.5"))
    assert (device.consent, device.status().version) == ("granted", 2)


def test_new_answers_to_old_questions_are_asked_for_again(device_of: Make, clock: ManualClock) -> None:
    device = device_of(transport=RecordingTransport())
    device.set_consent("granted")
    clock.advance(2 * SECONDS)
    device.flush()
    assert device.forget()
    assert device.consent == "unset"
    assert device.receipt().total_loss > 0


@pytest.mark.parametrize(("window", "consent"), [("14d", "granted"), ("21d", "granted"), ("7d", "unset")])
def test_shorter_windows_are_more(window: str, consent: str, device_of: Make, plan_text: str) -> None:
    """Each window costs what it did: there are more of them."""
    device_of(Plan.from_toml(sampled_text(plan_text, "14d"))).set_consent("granted")
    later = sampled_text(plan_text, window).replace("version = 1", "version = 2")
    assert device_of(Plan.from_toml(later)).consent == consent


def test_more_metrics_in_a_report_of_the_same_window_are_more(device_of: Make, plan_text: str) -> None:
    """Each metric costs what it did: it is the whole report that costs more."""
    text = sampled_text(plan_text, "7d")
    device_of(Plan.from_toml(text + "metrics = 1\n")).set_consent("granted")
    for metrics, consent in ((1, "granted"), (2, "unset")):
        later = text.replace("version = 1", f"version = {metrics + 1}") + f"metrics = {metrics}\n"
        assert device_of(Plan.from_toml(later)).consent == consent


def test_what_waits_in_memory_leaves_no_note_when_another_process_denies(
    device_of: Make, in_file: InFile
) -> None:
    device, other = device_of(), device_of()
    device.add("editor_seconds", 5)
    assert other.set_consent("denied")
    assert device.status().consent == "denied"
    device.save()
    assert device.consent == "denied"
    assert in_file().notes == in_file().totals == {}


def test_what_waits_for_a_round_that_was_answered_leaves_no_note_either(
    device_of: Make, in_file: InFile
) -> None:
    device, other = device_of(), device_of()
    assert device.report(HERE) is not None
    device.add("editor_seconds", 5)
    assert other.set_consent("denied")
    device.save()
    assert list(in_file().reports) == [HERE]
    assert in_file().notes == in_file().totals == {}


def test_a_plan_that_the_policy_refuses_changes_no_choice(device_of: Make, plan_text: str) -> None:
    policy = Policy(max_epsilon=2, max_window=None, max_lifetime=None, least_flip=None, fewest_rounds=None)
    device_of(policy=policy).set_consent("granted")
    device = device_of(with_epsilon(plan_text, 2, "3.0"), policy=policy)
    assert device.consent == "granted"
    assert device.status().version == 1


def test_to_a_file_without_a_plan_nobody_can_agree(device_of: Make, state: Path, clock: ManualClock) -> None:
    device_of(consent="unset").set_consent("denied")
    with Device.open(state, clock=clock) as alone:
        assert not alone.set_consent("granted")
        assert alone.consent == "denied"
        assert alone.set_consent("unset")


# Where the program runs


@pytest.mark.parametrize(
    ("variables", "rules"),
    [
        ({}, []),
        ({"CI": "true"}, ["CI"]),
        ({"CI": "0", "GITHUB_ACTIONS": "false", "DO_NOT_TRACK": "0"}, []),
        ({"TF_BUILD": "True", "DO_NOT_TRACK": "1"}, ["DO_NOT_TRACK", "CI"]),
        ({"container": "podman"}, ["container"]),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "BUILD_NUMBER": "7"}, ["CI", "container"]),
        ({"MARK": "mark"}, ["container"]),
    ],
)
def test_rules_of_the_policy_silence_a_device_and_are_named(
    variables: dict[str, str], rules: list[str], tmp_path: Path, plan_text: str
) -> None:
    script = f"""
import os, sys
from dataclasses import replace
from reticent.device import Device, Policy, policy
from reticent.plan import Plan
policy.CONTAINER_FILES = (os.environ.get("MARK", "none"),)
plan = Plan.from_toml({plan_text!r})
limits = Policy.unlimited()
on = replace(limits, silent_in_ci=True, silent_in_containers=True)
device = Device(plan, "state", consent="granted", policy=on)
device.add("editor_seconds", 5)
status = device.status()
print(*status.silenced_by, status.active, os.path.exists("state"), device.report(device.current_round) is None)
assert not status.silenced_by or "(policy: " in str(status)
lifted = replace(limits, do_not_track=False)
assert Device(plan, "lifted", consent="granted", policy=lifted).status().silenced_by == ()
"""
    (tmp_path / "mark").touch()
    environment = {"PATH": os.environ["PATH"], **variables}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    is_free = not rules
    assert done.stdout.split() == [*rules, str(is_free), str(is_free), str(not is_free)]


def test_a_rule_must_be_true_or_false_and_a_limit_a_number() -> None:
    value: Any = None
    with pytest.raises(ParameterError, match="silent_in_ci: expected True or False"):
        Policy(silent_in_ci=value)
    for value in (-1, float("nan"), "2", [2]):
        with pytest.raises(ParameterError, match="max_epsilon: expected a number >= 0, or None"):
            Policy(max_epsilon=value)


def test_a_device_without_consent_adopts_a_choice_of_another_process_when_asked_to(
    device_of: Make, state: Path
) -> None:
    device, other = device_of(consent="unset"), device_of(consent="unset")
    assert not state.exists()
    assert other.set_consent("granted")
    assert device.consent == "unset"
    assert device.refresh_consent() == device.consent == "granted"
    assert other.set_consent("denied")
    assert device.refresh_consent() == device.consent == "denied"
    device.close()
    assert device.refresh_consent() == "denied"


def test_consent_is_read_without_the_file(device_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A property never touches the disk, and has no effect."""
    device = device_of()
    session = device._session
    assert session is not None
    monkeypatch.setattr(session, "file", None)
    assert (device.consent, device.plan, device.current_round) == ("granted", session.newest, HERE)
    monkeypatch.undo()
