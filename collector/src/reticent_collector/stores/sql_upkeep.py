"""Problems of the tables of a store, and repairs of a damaged round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from reticent.errors import ParameterError, PlanError
from reticent.plan import Plan
from reticent_collector.stores.backend import DeletedMetric, Repair
from reticent_collector.stores.records import Count, CountsByTags, Layout, counts_of_rows, misfits
from reticent_collector.stores.transactions import Transaction


def problems_of(transaction: Transaction, tables: set[int], repaired: set[int]) -> Iterator[str]:
    """
    The problems, a sentence each.

    `tables` are the numbers of the existing tables of records, `repaired` those of rounds that lost some.
    """
    plans: dict[tuple[str, int], Plan] = {}
    for name, version, text in transaction.execute("SELECT name, version, text FROM plans"):
        try:
            plan = plans[name, version] = Plan.from_toml(text)
        except PlanError as error:
            yield f"plan {name} version {version} cannot be read: {str(error).splitlines()[0]}"
            continue
        if (plan.name, plan.version) != (name, version):
            yield f"plan {name} version {version} holds the text of {plan.name} {plan.version}"
    rows = transaction.execute("SELECT id, plan, version, round, state, reports FROM rounds ORDER BY id")
    for number in sorted(tables - {number for number, *_ in rows}):
        yield f"records_{number} belongs to no round"
    for number, name, version, place, state, reports in rows:
        where = f"round {place} of {name} version {version}: "
        known = plans.get((name, version))
        if known is None:
            yield f"{where}its plan is not registered"
            continue
        for problem in _problems_of_round(
            transaction, Layout(known), number, state, reports, number in tables
        ):
            yield where + problem
        if state in ("open", "closing") and number in tables - repaired and _is_empty(transaction, number):
            yield f"{where}records_{number} is empty"


def _problems_of_round(
    transaction: Transaction, layout: Layout, number: int, state: str, reports: int, has_table: bool
) -> Iterator[str]:
    if state not in ("open", "closing", "sealed", "pruned"):
        yield f"state: expected open, closing, sealed or pruned, got {state}"
    elif state in ("sealed", "pruned"):
        if has_table:
            yield f"records_{number} is still there; a running collector drops it"
        if state == "sealed":
            yield from problems_of_counts(transaction, layout.plan, number, reports)
    else:
        repair = repair_of(transaction, number, layout) if has_table else lost(number)
        if repair is not None:
            yield repair.damage


def _is_empty(transaction: Transaction, number: int) -> bool:
    return not transaction.execute(f"SELECT number FROM records_{number} LIMIT 1")  # noqa: S608


def deleted_metrics(transaction: Transaction) -> set[DeletedMetric]:
    """The metrics that were deleted."""
    return {DeletedMetric(*row) for row in transaction.execute("SELECT plan, version, metric FROM deleted")}


def problems_of_counts(transaction: Transaction, plan: Plan, number: int, reports: int) -> Iterator[str]:
    """The problems of the counts of a sealed round with so many reports, a sentence each."""
    known = deleted_metrics(transaction)
    deleted = [metric for *version, metric in known if version == [plan.name, plan.version]]
    counts: CountsByTags = {}
    query = "SELECT tags, metric, reports, ones FROM counts WHERE round_id = ? ORDER BY tags, metric"
    for row in transaction.execute(query, number):
        try:
            for names, kept in counts_of_rows(plan, [unlisted(row)]).items():
                counts.setdefault(names, {}).update(kept)
        except (ParameterError, ValueError, TypeError, KeyError) as error:
            yield f"the counts of {row[1]} cannot be read: {str(error).splitlines()[0]}"
            return
    yield from misfits(plan, Count(reports, counts), deleted)


def unlisted(row: Sequence[Any]) -> tuple[Any, str, Any, Any]:
    """Tags, metric, reports and ones of a row of `counts`, whose lists are JSON text or arrays; or a `ValueError`."""
    tags, metric, reports, ones = row
    if isinstance(tags, str):
        decode = msgspec.json.decode
        try:
            return decode(tags), metric, decode(reports), decode(ones)
        except msgspec.DecodeError as error:  # no ValueError before msgspec 0.20
            raise ValueError(str(error)) from None
    return tags, metric, reports, ones


# Repairs of rounds that are not sealed


def lost(number: int) -> Repair:
    """What can be done about a missing table of records: the round goes on without them."""
    table = f"records_{number}"
    return Repair(f"{table} is missing, and the reports with it", 0, f"make {table} again, empty")


def repair_of(transaction: Transaction, number: int, layout: Layout) -> Repair | None:
    """What can be done about groups with incomplete records; None when there are none."""
    cut = _cut_off(transaction, number, layout)
    if not cut:
        return None
    ((groups, stored),) = transaction.execute(
        f"SELECT count(*), SUM(length(records)) FROM records_{number}"  # noqa: S608
    )
    bad = sum(len(records) for records in cut.values())
    saved = sum(len(layout.readable(records)) for records in cut.values())
    return Repair(
        f"{len(cut)} of {groups} groups are not whole records of {layout.width} bytes",
        (int(stored) - bad) // layout.width + saved,
        f"keep the {saved} reports at the start of what is cut off, and all of it as it is in damaged_{number}",
    )


def note_repair(transaction: Transaction, number: int) -> None:
    """Make the table beside a round that keeps what a repair replaced: it tells that records may be missing."""
    transaction.execute(
        f"CREATE TABLE IF NOT EXISTS damaged_{number} AS SELECT * FROM records_{number} WHERE 1 = 0"  # noqa: S608
    )


def cut_to_readable(transaction: Transaction, number: int, layout: Layout) -> None:
    """Keep the readable reports of each cut-off group, and a copy of the group in a table beside it."""
    note_repair(transaction, number)
    for place, records in _cut_off(transaction, number, layout).items():
        whole = layout.readable(records).tobytes()
        transaction.execute(
            f"INSERT INTO damaged_{number} SELECT * FROM records_{number} WHERE number = ?",  # noqa: S608
            place,
        )
        if whole:
            transaction.execute(f"UPDATE records_{number} SET records = ? WHERE number = ?", whole, place)  # noqa: S608
        else:
            transaction.execute(f"DELETE FROM records_{number} WHERE number = ?", place)  # noqa: S608


def _cut_off(transaction: Transaction, number: int, layout: Layout) -> dict[int, bytes]:
    """The groups with incomplete records, by number."""
    rows = transaction.execute(
        f"SELECT number, records FROM records_{number}"  # noqa: S608
        " WHERE length(records) = 0 OR length(records) % ? <> 0 ORDER BY number",
        layout.width,
    )
    return {place: bytes(records) for place, records in rows}
