"""Whether the files of a SQLite database are still those that were opened, and where they were opened."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from urllib.parse import quote

from reticent.errors import StoreError
from reticent.stores.store import StoreGoneError

_PAGE_ONE = ("page_count", "freelist_count", "schema_version")  # what the first page says, by pragma


class DatabaseFiles:
    """
    The database, its log and the index of that, as they were when the store was opened.

    SQLite keeps them open, so it goes on writing to files that were removed, and overwrites what another program
    has put into them. After each commit, and before anybody is told of it, `check_named` makes sure that
    their names still lead to them. Before each transaction, `check_unchanged` makes sure that nothing else
    wrote to the database: the log takes every commit, and the database itself changes only when a commit of this
    process, or of another one that commits, moves the log into it.
    """

    def __init__(self, url: str, path: str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._url = url
        real = os.path.realpath(path)  # the log is beside the file that a link leads to
        self._names = (os.path.abspath(path), f"{real}-wal", f"{real}-shm")
        self._held = connect()  # while one connection is open, nobody who closes the last one removes the log
        self._held.execute("SELECT count(*) FROM sqlite_master").fetchall()
        self._identities = tuple(_identity(os.stat(name)) for name in self._names)
        self._stamp = self._now()
        self._version: int | None = None

    def check_named(self) -> None:
        """Raise `StoreGoneError` when a name leads to no file, or to another one."""
        for name, identity in zip(self._names, self._identities, strict=True):
            try:
                found = _identity(os.stat(name))
            except (FileNotFoundError, NotADirectoryError):
                found = None
            except OSError as error:
                raise StoreError(f"{self._url}: {name}: {error.strerror}") from error
            if found != identity:
                if found is None and name != self._names[0]:
                    self._save_log()
                raise self._gone(f"{name} {'was replaced by another file' if found else 'was taken away'}")

    def check_unchanged(self, connection: sqlite3.Connection) -> None:
        """Raise `StoreGoneError` when another program wrote to the file; in a transaction that may write."""
        ((version,),) = connection.execute("PRAGMA data_version")
        others_committed = version != self._version
        self._version = version
        self.check_named()
        if self._stamp == self._now():
            return
        if not others_committed and not self._is_whole(connection):
            raise self._gone(f"{self._names[0]} was overwritten by another program")
        self.accept()

    def accept(self) -> None:
        """Take the file as it is: this process has just written to it."""
        self._stamp = self._now()

    def close(self) -> None:
        """Let go of the files."""
        self._held.close()

    def _now(self) -> tuple[int, int]:
        status = os.stat(self._names[0])
        return status.st_mtime_ns, status.st_size

    def _is_whole(self, connection: sqlite3.Connection) -> bool:
        """
        Whether the file holds what this process knows to be in it.

        Somebody may have moved the log into the file by hand, which is no harm. A new connection reads the file,
        where one that is in use still has pages in memory.
        """
        try:
            name = f"file:{quote(self._names[0])}?mode=ro"
            with closing(sqlite3.connect(name, uri=True, timeout=0.1)) as fresh:
                known, read = (
                    [one.execute(f"PRAGMA {name}").fetchall() for name in _PAGE_ONE]
                    for one in (connection, fresh)
                )
                return known == read and fresh.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
        except sqlite3.Error:
            return False

    def _save_log(self) -> None:
        """The log was removed and is still open: what is in it goes into the database, which is in its place."""
        with suppress(sqlite3.Error):
            self._held.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _gone(self, what: str) -> StoreGoneError:
        return StoreGoneError(
            f"{self._url}: {what} while it was in use; no more reports are acknowledged.\n"
            "  Hint: look at the file, bring back what was there, and start the collector again"
        )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
