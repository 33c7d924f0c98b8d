"""The embedded store: one SQLite file, nothing to install, one machine."""

from __future__ import annotations

import itertools
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from reticent.errors import StoreError
from reticent_collector.stores.backend import Repair
from reticent_collector.stores.migrations import check_version, upgrade
from reticent_collector.stores.records import Layout
from reticent_collector.stores.sql import SqlBackend
from reticent_collector.stores.sql_schema import SCHEMA_VERSION, SQLITE_RECORDS, SQLITE_TABLES, SQLITE_VIEWS
from reticent_collector.stores.sqlite_files import (
    PATIENCE,
    DatabaseFiles,
    SqliteConnections,
    WatchedConnections,
    connect,
    connect_unchanged,
    make_file,
)
from reticent_collector.stores.transactions import SqlRow, Transaction

APPLICATION_ID = 0x2E71CE01
OLDEST_SQLITE = (3, 35, 0)  # the first one with RETURNING

_SHORT_LOG = "PRAGMA wal_autocheckpoint = 64"  # a megabyte, where there is little room
_READERS = 8
_DROPPED_GROUPS, _DROPPED_BYTES = 1000, 1 << 22  # how much of a sealed round is dropped at a time
_MISSED = 1000  # a damaged table ends after so many numbers in a row without a readable group
_TURN_SECONDS = 0.002  # between two such transactions, so that a waiting append gets its turn


class SqliteBackend(SqlBackend):
    """
    A backend in one SQLite file: WAL, synchronous=FULL, one connection to write and several to read.

    The file is made with mode 0600. A file of another program or schema version is refused before anything is
    written to it. `readonly` makes no file, writes nothing, and leaves no log behind.

    On a full disk nothing is written, and nothing is lost. The write-ahead log itself may have filled it: so
    the first free space is used to move the log into the file, and from then on the log is kept short.
    """

    records_table = SQLITE_RECORDS
    views = SQLITE_VIEWS

    def __init__(self, path: str, *, readonly: bool = False) -> None:
        super().__init__("memory:" if path == ":memory:" else f"sqlite:///{path}")
        self._path = path
        self._readonly = readonly
        self._is_full = False
        self._files: DatabaseFiles | None = None
        if path != ":memory:":
            self.scratch = str(Path(path).absolute().parent)  # where there is room for a round
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreError(
                f"{self.url}: expected SQLite 3.35 or newer, got {sqlite3.sqlite_version}.\n"
                "  Hint: it comes with Python; use a newer build of it"
            )
        if readonly:
            if not Path(path).is_file():
                hint = "reticent serve and reticent keys create make a new one"
                raise StoreError(f"{self.url}: there is no such store.\n  Hint: {hint}")
            self._readers = SqliteConnections(lambda: connect_unchanged(path), "BEGIN", _READERS)
            self._writer = self._readers
            with self.reading() as transaction:
                self._check_ours(transaction.execute)
            return
        with self._errors("cannot be opened: "):
            in_memory = path == ":memory:"
            if not in_memory:
                make_file(Path(path))
                # Check before anything is written: another program's file is not changed.
                address = f"file:{quote(path)}?mode=ro"
                with closing(sqlite3.connect(address, uri=True, timeout=PATIENCE)) as file:
                    file.execute("BEGIN")  # one state of the file: another process may be making it
                    if _tables(file.execute):
                        self._check_ours(file.execute)
            writer = WatchedConnections(lambda: connect(path), "BEGIN IMMEDIATE", most=1)
            self._writer = writer
            self._readers = (
                self._writer if in_memory else SqliteConnections(lambda: connect(path), "BEGIN", _READERS)
            )
            with self._writer.transaction() as transaction:
                self._make_or_upgrade(transaction)
            if not in_memory:
                self._files = writer.files = DatabaseFiles(self.url, path, lambda: connect(path))

    def _check_ours(self, execute: Callable[[str], Iterable[SqlRow]]) -> None:
        """Refuse a file of another program or schema version."""
        ((application,),) = execute("PRAGMA application_id")
        ((version,),) = execute("PRAGMA user_version")
        if application != APPLICATION_ID:
            hint = "give the file that reticent serve uses" + ("" if self._readonly else ", or a new name")
            raise StoreError(f"{self.url}: is not a database of reticent; it was not changed\n  Hint: {hint}")
        check_version(self.url, version, readonly=self._readonly)

    def _make_or_upgrade(self, transaction: Transaction) -> None:
        """Make the tables, or bring those of an older version up to this one."""
        if _tables(transaction.execute):
            ((version,),) = transaction.execute("PRAGMA user_version")
            check_version(self.url, version, readonly=False)  # another process may have been first
            upgrade(self, transaction, version)
            return
        for statement in SQLITE_TABLES.split(";\n"):
            transaction.execute(statement)
        transaction.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.set_schema_number(transaction, SCHEMA_VERSION)

    def set_schema_number(self, transaction: Transaction, number: int) -> None:
        """Write the number of the schema into the head of the file."""
        transaction.execute(f"PRAGMA user_version = {number}")

    @contextmanager
    def _errors(self, doing: str = "") -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if self._readonly:
                raise StoreError(f"{self.url}: cannot be read: {error}") from error
            self._is_full |= getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            hint = ""
            if "not a database" in str(error):
                hint = "\n  Hint: give the file that reticent serve uses"
            elif "readonly" in str(error) or isinstance(error, PermissionError):
                hint = "\n  Hint: this user must be able to write the file and its folder"
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"{self.url}: {doing}{reason}{hint}") from error

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """A transaction that writes; durable once it ends. One at a time."""
        if self._readonly:
            raise StoreError(f"{self.url}: is opened read-only")
        was_full, self._is_full = self._is_full, False
        if was_full:
            # Move the log into the file if there is room; if there is none, this transaction fails.
            with suppress(sqlite3.Error), closing(connect(self._path)) as connection:
                connection.execute("PRAGMA busy_timeout = 100")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                if self._files is not None:
                    self._files.accept()
        with self._errors(), self._writer.transaction() as transaction:
            if was_full:
                transaction.execute(_SHORT_LOG)
            yield transaction

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction that sees one state of the file, while others read and write."""
        with self._errors(), self._readers.transaction() as transaction:
            yield transaction

    def ping(self) -> None:
        """Raise `StoreError` when the file cannot be written at the moment, or is not where it was."""
        with self.writing() as transaction:
            transaction.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the whole store into a new file of mode 0600, while it is being written; durable on return."""
        if self._path == ":memory:":
            raise StoreError("memory: has no file to copy; a backup is of a sqlite:/// store")
        copy = Path(path)
        if os.path.lexists(copy):
            raise StoreError(f"{copy}: already exists; a backup never overwrites")
        try:
            make_file(copy)
            with closing(connect(self._path)) as source, closing(sqlite3.connect(copy)) as target:
                source.backup(target)
        except (sqlite3.Error, OSError) as error:
            copy.unlink(missing_ok=True)
            raise StoreError(f"{copy}: backup failed: {error}") from error

    def give_back_space(self) -> None:
        """
        Make the file as small as what it holds; others wait meanwhile.

        It needs as much room again as the store holds, until it is done.
        """
        if self._path == ":memory:":
            return
        with self._errors("cannot be made smaller: "), closing(connect(self._path)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def is_damage(self, error: Exception) -> bool:
        """Whether an error means that a table is missing or unreadable."""
        code = getattr(error, "sqlite_errorcode", None)
        return code == sqlite3.SQLITE_CORRUPT or (
            isinstance(error, sqlite3.OperationalError) and "no such table" in str(error)
        )

    def drop_records(self, number: int) -> None:
        """Drop the table of a sealed round a few megabytes at a time, so that others write in between."""
        is_empty = False
        while not is_empty:
            with self.writing() as transaction:
                groups = transaction.execute(
                    f"SELECT number, length(records) FROM records_{number} ORDER BY number LIMIT ?",  # noqa: S608
                    _DROPPED_GROUPS,
                )
                ends = itertools.accumulate(length for _, length in groups)
                some = [place for (place, _), end in zip(groups, ends, strict=True) if end <= _DROPPED_BYTES]
                is_empty = not groups
                if is_empty:
                    transaction.execute(f"DROP TABLE records_{number}")
                else:
                    last = max(some, default=groups[0][0])
                    transaction.execute(f"DELETE FROM records_{number} WHERE number <= ?", last)  # noqa: S608
            time.sleep(_TURN_SECONDS)

    def rebuild(self, number: int, layout: Layout, reason: str, dry: bool) -> Repair:
        """Put the readable groups, one by one, into a new table, and keep the old one beside it."""
        kept = f"damaged_{number}_{len(self.damaged_tables(number))}"  # another one each time
        with self.reading() if dry else self.writing() as transaction:
            groups = self._readable(number, layout)  # on another connection: nothing else writes meanwhile
            if not dry:
                transaction.execute(f"ALTER TABLE records_{number} RENAME TO {kept}")
                transaction.execute(self.records_table.format(number=number))
                for place, records in groups.items():
                    transaction.execute(f"INSERT INTO records_{number} VALUES (?, ?)", place, records)  # noqa: S608
        return Repair(
            reason,
            sum(map(len, groups.values())) // layout.width,
            f"put the {len(groups)} readable groups into a new table, and keep the old one as {kept}",
        )

    def damaged_tables(self, number: int) -> list[str]:
        """Where repairs of a round keep what they replaced: groups in the first, whole tables in the others."""
        tables = self.read("SELECT name FROM sqlite_master WHERE name GLOB ?", f"damaged_{number}_*")
        return [*super().damaged_tables(number), *(table for (table,) in tables)]

    def _readable(self, number: int, layout: Layout) -> dict[int, bytes]:
        """The groups of a damaged table by number, each as far as it can be read."""
        groups: dict[int, bytes] = {}
        place, missed = 0, 0
        with self.reading() as transaction:
            while missed < _MISSED:
                place, missed = place + 1, missed + 1
                with suppress(sqlite3.DatabaseError):
                    query = f"SELECT records FROM records_{number} WHERE number = ?"  # noqa: S608
                    for (records,) in transaction.execute(query, place):
                        missed = 0
                        is_whole = len(records) % layout.width == 0
                        groups[place] = records if is_whole else layout.readable(records).tobytes()
        return {place: records for place, records in groups.items() if records}

    def numbered_tables(self, transaction: Transaction, name: str) -> set[int]:
        """The numbers of the rounds that have a table `name`_N, or `name`_N_…"""
        rows = transaction.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB ?", f"{name}_[0-9]*"
        )
        return {int(table.split("_")[1]) for (table,) in rows}

    def verify(self) -> list[str]:
        """The problems of the store, a sentence each; empty when there is none. Changes nothing."""
        # A reader does not wait until every index is compared.
        check = "quick_check(5)" if self._readonly else "integrity_check(20)"
        with self.reading() as transaction:
            damage = [f"damaged: {text}" for (text,) in transaction.execute(f"PRAGMA {check}")]
            loose = [] if self._readonly else transaction.execute("PRAGMA foreign_key_check")
        if damage != ["damaged: ok"]:
            return damage
        return [f"counts of round_id {row} belong to no round" for _, row, *_ in loose] + super().verify()

    def close(self) -> None:
        """Close the file."""
        self._readers.close()
        self._writer.close()
        if self._files is not None:
            self._files.close()


def _tables(execute: Callable[[str], Iterable[SqlRow]]) -> int:
    ((tables,),) = execute("SELECT count(*) FROM sqlite_master")
    return int(tables)
