"""The embedded store: one SQLite file, nothing to install, one machine."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.errors import StoreError
from tacit.stores.sql import SCHEMA_VERSION, Row, SqlStore, Transaction

APPLICATION_ID = 0x7AC17C01

SCHEMA = """
CREATE TABLE plan (                -- every plan ever served, as it was written
    name    TEXT NOT NULL,
    version INTEGER NOT NULL,
    text    TEXT NOT NULL,         -- plan.toml
    PRIMARY KEY (name, version)
);
CREATE TABLE round (               -- rounds that got at least one report
    id      INTEGER PRIMARY KEY,   -- names the table of its records
    plan    TEXT NOT NULL,
    version INTEGER NOT NULL,
    round   INTEGER NOT NULL,      -- unix seconds / round length
    state   TEXT NOT NULL,         -- open, closing (being counted), sealed
    reports INTEGER NOT NULL,      -- distinct reports, once sealed
    UNIQUE (plan, version, round)
);
CREATE TABLE counts (              -- sealed rounds; never changed
    round_id INTEGER NOT NULL REFERENCES round (id),
    tags     TEXT NOT NULL,        -- JSON list, one public tag per segment of the plan
    metric   TEXT NOT NULL,
    reports  TEXT NOT NULL,        -- JSON list per row: reports that speak of it
    ones     TEXT NOT NULL,        -- JSON list per row: how many of them said 1
    PRIMARY KEY (round_id, tags, metric)
) WITHOUT ROWID;
CREATE TABLE key (                 -- who may write, read or administer
    id         TEXT PRIMARY KEY,   -- public part
    role       TEXT NOT NULL,      -- ingest, reader, admin
    hash       BLOB NOT NULL,      -- SHA-256 of the whole key
    label      TEXT NOT NULL,
    created_at INTEGER NOT NULL,   -- unix seconds
    revoked_at INTEGER             -- unix seconds, or NULL
);
"""


class SqliteStore(SqlStore):
    """A store in one SQLite file: WAL, synchronous=FULL, a connection to write and one to read."""

    records_table = "number INTEGER PRIMARY KEY, records BLOB NOT NULL"

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._write_lock, self._read_lock = threading.RLock(), threading.RLock()
        try:
            if path != ":memory:":
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._connect()
            self._reader = self._writer if path == ":memory:" else self._connect()
            if path == ":memory:":
                self._read_lock = self._write_lock
            self._prepare()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.url}: cannot be opened: {error}") from error

    @property
    def url(self) -> str:
        """The address of the store."""
        return "memory:" if self._path == ":memory:" else f"sqlite:///{self._path}"

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=10, isolation_level=None, check_same_thread=False)
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            "wal_autocheckpoint = 4000",
        ):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _prepare(self) -> None:
        ((version,),) = self._writer.execute("PRAGMA user_version")
        ((application,),) = self._writer.execute("PRAGMA application_id")
        ((tables,),) = self._writer.execute("SELECT count(*) FROM sqlite_master")
        if tables and application != APPLICATION_ID:
            raise StoreError(f"{self.url}: is another program's database")
        if tables and version != SCHEMA_VERSION:
            raise StoreError(
                f"{self.url}: has schema version {version}, this tacit knows {SCHEMA_VERSION}.\n"
                "  Hint: tacit store migrate brings an older one up to date; a newer one needs a newer tacit"
            )
        if not tables:
            with self.writing() as transaction:
                for statement in SCHEMA.split(";\n"):
                    if statement.strip():
                        transaction.execute(statement)
                transaction.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                transaction.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """A transaction that changes something; durable once it ends."""
        with self._write_lock:
            yield from _transaction(self._writer, "BEGIN IMMEDIATE", self.url)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction that sees one state of the database."""
        with self._read_lock:
            yield from _transaction(self._reader, "BEGIN", self.url)

    def ping(self) -> None:
        """Raise `StoreError` when the file cannot be written just now."""
        with self.writing():
            pass

    def backup(self, path: Path) -> None:
        """Copy the whole store into a new file, while it is being written."""
        if path.exists():
            raise StoreError(f"{path}: is there already; a backup never overwrites")
        try:
            target = sqlite3.connect(path)
            with self._read_lock:
                self._reader.backup(target)
            target.close()
        except sqlite3.Error as error:
            raise StoreError(f"{path}: backup failed: {error}") from error

    def close(self) -> None:
        """Let go of the file."""
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()


class _SqliteTransaction(Transaction):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *parameters: object) -> list[Row]:
        return self._connection.execute(sql, parameters).fetchall()

    def stream(self, sql: str, *parameters: object) -> Iterator[Row]:
        yield from self._connection.execute(sql, parameters)


def _transaction(connection: sqlite3.Connection, begin: str, url: str) -> Iterator[Transaction]:
    try:
        if connection.in_transaction:
            yield _SqliteTransaction(connection)
            return
        connection.execute(begin)
        try:
            yield _SqliteTransaction(connection)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise StoreError(f"{url}: {error}") from error
