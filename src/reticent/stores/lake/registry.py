"""The plans and keys of a lake: a file each, written once and read once."""

from __future__ import annotations

import json
import re

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.stores.lake.files import Files
from reticent.stores.lake.layout import KEYS, PLANS, Columns, plan_path
from reticent.stores.records import Layout, RoundKey
from reticent.stores.round_store import not_registered, read_plan
from reticent.stores.store import Key


class Registry:
    """The plans and keys of a lake."""

    def __init__(self, files: Files, readonly: bool) -> None:
        self.files = files
        self.url = files.url
        self._readonly = readonly
        self._is_shut = False
        self._texts: dict[str, str] = {}
        self._columns: dict[tuple[str, int], Columns] = {}

    # Plans

    def put_plan(self, plan: Plan) -> Plan:
        """Store a plan's text unless its name and version are stored already; returns the stored plan."""
        self._check_writable()
        path = plan_path(plan.name, plan.version)
        if self.files.read(path) is None:
            self.files.put_new(path, plan.text.encode())
        else:  # durable before reports on it are acknowledged
            self.files.settle(f"{PLANS}/{plan.name}")
        return self.plan_at(path)

    def plans(self) -> list[Plan]:
        """Every plan ever stored, by name and version."""
        return sorted(map(self.plan_at, self.plan_paths()), key=lambda plan: (plan.name, plan.version))

    def plan_paths(self) -> list[str]:
        """The files of all plans."""
        return [
            f"{PLANS}/{name}/{file}"
            for name in self.files.names(PLANS)
            for file in self.files.names(f"{PLANS}/{name}")
            if re.fullmatch(r"v[1-9][0-9]*\.toml", file)
        ]

    def plan_at(self, path: str) -> Plan:
        """The plan in a file."""
        plan = read_plan(f"{self.url}: {path}", self._text(path))
        if path != plan_path(plan.name, plan.version):
            raise StoreError(f"{self.url}: {path}: holds the text of {plan.name} version {plan.version}")
        return plan

    def columns(self, key: RoundKey) -> Columns:
        """The columns of a round's parts."""
        columns = self._columns.get(key[:2])
        if columns is None:
            path = plan_path(key.plan, key.version)
            if path not in self._texts and self.files.read(path) is None:
                raise not_registered(self.url, key)
            columns = self._columns[key[:2]] = Columns(self.plan_at(path))
        return columns

    def layout(self, key: RoundKey) -> Layout:
        """The layout of a round's records."""
        return self.columns(key).layout

    # Keys

    def add_key(self, key: Key) -> None:
        """Store a key's hash."""
        self._check_writable()
        kept = {"role": key.role, "hash": key.hash.hex(), "label": key.label, "created_at": key.created_at}
        if not self.files.put_new(f"{KEYS}/{key.id}.json", json.dumps(kept).encode()):
            raise StoreError(f"{self.url}: key {key.id} already exists")
        if key.revoked_at is not None:
            self.revoke_key(key.id, key.revoked_at)

    def keys(self) -> list[Key]:
        """All keys, including revoked ones."""
        names, keys = set(self.files.names(KEYS)), []
        for name in names:
            if name.endswith(".revoked.json") or not name.endswith(".json"):
                continue
            key_id, at = name.removesuffix(".json"), None
            try:
                kept = json.loads(self._text(f"{KEYS}/{key_id}.json"))
                if f"{key_id}.revoked.json" in names:
                    at = json.loads(self._text(f"{KEYS}/{key_id}.revoked.json"))["revoked_at"]
                secret = bytes.fromhex(kept["hash"])
                keys.append(Key(key_id, kept["role"], secret, kept["label"], kept["created_at"], at))
            except (ValueError, KeyError, TypeError) as error:
                reason = f"is damaged: {type(error).__name__}"
                raise StoreError(f"{self.url}: {KEYS}/{key_id}.json: {reason}") from error
        return sorted(keys, key=lambda key: (key.created_at, key.id))

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key at a unix time; False when no key has this id. The first time stays."""
        self._check_writable()
        if f"{key_id}.json" not in self.files.names(KEYS):
            return False
        self.files.put_new(f"{KEYS}/{key_id}.revoked.json", json.dumps({"revoked_at": at}).encode())
        return True

    def _text(self, path: str) -> str:
        text = self._texts.get(path)
        if text is None:
            data = self.files.read(path)
            if data is None:
                raise StoreError(f"{self.url}: {path}: is gone")
            text = self._texts[path] = data.decode(errors="replace")
        return text

    def close(self) -> None:
        """Close connections."""
        self._is_shut = True
        self.files.close()

    def _check_not_shut(self) -> None:
        if self._is_shut:
            raise StoreError(f"{self.url}: the store was closed")

    def _check_writable(self) -> None:
        self._check_not_shut()
        if self._readonly:
            raise StoreError(f"{self.url}: is opened read-only")
