"""
A store in dictionaries, the smallest that keeps the laws of `reticent_collector.stores.Store` (all but durability).

    python examples/store/dict_store.py

A round is a log of groups until it is sealed; counting takes each id once.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from threading import RLock

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.stores import (
    Count,
    Key,
    Layout,
    Records,
    Repair,
    RoundGoneError,
    RoundInfo,
    RoundKey,
    State,
    Store,
    latest,
)
from reticent_collector.stores.sorting import Sorting, count_once
from reticent_collector.testing import check_store


class DictBackend:
    """Everything in dictionaries; the lock makes a transaction of each method."""

    url = "dict:"

    def __init__(self) -> None:
        self._lock = RLock()
        self._plans: dict[tuple[str, int], Plan] = {}
        self._keys: dict[str, Key] = {}
        self._groups: dict[RoundKey, list[Records]] = {}
        self._closing: set[RoundKey] = set()
        self._sealed: dict[RoundKey, Count] = {}
        self._pruned: set[RoundKey] = set()

    # Plans and keys

    def put_plan(self, plan: Plan) -> Plan:
        """Keep a plan, unless there is one; returns what is kept."""
        with self._lock:
            return self._plans.setdefault((plan.name, plan.version), plan)

    def plans(self) -> list[Plan]:
        """All plans, by name and version."""
        with self._lock:
            return [self._plans[name] for name in sorted(self._plans)]

    def layout(self, key: RoundKey) -> Layout:
        """How the records of a round are laid out."""
        with self._lock:
            plan = self._plans.get((key.plan, key.version))
        if plan is None:
            raise StoreError(f"plan {key.plan} version {key.version} is not registered")
        return Layout(plan)

    def add_key(self, key: Key) -> None:
        """Keep the hash of a key."""
        with self._lock:
            if key.id in self._keys:
                raise StoreError(f"there is a key with the id {key.id} already")
            self._keys[key.id] = key

    def keys(self) -> list[Key]:
        """All keys, revoked ones too."""
        with self._lock:
            return list(self._keys.values())

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key; the first time stands."""
        with self._lock:
            key = self._keys.get(key_id)
            if key is not None and key.active:
                self._keys[key_id] = replace(key, revoked_at=at)
            return key is not None

    # Open rounds: a list of groups each

    def put(self, groups: Mapping[RoundKey, Records]) -> list[RoundKey]:
        """Append a group to each round that is open; a durable backend has written them when it returns."""
        with self._lock:
            stored = [key for key in groups if self.state(key) in (None, "open")]
            for key in stored:
                self._groups.setdefault(key, []).append(groups[key])
            return stored

    def records(self, key: RoundKey) -> Iterator[Records]:
        """The groups of a round that is not sealed."""
        with self._lock:
            if key not in self._groups:
                raise RoundGoneError
            groups = list(self._groups[key])
        yield from groups

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """Latest first, the `last` ones of each plan."""
        with self._lock:
            keys = [key for key in (*self._groups, *self._sealed) if plan in (None, key.plan)]
            return [
                RoundInfo(key, self.state(key) or "open", self._reports(key)) for key in latest(keys, last)
            ]

    def _reports(self, key: RoundKey) -> int:
        if key in self._sealed:
            return self._sealed[key].reports
        return sum(map(len, self._groups[key]))

    def unsealed(self) -> list[RoundKey]:
        """Rounds that wait to be sealed."""
        with self._lock:
            return list(self._groups)

    def state(self, key: RoundKey) -> State | None:
        """What became of a round; None when there is none."""
        with self._lock:
            if key in self._sealed or key in self._pruned:
                return "sealed"
            if key in self._closing:
                return "closing"
            return "open" if key in self._groups else None

    # Sealing: closed, counted, published

    def claim(self, key: RoundKey) -> AbstractContextManager[bool]:
        """Always here: no other process has this store."""
        return nullcontext(True)

    def close_round(self, key: RoundKey) -> bool:
        """From now on groups are late; False when the round is sealed, or there is none."""
        with self._lock:
            if key in self._groups:
                self._closing.add(key)
            return key in self._groups

    def count(self, key: RoundKey, *, skip_bad: bool = False) -> Count:
        """Count what is kept, each id once."""
        with self._lock:
            if key in self._sealed:
                return self._sealed[key]
            stored = self._reports(key)
        return count_once(self.layout(key), self.records(key), stored, Sorting())

    def publish(self, key: RoundKey, count: Count) -> bool:
        """Counts for ever, and the records are gone; False when somebody was quicker."""
        with self._lock:
            if key not in self._groups:
                return False
            self._sealed[key] = count
            del self._groups[key]
            self._closing.discard(key)
            return True

    def final(self, key: RoundKey) -> Count | None:
        """What a sealed round comes to."""
        with self._lock:
            return self._sealed.get(key)

    def sweep(self) -> None:
        """Nothing is left behind."""

    def prune(self, key: RoundKey) -> bool:
        """Keep that the round is sealed, and nothing else of it."""
        with self._lock:
            self._pruned |= {key} & self._sealed.keys()
            return self._sealed.pop(key, None) is not None

    # Upkeep

    def repair(self, key: RoundKey, *, dry: bool) -> Repair | None:
        """Nothing is ever wrong with dictionaries."""
        return None

    def verify(self) -> list[str]:
        """Nothing is ever wrong with dictionaries."""
        return []

    def ping(self) -> None:
        """They can always be written."""

    def close(self) -> None:
        """Nothing is open."""


class DictStore(Store):
    """A store over such a backend."""

    def __init__(self) -> None:
        super().__init__(DictBackend())


if __name__ == "__main__":
    check_store(DictStore, durable=False)
    print("DictStore keeps the laws of a store.")
