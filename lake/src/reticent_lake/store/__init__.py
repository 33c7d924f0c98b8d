"""
Open rounds as Parquet files in a folder or object store, which any number of collectors share.

Collectors do not communicate: each writes its own parts, and duplicates are found when a round is counted.
`docs/reference/lake.md` has the files and the states, the README of this house the proof.
"""

from __future__ import annotations

from reticent_lake.store.backend import LakeBackend
from reticent_lake.store.counting import (
    Arrow,
    BadFileError,
    CountingEngine,
    EngineError,
    RoundParts,
    count_round,
)
from reticent_lake.store.files import Files, LocalFiles, ObjectFiles, files_at
from reticent_lake.store.layout import COUNTS, FORMAT, Columns, Part, asked_place, bit_place, folder_of
from reticent_lake.store.leases import LEASE_SECONDS, Leases

__all__ = [
    "COUNTS",
    "FORMAT",
    "LEASE_SECONDS",
    "Arrow",
    "BadFileError",
    "Columns",
    "CountingEngine",
    "EngineError",
    "Files",
    "LakeBackend",
    "Leases",
    "LocalFiles",
    "ObjectFiles",
    "Part",
    "RoundParts",
    "asked_place",
    "bit_place",
    "count_round",
    "folder_of",
    "open_lake",
]


def open_lake(url: str, *, readonly: bool = False) -> LakeBackend:
    """The lake at an address; with `readonly` nothing is made, swept or tested."""
    return LakeBackend(files_at(url), readonly=readonly)
