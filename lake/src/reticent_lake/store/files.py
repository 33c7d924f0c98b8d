"""Files of a lake, in a folder of this machine or in an object store."""

from __future__ import annotations

import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from reticent.errors import StoreError

TEMPORARY = "tmp"
_FORGOTTEN = 86_400.0  # seconds after which a temporary file belongs to a process that died


class UnusablePathError(StoreError):
    """One file or folder cannot be used, while the others can."""


class Files(ABC):
    """
    Files that are written once, as a whole, and never changed; visible to every process at once.

    A lake relies on this:

    - `put` and `put_new` are all or nothing, and durable when they return;
    - of several `put_new` of one path, in any processes, exactly one makes the file;
    - `names` has every file whose `put` had returned before it was called, in any process.

    Paths are relative, with `/` between their parts. A fault is a `StoreError`; of one path, an
    `UnusablePathError`.
    """

    url: str  #: the address, without secrets

    @property
    def scratch(self) -> str | None:
        """A folder of this machine for large temporary files; None for the default of the system."""
        return None

    @abstractmethod
    def read(self, path: str) -> bytes | None:
        """A whole file; None when there is none."""

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write a file under a path that no other process uses."""

    @abstractmethod
    def put_new(self, path: str, data: bytes) -> bool:
        """Write a file if there is none; False when there is one, which is not changed."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none when there is no such folder."""

    @abstractmethod
    def remove(self, paths: Iterable[str]) -> None:
        """Remove files; missing ones are ignored."""

    def read_all(self, paths: Iterable[str]) -> list[bytes | UnusablePathError | None]:
        """Several whole files; for one that cannot be used, the error."""
        files: list[bytes | UnusablePathError | None] = []
        for path in paths:
            try:
                files.append(self.read(path))
            except UnusablePathError as error:
                files.append(error)
        return files

    def move(self, source: str, target: str) -> None:
        """Move a file or folder; on return the new path is durable, and the old one gone."""
        data = self.read(source)
        if data is not None:
            self.put(target, data)
            self.remove([source])

    def has(self, path: str) -> bool:
        """Whether there is a file."""
        return self.read(path) is not None

    def reader(self, path: str) -> BinaryIO:
        """A file to be read in pieces; raises `FileNotFoundError` when there is none."""
        data = self.read(path)
        if data is None:
            raise FileNotFoundError(path)
        return BytesIO(data)

    def location(self, path: str) -> tuple[str, Any]:
        """A file for engines: its full name, and fsspec's file system, or None for this machine's."""
        raise StoreError(f"{self.url}: engines cannot read here")

    def address(self, path: str) -> str:
        """A file for engines with their own connectors: an address with its protocol."""
        raise StoreError(f"{self.url}: engines cannot read here")

    def settle(self, folder: str) -> None:  # noqa: B027 - not every place needs it
        """Make durable what `names` shows of a folder, whichever process put it there."""

    def clear(self, folder: str) -> None:  # noqa: B027 - not every place needs it
        """Remove a folder if it is empty."""

    def open(self) -> None:  # noqa: B027 - not every place needs it
        """Prepare the place; raises `StoreError` when it cannot do what a lake relies on."""

    def close(self) -> None:  # noqa: B027 - not every place needs it
        """Close connections."""


class LocalFiles(Files):
    """
    A folder of this machine, or one that several machines mount.

    A file is written under a temporary name, synced, then linked to its own name (`link` fails when there is
    one: POSIX), and the folder is synced. So the file system must have hard links, as ext4, xfs, btrfs, APFS
    and NFS do.

    A new folder is for its owner alone. The files in an existing folder get the access rights of that folder.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._root = Path(folder)
        self.url = f"lake:///{self._root}"
        self._mode = 0o700
        self._durable: set[Path] = set()  # folders below the lake's own whose names are synced

    @property
    def scratch(self) -> str | None:
        """A folder beside the parts, where there is room; None without the right to write."""
        folder = self._root / TEMPORARY
        return str(folder) if os.access(folder, os.W_OK) else None

    def open(self) -> None:
        """Make the folder if there is none, and remove what processes that died long ago left behind."""
        with self._errors("cannot be opened"):
            above = self._root.absolute().parents
            made = [folder for folder in above if not folder.is_dir()]
            _make_folder(self._root, 0o700)
            for folder in above:
                # Another process may have made one and not synced its name yet, perhaps with other rights.
                with nullcontext() if folder in made else suppress(OSError):
                    _sync_folder(folder)
            self._mode = 0o700 | self._root.stat().st_mode & 0o077
            temporary = self._root / TEMPORARY
            _make_folder(temporary, self._mode)
            for file in temporary.iterdir():
                with suppress(OSError):
                    if time.time() - file.stat().st_mtime > _FORGOTTEN:
                        file.unlink()

    def read(self, path: str) -> bytes | None:
        """A whole file; None when there is none."""
        with self._errors(path):
            try:
                return (self._root / path).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None
            except (IsADirectoryError, PermissionError) as error:
                raise self._unusable(path, error) from error

    def put(self, path: str, data: bytes) -> None:
        """Write a file under a path that no other process uses."""
        if not self.put_new(path, data):
            raise StoreError(f"{self.url}/{path}: already exists, though no other process may use that name")

    def put_new(self, path: str, data: bytes) -> bool:
        """Write a file if there is none; False when there is one, which is durable then."""
        target = self._root / path
        temporary = self._root / TEMPORARY / secrets.token_hex(16)
        with self._errors(path):
            try:
                descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                try:
                    os.fchmod(descriptor, self._mode & 0o666)
                    rest = memoryview(data)
                    while rest:
                        rest = rest[os.write(descriptor, rest) :]
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                try:
                    made = self._link(temporary, target)
                except (NotADirectoryError, PermissionError) as error:
                    raise self._unusable(path, error) from error
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
            self._sync(target.parent)
        return made

    def _link(self, temporary: Path, target: Path) -> bool:
        while True:
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            except FileNotFoundError:  # no folder yet, or it was empty and `clear` removed it meanwhile
                if target.parent.exists() and not temporary.exists():
                    raise
                _make_folder(target.parent, self._mode)
            else:
                return True

    def has(self, path: str) -> bool:
        """Whether there is a file."""
        return (self._root / path).exists()

    def reader(self, path: str) -> BinaryIO:
        """A file to be read in pieces; raises `FileNotFoundError` when there is none."""
        return (self._root / path).open("rb")

    def location(self, path: str) -> tuple[str, Any]:
        """The full name."""
        return str((self._root / path).absolute()), None

    def address(self, path: str) -> str:
        """The full name, as an address."""
        return f"file://{(self._root / path).absolute()}"

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none when there is no such folder."""
        with self._errors(folder):
            try:
                return sorted(os.listdir(self._root / folder))
            except (FileNotFoundError, NotADirectoryError):
                return []
            except PermissionError as error:
                raise self._unusable(folder, error) from error

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files; missing ones are ignored."""
        for path in paths:
            with self._errors(path), suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(self._root / path)

    def move(self, source: str, target: str) -> None:
        """Move a file or folder; on return the new path is durable, and the old one gone."""
        path = self._root / target
        with self._errors(source):
            _make_folder(path.parent, self._mode)
            os.rename(self._root / source, path)
            self._sync(path.parent)
            self._sync((self._root / source).parent)

    def settle(self, folder: str) -> None:
        """Sync a folder: names that another process linked, but has not synced yet, are durable then."""
        with self._errors(folder), suppress(FileNotFoundError):
            self._sync(self._root / folder)

    def _sync(self, folder: Path) -> None:
        """Sync a folder and, once, those above it, which another process may have made and not synced yet."""
        _sync_folder(folder)
        named = []
        while folder not in (self._root, *self._durable):
            named.append(folder)
            folder = folder.parent
            _sync_folder(folder)
        self._durable.update(named)

    def clear(self, folder: str) -> None:
        """Remove a folder if it is empty."""
        with suppress(OSError):
            os.rmdir(self._root / folder)
            self._durable.discard(self._root / folder)

    def _unusable(self, path: str, error: OSError) -> UnusablePathError:
        return UnusablePathError(f"{self.url}: {path}: {error.strerror}")

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"{self.url}: {path}: {error.strerror or error}") from error


def _make_folder(folder: Path, mode: int) -> None:
    """Make a folder and its parents; their names are not synced."""
    if not folder.is_dir():
        _make_folder(folder.parent, mode)
        with suppress(FileExistsError):
            os.mkdir(folder)
            os.chmod(folder, mode)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Object stores: S3, Google Cloud Storage, Azure, through fsspec


class ObjectFiles(Files):
    """
    A prefix of an object store, as a file system of fsspec.

    One `put` is one upload, complete or not there at all. `put_new` is a conditional upload (`If-None-Match: *`
    on S3), which the file system must offer as `pipe_file(…, mode="create")`; `open` tests whether the server
    obeys it, and refuses one that does not, because on it two collectors could seal one round twice. Lists never
    come from a cache.
    """

    def __init__(self, filesystem: Any, prefix: str, url: str = "", address: str = "") -> None:
        self._filesystem = filesystem
        self._address = address.rstrip("/")  # as given: fsspec drops what other connectors need
        self._prefix = prefix.rstrip("/")
        protocols = filesystem.protocol
        protocol = protocols if isinstance(protocols, str) else protocols[0]
        self.url = url or f"lake+{protocol}://{self._prefix.lstrip('/')}"

    def open(self) -> None:
        """Test whether the server refuses to overwrite a file."""
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
        with self._errors(path), suppress(FileNotFoundError):
            return bytes(self._filesystem.cat_file(self._full(path)))
        return None

    def read_all(self, paths: Iterable[str]) -> list[bytes | UnusablePathError | None]:
        """Several whole files, fetched in parallel where the file system can do that."""
        full = [self._full(path) for path in paths]
        with self._errors(""):
            contents = self._filesystem.cat(full, on_error="return") if full else {}
        if not isinstance(contents, dict):  # for one path, some file systems return its content alone
            contents = dict.fromkeys(full, contents)
        files: list[bytes | UnusablePathError | None] = []
        for path in full:
            content = contents[path]
            with self._errors(path.removeprefix(self._prefix + "/")):
                if isinstance(content, Exception) and not isinstance(content, FileNotFoundError):
                    raise content
            files.append(None if isinstance(content, FileNotFoundError) else bytes(content))
        return files

    def has(self, path: str) -> bool:
        """Whether there is a file."""
        self._filesystem.invalidate_cache()
        with self._errors(path):
            return bool(self._filesystem.exists(self._full(path)))

    def location(self, path: str) -> tuple[str, Any]:
        """The address with its protocol, and the file system to register with an engine."""
        return str(self._filesystem.unstrip_protocol(self._full(path))), self._filesystem

    def address(self, path: str) -> str:
        """The address, in the form in which that of the lake was given."""
        return f"{self._address}/{path}" if self._address else self.location(path)[0]

    def put(self, path: str, data: bytes) -> None:
        """Write a file under a path that no other process uses; a retry writes the same again."""
        with self._errors(path):
            self._filesystem.pipe_file(self._full(path), data)

    def put_new(self, path: str, data: bytes) -> bool:
        """Write a file if there is none; False when there is one."""
        with self._errors(path), suppress(FileExistsError):
            self._filesystem.pipe_file(self._full(path), data, mode="create")
            return True
        return False

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none when there is no such folder."""
        self._filesystem.invalidate_cache()
        with self._errors(folder), suppress(FileNotFoundError):
            paths = self._filesystem.ls(self._full(folder), detail=False)
            return sorted({str(path).rstrip("/").rpartition("/")[2] for path in paths})
        return []

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files; missing ones are ignored."""
        full = [self._full(path) for path in paths]
        try:
            if len(full) > 1:
                self._filesystem.rm(full)
                return
        except Exception:  # perhaps one of them is missing: remove them one by one
            self._filesystem.invalidate_cache()
        for path in full:
            with self._errors(path), suppress(FileNotFoundError):
                self._filesystem.rm_file(path)

    def _full(self, path: str) -> str:
        return f"{self._prefix}/{path}".rstrip("/")

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # libraries of object stores have their own exceptions
            raise StoreError(f"{self.url}: {path}: {type(error).__name__}: {error}") from error


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
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]

    try:
        filesystem, prefix = url_to_fs(inner, use_listings_cache=False, skip_instance_cache=True)
    except ImportError as missing:
        raise StoreError(f"{shown}: {missing}") from missing
    except ValueError as unknown:
        raise StoreError(f"{shown}: expected a protocol that fsspec knows: {unknown}") from unknown
    return ObjectFiles(filesystem, prefix, shown, inner)
