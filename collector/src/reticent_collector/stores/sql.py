"""What SQLite and PostgreSQL share: a backend in tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import ClassVar

from reticent.errors import ParameterError, StoreError
from reticent_collector.stores.backend import DamagedError, Repair, RoundGoneError, RoundInfo, damaged
from reticent_collector.stores.records import Count, CountsByTags, Layout, Records, RoundKey, counts_of_rows
from reticent_collector.stores.sorting import Sorting, count_once
from reticent_collector.stores.sql_tables import SqlTables
from reticent_collector.stores.sql_upkeep import (
    cut_to_readable,
    lost,
    note_repair,
    problems_of,
    problems_of_counts,
    repair_of,
    unlisted,
)
from reticent_collector.stores.transactions import SqlRow, Transaction

LATEST_ROUNDS = """
SELECT plan, version, round, state, reports FROM (
    SELECT *, row_number() OVER (PARTITION BY plan ORDER BY round DESC, version DESC) AS place FROM rounds
    WHERE state <> 'pruned'
) AS ranked
WHERE (? = '' OR plan = ?) AND place <= ?
ORDER BY plan, round DESC, version DESC
"""
UNSEALED = ("open", "closing")
_ROUND = "plan = ? AND version = ? AND round = ?"
_UNSEALED = "state IN ('open', 'closing')"
_BYTES_AT_ONCE, _GROUPS_AT_ONCE = 1 << 24, 20_000  # how much of a round is read in one transaction
_ROUNDS_AT_ONCE = 500  # rounds of which the counts of a metric are read in one transaction


class SqlBackend(SqlTables):
    """
    Rounds and counts in tables.

    A commit group is one row per round: records end to end, in arrival order. Each open round has a table of
    its own for them, which is dropped when the round is sealed.
    """

    scratch: str | None = None  #: a folder of this machine for large temporary files; None for the default
    records_table: ClassVar[str]  #: the statement that makes the table of round {number}

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._row_lock = ""  # makes a SELECT lock its row until the transaction ends

    @abstractmethod
    def is_damage(self, error: Exception) -> bool:
        """Whether an error means that a table is missing or unreadable."""

    @abstractmethod
    def drop_records(self, number: int) -> None:
        """Drop the table of a sealed round; raises `StoreError` when that would make others wait."""

    @abstractmethod
    def numbered_tables(self, transaction: Transaction, name: str) -> set[int]:
        """The numbers of the rounds that have a table `name`_N, or `name`_N_…"""

    def record_tables(self, transaction: Transaction) -> set[int]:
        """The numbers of all tables of records."""
        return self.numbered_tables(transaction, "records")

    # Open rounds

    def put(self, groups: Mapping[RoundKey, Records]) -> list[RoundKey]:
        """Append a group to each open round, all in one transaction; returns the rounds that took theirs."""
        stored = []
        with self.writing() as transaction:
            for key, records in groups.items():
                number = self._open_number(transaction, key)
                if number is None:
                    continue
                with self._damage_of(key):
                    insert = f"INSERT INTO records_{number} (records) VALUES (?)"  # noqa: S608
                    transaction.execute(insert, records.tobytes())
                stored.append(key)
        return stored

    @contextmanager
    def _damage_of(self, key: RoundKey) -> Iterator[None]:
        """Turn an error about the table of one round into `DamagedError` about that round."""
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

    def _row(self, transaction: Transaction, key: RoundKey) -> SqlRow | None:
        """
        A round's number, state and final reports.

        They do not change until the transaction ends: so an append that saw "open" commits before the round is
        closed, and the table of an open round is not dropped while it is read.
        """
        query = f"SELECT id, state, reports FROM rounds WHERE {_ROUND}{self._row_lock}"  # noqa: S608
        rows = transaction.execute(query, *key)
        return rows[0] if rows else None

    def records(self, key: RoundKey) -> Iterator[Records]:
        """
        The groups of a round that is not sealed, one by one; some megabytes are read in a transaction.

        Raises `RoundGoneError` when it is sealed or there is none, and `DamagedError` about a group that is cut off.
        """
        layout = self.layout(key)
        after = 0
        while True:
            with self.reading() as transaction:
                row = self._row(transaction, key)
                if row is None or row[1] not in UNSEALED:
                    raise RoundGoneError
                with self._damage_of(key):
                    rows = _next_groups(transaction, f"records_{row[0]}", after)
            if not rows:
                return
            for place, records in rows:
                try:
                    group = layout.array(records)
                except ParameterError as error:
                    raise damaged(self.url, key, f"group {place}: {error}") from None
                yield group
            after = rows[-1][0]

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of a plan, latest first, at most `last` of each plan; open ones with stored reports."""
        rows = self.read(LATEST_ROUNDS, plan or "", plan or "", 2**53 if last is None else last)
        infos = (RoundInfo(RoundKey(*key), state, reports) for *key, state, reports in rows)
        return [self._with_stored(info) if info.state in UNSEALED else info for info in infos]

    def _with_stored(self, info: RoundInfo) -> RoundInfo:
        """A round with the reports in its table; its row is locked, since it may be sealed by now."""
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
        query = f"SELECT plan, version, round FROM rounds WHERE {_UNSEALED} ORDER BY plan, version, round"  # noqa: S608
        return [RoundKey(*row) for row in self.read(query)]

    def step(self, key: RoundKey) -> tuple[int, str] | None:
        """The number and document of the latest step of a round that is not sealed; None before the first."""
        rows = self.read(
            "SELECT number, CAST(document AS TEXT) FROM steps JOIN rounds ON rounds.id = round_id"  # noqa: S608
            f" WHERE {_ROUND} ORDER BY number DESC LIMIT 1",
            *key,
        )
        return (int(rows[0][0]), str(rows[0][1])) if rows else None

    def put_step(self, key: RoundKey, number: int, document: str) -> None:
        """Store a step, unless another collector took it first, or the round is sealed."""
        with self.writing() as transaction:
            row = self._row(transaction, key)
            if row is not None and row[1] in UNSEALED:
                insert = (
                    "INSERT INTO steps (round_id, number, document) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
                )
                transaction.execute(insert, row[0], number, document)
                transaction.execute("DELETE FROM steps WHERE round_id = ? AND number < ?", row[0], number)

    # Sealing

    def claim(self, key: RoundKey) -> AbstractContextManager[bool]:
        """Always True: in a database a second count is cheap."""
        return nullcontext(True)

    def close_round(self, key: RoundKey) -> bool:
        """Begin to seal: waits for appends that are under way; later ones are late."""
        update = f"UPDATE rounds SET state = 'closing' WHERE {_ROUND} AND {_UNSEALED} RETURNING id"  # noqa: S608
        with self.sealing() as transaction:
            return bool(transaction.execute(update, *key))

    def count(self, key: RoundKey, *, skip_bad: bool = False) -> Count:
        """Count a round from its table, by sorting."""
        stored = self._with_stored(RoundInfo(key, "open", 0)).reports
        return count_once(self.layout(key), self.records(key), stored, Sorting(folder=self.scratch))

    def publish(self, key: RoundKey, count: Count) -> bool:
        """Write the counts in one transaction, then drop the table; False when another process was first."""
        with self.sealing() as transaction:
            changed = transaction.execute(
                f"UPDATE rounds SET state = 'sealed', reports = ? WHERE {_ROUND} AND state = 'closing' RETURNING id",  # noqa: S608
                *(count.reports, *key),
            )
            if not changed:
                return False
            number = changed[0][0]
            self._put_counts(transaction, key, number, count)
            transaction.execute("DELETE FROM steps WHERE round_id = ?", number)
            # A process whose clock is ahead may have written the day without this round.
            self.drop_results_of(transaction, key)
        with suppress(StoreError):
            self.drop_records(number)
        return True

    def _put_counts(self, transaction: Transaction, key: RoundKey, number: int, count: Count) -> None:
        """Store the counts of a round, but for metrics that were deleted."""
        deleted = self.deleted_until_done(transaction)
        for tags, metric, reports, ones in count.rows():
            if (key.plan, key.version, metric) in deleted:
                continue
            transaction.execute(
                "INSERT INTO counts (round_id, metric, tags, reports, ones) VALUES (?, ?, ?, ?, ?)",
                *(number, metric, *map(self.as_list, (tags, reports, ones))),
            )

    def pruned(self) -> list[RoundKey]:
        """The rounds whose counts were removed for ever."""
        query = "SELECT plan, version, round FROM rounds WHERE state = 'pruned' ORDER BY plan, version, round"
        return [RoundKey(*row) for row in self.read(query)]

    def put_sealed(self, key: RoundKey, count: Count | None) -> bool:
        """Make a round that is sealed with these counts, or pruned without; False when there is such a round."""
        window = self.layout(key).plan.round(key.round)
        state = "pruned" if count is None else "sealed"
        with self.sealing() as transaction:
            made = transaction.execute(
                "INSERT INTO rounds (plan, version, round, start_time, end_time, state, reports)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
                *(*key, self.as_time(window.start), self.as_time(window.end)),
                *(state, 0 if count is None else count.reports),
            )
            if not made:
                return False
            if count is not None:
                self._put_counts(transaction, key, made[0][0], count)
            self.drop_results_of(transaction, key)
        return True

    def sweep(self) -> None:
        """Drop the tables of sealed rounds that could not be dropped when they were sealed."""
        with self.reading() as transaction:
            tables = self.record_tables(transaction)
            sealed = transaction.execute("SELECT id FROM rounds WHERE state NOT IN ('open', 'closing')")
        for number in sorted(tables & {number for (number,) in sealed}):
            with suppress(StoreError):
                self.drop_records(number)

    def final(self, key: RoundKey) -> Count | None:
        """The counts of a sealed round; None when it is not sealed."""
        rows = self.read(
            "SELECT tags, metric, counts.reports, ones, rounds.reports"  # noqa: S608
            " FROM counts JOIN rounds ON rounds.id = round_id"
            f" WHERE {_ROUND} AND state = 'sealed' ORDER BY tags, metric",
            *key,
        )
        return Count(rows[0][4], self._counts_of(key, (row[:4] for row in rows))) if rows else None

    def metric_counts(self, keys: Sequence[RoundKey], metric: str) -> dict[RoundKey, CountsByTags]:
        """The counts of one metric in those of the rounds that are sealed; no other metric is read."""
        by_version: dict[tuple[str, int], list[int]] = {}
        for key in keys:
            by_version.setdefault((key.plan, key.version), []).append(key.round)
        counts: dict[RoundKey, CountsByTags] = {}
        for version, numbers in by_version.items():
            for first in range(0, len(numbers), _ROUNDS_AT_ONCE):
                some = ",".join(str(int(number)) for number in numbers[first : first + _ROUNDS_AT_ONCE])
                rows = self.read(
                    "SELECT round, tags, metric, counts.reports, ones FROM rounds"  # noqa: S608
                    " JOIN counts ON round_id = rounds.id AND metric = ?"
                    f" WHERE plan = ? AND version = ? AND state = 'sealed' AND round IN ({some})",
                    *(metric, *version),
                )
                for number, *row in rows:
                    key = RoundKey(*version, number)
                    counts.setdefault(key, {}).update(self._counts_of(key, [row]))
        return counts

    def _counts_of(self, key: RoundKey, rows: Iterable[Sequence[object]]) -> CountsByTags:
        """The counts of a sealed round, of rows with tags, metric, reports and ones."""
        try:
            return counts_of_rows(self.layout(key).plan, map(unlisted, rows))
        except (ParameterError, ValueError, TypeError, KeyError) as error:
            reason = f"its counts cannot be read: {type(error).__name__}"
            raise damaged(self.url, key, reason) from error

    # Upkeep

    @abstractmethod
    def give_back_space(self) -> None:
        """Make the store as small as what it holds; it needs as much room again until it is done."""

    def verify(self) -> list[str]:
        """The problems of the store, a sentence each; empty when there is none. Changes nothing."""
        with self.reading() as transaction:
            repaired = self.numbered_tables(transaction, "damaged")
            return list(problems_of(transaction, self.record_tables(transaction), repaired))

    def repair(self, key: RoundKey, *, dry: bool) -> Repair | None:
        """Cut incomplete records off a round's groups, and keep the original groups in a table beside it."""
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
                        note_repair(transaction, number)
                    return lost(number)
                with self._damage_of(key):
                    repair = repair_of(transaction, number, layout)
                if repair is not None and not dry:
                    cut_to_readable(transaction, number, layout)
                return repair
        except DamagedError as error:
            return self.rebuild(number, layout, error.reason, dry)

    def rebuild(self, number: int, layout: Layout, reason: str, dry: bool) -> Repair:
        """What can be done about a table with unreadable pages."""
        return Repair(reason, 0, "")

    def prune(self, key: RoundKey) -> bool:
        """Remove a sealed round's counts, and copies kept by a repair; its row stays, so it never opens again."""
        with self.writing() as transaction:
            rows = transaction.execute(
                f"UPDATE rounds SET state = 'pruned', reports = 0 WHERE {_ROUND} AND state = 'sealed' RETURNING id",  # noqa: S608
                *key,
            )
            for (number,) in rows:
                transaction.execute("DELETE FROM counts WHERE round_id = ?", number)
                self.drop_results_of(transaction, key)
        for (number,) in rows:
            for table in self.damaged_tables(number):
                # A table with unreadable pages may not be droppable either; nothing refers to it any more.
                with suppress(StoreError), self.writing() as transaction:
                    transaction.execute(f"DROP TABLE IF EXISTS {table}")
        return bool(rows)

    def damaged_tables(self, number: int) -> list[str]:
        """Where repairs of a round keep what they replaced; some may not exist."""
        return [f"damaged_{number}"]


def _next_groups(transaction: Transaction, table: str, after: int) -> list[SqlRow]:
    """The groups after a number, up to some megabytes, with their numbers."""
    listed = transaction.execute(
        f"SELECT number, length(records) FROM {table} WHERE number > ? ORDER BY number LIMIT ?",  # noqa: S608
        *(after, _GROUPS_AT_ONCE),
    )
    last = after
    size = 0
    for number, length in listed:
        last = number
        size += length
        if size >= _BYTES_AT_ONCE:
            break
    return transaction.execute(
        f"SELECT number, records FROM {table} WHERE number > ? AND number <= ? ORDER BY number",  # noqa: S608
        *(after, last),
    )
