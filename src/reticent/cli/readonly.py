"""A store that is only looked at: nothing is made, migrated, swept, locked for others or written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

from reticent.cli.sqlite_unchanged import connect_unchanged
from reticent.errors import StoreError
from reticent.stores import Key, RoundKey, SqlStore
from reticent.stores.pool import Row, Transaction
from reticent.stores.sqlite import APPLICATION_ID, SCHEMA_VERSION, SqliteStore

if TYPE_CHECKING:
    from reticent.plan import Plan


class Looked(Protocol):
    """What can be learnt of a store without touching it."""

    @property
    def url(self) -> str:
        """The address of the store, without a password."""

    def plans(self) -> list[Plan]:
        """Every plan ever registered, by name and version."""

    def keys(self) -> list[Key]:
        """All keys, revoked ones too."""

    def unsealed(self) -> list[RoundKey]:
        """The rounds that are open or closing."""

    def verify(self) -> list[str]:
        """What is wrong with the store, a sentence each."""


@contextmanager
def read_only(url: str) -> Iterator[Looked]:
    """The store at an address, to be looked at; `StoreError` when there is none or it cannot be read."""
    if url.startswith("sqlite:///"):
        with _sqlite(url.removeprefix("sqlite:///")) as store:
            yield store
    elif url.startswith(("postgresql://", "postgres://")):
        from reticent.cli.readonly_postgres import looked_postgres

        with looked_postgres(url) as store:
            yield store
    elif "://" in url and url != "memory:":
        from reticent.stores.lake import read_lake

        yield read_lake(url)
    else:
        raise StoreError(
            f"store: expected sqlite:///path, postgresql://user@host/database or lake:///folder, got {url}."
        )


class LookedSqlite(SqlStore):
    """A SQLite file that was opened to be read."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._path = path
        self._connection = connection

    @property
    def url(self) -> str:
        """The address of the store."""
        return f"sqlite:///{self._path}"

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A look at one state of the file."""
        try:
            yield Look(self._connection)
        except sqlite3.Error as error:
            raise StoreError(f"{self.url}: cannot be read: {error}") from error

    def writing(self) -> NoReturn:
        """There is no writing here."""
        raise StoreError(f"{self.url}: was opened to be read only")

    def ping(self) -> None:
        """There is nothing to be kept alive."""

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    record_tables = SqliteStore.record_tables

    def verify(self) -> list[str]:
        """What is wrong, a sentence each: a quick look at the pages, then what `store check` looks at."""
        with self.reading() as look:
            damage = [f"damaged: {text}" for (text,) in look.execute("PRAGMA quick_check(5)")]
        return super().verify() if damage == ["damaged: ok"] else damage


class Look(Transaction):
    """Statements on a connection that cannot write."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *parameters: object) -> list[Row]:
        """Run a statement."""
        return self._connection.execute(sql, parameters).fetchall()


@contextmanager
def _sqlite(path: str) -> Iterator[LookedSqlite]:
    url = f"sqlite:///{path}"
    if not Path(path).is_file():
        raise StoreError(
            f"{url}: there is no such store.\n  Hint: reticent serve and reticent keys create make a new one"
        )
    try:
        with closing(connect_unchanged(Path(path))) as connection:
            _check_ours(url, connection)
            yield LookedSqlite(path, connection)
    except sqlite3.Error as error:
        raise StoreError(f"{url}: cannot be read: {error}") from error


def _check_ours(url: str, connection: sqlite3.Connection) -> None:
    """Raise `StoreError` unless it is a store of reticent that this version of it can read."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise StoreError(
            f"{url}: is not a store of reticent.\n  Hint: give the file that reticent serve uses"
        )
    if version != SCHEMA_VERSION:
        from reticent.stores.sql import other_version

        raise StoreError(other_version(url, SCHEMA_VERSION, version))
