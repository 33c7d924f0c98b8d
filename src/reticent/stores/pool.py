"""What a database must offer a store: transactions, on connections that are made anew after a fault."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from reticent.errors import StoreError

Row = tuple[Any, ...]
Connection = TypeVar("Connection")

PLACE_SECONDS = 20.0  # to wait for others to be done with the connections


class Transaction(ABC):
    """One transaction: all of it or nothing."""

    @abstractmethod
    def execute(self, sql: str, *parameters: object) -> list[Row]:
        """Run a statement, with ? for parameters; returns its rows."""


class Connections(ABC, Generic[Connection]):
    """
    Up to `most` connections, each used by one transaction at a time; with one, transactions queue up.

    A connection that broke while nobody used it (the server was restarted) is replaced before the
    transaction begins, so that nobody notices. Nobody waits for ever for the others to be done.
    """

    def __init__(self, most: int) -> None:
        self._idle: list[Connection] = []
        self._places = threading.BoundedSemaphore(most)
        self._closed = False

    @abstractmethod
    def connect(self) -> Connection:
        """A new connection."""

    @abstractmethod
    def begin(self, connection: Connection) -> Transaction:
        """Begin a transaction."""

    @abstractmethod
    def commit(self, connection: Connection) -> None:
        """Make the transaction durable."""

    @abstractmethod
    def roll_back(self, connection: Connection) -> None:
        """Undo the transaction, whatever state the connection is in."""

    @abstractmethod
    def usable(self, connection: Connection) -> bool:
        """Whether another transaction can begin."""

    @abstractmethod
    def disconnect(self, connection: Connection) -> None:
        """Close a connection, usable or not."""

    def hopeless(self, error: BaseException) -> bool:
        """Whether a connection broke in a way that another one would too."""
        return False

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction: committed at the end, undone when an exception leaves it."""
        if not self._places.acquire(timeout=PLACE_SECONDS):
            raise StoreError(f"busy: nobody was done within {PLACE_SECONDS:g} s")
        try:
            connection, transaction = self._begun()
            try:
                yield transaction
                self.commit(connection)
            except BaseException:
                self.roll_back(connection)
                raise
            finally:
                self._give_back(connection)
        finally:
            self._places.release()

    def _begun(self) -> tuple[Connection, Transaction]:
        """A transaction on an idle connection, or on a new one; idle ones that broke are thrown away."""
        while not self._closed:
            known = bool(self._idle)
            connection = self._idle.pop() if known else self.connect()
            try:
                return connection, self.begin(connection)
            except BaseException as error:
                broken = not self.usable(connection)
                self._give_back(connection)
                if not (known and broken) or self.hopeless(error):
                    raise
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
