"""What SQLite and PostgreSQL share: the law of the store, in terms of transactions."""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from reticent.counts import Counts, counts_from_rows
from reticent.errors import ParameterError, StoreError
from reticent.plan import Plan
from reticent.stores.books import SqlBooks
from reticent.stores.open_round import OpenRound
from reticent.stores.pool import Row, Transaction
from reticent.stores.records import CountsByTags, Records, RoundKey
from reticent.stores.store import Appended, RoundInfo, State
from reticent.stores.verify import problems_of

LATEST_ROUNDS = """
SELECT plan, version, round, state, reports FROM (
    SELECT *, row_number() OVER (PARTITION BY plan ORDER BY round DESC, version DESC) AS place FROM round
) AS ranked
WHERE (? = '' OR plan = ?) AND place <= ?
ORDER BY plan, round DESC, version DESC
"""

_BYTES_AT_ONCE, _GROUPS_AT_ONCE = 1 << 24, 20_000
"""How much of a round is read in one transaction."""


class SqlStore(SqlBooks):
    """
    A store in a database.

    One commit group of `append` is one row per round: records end to end, in arrival order, in a table that
    the round has to itself and that is dropped when it is sealed. Which ids it holds is kept in memory: no
    index of random ids is ever written.

    A round goes from open to closing to sealed. Closing stops `append`; counting takes its time, from what
    is durable and not from memory; the last transaction writes the counts and drops the table. Whoever finds
    a closing round may finish it.

    `_memory` guards what is known of open rounds and is held across a commit, so it is never taken inside a
    transaction that another one might wait for, nor while a whole round is read.
    """

    held: ClassVar[str] = ""
    """What makes a SELECT hold its row against changes until the end of the transaction."""
    records_table: ClassVar[tuple[str, ...]]
    """Statements that make the table of an open round, with {} for its number."""

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[RoundKey, OpenRound] = {}
        self._memory = threading.Lock()

    # Records

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        """Put records into their open rounds, in one transaction; durable on return."""
        groups = {key: self.layout(key).array(records[key]) for key in sorted(records) if records[key]}
        for key in groups:
            self._load(key)
        with self._memory:
            stored = self._store(groups) if groups else {}
        return {key: _appended(groups.get(key), stored.get(key)) for key in records}

    def _store(self, groups: Mapping[RoundKey, Records]) -> dict[RoundKey, Records]:
        """The records that were new, per round, durable; rounds that are closed are left out."""
        stored: dict[RoundKey, tuple[OpenRound, Records, int]] = {}
        with self.writing() as transaction:
            for key, group in groups.items():
                number = self._open_number(transaction, key)
                if number is None:
                    continue
                found = self._open.get(key)
                if found is None:
                    found = OpenRound(self.layout(key), number)
                fresh = found.missing(group)
                stored[key] = found, fresh, _insert(transaction, number, fresh) if len(fresh) else 0
        for key, (found, fresh, group_number) in stored.items():
            self._open[key] = found
            if len(fresh):
                found.add(fresh)
                found.groups.add(group_number)
        return {key: fresh for key, (_, fresh, _) in stored.items()}

    def _open_number(self, transaction: Transaction, key: RoundKey) -> int | None:
        """The number of an open round, made if there is none; None when it is closed."""
        row = self._held(transaction, key)
        if row is None:
            made = transaction.execute(
                "INSERT INTO round (plan, version, round, state, reports) VALUES (?, ?, ?, 'open', 0)"
                " ON CONFLICT DO NOTHING RETURNING id",
                *key,
            )
            for statement in self.records_table if made else ():
                transaction.execute(statement.format(made[0][0]))
            row = self._held(transaction, key)
        return row[0] if row and row[1] == "open" else None

    def _held(self, transaction: Transaction, key: RoundKey) -> Row | None:
        """A round's number, state and final reports, which stay so until the transaction ends."""
        query = (
            f"SELECT id, state, reports FROM round WHERE plan = ? AND version = ? AND round = ?{self.held}"  # noqa: S608
        )
        rows = transaction.execute(query, *key)
        return rows[0] if rows else None

    # Open rounds in memory

    def load_open_rounds(self) -> int:
        """Bring all open rounds into memory; returns how many reports they hold."""
        for key in self.unsealed():
            self._load(key)
        return self.open_reports

    @property
    def open_reports(self) -> int:
        """Reports of open rounds that this process knows of."""
        return sum(len(found) for found in list(self._open.values()))

    @property
    def nbytes(self) -> int:
        """Memory that open rounds hold."""
        return sum(found.nbytes for found in list(self._open.values()))

    def _load(self, key: RoundKey) -> OpenRound | None:
        """A round that is not sealed, brought into memory if it is not there; None when there is none."""
        found = self._open.get(key)
        if found is None:
            layout = self.layout(key)
            with self.reading() as transaction:
                row = self._held(transaction, key)
            loaded = OpenRound(layout, row[0]) if row and row[1] != "sealed" else None
            if loaded is not None and self._catch_up(key, loaded, nullcontext()):
                with self._memory:
                    found = self._open.setdefault(key, loaded)
        return found

    def _refresh(self, key: RoundKey) -> OpenRound | None:
        """A round that is not sealed, with what other collectors have added to it since the last look."""
        found = self._load(key)
        if found is None or found.released or self._catch_up(key, found, self._memory):
            return found
        self._forget(key)
        return None

    def _catch_up(self, key: RoundKey, found: OpenRound, lock: AbstractContextManager[object]) -> bool:
        """Read the groups that are not in yet, some at a time; False when there is no such round any more."""
        while True:
            with self.reading() as transaction:
                row = self._held(transaction, key)
                if row is None or row[1] == "sealed":
                    return False
                groups = _unseen(transaction, found)
            if not groups:
                return True
            with lock:
                try:
                    found.take(groups)
                except ParameterError as error:
                    raise StoreError(
                        f"{self.url}: round {key.round} of {key.plan} {key.version} is damaged: {error}\n"
                        "  Hint: reticent store check lists what is wrong"
                    ) from error

    def _forget(self, key: RoundKey) -> None:
        """Let go of a round that is sealed."""
        if key in self._open:
            with self._memory:
                self._open.pop(key, None)

    # Counts

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """
        The rounds of a plan, latest first; at most the `last` ones of each plan.

        While a round is open, `reports` is exact in a collector that holds it in memory. Who merely reads is
        told what is stored, which has a report twice that two collectors took; nothing is loaded for that.
        """
        with self.reading() as transaction:
            rows = transaction.execute(LATEST_ROUNDS, plan or "", plan or "", 2**53 if last is None else last)
        return [self._info(RoundKey(*row[:3]), *row[3:]) for row in rows]

    def _info(self, key: RoundKey, state: State, reports: int) -> RoundInfo:
        if state == "sealed":
            self._forget(key)
            return RoundInfo(key, state, reports)
        found = self._refresh(key) if key in self._open else None
        if found is not None:
            return RoundInfo(key, state, len(found))
        width = self.layout(key).width
        with self.reading() as transaction:
            row = self._held(transaction, key)
            if row is None or row[1] == "sealed":
                return RoundInfo(key, "sealed", row[2] if row else 0)
            ((stored,),) = transaction.execute(
                f"SELECT COALESCE(SUM(length(records)), 0) FROM records_{row[0]}"  # noqa: S608
            )
            return RoundInfo(key, row[1], int(stored) // width)

    def unsealed(self) -> list[RoundKey]:
        """The rounds that are open or closing."""
        with self.reading() as transaction:
            rows = transaction.execute(
                "SELECT plan, version, round FROM round WHERE state <> 'sealed' ORDER BY plan, version, round"
            )
        return [RoundKey(*row) for row in rows]

    def counts(self, key: RoundKey) -> CountsByTags:
        """The counts of a round: final when it is sealed, provisional while it is open."""
        final = self._final(key)
        if final is None:
            found = self._refresh(key) if self._known(key) else None
            if found is not None:
                return found.counts()
            final = self._final(key)
        return final or {}

    def _final(self, key: RoundKey) -> CountsByTags | None:
        """The counts of a sealed round; None when it is not sealed."""
        with self.reading() as transaction:
            rows = transaction.execute(
                "SELECT tags, metric, counts.reports, ones FROM counts JOIN round ON round.id = round_id"
                " WHERE plan = ? AND version = ? AND round = ? AND state = 'sealed' ORDER BY tags, metric",
                *key,
            )
        return _from_rows(self.layout(key).plan, rows) if rows else None

    def _known(self, key: RoundKey) -> bool:
        if key in self._open:
            return True
        with self.reading() as transaction:
            return self._held(transaction, key) is not None

    def seal(self, key: RoundKey) -> bool:
        """Seal a round; False when it was sealed already, or never opened."""
        with self.writing() as transaction:
            rows = transaction.execute(
                "UPDATE round SET state = 'closing' WHERE plan = ? AND version = ? AND round = ?"
                " AND state <> 'sealed' RETURNING id",
                *key,
            )
        sealed = bool(rows) and self._finish(key, rows[0][0])
        self._forget(key)
        return sealed

    def _finish(self, key: RoundKey, number: int) -> bool:
        """Count a closing round from what is durable and seal it; False when another was quicker."""
        known = self._open.get(key)
        if known is not None:
            known.counts()
            with self._memory:
                known.release()
        whole = OpenRound(self.layout(key), number)
        return self._catch_up(key, whole, nullcontext()) and self._write_counts(whole)

    def _write_counts(self, whole: OpenRound) -> bool:
        final = whole.counts()
        with self.writing() as transaction:
            changed = transaction.execute(
                "UPDATE round SET state = 'sealed', reports = ?"
                " WHERE id = ? AND state = 'closing' RETURNING id",
                *(len(whole), whole.number),
            )
            if not changed:
                return False
            for tags, by_metric in final.items():
                for metric, counts in by_metric.items():
                    _, reports, ones = zip(*counts.rows(), strict=True)
                    transaction.execute(
                        "INSERT INTO counts (round_id, tags, metric, reports, ones) VALUES (?, ?, ?, ?, ?)",
                        *(whole.number, json.dumps(tags), metric, json.dumps(reports), json.dumps(ones)),
                    )
            transaction.execute(f"DROP TABLE records_{whole.number}")
        return True

    # Upkeep

    @abstractmethod
    def ping(self) -> None:
        """Raise `StoreError` when the store cannot be written just now."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections."""

    @abstractmethod
    def record_tables(self, transaction: Transaction) -> set[int]:
        """The numbers of all tables of records."""

    def verify(self) -> list[str]:
        """What is wrong with the store, a sentence each; empty when all is well. Changes nothing."""
        with self.reading() as transaction:
            return problems_of(transaction, self.record_tables(transaction))


def other_version(url: str, expected: int, version: int) -> str:
    """What to say of a store whose schema is not of the expected version."""
    hint = (
        "reticent store migrate brings it up to date"
        if version < expected
        else "a newer reticent made it; use that"
    )
    return f"{url}: expected schema version {expected}, got {version}.\n  Hint: {hint}"


def _insert(transaction: Transaction, number: int, records: Records) -> int:
    """Put a group into the table of a round; returns the group's number."""
    ((group_number,),) = transaction.execute(
        f"INSERT INTO records_{number} (records) VALUES (?) RETURNING number",  # noqa: S608
        records.tobytes(),
    )
    return int(group_number)


def _unseen(transaction: Transaction, found: OpenRound) -> list[tuple[int, bytes]]:
    """The next groups of a round that are not in memory, up to some megabytes, with their numbers."""
    table = f"records_{found.number}"
    listed = transaction.execute(
        f"SELECT number, length(records) FROM {table} WHERE number > ? ORDER BY number LIMIT ?",  # noqa: S608
        *(found.groups.floor, _GROUPS_AT_ONCE),
    )
    chosen, size = [], 0
    for number, length in listed:
        if number not in found.groups:
            chosen.append(number)
            size += length
            if size >= _BYTES_AT_ONCE:
                break
    if not chosen:
        return []
    if chosen[-1] - chosen[0] == len(chosen) - 1:
        which = f"BETWEEN {chosen[0]} AND {chosen[-1]}"
    else:
        which = f"IN ({','.join(map(str, chosen))})"
    rows = transaction.execute(f"SELECT number, records FROM {table} WHERE number {which} ORDER BY number")  # noqa: S608
    return [(number, records) for number, records in rows]


def _appended(given: Records | None, fresh: Records | None) -> Appended:
    if given is None:
        return Appended()
    if fresh is None:
        return Appended(late=len(given))
    return Appended(accepted=len(fresh), duplicate=len(given) - len(fresh))


def _from_rows(plan: Plan, rows: list[Row]) -> CountsByTags:
    found: CountsByTags = {}
    for tags, metric, reports, ones in rows:
        columns = zip(json.loads(reports), json.loads(ones), strict=True)
        counts: Counts = counts_from_rows(
            plan.by_name[metric], ((row, each, hits) for row, (each, hits) in enumerate(columns))
        )
        found.setdefault(tuple(json.loads(tags)), {})[metric] = counts
    return found
