"""
Where open rounds rest: `sqlite` on one machine, `postgresql` for many collectors, `lake` for any number of
them, `memory` for tests.
"""

from __future__ import annotations

from reticent.errors import MissingExtraError, StoreError

try:
    import numpy as _numpy  # noqa: F401
except ImportError as missing:
    raise MissingExtraError("collector", "numpy") from missing

from reticent.stores.keys import Key, create_key
from reticent.stores.open_round import OpenRound
from reticent.stores.records import Count, CountsByTags, Layout, Records, RoundKey
from reticent.stores.sql import SqlStore
from reticent.stores.store import Appended, RoundInfo, Store

__all__ = [
    "Appended",
    "Count",
    "CountsByTags",
    "Key",
    "Layout",
    "OpenRound",
    "Records",
    "RoundInfo",
    "RoundKey",
    "SqlStore",
    "Store",
    "create_key",
    "migrate_store",
    "open_store",
]


def open_store(url: str) -> Store:
    """
    The store at an address: `sqlite:///folder/file.db` (three slashes and a relative path, or four), or
    `postgresql://user:password@host/database`, or `lake:///folder`, or `lake+s3://bucket/folder`, or
    `memory:`.

    >>> open_store("memory:").url
    'memory:'
    """
    if url == "memory:":
        from reticent.stores.sqlite import SqliteStore

        return SqliteStore(":memory:")
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        from reticent.stores.sqlite import SqliteStore

        return SqliteStore(url.removeprefix("sqlite:///"))
    if url.startswith(("postgresql://", "postgres://")):
        from reticent.stores.postgres import PostgresStore

        return PostgresStore(url)
    if _is_lake(url):
        from reticent.stores.lake import open_lake

        return open_lake(url)
    raise _unknown(url)


def migrate_store(url: str) -> tuple[int, int]:
    """
    Bring the schema of a store up to date, in one transaction; returns its version before and after.

    No collector may be using it meanwhile. A store that is up to date is left as it is.
    """
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        from reticent.stores.sqlite import migrate_sqlite

        return migrate_sqlite(url.removeprefix("sqlite:///"))
    if url.startswith(("postgresql://", "postgres://")):
        from reticent.stores.postgres import migrate_postgres

        return migrate_postgres(url)
    if _is_lake(url):
        from reticent.stores.lake import migrate_lake

        return migrate_lake(url)
    raise _unknown(url)


def _is_lake(url: str) -> bool:
    """Buckets need no `lake+` before their address: no other store is in one."""
    return url.startswith(
        ("lake:///", "lake+", "s3://", "s3a://", "gs://", "gcs://", "abfs://", "abfss://", "az://")
    )


def _unknown(url: str) -> StoreError:
    return StoreError(
        "store: expected sqlite:///path, postgresql://user@host/database, lake:///folder or memory:, "
        f"got {url.rpartition('@')[2] or '(nothing)'}."
    )
