"""What a store is: where open rounds rest until they are sealed, and counts for ever after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from reticent.plan import Plan
from reticent.stores.keys import Key
from reticent.stores.records import CountsByTags, RoundKey

State = Literal["open", "closing", "sealed"]


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of the records of one round in a commit: new, already there, or too late because sealed."""

    accepted: int = 0
    duplicate: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True)
class RoundInfo:
    """A round that a store knows of."""

    key: RoundKey
    state: State
    reports: int
    """
    Distinct reports, all segments together. Of an open round that this process has not loaded: reports
    stored, which has one twice that two collectors took.
    """


class Rounds(Protocol):
    """What who reads needs: plans, rounds and what they come to."""

    def plans(self) -> list[Plan]:
        """Every plan ever registered, by name and version."""

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of a plan, latest first; at most the `last` ones of each plan."""

    def counts(self, key: RoundKey) -> CountsByTags:
        """The counts of a round: final when it is sealed, provisional while it is open."""


class Keys(Protocol):
    """What who lets others in needs: the hashes of keys."""

    def add_key(self, key: Key) -> None:
        """Keep a key's hash."""

    def keys(self) -> list[Key]:
        """All keys, revoked ones too."""

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key at a unix time; False when there is none by this id. The first time stays."""


class RoundWriter(Protocol):
    """What who takes reports needs: records in, and rounds sealed."""

    def register(self, plan: Plan) -> None:
        """Remember a plan; raises `StoreError` when another one is known by this name and version."""

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        """Put records, end to end per round, into their rounds in one transaction; durable on return."""

    def unsealed(self) -> list[RoundKey]:
        """The rounds that are open or closing."""

    def seal(self, key: RoundKey) -> bool:
        """Seal a round; False when it was sealed already, or never opened."""

    def load_open_rounds(self) -> int:
        """Bring all open rounds into memory before the first `append`; returns how many reports they hold."""

    @property
    def open_reports(self) -> int:
        """Reports of open rounds that this process knows of."""

    @property
    def nbytes(self) -> int:
        """Memory that open rounds hold in this process."""


class Store(Rounds, Keys, RoundWriter, Protocol):
    """
    Open rounds as records in arrival order, sealed rounds as counts, plans and keys.

    What every store promises, and `check_store` checks:

    - when `append` returns, its records are durable; when it raises `StoreError`, all of them are or none,
      and to append them again changes nothing but that;
    - a record whose id is in its round already is not counted again;
    - `seal` turns a round into counts and drops its records in one transaction; afterwards `append` says
      `late`, and the counts never change, whoever seals and however often.

    Methods block; a collector calls them from threads of its own. `append` is called by one thread at a time.
    """

    @property
    def url(self) -> str:
        """The address of the store, without a password."""

    def verify(self) -> list[str]:
        """What is wrong with the store, a sentence each; empty when all is well. Changes nothing."""

    def ping(self) -> None:
        """Raise `StoreError` when the store cannot be written just now."""

    def close(self) -> None:
        """Let go of files and connections."""
