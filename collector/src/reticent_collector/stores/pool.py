"""Transactions of a database, on connections that are replaced after a fault."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from reticent.errors import StoreError

Row = tuple[Any, ...]
Connection = TypeVar("Connection")

PLACE_SECONDS = 20.0  # to wait for a free connection


class Transaction(NamedTuple):
    """One transaction: all of it or nothing."""

    execute: Callable[..., list[Row]]  #: runs a statement, with ? for the parameters after it


class Connections(ABC, Generic[Connection]):
    """
    Up to `most` connections, each used by one transaction at a time; with one, transactions queue up.

    A connection that broke while idle (the server was restarted) is replaced before the transaction begins.
    The wait for a free connection is bounded.
    """

    def __init__(self, connect: Callable[[], Connection], begin: str, most: int) -> None:
        self._connect, self._begin = connect, begin
        self._idle: list[Connection] = []
        self._places = threading.BoundedSemaphore(most)
        self._closed = False

    @abstractmethod
    def execute(self, connection: Connection, sql: str, *parameters: object) -> list[Row]:
        """Run a statement; returns its rows."""

    @abstractmethod
    def roll_back(self, connection: Connection) -> None:
        """Undo the transaction, whatever state the connection is in."""

    @abstractmethod
    def usable(self, connection: Connection) -> bool:
        """Whether another transaction can begin."""

    @abstractmethod
    def disconnect(self, connection: Connection) -> None:
        """Close a connection, usable or not."""

    def begin(self, connection: Connection) -> None:
        """Begin a transaction."""
        self.execute(connection, self._begin)

    def commit(self, connection: Connection) -> None:
        """Make the transaction durable."""
        self.execute(connection, "COMMIT")

    def hopeless(self, error: BaseException) -> bool:
        """Whether a connection broke in a way that another one would too."""
        return False

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction: committed at the end, undone when an exception leaves it."""
        if not self._places.acquire(timeout=PLACE_SECONDS):
            raise StoreError(f"busy: no connection became free within {PLACE_SECONDS:g} s")
        try:
            connection = self._begun()
            try:
                yield Transaction(lambda sql, *parameters: self.execute(connection, sql, *parameters))
                self.commit(connection)
            except BaseException:
                self.roll_back(connection)
                raise
            finally:
                self._give_back(connection)
        finally:
            self._places.release()

    def _begun(self) -> Connection:
        """A connection in a transaction: an idle one, or a new one; idle ones that broke are thrown away."""
        while not self._closed:
            try:
                connection, known = self._idle.pop(), True
            except IndexError:  # another thread may take the last one at any time
                connection, known = self._connect(), False
            try:
                self.begin(connection)
            except BaseException as error:
                broken = not self.usable(connection)
                self._give_back(connection)
                if not (known and broken) or self.hopeless(error):
                    raise
            else:
                return connection
        raise StoreError("the store was closed")

    def _give_back(self, connection: Connection) -> None:
        if self.usable(connection) and not self._closed:
            self._idle.append(connection)
        else:
            self.disconnect(connection)

    def close(self) -> None:
        """Close every connection: at once, or when its transaction ends."""
        self._closed = True
        while self._idle:
            self.disconnect(self._idle.pop())
