"""The files of a lake as engines see them: where they are, and whether each is what it says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from reticent.stores import RoundKey
from reticent.stores.lake import Columns, Part

_THREADS = 4
_FOLDER = "lake:///"


class Place(Protocol):
    """Where the files of a lake are."""

    local: bool

    def address(self, path: str) -> str:
        """A file's full name, for engines."""

    def open(self, path: str) -> Any:
        """A file to read from; raises `FileNotFoundError` when it is gone."""


class Folder:
    """A folder that this machine can read."""

    local = True

    def __init__(self, root: str) -> None:
        self.root = Path(root).absolute()

    def address(self, path: str) -> str:
        """A file's full name."""
        return str(self.root / path)

    def open(self, path: str) -> Any:
        """A file to read from."""
        return (self.root / path).open("rb")


class Bucket:
    """A bucket, through fsspec."""

    local = False

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]

        self.filesystem, self.prefix = url_to_fs(url, use_listings_cache=False)

    def address(self, path: str) -> str:
        """A file's address with its protocol, under which the file system is registered with an engine."""
        return str(self.filesystem.unstrip_protocol(f"{self.prefix.rstrip('/')}/{path}"))

    def open(self, path: str) -> Any:
        """A file to read from."""
        return self.filesystem.open(f"{self.prefix.rstrip('/')}/{path}", "rb")


def place_of(url: str) -> Place:
    """Where the lake at an address is; `read_lake` has made sure that there is one."""
    if url.startswith(_FOLDER):
        return Folder(url.removeprefix(_FOLDER))
    if url.startswith("lake+file://"):
        return Folder(url.removeprefix("lake+file://"))
    return Bucket(url.removeprefix("lake+"))


class Checked:
    """
    The files of one round, looked at with PyArrow before or after an engine reads them.

    `heads` reads footers alone: that a file is Parquet, says of itself what this round's files say, and has
    the columns and as many rows as its name promises. `pages` reads everything and compares the checksum of
    each page.
    """

    def __init__(self, place: Place, columns: Columns, key: RoundKey) -> None:
        self._place = place
        self._columns = columns
        self._key = key

    def heads(self, paths: list[str]) -> dict[str, str]:
        """By path, what is wrong with a file; raises `FileNotFoundError` when one is gone."""
        return self._wrong(paths, pages=False)

    def pages(self, paths: list[str]) -> dict[str, str]:
        """The same after reading all of it."""
        return self._wrong(paths, pages=True)

    def read(self, path: str) -> pa.Table:
        """A file as a table, with its checksums compared."""
        with self._place.open(path) as file, pq.ParquetFile(file, page_checksum_verification=True) as opened:
            return opened.read()

    def _wrong(self, paths: list[str], pages: bool) -> dict[str, str]:
        with ThreadPoolExecutor(_THREADS) as pool:
            found = pool.map(lambda path: self._problem(path, pages), paths)
            return {path: reason for path, reason in zip(paths, found, strict=True) if reason}

    def _problem(self, path: str, pages: bool) -> str:
        segment = Part.parse(path.rpartition("/")[2])
        if segment is None:
            return "is not the name of a segment"
        try:
            with (
                self._place.open(path) as file,
                pq.ParquetFile(file, page_checksum_verification=True) as opened,
            ):
                return self._head(opened, segment) or (_pages(opened) if pages else "")
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            return f"cannot be read as Parquet: {str(error).splitlines()[0]}"

    def _head(self, file: pq.ParquetFile, segment: Part) -> str:
        said = {name.decode(): text for name, text in (file.metadata.metadata or {}).items()}
        for name, expected in self._columns.metadata(self._key).items():
            got = said.get(name, b"nothing").decode(errors="replace")
            if got != expected:
                return f"{name}: expected {expected}, got {got}"
        for column in self._columns.schema:
            place = file.schema_arrow.get_field_index(column.name)
            if place < 0:
                return f"{column.name}: expected a column {column.type}, got none"
            if file.schema_arrow.field(place) != column:
                return (
                    f"{column.name}: expected {_typed(column)}, got {_typed(file.schema_arrow.field(place))}"
                )
        if file.metadata.num_rows != segment.rows:
            return f"rows: expected {segment.rows} as the name says, got {file.metadata.num_rows}"
        return ""


def _typed(column: pa.Field) -> str:
    return f"{column.type}{'' if column.nullable else ' not null'}"


def _pages(file: pq.ParquetFile) -> str:
    for group in range(file.num_row_groups):
        file.read_row_group(group, use_threads=False)
    return ""
