"""Leases: which collector seals a round. They save work; no result depends on them."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from reticent.errors import StoreError
from reticent_collector.stores.records import RoundKey
from reticent_lake.store.files import Files
from reticent_lake.store.layout import SEALS, folder_of

LEASE_SECONDS = 10.0
"""How long a lease that is not renewed is respected."""
_LEASE = re.compile(r"lease-([0-9]{8})\.json")


class Leases:
    """
    Leases as files `lease-N.json` beside the other files of a seal; the highest number is valid.

    A number is taken by making its file, which one process can do. The holder renews by taking the next number.
    Others watch: when the same lease stands for longer than its term, by their own clock, its holder is presumed
    dead. A wrong guess is harmless: two processes that seal come to one result.
    """

    def __init__(
        self,
        files: Files,
        holder: str,
        seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._holder = holder
        self._seconds = seconds
        self._clock = clock
        self._watched: dict[RoundKey, tuple[tuple[int, str], float]] = {}  # another's lease, and since when

    def take(self, key: RoundKey) -> bool:
        """Take or renew the lease of a round; False while another process holds it."""
        numbers = self._numbers(key)
        if numbers:
            holder, seconds = self._read(key, numbers[-1])
            if holder != self._holder:
                lease = numbers[-1], holder
                watched, since = self._watched.get(key, (None, 0.0))
                if watched != lease:
                    self._watched[key] = lease, self._clock()
                    return False
                if self._clock() - since < seconds:
                    return False
        document = {"holder": self._holder, "seconds": self._seconds}
        number = numbers[-1] + 1 if numbers else 1
        if not self._files.put_new(self._path(key, number), json.dumps(document).encode()):
            return False
        self._files.remove(self._path(key, old) for old in numbers)
        return True

    def release(self, key: RoundKey) -> None:
        """Give up the lease."""
        self._watched.pop(key, None)
        numbers = self._numbers(key)
        if numbers and self._read(key, numbers[-1])[0] == self._holder:
            self._files.remove(self._path(key, number) for number in numbers)

    @contextmanager
    def held(self, key: RoundKey) -> Iterator[bool]:
        """Whether the lease of a round was taken; it is renewed meanwhile and released at the end."""
        if not self.take(key):
            yield False
            return
        done = threading.Event()

        def renew() -> None:
            while not done.wait(self._seconds / 3):
                with suppress(StoreError):  # without the lease the work is done all the same
                    self.take(key)

        thread = threading.Thread(target=renew, name="reticent-lease", daemon=True)
        thread.start()
        try:
            yield True
        finally:
            done.set()
            thread.join()
            with suppress(StoreError):  # it expires anyway
                self.release(key)

    def _numbers(self, key: RoundKey) -> list[int]:
        matches = map(_LEASE.fullmatch, self._files.names(folder_of(key, SEALS)))
        return sorted(int(match[1]) for match in matches if match)

    def _path(self, key: RoundKey, number: int) -> str:
        return f"{folder_of(key, SEALS)}/lease-{number:08d}.json"

    def _read(self, key: RoundKey, number: int) -> tuple[str, float]:
        """The holder of a lease, and its term in seconds; no holder when it is removed or damaged."""
        try:
            document = json.loads(self._files.read(self._path(key, number)) or b"{}")
            return str(document["holder"]), float(document["seconds"])
        except (ValueError, KeyError, TypeError):
            return "", self._seconds
