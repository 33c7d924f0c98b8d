"""Storage of rounds: SQLite on one machine, PostgreSQL or a lake for many collectors, memory for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent import imported_when_used
from reticent.errors import MissingPackageError, StoreError
from reticent_collector.stores.backend import (
    ROLES,
    AdminAction,
    AdminLog,
    Appended,
    Backend,
    DamagedError,
    DeletedMetric,
    Key,
    KeyTable,
    MetricDeletion,
    Note,
    NotesTable,
    PeriodKey,
    Repair,
    ResultsTable,
    RoundGoneError,
    RoundInfo,
    SealedRounds,
    Shortcuts,
    State,
    Steps,
    StoreAwayError,
    StoreGoneError,
    Upkeep,
    create_key,
    hash_of,
    matches,
)
from reticent_collector.stores.copying import Copied, copy_store
from reticent_collector.stores.records import (
    Count,
    CountsByTags,
    Layout,
    Records,
    RoundKey,
    add_counts,
    batches,
    latest,
    reports_of,
)
from reticent_collector.stores.shown import FEW, Step, folded
from reticent_collector.stores.store import MARGIN_SECONDS, Store, due

if TYPE_CHECKING:
    from reticent_collector.stores.postgres import PostgresBackend
    from reticent_collector.stores.sqlite import SqliteBackend

__all__ = [
    "FEW",
    "MARGIN_SECONDS",
    "ROLES",
    "AdminAction",
    "AdminLog",
    "Appended",
    "Backend",
    "Copied",
    "Count",
    "CountsByTags",
    "DamagedError",
    "DeletedMetric",
    "Key",
    "KeyTable",
    "Layout",
    "MetricDeletion",
    "Note",
    "NotesTable",
    "PeriodKey",
    "PostgresBackend",
    "Records",
    "Repair",
    "ResultsTable",
    "RoundGoneError",
    "RoundInfo",
    "RoundKey",
    "SealedRounds",
    "Shortcuts",
    "SqliteBackend",
    "State",
    "Step",
    "Steps",
    "Store",
    "StoreAwayError",
    "StoreGoneError",
    "Upkeep",
    "add_counts",
    "batches",
    "copy_store",
    "create_key",
    "due",
    "folded",
    "hash_of",
    "latest",
    "matches",
    "open_store",
    "reports_of",
]

_LAKES = ("lake:///", "lake+", "s3://", "s3a://", "gs://", "gcs://", "abfs://", "abfss://", "az://")
"""Object stores need no `lake+` before their address: no other store is in one."""

__getattr__ = imported_when_used("reticent_collector.stores", "sqlite", "postgres")
"""A backend's libraries are imported with it."""


def open_store(url: str, *, readonly: bool = False) -> Store:
    """
    The store at an address: `sqlite:///folder/file.db` (three slashes and a relative path, or four), or
    `postgresql://user:password@host/database`, or `lake:///folder`, or `lake+s3://bucket/folder`, or
    `memory:`.

    It is made if there is none. With `readonly` nothing is made, swept, locked for others or written: a
    store that is not there is a `StoreError`, and so is any attempt to change it.

    >>> open_store("memory:").url
    'memory:'
    """
    backend: Backend
    if (url == "memory:" and not readonly) or (url.startswith("sqlite:///") and url != "sqlite:///"):
        from reticent_collector.stores.sqlite import SqliteBackend

        path = ":memory:" if url == "memory:" else url.removeprefix("sqlite:///")
        backend = SqliteBackend(path, readonly=readonly)
    elif url.startswith(("postgresql://", "postgres://")):
        from reticent_collector.stores.postgres import PostgresBackend

        backend = PostgresBackend(url, readonly=readonly)
    elif url.startswith(_LAKES):
        backend = _lake(url, readonly=readonly)
    else:
        raise StoreError(
            "store: expected sqlite:///path, postgresql://user@host/database"
            f"{' or lake:///folder' if readonly else ', lake:///folder or memory:'}, "
            f"got {url.rpartition('@')[2] or '(nothing)'}."
        )
    return Store(backend)


def _lake(url: str, *, readonly: bool) -> Backend:
    from importlib.metadata import entry_points

    for entry in entry_points(group="reticent.stores", name="lake"):
        backend: Backend = entry.load()(url, readonly=readonly)
        return backend
    raise MissingPackageError("reticent-lake", "a store of this kind")
