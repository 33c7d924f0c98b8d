"""The shared store: PostgreSQL, for several collectors."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import quote

from reticent.errors import MissingPackageError, StoreError
from reticent_collector.stores.backend import StoreAwayError
from reticent_collector.stores.migrations import check_version, upgrade
from reticent_collector.stores.sql import SqlBackend
from reticent_collector.stores.sql_schema import (
    POSTGRES_RECORDS,
    POSTGRES_TABLES,
    POSTGRES_VIEWS,
    SCHEMA_VERSION,
)
from reticent_collector.stores.transactions import SqlRow, Transaction

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout
except ImportError as missing:
    raise MissingPackageError("reticent-collector[postgres]", "psycopg") from missing

# What the pool has to say reaches its users as exceptions; without a handler it would be written to stderr.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())

SCHEMA = "reticent"  # where the tables are, unless the address ends in ?schema=NAME
_MAKING = 0x2E71CE01  # the advisory lock that one collector holds while it makes the tables
_READERS = 8
_PLACE_SECONDS = 20.0  # to wait for a free connection
_LOOK_SECONDS = 0.1  # between two looks whether the server refused a connection that is waited for
_LOCK_MILLISECONDS = 100  # to wait for readers of a sealed round's table before it is left to a later sweep
_CONNECT_SECONDS = 5  # libpq's own limit
_MARGIN_SECONDS = 1.0  # in which a server reports that it cancelled a statement
_IDLE_SECONDS = 30  # after which the server undoes the transaction of a silent collector
_REFUSED_SECONDS = 3.0  # for which a failed write, with none that succeeded since, fails the ping
_SETTINGS = (  # required for durability, whatever the database or the role prefers
    "SET default_transaction_isolation TO 'read committed'",
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') = 'off'",
)

Returned = TypeVar("Returned")


class PostgresBackend(SqlBackend):
    """
    A backend in a PostgreSQL database that any number of collectors write at once.

    Every append locks the row of its round as shared, and sealing updates it: so what was appended before is
    counted, and what comes after is late. A collector knows the ids that it has seen; a report that two
    collectors stored is counted once when the round is sealed.

    No statement waits for a server that hangs for longer than `statement_seconds` and a little. A COMMIT may
    still happen when the server wakes up, after the same records were appended again: they are stored twice,
    and counted once.

    With `readonly` no tables are made, and the server itself refuses any change.
    """

    statement_seconds: ClassVar[float] = 10.0  #: the server's limit; a server that exceeds it is given up
    records_table = POSTGRES_RECORDS
    views = POSTGRES_VIEWS
    hold_deletions = "LOCK TABLE deleted IN SHARE MODE"

    def __init__(self, url: str, *, readonly: bool = False) -> None:
        url, self._schema = _with_schema(url)
        super().__init__(
            _without_password(url) + (f"?schema={self._schema}" if self._schema != SCHEMA else "")
        )
        self._address = url
        self._readonly = readonly
        self._row_lock = "" if readonly else " FOR SHARE"
        self._failed_at = -math.inf
        # Every transaction sets its schema, whatever the settings of the server or of a pool between.
        begin = f"BEGIN{' READ ONLY' if readonly else ''}; SET LOCAL search_path TO {self._schema}, pg_temp"
        opening = self._errors("cannot be opened: ", StoreAwayError)
        with opening, closing(_connect(url, self.statement_seconds)) as connection:
            self._make_or_upgrade(connection, begin)
        self._writer = _PooledConnections(url, self.statement_seconds, begin, 1)
        self._sealer = _PooledConnections(url, self.statement_seconds, begin, 1)
        self._readers = _PooledConnections(url, self.statement_seconds, begin, _READERS)

    def _make_or_upgrade(self, connection: _Connection, begin: str) -> None:
        """Make the tables, or bring those of an older version up to this one; one process at a time."""
        transaction = Transaction(partial(_execute, connection))
        transaction.execute(begin)
        if not self._readonly:
            # However long another process takes, and however long an upgrade takes.
            transaction.execute("SET LOCAL statement_timeout TO 0")
            connection.patience = math.inf
            transaction.execute("SELECT pg_advisory_xact_lock(?)", _MAKING)
        version = self._version(transaction)
        if version is not None:
            check_version(self.url, version, readonly=self._readonly)
            if not self._readonly:
                upgrade(self, transaction, version)
        elif self._readonly:
            raise StoreError(
                f"{self.url}: has no tables of reticent.\n"
                "  Hint: reticent serve and reticent keys create make them"
            )
        else:
            ((there,),) = transaction.execute("SELECT to_regnamespace(?) IS NOT NULL", self._schema)
            if not there:
                transaction.execute(f"CREATE SCHEMA {self._schema}")
            transaction.execute(POSTGRES_TABLES)
            transaction.execute("INSERT INTO schema_version (version) VALUES (?)", SCHEMA_VERSION)
        transaction.execute("COMMIT")

    def set_schema_number(self, transaction: Transaction, number: int) -> None:
        """Write the number of the schema into its table."""
        transaction.execute("UPDATE schema_version SET version = ?", number)

    def as_list(self, items: Sequence[object]) -> object:
        """A list as an array."""
        return list(items)

    def as_time(self, seconds: int) -> object:
        """A unix time as a timestamp."""
        return datetime.fromtimestamp(seconds, UTC)

    def _version(self, transaction: Transaction) -> int | None:
        """The version of the tables; None without tables. Up to version 2 they were in schema public."""
        for table in (f"{self._schema}.schema_version", "public.reticent_schema"):
            ((there,),) = transaction.execute("SELECT to_regclass(?) IS NOT NULL", table)
            if there:
                return int(transaction.execute(f"SELECT version FROM {table}")[0][0])  # noqa: S608
        return None

    @contextmanager
    def _errors(self, doing: str = "", kind: type[StoreError] = StoreError) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
                # An address that cannot be read is not shown: it may hold a password.
                reason = "expected postgresql://user:password@host/database, with special characters percent-encoded"
            if not isinstance(error, psycopg.OperationalError):
                kind = StoreError
            raise kind(f"{self.url}: {doing}{reason}") from None

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """A transaction that writes; durable once it ends. One at a time."""
        self._check_writable()
        try:
            with self._errors(), self._writer.transaction() as transaction:
                yield transaction
        except StoreError:
            self._failed_at = time.monotonic()
            raise
        self._failed_at = -math.inf

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction that only reads, while others read and write."""
        with self._errors(), self._readers.transaction() as transaction:
            yield transaction

    def ping(self) -> None:
        """Raise `StoreError` when the database cannot be reached, or a recent write failed, as on a full disk."""
        if time.monotonic() - self._failed_at < _REFUSED_SECONDS:
            raise StoreError(f"{self.url}: a recent write failed")
        with self.reading() as transaction:
            ((read_only,),) = transaction.execute("SELECT current_setting('transaction_read_only')")
            if read_only != "off":
                raise StoreError(f"{self.url}: is read-only at the moment")
            transaction.execute("SELECT pg_logical_emit_message(true, 'reticent', 'ping')")

    def writable(self) -> bool:
        """Whether the database takes writes from this user at the moment; nothing is written."""
        with self.reading() as transaction:
            ((standby, preferred, granted),) = transaction.execute(
                "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only'),"
                " has_table_privilege('rounds', 'INSERT')"
            )
        return not standby and preferred == "off" and bool(granted)

    @contextmanager
    def sealing(self) -> Iterator[Transaction]:
        """A transaction that closes or seals a round, on its own connection: it may wait for a row lock."""
        self._check_writable()
        with self._errors(), self._sealer.transaction() as transaction:
            yield transaction

    def _check_writable(self) -> None:
        if self._readonly:
            raise StoreError(f"{self.url}: is opened read-only")

    def is_damage(self, error: Exception) -> bool:
        """Whether an error means that a table is missing or unreadable."""
        errors = psycopg.errors
        return isinstance(error, errors.UndefinedTable | errors.DataCorrupted | errors.IndexCorrupted)

    def drop_records(self, number: int) -> None:
        """Drop the table of a sealed round, unless it is being read, as pg_dump does for minutes."""
        with self.sealing() as transaction:
            transaction.execute(f"SET LOCAL lock_timeout TO '{_LOCK_MILLISECONDS}ms'")
            transaction.execute(f"DROP TABLE IF EXISTS records_{number}")

    def give_back_space(self) -> None:
        """Make the tables of counts and results as small as what they hold; appends do not use them and go on."""
        self._check_writable()
        with (
            self._errors("cannot be made smaller: "),
            closing(_connect(self._address, math.inf)) as connection,
        ):
            for table in ("counts", "results", "comparisons", "periods"):
                _execute(connection, f"VACUUM (FULL, ANALYZE) {self._schema}.{table}")

    def numbered_tables(self, transaction: Transaction, name: str) -> set[int]:
        """The numbers of the rounds that have a table `name`_N, or `name`_N_…"""
        rows = transaction.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename ~ ?",
            f"^{name}_[0-9]+",
        )
        return {int(table.split("_")[1]) for (table,) in rows}

    def close(self) -> None:
        """Close the connections."""
        for connections in (self._readers, self._sealer, self._writer):
            connections.close()


class _SilentError(psycopg.OperationalError):
    """The server does not answer a statement."""


class _Connection(psycopg.Connection[SqlRow]):
    """A connection that waits for an answer for `patience` seconds at most."""

    patience = math.inf

    def wait(self, gen: Generator[Any, Any, Returned], *arguments: Any, **named: Any) -> Returned:
        return super().wait(_while_heard(gen, self.patience), *arguments, **named)

    @classmethod
    def connect(  # type: ignore[override]
        cls, conninfo: str = "", *, note_refusal: Callable[[psycopg.Error], None] | None = None, **named: Any
    ) -> Self:
        """A new connection; `note_refusal` is told why there is none."""
        try:
            return super().connect(conninfo, **named)
        except psycopg.Error as error:
            if note_refusal is not None:
                note_refusal(error)
            raise


def _while_heard(steps: Generator[Any, Any, Returned], patience: float) -> Generator[Any, Any, Returned]:
    """The steps of psycopg, which learn every 0.1 s whether there is data; given up when there is none."""
    heard = time.monotonic()
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if ready:
                heard = time.monotonic()
            elif time.monotonic() - heard > patience:
                raise _SilentError(f"no answer for {patience:g} s")
            wanted = steps.send(ready)
    except StopIteration as done:
        result: Returned = done.value
        return result


def _connect(url: str, statement_seconds: float) -> _Connection:
    connection = _Connection.connect(url, autocommit=True, connect_timeout=_CONNECT_SECONDS)
    try:
        _configure(connection, statement_seconds)
    except BaseException:
        connection.close()
        raise
    return connection


def _configure(connection: _Connection, statement_seconds: float) -> None:
    """Set what a transaction relies on, whatever the database or the role prefers."""
    connection.patience = statement_seconds + _MARGIN_SECONDS
    limit = 0 if math.isinf(statement_seconds) else round(statement_seconds * 1000)
    idle = f"SET idle_in_transaction_session_timeout TO '{_IDLE_SECONDS}s'"
    for statement in (*_SETTINGS, idle, f"SET statement_timeout TO {limit}"):
        connection.execute(statement)


def _execute(connection: _Connection, sql: str, *parameters: object) -> list[SqlRow]:
    query: Any = sql.replace("%", "%%").replace("?", "%s") if parameters else sql
    cursor = connection.execute(query, parameters or None, binary=bool(parameters))
    return cursor.fetchall() if cursor.description else []


class _PooledConnections:
    """
    Transactions on up to `most` connections of a pool; with one, transactions queue up.

    A connection that broke while idle (the server was restarted) is replaced before the transaction begins. The
    pool itself would let a transaction wait until the server is back: this one ends as soon as a connection is
    refused, with the server's reason.
    """

    def __init__(self, url: str, statement_seconds: float, begin: str, most: int) -> None:
        self._begin = begin
        self._refusals = 0
        self._refusal: psycopg.Error | None = None
        named = {
            "autocommit": True,
            "connect_timeout": _CONNECT_SECONDS,
            "note_refusal": self._note_refusal,
        }
        self._pool = ConnectionPool(
            url,
            connection_class=_Connection,
            kwargs=named,
            min_size=0,
            max_size=most,
            configure=lambda connection: _configure(connection, statement_seconds),
            reconnect_timeout=0,  # what is refused is tried again by the next transaction
            num_workers=1,
            open=True,
        )

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction: committed at the end, undone when an exception leaves it."""
        connection = self._begun()
        try:
            yield Transaction(partial(_execute, connection))
            self.commit(connection)
        finally:
            self._pool.putconn(connection)  # undoes what is not committed, and closes what hangs

    def commit(self, connection: _Connection) -> None:
        """Make the transaction durable."""
        connection.execute("COMMIT")

    def close(self) -> None:
        """Close every connection: at once, or when its transaction ends."""
        self._pool.close()

    def _begun(self) -> _Connection:
        """A connection in a transaction."""
        connection = self._taken()
        try:
            connection.execute(self._begin)
        except BaseException:
            is_broken = connection.closed
            self._pool.putconn(connection)
            if not is_broken:
                raise
        else:
            return connection
        self._pool.check()  # the server was restarted: it closed the other idle connections too
        connection = self._taken()
        try:
            connection.execute(self._begin)
        except BaseException:
            self._pool.putconn(connection)
            raise
        return connection

    def _taken(self) -> _Connection:
        """A connection of the pool, as soon as one is free."""
        refusals = self._refusals
        deadline = time.monotonic() + _PLACE_SECONDS
        while True:
            try:
                return self._pool.getconn(timeout=_LOOK_SECONDS)
            except PoolClosed:
                raise StoreError("the store was closed") from None
            except PoolTimeout:
                if self._refusals > refusals and self._refusal is not None:
                    raise self._refusal.with_traceback(None) from None
                if time.monotonic() > deadline:
                    message = f"busy: no connection became free within {_PLACE_SECONDS:g} s"
                    raise StoreError(message) from None

    def _note_refusal(self, error: psycopg.Error) -> None:
        self._refusal = error
        self._refusals += 1


def _with_schema(url: str) -> tuple[str, str]:
    """An address without its parameter `schema`, which libpq does not know, and the schema."""
    address, _, query = url.partition("?")
    parameters = [part for part in query.split("&") if part]
    named = [part.removeprefix("schema=") for part in parameters if part.startswith("schema=")]
    schema = named[-1] if named else SCHEMA
    if not re.fullmatch("[a-z_][a-z0-9_]{0,62}", schema):
        raise StoreError(
            f"{_without_password(address)}: schema: expected small letters, digits and _, got {schema[:63]}"
        )
    others = "&".join(part for part in parameters if not part.startswith("schema="))
    return address + (f"?{others}" if others else ""), schema


def _without_password(url: str) -> str:
    """User, host, port and database of an address, and nothing else: a password can be anywhere in it."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        return "postgresql:"
    user, host, port, database = (str(parts.get(name) or "") for name in ("user", "host", "port", "dbname"))
    if "@" in user + host + port + database:
        return "postgresql:"
    place = f"{quote(host, safe='')}{f':{port}' if port else ''}"
    return f"postgresql://{f'{quote(user)}@' if user else ''}{place}/{quote(database)}"
