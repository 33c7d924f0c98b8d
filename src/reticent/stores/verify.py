"""Whether what a store holds fits together: the part of `reticent store check` that reads tables."""

from __future__ import annotations

import json
from collections.abc import Iterator

from reticent.errors import ParameterError, PlanError
from reticent.plan import Plan
from reticent.stores.pool import Transaction
from reticent.stores.records import Layout, counts_of_rows


def problems_of(transaction: Transaction, tables: set[int]) -> list[str]:
    """What is wrong, a sentence each, given the numbers of the tables of records that exist."""
    problems: list[str] = []
    plans: dict[tuple[str, int], Plan] = {}
    for name, version, text in transaction.execute("SELECT name, version, text FROM plan"):
        try:
            plan = plans[name, version] = Plan.from_toml(text)
        except PlanError as error:
            problems.append(f"plan {name} version {version} cannot be read: {str(error).splitlines()[0]}")
            continue
        if (plan.name, plan.version) != (name, version):
            problems.append(f"plan {name} version {version} holds the text of {plan.name} {plan.version}")
    rows = transaction.execute("SELECT id, plan, version, round, state, reports FROM round ORDER BY id")
    numbers = {number for number, *_ in rows}
    problems += [f"records_{number} belongs to no round" for number in sorted(tables - numbers)]
    for number, name, version, round_number, state, reports in rows:
        where = f"round {round_number} of {name} version {version}"
        if (name, version) not in plans:
            problems.append(f"{where}: its plan is not registered")
        elif state == "sealed":
            problems += [
                f"{where}: {problem}"
                for problem in _sealed(transaction, number, plans[name, version], reports, tables)
            ]
        elif state in ("open", "closing"):
            problems += [
                f"{where}: {problem}" for problem in _open(transaction, number, plans[name, version], tables)
            ]
        else:
            problems.append(f"{where}: state: expected open, closing or sealed, got {state}")
    return problems


def _open(transaction: Transaction, number: int, plan: Plan, tables: set[int]) -> Iterator[str]:
    """A round with reports: its table is there, and made of whole records."""
    if number not in tables:
        yield f"records_{number} is missing, and the reports with it"
        return
    width = Layout(plan).width
    ((groups, broken),) = transaction.execute(
        "SELECT count(*), sum(CASE WHEN length(records) = 0 OR length(records) % ? <> 0 THEN 1 ELSE 0 END)"  # noqa: S608
        f" FROM records_{number}",
        width,
    )
    if not groups:
        yield f"records_{number} is empty"
    if broken:
        yield f"{broken} of {groups} groups are not whole records of {width} bytes"


def _sealed(
    transaction: Transaction, number: int, plan: Plan, reports: int, tables: set[int]
) -> Iterator[str]:
    """A round of counts: its table is gone, and every metric was answered by all its reports."""
    if number in tables:
        yield f"records_{number} is still there"
    rows = transaction.execute(
        "SELECT tags, metric, reports, ones FROM counts WHERE round_id = ? ORDER BY tags, metric", number
    )
    devices = dict.fromkeys(plan.by_name, 0)
    for tags, metric, row_reports, row_ones in rows:
        try:
            row = json.loads(tags), metric, json.loads(row_reports), json.loads(row_ones)
            devices[metric] += sum(kept[metric].devices for kept in counts_of_rows(plan, [row]).values())
        except (ParameterError, ValueError, TypeError, KeyError) as error:
            yield f"the counts of {metric} cannot be read: {str(error).splitlines()[0]}"
            return
    for metric, counted in devices.items():
        if counted != reports:
            yield f"{metric}: expected the counts of {reports} reports, got those of {counted}"
