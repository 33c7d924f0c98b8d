"""Where open rounds rest: `sqlite` on one machine, `postgresql` for many collectors, `memory` for tests."""

from __future__ import annotations

from tacit.errors import MissingExtraError, StoreError

try:
    import numpy as _numpy  # noqa: F401
except ImportError as missing:
    raise MissingExtraError("collector", "numpy") from missing

from tacit.stores.keys import Key, create_key
from tacit.stores.records import CountsByTags, Layout, RoundKey
from tacit.stores.sql import SqlStore
from tacit.stores.store import Appended, RoundInfo, Store

__all__ = [
    "Appended",
    "CountsByTags",
    "Key",
    "Layout",
    "RoundInfo",
    "RoundKey",
    "SqlStore",
    "Store",
    "create_key",
    "open_store",
]


def open_store(url: str) -> SqlStore:
    """
    The store at an address: `sqlite:///folder/file.db` (three slashes and a relative path, or four), or
    `postgresql://user:password@host/database`, or `memory:`.

    >>> open_store("memory:").url
    'memory:'
    """
    if url == "memory:":
        from tacit.stores.sqlite import SqliteStore

        return SqliteStore(":memory:")
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        from tacit.stores.sqlite import SqliteStore

        return SqliteStore(url.removeprefix("sqlite:///"))
    if url.startswith(("postgresql://", "postgres://")):
        from tacit.stores.postgres import PostgresStore

        return PostgresStore(url)
    raise StoreError(
        "store: expected sqlite:///path, postgresql://user@host/database or memory:, "
        f"got {url.rpartition('@')[2] or '(nothing)'}."
    )
