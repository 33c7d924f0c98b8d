"""
Open rounds as Parquet segments in a folder or bucket, which any number of collectors share.

Collectors never talk to each other: each writes segments of its own, and duplicates are found when a round is
counted. `docs/reference/lake.md` has the files, the states and the proof.
"""

from __future__ import annotations

from reticent.errors import MissingExtraError

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as missing:
    raise MissingExtraError("lake", "pyarrow") from missing

from reticent.stores.lake.address import migrate_lake, open_lake, read_lake
from reticent.stores.lake.counting import Arrow, BadFileError, Engine, Parts, count_round
from reticent.stores.lake.files import Files, LocalFiles
from reticent.stores.lake.layout import Columns, Part, bit_place, schema
from reticent.stores.lake.objects import ObjectFiles
from reticent.stores.lake.reader import LakeReader
from reticent.stores.lake.store import LakeStore

__all__ = [
    "Arrow",
    "BadFileError",
    "Columns",
    "Engine",
    "Files",
    "LakeReader",
    "LakeStore",
    "LocalFiles",
    "ObjectFiles",
    "Part",
    "Parts",
    "bit_place",
    "count_round",
    "migrate_lake",
    "open_lake",
    "read_lake",
    "schema",
]
