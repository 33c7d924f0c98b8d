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
import os
from collections.abc import Mapping, Sequence
from itertools import compress
from math import inf
from typing import TYPE_CHECKING

from reticent.device.policy import YEAR
from reticent.device.prf import SECRET_BYTES, SecretDraws, checksum
from reticent.device.schema import device_row
from reticent.frozen import frozen

if TYPE_CHECKING:
    import sqlite3

    from reticent.plan import Metric, Plan, Window


@frozen()
class Entry:
    """The loss of one metric in one epoch under one set of privacy parameters, or that of a lost file."""

    metric: str  #: Empty for a state file that was lost
    digest: bytes
    epoch: int
    classes_seen: int  #: Distinct remembered answers used
    loss: float  #: Bound on the loss so far: `loss_by_width` at that many
    lifetime: float  #: Bound on the loss however long it goes on
    lost: bool  #: The entry is a lost state file: all it held, over all metrics and epochs, is counted


@frozen()
class Epoch:
    """A span of time with one secret."""

    number: int
    began_in: int  #: The round that was under way
    reason: str


def hold(connection: sqlite3.Connection, plan: Plan, epoch: int) -> None:
    """Enter the remembered answers that a plan may ask for from now on."""
    for key, lifetime in _lifetimes(_remembered(connection, plan), epoch).items():
        connection.execute("INSERT OR IGNORE INTO ledger VALUES (?, ?, ?, '[]', 0.0, ?, 0)", (*key, lifetime))
    seal(connection)


def holds(connection: sqlite3.Connection, plan: Plan, epoch: int | None = None) -> bool:
    """Whether every metric of a plan that this device remembers answers of is entered, for an epoch or for any."""
    rows = connection.execute("SELECT metric, digest FROM ledger WHERE epoch = coalesce(?, epoch)", (epoch,))
    return {(name, bytes(digest)) for name, digest in rows} >= {
        (metric.name, metric.digest) for metric in _remembered(connection, plan)
    }


def count_lost(connection: sqlite3.Connection, epoch: int, limits: LossLimits, now: int) -> None:
    """
    Enter a lost file: its losses are unknown, so the largest limits that were ever in force are counted.

    Where answers were sampled there is no bound: windows of earlier years are not known any more.
    """
    loss = inf if limits.sampled else limits.max_lifetime
    connection.execute(
        "INSERT INTO ledger VALUES ('', x'', ?, '[]', ?, ?, 1)", (epoch, loss, limits.max_lifetime)
    )
    connection.execute("UPDATE limits SET lost_year = ?, lost_at = ?", (limits.max_year, now))
    seal(connection)


@frozen()
class LossLimits:
    """The largest limits that were ever in force for a file, and whether its answers were ever sampled."""

    max_lifetime: float
    max_year: float
    sampled: bool


def limits(connection: sqlite3.Connection) -> LossLimits:
    """What a file can have told at most, should it be lost."""
    lifetime, year, sampled = connection.execute(
        "SELECT max_lifetime, max_year, sampled FROM limits"
    ).fetchone()
    return LossLimits(lifetime, year, bool(sampled))


def raise_limits(
    connection: sqlite3.Connection, max_lifetime: float, max_year: float, *, sampled: bool
) -> bool:
    """Enter limits that are in force now; returns whether one is larger than ever."""
    before = limits(connection)
    after = LossLimits(
        max(before.max_lifetime, max_lifetime),
        max(before.max_year, max_year),
        sampled or before.sampled,
    )
    if after != before:
        connection.execute(
            "UPDATE limits SET max_lifetime = ?, max_year = ?, sampled = ?",
            (float(after.max_lifetime), float(after.max_year), after.sampled),
        )
    return after != before


def visit(connection: sqlite3.Connection, plan: Plan, epoch: int, visited: Mapping[str, int]) -> None:
    """Enter the remembered answers that a report used."""
    from reticent.privacy import loss_by_width

    rows = connection.execute("SELECT metric, digest, classes FROM ledger WHERE epoch = ?", (epoch,))
    known = {(metric, bytes(digest)): set(json.loads(classes)) for metric, digest, classes in rows}
    for name, memo_class in visited.items():
        metric = plan.by_name[name]
        before = known[name, metric.digest]
        after = before | {memo_class}
        if after != before:
            loss = loss_by_width(metric.mechanism, len(after))
            connection.execute(
                "UPDATE ledger SET classes = ?, loss = ? WHERE metric = ? AND digest = ? AND epoch = ?",
                (json.dumps(sorted(after)), loss, metric.name, metric.digest, epoch),
            )


def lifetime(connection: sqlite3.Connection, plan: Plan | None = None, epoch: int = 0) -> float:
    """
    The loss for life of all remembered answers held, and of a lost file; with a plan, as if held too.

    A plan that asks for some of its metrics counts as the set that costs most, or as what this device holds of its
    metrics, whichever is more: the set is a matter of the secret, never of values.
    """
    from reticent.privacy import compose

    rows = connection.execute("SELECT metric, digest, epoch, lifetime FROM ledger")
    held = {(metric, bytes(digest), number): loss for metric, digest, number, loss in rows}
    of_plan = 0.0
    if plan is not None and not plan.answers.sampled:
        known = {key: held.pop(key) for key in _keys(plan.metrics, epoch) if key in held}
        others = _lifetimes([metric for metric in plan.metrics if _key(metric, epoch) not in known], epoch)
        asked = _keys(_remembered(connection, plan), epoch)
        mine = known | {key: loss for key, loss in others.items() if key in asked}
        dearest = sorted([*known.values(), *others.values()], reverse=True)[: plan.asked]
        of_plan = max(compose(dearest), compose(list(mine.values())))
    return compose([*held.values(), of_plan])


def _remembered(connection: sqlite3.Connection, plan: Plan) -> Sequence[Metric]:
    """The metrics of a plan that this device remembers answers of: those that its secret picks."""
    if plan.answers.sampled:
        return ()
    if not plan.is_divided:
        return plan.metrics
    me = device_row(connection)
    return list(compress(plan.metrics, SecretDraws(me.secret, me.plan, me.epoch).asked(plan)))


def _key(metric: Metric, epoch: int) -> tuple[str, bytes, int]:
    return (metric.name, metric.digest, epoch)


def _keys(metrics: Sequence[Metric], epoch: int) -> list[tuple[str, bytes, int]]:
    return [_key(metric, epoch) for metric in metrics]


def _lifetimes(metrics: Sequence[Metric], epoch: int) -> dict[tuple[str, bytes, int], float]:
    """The loss for life of each metric."""
    if not metrics:
        return {}  # and nothing is loaded, as each time that a plan is opened whose answers are held
    from reticent.privacy import lifetime_loss

    return {_key(metric, epoch): lifetime_loss(metric.mechanism) for metric in metrics}


def seal(connection: sqlite3.Connection) -> None:
    """Keep the sum in the device's own row, under its checksum: it is what a quarantine reads."""
    me, held = device_row(connection), lifetime(connection)
    connection.execute(
        "UPDATE device SET held = ?, checksum = ?",
        (held, checksum(me.secret, me.plan, me.round_seconds, me.epoch, held)),
    )


def begin_epoch(connection: sqlite3.Connection, current_round: int, reason: str) -> None:
    """Draw a new secret: no remembered answer survives."""
    me, secret = device_row(connection), os.urandom(SECRET_BYTES)
    epoch = me.epoch + 1
    connection.execute(
        "UPDATE device SET secret = ?, epoch = ?, checksum = ?",
        (secret, epoch, checksum(secret, me.plan, me.round_seconds, epoch, me.held)),
    )
    connection.execute("INSERT INTO epochs VALUES (?, ?, ?)", (epoch, current_round, reason))


def entries(connection: sqlite3.Connection) -> list[Entry]:
    """Everything that was ever answered."""
    rows = connection.execute(
        "SELECT metric, digest, epoch, classes, loss, lifetime, lost FROM ledger"
        " ORDER BY epoch, metric, digest"
    )
    return [
        Entry(metric, bytes(digest), epoch, len(json.loads(classes)), loss, max(loss, lifetime), bool(lost))
        for metric, digest, epoch, classes, loss, lifetime, lost in rows
    ]


def epochs(connection: sqlite3.Connection) -> list[Epoch]:
    """Every epoch this file knows of."""
    return [Epoch(*row) for row in connection.execute("SELECT * FROM epochs ORDER BY epoch")]


# Windows


@frozen()
class HeldWindow:
    """A window that a device may answer, or has answered."""

    start: int  #: Unix seconds
    end: int  #: Unix seconds; the next one begins then or later
    loss: float  #: Bound on the loss of its report
    round: int | None  #: The round that was answered; None: none was


def windows(connection: sqlite3.Connection) -> list[HeldWindow]:
    """Every window that was ever held, the oldest first."""
    rows = connection.execute("SELECT start, ends, loss, round FROM windows ORDER BY start")
    return [HeldWindow(*row) for row in rows]


def free_from(held: Sequence[HeldWindow]) -> int:
    """When the latest window held ends, unix seconds: none that begins earlier is held any more."""
    return held[-1].end if held else 0


def has_room(
    connection: sqlite3.Connection, held: Sequence[HeldWindow], start: int, loss: float, most: float | None
) -> bool:
    """
    Whether a window and those that ended in the 365 days before its start, a lost file too, stay within a limit.

    Then the windows that touch any 365 days do, whenever these begin. Theorem `loss_of_a_year` of proofs/.
    """
    from reticent.privacy import compose

    if most is None:
        return True
    before = [window.loss for window in held if window.end > start - YEAR]
    [(year, at)] = connection.execute("SELECT lost_year, lost_at FROM limits")
    if at is not None and at > start - YEAR:
        before.append(year)
    return compose([*before, loss]) <= most


def answer_in(connection: sqlite3.Connection, window: Window, round_number: int, loss: float) -> None:
    """
    Enter the report of a window, of a version that may lose more than the one it was held under.

    Raises `RuntimeError`, which undoes the report, where the window is not held or has one already.
    """
    entered = connection.execute(
        "UPDATE windows SET round = ?, loss = max(loss, ?) WHERE start = ? AND round IS NULL",
        (round_number, loss, window.start),
    )
    if entered.rowcount != 1:
        raise RuntimeError("a window has one report")
