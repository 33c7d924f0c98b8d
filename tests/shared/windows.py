"""
Takes away from a process what Windows does not have, and gives it Windows' own locks.

`msvcrt.locking` locks bytes for the one who opened the file, as Linux's open file description locks do, so the
locks are real ones of the kernel. A file that is open cannot be renamed or replaced, and a folder cannot be opened,
as on Windows.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_SET_LOCK = 37  # F_OFD_SETLK of Linux
_rename, _replace, _open = os.rename, os.replace, os.open


def _locking(descriptor: int, mode: int, count: int) -> None:
    kind = fcntl.F_UNLCK if mode == 0 else fcntl.F_WRLCK
    first = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        fcntl.fcntl(descriptor, _SET_LOCK, struct.pack("hhqqi4x", kind, os.SEEK_SET, first, count, 0))
    except BlockingIOError as error:
        raise PermissionError(13, "Permission denied") from error


def _unless_open(act: Any) -> Any:
    def checked(source: str, target: str) -> None:
        wanted = {os.path.realpath(path) for path in (source, target)}
        for process in Path("/proc").glob("[0-9]*/fd/*"):
            try:
                taken = os.path.realpath(process) in wanted
            except OSError:
                continue
            if taken:
                raise PermissionError(
                    13, "The process cannot access the file because it is being used", source
                )
        act(source, target)

    return checked


def _open_files_only(path: str, *arguments: Any) -> int:
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return _open(path, *arguments)


def become() -> None:
    """From here on this process is as on Windows; for a process of its own."""
    msvcrt: Any = ModuleType("msvcrt")
    msvcrt.LK_UNLCK, msvcrt.LK_NBLCK, msvcrt.locking = 0, 2, _locking
    sys.modules["msvcrt"] = msvcrt
    sys.modules["fcntl"] = None  # type: ignore[assignment]
    for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "register_at_fork", "fork", "fchmod", "getuid"):
        delattr(os, name)
    os.rename, os.replace = _unless_open(_rename), _unless_open(_replace)
    os.open = _open_files_only  # type: ignore[assignment]
