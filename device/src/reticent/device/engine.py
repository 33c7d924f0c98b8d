"""
What happens to a device, as functions (state, moment) -> state: open, record, answer, choose, pause, forget.

Nothing here has a clock, a file, a lock or a thread: what an event depends on beside the state is its `Moment`. Whoever
calls it saves the new state before anything leaves the device. spec/transitions.md has the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Literal

from reticent.device import consent, ledger, outbox, plans, rounds, totals
from reticent.device.state import ASKED, SILENT, Pause, RunFacts, records
from reticent.frozen import frozen, replace

if TYPE_CHECKING:
    from reticent.device.process import Settings
    from reticent.device.state import Consent, DeviceState
    from reticent.device.totals import TotalChanges
    from reticent.plan import Plan
    from reticent.reports import Report

MOST_SPELLS = (
    400  # spans of neighbouring rounds in which the program ran; a collector takes none that is older
)


@frozen("new_secret")
class Moment:
    """What an event depends on beside the state."""

    settings: Settings  #: What the host said; its clock is not read
    now: float  #: Unix seconds
    new_secret: bytes  #: From the operating system, in case that one is needed


def opened(state: DeviceState, moment: Moment, silenced_by: tuple[str, ...]) -> DeviceState:
    """A program begins with this state: it was opened, or replaces another one."""
    state = replace(state, run=RunFacts(silenced_by=silenced_by))
    state = state.noting("report-damaged", sum(not kept.is_intact(state.plan) for kept in state.waiting))
    policy = moment.settings.policy
    if moment.settings.plan is not None:
        state = _with_rules(_with_lasting_pauses(state, state.at(moment.now)), moment, silenced_by)
        lifetime = inf if policy.max_lifetime is None else policy.max_lifetime
        year = inf if policy.max_year is None else policy.max_year
        state = ledger.raise_limits(state, lifetime, year, sampled=False)
    return note_presence(_taken_up(_in_force(state, moment), moment), moment)


def begun(state: DeviceState, moment: Moment) -> DeviceState:
    """The first step of every event: the consent that is kept now is in force."""
    before = state.run.consent
    state = _in_force(state, moment)
    if state.run.consent != before:
        state = _taken_up(state.with_run(on_since=None), moment)
    return state


def _in_force(state: DeviceState, moment: Moment) -> DeviceState:
    """Bring what holds now into force."""
    state = _with_lasting_pauses(state, state.at(moment.now))
    now_holds = consent.choice_of(state, moment.settings.default_consent)
    state = consent.bring_into_force(state, now_holds, moment.now, moment.new_secret)
    state = state.with_run(consent=now_holds)
    return state if records(now_holds) else state.with_run(refused=())  # nothing is asked for


def _with_lasting_pauses(state: DeviceState, current: int) -> DeviceState:
    """A pause that lasts covers the round under way, also where the clock went back, beside that in which it began."""
    ahead = [
        pause for pause in state.pauses.values() if pause.through_round is None and pause.from_round > current
    ]
    if not ahead:
        return state
    pauses = dict(state.pauses)
    for pause in ahead:
        began = pauses.pop((pause.from_round, pause.reason))
        if state.plans:  # before the first one there are no rounds
            pauses[began.from_round, began.reason] = replace(began, through_round=began.from_round)
        pauses[current, pause.reason] = replace(pause, from_round=current)
    return replace(state, pauses=dict(sorted(pauses.items())))


def _taken_up(state: DeviceState, moment: Moment) -> DeviceState:
    """Hold the plan, if there is consent to what it asks; under a rule nothing is begun."""
    plan = moment.settings.plan
    begins = not state.run.silenced_by or state.plans
    if plan is None or not records(state.run.consent) or not begins:
        return state
    state, asks_more = plans.consider(state, moment, plan)
    if asks_more:
        state = _in_force(consent.enter(state, "unset", moment.now, None), moment)
    return state


# Presence: when the program ran, never what it measured


def presence_to_note(state: DeviceState, moment: Moment) -> tuple[int, int] | None:
    """The rounds in which this program has run since the last event, unless they are known."""
    if moment.settings.plan is None or not records(state.run.consent) or not state.plans:
        return None
    current = state.at(moment.now)
    first = current if state.run.on_since is None else min(state.run.on_since, current)
    is_known = state.was_present(first, current) and state.run.on_since == current
    return None if is_known else (first, current)


def note_presence(state: DeviceState, moment: Moment) -> DeviceState:
    """
    The program runs now. Every call does this, and a recorded value never does.

    So presence depends on when the program ran, never on what it measured; windows are held here and nowhere else.
    """
    span = presence_to_note(state, moment)
    if span is None:
        return state
    first, last = span
    near = {begin: end for begin, end in state.presence.items() if begin <= last + 1 and end >= first - 1}
    apart = {begin: end for begin, end in state.presence.items() if begin not in near}
    spells = {**apart, min([first, *near]): max([last, *near.values()])}
    latest = dict(sorted(spells.items())[-MOST_SPELLS:])
    state = replace(state, presence=latest).with_run(on_since=last)
    plan = moment.settings.plan
    if state.is_paused():
        return state
    if not state.run.answers or plan is None or plan.has_expired(moment.now):
        return _marked_silent(state, first, last)
    return rounds.hold_windows(state, moment) if state.has_sampled else state


def _marked_silent(state: DeviceState, first: int, last: int) -> DeviceState:
    """No values were recorded in these rounds, so they have no answer."""
    pauses = dict(state.pauses)
    joined = [
        key
        for key, pause in pauses.items()
        if pause.reason == SILENT
        and pause.from_round <= first
        and pause.through_round is not None
        and pause.through_round >= first - 1
    ]
    for key in joined:
        pauses[key] = replace(pauses[key], through_round=max(pauses[key].through_round or 0, last))
    if not joined:
        pauses[first, SILENT] = Pause(first, SILENT, last)
    return replace(state, pauses=pauses)


# Values


def recorded(
    state: DeviceState, moment: Moment, changes: TotalChanges, notes: Mapping[str, int]
) -> DeviceState:
    """With values that waited in memory, and what went wrong meanwhile."""
    if state.has_sampled:
        changes = rounds.wanted(state, moment, changes)
    if changes:
        state = totals.write(state, changes)
    for kind, count in notes.items():
        state = state.noting(kind, count)
    return state


# Answers


def reported(
    state: DeviceState, moment: Moment, round_number: int | None
) -> tuple[DeviceState, Report | None]:
    """With the report of a round handed out, made now unless it exists; None where there is none."""
    number = state.at(moment.now) - 1 if round_number is None else round_number
    if state.run.consent != "granted" or not rounds.is_active(state, moment):
        return state, None
    is_absent = state.enrolled_from is None or number < state.enrolled_from
    if number not in state.reports:
        if is_absent and round_number is None:
            return state, None
        if not is_absent and not rounds.is_due(state, moment, number):
            return state, None
    return rounds.answered(state, moment, number, told=True)


def has_due(state: DeviceState, moment: Moment) -> bool:
    """Whether `answered_due` would change anything."""
    last = rounds.last_closed(state, moment)
    return (
        presence_to_note(state, moment) is not None
        or any(kept.closes <= moment.now for kept in state.waiting)
        or any(number <= last for number, _ in state.totals)
        or bool(rounds.due(state, moment))
    )


def answered_due(state: DeviceState, moment: Moment) -> DeviceState:
    """
    With every finished round answered that is still open at the collector, with or without values.

    A device answers each round from the first full one after it was enrolled: whether a program was used
    must not show in whether it answers.
    """
    for number in rounds.due(state, moment):
        state, _ = rounds.answered(state, moment, number, told=False)
    # Too late: reports that no collector takes any more, and values that will not be answered.
    state = outbox.expire(state, moment.now)
    return totals.erase(state, -1, rounds.last_closed(state, moment))


def next_report(
    state: DeviceState, moment: Moment
) -> tuple[Plan, Report, Literal["waiting", "under way"]] | None:
    """The oldest waiting report, or that of the current round as it stands."""
    waiting = next((kept for kept in state.waiting if kept.is_intact(state.plan)), None)
    report = waiting.report(state.plan) if waiting else rounds.next_report(state, moment)
    plan = plans.plan_for(state, moment, report.round) if report else None
    if report is None or plan is None:
        return None
    return plan, report, "waiting" if waiting else "under way"


def next_answer(state: DeviceState, moment: Moment, silenced_by: tuple[str, ...]) -> int | None:
    """When the next answer is given if nothing changes, unix seconds; None: not within three years."""
    plan = newest_plan(state, moment)
    is_silent = silenced_by or state.is_paused() or not state.run.answers or not records(state.run.consent)
    if plan is None or is_silent or plan.has_expired(moment.now):
        return None
    return rounds.next_answer(state, moment)


def newest_plan(state: DeviceState, moment: Moment) -> Plan | None:
    """The plan that the program came with, or the newest that is held."""
    return moment.settings.plan or plans.plan_of(state.newest, None)


# The person's choice


def chosen(state: DeviceState, moment: Moment, choice: Consent) -> DeviceState:
    """With the person's choice, in force."""
    before = state.run.consent
    state = begun(consent.enter(state, choice, moment.now, newest_plan(state, moment)), moment)
    if state.run.consent == before:
        state = _taken_up(state, moment)
    return note_presence(state, moment)


def paused(state: DeviceState, moment: Moment, reason: str = ASKED) -> DeviceState:
    """Paused from the round under way on, unless this pause lasts already; the values of that round go."""
    current = state.at(moment.now)
    if not state.is_paused(reason):
        pause = Pause(current, reason, None)
        state = replace(state, pauses={**state.pauses, (current, reason): pause})
    return totals.erase(state, current, current)


def resumed(state: DeviceState, moment: Moment) -> DeviceState:
    """The person's pause has ended; the first round answered is the next one, unless there is another reason."""
    return note_presence(_without_pause(state, moment, ASKED).with_run(on_since=None), moment)


def _without_pause(state: DeviceState, moment: Moment, reason: str) -> DeviceState:
    pauses = dict(state.pauses)
    for key, pause in state.pauses.items():
        if pause.reason == reason and pause.through_round is None:
            pauses[key] = replace(pause, through_round=max(pause.from_round, state.at(moment.now)))
            if not state.plans:  # before the first one there are no rounds
                del pauses[key]
    return replace(state, pauses=pauses)


def ruled(state: DeviceState, moment: Moment, silenced_by: tuple[str, ...]) -> DeviceState:
    """With the rules entered that silence the device: a round that overlaps one is never answered."""
    state = _with_rules(state, moment, silenced_by).with_run(silenced_by=silenced_by)
    return _taken_up(state, moment)


def _with_rules(state: DeviceState, moment: Moment, silenced_by: tuple[str, ...]) -> DeviceState:
    for rule in state.silenced_by:
        if rule not in silenced_by:  # rounds that began under it, in an earlier run too, stay unanswered
            state = _without_pause(state, moment, rule)
    for rule in silenced_by if state.plans else ():  # before the first plan there is no round to answer
        state = paused(state, moment, rule)
    return state


def forgotten(state: DeviceState, moment: Moment) -> DeviceState:
    """A new secret: no remembered answer survives, and no round that had begun is answered any more."""
    if not state.plans:  # nothing was asked under this one
        return state
    current = state.at(moment.now)
    state = ledger.begin_epoch(state, moment.new_secret, current, "forgotten")
    state = replace(
        state, silent_through=max(state.silent_through, current), totals={}, presence={}
    ).with_run(on_since=None)
    return note_presence(_taken_up(outbox.drop_waiting(state), moment), moment)
