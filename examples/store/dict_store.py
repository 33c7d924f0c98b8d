"""
A store in dictionaries, the smallest that keeps the laws of `reticent_collector.stores.Store` (all but durability).

    python examples/store/dict_store.py

A round is a log of groups until it is sealed. The eight calls of a backend are all there is: the store counts each id
once, and there are no keys, so a collector with it serves its own machine alone.
"""

from collections.abc import Iterator, Mapping
from threading import RLock

from reticent.plan import Plan
from reticent_collector.stores import (
    Count,
    Records,
    RoundGoneError,
    RoundInfo,
    RoundKey,
    State,
    Store,
    latest,
)
from reticent_collector.testing import check_store


class DictBackend:
    """Everything in dictionaries; the lock makes a transaction of each method."""

    url = "dict:"

    def __init__(self) -> None:
        self._lock = RLock()
        self._plans: dict[tuple[str, int], Plan] = {}
        self._groups: dict[RoundKey, list[Records]] = {}
        self._closing: set[RoundKey] = set()
        self._sealed: dict[RoundKey, Count] = {}

    # Plans

    def put_plan(self, plan: Plan) -> Plan:
        """Keep a plan, unless there is one; returns what is kept."""
        with self._lock:
            return self._plans.setdefault((plan.name, plan.version), plan)

    def plans(self) -> list[Plan]:
        """All plans, by name and version."""
        with self._lock:
            return [self._plans[name] for name in sorted(self._plans)]

    # Open rounds: a list of groups each

    def put(self, groups: Mapping[RoundKey, Records]) -> list[RoundKey]:
        """Append a group to each round that is open; a durable backend has written them when it returns."""
        with self._lock:
            stored = [key for key in groups if self._state(key) in (None, "open")]
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
                RoundInfo(key, self._state(key) or "open", self._reports(key)) for key in latest(keys, last)
            ]

    def _reports(self, key: RoundKey) -> int:
        if key in self._sealed:
            return self._sealed[key].reports
        return sum(map(len, self._groups[key]))

    def _state(self, key: RoundKey) -> State | None:
        """What became of a round; None when there is none."""
        if key in self._sealed:
            return "sealed"
        if key in self._closing:
            return "closing"
        return "open" if key in self._groups else None

    # Sealing: closed, counted by the store, published

    def close_round(self, key: RoundKey) -> bool:
        """From now on groups are late; False when the round is sealed, or there is none."""
        with self._lock:
            if key in self._groups:
                self._closing.add(key)
            return key in self._groups

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


class DictStore(Store):
    """A store over such a backend."""

    def __init__(self) -> None:
        super().__init__(DictBackend())


if __name__ == "__main__":
    check_store(DictStore, durable=False)
    print("DictStore keeps the laws of a store.")
