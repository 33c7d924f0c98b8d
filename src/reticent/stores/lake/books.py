"""Plans and keys of a lake: a file each, written once."""

from __future__ import annotations

import json

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.stores.keys import Key
from reticent.stores.lake.files import Files
from reticent.stores.lake.layout import KEYS, PLANS, Columns, plan_path
from reticent.stores.plans import kept_plan, not_registered, require_same, require_text
from reticent.stores.records import RoundKey


class LakeBooks:
    """The part of a lake that knows plans and keys. Files never change, so each is read once."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._texts: dict[str, str] = {}
        self._columns: dict[tuple[str, int], Columns] = {}

    @property
    def url(self) -> str:
        """The address of the lake, without a password."""
        return self.files.url

    # Plans

    def register(self, plan: Plan) -> None:
        """Remember a plan; raises `StoreError` when another one is known by this name and version."""
        require_text(self.url, plan)
        path = plan_path(plan.name, plan.version)
        if self.files.read(path) is None:
            self.files.put_new(path, plan.text.encode())
        require_same(self.url, plan, self.plan_at(path))

    def plans(self) -> list[Plan]:
        """Every plan ever registered, by name and version."""
        found = [self.plan_at(path) for path in self.plan_paths()]
        return sorted(found, key=lambda plan: (plan.name, plan.version))

    def plan_paths(self) -> list[str]:
        """The files of all plans."""
        return [
            f"{PLANS}/{name}/{file}"
            for name in self.files.names(PLANS)
            for file in self.files.names(f"{PLANS}/{name}")
            if file.startswith("v") and file.endswith(".toml")
        ]

    def plan_at(self, path: str) -> Plan:
        """The plan in a file."""
        plan = kept_plan(f"{self.url}: {path}", self._text(path))
        if path != plan_path(plan.name, plan.version):
            raise StoreError(f"{self.url}: {path}: holds the text of {plan.name} version {plan.version}")
        return plan

    def columns(self, key: RoundKey) -> Columns:
        """How the reports of a round are laid out."""
        known = self._columns.get((key.plan, key.version))
        if known is None:
            path = plan_path(key.plan, key.version)
            if path not in self._texts and self.files.read(path) is None:
                raise not_registered(self.url, key)
            known = self._columns[key.plan, key.version] = Columns(self.plan_at(path))
        return known

    # Keys

    def add_key(self, key: Key) -> None:
        """Keep a key's hash."""
        text = json.dumps(
            {
                "role": key.role,
                "hash": key.hash.hex(),
                "label": key.label,
                "created_at": key.created_at,
            }
        )
        if not self.files.put_new(f"{KEYS}/{key.id}.json", text.encode()):
            raise StoreError(f"{self.url}: there is a key {key.id} already")
        if key.revoked_at is not None:
            self.revoke_key(key.id, key.revoked_at)

    def keys(self) -> list[Key]:
        """All keys, revoked ones too."""
        names = set(self.files.names(KEYS))
        ids = [name.removesuffix(".json") for name in names if not name.endswith(".revoked.json")]
        found = [self._key(key_id, f"{key_id}.revoked.json" in names) for key_id in ids]
        return sorted(found, key=lambda key: (key.created_at, key.id))

    def _key(self, key_id: str, revoked: bool) -> Key:
        path = f"{KEYS}/{key_id}.json"
        try:
            kept = json.loads(self._text(path))
            at = json.loads(self._text(f"{KEYS}/{key_id}.revoked.json"))["revoked_at"] if revoked else None
            return Key(
                key_id, kept["role"], bytes.fromhex(kept["hash"]), kept["label"], kept["created_at"], at
            )
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.url}: {path}: is damaged: {type(error).__name__}") from error

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key at a unix time; False when there is none by this id. The first time stays."""
        if f"{key_id}.json" not in self.files.names(KEYS):
            return False
        self.files.put_new(f"{KEYS}/{key_id}.revoked.json", json.dumps({"revoked_at": at}).encode())
        return True

    def _text(self, path: str) -> str:
        """The text of a file that is there and never changes."""
        known = self._texts.get(path)
        if known is None:
            data = self.files.read(path)
            if data is None:
                raise StoreError(f"{self.url}: {path}: is gone")
            known = self._texts[path] = data.decode(errors="replace")
        return known
