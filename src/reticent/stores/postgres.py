"""The shared store: PostgreSQL, for several collectors."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote

from reticent.errors import MissingExtraError, StoreError
from reticent.stores.pool import Connections, Row, Transaction
from reticent.stores.sql import SqlBackend
from reticent.stores.sql_schema import POSTGRES_RECORDS, POSTGRES_TABLES, SCHEMA_VERSION, other_version
from reticent.stores.store import StoreAwayError

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import TransactionStatus
except ImportError as missing:
    raise MissingExtraError("postgres", "psycopg") from missing

SCHEMA = "reticent"  # where the tables are, unless the address ends in ?schema=NAME
_MAKING = 0x2E71CE01  # the advisory lock that one collector holds while it makes the tables
_READERS = 8
_LOCK_MILLISECONDS = 100  # to wait for those who read the table of a sealed round before it is dropped later
_CONNECT_SECONDS = 5  # to connect; libpq's own limit
_MARGIN_SECONDS = 1.0  # in which a server that cuts a statement short says so
_IDLE_SECONDS = 30
"""After which the server undoes the transaction of a collector that has gone silent, and frees its rows."""
_REFUSED_SECONDS = 3.0
"""For which a write that failed, and none that worked since, says that the database cannot be written."""
_SETTINGS = (
    "SET default_transaction_isolation TO 'read committed'",
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') = 'off'",
)
"""What the law of the store needs, whatever the database or the role prefers."""

Result = TypeVar("Result")


class PostgresBackend(SqlBackend):
    """
    A backend in a PostgreSQL database that any number of collectors write at once.

    The row of a round is held shared by every append and changed by the one who seals: so whatever was
    appended before is counted, and whatever comes after is late. Ids are known to each collector only as far
    as it has seen them; what two collectors stored twice is counted once when the round is sealed.

    A server that hangs is a fault like any other: nobody waits for it for longer than `statement_seconds`
    and a little. If it was a COMMIT, it may happen after all when the server wakes up, and by then the same
    records may have been appended again: once more stored twice, and counted once.

    With `readonly` no tables are made, and the server itself refuses to change anything.
    """

    statement_seconds: ClassVar[float] = 10.0
    """That a statement may take. The server is told, and taken for gone when it does not keep to it."""

    records_table = POSTGRES_RECORDS

    def __init__(self, url: str, *, readonly: bool = False) -> None:
        super().__init__()
        url, self._schema = _with_schema(url)
        self._url = _without_password(url) + (f"?schema={self._schema}" if self._schema != SCHEMA else "")
        self._readonly = readonly
        self._row_lock = "" if readonly else " FOR SHARE"
        self._failed_at = -math.inf
        # Every transaction says where its tables are: no setting of the server, and no pool between, decides it.
        begin = f"BEGIN{' READ ONLY' if readonly else ''}; SET LOCAL search_path TO {self._schema}, pg_temp"
        self._writer, self._sealer, self._readers = (
            _PostgresConnections(url, begin, most, self.statement_seconds) for most in (1, 1, _READERS)
        )
        try:
            opening = self._errors("cannot be opened: ", StoreAwayError)
            with opening, self._writer.transaction() as transaction:
                if not readonly:  # of several that find no tables, one makes them
                    transaction.execute("SELECT pg_advisory_xact_lock(?)", _MAKING)
                version = self._version(transaction)
                if version is None and readonly:
                    raise StoreError(
                        f"{self.url}: has no tables of reticent.\n"
                        "  Hint: reticent serve and reticent keys create make them"
                    )
                if version is None:
                    ((there,),) = transaction.execute("SELECT to_regnamespace(?) IS NOT NULL", self._schema)
                    if not there:
                        transaction.execute(f"CREATE SCHEMA {self._schema}")
                    transaction.execute(POSTGRES_TABLES)
                    transaction.execute("INSERT INTO schema_version (version) VALUES (?)", SCHEMA_VERSION)
                elif version != SCHEMA_VERSION:
                    raise StoreError(other_version(self.url, version))
        except BaseException:
            self.close()
            raise

    def as_list(self, items: Sequence[object]) -> object:
        """A list as the database takes it: an array."""
        return list(items)

    def as_time(self, seconds: int) -> object:
        """A unix time as the database takes it."""
        return datetime.fromtimestamp(seconds, UTC)

    def _version(self, transaction: Transaction) -> int | None:
        """The version of the tables; None when there are none. Up to version 2 they were in schema public."""
        for table in (f"{self._schema}.schema_version", "public.reticent_schema"):
            ((there,),) = transaction.execute("SELECT to_regclass(?) IS NOT NULL", table)
            if there:
                return int(transaction.execute(f"SELECT version FROM {table}")[0][0])  # noqa: S608
        return None

    @property
    def url(self) -> str:
        """The address of the store, without a password."""
        return self._url

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
        """A transaction that changes something; durable once it ends. One at a time."""
        if self._readonly:
            raise StoreError(f"{self.url}: was opened to be read only")
        try:
            with self._errors(), self._writer.transaction() as transaction:
                yield transaction
        except StoreError:
            self._failed_at = time.monotonic()
            raise
        self._failed_at = -math.inf

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction that changes nothing, beside which others read and write."""
        with self._errors(), self._readers.transaction() as transaction:
            yield transaction

    def ping(self) -> None:
        """
        Raise `StoreError` when the database cannot be reached, or not be written, just now.

        On a full disk it still takes something as small as a ping: so what was refused just now counts too.
        """
        if time.monotonic() - self._failed_at < _REFUSED_SECONDS:
            raise StoreError(f"{self.url}: could not be written just now")
        with self.reading() as transaction:
            ((read_only,),) = transaction.execute("SELECT current_setting('transaction_read_only')")
            if read_only != "off":
                raise StoreError(f"{self.url}: can only be read just now")
            transaction.execute("SELECT pg_logical_emit_message(true, 'reticent', 'ping')")

    def writable(self) -> bool:
        """Whether the database takes writes just now, from this user; nothing is tried."""
        with self.reading() as transaction:
            ((standby, preferred, granted),) = transaction.execute(
                "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only'),"
                " has_table_privilege('rounds', 'INSERT')"
            )
        return not standby and preferred == "off" and bool(granted)

    @contextmanager
    def sealing(self) -> Iterator[Transaction]:
        """A transaction that closes or seals a round, on a connection of its own: it may wait for another's."""
        if self._readonly:
            raise StoreError(f"{self.url}: was opened to be read only")
        with self._errors(), self._sealer.transaction() as transaction:
            yield transaction

    def is_damage(self, error: Exception) -> bool:
        """Whether an error says that a table is not there, or cannot be read."""
        return isinstance(
            error,
            psycopg.errors.UndefinedTable | psycopg.errors.DataCorrupted | psycopg.errors.IndexCorrupted,
        )

    def drop_records(self, number: int) -> None:
        """
        Drop the table of a sealed round, unless somebody reads it just now, as pg_dump does for minutes.

        Nobody appends to it any more, and `lock_timeout` lets those who come to read it wait no longer.
        """
        with self.sealing() as transaction:
            transaction.execute(f"SET LOCAL lock_timeout TO '{_LOCK_MILLISECONDS}ms'")
            transaction.execute(f"DROP TABLE IF EXISTS records_{number}")

    def record_tables(self, transaction: Transaction) -> set[int]:
        """The numbers of all tables of records."""
        rows = transaction.execute(
            "SELECT substr(tablename, 9) FROM pg_tables"
            " WHERE schemaname = current_schema() AND tablename ~ '^records_[0-9]+$'"
        )
        return {int(number) for (number,) in rows}

    def close(self) -> None:
        """Let go of the connections."""
        for connections in (self._readers, self._sealer, self._writer):
            connections.close()


class _SilentError(psycopg.OperationalError):
    """The server took a statement and has said nothing since."""


class _Connection(psycopg.Connection[Row]):
    """A connection that does not wait for ever."""

    patience = math.inf

    def wait(self, gen: Generator[Any, Any, Result], *arguments: Any, **named: Any) -> Result:
        """Talk to the server until a statement is done; raises when it is silent for too long."""
        return super().wait(_while_heard(gen, self.patience), *arguments, **named)


def _while_heard(steps: Generator[Any, Any, Result], patience: float) -> Generator[Any, Any, Result]:
    """The steps of psycopg, which are told every 0.1 s whether there is news; given up when there is none."""
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
        result: Result = done.value
        return result


class _PostgresConnections(Connections[_Connection]):
    def __init__(self, url: str, begin: str, most: int, statement_seconds: float) -> None:
        super().__init__(most)
        self._url, self._begin = url, begin
        self._statement_seconds = statement_seconds

    def connect(self) -> _Connection:
        connection = _Connection.connect(self._url, autocommit=True, connect_timeout=_CONNECT_SECONDS)
        connection.patience = self._statement_seconds + _MARGIN_SECONDS
        limit = 0 if math.isinf(self._statement_seconds) else round(self._statement_seconds * 1000)
        try:
            idle = f"SET idle_in_transaction_session_timeout TO '{_IDLE_SECONDS}s'"
            for statement in (*_SETTINGS, idle, f"SET statement_timeout TO {limit}"):
                connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def hopeless(self, error: BaseException) -> bool:
        return isinstance(error, _SilentError)

    def begin(self, connection: _Connection) -> Transaction:
        connection.execute(self._begin)
        return _PostgresTransaction(connection)

    def commit(self, connection: _Connection) -> None:
        connection.execute("COMMIT")

    def roll_back(self, connection: _Connection) -> None:
        with suppress(psycopg.Error):
            if connection.info.transaction_status != TransactionStatus.ACTIVE:  # else it hangs, and is closed
                connection.execute("ROLLBACK")

    def usable(self, connection: _Connection) -> bool:
        return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE

    def disconnect(self, connection: _Connection) -> None:
        connection.close()


class _PostgresTransaction(Transaction):
    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *parameters: object) -> list[Row]:
        query: Any = sql.replace("%", "%%").replace("?", "%s") if parameters else sql
        cursor = self._connection.execute(query, parameters or None, binary=bool(parameters))
        return cursor.fetchall() if cursor.description else []


def _with_schema(url: str) -> tuple[str, str]:
    """An address without the schema that it names, which libpq does not know, and the schema."""
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
    """User, host, port and database of an address, and nothing else: a password may hide anywhere."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        return "postgresql:"
    user, host, port, database = (str(parts.get(name) or "") for name in ("user", "host", "port", "dbname"))
    if "@" in user + host + port + database:
        return "postgresql:"
    place = f"{quote(host, safe='')}{f':{port}' if port else ''}"
    return f"postgresql://{f'{quote(user)}@' if user else ''}{place}/{quote(database)}"
