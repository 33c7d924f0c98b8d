"""
Open rounds as Parquet segments in a folder or bucket, which any number of collectors share.

Collectors never talk to each other: each writes segments of its own, and duplicates are found when a round is
counted. `docs/reference/lake.md` has the files, the states and the proof.
"""

from __future__ import annotations

from tacit.errors import MissingExtraError

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as missing:
    raise MissingExtraError("lake", "pyarrow") from missing

from tacit.stores.lake.address import migrate_lake, open_lake, read_lake
from tacit.stores.lake.buckets import BucketFiles
from tacit.stores.lake.counting import Count
from tacit.stores.lake.files import Files, LocalFiles
from tacit.stores.lake.paths import Segment
from tacit.stores.lake.reader import LakeReader
from tacit.stores.lake.schema import Columns, bit_place, plan_digest, schema
from tacit.stores.lake.store import LakeStore

__all__ = [
    "BucketFiles",
    "Columns",
    "Count",
    "Files",
    "LakeReader",
    "LakeStore",
    "LocalFiles",
    "Segment",
    "bit_place",
    "migrate_lake",
    "open_lake",
    "plan_digest",
    "read_lake",
    "schema",
]
