"""
Which plan a round is answered under, and whether a plan is taken up.

A round is answered under the version held when it began. A plan is taken up from the next round on, unless the
policy or an earlier version forbids it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from reticent.device import consent, ledger
from reticent.device.state import HeldPlan
from reticent.errors import ReticentError
from reticent.frozen import replace
from reticent.times import first_round_from

if TYPE_CHECKING:
    from reticent.device.engine import Moment
    from reticent.device.state import DeviceState
    from reticent.plan import Plan


@lru_cache(maxsize=8)
def parse_stored(text: str) -> Plan | None:
    """The plan in a stored text; None when it is empty or no longer readable."""
    from reticent.plan import Plan

    try:
        return Plan.from_toml(text) if text else None
    except ReticentError:
        return None


def plan_of(held: HeldPlan | None, given: Plan | None) -> Plan | None:
    """A version held, of which the program may have come with the plan; None where it is no longer available."""
    if held is None:
        return None
    is_given = given is not None and (held.version, held.fingerprint) == (given.version, given.fingerprint)
    if given is not None and is_given and (held.text == given.text or not (held.text and given.text)):
        return given
    return parse_stored(
        held.text
    )  # also where another plan with this fingerprint has another grace or expiry


def plan_for(state: DeviceState, moment: Moment, number: int) -> Plan | None:
    """The plan that a round is answered under; None where it is no longer available."""
    return plan_of(state.held_in(number), moment.settings.plan)


def consider(state: DeviceState, moment: Moment, plan: Plan) -> tuple[DeviceState, bool]:
    """
    Hold the plan from the next round on. A refused one changes nothing: the version held goes on.

    Returns also whether the person has to be asked again, since it asks for more than they agreed to.
    """
    newest = state.newest
    asks_more = False
    problems: list[str] = []
    if newest is None or plan.version > newest.version:
        state, problems, asks_more = _take_over(state, moment, plan)
    elif plan.version < newest.version:
        problems = [f"version {plan.version} is older than version {newest.version}, which this device holds"]
    elif plan.fingerprint != newest.fingerprint:
        problems = [
            f"version {plan.version} asks something else than the version {plan.version} that this device "
            "holds; a changed plan needs a higher version"
        ]
    elif plan.text and plan.text != newest.text:  # what the fingerprint leaves out may have changed
        newer = replace(newest, text=plan.text)
        state = replace(state, plans={**state.plans, plan.version: newer})
    beyond: list[str] = []
    if state.newest is not None:
        state, beyond, lapses = _go_on(state, moment, state.newest)
        asks_more = asks_more or lapses
    refused = tuple(dict.fromkeys([*problems, *beyond]))
    return state.with_run(refused=refused, answers=state.newest is not None and not beyond), asks_more


def _go_on(state: DeviceState, moment: Moment, newest: HeldPlan) -> tuple[DeviceState, list[str], bool]:
    """Answer the version held in this epoch; or why not: a limit may be lower now."""
    plan = plan_for(state, moment, newest.from_round)
    if plan is None:
        return state, [f"version {newest.version}, which this device holds, cannot be read any more"], False
    total = ledger.lifetime(state, plan)
    problems = moment.settings.policy.problems(plan, newest.round_loss, total)
    if problems or ledger.holds(state, plan):  # not so after `forget`
        return state, problems, False
    if _asks_more(state, moment, plan):
        return state, [], True
    return ledger.hold(state, plan), [], False


def _asks_more(state: DeviceState, moment: Moment, plan: Plan) -> bool:
    """Whether a plan asks for more than the person agreed to."""
    return moment.settings.ask_again and not consent.covers(state.consent, plan, state.epoch)


def _take_over(state: DeviceState, moment: Moment, plan: Plan) -> tuple[DeviceState, list[str], bool]:
    """Hold a version that was not held before; or why not."""
    from reticent.losses import loss_of_report

    first = state.at(moment.now) + 1
    round_loss = loss_of_report(plan)
    newest = state.newest
    if newest is not None and (newest.window or plan.answers.window):
        # Another way of answering waits for the end of the window: windows never overlap.
        first = max(first, newest.from_round)
        if newest.window != plan.answers.window:
            first = max(first, first_round_from(state.free_from, state.round_seconds))
    asks_new = ledger.asks_anew(state, plan)
    since = first - state.changed_in if asks_new and state.changed_in is not None else None
    total = ledger.lifetime(state, plan)
    problems = moment.settings.policy.problems(plan, round_loss, total, since)
    if problems:
        return state, problems, False
    if _asks_more(state, moment, plan):
        return state, [], True
    # In one step: nothing is ever answered that the ledger does not count.
    layout = json.dumps(
        [[metric.name, metric.bits, metric.digest.hex()] for metric in plan.metrics], separators=(",", ":")
    )
    held = HeldPlan(plan.version, plan.fingerprint, first, plan.answers.window, round_loss, layout, plan.text)
    state = replace(
        state,
        plans={**state.plans, plan.version: held},
        enrolled_from=first if state.enrolled_from is None else state.enrolled_from,
        changed_in=first if asks_new else state.changed_in,
    )
    if plan.answers.sampled:
        state = ledger.raise_limits(state, 0.0, 0.0, sampled=True)
    return ledger.hold(state, plan), [], False


def timeline(state: DeviceState, plan: Plan | None) -> list[tuple[int, Plan]]:
    """The first round of each of the latest versions held, and its plan, the newest first."""
    held = list(state.plans.values())[:-5:-1]
    return [(one.from_round, found) for one in held if (found := plan_of(one, plan)) is not None]
