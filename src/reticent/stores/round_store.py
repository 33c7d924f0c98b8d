"""
What every store does alike: rounds from open to sealed, over a backend that keeps records and counts.

The database and the lake differ in how they keep things; which reports are new, which are late, and what is
known of open rounds in memory is the same for both, and is here.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import lru_cache
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from reticent.errors import PlanError, StoreError
from reticent.plan import Plan
from reticent.stores.id_set import IdSet
from reticent.stores.records import Answers, CountsByTags, Layout, Records, RoundKey, add_counts, batches
from reticent.stores.shown import Step
from reticent.stores.store import Appended, Backend, Key, RoundInfo, State, Steps

_COUNT_AT = 1 << 25
"""Bytes of answers that may wait to be counted until somebody asks."""
_COUNTED_AT_ONCE = 1 << 20
"""Answers counted in one step: few steps, and little memory for each."""


class DamagedError(StoreError):
    """Some records of a round cannot be read: counting is refused, taking reports goes on."""


class RoundGoneError(Exception):
    """A round is sealed, or there is none: it has no records."""


class Span(NamedTuple):
    """Commit groups that are stored as one: `first` to `last` of those that a writer counts from 1 on."""

    writer: str
    first: int
    last: int


class Seen:
    """
    The commit groups that were seen, as runs of numbers per writer.

    Several collectors may take numbers from one sequence and commit in any order, or not at all: a number
    that stays missing while `patience` later ones come is given up. What is given up is still stored, and
    counted when the round is sealed.

    >>> seen = Seen()
    >>> for number in (1, 2, 4): seen.add(Span("", number, number))
    >>> seen.floor(""), Span("", 3, 3) in seen, Span("", 1, 2) in seen, Span("", 2, 4) in seen
    (2, False, True, False)
    """

    patience: ClassVar[int] = 1000

    def __init__(self) -> None:
        self._runs: dict[str, list[tuple[int, int]]] = {}

    def __contains__(self, span: Span) -> bool:
        runs = self._runs.get(span.writer, [(0, 0)])
        return runs[bisect_right(runs, span.first, key=lambda run: run[0]) - 1][1] >= span.last

    def add(self, span: Span) -> None:
        """See all groups of a span."""
        runs = self._runs.setdefault(span.writer, [(0, 0)])
        start = bisect_left(runs, span.first - 1, key=lambda run: run[1])
        stop = bisect_right(runs, span.last + 1, key=lambda run: run[0])
        touched = [(span.first, span.last), *runs[start:stop]]
        runs[start:stop] = [(min(first for first, _ in touched), max(last for _, last in touched))]
        if len(runs) > 1 and sum(last - first + 1 for first, last in runs[1:]) > self.patience:
            runs[:2] = [(0, runs[1][1])]

    def floor(self, writer: str) -> int:
        """The number up to which all groups of a writer were seen, or given up."""
        return self._runs.get(writer, [(0, 0)])[0][1]


class OpenRound:
    """
    The ids of an open round and, counted when somebody asks, its counts so far.

    It is an aid: it is rebuilt from what is stored when a collector starts, and nothing is lost with it.
    `missing`, `add`, `take` and `release` are for one thread at a time; `counts` may be asked by another
    meanwhile.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.seen = Seen()
        """Which commit groups are in."""
        self.released = False
        """Whether ids were let go of, because the round is closing and takes nothing more."""
        self._ids = IdSet()
        self._length = 0
        self._waiting: list[Answers] = []
        self._waiting_bytes = 0
        self._counted: CountsByTags = {}
        self._swapping, self._counting = threading.Lock(), threading.Lock()

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Memory held, but for small change."""
        return self._ids.nbytes + self._waiting_bytes

    def missing(self, records: Records) -> Records:
        """Those records whose id is not in the round yet, each once."""
        fresh = self._ids.missing(self.layout.ids(records))
        return records if fresh.all() else records[fresh]

    def add(self, records: Records) -> None:
        """Take in records that were `missing` and are durable now."""
        self._ids.add(self.layout.ids(records))
        self._length += len(records)
        answers = self.layout.answers(records)
        with self._swapping:
            self._waiting.append(answers)
            self._waiting_bytes += answers.nbytes
        if self._waiting_bytes >= _COUNT_AT:
            self.counts()

    def take(self, groups: Iterable[tuple[Span, Records]]) -> None:
        """Take in groups as they are stored, each once; nothing after `release`."""
        if not self.released:
            new = [(span, records) for span, records in groups if span not in self.seen]
            for records in batches(records for _, records in new):
                self.add(self.missing(records))
            for span, _ in new:
                self.seen.add(span)

    def counts(self) -> CountsByTags:
        """The counts of all records so far."""
        # `_counting` lets one thread count at a time; `_swapping` alone is what `add` ever waits for.
        with self._counting:
            with self._swapping:
                waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            answers = np.concatenate(waiting) if waiting else np.empty((0, 0), dtype=np.uint8)
            for start in range(0, len(answers), _COUNTED_AT_ONCE):
                counts = self.layout.count(answers[start : start + _COUNTED_AT_ONCE])
                self._counted = add_counts(self._counted, counts)
            return dict(self._counted)

    def release(self) -> None:
        """Let go of the ids: counts and length stay as they are."""
        self.released = True
        self._ids = IdSet()


Kind = TypeVar("Kind", bound=Backend)


class RoundStore(Generic[Kind]):
    """
    A store over a backend.

    Which ids an open round holds is kept in memory: no index of random ids is ever written. Other collectors
    may use the same backend, so what is durable counts in the end, and memory only saves work.

    A round goes from open to closing to sealed. Closing stops `append`; counting takes its time; publishing
    makes the counts final. Whoever finds a closing round may finish it.

    `_memory` guards what is known of open rounds and is held while a group is written, so it is never taken
    inside a transaction that another one might wait for, nor while a whole round is read.
    """

    def __init__(self, backend: Kind) -> None:
        self.backend = backend
        self._open: dict[RoundKey, OpenRound] = {}
        self._steps: dict[RoundKey, Step] = {}
        """By round: the last step that was read, of which there may be later ones by now."""
        self._memory = threading.Lock()

    @property
    def url(self) -> str:
        """The address of the store, without a password."""
        return self.backend.url

    def layout(self, key: RoundKey) -> Layout:
        """How the records of a round are laid out."""
        return self.backend.layout(key)

    # Plans and keys

    def register(self, plan: Plan) -> None:
        """Remember a plan; raises `StoreError` when another one is known by this name and version."""
        named = f"{self.url}: plan {plan.name} version {plan.version}"
        if not plan.text or Plan.from_toml(plan.text) != plan:
            raise StoreError(
                f"{named} cannot be kept without its plan.toml.\n"
                "  Hint: read it with Plan.load or Plan.from_toml"
            )
        if self.backend.put_plan(plan) != plan:
            raise StoreError(
                f"{named} is known with other content.\n"
                "  Hint: raise the version; what devices were asked must not change under it"
            )

    def plans(self) -> list[Plan]:
        """Every plan ever registered, by name and version."""
        return self.backend.plans()

    def add_key(self, key: Key) -> None:
        """Keep a key's hash."""
        self.backend.add_key(key)

    def keys(self) -> list[Key]:
        """All keys, revoked ones too."""
        return self.backend.keys()

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key at a unix time; False when there is none by this id. The first time stays."""
        return self.backend.revoke_key(key_id, at)

    # Records

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        """Put records into their open rounds; durable on return."""
        # In the order of their keys: two collectors that take the rows of several rounds never wait in a ring.
        groups = {key: self.layout(key).array(records[key]) for key in sorted(records) if records[key]}
        for key in groups:
            self._load(key, "open")
        with self._memory:
            rounds = {key: self._open.get(key) or OpenRound(self.layout(key)) for key in groups}
            fresh = {key: rounds[key].missing(group) for key, group in groups.items()}
            stored = self.backend.put(fresh) if groups else {}
            # Only now that all is durable does memory change: an append that failed can be tried again.
            for key, span in stored.items():
                self._open[key] = rounds[key]
                if span is not None:
                    rounds[key].add(fresh[key])
                    rounds[key].seen.add(span)
        answers = {}
        for key in records:
            given, new = len(groups.get(key, ())), len(fresh.get(key, ()))
            answers[key] = (
                Appended(accepted=new, duplicate=given - new) if key in stored else Appended(late=given)
            )
        return answers

    def unsealed(self) -> list[RoundKey]:
        """The rounds that are open or closing."""
        return self.backend.unsealed()

    # Open rounds in memory

    def load_open_rounds(self) -> int:
        """Bring all open rounds into memory; returns how many reports they hold."""
        for key in self.unsealed():
            self._load(key, "open")
        return self.open_reports

    @property
    def open_reports(self) -> int:
        """Reports of open rounds that this process knows of."""
        return sum(len(known) for known in list(self._open.values()))

    @property
    def nbytes(self) -> int:
        """Memory that open rounds hold."""
        return sum(known.nbytes for known in list(self._open.values()))

    def _load(self, key: RoundKey, *states: State) -> OpenRound | None:
        """A round in memory, brought there if it is in one of these states; None when it is not."""
        known = self._open.get(key)
        if known is None and self.backend.state(key) in states:
            loaded = OpenRound(self.layout(key))
            try:
                with suppress(DamagedError):  # reports are taken all the same; who counts is told
                    self._catch_up(key, loaded, nullcontext())
            except RoundGoneError:
                return None
            with self._memory:
                known = self._open.setdefault(key, loaded)
        return known

    def _refresh(self, key: RoundKey) -> OpenRound | None:
        """A round that is not sealed, with what other collectors have added to it since the last look."""
        known = self._load(key, "open", "closing")
        if known is not None and not known.released:
            try:
                self._catch_up(key, known, self._memory)
            except RoundGoneError:
                self._forget(key)
                return None
        return known

    def _catch_up(self, key: RoundKey, known: OpenRound, lock: AbstractContextManager[object]) -> None:
        """Take in the groups that are stored and not in memory; the lock is let go of between reads."""
        for groups in self.backend.groups(key, known.seen):
            with lock:
                known.take(groups)

    def _forget(self, key: RoundKey) -> None:
        """Let go of a round that is sealed."""
        self._steps.pop(key, None)
        if key in self._open:
            with self._memory:
                self._open.pop(key, None)

    # Counts

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """
        The rounds of a plan, latest first; at most the `last` ones of each plan.

        While a round is open, `reports` is exact in a collector that holds it in memory. Who merely reads is
        told what is stored, which has a report twice that two collectors took; nothing is loaded for that.
        """
        rounds = []
        for info in self.backend.rounds(plan, last):
            known = None
            if info.state == "sealed":
                self._forget(info.key)
            elif info.key in self._open:
                with suppress(DamagedError):
                    known = self._refresh(info.key)
            rounds.append(info if known is None else RoundInfo(info.key, info.state, len(known)))
        return rounds

    def counts(self, key: RoundKey) -> CountsByTags:
        """
        The counts of a round: final when it is sealed, provisional while it is open.

        Provisional counts have each id once. Of different reports with one id, which only forgery makes, they
        have the one that this process saw first.
        """
        final = self.backend.final(key)
        if final is None:
            known = self._refresh(key)
            if known is not None:
                return known.counts()
            final = self.backend.final(key)  # it was sealed just now, or never was
        self._forget(key)
        return dict(final.counts) if final else {}

    def shown(self, key: RoundKey) -> CountsByTags:
        """Those counts of a round that is not sealed which readers may be shown."""
        if self.layout(key).plan.min_reports == 1:
            return self.counts(key)
        return self._step(key).shown

    def take_step(self, key: RoundKey) -> None:
        """Show readers more of an open round, if enough has come, and the backend keeps what they are shown."""
        plan = self.layout(key).plan
        if plan.min_reports == 1 or not isinstance(self.backend, Steps):
            return
        known = self._refresh(key)
        before = self._steps.get(key)
        if known is None or (before is not None and not before.is_due(plan, len(known))):
            return
        step = self._steps[key] = self._step(key)
        # Only after the step was read: so what is counted here holds all that was counted for the step.
        known = self._refresh(key)
        if known is not None and step.is_due(plan, len(known)):
            step = step.following(plan, known.counts())
            self.backend.put_step(key, step.number, step.to_json())

    def _step(self, key: RoundKey) -> Step:
        """The latest step of a round, which another collector may have taken."""
        kept = self.backend.step(key) if isinstance(self.backend, Steps) else None
        return Step() if kept is None else Step.from_json(self.layout(key).plan, *kept)

    def seal(self, key: RoundKey, *, skip_bad: bool = False) -> bool:
        """
        Seal a round; False when it was sealed already, or never opened.

        It can be done again from the start at any time, by anybody. What counts is what is durable, not what
        is in memory; `skip_bad` leaves out files that cannot be read, which otherwise stop it.
        """
        sealed = False
        if self.backend.close_round(key):
            known = self._open.get(key)
            if (
                known is not None
            ):  # nothing more is appended: the memory of the ids is better used for counting
                known.counts()
                with self._memory:
                    known.release()
            with suppress(RoundGoneError):
                sealed = self.backend.publish(key, self.backend.count(key, skip_bad=skip_bad))
        self._forget(key)
        return sealed

    # Upkeep

    def verify(self) -> list[str]:
        """What is wrong with the store, a sentence each; empty when all is well. Changes nothing."""
        return self.backend.verify()

    def ping(self) -> None:
        """Raise `StoreError` when the store cannot be written just now."""
        self.backend.ping()

    def close(self) -> None:
        """Let go of files and connections."""
        self.backend.close()


@lru_cache(maxsize=256)
def read_plan(place: str, text: str) -> Plan:
    """The plan of a text that is kept somewhere; read once, since it never changes under a version."""
    try:
        return Plan.from_toml(text)
    except PlanError as error:
        raise StoreError(f"{place}: holds a plan that cannot be read: {error}") from error


def not_registered(place: str, key: RoundKey) -> StoreError:
    """For a round of a plan that nobody registered."""
    return StoreError(f"{place}: plan {key.plan} version {key.version} is not registered")
