"""The address of a lake: a folder, or a bucket that fsspec knows how to reach."""

from __future__ import annotations

from pathlib import Path

from reticent.errors import MissingExtraError, StoreError
from reticent.stores.lake.files import Files, LocalFiles
from reticent.stores.lake.layout import FORMAT
from reticent.stores.lake.objects import ObjectFiles
from reticent.stores.lake.reader import LakeReader
from reticent.stores.lake.store import LakeStore, check_format


def open_lake(url: str) -> LakeStore:
    """
    The lake at an address, made if there is none: `lake:///folder` (three slashes and a relative path, or
    four), or `lake+s3://bucket/prefix` and whatever else fsspec can reach.
    """
    return LakeStore(files_at(url))


def read_lake(url: str) -> LakeReader:
    """The lake at an address, to be read only: nothing is made, swept or tried."""
    files = files_at(url)
    _check_there(files)
    return LakeReader(files)


def migrate_lake(url: str) -> tuple[int, int]:
    """The format of a lake before and after: there is only one yet, and others are refused."""
    files = files_at(url)
    _check_there(files)
    return FORMAT, FORMAT


def _check_there(files: Files) -> None:
    there = set(files.names(""))
    if not there:
        raise StoreError(f"{files.url}: there is no lake.\n  Hint: it is the folder that reticent serve uses")
    check_format(files, there)


def files_at(url: str) -> Files:
    """The files at an address."""
    if url.startswith("lake:///") and len(url) > len("lake:///"):
        return LocalFiles(Path(url.removeprefix("lake:///")))
    if url.startswith("lake+file:///"):
        return LocalFiles(Path(url.removeprefix("lake+file://")))
    inner = url.removeprefix("lake+")
    shown = f"lake+{inner.partition('://')[0]}://{inner.partition('://')[2].rpartition('@')[2]}"
    if "://" not in inner or inner.startswith("lake://"):
        raise StoreError(f"store: expected lake:///folder or lake+s3://bucket/prefix, got {shown}")
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError as missing:
        raise MissingExtraError("lake", "fsspec") from missing
    try:
        filesystem, prefix = url_to_fs(inner, use_listings_cache=False, skip_instance_cache=True)
    except ImportError as missing:
        raise StoreError(f"{shown}: {missing}") from missing
    except ValueError as unknown:
        raise StoreError(f"{shown}: expected a protocol that fsspec knows: {unknown}") from unknown
    return ObjectFiles(filesystem, prefix, shown)
