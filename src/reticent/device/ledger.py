"""
The ledger: which remembered answers were used, and what that may have told.

A loss counts distinct remembered answers per metric, digest and epoch, not reports: the thousandth report
from the same answer tells nothing that the bound does not hold already. Losses over metrics, digests and
epochs add up. Everything here stays on the device; no decision that shows outside is taken from it, because
how many answers were used is itself a matter of the values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import sqlite3

    from reticent.plan import Metric, Plan


@dataclass(frozen=True, slots=True)
class Entry:
    """What one metric has told in one epoch, under one set of privacy parameters."""

    metric: str
    digest: bytes
    epoch: int
    classes_seen: int
    """Distinct remembered answers used."""
    loss: float
    """Bound on the loss so far: `loss_by_width` at that many."""
    lifetime: float
    """Bound on the loss however long it goes on."""
    lost: bool
    """Its file was lost, so that all of `lifetime` is counted."""


class Epoch(NamedTuple):
    """A span of time with one secret."""

    number: int
    began_in: int
    """The round that was under way."""
    reason: str


def visit(connection: sqlite3.Connection, plan: Plan, epoch: int, visited: Mapping[str, int]) -> None:
    """Enter the remembered answers that a report used."""
    from reticent.privacy import loss_by_width

    rows = connection.execute("SELECT metric, digest, classes FROM ledger WHERE epoch = ?", (epoch,))
    known = {(metric, bytes(digest)): set(json.loads(classes)) for metric, digest, classes in rows}
    for metric in plan.metrics:
        before = known.get((metric.name, metric.digest), set())
        after = before | {visited[metric.name]}
        if after != before:
            loss = loss_by_width(metric.mechanism, len(after))
            _enter(connection, metric, epoch, sorted(after), loss, lost=False)


def count_lost(connection: sqlite3.Connection, plan: Plan, epochs: Iterable[int]) -> None:
    """Enter epochs whose file is gone: what they told is unknown, so all they could tell is counted."""
    for epoch in epochs:
        for metric in plan.metrics:
            _enter(connection, metric, epoch, [], lifetime_loss(metric), lost=True)


def entries(connection: sqlite3.Connection) -> list[Entry]:
    """Everything that was ever answered."""
    rows = connection.execute(
        "SELECT metric, digest, epoch, classes, loss, lifetime, lost FROM ledger"
        " ORDER BY epoch, metric, digest"
    )
    return [
        Entry(metric, bytes(digest), epoch, len(json.loads(classes)), loss, lifetime, bool(lost))
        for metric, digest, epoch, classes, loss, lifetime, lost in rows
    ]


def epochs(connection: sqlite3.Connection) -> list[Epoch]:
    """Every epoch this file knows of."""
    return [Epoch(*row) for row in connection.execute("SELECT * FROM epochs ORDER BY epoch")]


def lifetime_loss(metric: Metric) -> float:
    """What a metric can tell in one epoch at most."""
    from reticent.privacy import losses

    return losses(metric.mechanism, metric.flip).lifetime


def _enter(
    connection: sqlite3.Connection, metric: Metric, epoch: int, classes: list[int], loss: float, *, lost: bool
) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO ledger (metric, digest, epoch, classes, loss, lifetime, lost)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (metric.name, metric.digest, epoch, json.dumps(classes), loss, lifetime_loss(metric), lost),
    )
