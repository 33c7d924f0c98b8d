"""A cache of values that never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class LruCache(Generic[T]):
    """The last used values, at most so many, or of so much weight; safe for threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        """The value of a key; None when it is not in the cache."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Hashable, value: T, weight: int = 1) -> None:
        """Store a value, and drop the least recently used ones."""
        with self._lock:
            self._weight += weight - self._values.get(key, (None, 0))[1]
            self._values[key] = value, weight
            self._values.move_to_end(key)
            while self._weight > self._most:
                self._weight -= self._values.popitem(last=False)[1][1]
