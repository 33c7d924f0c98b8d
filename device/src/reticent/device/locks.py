"""
Locks between processes: `fcntl` where there is one, else `msvcrt` (Windows). Both end with their process.

Windows has no shared locks: there a shared holder locks one byte of the file and an exclusive holder all of
them.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

SHARED_AT_ONCE = 64  # how many can hold a shared lock at once on Windows; one more waits


class ProcessLock:
    """A lock on a file of its own, made if it is missing. Other users cannot open it, so they cannot lock it."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        self._held: tuple[int, int] | None = None  # on Windows, the first byte that is locked and how many

    def take(self, *, shared: bool = False) -> bool:
        """Try to lock, without waiting. True also where the file system has no locks."""
        try:
            if fcntl is not None:
                fcntl.flock(self._descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                return True
            return self._take_bytes(shared)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def wait(self, seconds: float, *, shared: bool = False) -> bool:
        """Try to lock until so many seconds have passed."""
        deadline = time.monotonic() + seconds
        while not self.take(shared=shared):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def _take_bytes(self, shared: bool) -> bool:
        import msvcrt

        places = [(byte, 1) for byte in range(SHARED_AT_ONCE)] if shared else [(0, SHARED_AT_ONCE)]
        for first, count in places:
            os.lseek(self._descriptor, first, os.SEEK_SET)
            try:
                msvcrt.locking(self._descriptor, msvcrt.LK_NBLCK, count)  # type: ignore[attr-defined, unused-ignore]
            except PermissionError:
                continue
            self._held = first, count
            return True
        return False

    def release(self) -> None:
        """Unlock. Closing would not do: a child forked meanwhile shares the descriptor, and the lock."""
        with suppress(OSError):
            if fcntl is not None:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            elif self._held is not None:
                import msvcrt

                first, count = self._held
                os.lseek(self._descriptor, first, os.SEEK_SET)
                msvcrt.locking(self._descriptor, msvcrt.LK_UNLCK, count)  # type: ignore[attr-defined, unused-ignore]
        self._held = None

    def close(self) -> None:
        """Let go of the file."""
        self.release()
        os.close(self._descriptor)
