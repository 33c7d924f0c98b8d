"""
What a store is: where open rounds rest until they are sealed, and counts for ever after.

It also keeps who may write, read or administer: of each key a hash, never its text.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args, runtime_checkable

from reticent.errors import ParameterError, StoreError
from reticent.plan import Plan
from reticent.stores.records import Count, CountsByTags, Layout, Records, RoundKey

if TYPE_CHECKING:
    from reticent.stores.open_round import Seen, Span

State = Literal["open", "closing", "sealed"]
Role = Literal["ingest", "reader", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

PREFIX = "reticent"


@dataclass(frozen=True, slots=True)
class Key:
    """What is kept of a key. Its secret has 256 random bits, so a plain hash of it cannot be guessed."""

    id: str
    role: Role
    hash: bytes
    label: str
    created_at: int  #: unix seconds
    revoked_at: int | None = None

    @property
    def active(self) -> bool:
        """Whether the key still opens anything."""
        return self.revoked_at is None


def create_key(role: str, label: str, now: int) -> tuple[str, Key]:
    """
    A new key: the text to hand out, which exists only now, and what is kept of it.

    >>> text, kept = create_key("ingest", "", now=0)
    >>> text.startswith("reticent_ingest_"), matches(text, kept), matches(text + "x", kept)
    (True, True, False)
    """
    if role not in ROLES:
        raise ParameterError("role", " or ".join(ROLES), role)
    key_id = secrets.token_hex(4)
    text = f"{PREFIX}_{role}_{key_id}_{secrets.token_urlsafe(32)}"
    return text, Key(key_id, role, hash_of(text), label, now)


def hash_of(text: str) -> bytes:
    """The hash of a key's text."""
    return sha256(text.encode()).digest()


def matches(text: str, key: Key) -> bool:
    """Whether a text is the key, in a time that does not depend on how much of it is right."""
    return compare_digest(hash_of(text), key.hash)


class DamagedError(StoreError):
    """
    Some records of a round, or its counts, cannot be read.

    The round is set aside: it has no figures and is not sealed until it is repaired. Reports are still taken,
    and every other round is served.
    """

    def __init__(self, message: str, key: RoundKey, reason: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.reason = reason or message.partition("\n")[0]  # in a few words, for lists of rounds


def damaged(url: str, key: RoundKey, reason: str) -> DamagedError:
    """The error about a round that cannot be read."""
    return DamagedError(
        f"{url}: round {key.round} of {key.plan} version {key.version} is damaged: {reason}\n"
        "  Hint: reticent store repair says what can be saved",
        key,
        reason,
    )


class StoreGoneError(StoreError):
    """
    What was written is no longer where the store is opened from: files were removed, replaced or overwritten.

    Nothing can be acknowledged until the process is started again, and somebody has looked.
    """


class StoreAwayError(StoreError):
    """A database cannot be reached, so the store is not opened; it may be there a moment later."""


class RoundGoneError(Exception):
    """A round is sealed, or there is none: it has no records."""


@dataclass(frozen=True, slots=True)
class Appended:
    """
    What became of the records of one round in a commit.

    They are new, already there, too late because the round is sealed, or refused: the round is damaged in such
    a way that nothing can be put into it before it is repaired.
    """

    accepted: int = 0
    duplicate: int = 0
    late: int = 0
    refused: int = 0


class RoundInfo(NamedTuple):
    """A round that a store knows of."""

    key: RoundKey
    state: State
    reports: int
    """
    Distinct reports, all segments together. Of an open round that this process has not loaded: reports
    stored, which has one twice that two collectors took.
    """
    damage: str = ""
    """Why it has no figures, as far as is known without reading it; empty when nothing is wrong."""


class Repair(NamedTuple):
    """What can be done about a damaged round."""

    damage: str  #: what is wrong
    readable: int  #: reports that can be read, stored twice or not; all of them are kept
    action: str
    """What a repair does, and where the copy of what it replaces is; empty when nothing can be done."""


class PeriodKey(NamedTuple):
    """A period whose figures are in the table of results: a round, window, day, week or month of a plan's version."""

    plan: str
    version: int
    every: str
    start: int  #: unix seconds
    end: int


class Rounds(Protocol):
    """What who reads needs: plans, rounds and what they come to."""

    def plans(self) -> list[Plan]:
        """Every plan ever registered, by name and version."""

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of a plan, latest first; at most the `last` ones of each plan."""

    def counts(self, key: RoundKey) -> CountsByTags:
        """
        The counts of a round: final when it is sealed, provisional while it is open.

        Raises `DamagedError` when they cannot be read.
        """

    def metric_counts(self, keys: Sequence[RoundKey], metric: str) -> dict[RoundKey, CountsByTags]:
        """
        The counts of one metric in those of the rounds that are sealed; others are left out.

        Raises `DamagedError` when they cannot be read.
        """

    def shown(self, key: RoundKey) -> CountsByTags:
        """Those counts of a round that is not sealed which readers may be shown; see `reticent.stores.shown`."""


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

    def claim(self, key: RoundKey) -> AbstractContextManager[bool]:
        """Whether to seal a round here: False while another collector is at it. It saves work, no more."""

    def seal(self, key: RoundKey) -> bool:
        """Seal a round; False when it was sealed already, or never opened."""

    def sweep(self) -> None:
        """Drop the records of sealed rounds that could not be dropped at once; done again until none is left."""

    def take_step(self, key: RoundKey) -> None:
        """Show readers more of an open round, if enough has come; see `reticent.stores.shown`."""

    def load_open_rounds(self) -> int:
        """Bring all open rounds into memory before the first `append`; returns how many reports they hold."""

    @property
    def damaged(self) -> Mapping[RoundKey, str]:
        """The rounds that could not be read whole at the last look, and why."""

    @property
    def open_reports(self) -> int:
        """Reports of open rounds that this process knows of."""

    @property
    def nbytes(self) -> int:
        """Memory that open rounds hold in this process."""


@runtime_checkable
class ResultsTable(Protocol):
    """
    A backend that keeps the table of results: finished figures that other programs read.

    It is written by `reticent.results.write_results`, and made of the counts: a copy that can be made again.
    """

    def written(self, plan: str) -> set[PeriodKey]:
        """The periods of a plan whose figures are all in the table."""

    def put_results(self, period: PeriodKey, rows: Iterable[Mapping[str, object]]) -> None:
        """
        Put the rows of a period, by the names of `reticent.columns`, into the table; then it is `written`.

        Rows that are there stay as they are. Whoever does it may die in the middle: somebody does it again.
        It never makes those who append wait for long.
        """

    def results(self, period: PeriodKey) -> list[dict[str, object]]:
        """The rows of a period that are in the table."""

    def drop_results(self, period: PeriodKey) -> None:
        """Remove the rows of a period; it is not `written` any more."""


class Store(Rounds, Keys, RoundWriter, Protocol):
    """
    Open rounds as records in arrival order, sealed rounds as counts, plans and keys.

    What every store promises, and `check_store` checks:

    - when `append` returns, its records are durable; when it raises `StoreError`, all of them are or none,
      and to append them again changes nothing but that;
    - a record whose id is in its round already is not counted again;
    - `seal` turns a round into counts in one transaction, and drops its records after it; from then on
      `append` says `late`, and the counts never change, whoever seals and however often;
    - a round that cannot be read is refused with `DamagedError` and keeps no other one from being served.

    Methods block; a collector calls them from threads of its own. `append` is called by one thread at a time.
    """

    @property
    def url(self) -> str:
        """The address of the store, without a password."""

    @property
    def table(self) -> ResultsTable | None:
        """The table of results, where the store keeps one."""

    def verify(self) -> list[str]:
        """What is wrong with the store, a sentence each; empty when all is well. Changes nothing."""

    def repair(self, key: RoundKey, *, dry: bool = True) -> Repair | None:
        """What can be done about a damaged round, and without `dry` do it; None when nothing is wrong."""

    def prune(self, key: RoundKey) -> bool:
        """
        Remove the counts of a sealed round for ever, and the figures of the periods it is in; it stays closed.

        False when it is not sealed.
        """

    def ping(self) -> None:
        """Raise `StoreError` when the store cannot be written just now."""

    def close(self) -> None:
        """Let go of files and connections."""


MARGIN_SECONDS = 2.0
"""Between the end of the grace and the seal: what was accepted just in time is committed by then."""


def due(store: Store, now: float, margin: float = MARGIN_SECONDS) -> list[RoundKey]:
    """The rounds that are not sealed, and whose grace is over at unix time `now`."""
    by_key = {(plan.name, plan.version): plan for plan in store.plans()}
    return [
        key
        for key in store.unsealed()
        if now >= by_key[key.plan, key.version].round(key.round).closes + margin
    ]


class Backend(Keys, Protocol):
    """
    Where a `RoundStore` keeps things: plans, keys, and rounds as groups of records, then as counts.

    A round that is closing takes no more groups; whoever closes, counts or publishes one may die at any
    moment, and anybody may do it again from the start.
    """

    @property
    def url(self) -> str:
        """The address, without a password."""

    def put_plan(self, plan: Plan) -> Plan:
        """Keep a plan's text unless there is one by its name and version; returns what is kept."""

    def plans(self) -> list[Plan]:
        """Every plan ever kept, by name and version."""

    def layout(self, key: RoundKey) -> Layout:
        """How the records of a round are laid out; `StoreError` when its plan is not registered."""

    def put(self, groups: Mapping[RoundKey, Records]) -> dict[RoundKey, Span | None]:
        """
        Put a group of new records into each round, which is made if there is none; durable on return.

        Rounds that are closed are left out of the answer, also when there was nothing new to put. When it
        raises, each group is there or not, as a whole. Called by one thread at a time.

        Raises `DamagedError` when nothing can be put into one of the rounds, and `StoreGoneError` when what it
        wrote is not where the store is.
        """

    def groups(self, key: RoundKey, seen: Seen) -> Iterator[list[tuple[Span, Records]]]:
        """
        The groups of a round that were not seen, some megabytes at a time; `seen` grows meanwhile.

        Raises `RoundGoneError` when the round is sealed or there is none, and `DamagedError` after the last
        group when there are others that cannot be read.
        """

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of a plan, latest first, at most `last` of each plan; while open with reports stored."""

    def unsealed(self) -> list[RoundKey]:
        """The rounds that are open or closing."""

    def state(self, key: RoundKey) -> State | None:
        """The state of a round; None when there is none."""

    def claim(self, key: RoundKey) -> AbstractContextManager[bool]:
        """Whether to seal a round here: False while another collector is at it. It saves work, no more."""

    def close_round(self, key: RoundKey) -> bool:
        """Begin to seal: what is put from now on is late. False when it is sealed, or there is none."""

    def count(self, key: RoundKey, *, skip_bad: bool = False) -> Count:
        """
        Count a round from what is durable, each id once; memory is not asked.

        `skip_bad` leaves out files that cannot be read, and says so. Raises `RoundGoneError`, or has the
        final counts, when somebody sealed the round.
        """

    def publish(self, key: RoundKey, count: Count) -> bool:
        """
        Seal a closing round: keep its counts for ever. False when another was quicker.

        Its records are dropped after that, now or by a later `sweep`, and never while anybody else waits.
        """

    def sweep(self) -> None:
        """Drop the records of sealed rounds that are still there."""

    def repair(self, key: RoundKey, *, dry: bool) -> Repair | None:
        """
        What can be done about a damaged round, and without `dry` do it; None when nothing is wrong.

        No report that can be read is lost, and what is replaced is kept. While `dry` it is asked whenever a
        damaged round is looked at, so it should not read more than it must.
        """

    def prune(self, key: RoundKey) -> bool:
        """Remove the counts of a sealed round; what is put later is late. False when it is not sealed."""

    def final(self, key: RoundKey) -> Count | None:
        """What a sealed round comes to; None when it is not sealed, `DamagedError` when it cannot be read."""

    def verify(self) -> list[str]:
        """What is wrong, a sentence each; empty when all is well. Changes nothing."""

    def ping(self) -> None:
        """Raise `StoreError` when nothing can be written just now."""

    def close(self) -> None:
        """Let go of files and connections."""


@runtime_checkable
class MetricCounts(Protocol):
    """A backend that reads the counts of one metric without those of the others; where it does not, all are read."""

    def metric_counts(self, keys: Sequence[RoundKey], metric: str) -> dict[RoundKey, CountsByTags]:
        """The counts of one metric in those of the rounds that are sealed; `DamagedError` when they cannot be read."""


@runtime_checkable
class Steps(Protocol):
    """
    A backend that keeps what readers are shown of open rounds, in steps that all collectors share.

    Where a backend does not, readers are shown nothing of a round before it is sealed.
    """

    def step(self, key: RoundKey) -> tuple[int, str] | None:
        """The number and document of the latest step of a round that is not sealed; None before the first."""

    def put_step(self, key: RoundKey, number: int, document: str) -> None:
        """Keep a step, unless another collector took it first, or the round is sealed."""
