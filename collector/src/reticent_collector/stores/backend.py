"""What a store is made of: keys, rounds and their states, errors, and the backend that keeps them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

from reticent.errors import ParameterError, PlanError, StoreError
from reticent.plan import Plan
from reticent_collector.stores.records import Count, CountsByTags, Layout, Records, RoundKey

State = Literal["open", "closing", "sealed"]
Role = Literal["ingest", "reader", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

PREFIX = "reticent"


@dataclass(frozen=True, slots=True)
class Key:
    """The stored part of a key. The secret has 256 random bits, so a plain hash of it cannot be guessed."""

    id: str
    role: Role
    hash: bytes
    label: str
    created_at: int  #: unix seconds
    revoked_at: int | None = None
    plans: tuple[str, ...] = ()  #: that a reader may see; none: all

    @property
    def active(self) -> bool:
        """Whether the key is not revoked."""
        return self.revoked_at is None


def create_key(role: str, label: str, now: int, plans: Sequence[str] = ()) -> tuple[str, Key]:
    """
    A new key: the text to hand out, which is not stored, and the part that is.

    >>> text, kept = create_key("ingest", "", now=0)
    >>> text.startswith("reticent_ingest_"), matches(text, kept), matches(text + "x", kept)
    (True, True, False)
    """
    if role not in ROLES:
        raise ParameterError("role", " or ".join(ROLES), role)
    if plans and role != "reader":
        raise ParameterError("plans", "none, unless the role is reader", ", ".join(plans))
    key_id = secrets.token_hex(4)
    text = f"{PREFIX}_{role}_{key_id}_{secrets.token_urlsafe(32)}"
    return text, Key(key_id, role, hash_of(text), label, now, plans=tuple(sorted(set(plans))))


def hash_of(text: str) -> bytes:
    """The hash of a key's text."""
    return sha256(text.encode()).digest()


def matches(text: str, key: Key) -> bool:
    """Whether a text is the key; takes the same time for every wrong text."""
    return compare_digest(hash_of(text), key.hash)


class DamagedError(StoreError):
    """
    Some records of a round, or its counts, cannot be read.

    The round has no figures and is not sealed until it is repaired. It still accepts reports, and all other
    rounds are served.
    """

    def __init__(self, message: str, key: RoundKey, reason: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.reason = reason or message.partition("\n")[0]  # in a few words, for lists of rounds


def damaged(url: str, key: RoundKey, reason: str) -> DamagedError:
    """The error about a round that cannot be read."""
    message = f"{url}: round {key.round} of {key.plan} version {key.version} is damaged: {reason}\n"
    return DamagedError(f"{message}  Hint: reticent store repair shows what can be saved", key, reason)


class StoreGoneError(StoreError):
    """Files of the store were removed or replaced while in use; nothing is acknowledged until a restart."""


class StoreAwayError(StoreError):
    """A database cannot be reached, so the store is not opened; a later attempt may succeed."""


class RoundGoneError(Exception):
    """A round is sealed, or does not exist: it has no records."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of the records of one round in a commit."""

    accepted: int = 0  #: durable; the seal counts each id once
    late: int = 0  #: the round is sealed
    refused: int = 0  #: the round is damaged and takes nothing before it is repaired


class RoundInfo(NamedTuple):
    """
    A round of a store.

    `reports` are over all segments: of a sealed round the distinct ones, of an open one the stored ones, among
    which a repeated report is as often as it was stored.
    """

    key: RoundKey
    state: State
    reports: int
    damage: str = ""  #: why it has no figures, as far as known without reading it


class Repair(NamedTuple):
    """What can be done about a damaged round."""

    damage: str
    readable: int  #: reports that can be read, including duplicates; all of them are kept
    action: str  #: what the repair does, and where it keeps a copy; empty when nothing can be done


class PeriodKey(NamedTuple):
    """A period in the table of results: a round, window, day, week or month of a plan's version."""

    plan: str
    version: int
    every: str
    start: int  #: unix seconds
    end: int


@runtime_checkable
class ResultsTable(Protocol):
    """A backend that keeps the table of results, which `write_results` makes from the counts."""

    def written(self, plan: str) -> set[PeriodKey]:
        """The periods of a plan whose rows are all in the table."""

    def put_results(
        self,
        period: PeriodKey,
        rows: Iterable[Mapping[str, object]],
        comparisons: Iterable[Mapping[str, object]] = (),
    ) -> None:
        """
        Put the rows of a period, by the names of `reticent_collector.columns`, into the table; then it is `written`.

        `comparisons` have the columns `COMPARISON`, and a table of their own. Existing rows stay as they are. It can be
        interrupted at any point and done again by any process, and never blocks appends for long.
        """

    def results(self, period: PeriodKey) -> list[dict[str, object]]:
        """The rows of a period in the table."""

    def comparisons(self, period: PeriodKey) -> list[dict[str, object]]:
        """The comparisons of a period."""

    def drop_results(self, period: PeriodKey) -> None:
        """Remove the rows and comparisons of a period; it is no longer `written`."""

    def written_rows(
        self, periods: Sequence[PeriodKey], metrics: Sequence[str], segments: Sequence[str]
    ) -> dict[PeriodKey, list[dict[str, Any]]]:
        """
        The rows of some metrics and segments in those of the periods that are `written`, the buckets in order.

        A row has its metric, its segment and the columns `FIGURE` and `NUMBER` of `reticent_collector.columns`. The
        rows of a period are those of one moment at which it was written.
        """


class Backend(Protocol):
    """
    Where a `Store` keeps plans and rounds: as groups of records, then as counts. Eight calls, and an address.

    A closing round takes no more groups. A process that closes, counts or publishes a round can die at any
    moment; any process can do it again from the start.

    What else a backend can do it says by further methods: `KeyTable`, `Upkeep`, `Shortcuts`, `SealedRounds`, `Steps`,
    `ResultsTable`, `AdminLog`, `NotesTable`, `MetricDeletion`. Without them a store works, and lacks what they are for.
    """

    @property
    def url(self) -> str:
        """The address of the store, without a password."""

    def put_plan(self, plan: Plan) -> Plan:
        """Store a plan's text unless its name and version are stored already; returns the stored plan."""

    def plans(self) -> list[Plan]:
        """Every plan ever stored, by name and version."""

    def put(self, groups: Mapping[RoundKey, Records]) -> Collection[RoundKey]:
        """
        Append a group of records to each round, which is made if there is none; durable on return.

        Returns the rounds that took theirs; the others are closed. When it raises, each group is there or not,
        as a whole. Called by one thread at a time.

        Raises `DamagedError` when nothing can be put into one of the rounds, and `StoreGoneError` when what it
        wrote is not where the store is.
        """

    def records(self, key: RoundKey) -> Iterator[Records]:
        """
        The groups of a round that is not sealed, one by one, some perhaps twice; what is put meanwhile may be left out.

        Raises `RoundGoneError` when it is sealed or there is none, and `DamagedError` when a group cannot be read.
        """

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of a plan, latest first, at most `last` of each plan; open ones with stored reports."""

    def close_round(self, key: RoundKey) -> bool:
        """Begin to seal: later puts are late. False when it is sealed, or there is none."""

    def publish(self, key: RoundKey, count: Count) -> bool:
        """
        Seal a closing round: its counts are final. False when another process was first.

        Its records are dropped after that, now or by a later `Upkeep.sweep`, and never while others wait.
        """

    def final(self, key: RoundKey) -> Count | None:
        """The counts of a sealed round; None when it is not sealed, `DamagedError` when they cannot be read."""


@runtime_checkable
class KeyTable(Protocol):
    """A backend that keeps keys; without it a collector has none, and serves its own machine alone."""

    def add_key(self, key: Key) -> None:
        """Store a key's hash."""

    def keys(self) -> list[Key]:
        """All keys, including revoked ones."""

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key at a unix time; False when no key has this id. The first time stays."""


@runtime_checkable
class Upkeep(Protocol):
    """A backend with something to look after: connections, and files that can be full, damaged or left over."""

    def ping(self) -> None:
        """Raise `StoreError` when the store cannot be written at the moment."""

    def verify(self) -> list[str]:
        """The problems of the store, a sentence each; empty when there is none. Changes nothing."""

    def repair(self, key: RoundKey, *, dry: bool) -> Repair | None:
        """
        What can be done about a damaged round, and without `dry` do it; None when nothing is wrong.

        No readable report is lost, and what is replaced is kept. With `dry` it is called each time a damaged
        round is read, so it should read no more than needed.
        """

    def sweep(self) -> None:
        """Drop the records of sealed rounds that are still there; repeated until none is left."""

    def close(self) -> None:
        """Release files and connections."""


@runtime_checkable
class Shortcuts(Protocol):
    """A backend that is quicker than what a store works out from the calls of `Backend`."""

    def layout(self, key: RoundKey) -> Layout:
        """The layout of a round's records; `StoreError` when its plan is not registered."""

    def unsealed(self) -> list[RoundKey]:
        """The rounds that are open or closing."""

    def count(self, key: RoundKey, *, skip_bad: bool = False) -> Count:
        """
        Count a round that is not sealed from its records, each id once; what is put meanwhile may be left out.

        `skip_bad` leaves out files that cannot be read, and lists them. When another process has sealed the
        round, raises `RoundGoneError` or returns the final counts.
        """

    def metric_counts(self, keys: Sequence[RoundKey], metric: str) -> dict[RoundKey, CountsByTags]:
        """The counts of one metric in those of the rounds that are sealed; or `DamagedError`."""

    def claim(self, key: RoundKey) -> AbstractContextManager[bool]:
        """Whether to seal a round here: False while another collector does."""


class AdminAction(NamedTuple):
    """What an administrator did to a store with a command."""

    at: int  #: unix seconds
    user: str  #: of the operating system
    action: str  #: in a word or two, as "key created"
    about: str  #: to what, without any secret


@runtime_checkable
class AdminLog(Protocol):
    """A backend that keeps what administrators did; nothing is ever removed from it."""

    def note(self, action: AdminAction) -> None:
        """Add an entry; durable on return."""

    def noted(self) -> list[AdminAction]:
        """All entries, the oldest first."""


class Note(NamedTuple):
    """An event that readers should know of, such as a release."""

    id: str  #: random, or of the one who wrote it: a note with a known id is stored once
    at: int  #: when it happened, in unix seconds
    plan: str  #: "": of all plans
    text: str


@runtime_checkable
class NotesTable(Protocol):
    """A backend that keeps notes of events."""

    def put_note(self, note: Note) -> None:
        """Store a note; durable on return. One with its id stays as it is."""

    def notes(self) -> list[Note]:
        """All notes, the oldest first."""


@runtime_checkable
class SealedRounds(Protocol):
    """A backend that removes sealed rounds for ever, and takes those of another store, as `copy_store` does."""

    def prune(self, key: RoundKey) -> bool:
        """Remove the counts of a sealed round and its results for ever; it stays closed. False when not sealed."""

    def pruned(self) -> list[RoundKey]:
        """The rounds whose counts were removed for ever."""

    def put_sealed(self, key: RoundKey, count: Count | None) -> bool:
        """
        Make a round that is sealed with these counts, or pruned without; durable on return.

        False when there is such a round, which is not changed. The results of the periods that it is in are removed.
        """


class DeletedMetric(NamedTuple):
    """A metric of a version of a plan whose counts are not kept."""

    plan: str
    version: int
    metric: str


@runtime_checkable
class MetricDeletion(Protocol):
    """A backend that can delete one metric from all sealed rounds."""

    def delete_metrics(self, metrics: Collection[DeletedMetric]) -> None:
        """
        Remove the sealed counts and the results of these metrics for ever, in one transaction.

        From then on no seal, copy or writer of results stores any of them.
        """

    def deleted(self) -> set[DeletedMetric]:
        """The metrics that were deleted."""


@runtime_checkable
class Steps(Protocol):
    """A backend that keeps what readers are shown of open rounds; without it they are shown nothing of them."""

    def step(self, key: RoundKey) -> tuple[int, str] | None:
        """The number and document of the latest step of a round that is not sealed; None before the first."""

    def put_step(self, key: RoundKey, number: int, document: str) -> None:
        """Store a step, unless another collector took it first, or the round is sealed."""


@lru_cache(maxsize=256)
def read_plan(place: str, text: str) -> Plan:
    """The plan of a stored text; parsed once, since it never changes under a version."""
    try:
        return Plan.from_toml(text)
    except PlanError as error:
        raise StoreError(f"{place}: holds a plan that cannot be read: {error}") from error


def not_registered(place: str, key: RoundKey) -> StoreError:
    """The error about a round of a plan that is not registered."""
    return StoreError(f"{place}: plan {key.plan} version {key.version} is not registered")


class Layouts:
    """The layouts of the records of registered plans, which never change; plans are read when one is not known."""

    def __init__(self, place: str, plans: Callable[[], list[Plan]]) -> None:
        self._place = place
        self._plans = plans
        self._known: dict[tuple[str, int], Layout] = {}

    def of(self, key: RoundKey) -> Layout:
        """The layout of a round's records; `StoreError` when its plan is not registered."""
        if key[:2] not in self._known:
            self._known = {(plan.name, plan.version): Layout(plan) for plan in self._plans()}
        layout = self._known.get(key[:2])
        if layout is None:
            raise not_registered(self._place, key)
        return layout
