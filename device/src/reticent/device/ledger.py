"""
The ledger: which remembered answers a device holds, which of them it used, and the loss of that.

A loss counts distinct remembered answers per metric, digest and epoch, not reports: the thousandth report
from the same answer adds nothing to the bound. Losses over metrics, digests and
epochs add up.

There is an entry for each metric that the device is asked, from the moment that its plan is held, before anything is
answered: its loss for life, which is a figure of the plan, is what the policy limits. The loss so far depends on the
values. It stays on the device, and no decision that shows outside is based on it.

Sampled answers are counted by windows: one timeline per state file, at most one report in each. A window is held
from the first call in it, or while its report can still be sent. Windows held never overlap, whatever versions of the
plan ask for: each begins when the one before has ended, or later. Holding depends on times, plans and limits, never on
a value: a recorded value holds none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import compress
from math import inf
from typing import TYPE_CHECKING

from reticent.device.policy import YEAR
from reticent.device.prf import SecretDraws
from reticent.device.state import Epoch, HeldAnswers, LossLimits
from reticent.frozen import frozen, replace

if TYPE_CHECKING:
    from reticent.device.state import DeviceState, HeldWindow
    from reticent.plan import Metric, Plan, Window

    Key = tuple[str, bytes, int]


@frozen()
class Entry:
    """The loss of one metric in one epoch under one set of privacy parameters, or that of a lost file."""

    metric: str  #: Empty for a state file that was lost
    digest: bytes
    epoch: int
    classes_seen: int  #: Distinct remembered answers used
    loss: float  #: Bound on the loss so far: `loss_of_classes` of so many
    lifetime: float  #: Bound on the loss however long it goes on
    lost: bool  #: The entry is a lost state file: all it held, over all metrics and epochs, is counted


def entries(state: DeviceState) -> list[Entry]:
    """Everything that was ever answered."""
    ordered = sorted(state.ledger.values(), key=lambda held: (held.epoch, held.metric, held.digest))
    return [
        Entry(
            held.metric,
            held.digest,
            held.epoch,
            len(json.loads(held.classes)),
            held.loss,
            max(held.loss, held.lifetime),
            bool(held.lost),
        )
        for held in ordered
    ]


def hold(state: DeviceState, plan: Plan) -> DeviceState:
    """Enter the remembered answers that a plan may ask for from now on."""
    lifetimes = _lifetimes(_remembered(state, plan), state.epoch)
    new = {key: HeldAnswers(*key, "[]", 0.0, loss, lost=0) for key, loss in lifetimes.items()}
    return replace(state, ledger={**new, **state.ledger})


def holds(state: DeviceState, plan: Plan) -> bool:
    """Whether every metric of a plan that this device remembers answers of is entered, for this epoch."""
    return state.ledger.keys() >= set(_keys(_remembered(state, plan), state.epoch))


def asks_anew(state: DeviceState, plan: Plan) -> bool:
    """Whether a plan asks for remembered answers that no version held has asked for, in no epoch so far."""
    known = {(metric, digest) for metric, digest, _ in state.ledger}
    return not known >= {(metric.name, metric.digest) for metric in _remembered(state, plan)}


def count_lost(state: DeviceState, limits: LossLimits, now: int) -> DeviceState:
    """
    Enter a lost file: its losses are unknown, so the largest limits that were ever in force are counted.

    Where answers were sampled there is no bound: windows of earlier years are not known any more.
    """
    loss = inf if limits.sampled else limits.max_lifetime
    lost = HeldAnswers("", b"", state.epoch - 1, "[]", loss, limits.max_lifetime, lost=1)
    ledger = {**state.ledger, ("", b"", lost.epoch): lost}
    return replace(state, ledger=ledger, lost_year=limits.max_year, lost_at=now, limits=limits)


def raise_limits(state: DeviceState, max_lifetime: float, max_year: float, *, sampled: bool) -> DeviceState:
    """Enter limits that are in force now, where one is larger than ever."""
    before = state.limits
    after = LossLimits(
        max(before.max_lifetime, float(max_lifetime)),
        max(before.max_year, float(max_year)),
        sampled or before.sampled,
    )
    return state if after == before else replace(state, limits=after)


def visit(state: DeviceState, plan: Plan, visited: Mapping[str, int]) -> DeviceState:
    """Enter the remembered answers that a report used."""
    from reticent.losses import loss_of_classes

    ledger = dict(state.ledger)
    for name, memo_class in visited.items():
        metric = plan.by_name[name]
        key = _key(metric, state.epoch)
        before = set(json.loads(ledger[key].classes))
        if memo_class not in before:
            after = sorted(before | {memo_class})
            loss = loss_of_classes(metric.mechanism, len(after))
            ledger[key] = replace(ledger[key], classes=json.dumps(after), loss=loss)
    return replace(state, ledger=ledger)


def lifetime(state: DeviceState, plan: Plan) -> float:
    """
    The loss for life of all remembered answers held, and of a lost file, with those of a plan as if held too.

    A plan that asks for some of its metrics counts as the set that costs most, or as what this device holds of its
    metrics, whichever is more: the set is a matter of the secret, never of values.
    """
    from reticent.losses import compose

    held = {key: entry.lifetime for key, entry in state.ledger.items()}
    of_plan = 0.0
    if not plan.answers.sampled:
        epoch = state.epoch
        known = {key: held.pop(key) for key in _keys(plan.metrics, epoch) if key in held}
        others = _lifetimes([metric for metric in plan.metrics if _key(metric, epoch) not in known], epoch)
        asked = _keys(_remembered(state, plan), epoch)
        mine = known | {key: loss for key, loss in others.items() if key in asked}
        dearest = sorted([*known.values(), *others.values()], reverse=True)[: plan.asked]
        of_plan = max(compose(dearest), compose(list(mine.values())))
    return compose([*held.values(), of_plan])


def _remembered(state: DeviceState, plan: Plan) -> Sequence[Metric]:
    """The metrics of a plan that this device remembers answers of: those that its secret picks."""
    if plan.answers.sampled:
        return ()
    if not plan.is_divided:
        return plan.metrics
    return list(compress(plan.metrics, SecretDraws(state.secret, state.plan, state.epoch).asked(plan)))


def _key(metric: Metric, epoch: int) -> Key:
    return (metric.name, metric.digest, epoch)


def _keys(metrics: Sequence[Metric], epoch: int) -> list[Key]:
    return [_key(metric, epoch) for metric in metrics]


def _lifetimes(metrics: Sequence[Metric], epoch: int) -> dict[Key, float]:
    """The loss for life of each metric."""
    if not metrics:
        return {}  # and nothing is loaded, as each time that a plan is opened whose answers are held
    from reticent.losses import loss_for_life

    return {_key(metric, epoch): loss_for_life(metric.mechanism) for metric in metrics}


def begin_epoch(state: DeviceState, secret: bytes, began_in: int, reason: str) -> DeviceState:
    """With a new secret: no remembered answer survives."""
    epoch = Epoch(state.epoch + 1, began_in, reason)
    return replace(state, secret=secret, epoch=epoch.number, epochs={**state.epochs, epoch.number: epoch})


# Windows


def has_room(
    state: DeviceState, held: Sequence[HeldWindow], start: int, loss: float, most: float | None
) -> bool:
    """
    Whether a window and those that ended in the 365 days before its start, a lost file too, stay within a limit.

    Then the windows that touch any 365 days do, whenever these begin. Theorem `loss_of_a_year` of proofs/.
    """
    from reticent.losses import compose

    if most is None:
        return True
    before = [window.loss for window in held if window.end > start - YEAR]
    if state.lost_at is not None and state.lost_year is not None and state.lost_at > start - YEAR:
        before.append(state.lost_year)
    return compose([*before, loss]) <= most


def answer_in(state: DeviceState, window: Window, round_number: int, loss: float) -> DeviceState:
    """
    Enter the report of a window, of a version that may lose more than the one it was held under.

    Raises `RuntimeError`, which undoes the report, where the window is not held or has one already.
    """
    held = state.windows.get(window.start)
    if held is None or held.round is not None:
        raise RuntimeError("a window has one report")
    answered = replace(held, round=round_number, loss=max(held.loss, loss))
    return replace(state, windows={**state.windows, window.start: answered})
