"""The books of a store: plans and keys, which are written once and read often."""

from dataclasses import replace
from threading import RLock

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.stores import Key, Layout, RoundKey


class DictBooks:
    """Plans and keys in dictionaries; `lock` makes a transaction of each method."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._plans: dict[tuple[str, int], Plan] = {}
        self._keys: dict[str, Key] = {}

    def register(self, plan: Plan) -> None:
        """Remember a plan, once per name and version."""
        with self.lock:
            if self._plans.setdefault((plan.name, plan.version), plan) != plan:
                raise StoreError(f"plan {plan.name} version {plan.version} is known with other content")

    def plans(self) -> list[Plan]:
        """All plans, by name and version."""
        with self.lock:
            return [self._plans[name] for name in sorted(self._plans)]

    def layout(self, key: RoundKey) -> Layout:
        """How the records of a round are laid out."""
        with self.lock:
            plan = self._plans.get((key.plan, key.version))
        if plan is None:
            raise StoreError(f"plan {key.plan} version {key.version} is not registered")
        return Layout(plan)

    def add_key(self, key: Key) -> None:
        """Keep the hash of a key."""
        with self.lock:
            if key.id in self._keys:
                raise StoreError(f"there is a key with the id {key.id} already")
            self._keys[key.id] = key

    def keys(self) -> list[Key]:
        """All keys, revoked ones too."""
        with self.lock:
            return list(self._keys.values())

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key; the first time stands."""
        with self.lock:
            key = self._keys.get(key_id)
            if key is not None and key.active:
                self._keys[key_id] = replace(key, revoked_at=at)
            return key is not None
