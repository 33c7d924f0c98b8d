"""
Where open rounds rest: `sqlite` on one machine, `postgresql` for many collectors, `lake` for any number of
them, `memory` for tests.
"""

from __future__ import annotations

from typing import Any

from reticent.errors import MissingExtraError, StoreError

try:
    import numpy as _numpy  # noqa: F401
except ImportError as missing:
    raise MissingExtraError("collector", "numpy") from missing

from reticent.stores.id_set import IdSet
from reticent.stores.keys import ROLES, Key, create_key, hash_of, matches
from reticent.stores.records import (
    Count,
    CountsByTags,
    Layout,
    Records,
    RoundKey,
    add_counts,
    batches,
    latest,
)
from reticent.stores.round_store import (
    Backend,
    DamagedError,
    OpenRound,
    RoundGoneError,
    RoundStore,
    Seen,
    Span,
)
from reticent.stores.store import Appended, Keys, RoundInfo, Rounds, RoundWriter, State, Store

__all__ = [
    "ROLES",
    "Appended",
    "Backend",
    "Count",
    "CountsByTags",
    "DamagedError",
    "IdSet",
    "Key",
    "Keys",
    "Layout",
    "OpenRound",
    "Records",
    "RoundGoneError",
    "RoundInfo",
    "RoundKey",
    "RoundStore",
    "RoundWriter",
    "Rounds",
    "Seen",
    "Span",
    "State",
    "Store",
    "add_counts",
    "batches",
    "create_key",
    "hash_of",
    "latest",
    "matches",
    "open_store",
]


def open_store(url: str, *, readonly: bool = False) -> RoundStore[Any]:
    """
    The store at an address: `sqlite:///folder/file.db` (three slashes and a relative path, or four), or
    `postgresql://user:password@host/database`, or `lake:///folder`, or `lake+s3://bucket/folder`, or
    `memory:`.

    It is made if there is none. With `readonly` nothing is made, swept, locked for others or written: a
    store that is not there is a `StoreError`, and so is any attempt to change it.

    >>> open_store("memory:").url
    'memory:'
    """
    if url == "memory:" and not readonly:
        from reticent.stores.sqlite import SqliteBackend

        return RoundStore(SqliteBackend(":memory:"))
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        from reticent.stores.sqlite import SqliteBackend

        return RoundStore(SqliteBackend(url.removeprefix("sqlite:///"), readonly=readonly))
    if url.startswith(("postgresql://", "postgres://")):
        from reticent.stores.postgres import PostgresBackend

        return RoundStore(PostgresBackend(url, readonly=readonly))
    # Object stores need no `lake+` before their address: no other store is in one.
    if url.startswith(
        ("lake:///", "lake+", "s3://", "s3a://", "gs://", "gcs://", "abfs://", "abfss://", "az://")
    ):
        from reticent.stores.lake import LakeBackend, files_at

        return RoundStore(LakeBackend(files_at(url), readonly=readonly))
    raise StoreError(
        "store: expected sqlite:///path, postgresql://user@host/database"
        f"{' or lake:///folder' if readonly else ', lake:///folder or memory:'}, "
        f"got {url.rpartition('@')[2] or '(nothing)'}."
    )
