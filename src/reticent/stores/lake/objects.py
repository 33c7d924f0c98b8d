"""Object stores as a place for a lake: S3, Google Cloud Storage, Azure, through fsspec."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from reticent.errors import MissingExtraError, StoreError
from reticent.stores.lake.files import TEMPORARY, Files, LocalFiles

Result = TypeVar("Result")


class ObjectFiles(Files):
    """
    A prefix of an object store, as a file system of fsspec.

    One `put` is one upload: there when it is complete, or not at all. `put_new` is a conditional upload
    (`If-None-Match: *` on S3), which the file system must offer as `pipe_file(…, mode="create")`; whether the
    server heeds it is tried when the lake is opened, and a server that does not is refused, because on it two
    collectors could seal one round twice. Nothing listed is ever taken from a cache.
    """

    def __init__(self, filesystem: Any, prefix: str, url: str = "") -> None:
        self._filesystem = filesystem
        self._prefix = prefix.rstrip("/")
        protocols = filesystem.protocol
        protocol = protocols if isinstance(protocols, str) else protocols[0]
        self._url = url or f"lake+{protocol}://{self._prefix.lstrip('/')}"

    @property
    def url(self) -> str:
        """The address, without keys."""
        return self._url

    def open(self) -> None:
        """Try whether a file that is there stays as it is."""
        path = f"{TEMPORARY}/{secrets.token_hex(16)}"
        first, second = self.put_new(path, b"first"), self.put_new(path, b"second")
        kept = self.read(path)
        self.remove([path])
        if (first, second, kept) != (True, False, b"first"):
            raise StoreError(
                f"{self.url}: expected a server that refuses to overwrite with If-None-Match, got one that"
                " overwrites.\n  Hint: on such a server two collectors could seal a round twice"
            )

    def read(self, path: str) -> bytes | None:
        """A whole file; None when there is none."""

        def read() -> bytes | None:
            try:
                return bytes(self._filesystem.cat_file(self._full(path)))
            except FileNotFoundError:
                return None

        return self._try(path, read)

    def read_all(self, paths: Iterable[str]) -> list[bytes | None]:
        """Several whole files, fetched side by side where the file system can do that."""
        full = [self._full(path) for path in paths]
        contents = self._try("", lambda: self._filesystem.cat(full, on_error="return")) if full else {}
        if not isinstance(contents, dict):  # of one path, some file systems give its content alone
            contents = dict.fromkeys(full, contents)
        files: list[bytes | None] = []
        for path in full:
            content = contents[path]
            if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                raise self._fault(path.removeprefix(self._prefix + "/"), content) from content
            files.append(None if isinstance(content, FileNotFoundError) else bytes(content))
        return files

    def location(self, path: str) -> tuple[str, Any]:
        """A file's address with its protocol, and the file system that is to be registered with an engine."""
        return str(self._filesystem.unstrip_protocol(self._full(path))), self._filesystem

    def put(self, path: str, data: bytes) -> None:
        """Write a file under a path that nobody else uses; to try again writes the same once more."""
        self._try(path, lambda: self._filesystem.pipe_file(self._full(path), data))

    def put_new(self, path: str, data: bytes) -> bool:
        """Write a file if there is none; False when there is one."""

        def put() -> bool:
            try:
                self._filesystem.pipe_file(self._full(path), data, mode="create")
            except FileExistsError:
                return False
            return True

        return self._try(path, put)

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted; nothing when there is no such folder."""

        def names() -> list[str]:
            try:
                paths = self._filesystem.ls(self._full(folder), detail=False)
            except FileNotFoundError:
                return []
            return sorted({str(path).rstrip("/").rpartition("/")[2] for path in paths})

        self._filesystem.invalidate_cache()
        return self._try(folder, names)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files; those that are gone already are fine."""
        full = [self._full(path) for path in paths]
        try:
            if len(full) > 1:
                self._filesystem.rm(full)
                return
        except Exception:  # one of them is gone, perhaps: try them one by one
            self._filesystem.invalidate_cache()

        def remove(path: str) -> None:
            with suppress(FileNotFoundError):
                self._filesystem.rm_file(path)

        for path in full:
            self._try(path, partial(remove, path))

    def _full(self, path: str) -> str:
        return f"{self._prefix}/{path}".rstrip("/")

    def _try(self, path: str, work: Callable[[], Result]) -> Result:
        try:
            return work()
        except Exception as error:  # libraries of object stores have trees of exceptions of their own
            raise self._fault(path, error) from error

    def _fault(self, path: str, error: Exception) -> StoreError:
        return StoreError(f"{self.url}: {path}: {type(error).__name__}: {error}")


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
