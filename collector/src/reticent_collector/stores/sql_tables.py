"""Plans, keys and the table of results in a database, SQLite or PostgreSQL."""

from __future__ import annotations

import json
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from itertools import chain
from typing import Any, ClassVar

from reticent.plan import Plan
from reticent_collector.columns import (
    COLUMNS,
    COMPARISON,
    FIGURE,
    NUMBER,
    Column,
    seconds_of,
    segment_text,
    time_text,
)
from reticent_collector.stores.backend import (
    AdminAction,
    DeletedMetric,
    Key,
    Layouts,
    Note,
    PeriodKey,
    read_plan,
)
from reticent_collector.stores.records import Layout, RoundKey
from reticent_collector.stores.sql_upkeep import deleted_metrics
from reticent_collector.stores.transactions import SqlRow, Transaction

_RESULTS_AT_ONCE = 200  # rows of results in one transaction, and the rest of a histogram
_TURN_SECONDS = 0.002  # between two such transactions, so that a waiting append gets its turn
_TABLES: Mapping[str, Sequence[Column]] = {"results": COLUMNS, "comparisons": COMPARISON}


class SqlTables(ABC):
    """The transactions of a database, and the tables that do not depend on the state of a round."""

    views: ClassVar[Mapping[str, str]]  #: the queries of views of the tables of results
    hold_deletions: ClassVar[str] = ""  #: makes `delete_metrics` wait for a transaction; empty: it does

    def __init__(self, url: str) -> None:
        self.url = url
        self._layouts = Layouts(url, self.plans)

    def as_list(self, items: Sequence[object]) -> object:
        """A list for the database: JSON text, unless it has a type for lists."""
        return json.dumps(items)

    def as_time(self, seconds: int) -> object:
        """A unix time for the database: ISO 8601 text, unless it has a type for times."""
        return time_text(seconds)

    @abstractmethod
    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that writes; durable once it ends. One at a time."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that only reads, while others read and write."""

    @abstractmethod
    def set_schema_number(self, transaction: Transaction, number: int) -> None:
        """Write the number of the schema that the tables have after this transaction."""

    def sealing(self) -> AbstractContextManager[Transaction]:
        """A transaction that closes or seals a round; if it has to wait, appends do not wait with it."""
        return self.writing()

    def read(self, sql: str, *parameters: object) -> list[SqlRow]:
        """The rows of one SELECT."""
        with self.reading() as transaction:
            return transaction.execute(sql, *parameters)

    # Plans and keys

    def put_plan(self, plan: Plan) -> Plan:
        """Store a plan's text unless its name and version are stored already; returns the stored plan."""
        with self.writing() as transaction:
            insert = "INSERT INTO plans (name, version, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
            transaction.execute(insert, plan.name, plan.version, plan.text)
            select = "SELECT text FROM plans WHERE name = ? AND version = ?"
            ((text,),) = transaction.execute(select, plan.name, plan.version)
        return read_plan(self.url, text)

    def plans(self) -> list[Plan]:
        """Every plan ever stored, by name and version."""
        rows = self.read("SELECT text FROM plans ORDER BY name, version")
        return [read_plan(self.url, text) for (text,) in rows]

    def layout(self, key: RoundKey) -> Layout:
        """The layout of a round's records."""
        return self._layouts.of(key)

    def add_key(self, key: Key) -> None:
        """Store a key's hash."""
        created, revoked = (at if at is None else self.as_time(at) for at in (key.created_at, key.revoked_at))
        with self.writing() as transaction:
            transaction.execute(
                "INSERT INTO keys (id, role, hash, label, created_at, revoked_at, plans)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(key.id, key.role, key.hash, key.label, created, revoked, ",".join(key.plans) or None),
            )

    def keys(self) -> list[Key]:
        """All keys, including revoked ones."""
        rows = self.read(
            "SELECT id, role, hash, label, created_at, revoked_at, plans FROM keys ORDER BY created_at, id"
        )
        return [
            Key(
                *(key_id, role, key_hash, label, seconds_of(created)),
                None if revoked is None else seconds_of(revoked),
                tuple(plans.split(",")) if plans else (),
            )
            for key_id, role, key_hash, label, created, revoked, plans in rows
        ]

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key at a unix time; False when no key has this id. The first time stays."""
        update = "UPDATE keys SET revoked_at = COALESCE(revoked_at, ?) WHERE id = ? RETURNING id"
        with self.writing() as transaction:
            return bool(transaction.execute(update, self.as_time(at), key_id))

    # What administrators did

    def note(self, action: AdminAction) -> None:
        """Add an entry to the log of administrators; durable on return."""
        with self.sealing() as transaction:
            transaction.execute(
                "INSERT INTO admin_log (id, at, user_name, action, about) VALUES (?, ?, ?, ?, ?)",
                *(secrets.token_hex(16), self.as_time(action.at), *action[1:]),
            )

    def noted(self) -> list[AdminAction]:
        """All entries of the log of administrators, the oldest first."""
        rows = self.read("SELECT at, user_name, action, about FROM admin_log ORDER BY at, id")
        return [AdminAction(seconds_of(at), *rest) for at, *rest in rows]

    # Notes of events

    def put_note(self, note: Note) -> None:
        """Store a note; durable on return. One with its id stays as it is."""
        with self.sealing() as transaction:
            transaction.execute(
                "INSERT INTO notes (id, at, plan, text) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                *(note.id, self.as_time(note.at), note.plan, note.text),
            )

    def notes(self) -> list[Note]:
        """All notes, the oldest first."""
        rows = self.read("SELECT id, at, plan, text FROM notes ORDER BY at, id")
        return [Note(key, seconds_of(at), *rest) for key, at, *rest in rows]

    # Metrics that were deleted

    def delete_metrics(self, metrics: Collection[DeletedMetric]) -> None:
        """Remove the sealed counts and the results of these metrics for ever, in one transaction."""
        with self.sealing() as transaction:
            for deleted in metrics:  # first: seals and writers of results that are under way end before it
                insert = "INSERT INTO deleted (plan, version, metric) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
                transaction.execute(insert, *deleted)
            for plan, version, metric in metrics:
                transaction.execute(
                    "DELETE FROM counts WHERE metric = ?"
                    " AND round_id IN (SELECT id FROM rounds WHERE plan = ? AND version = ?)",
                    *(metric, plan, version),
                )
            for plan, metric in {(plan, metric) for plan, _, metric in metrics}:
                for table in _TABLES:
                    transaction.execute(f"DELETE FROM {table} WHERE plan = ? AND metric = ?", plan, metric)  # noqa: S608

    def deleted(self) -> set[DeletedMetric]:
        """The metrics that were deleted."""
        with self.reading() as transaction:
            return deleted_metrics(transaction)

    def deleted_until_done(self, transaction: Transaction) -> set[DeletedMetric]:
        """The metrics that were deleted; no other one will be before the transaction ends."""
        if self.hold_deletions:
            transaction.execute(self.hold_deletions)
        return deleted_metrics(transaction)

    # The table of results

    def written(self, plan: str) -> set[PeriodKey]:
        """The periods of a plan whose rows are all in the table."""
        rows = self.read("SELECT version, every, start_time, end_time FROM periods WHERE plan = ?", plan)
        return {PeriodKey(plan, *row[:2], *map(seconds_of, row[2:])) for row in rows}

    def put_results(
        self,
        period: PeriodKey,
        rows: Iterable[Mapping[str, object]],
        comparisons: Iterable[Mapping[str, object]] = (),
    ) -> None:
        """
        Put the rows of a finished period into the tables, some at a time, then mark the period as written.

        SQLite has one writer at a time, so others write in between. Existing rows stay as they are: a process
        that died in the middle, or writes at the same time, writes the same rows.
        """
        self._put("results", rows)
        self._put("comparisons", comparisons)
        with self.sealing() as transaction:
            transaction.execute(
                "INSERT INTO periods (plan, version, every, start_time, end_time) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                *(*period[:3], self.as_time(period.start), self.as_time(period.end)),
            )

    def _put(self, table: str, rows: Iterable[Mapping[str, object]]) -> None:
        names = [column.name for column in _TABLES[table]]
        times = _times(table)
        places = f"({','.join('?' * len(names))})"
        for some in _figures_at_once(rows):
            made = [  # before the transaction begins, in which others wait
                (
                    _versions_of(row),
                    [
                        self.as_time(seconds_of(str(row[name]))) if name in times else row[name]
                        for name in names
                    ],
                )
                for row in some
            ]
            with self.sealing() as transaction:
                deleted = self.deleted_until_done(transaction)
                kept = [cells for versions, cells in made if not versions & deleted]
                if kept:
                    values = ",".join([places] * len(kept))
                    transaction.execute(
                        f"INSERT INTO {table} ({','.join(names)}) VALUES {values} ON CONFLICT DO NOTHING",  # noqa: S608
                        *chain.from_iterable(kept),
                    )
            time.sleep(_TURN_SECONDS)

    def results(self, period: PeriodKey) -> list[dict[str, object]]:
        """The rows of a period in the table; times in ISO 8601, a segment as JSON text."""
        return self._rows("results", period)

    def comparisons(self, period: PeriodKey) -> list[dict[str, object]]:
        """The comparisons of a period; times in ISO 8601, segments as JSON text."""
        return self._rows("comparisons", period)

    def _rows(self, table: str, period: PeriodKey) -> list[dict[str, object]]:
        types = {column.name: column.type for column in _TABLES[table]}
        columns = ",".join(f"CAST({name} AS TEXT)" if of == "json" else name for name, of in types.items())
        texts: dict[str, Callable[[Any], object]] = {
            "timestamp": lambda cell: time_text(seconds_of(cell)),
            "json": lambda cell: segment_text(json.loads(cell)),
            "bool": bool,
        }
        rows: list[dict[str, object]] = []
        for metric in self._metrics_of(period.plan):
            read = self.read(
                f"SELECT {columns} FROM {table} WHERE plan = ? AND metric = ? AND every = ?"  # noqa: S608
                " AND start_time = ? AND version = ? ORDER BY segment, versions, bucket",
                *(period.plan, metric, period.every, self.as_time(period.start), period.version),
            )
            for cells in read:
                row = zip(types.items(), cells, strict=True)
                rows.append({name: texts[of](cell) if of in texts else cell for (name, of), cell in row})
        return rows

    def drop_results(self, period: PeriodKey) -> None:
        """Remove the rows of a period; first the mark that it is written."""
        about = (period.version, period.plan, period.every, self.as_time(period.start))
        where = "version = ? AND plan = ? AND every = ? AND start_time = ?"
        with self.sealing() as transaction:
            transaction.execute(f"DELETE FROM periods WHERE {where}", *about)  # noqa: S608
        for metric in self._metrics_of(period.plan):
            for table in _TABLES:
                with self.sealing() as transaction:
                    transaction.execute(f"DELETE FROM {table} WHERE {where} AND metric = ?", *about, metric)  # noqa: S608

    def _metrics_of(self, plan: str) -> list[str]:
        """The metrics of all versions of a plan: a period may have reports of several."""
        with self.reading() as transaction:
            return self._metrics_in(transaction, plan)

    def _metrics_in(self, transaction: Transaction, plan: str) -> list[str]:
        texts = transaction.execute("SELECT text FROM plans WHERE name = ? ORDER BY version DESC", plan)
        versions = (read_plan(self.url, text) for (text,) in texts)
        return [*{metric.name: None for version in versions for metric in version.metrics}]

    def drop_results_of(self, transaction: Transaction, key: RoundKey) -> None:
        """
        Remove the rows of every period that a round is in, whatever its version, and comparisons with it.

        These periods are written again, and those that were compared with them.
        """
        metrics = self._metrics_in(transaction, key.plan)
        plan, day = self.layout(key).plan, 86_400
        start, window = plan.round(key.round).start, plan.answers.window * plan.round_seconds
        longest = {
            "round": plan.round_seconds,
            "window": window,
            "day": day,
            "week": 7 * day,
            "month": 31 * day,
        }
        where = "plan = ? AND every = ? AND start_time > ? AND start_time <= ? AND end_time > ?"
        for every, seconds in longest.items():
            about = (key.plan, every, *map(self.as_time, (start - seconds, start, start)))
            transaction.execute(f"DELETE FROM periods WHERE {where}", *about)  # noqa: S608
            for metric in metrics:  # each is a short part of the index
                for table in _TABLES:
                    transaction.execute(f"DELETE FROM {table} WHERE {where} AND metric = ?", *about, metric)  # noqa: S608
                compared = (
                    "FROM comparisons WHERE plan = ? AND metric = ? AND every = ? AND start_time > ?"
                    " AND baseline_start_time <= ? AND baseline_end_time > ?"
                )
                with_it = (key.plan, metric, every, *[self.as_time(start)] * 3)
                later = f"SELECT start_time {compared}"
                transaction.execute(
                    f"DELETE FROM periods WHERE plan = ? AND every = ? AND start_time IN ({later})",  # noqa: S608
                    *(key.plan, every, *with_it),
                )
                transaction.execute(f"DELETE {compared}", *with_it)

    def written_rows(
        self, periods: Sequence[PeriodKey], metrics: Sequence[str], segments: Sequence[str]
    ) -> dict[PeriodKey, list[dict[str, Any]]]:
        """The rows of some metrics and segments in those of the periods that are marked as written."""
        names = ("metric", "segment", *FIGURE, *NUMBER)
        columns = ",".join(
            "CAST(segment AS TEXT)" if name == "segment" else f"results.{name}" for name in names
        )
        rows_of: dict[PeriodKey, list[dict[str, Any]]] = {}
        segment_of = cache(
            lambda text: segment_text(json.loads(text))
        )  # PostgreSQL writes JSON in its own way
        for kind in {period[:3] for period in periods}:
            known = {self.as_time(period.start): period for period in periods if period[:3] == kind}
            # One statement, so that the mark and the rows are of one moment.
            query = (
                f"SELECT periods.start_time, periods.end_time, {columns} FROM periods LEFT JOIN results"  # noqa: S608
                " ON results.plan = periods.plan AND results.every = periods.every"
                " AND results.start_time = periods.start_time AND results.version = periods.version"
                f" AND metric IN ({_places(metrics)}) AND segment IN ({_places(segments)})"
                " WHERE periods.plan = ? AND periods.version = ? AND periods.every = ?"
                f" AND periods.start_time IN ({_places(known)}) ORDER BY bucket"
            )
            for start, end, *cells in self.read(query, *metrics, *segments, *kind, *known):
                period = known[start]
                if seconds_of(end) == period.end:
                    rows = rows_of.setdefault(period, [])
                    if cells[0] is not None:
                        row = dict(zip(names, cells, strict=True))
                        rows.append(row | {"segment": segment_of(row["segment"])})
        return rows_of


def _times(table: str) -> set[str]:
    """The columns of a table that are times."""
    return {column.name for column in _TABLES[table] if column.type == "timestamp"}


def _places(items: Collection[object]) -> str:
    """A place for each parameter of a list."""
    return ",".join("?" * len(items))


def _versions_of(row: Mapping[str, object]) -> set[DeletedMetric]:
    """The metric of a row, in each version of the plan whose counts are in it."""
    plan, metric = str(row["plan"]), str(row["metric"])
    return {DeletedMetric(plan, int(version), metric) for version in str(row["versions"]).split(",")}


def _figures_at_once(rows: Iterable[Mapping[str, object]]) -> Iterator[list[Mapping[str, object]]]:
    """Rows in batches; the buckets of a histogram stay together."""
    some: list[Mapping[str, object]] = []
    for row in rows:
        if len(some) >= _RESULTS_AT_ONCE and row["bucket"] in (None, 0):
            yield some
            some = []
        some.append(row)
    if some:
        yield some
