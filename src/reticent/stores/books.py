"""Plans and keys in a database: what is written once and read often."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from reticent.plan import Plan
from reticent.stores.keys import Key
from reticent.stores.plans import kept_plan, not_registered, require_same, require_text
from reticent.stores.pool import Transaction
from reticent.stores.records import Layout, RoundKey


class SqlBooks(ABC):
    """The part of a store in a database that knows plans and keys."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[str, int], Layout] = {}

    @property
    @abstractmethod
    def url(self) -> str:
        """The address of the store, without a password."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that changes something; durable once it ends. One at a time."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that changes nothing, beside which others read and write."""

    # Plans

    def register(self, plan: Plan) -> None:
        """Remember a plan; raises `StoreError` when another one is known by this name and version."""
        require_text(self.url, plan)
        with self.writing() as transaction:
            transaction.execute(
                "INSERT INTO plan (name, version, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                *(plan.name, plan.version, plan.text),
            )
            ((text,),) = transaction.execute(
                "SELECT text FROM plan WHERE name = ? AND version = ?", plan.name, plan.version
            )
        require_same(self.url, plan, kept_plan(self.url, text))

    def plans(self) -> list[Plan]:
        """Every plan ever registered, by name and version."""
        with self.reading() as transaction:
            rows = transaction.execute("SELECT text FROM plan ORDER BY name, version")
        return [kept_plan(self.url, text) for (text,) in rows]

    def layout(self, key: RoundKey) -> Layout:
        """How the records of a round are laid out."""
        known = self._layouts.get((key.plan, key.version))
        if known is None:
            self._layouts = {(plan.name, plan.version): Layout(plan) for plan in self.plans()}
            known = self._layouts.get((key.plan, key.version))
        if known is None:
            raise not_registered(self.url, key)
        return known

    # Keys

    def add_key(self, key: Key) -> None:
        """Keep a key's hash."""
        with self.writing() as transaction:
            transaction.execute(
                "INSERT INTO key (id, role, hash, label, created_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?)",
                *(key.id, key.role, key.hash, key.label, key.created_at, key.revoked_at),
            )

    def keys(self) -> list[Key]:
        """All keys, revoked ones too."""
        with self.reading() as transaction:
            rows = transaction.execute(
                "SELECT id, role, hash, label, created_at, revoked_at FROM key ORDER BY created_at, id"
            )
        return [Key(*row) for row in rows]

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key at a unix time; False when there is none by this id. The first time stays."""
        with self.writing() as transaction:
            return bool(
                transaction.execute(
                    "UPDATE key SET revoked_at = COALESCE(revoked_at, ?) WHERE id = ? RETURNING id",
                    *(at, key_id),
                )
            )
