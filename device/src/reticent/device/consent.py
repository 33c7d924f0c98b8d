"""
Whether a device may record and report: the person's choice, or the program's default until then.

    unset, denied   nothing is recorded, answered or sent, and unsent data is wiped
    local           rounds are answered and shown, and those answers are never sent
    granted         rounds that begin and end under it are answered and sent

The choice is kept in the state file and wins over the program's default. A choice of granted or local holds for
the questions it was made for: it lapses to unset when a plan asks for more. No decision here depends on a
value.
"""

from __future__ import annotations

import json
from math import inf
from operator import le
from typing import TYPE_CHECKING, Any

from reticent.device import ledger, outbox
from reticent.device.state import Consent, StoredConsent, records
from reticent.frozen import replace

if TYPE_CHECKING:
    from reticent.device.state import DeviceState
    from reticent.plan import Plan


def enter(state: DeviceState, choice: Consent, now: float, plan: Plan | None) -> DeviceState:
    """Keep a choice, with the questions that granted or local applies to."""
    questions = ""
    if records(choice) and plan is not None:
        questions = json.dumps(questions_of(plan, state.epoch))
    chosen = StoredConsent(choice, int(now), questions, state.consent.in_force)
    return replace(state, consent=chosen)


def choice_of(state: DeviceState, default: Consent | None) -> Consent:
    """What holds: the person's choice, the program's default, or what held last."""
    return state.consent.choice or default or state.consent.in_force or "unset"


def bring_into_force(state: DeviceState, consent: Consent, now: float, new_secret: bytes) -> DeviceState:
    """
    Make this consent hold from now on, unless it does already.

    A round that has begun is not answered any more, except from granted to local: it is not wholly under one consent.
    """
    before = state.consent.in_force
    if before == consent:
        return state
    state = replace(state, consent=replace(state.consent, in_force=consent))
    if consent == "local" and before == "granted":
        # Waiting reports are never sent, and still shown. What may have left the device already is given up.
        reports = {
            number: replace(kept, state="expired" if kept.told else "local")
            if kept.state == "waiting"
            else kept
            for number, kept in state.reports.items()
        }
        return replace(state, reports=reports)
    if before is None:  # a new file has nothing yet
        return state
    state = replace(state, totals={}, silent_through=max(state.silent_through, state.at(now)))
    return state if records(consent) else _wiped(state, new_secret, state.at(now))


def _wiped(state: DeviceState, new_secret: bytes, current: int) -> DeviceState:
    """
    Without everything but the choice and what was sent.

    What has left the device stays on the receipt and in the ledger. Its secret stays too: without it the same
    questions would be answered from new draws, which tells more. Where nothing has left, nothing stays.
    """
    unsent = {number for number, kept in state.reports.items() if not kept.told}
    state = outbox.drop_waiting(state)
    reports = {number: kept for number, kept in state.reports.items() if kept.told}
    windows = {
        start: window for start, window in state.windows.items() if window.round not in (None, *unsent)
    }
    past = {key: row for key, row in state.past.items() if row.told}
    # Those that have ended are covered by `silent_through`.
    pauses = {key: pause for key, pause in state.pauses.items() if pause.through_round is None}
    state = replace(
        state, reports=reports, windows=windows, past=past, pauses=pauses, notes={}, presence={}, attempts={}
    )
    if reports or past or any(held.lost for held in state.ledger.values()):
        return state
    # With another secret: a later yes begins as on a new file.
    nothing: dict[str, Any] = {
        "ledger": {},
        "plans": {},
        "epochs": {},
        "enrolled_from": None,
        "changed_in": None,
    }
    bare = replace(state, **nothing, epoch=-1, silent_through=-1)
    return ledger.begin_epoch(bare, new_secret, current, "enrolled")


# The questions that a choice is made for


def questions_of(plan: Plan, epoch: int) -> dict[str, Any]:
    """What a plan asks in an epoch and what that costs: per metric, for the plan, and how it is answered."""
    from reticent.losses import loss_for_life, loss_of_report, loss_of_round

    return {
        "fingerprint": plan.fingerprint.hex(),
        "epoch": epoch,
        "window": plan.answers.window * plan.round_seconds,
        "divided": plan.is_divided,
        "report": loss_of_report(plan),
        "metrics": {
            metric.name: [metric.digest.hex(), loss_of_round(metric), loss_for_life(metric.mechanism)]
            for metric in plan.metrics
        },
    }


def covers(chosen: StoredConsent, plan: Plan, epoch: int) -> bool:
    """
    Whether a choice holds for a plan as well: it asks nothing more, and nothing that costs more.

    More is: a metric that is new or has other privacy parameters, whose remembered answers are new; a higher
    loss, of a metric or of a report; sampled instead of remembered answers or the reverse, or shorter windows; a new
    epoch; where a device was asked some of the metrics for life, one metric less, since it may be asked another one
    instead. Without a choice, the program's default holds for every plan.
    """
    if chosen.choice is None or not records(chosen.choice):
        return True
    agreed = _agreed_to(chosen)
    if agreed.get("epoch") != epoch:
        return False
    if agreed["fingerprint"] == plan.fingerprint.hex():
        return True
    asked = questions_of(plan, epoch)
    known: dict[str, list[Any]] = agreed["metrics"]
    metrics: dict[str, list[Any]] = asked["metrics"]
    return (
        bool(asked["window"]) == bool(agreed["window"])
        and asked["window"] >= agreed["window"]
        and asked["report"] <= agreed["report"]
        and (not agreed.get("divided") or metrics.keys() == known.keys())
        and all(name in known and _costs_no_more(figures, known[name]) for name, figures in metrics.items())
    )


def _costs_no_more(asked: list[Any], agreed: list[Any]) -> bool:
    digest, *figures = asked
    return bool(digest == agreed[0]) and all(map(le, figures, agreed[1:]))


def _agreed_to(chosen: StoredConsent) -> dict[str, Any]:
    """
    The questions of a choice, also as they were first written: with five exact figures each, and without the window.

    Those may be less than the bounds of today, and a window is taken as long: then people are asked again.
    """
    agreed: dict[str, Any] = json.loads(chosen.questions or "{}")
    if "plan" in agreed:
        agreed["window"] = inf if agreed["answers"] == "sampled" else 0
        agreed["report"] = agreed["plan"][0]
        agreed["metrics"] = {
            name: [digest, of_round, for_life]
            for name, (digest, of_round, _, for_life, *_) in agreed["metrics"].items()
        }
    return agreed
