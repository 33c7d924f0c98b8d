"""The shared store: PostgreSQL, for several collectors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tacit.errors import MissingExtraError, StoreError
from tacit.stores.sql import SCHEMA_VERSION, Row, SqlStore, Transaction

try:
    import psycopg
except ImportError as missing:
    raise MissingExtraError("postgres", "psycopg") from missing

MIGRATIONS = [
    """
    CREATE TABLE plan (
        name    TEXT NOT NULL,
        version BIGINT NOT NULL,
        text    TEXT NOT NULL,
        PRIMARY KEY (name, version)
    );
    COMMENT ON TABLE plan IS 'Every plan ever served, as it was written';
    COMMENT ON COLUMN plan.text IS 'plan.toml';
    CREATE TABLE round (
        id      BIGSERIAL PRIMARY KEY,
        plan    TEXT NOT NULL,
        version BIGINT NOT NULL,
        round   BIGINT NOT NULL,
        state   TEXT NOT NULL,
        reports BIGINT NOT NULL,
        UNIQUE (plan, version, round)
    );
    COMMENT ON TABLE round IS 'Rounds that got at least one report';
    COMMENT ON COLUMN round.id IS 'Names the table of its records, which exists until it is sealed';
    COMMENT ON COLUMN round.round IS 'Unix seconds / round length';
    COMMENT ON COLUMN round.state IS 'open, closing (being counted), sealed';
    COMMENT ON COLUMN round.reports IS 'Distinct reports, once sealed';
    CREATE TABLE counts (
        round_id BIGINT NOT NULL REFERENCES round (id),
        tags     TEXT NOT NULL,
        metric   TEXT NOT NULL,
        reports  TEXT NOT NULL,
        ones     TEXT NOT NULL,
        PRIMARY KEY (round_id, tags, metric)
    );
    COMMENT ON TABLE counts IS 'Sealed rounds; never changed';
    COMMENT ON COLUMN counts.tags IS 'JSON list, one public tag per segment of the plan';
    COMMENT ON COLUMN counts.reports IS 'JSON list per row: reports that speak of it';
    COMMENT ON COLUMN counts.ones IS 'JSON list per row: how many of them said 1';
    CREATE TABLE key (
        id         TEXT PRIMARY KEY,
        role       TEXT NOT NULL,
        hash       BYTEA NOT NULL,
        label      TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        revoked_at BIGINT
    );
    COMMENT ON TABLE key IS 'Who may write, read or administer';
    COMMENT ON COLUMN key.id IS 'Public part of the key';
    COMMENT ON COLUMN key.role IS 'ingest, reader, admin';
    COMMENT ON COLUMN key.hash IS 'SHA-256 of the whole key';
    COMMENT ON COLUMN key.created_at IS 'Unix seconds';
    COMMENT ON COLUMN key.revoked_at IS 'Unix seconds, or NULL while it is active';
    """,
]
"""Each brings the schema one version further."""

_MIGRATING = 0x7AC17C01
"""The advisory lock that one collector holds while it migrates."""


class PostgresStore(SqlStore):
    """
    A store in a PostgreSQL database that any number of collectors write at once.

    The row of a round is held shared by every append and changed by the one who seals: so whatever was
    appended before is counted, and whatever comes after is late. Ids are known to each collector only as far
    as it has seen them; what two collectors stored twice is counted once when the round is sealed.
    """

    records_table = "number BIGSERIAL PRIMARY KEY, records BYTEA NOT NULL"
    shared_lock = " FOR SHARE"
    lookback = 1000

    def __init__(self, url: str) -> None:
        super().__init__()
        self._dsn = url
        self._writer, self._reader = _Connection(url), _Connection(url)
        try:
            self._migrate()
        except psycopg.Error as error:
            raise StoreError(f"{self.url}: cannot be opened: {_reason(error)}") from error

    @property
    def url(self) -> str:
        """The address of the store, without a password."""
        parts = urlsplit(self._dsn)
        place = parts.netloc.rsplit("@", 1)[-1]
        user = f"{parts.username}@" if parts.username else ""
        return urlunsplit(("postgresql", user + place, parts.path, "", ""))

    def _migrate(self) -> None:
        with self.writing() as transaction:
            transaction.execute("SELECT pg_advisory_xact_lock(?)", _MIGRATING)
            transaction.execute("CREATE TABLE IF NOT EXISTS tacit_schema (version BIGINT NOT NULL)")
            rows = transaction.execute("SELECT version FROM tacit_schema")
            version = rows[0][0] if rows else 0
            if version > SCHEMA_VERSION:
                raise StoreError(
                    f"{self.url}: has schema version {version}, this tacit knows {SCHEMA_VERSION}.\n"
                    "  Hint: a newer schema needs a newer tacit"
                )
            for migration in MIGRATIONS[version:]:
                transaction.execute(migration)
            if not rows:
                transaction.execute("INSERT INTO tacit_schema (version) VALUES (?)", SCHEMA_VERSION)
            elif version < SCHEMA_VERSION:
                transaction.execute("UPDATE tacit_schema SET version = ?", SCHEMA_VERSION)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """A transaction that changes something; durable once it ends."""
        with self._writer.transaction(self.url) as transaction:
            yield transaction

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction that sees one state of the database."""
        with self._reader.transaction(self.url) as transaction:
            yield transaction

    def ping(self) -> None:
        """Raise `StoreError` when the database cannot be reached just now."""
        with self.reading() as transaction:
            transaction.execute("SELECT 1")

    def close(self) -> None:
        """Let go of the connections."""
        self._writer.close()
        self._reader.close()


class _Connection:
    """A connection that is made anew after a fault, used by one thread at a time."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: psycopg.Connection[Row] | None = None
        self._lock = threading.RLock()
        self._depth = 0

    @contextmanager
    def transaction(self, url: str) -> Iterator[Transaction]:
        with self._lock:
            try:
                connection = self._connected()
                if self._depth:
                    yield _PostgresTransaction(connection)
                    return
                self._depth += 1
                try:
                    with connection.transaction():
                        yield _PostgresTransaction(connection)
                finally:
                    self._depth -= 1
            except psycopg.Error as error:
                if self._connection is not None and self._connection.broken:
                    self._connection = None
                raise StoreError(f"{url}: {_reason(error)}") from error

    def _connected(self) -> psycopg.Connection[Row]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._dsn, autocommit=True, connect_timeout=5)
        return self._connection

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()


class _PostgresTransaction(Transaction):
    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def execute(self, sql: str, *parameters: object) -> list[Row]:
        cursor = self._connection.execute(sql.replace("?", "%s"), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def stream(self, sql: str, *parameters: object) -> Iterator[Row]:
        with self._connection.cursor(name="tacit_stream") as cursor:
            cursor.itersize = 256
            query: Any = sql.replace("?", "%s")
            yield from cursor.execute(query, parameters)


def _reason(error: psycopg.Error) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
