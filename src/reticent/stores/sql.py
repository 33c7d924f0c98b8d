"""What SQLite and PostgreSQL share: a backend in tables, in terms of transactions."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import ClassVar

from reticent.columns import COLUMNS, segment_text, time_text, unix_seconds
from reticent.errors import ParameterError, StoreError
from reticent.plan import Plan
from reticent.stores.open_round import OpenRound, Seen, Span
from reticent.stores.pool import Row, Transaction
from reticent.stores.records import (
    Count,
    CountsByTags,
    Layout,
    Records,
    RoundKey,
    counts_in_rows,
    counts_of_rows,
)
from reticent.stores.round_store import not_registered, read_plan
from reticent.stores.sql_upkeep import (
    cut_to_readable,
    lost,
    problems_of,
    problems_of_counts,
    repair_of,
    unlisted,
)
from reticent.stores.store import (
    DamagedError,
    Key,
    PeriodKey,
    Repair,
    RoundGoneError,
    RoundInfo,
    State,
    damaged,
)

LATEST_ROUNDS = """
SELECT plan, version, round, state, reports FROM (
    SELECT *, row_number() OVER (PARTITION BY plan ORDER BY round DESC, version DESC) AS place FROM rounds
    WHERE state <> 'pruned'
) AS ranked
WHERE (? = '' OR plan = ?) AND place <= ?
ORDER BY plan, round DESC, version DESC
"""
UNSEALED = ("open", "closing")
_BYTES_AT_ONCE, _GROUPS_AT_ONCE = 1 << 24, 20_000  # how much of a round is read in one transaction
_ROUNDS_AT_ONCE = 500  # of how many rounds the counts of a metric are read in one transaction
_RESULTS_AT_ONCE = 200  # rows of results in one transaction, or one histogram more
_TURN_SECONDS = 0.002  # between two such transactions: whoever waits to append is next


class SqlBackend(ABC):
    """
    Plans, keys, rounds and counts in tables.

    A commit group is one row per round: records end to end, in arrival order, in a table that the round has
    to itself and that is dropped when it is sealed.
    """

    records_table: ClassVar[str]
    """The statement that makes the table of an open round, with its number for {number}."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[str, int], Layout] = {}
        self._row_lock = ""
        """What makes a SELECT hold its row against changes until the end of the transaction."""

    def as_list(self, items: Sequence[object]) -> object:
        """A list as the database takes it: JSON text, where it has no type for it."""
        return json.dumps(items)

    def as_time(self, seconds: int) -> object:
        """A unix time as the database takes it: ISO 8601 text, where it has no type for it."""
        return time_text(seconds)

    @property
    @abstractmethod
    def url(self) -> str:
        """The address of the store, without a password."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that changes something; durable once it ends. One at a time."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that changes nothing, beside which others read and write."""

    def sealing(self) -> AbstractContextManager[Transaction]:
        """A transaction that closes or seals a round; where it may have to wait, appends do not wait with it."""
        return self.writing()

    @abstractmethod
    def is_damage(self, error: Exception) -> bool:
        """Whether an error says that a table is not there, or cannot be read."""

    @abstractmethod
    def drop_records(self, number: int) -> None:
        """Drop the table of a sealed round, unless that would make others wait; raises `StoreError` then."""

    @abstractmethod
    def record_tables(self, transaction: Transaction) -> set[int]:
        """The numbers of all tables of records."""

    @abstractmethod
    def ping(self) -> None:
        """Raise `StoreError` when the store cannot be written just now."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections."""

    # Plans and keys

    def put_plan(self, plan: Plan) -> Plan:
        """Keep a plan's text unless there is one by its name and version; returns what is kept."""
        with self.writing() as transaction:
            transaction.execute(
                "INSERT INTO plans (name, version, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                *(plan.name, plan.version, plan.text),
            )
            ((text,),) = transaction.execute(
                "SELECT text FROM plans WHERE name = ? AND version = ?", plan.name, plan.version
            )
        return read_plan(self.url, text)

    def plans(self) -> list[Plan]:
        """Every plan ever kept, by name and version."""
        with self.reading() as transaction:
            rows = transaction.execute("SELECT text FROM plans ORDER BY name, version")
        return [read_plan(self.url, text) for (text,) in rows]

    def layout(self, key: RoundKey) -> Layout:
        """How the records of a round are laid out."""
        if key[:2] not in self._layouts:
            self._layouts = {(plan.name, plan.version): Layout(plan) for plan in self.plans()}
        layout = self._layouts.get(key[:2])
        if layout is None:
            raise not_registered(self.url, key)
        return layout

    def add_key(self, key: Key) -> None:
        """Keep a key's hash."""
        with self.writing() as transaction:
            transaction.execute(
                "INSERT INTO keys (id, role, hash, label, created_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?)",
                *(key.id, key.role, key.hash, key.label, self.as_time(key.created_at)),
                None if key.revoked_at is None else self.as_time(key.revoked_at),
            )

    def keys(self) -> list[Key]:
        """All keys, revoked ones too."""
        with self.reading() as transaction:
            rows = transaction.execute(
                "SELECT id, role, hash, label, created_at, revoked_at FROM keys ORDER BY created_at, id"
            )
        return [
            Key(
                name,
                role,
                hash_,
                label,
                unix_seconds(made),
                None if revoked is None else unix_seconds(revoked),
            )
            for name, role, hash_, label, made, revoked in rows
        ]

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key at a unix time; False when there is none by this id. The first time stays."""
        with self.writing() as transaction:
            return bool(
                transaction.execute(
                    "UPDATE keys SET revoked_at = COALESCE(revoked_at, ?) WHERE id = ? RETURNING id",
                    *(self.as_time(at), key_id),
                )
            )

    # Open rounds

    def put(self, groups: Mapping[RoundKey, Records]) -> dict[RoundKey, Span | None]:
        """Put a group into each open round, all in one transaction; rounds that are closed are left out."""
        stored: dict[RoundKey, Span | None] = {}
        with self.writing() as transaction:
            for key, records in groups.items():
                number = self._open_number(transaction, key)
                if number is None:
                    continue
                stored[key] = None
                if len(records):
                    with self._damage_of(key):
                        ((place,),) = transaction.execute(
                            f"INSERT INTO records_{number} (records) VALUES (?) RETURNING number",  # noqa: S608
                            records.tobytes(),
                        )
                    stored[key] = Span("", place, place)
        return stored

    @contextmanager
    def _damage_of(self, key: RoundKey) -> Iterator[None]:
        """Errors about the tables of one round are that round's damage, and do not concern others."""
        try:
            yield
        except Exception as error:
            if not self.is_damage(error):
                raise
            raise damaged(self.url, key, str(error).splitlines()[0]) from None

    def _open_number(self, transaction: Transaction, key: RoundKey) -> int | None:
        """The number of an open round, made if there is none; None when it is closed."""
        row = self._row(transaction, key)
        if row is None:
            window = self.layout(key).plan.round(key.round)
            made = transaction.execute(
                "INSERT INTO rounds (plan, version, round, start_time, end_time, state, reports)"
                " VALUES (?, ?, ?, ?, ?, 'open', 0) ON CONFLICT DO NOTHING RETURNING id",
                *(*key, self.as_time(window.start), self.as_time(window.end)),
            )
            if made:
                transaction.execute(self.records_table.format(number=made[0][0]))
            row = self._row(transaction, key)
        return row[0] if row and row[1] == "open" else None

    def _row(self, transaction: Transaction, key: RoundKey) -> Row | None:
        """
        A round's number, state and final reports.

        They stay so until the transaction ends: so an append that saw "open" commits before the round is
        closed, and the table of an open round is not dropped while it is read.
        """
        query = f"SELECT id, state, reports FROM rounds WHERE plan = ? AND version = ? AND round = ?{self._row_lock}"  # noqa: S608
        rows = transaction.execute(query, *key)
        return rows[0] if rows else None

    def groups(self, key: RoundKey, seen: Seen) -> Iterator[list[tuple[Span, Records]]]:
        """The groups of a round that were not seen, in order of arrival, some megabytes at a time."""
        layout = self.layout(key)
        bad: dict[int, str] = {}
        while True:
            with self.reading() as transaction:
                row = self._row(transaction, key)
                if row is None or row[1] not in UNSEALED:
                    raise RoundGoneError
                with self._damage_of(key):
                    rows = _unseen(transaction, f"records_{row[0]}", seen, bad)
            if not rows:
                break
            groups = []
            for place, records in rows:
                try:
                    groups.append((Span("", place, place), layout.array(records)))
                except ParameterError as error:
                    bad[place] = str(error)
            yield groups
        for place, reason in bad.items():
            raise damaged(self.url, key, f"group {place}: {reason}")

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of a plan, latest first, at most `last` of each plan; while open with reports stored."""
        with self.reading() as transaction:
            rows = transaction.execute(LATEST_ROUNDS, plan or "", plan or "", 2**53 if last is None else last)
        infos = []
        for *key_parts, state, reports in rows:
            info = RoundInfo(RoundKey(*key_parts), state, reports)
            if state in UNSEALED:
                info = self._stored(info)
            infos.append(info)
        return infos

    def _stored(self, info: RoundInfo) -> RoundInfo:
        """
        A round with the reports stored in its table.

        In a transaction of its own, which holds its row: by now it may be sealed, and its table gone.
        """
        width, groups, whole, stored = self.layout(info.key).width, 0, 0, 0
        try:
            with self.reading() as transaction:
                number, state, reports = self._row(transaction, info.key) or (0, "sealed", 0)
                if state not in UNSEALED:
                    return RoundInfo(info.key, state, reports)
                with self._damage_of(info.key):
                    ((groups, whole, stored),) = transaction.execute(
                        "SELECT count(*), count(CASE WHEN length(records) % ? = 0 THEN 1 END),"  # noqa: S608
                        f" COALESCE(SUM(length(records)), 0) FROM records_{number}",
                        width,
                    )
        except DamagedError as error:
            return info._replace(damage=error.reason)
        damage = "" if groups == whole else f"{groups - whole} of {groups} groups are cut off"
        return RoundInfo(info.key, state, int(stored) // width, damage)

    def unsealed(self) -> list[RoundKey]:
        """The rounds that are open or closing."""
        with self.reading() as transaction:
            rows = transaction.execute(
                "SELECT plan, version, round FROM rounds WHERE state IN ('open', 'closing')"
                " ORDER BY plan, version, round"
            )
        return [RoundKey(*row) for row in rows]

    def state(self, key: RoundKey) -> State | None:
        """The state of a round; None when there is none."""
        with self.reading() as transaction:
            row = self._row(transaction, key)
        return None if row is None else "sealed" if row[1] == "pruned" else row[1]

    # What readers are shown of open rounds

    def step(self, key: RoundKey) -> tuple[int, str] | None:
        """The number and document of the latest step of a round that is not sealed; None before the first."""
        with self.reading() as transaction:
            rows = transaction.execute(
                "SELECT number, CAST(document AS TEXT) FROM steps JOIN rounds ON rounds.id = round_id"
                " WHERE plan = ? AND version = ? AND round = ? ORDER BY number DESC LIMIT 1",
                *key,
            )
        return (int(rows[0][0]), str(rows[0][1])) if rows else None

    def put_step(self, key: RoundKey, number: int, document: str) -> None:
        """Keep a step, unless another collector took it first, or the round is sealed."""
        with self.writing() as transaction:
            row = self._row(transaction, key)
            if row is not None and row[1] in ("open", "closing"):
                transaction.execute(
                    "INSERT INTO steps (round_id, number, document) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    *(row[0], number, document),
                )
                transaction.execute("DELETE FROM steps WHERE round_id = ? AND number < ?", row[0], number)

    # Sealing

    def claim(self, key: RoundKey) -> AbstractContextManager[bool]:
        """Always here: a database counts what it stores, and a second count is cheap."""
        return nullcontext(True)

    def close_round(self, key: RoundKey) -> bool:
        """Begin to seal: waits for appends that are under way, and makes those that come later late."""
        with self.sealing() as transaction:
            return bool(
                transaction.execute(
                    "UPDATE rounds SET state = 'closing' WHERE plan = ? AND version = ? AND round = ?"
                    " AND state IN ('open', 'closing') RETURNING id",
                    *key,
                )
            )

    def count(self, key: RoundKey, *, skip_bad: bool = False) -> Count:
        """Count a closing round from its table: of those with one id, the report that came first."""
        whole = OpenRound(self.layout(key))
        for groups in self.groups(key, whole.seen):
            whole.take(groups)
        return Count(len(whole), whole.counts())

    def publish(self, key: RoundKey, count: Count) -> bool:
        """
        Write the counts, in one transaction, then drop the table; False when another was quicker.

        Somebody may be reading the table, or it is large: so it is dropped on its own, or by a later `sweep`.
        """
        with self.sealing() as transaction:
            changed = transaction.execute(
                "UPDATE rounds SET state = 'sealed', reports = ? WHERE plan = ? AND version = ? AND round = ?"
                " AND state = 'closing' RETURNING id",
                *(count.reports, *key),
            )
            if not changed:
                return False
            number = changed[0][0]
            for tags, metric, reports, ones in counts_in_rows(count):
                transaction.execute(
                    "INSERT INTO counts (round_id, metric, tags, reports, ones) VALUES (?, ?, ?, ?, ?)",
                    *(number, metric, *(self.as_list(part) for part in (tags, reports, ones))),
                )
            transaction.execute("DELETE FROM steps WHERE round_id = ?", number)
            # Somebody whose clock is ahead may have written the day without this round.
            self._drop_results_of(transaction, key)
        with suppress(StoreError):
            self.drop_records(number)
        return True

    def sweep(self) -> None:
        """Drop the tables of sealed rounds that could not be dropped when they were sealed."""
        with self.reading() as transaction:
            tables = self.record_tables(transaction)
            unsealed = transaction.execute("SELECT id FROM rounds WHERE state IN ('open', 'closing')")
            known = transaction.execute("SELECT id FROM rounds")
        for number in sorted(tables & ({number for (number,) in known} - {number for (number,) in unsealed})):
            with suppress(StoreError):
                self.drop_records(number)

    def final(self, key: RoundKey) -> Count | None:
        """What a sealed round comes to; None when it is not sealed."""
        with self.reading() as transaction:
            rows = transaction.execute(
                "SELECT rounds.reports, tags, metric, counts.reports, ones"
                " FROM counts JOIN rounds ON rounds.id = round_id"
                " WHERE plan = ? AND version = ? AND round = ? AND state = 'sealed' ORDER BY tags, metric",
                *key,
            )
        if not rows:
            return None
        try:
            kept = (
                (unlisted(tags), metric, unlisted(reports), unlisted(ones))
                for _, tags, metric, reports, ones in rows
            )
            return Count(rows[0][0], counts_of_rows(self.layout(key).plan, kept))
        except (ParameterError, ValueError, TypeError, KeyError) as error:
            raise damaged(self.url, key, f"its counts cannot be read: {type(error).__name__}") from error

    def metric_counts(self, keys: Sequence[RoundKey], metric: str) -> dict[RoundKey, CountsByTags]:
        """The counts of one metric in those rounds that are sealed; no other metric is read."""
        by_version: dict[tuple[str, int], list[int]] = {}
        for key in keys:
            by_version.setdefault((key.plan, key.version), []).append(key.round)
        counts: dict[RoundKey, CountsByTags] = {}
        for (plan, version), numbers in by_version.items():
            for first in range(0, len(numbers), _ROUNDS_AT_ONCE):
                some = ",".join(str(int(number)) for number in numbers[first : first + _ROUNDS_AT_ONCE])
                with self.reading() as transaction:
                    rows = transaction.execute(
                        "SELECT round, tags, counts.reports, ones FROM rounds"  # noqa: S608
                        " JOIN counts ON round_id = rounds.id AND metric = ?"
                        f" WHERE plan = ? AND version = ? AND state = 'sealed' AND round IN ({some})",
                        *(metric, plan, version),
                    )
                for number, tags, reports, ones in rows:
                    key = RoundKey(plan, version, number)
                    try:
                        row = (unlisted(tags), metric, unlisted(reports), unlisted(ones))
                        counts.setdefault(key, {}).update(counts_of_rows(self.layout(key).plan, [row]))
                    except (ParameterError, ValueError, TypeError, KeyError) as error:
                        reason = f"its counts cannot be read: {type(error).__name__}"
                        raise damaged(self.url, key, reason) from error
        return counts

    # The table of results

    def written(self, plan: str) -> set[PeriodKey]:
        """The periods of a plan whose figures are all in the table."""
        with self.reading() as transaction:
            rows = transaction.execute(
                "SELECT version, every, start_time, end_time FROM periods WHERE plan = ?", plan
            )
        return {
            PeriodKey(plan, version, every, unix_seconds(start), unix_seconds(end))
            for version, every, start, end in rows
        }

    def put_results(self, period: PeriodKey, rows: Iterable[Mapping[str, object]]) -> None:
        """
        Put the figures of a finished period into the table, some at a time, and then say that all are there.

        Only one may write to SQLite at a time, so others get in between. Rows that are there stay as they are:
        whoever died in the middle, or writes the same beside this one, has written the same rows.
        """
        names = [column.name for column in COLUMNS]
        times = {column.name for column in COLUMNS if column.type == "timestamp"}
        for some in _figures_at_once(rows):
            places = ",".join([f"({','.join('?' * len(names))})"] * len(some))
            cells = [  # made before the transaction begins, in which others wait
                self.as_time(unix_seconds(str(row[name]))) if name in times else row[name]
                for row in some
                for name in names
            ]
            with self.sealing() as transaction:
                transaction.execute(
                    f"INSERT INTO results ({','.join(names)}) VALUES {places} ON CONFLICT DO NOTHING",  # noqa: S608
                    *cells,
                )
            time.sleep(_TURN_SECONDS)
        with self.sealing() as transaction:
            transaction.execute(
                "INSERT INTO periods (plan, version, every, start_time, end_time) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                *(*period[:3], self.as_time(period.start), self.as_time(period.end)),
            )

    def results(self, period: PeriodKey) -> list[dict[str, object]]:
        """The figures of a period that are in the table; times in ISO 8601, a segment as JSON text."""
        names = [column.name for column in COLUMNS]
        columns = ",".join("CAST(segment AS TEXT)" if name == "segment" else name for name in names)
        found: list[dict[str, object]] = []
        for metric in self.layout(RoundKey(period.plan, period.version, 0)).plan.metrics:
            with self.reading() as transaction:
                rows = transaction.execute(
                    f"SELECT {columns} FROM results WHERE plan = ? AND metric = ? AND every = ?"  # noqa: S608
                    " AND start_time = ? AND version = ? ORDER BY segment, bucket",
                    *(period.plan, metric.name, period.every, self.as_time(period.start), period.version),
                )
            for row in (dict(zip(names, cells, strict=True)) for cells in rows):
                row |= {name: time_text(unix_seconds(row[name])) for name in ("start_time", "end_time")}
                found.append(row | {"segment": segment_text(json.loads(row["segment"]))})
        return found

    def drop_results(self, period: PeriodKey) -> None:
        """Remove the figures of a period; what says that they are there goes first."""
        about = (period.version, period.plan, period.every, self.as_time(period.start))
        where = "version = ? AND plan = ? AND every = ? AND start_time = ?"
        with self.sealing() as transaction:
            transaction.execute(f"DELETE FROM periods WHERE {where}", *about)  # noqa: S608
        for metric in self.layout(RoundKey(period.plan, period.version, 0)).plan.metrics:
            with self.sealing() as transaction:
                transaction.execute(f"DELETE FROM results WHERE {where} AND metric = ?", *about, metric.name)  # noqa: S608

    def _drop_results_of(self, transaction: Transaction, key: RoundKey) -> None:
        """Remove the figures of every period that a round is in; what is left of the period is written again."""
        plan = self.layout(key).plan
        start = plan.round(key.round).start
        longest = {
            "round": plan.round_seconds,
            "window": plan.answers.window * plan.round_seconds,
            "day": 86_400,
            "week": 7 * 86_400,
            "month": 31 * 86_400,
        }
        where = (
            "plan = ? AND version = ? AND every = ? AND start_time > ? AND start_time <= ? AND end_time > ?"
        )
        for every, seconds in longest.items():
            times = map(self.as_time, (start - seconds, start, start))
            about = (key.plan, key.version, every, *times)
            transaction.execute(f"DELETE FROM periods WHERE {where}", *about)  # noqa: S608
            for metric in plan.metrics:  # each is a short part of the index
                transaction.execute(f"DELETE FROM results WHERE {where} AND metric = ?", *about, metric.name)  # noqa: S608

    def verify(self) -> list[str]:
        """What is wrong with the store, a sentence each; empty when all is well. Changes nothing."""
        with self.reading() as transaction:
            return list(problems_of(transaction, self.record_tables(transaction)))

    def repair(self, key: RoundKey, *, dry: bool) -> Repair | None:
        """Cut what is no whole record off a round's groups, and keep what it was in a table beside it."""
        layout, number = self.layout(key), 0
        try:
            with self.reading() if dry else self.writing() as transaction:
                number, state, reports = self._row(transaction, key) or (0, "pruned", 0)
                if state == "pruned":
                    return None
                if state == "sealed":
                    problems = list(problems_of_counts(transaction, layout.plan, number, reports))
                    return Repair("; ".join(problems), 0, "") if problems else None
                if number not in self.record_tables(transaction):
                    if not dry:
                        transaction.execute(self.records_table.format(number=number))
                    return lost(number)
                with self._damage_of(key):
                    repair = repair_of(transaction, number, layout)
                if repair is not None and not dry:
                    cut_to_readable(transaction, number, layout)
                return repair
        except DamagedError as error:
            return self.rebuild(number, layout, error.reason, dry)

    def rebuild(self, number: int, layout: Layout, reason: str, dry: bool) -> Repair:
        """What can be done about a table of which pages cannot be read."""
        return Repair(reason, 0, "")

    def prune(self, key: RoundKey) -> bool:
        """Remove a sealed round's counts, and what a repair kept; its row stays, so that it never opens again."""
        with self.writing() as transaction:
            rows = transaction.execute(
                "UPDATE rounds SET state = 'pruned', reports = 0 WHERE plan = ? AND version = ? AND round = ?"
                " AND state = 'sealed' RETURNING id",
                *key,
            )
            for (number,) in rows:
                transaction.execute("DELETE FROM counts WHERE round_id = ?", number)
                self._drop_results_of(transaction, key)
        for (number,) in rows:
            # A table with pages that cannot be read may not be dropped either; it belongs to nothing any more.
            with suppress(StoreError), self.writing() as transaction:
                transaction.execute(f"DROP TABLE IF EXISTS damaged_{number}")
        return bool(rows)


def _figures_at_once(rows: Iterable[Mapping[str, object]]) -> Iterator[list[Mapping[str, object]]]:
    """Rows, some at a time; the buckets of a histogram stay together."""
    some: list[Mapping[str, object]] = []
    for row in rows:
        if len(some) >= _RESULTS_AT_ONCE and row["bucket"] in (None, 0):
            yield some
            some = []
        some.append(row)
    if some:
        yield some


def _unseen(transaction: Transaction, table: str, seen: Seen, bad: Container[int]) -> list[Row]:
    """The next groups of a round that were not seen, up to some megabytes, with their numbers."""
    listed = transaction.execute(
        f"SELECT number, length(records) FROM {table} WHERE number > ? ORDER BY number LIMIT ?",  # noqa: S608
        *(seen.floor(""), _GROUPS_AT_ONCE),
    )
    chosen, size = [], 0
    for number, length in listed:
        if number not in bad and Span("", number, number) not in seen:
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
    return transaction.execute(f"SELECT number, records FROM {table} WHERE number {which} ORDER BY number")  # noqa: S608
