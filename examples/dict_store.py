"""
A store in dictionaries, the smallest that keeps the laws of `tacit.stores.Store` (all but durability).

    python examples/dict_store.py
"""

from collections.abc import Mapping
from dataclasses import replace
from threading import RLock

from tacit.errors import StoreError
from tacit.plan import Plan
from tacit.stores import Appended, CountsByTags, Key, Layout, RoundInfo, RoundKey, check_store


class DictStore:
    """Open rounds are records by id, sealed rounds are counts; one lock makes each method a transaction."""

    url = "dict:"
    nbytes = 0

    def __init__(self) -> None:
        self._plans: dict[tuple[str, int], Plan] = {}
        self._open: dict[RoundKey, dict[bytes, bytes]] = {}
        self._sealed: dict[RoundKey, tuple[int, CountsByTags]] = {}
        self._keys: dict[str, Key] = {}
        self._lock = RLock()

    def register(self, plan: Plan) -> None:
        """Remember a plan, once per name and version."""
        with self._lock:
            if self._plans.setdefault((plan.name, plan.version), plan) != plan:
                raise StoreError(f"{plan.name} version {plan.version} is another plan here")

    def plans(self) -> list[Plan]:
        """All plans, by name and version."""
        with self._lock:
            return [self._plans[name] for name in sorted(self._plans)]

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        """Keep new records, in one transaction."""
        with self._lock:  # look at all of them before any is kept: all or none
            rows = {key: self._layout(key).array(group) for key, group in records.items()}
            return {key: self._add(key, [row.tobytes() for row in group]) for key, group in rows.items()}

    def _add(self, key: RoundKey, records: list[bytes]) -> Appended:
        if key in self._sealed or not records:
            return Appended(late=len(records))
        known = self._open.setdefault(key, {})
        before = len(known)
        for record in records:
            known.setdefault(record[:16], record)  # of two with one id, the first one stands
        return Appended(accepted=len(known) - before, duplicate=before + len(records) - len(known))

    def _layout(self, key: RoundKey) -> Layout:
        if (key.plan, key.version) not in self._plans:
            raise StoreError(f"{key.plan} version {key.version} was never registered")
        return Layout(self._plans[key.plan, key.version])

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """Latest first, the `last` ones of each plan."""
        with self._lock:
            found = [RoundInfo(key, "open", len(known)) for key, known in self._open.items()]
            found += [RoundInfo(key, "sealed", reports) for key, (reports, _) in self._sealed.items()]
        found.sort(key=lambda info: (info.key.plan, -info.key.round, -info.key.version))
        names = sorted({info.key.plan for info in found}) if plan is None else [plan]
        return [info for name in names for info in [i for i in found if i.key.plan == name][:last]]

    def unsealed(self) -> list[RoundKey]:
        """Rounds that still take records."""
        with self._lock:
            return list(self._open)

    def counts(self, key: RoundKey) -> CountsByTags:
        """Provisional while the round is open, final afterwards."""
        with self._lock:
            if key in self._sealed or key not in self._open:
                return self._sealed.get(key, (0, {}))[1]
            layout = self._layout(key)
            return layout.counts(layout.array(b"".join(self._open[key].values())))

    def seal(self, key: RoundKey) -> bool:
        """Turn records into counts, and drop them."""
        with self._lock:
            if key not in self._open:
                return False
            self._sealed[key] = len(self._open[key]), self.counts(key)
            del self._open[key]
            return True

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
        """Revoke a key once; the first time stands."""
        with self._lock:
            key = self._keys.get(key_id)
            if key is not None and key.active:
                self._keys[key_id] = replace(key, revoked_at=at)
            return key is not None

    def load_open_rounds(self) -> int:
        """They are in memory already."""
        return self.open_reports

    @property
    def open_reports(self) -> int:
        """Reports of open rounds."""
        with self._lock:
            return sum(map(len, self._open.values()))

    def verify(self) -> list[str]:
        """Nothing is ever wrong with dictionaries."""
        return []

    def ping(self) -> None:
        """They can always be written."""

    def close(self) -> None:
        """Nothing is open."""


if __name__ == "__main__":
    check_store(DictStore, durable=False)
    print("DictStore keeps the laws of a store.")
