"""The embedded store: one SQLite file, nothing to install, one machine."""

from __future__ import annotations

import itertools
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from reticent.errors import StoreError
from reticent.stores.pool import Connections, Row, Transaction
from reticent.stores.records import Layout
from reticent.stores.sql import SqlBackend
from reticent.stores.sql_schema import SCHEMA_VERSION, SQLITE_RECORDS, SQLITE_TABLES, other_version
from reticent.stores.sqlite_files import DatabaseFiles
from reticent.stores.store import Repair

APPLICATION_ID = 0x2E71CE01
OLDEST_SQLITE = (3, 35, 0)  # the first one with RETURNING

PRAGMAS = (
    "synchronous = FULL",
    "foreign_keys = ON",
    "wal_autocheckpoint = 1000",
    "journal_size_limit = 67108864",
)
_SHORT_LOG = "PRAGMA wal_autocheckpoint = 250"  # a megabyte, where there is little room
_PATIENCE = 10.0  # seconds to wait for another process that writes
_READERS = 8
_DROPPED_GROUPS, _DROPPED_BYTES = 1000, 1 << 22  # how much of a sealed round is dropped at a time
_MISSED = 1000  # numbers in a row without a group that can be read, after which a damaged table has no more
_TURN_SECONDS = 0.002  # between two such times: whoever waits to append is next


class SqliteBackend(SqlBackend):
    """
    A backend in one SQLite file: WAL, synchronous=FULL, a connection to write and some to read.

    The file is made with mode 0600. A file that is not reticent's, or of another schema version, is refused
    before anything is written to it. `readonly` makes no file, writes nothing, and leaves no log behind.

    On a full disk nothing is written, and nothing is lost. The write-ahead log alone may have filled it: so
    the first use of a little room is to empty the log into the file, and from then on the log is kept short.
    """

    records_table = SQLITE_RECORDS

    def __init__(self, path: str, *, readonly: bool = False) -> None:
        super().__init__()
        self._path = path
        self._readonly = readonly
        self._is_full = False
        self._files: DatabaseFiles | None = None
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreError(
                f"{self.url}: expected SQLite 3.35 or newer, got {sqlite3.sqlite_version}.\n"
                "  Hint: it comes with Python; use a newer build of it"
            )
        if readonly:
            self._open_readonly()
            return
        with self._errors("cannot be opened: "):
            in_memory = path == ":memory:"
            if not in_memory:
                _make_file(Path(path))
                # Look before anything is written: another program's file stays as it is.
                with closing(
                    sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=_PATIENCE)
                ) as file:
                    file.execute("BEGIN")  # one state of the file: another process may be making it just now
                    version, application, tables = _described(lambda sql: file.execute(sql).fetchall())
                if tables and application != APPLICATION_ID:
                    raise StoreError(
                        f"{self.url}: is another program's database; it was left as it is\n"
                        "  Hint: give the file that reticent serve uses, or a name for a new one"
                    )
                if tables and version != SCHEMA_VERSION:
                    raise StoreError(other_version(self.url, version))
            writer = _Writer(lambda: _connected(path), "BEGIN IMMEDIATE", most=1)
            self._writer: _SqliteConnections = writer
            self._readers = (
                self._writer if in_memory else _SqliteConnections(lambda: _connected(path), "BEGIN", _READERS)
            )
            with self._writer.transaction() as transaction:
                # Make the tables of an empty file, unless another process was quicker.
                if not _described(transaction.execute)[2]:
                    for statement in SQLITE_TABLES.split(";\n"):
                        transaction.execute(statement)
                    transaction.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    transaction.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            if not in_memory:
                self._files = writer.files = DatabaseFiles(self.url, path, lambda: _connected(path))

    def _open_readonly(self) -> None:
        """Look at a file that is there, and refuse what is not a store; nothing is made or changed."""
        if not Path(self._path).is_file():
            raise StoreError(
                f"{self.url}: there is no such store.\n"
                "  Hint: reticent serve and reticent keys create make a new one"
            )
        self._writer = self._readers = _SqliteConnections(lambda: _unchanged(self._path), "BEGIN", _READERS)
        with self.reading() as transaction:
            version, application, _ = _described(transaction.execute)
        if application != APPLICATION_ID:
            raise StoreError(
                f"{self.url}: is not a store of reticent.\n  Hint: give the file that reticent serve uses"
            )
        if version != SCHEMA_VERSION:
            raise StoreError(other_version(self.url, version))

    @property
    def url(self) -> str:
        """The address of the store."""
        return "memory:" if self._path == ":memory:" else f"sqlite:///{self._path}"

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
            elif "readonly" in str(error):
                hint = "\n  Hint: this user must be able to write the file and its folder"
            raise StoreError(f"{self.url}: {doing}{error}{hint}") from error

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """A transaction that changes something; durable once it ends. One at a time."""
        if self._readonly:
            raise StoreError(f"{self.url}: was opened to be read only")
        was_full, self._is_full = self._is_full, False
        if was_full:
            # Write the log into the file if there is room; whether there was, this transaction finds out.
            with suppress(sqlite3.Error), closing(_connected(self._path)) as connection:
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
        """A transaction that sees one state of the file, beside which others read and write."""
        with self._errors(), self._readers.transaction() as transaction:
            yield transaction

    def ping(self) -> None:
        """Raise `StoreError` when the file cannot be written just now, or is not where it was."""
        with self.writing() as transaction:
            transaction.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the whole store into a new file of mode 0600, while it is being written; durable on return."""
        if self._path == ":memory:":
            raise StoreError("memory: has no file to copy; a backup is of a sqlite:/// store")
        copy = Path(path)
        if os.path.lexists(copy):
            raise StoreError(f"{copy}: is there already; a backup never overwrites")
        try:
            _make_file(copy)
            with closing(_connected(self._path)) as source, closing(sqlite3.connect(copy)) as target:
                source.backup(target)
        except (sqlite3.Error, OSError) as error:
            copy.unlink(missing_ok=True)
            raise StoreError(f"{copy}: backup failed: {error}") from error

    def is_damage(self, error: Exception) -> bool:
        """Whether an error says that a table is not there, or cannot be read."""
        code = getattr(error, "sqlite_errorcode", None)
        return code == sqlite3.SQLITE_CORRUPT or (
            isinstance(error, sqlite3.OperationalError) and "no such table" in str(error)
        )

    def drop_records(self, number: int) -> None:
        """
        Drop the table of a sealed round, a few megabytes at a time.

        Only one may write at a time, and to drop a large table takes seconds: so others get in between.
        """
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
        """Put the groups that can be read, one by one, into a new table, and keep the old one beside it."""
        with self.reading() if dry else self.writing() as transaction:
            groups = self._readable(number, layout)  # on another connection: nobody else writes meanwhile
            if not dry:
                transaction.execute(f"ALTER TABLE records_{number} RENAME TO damaged_{number}")
                transaction.execute(self.records_table.format(number=number))
                for place, records in groups.items():
                    transaction.execute(f"INSERT INTO records_{number} VALUES (?, ?)", place, records)  # noqa: S608
        return Repair(
            reason,
            sum(map(len, groups.values())) // layout.width,
            f"put the {len(groups)} groups that can be read into a new table, and keep the old one as damaged_{number}",
        )

    def _readable(self, number: int, layout: Layout) -> dict[int, bytes]:
        """The groups of a table, each as far as it can be read, by their numbers, of which few are left out."""
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

    def record_tables(self, transaction: Transaction) -> set[int]:
        """The numbers of all tables of records."""
        rows = transaction.execute(
            "SELECT substr(name, 9) FROM sqlite_master WHERE type = 'table' AND name GLOB 'records_[0-9]*'"
        )
        return {int(number) for (number,) in rows}

    def verify(self) -> list[str]:
        """What is wrong with the store, a sentence each; empty when all is well. Changes nothing."""
        # Who only looks is not made to wait for every index to be compared.
        check = "quick_check(5)" if self._readonly else "integrity_check(20)"
        with self.reading() as transaction:
            damage = [f"damaged: {text}" for (text,) in transaction.execute(f"PRAGMA {check}")]
            loose = [] if self._readonly else transaction.execute("PRAGMA foreign_key_check")
        if damage != ["damaged: ok"]:
            return damage
        return [f"counts of round_id {row} belong to no round" for _, row, *_ in loose] + super().verify()

    def close(self) -> None:
        """Let go of the file."""
        self._readers.close()
        self._writer.close()
        if self._files is not None:
            self._files.close()


class _SqliteConnections(Connections[sqlite3.Connection]):
    def __init__(self, connect: Callable[[], sqlite3.Connection], begin: str, most: int) -> None:
        super().__init__(most)
        self._connect, self._begin = connect, begin

    def connect(self) -> sqlite3.Connection:
        return self._connect()

    def begin(self, connection: sqlite3.Connection) -> Transaction:
        connection.execute(self._begin)
        return _SqliteTransaction(connection)

    def commit(self, connection: sqlite3.Connection) -> None:
        # Who only reads has nothing to keep; and COMMIT would repeat the error of a page that cannot be read.
        connection.execute("ROLLBACK" if self._begin == "BEGIN" else "COMMIT")

    def roll_back(self, connection: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def usable(self, connection: sqlite3.Connection) -> bool:
        return not connection.in_transaction

    def disconnect(self, connection: sqlite3.Connection) -> None:
        connection.close()


class _Writer(_SqliteConnections):
    """The connection to write with: nothing that it commits is acknowledged unless the files are in place."""

    files: DatabaseFiles | None = None

    def begin(self, connection: sqlite3.Connection) -> Transaction:
        transaction = super().begin(connection)
        if self.files is not None:
            try:
                self.files.check_unchanged(connection)
            except BaseException:
                self.roll_back(connection)
                raise
        return transaction

    def commit(self, connection: sqlite3.Connection) -> None:
        super().commit(connection)
        if self.files is not None:
            self.files.check_named()
            self.files.accept()


class _SqliteTransaction(Transaction):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *parameters: object) -> list[Row]:
        return self._connection.execute(sql, parameters).fetchall()


def _connected(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        mode = _write_ahead(connection)
        if mode not in ("wal", "memory"):
            raise sqlite3.OperationalError(f"expected a file system that can do WAL, got {mode}")
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def _unchanged(path: str) -> sqlite3.Connection:
    """
    A connection that leaves a file, and the folder it is in, as they are.

    While another program has the file open its log is beside it, and is read too. Otherwise the file is all
    there is, and SQLite is told so: else it would make an index of a log that does not exist.
    """
    how = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
    return sqlite3.connect(
        f"file:{quote(path)}?{how}", uri=True, timeout=2.0, isolation_level=None, check_same_thread=False
    )


def _write_ahead(connection: sqlite3.Connection) -> str:
    """Turn WAL on; SQLite does not wait by itself when two processes do that to a new file at once."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return str(mode)


def _described(execute: Callable[[str], list[Row]]) -> tuple[int, int, int]:
    """Schema version, whose file it is, and how many tables it has."""
    ((version,),) = execute("PRAGMA user_version")
    ((application,),) = execute("PRAGMA application_id")
    ((tables,),) = execute("SELECT count(*) FROM sqlite_master")
    return version, application, tables


def _make_file(path: Path) -> None:
    """An empty file for its owner alone. One that is there is not opened: closing it would drop its locks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
