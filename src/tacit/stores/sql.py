"""What SQLite and PostgreSQL share: the law of the store, in terms of transactions."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from tacit.counts import Counts, counts_from_rows
from tacit.errors import StoreError
from tacit.plan import Plan
from tacit.stores.keys import Key
from tacit.stores.open_round import OpenRound
from tacit.stores.records import CountsByTags, Layout, RoundKey
from tacit.stores.store import Appended, RoundInfo

SCHEMA_VERSION = 1

LATEST_ROUNDS = """
SELECT plan, version, round, state, reports FROM (
    SELECT *, row_number() OVER (PARTITION BY plan ORDER BY round DESC, version DESC) AS place FROM round
) AS ranked
WHERE (? = '' OR plan = ?) AND place <= ?
ORDER BY plan, round DESC, version DESC
"""

Row = tuple[Any, ...]


class Transaction(ABC):
    """One transaction: all of it or nothing."""

    @abstractmethod
    def execute(self, sql: str, *parameters: object) -> list[Row]:
        """Run a statement, with ? for parameters; returns its rows."""

    @abstractmethod
    def stream(self, sql: str, *parameters: object) -> Iterator[Row]:
        """Run a query and take its rows one by one."""


class SqlStore(ABC):
    """
    A store in a database.

    One commit group of `append` is one row per round: records end to end, in arrival order, in a table that
    the round has to itself and that is dropped when it is sealed. Which ids it holds is kept in memory: no
    index of random ids is ever written.

    A round goes from open to closing to sealed. Closing stops `append`; counting takes its time; the last
    transaction writes the counts and drops the table. Whoever finds a closing round may finish it.
    """

    shared_lock: ClassVar[str] = ""
    """What makes a SELECT hold its row against changes until the end of the transaction."""
    records_table: ClassVar[str]
    """The columns of the table of an open round."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[str, int], Layout] = {}
        self._open: dict[RoundKey, tuple[int, OpenRound]] = {}
        self._marks: dict[RoundKey, int] = {}
        self._memory = threading.RLock()

    @abstractmethod
    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that changes something; durable once it ends."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one state of the database."""

    # Plans

    def register(self, plan: Plan) -> None:
        """Remember a plan; raises `StoreError` when another one is known by this name and version."""
        with self.writing() as transaction:
            transaction.execute(
                "INSERT INTO plan (name, version, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                plan.name, plan.version, plan.text,
            )  # fmt: skip
            ((text,),) = transaction.execute(
                "SELECT text FROM plan WHERE name = ? AND version = ?", plan.name, plan.version
            )
        known = Plan.from_toml(text)
        if known != plan:
            raise StoreError(
                f"{self.url}: plan {plan.name} version {plan.version} is known with other content.\n"
                "  Hint: raise the version; what devices were asked must not change under it"
            )

    def plans(self) -> list[Plan]:
        """Every plan ever registered, by name and version."""
        with self.reading() as transaction:
            rows = transaction.execute("SELECT text FROM plan ORDER BY name, version")
        return [Plan.from_toml(text) for (text,) in rows]

    def layout(self, key: RoundKey) -> Layout:
        """How the records of a round are laid out."""
        known = self._layouts.get((key.plan, key.version))
        if known is None:
            self._layouts = {(plan.name, plan.version): Layout(plan) for plan in self.plans()}
            known = self._layouts.get((key.plan, key.version))
        if known is None:
            raise StoreError(f"{self.url}: plan {key.plan} version {key.version} is not registered")
        return known

    # Records

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        """Put records into their open rounds, in one transaction; durable on return."""
        for key in records:
            self._load(key)
        with self._memory:
            fresh = {}
            with self.writing() as transaction:
                for key, group in records.items():
                    number = self._open_number(transaction, key)
                    found = self._open[key][1] if key in self._open else OpenRound(self.layout(key))
                    if number is not None:
                        new = found.missing(found.layout.array(group))
                        fresh[key] = number, found, new
                        if len(new):
                            transaction.execute(
                                f"INSERT INTO records_{number} (records) VALUES (?)",  # noqa: S608
                                new.tobytes(),
                            )
            for key, (number, found, new) in fresh.items():
                self._open[key] = number, found
                if len(new):
                    found.add(new)
        return {
            key: _appended(len(group) // self.layout(key).width, fresh.get(key))
            for key, group in records.items()
        }

    def _open_number(self, transaction: Transaction, key: RoundKey) -> int | None:
        """The number of an open round, made if there is none; None when it is closed."""
        select = f"SELECT id, state FROM round WHERE plan = ? AND version = ? AND round = ?{self.shared_lock}"  # noqa: S608
        rows = transaction.execute(select, *key)
        if not rows:
            made = transaction.execute(
                "INSERT INTO round (plan, version, round, state, reports) VALUES (?, ?, ?, 'open', 0)"
                " ON CONFLICT DO NOTHING RETURNING id",
                *key,
            )
            if made:
                transaction.execute(f"CREATE TABLE records_{made[0][0]} ({self.records_table})")
            rows = transaction.execute(select, *key)
        ((number, state),) = rows
        return number if state == "open" else None

    def _load(self, key: RoundKey) -> None:
        """Bring an open round into memory that this process has not seen yet."""
        with self._memory:
            if key in self._open:
                return
            with self.reading() as transaction:
                rows = transaction.execute(
                    "SELECT id FROM round WHERE plan = ? AND version = ? AND round = ? AND state <> 'sealed'",
                    *key,
                )
                if rows:
                    number = rows[0][0]
                    found = OpenRound(self.layout(key), self._groups(transaction, key, number))
                    self._open[key] = number, found

    def _groups(self, transaction: Transaction, key: RoundKey, number: int) -> Iterator[bytes]:
        """The commit groups of a round that came since the last look."""
        since = self._marks.get(key, 0)
        query = f"SELECT number, records FROM records_{number} WHERE number > ? ORDER BY number"  # noqa: S608
        for mark, group in transaction.stream(query, since - self.lookback):
            self._marks[key] = max(mark, self._marks.get(key, 0))
            yield group

    lookback: ClassVar[int] = 0
    """How many numbers back a group may still appear: other collectors commit out of order."""

    def load_open_rounds(self) -> int:
        """Bring all open rounds into memory; returns how many reports they hold."""
        keys = [info.key for info in self.rounds() if info.state != "sealed"]
        for key in keys:
            self._load(key)
        return sum(len(found) for _, found in self._open.values())

    @property
    def nbytes(self) -> int:
        """Memory that open rounds hold."""
        with self._memory:
            return sum(found.nbytes for _, found in self._open.values())

    # Counts

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of a plan, latest first; at most the `last` ones of each plan."""
        with self.reading() as transaction:
            rows = transaction.execute(LATEST_ROUNDS, plan or "", plan or "", 2**53 if last is None else last)
        found = []
        for name, version, number, state, reports in rows:
            key = RoundKey(name, version, number)
            found.append(RoundInfo(key, state, reports if state == "sealed" else self._refresh(key)))
        return found

    def counts(self, key: RoundKey) -> CountsByTags:
        """The counts of a round: final when it is sealed, provisional while it is open."""
        with self.reading() as transaction:
            rows = transaction.execute(
                "SELECT tags, metric, counts.reports, ones FROM counts JOIN round ON round.id = round_id"
                " WHERE plan = ? AND version = ? AND round = ?",
                *key,
            )
        if rows:
            return _from_rows(self.layout(key).plan, rows)
        self._refresh(key)
        with self._memory:
            return dict(self._open[key][1].counts()) if key in self._open else {}

    def _refresh(self, key: RoundKey) -> int:
        """See what other collectors have added to an open round; returns its number of reports."""
        self._load(key)
        with self._memory:
            if key not in self._open:
                return 0
            number, found = self._open[key]
            with self.reading() as transaction:
                exists = transaction.execute("SELECT 1 FROM round WHERE id = ? AND state <> 'sealed'", number)
                for group in self._groups(transaction, key, number) if exists else ():
                    found.add(found.missing(found.layout.array(group)))
            return len(found)

    def seal(self, key: RoundKey) -> bool:
        """Seal a round; False when it was sealed already, or never opened."""
        with self.writing() as transaction:
            rows = transaction.execute(
                "UPDATE round SET state = 'closing' WHERE plan = ? AND version = ? AND round = ?"
                " AND state <> 'sealed' RETURNING id",
                *key,
            )
        if rows:
            number = rows[0][0]
            with self.reading() as transaction:
                if not transaction.execute("SELECT 1 FROM round WHERE id = ? AND state = 'closing'", number):
                    return False
                query = f"SELECT records FROM records_{number} ORDER BY number"  # noqa: S608
                whole = OpenRound(self.layout(key), (group for (group,) in transaction.stream(query)))
            sealed = self._write_counts(number, whole)
        with self._memory:
            self._open.pop(key, None)
            self._marks.pop(key, None)
        return bool(rows) and sealed

    def _write_counts(self, number: int, whole: OpenRound) -> bool:
        with self.writing() as transaction:
            changed = transaction.execute(
                "UPDATE round SET state = 'sealed', reports = ?"
                " WHERE id = ? AND state = 'closing' RETURNING id",
                len(whole),
                number,
            )
            if not changed:
                return False
            for tags, by_metric in whole.counts().items():
                for metric, counts in by_metric.items():
                    _, reports, ones = zip(*counts.rows(), strict=True)
                    transaction.execute(
                        "INSERT INTO counts (round_id, tags, metric, reports, ones) VALUES (?, ?, ?, ?, ?)",
                        *(number, json.dumps(tags), metric, json.dumps(reports), json.dumps(ones)),
                    )
            transaction.execute(f"DROP TABLE records_{number}")
        return True

    # Keys

    def add_key(self, key: Key) -> None:
        """Keep a key's hash."""
        with self.writing() as transaction:
            transaction.execute(
                "INSERT INTO key (id, role, hash, label, created_at) VALUES (?, ?, ?, ?, ?)",
                key.id, key.role, key.hash, key.label, key.created_at,
            )  # fmt: skip

    def keys(self) -> list[Key]:
        """All keys, revoked ones too."""
        with self.reading() as transaction:
            rows = transaction.execute(
                "SELECT id, role, hash, label, created_at, revoked_at FROM key ORDER BY created_at, id"
            )
        return [Key(*row) for row in rows]

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key at a unix time; False when there is none by this id."""
        with self.writing() as transaction:
            return bool(
                transaction.execute(
                    "UPDATE key SET revoked_at = COALESCE(revoked_at, ?) WHERE id = ? RETURNING id",
                    at,
                    key_id,
                )
            )

    @property
    @abstractmethod
    def url(self) -> str:
        """The address of the store, without a password."""


def _appended(given: int, found: tuple[int, OpenRound, Any] | None) -> Appended:
    if found is None:
        return Appended(late=given)
    accepted = len(found[2])
    return Appended(accepted=accepted, duplicate=given - accepted)


def _from_rows(plan: Plan, rows: list[Row]) -> CountsByTags:
    found: CountsByTags = {}
    for tags, metric, reports, ones in rows:
        columns = zip(json.loads(reports), json.loads(ones), strict=True)
        counts: Counts = counts_from_rows(
            plan.by_name[metric], ((row, each, hits) for row, (each, hits) in enumerate(columns))
        )
        found.setdefault(tuple(json.loads(tags)), {})[metric] = counts
    return found
