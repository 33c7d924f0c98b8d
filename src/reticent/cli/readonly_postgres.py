"""A PostgreSQL store that is only looked at: the server itself refuses to change anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reticent.errors import StoreError
from reticent.stores.pool import Row, Transaction
from reticent.stores.postgres import SCHEMA_VERSION, PostgresStore, _without_password
from reticent.stores.sql import SqlStore, other_version


class LookedPostgres(PostgresStore):
    """The tables of a database that is asked, not used."""

    held = ""

    def __init__(self, url: str) -> None:
        SqlStore.__init__(self)
        import psycopg

        self._url = _without_password(url)
        with self._errors("cannot be opened: "):
            self._connection = psycopg.connect(url, autocommit=True, connect_timeout=5)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction that the server lets change nothing."""
        with self._errors(), self._connection.transaction():
            self._connection.execute("SET TRANSACTION READ ONLY")
            yield Look(self._connection)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """There is no writing here."""
        raise StoreError(f"{self.url}: was opened to be read only")
        yield

    def check_ours(self) -> None:
        """Raise `StoreError` unless there are tables of reticent that this version of it can read."""
        with self.reading() as look:
            ((there,),) = look.execute("SELECT to_regclass('reticent_schema') IS NOT NULL")
            version = look.execute("SELECT version FROM reticent_schema")[0][0] if there else None
        if version is None:
            raise StoreError(
                f"{self.url}: has no tables of reticent.\n  Hint: reticent serve and reticent keys create make them"
            )
        if version != SCHEMA_VERSION:
            raise StoreError(other_version(self.url, SCHEMA_VERSION, version))

    def writable(self) -> bool:
        """Whether the database takes writes just now, from this user."""
        with self.reading() as look:
            ((standby, preferred, granted),) = look.execute(
                "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only'),"
                " has_table_privilege('round', 'INSERT')"
            )
        return not standby and preferred == "off" and bool(granted)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


class Look(Transaction):
    """Statements of a transaction that is read only."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, sql: str, *parameters: object) -> list[Row]:
        """Run a statement, with ? for parameters."""
        query = sql.replace("%", "%%").replace("?", "%s") if parameters else sql
        rows: list[Row] = self._connection.execute(query, parameters or None).fetchall()
        return rows


@contextmanager
def looked_postgres(url: str) -> Iterator[LookedPostgres]:
    """The store in a database, to be looked at."""
    store = LookedPostgres(url)
    try:
        store.check_ours()
        yield store
    finally:
        store.close()
