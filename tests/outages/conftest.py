"""A disk that can be filled for real."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """A file system of a few megabytes, in memory; what fills it is a file of ours."""

    def __init__(self, size: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="reticent-disk-"))  # where "nobody" can reach it
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.folder)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if mounted.returncode != 0:
            self.folder.rmdir()
            pytest.skip(
                f"no file system can be mounted here ({mounted.stderr.strip()}); try: unshare -rm pytest"
            )

    @property
    def ballast(self) -> Path:
        return self.folder / "ballast"

    def fill(self) -> None:
        """Take up all room that there is, and once more what comes free while that goes on."""
        with self.ballast.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 16, 4096, 4096):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def free(self, size: int = 0) -> None:
        """Give back all but so many bytes."""
        if size:
            with self.ballast.open("r+b") as file:
                file.truncate(size)
        else:
            self.ballast.unlink()

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.folder)], check=True)
        self.folder.rmdir()


@pytest.fixture
def disk() -> Iterator[Callable[[str], SmallDisk]]:
    """Make small disks, which are gone afterwards."""
    made: list[SmallDisk] = []

    def make(size: str) -> SmallDisk:
        made.append(SmallDisk(size))
        return made[-1]

    yield make
    for each in made:
        each.unmount()


@pytest.fixture(scope="session")
def eventually() -> Callable[..., float]:
    """Wait until something is so; returns the seconds it took, and fails when it takes too long."""

    def wait(what: Callable[[], object], seconds: float = 20.0) -> float:
        start = time.monotonic()
        while not what():
            assert time.monotonic() - start < seconds, "it is still not so"
            time.sleep(0.02)
        return time.monotonic() - start

    return wait
