"""
Which finished rounds are answered, with which draws; and which windows of sampled answers are held.

Only bits depend on a value: which rounds are answered, and when, never does.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from reticent.device import ledger, outbox, totals
from reticent.device.plans import plan_for, plan_of
from reticent.device.policy import YEAR
from reticent.device.prf import SecretDraws
from reticent.device.state import HeldWindow
from reticent.frozen import replace
from reticent.times import start_of

if TYPE_CHECKING:
    from reticent.device.engine import Moment
    from reticent.device.state import DeviceState
    from reticent.plan import Window
    from reticent.reports import Report


def due(state: DeviceState, moment: Moment) -> list[int]:
    """The finished rounds to answer now: all that the collector still takes, whole spells only."""
    if state.enrolled_from is None or not is_active(state, moment):
        return []
    first = max(state.enrolled_from, state.silent_through + 1, _first_open(state, moment))
    return [
        number
        for number in range(first, state.at(moment.now))
        if number not in state.reports
        and is_due(state, moment, number)
        and _draws_for(state, moment, number) is not None
    ]


def is_active(state: DeviceState, moment: Moment) -> bool:
    """Whether values are recorded and rounds answered; not where the program's own plan has expired."""
    plan = moment.settings.plan
    has_expired = plan is not None and plan.has_expired(moment.now)
    return state.records and state.run.answers and not state.is_paused() and not has_expired


def is_due(state: DeviceState, moment: Moment, number: int) -> bool:
    """
    Whether a round can still be answered, and the last round up to it in which the program ran.

    That round and the gap after it are a spell: it is answered whole or not at all. So a program that is used now
    and then is never reported as unused. Theorem `spells_know_times_only` of proofs/.
    """
    last = state.last_presence(number)
    return last is not None and all(_is_answerable(state, moment, each) for each in {number, last})


def _is_answerable(state: DeviceState, moment: Moment, number: int) -> bool:
    plan = plan_for(state, moment, number)
    return (
        plan is not None
        and state.enrolled_from is not None
        and number >= state.enrolled_from
        and number > state.silent_through
        and not state.is_paused_in(number, number)
        and plan.round(number).closes > moment.now
    )


def _first_open(state: DeviceState, moment: Moment) -> int:
    """The first round that collectors still take, under any version held."""
    held = [plan_of(held, moment.settings.plan) for held in state.plans.values()]
    grace = max((plan.grace_seconds for plan in held if plan), default=0)
    return state.at(moment.now - grace)


def last_closed(state: DeviceState, moment: Moment) -> int:
    """The latest round for which no collector takes reports any more."""
    plan = plan_for(state, moment, state.at(moment.now))
    grace = plan.grace_seconds if plan else 0
    return state.at(moment.now - grace) - 1


def next_report(state: DeviceState, moment: Moment) -> Report | None:
    """The answer to the next unanswered round as it stands, not kept; None: none is picked, or no plan held."""
    from reticent.device.answers import answer

    number = max(state.at(moment.now), state.silent_through + 1, state.enrolled_from or 0)
    plan = plan_for(state, moment, number)
    if plan is None:
        return None
    window = plan.window_of(number)
    draws = _draws(state, window)
    picked = draws.picked_round(window) if window else number
    if picked < number:
        return None
    return answer(draws, plan, picked, totals.read(state, picked), moment.settings.segment).report


def answered(
    state: DeviceState, moment: Moment, number: int, *, told: bool
) -> tuple[DeviceState, Report | None]:
    """With the report of a round, made now unless it exists; None where there is none."""
    kept = state.reports.get(number)
    if kept is None:
        return _made(state, moment, number, told=told)
    if not kept.is_intact(state.plan):
        return state.noting("report-damaged"), None
    if kept.state == "local":
        return state, None
    # Its bytes are about to be handed out.
    return outbox.changed(state, number, told=1) if told else state, kept.report(state.plan)


def _made(
    state: DeviceState, moment: Moment, number: int, *, told: bool
) -> tuple[DeviceState, Report | None]:
    """With a new report: that, the end of its values and its loss are one step."""
    if number <= state.silent_through or state.is_paused_in(number, number):
        return state, None
    plan = plan_for(state, moment, number)
    if plan is None:
        return state.noting("plan-unreadable"), None
    draws = _draws_for(state, moment, number)
    if draws is None:
        return state, None
    from reticent.device.answers import answer

    report, visited = answer(draws, plan, number, totals.read(state, number), moment.settings.segment)
    span = plan.round(number)
    window = plan.window_of(number)
    spread = min(plan.round_seconds, plan.grace_seconds) * 3 // 4
    send_at = span.end + draws.delay(number) * spread / 2**64
    is_local = state.consent.in_force != "granted"
    held = state.held_in(number)
    as_ = "local" if is_local else "waiting"
    state = outbox.put(state, report, send_at, span.closes, told=told, as_=as_)
    state = totals.erase(state, number, number)
    # Not beyond the start of a window that may still be answered.
    starts = [one.start for one in state.windows.values() if one.end > span.start]
    state = outbox.sum_up(state, before=state.at(min(starts, default=1 << 62)))
    if window is not None:
        loss = 0.0 if is_local else held.round_loss if held else inf
        state = ledger.answer_in(state, window, number, loss)
    elif not is_local:
        state = ledger.visit(state, plan, visited)
    return state, report


def _draws(state: DeviceState, window: Window | None) -> SecretDraws:
    return SecretDraws(state.secret, state.plan, state.epoch, window.start if window else None)


def _draws_for(state: DeviceState, moment: Moment, number: int) -> SecretDraws | None:
    """What a round is answered with; None where it is not answered. Independent of values."""
    plan = plan_for(state, moment, number)
    if plan is None or plan.has_expired(moment.now):
        return None
    if not plan.answers.sampled:
        # Nothing is answered that is not counted: the policy may not allow one more epoch.
        return _draws(state, None) if ledger.holds(state, plan) else None
    if number >= state.at(moment.now):
        return None  # it is not over
    window = plan.window_of(number)
    is_picked = window is not None and _picked(state, state.windows, window) == number
    return _draws(state, window) if is_picked else None


def _picked(state: DeviceState, held: Mapping[int, HeldWindow], window: Window) -> int | None:
    """The round of a window that is answered in it; None: none is, or one was."""
    mine = held.get(window.start)
    if mine is None or mine.round is not None or window.first <= state.silent_through:
        return None
    picked = _draws(state, window).picked_round(window)
    return None if state.is_paused_in(window.first, picked, by_rule=True) else picked


def hold_windows(state: DeviceState, moment: Moment) -> DeviceState:
    """
    Hold each window, in order, that has begun since the last one held and can still be answered.

    It must have begun after the device was enrolled, after `forget` and after DO_NOT_TRACK, all of it under
    one length of window; and the limit of a year must have room for what it may lose.
    """
    if state.enrolled_from is None:
        return state
    earliest = max(state.enrolled_from, state.silent_through + 1)
    current = state.at(moment.now)
    number = max(earliest, _first_open(state, moment))
    is_local = state.consent.in_force == "local"  # then nothing of it is ever sent
    while number <= current:
        plan = plan_for(state, moment, number)
        window = plan.window_of(number) if plan else None
        if plan is None or window is None or plan.round(number).closes <= moment.now:
            number += 1
            continue
        is_free = not state.is_paused_in(window.first, current, by_rule=True)
        if window.first >= earliest and is_free:
            new = _next_window(state, moment, state.windows, window.first)
            if new is not None:
                held = replace(new, loss=0.0) if is_local else new
                state = replace(state, windows={**state.windows, held.start: held})
        number = _after(state, number, window)
    return state


def _after(state: DeviceState, number: int, window: Window) -> int:
    """Where the next window can begin: after this one, or where another version is answered, with other windows."""
    later = [held.from_round for held in state.plans.values() if held.from_round > number]
    return min([window.first + window.rounds, *later])


def _next_window(
    state: DeviceState, moment: Moment, held: Mapping[int, HeldWindow], first: int
) -> HeldWindow | None:
    """The window that begins with a round, if it can be held after those that are held."""
    version = state.held_in(first)
    plan = plan_for(state, moment, first)
    window = plan.window_of(first) if plan else None
    if version is None or window is None or window.first != first or version.from_round > first:
        return None
    # All of it under one length of window, and after the one before.
    if held and window.start < held[max(held)].end:
        return None
    most = moment.settings.policy.max_year
    if not ledger.has_room(state, list(held.values()), window.start, version.round_loss, most):
        return None
    end = window.start + window.rounds * state.round_seconds
    return HeldWindow(window.start, end, version.round_loss, None)


def next_answer(state: DeviceState, moment: Moment) -> int | None:
    """When the next answer is given if nothing changes, unix seconds; None: not within three years."""
    if state.enrolled_from is None:
        return None
    current = state.at(moment.now)
    number = max(state.enrolled_from, current)
    held = dict(state.windows)
    while number < current + 3 * YEAR // state.round_seconds:
        plan = plan_for(state, moment, number)
        end = start_of(number + 1, state.round_seconds)
        if plan is None or plan.has_expired(end):
            return None
        window = plan.window_of(number)
        if window is None:
            is_free = number > state.silent_through and not state.is_paused_in(number, number)
            if is_free and number not in state.reports and ledger.holds(state, plan):
                return end
            number += 1
            continue
        if number == window.first and window.first > state.silent_through:
            new = _next_window(state, moment, held, number)
            if new is not None:
                held[new.start] = new
        picked = _picked(state, held, window)
        if picked is not None and picked >= number and not state.is_paused_in(picked, picked):
            end = start_of(picked + 1, state.round_seconds)
            plan = plan_for(state, moment, picked)
            if plan is not None and plan.window_of(picked) == window and not plan.has_expired(end):
                return end
        number = _after(state, number, window)
    return None


def wanted(state: DeviceState, moment: Moment, changes: totals.TotalChanges) -> totals.TotalChanges:
    """
    Without the values of rounds that are not picked: they stay out of the file.

    Whether their window is held does not count yet: a value must not depend on when a call was made.
    """
    return {place: change for place, change in changes.items() if _wants(state, moment, place[0])}


def _wants(state: DeviceState, moment: Moment, number: int) -> bool:
    plan = plan_for(state, moment, number)
    window = plan.window_of(number) if plan else None
    if window is None:
        return plan is None or not plan.answers.sampled
    enrolled = inf if state.enrolled_from is None else state.enrolled_from
    return (
        window.first > state.silent_through
        and window.first >= enrolled
        and _draws(state, window).picked_round(window) == number
    )
