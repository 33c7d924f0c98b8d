"""A folder whose power can be cut at any call: what was not synced is forgotten then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import pytest
from tests.shared.lakes import Memory


class File:
    """Contents as they are, and as the last `fsync` left them."""

    def __init__(self) -> None:
        self.now, self.synced = b"", b""

    def sync(self) -> None:
        self.synced = self.now


class Folder:
    """Names as they are, and as the last `fsync` of the folder left them."""

    def __init__(self) -> None:
        self.now: dict[str, Node] = {}
        self.synced: dict[str, Node] = {}

    def sync(self) -> None:
        self.synced = dict(self.now)

    def survives(self, creations: bool, removals: bool) -> dict[str, Node]:
        """The names after a power cut, if it spares unsynced creations, or unsynced removals."""
        names = {name: node for name, node in self.synced.items() if name in self.now or not removals}
        return {**names, **self.now} if creations else names


Node: TypeAlias = File | Folder


class Disk:
    """
    Watches the calls that change files below a folder, and knows what a power cut would leave of them.

    POSIX promises no more than this: a file's bytes last once the file is synced, a name once its folder is.
    Of what is not synced any part may last; tried are the four extremes (no unsynced name is made or all are,
    no unsynced name is removed or all are), with unsynced bytes lost in each.

    `step` is called with the name of each call before it; it may raise, or let another process work.
    """

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        root.mkdir()
        self.root, self.top = root, Folder()
        self.step: Callable[[str], None] = lambda call: None
        self._descriptors: dict[int, Node] = {}
        real = {name: getattr(os, name) for name in (*self._CHANGES, "open", "close", "write")}
        for name, change in self._CHANGES.items():
            patch.setattr(os, name, self._watched(real[name], change))
        patch.setattr(os, "open", self._open(real["open"]))
        patch.setattr(os, "close", self._close(real["close"]))
        patch.setattr(os, "fsync", self._fsync)
        patch.setattr(os, "write", self._write(real["write"]))
        patch.setattr(os, "listdir", self._listdir(os.listdir))

    def images(self, folder: str) -> Iterator[Memory]:
        """What a power cut now may leave of a folder, each possibility once."""
        seen = []
        for creations, removals in product((False, True), repeat=2):
            image = Memory()
            files: dict[str, bytes] = {}
            self._copy(self.top, "", files, creations, removals)
            for path, data in files.items():
                if path.startswith(f"{folder}/"):
                    image.files[path.removeprefix(f"{folder}/")] = data
            if image.files not in seen:
                seen.append(image.files)
                yield image

    def _copy(self, folder: Folder, path: str, files: dict[str, bytes], *spares: bool) -> None:
        for name, node in folder.survives(*spares).items():
            if isinstance(node, File):
                files[path + name] = node.synced
            else:
                self._copy(node, f"{path}{name}/", files, *spares)

    # The calls

    def _node(self, path: Path) -> Node:
        node: Node = self.top
        for name in path.relative_to(self.root).parts:
            assert isinstance(node, Folder)
            node = node.now[name]
        return node

    def _folder(self, path: Path) -> dict[str, Node]:
        node = self._node(path.parent)
        assert isinstance(node, Folder)
        return node.now

    def _is_here(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and Path(path).is_relative_to(self.root)

    def _watched(self, call: Callable[..., Any], change: Callable[..., None]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            if not self._is_here(arguments[0]):
                return call(*arguments, **options)
            self.step(call.__name__)
            result = call(*arguments, **options)
            change(self, *(Path(path) for path in arguments if self._is_here(path)))
            return result

        return watched

    def _link(self, source: Path, target: Path) -> None:
        self._folder(target)[target.name] = self._node(source)

    def _unlink(self, path: Path) -> None:
        del self._folder(path)[path.name]

    def _mkdir(self, path: Path) -> None:
        self._folder(path)[path.name] = Folder()

    _CHANGES: ClassVar = {"link": _link, "unlink": _unlink, "mkdir": _mkdir, "rmdir": _unlink}

    def _open(self, call: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            if not self._is_here(path):
                return call(path, flags, *arguments, **options)
            self.step("open")
            descriptor = call(path, flags, *arguments, **options)
            if flags & os.O_CREAT:
                self._folder(Path(path))[Path(path).name] = File()
            self._descriptors[descriptor] = self._node(Path(path))
            return descriptor

        return opened

    def _close(self, call: Callable[[int], None]) -> Callable[[int], None]:
        def close(descriptor: int) -> None:
            self._descriptors.pop(descriptor, None)
            call(descriptor)

        return close

    def _fsync(self, descriptor: int) -> None:
        """The real disk is spared: only what would last is of interest."""
        node = self._descriptors.get(descriptor)
        if node is not None:
            self.step("sync" if node.now == node.synced else f"sync a changed {type(node).__name__}")
            node.sync()

    def _write(self, call: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
        def write(descriptor: int, data: Any) -> int:
            node = self._descriptors.get(descriptor)
            if node is None:
                return call(descriptor, data)
            self.step("write")
            assert isinstance(node, File)
            count = call(descriptor, data)
            node.now += bytes(data[:count])
            return count

        return write

    def _listdir(self, call: Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
        def listdir(path: Any) -> list[str]:
            if self._is_here(path):
                self.step("list")
            return call(path)

        return listdir
