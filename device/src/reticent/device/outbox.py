"""
The reports of a device: waiting, being sent, or kept as receipts.

Each is claimed in the file before a byte leaves, and what came of it is entered after.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reticent.device.state import KeptReport, Past, checksum_of
from reticent.device.transport import Accepted, Rejected, Retry
from reticent.frozen import replace

if TYPE_CHECKING:
    from reticent.device.state import DeviceState
    from reticent.device.transport import Outcome
    from reticent.reports import Report

LONGEST_SEND = 10.0  # how long one attempt to send a report may take, s; who takes consent back waits for it
MOST_RECEIPTS = 512  # this many reports are kept one by one
FIRST_BACK_OFF = 15.0
LONGEST_BACK_OFF = 3600.0
LONGEST_DELAY = 1e9  # the most a collector can ask for, s: a report is given up long before


def put(
    state: DeviceState, report: Report, send_at: float, closes: int, *, told: bool, as_: str
) -> DeviceState:
    """Keep a new report: to be sent at a time, or as "local", to be shown and never sent."""
    kept = KeptReport(
        report.round,
        report.version,
        state.epoch,
        report.id,
        report.cohort,
        report.asked,
        report.bits,
        json.dumps(dict(report.segment)),
        checksum_of(report),
        as_,
        "",
        int(told),
        0,
        send_at,
        closes,
    )
    return replace(state, reports=dict(sorted({**state.reports, report.round: kept}.items())))


def changed(state: DeviceState, number: int, /, **changes: object) -> DeviceState:
    """With a report changed."""
    return replace(state, reports={**state.reports, number: replace(state.reports[number], **changes)})


def drop_waiting(state: DeviceState) -> DeviceState:
    """Without waiting reports. What may have left the device already stays, as a receipt."""
    return replace(
        state,
        reports={
            number: replace(kept, state="expired") if kept.state == "waiting" else kept
            for number, kept in state.reports.items()
            if kept.told or kept.state != "waiting"
        },
    )


def expire(state: DeviceState, now: float) -> DeviceState:
    """Give up reports that no collector takes any more."""
    for kept in state.waiting:
        if kept.closes <= now:
            state = changed(state, kept.round, state="expired")
    return state


def sum_up(state: DeviceState, before: int) -> DeviceState:
    """
    Keep the latest receipts one by one, and of earlier ones, of rounds before `before`, only their number.

    A state file opens in the same time after years. Losses are in the ledger, from which nothing is removed.
    Rounds that are summed up are never answered again.
    """
    if len(state.reports) < MOST_RECEIPTS + 64:  # not at every report
        return state
    numbers = sorted(state.reports)
    cut = min(numbers[-max(MOST_RECEIPTS, 1)], before)
    old = [kept for kept in state.reports.values() if kept.round < cut and kept.state != "waiting"]
    past = dict(state.past)
    for kept in old:
        key = (kept.version, kept.epoch, kept.state)
        known = past.get(key) or Past(*key, 0, 0, kept.round, kept.round)
        past[key] = replace(
            known,
            reports=known.reports + 1,
            told=known.told + kept.told,
            first_round=min(known.first_round, kept.round),
            last_round=max(known.last_round, kept.round),
        )
    gone = {kept.round for kept in old}
    return replace(
        state,
        past=past,
        reports={number: kept for number, kept in state.reports.items() if number not in gone},
        silent_through=max(state.silent_through, cut - 1),
        pauses={
            key: pause
            for key, pause in state.pauses.items()
            if pause.through_round is None or pause.through_round >= cut
        },
    )


def count_by_state(state: DeviceState) -> dict[str, int]:
    """How many reports are in each state, those that are summed up included."""
    counts: dict[str, int] = {}
    for past in state.past.values():
        counts[past.state] = counts.get(past.state, 0) + past.reports
    for kept in state.reports.values():
        counts[kept.state] = counts.get(kept.state, 0) + 1
    return counts


# Sending


def next_time(state: DeviceState) -> float | None:
    """When the next report is to be sent, unix seconds; None: none waits, or a pause lasts."""
    return None if state.is_paused() else min((kept.next_try for kept in state.waiting), default=None)


def due(state: DeviceState, now: float, *, early: bool) -> list[KeptReport]:
    """What to send now, in the order of rounds; `early`: also what was never tried and waits for its time."""
    if not state.may_send:
        return []
    return [
        kept
        for kept in state.waiting
        if kept.closes > now and (kept.next_try <= now or (early and not kept.attempts))
    ]


def claim(state: DeviceState, sent: KeptReport, now: float) -> DeviceState | None:
    """With a report entered as being sent; None where it may not be, or another process was first."""
    kept = state.reports.get(sent.round)
    is_same = kept is not None and (kept.id, kept.state, kept.attempts) == (sent.id, "waiting", sent.attempts)
    if not is_same or not state.may_send:
        return None
    return changed(state, sent.round, told=1, attempts=sent.attempts + 1, next_try=now + 2 * LONGEST_SEND)


def settle(state: DeviceState, sent: KeptReport, outcome: Outcome, now: float, wait: float) -> DeviceState:
    """With what came of sending a report; `wait`: seconds to the next attempt."""
    kept = state.reports.get(sent.round)
    is_same = kept is not None and kept.id == sent.id
    if isinstance(outcome, Retry):
        result = outcome.fault or "retry"
        if is_same and kept is not None and kept.state == "waiting":
            state = changed(state, sent.round, next_try=now + wait)
    else:
        result = "accepted" if isinstance(outcome, Accepted) else "rejected"
        code = outcome.code if isinstance(outcome, Rejected) else ""
        # What another attempt has brought there stays accepted.
        if is_same and kept is not None and kept.state != "accepted":
            state = changed(state, sent.round, state=result, code=code)
    count, _ = state.attempts.get(result, (0, 0.0))
    return replace(state, attempts={**state.attempts, result: (count + 1, now)})


def back_off(attempts: int, round_seconds: int, after: float | None, jitter: float) -> float:
    """
    Seconds to the next attempt: uniform in [0, ceiling], where the ceiling doubles ("full jitter").

    It starts at 15 s (a sixteenth of a round, if that is shorter) and ends at an hour; never sooner than the
    collector asked for. `jitter`, from 0 to 1, is the operating system's, not the device's secret: it may be redrawn.
    """
    if not isinstance(after, int | float) or not after >= 0:  # a transport of the host's own may say anything
        after = None
    ceiling = min(min(FIRST_BACK_OFF, round_seconds / 16) * (1 << min(attempts, 20)), LONGEST_BACK_OFF)
    return ceiling * jitter + (0.0 if after is None else min(after, LONGEST_DELAY))
