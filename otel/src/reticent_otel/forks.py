"""
What a forked child must not count again.

The SDK keeps increases in memory until they are exported. A child gets a copy of them, and the parent still has them:
exported by both they would count twice. So a child discards what its SDK holds at the fork, and counts from there.

The SDK has no public way to find the readers of an exporter, nor to keep them from collecting. Its internals are used
with care: where they are not found, a child counts too little, never twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from enum import Enum
from threading import Thread
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from opentelemetry.sdk.metrics import MeterProvider

from reticent.device import process  # noqa: F401 - its hooks for forks come first, see the end

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader

PATIENCE = 1.0  # seconds a fork waits at most: for a collection (parent), for the discarding (child)


class Books(Enum):
    """Whose numbers the SDK of this process exports."""

    OWN = "what this process counted"
    BEING_EMPTIED = "a parent's, until the thread that empties them is through"
    UNKNOWN = "perhaps a parent's as well, with the next export; after it, this process's own"


class Inheritance:
    """
    Whose numbers an exporter is handed.

    A lock that another thread holds at a fork is never released in the child. So the parent acquires the locks of its
    readers first, and both processes release them after the fork.

    To discard, each reader collects once, which runs the callbacks of observable instruments too. It happens in a
    thread, so that a blocking callback (or a lock that could not be acquired in time) does not hold up the program.
    Where no reader is found, the next export is discarded whole.
    """

    def __init__(self, exporter: MetricExporter) -> None:
        self._exporter = exporter
        self._books = Books.OWN
        self.is_over = False  # whether the exporter is shut down
        _inheritances[id(self)] = self

    def is_own(self) -> bool:
        """Whether the current export holds this process's own numbers; asked once per export."""
        if self._books is Books.UNKNOWN:
            self._books = Books.OWN
            return False
        return self._books is Books.OWN

    def readers(self) -> list[MetricReader]:
        """The readers of the exporter."""
        try:
            known = list(getattr(MeterProvider, "_all_metric_readers", ()))
        except RuntimeError:  # another thread is creating a provider
            known = []
        return [reader for reader in known if getattr(reader, "_exporter", None) is self._exporter]

    def discard(self) -> None:
        """In a child, discard what the SDK of this process has inherited."""
        if self.is_over:
            return
        readers = self.readers()
        if not readers:
            self._books = Books.UNKNOWN
            return
        self._books = Books.BEING_EMPTIED
        worker = Thread(target=self._empty, args=(readers,), name="reticent-inheritance", daemon=True)
        worker.start()
        worker.join(PATIENCE)

    def _empty(self, readers: Sequence[MetricReader]) -> None:
        try:
            for reader in readers:
                reader.collect(timeout_millis=PATIENCE * 1000)
            self._books = Books.OWN
        except Exception:  # a callback took too long
            self._books = Books.UNKNOWN


_inheritances: WeakValueDictionary[int, Inheritance] = WeakValueDictionary()
_held: list[Any] = []  # locks


def _living() -> list[Inheritance]:
    """All of them, also while another thread makes one: the references are copied in one step."""
    return [known for reference in _inheritances.valuerefs() if (known := reference()) is not None]


def _before() -> None:
    """Let running collections finish, and none begin."""
    deadline = time.monotonic() + PATIENCE
    readers = [reader for inheritance in _living() for reader in inheritance.readers()]
    for lock in dict.fromkeys(_locks_of(readers)):  # readers of one provider have one in common
        if lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            _held.append(lock)


def _after() -> None:
    """Let collections begin again."""
    while _held:
        _held.pop().release()


def _after_in_child() -> None:
    _after()
    for inheritance in _living():
        inheritance.discard()


def _locks_of(readers: Iterable[MetricReader]) -> list[Any]:
    """What readers hold while they collect, and then while they export."""
    locks = []
    for reader in readers:
        source = getattr(getattr(reader, "_collect", None), "__self__", None)
        locks += [getattr(source, "_lock", None), getattr(reader, "_export_lock", None)]
    return [lock for lock in locks if lock is not None]


# Registered after the hooks of devices, so `_before` runs before theirs: an export that a fork waits for still needs
# the device, whose file is locked from then on.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
