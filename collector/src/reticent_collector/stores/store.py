"""What all stores share: rounds from open to sealed, over a backend that keeps records and counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.stores.backend import (
    AdminAction,
    AdminLog,
    Appended,
    Backend,
    DamagedError,
    Key,
    MetricCounts,
    Repair,
    ResultsTable,
    RoundGoneError,
    RoundInfo,
    State,
    Steps,
    StoreGoneError,
    damaged,
)
from reticent_collector.stores.open_round import GroupRange, OpenRound
from reticent_collector.stores.records import CountsByTags, Layout, Records, RoundKey
from reticent_collector.stores.shown import MOST_STEP_BYTES, Step

MARGIN_SECONDS = 2.0
"""Between the end of the grace and the seal: what was accepted just in time is committed by then."""


class Store:
    """
    Open rounds as records in arrival order, sealed rounds as counts, plans and keys, over a backend.

    What every store promises, and `check_store` checks:

    - when `append` returns, its records are durable; when it raises `StoreError`, all of them are or none,
      and appending them again is safe;
    - a record whose id is in its round already is not counted again;
    - `seal` turns a round into counts in one transaction, and drops its records after it; from then on
      `append` says `late`, and the counts never change, whichever process seals and however often;
    - a round that cannot be read raises `DamagedError`, and all other rounds are served.

    Methods block; a collector calls them from threads of its own. `append` is called by one thread at a time.

    The ids of an open round are kept in memory: no index of random ids is ever written. Other collectors may
    use the same backend, so only what is durable counts in the end; memory saves work.

    A round goes from open to closing to sealed. Closing stops `append`; counting takes its time; publishing
    makes the counts final. Any process can finish a closing round.

    `_memory` guards the open rounds in memory and is held while a group is written, so it is never taken inside
    a transaction that another one might wait for, nor while a whole round is read.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._open: dict[RoundKey, OpenRound] = {}
        self._steps: dict[RoundKey, Step] = {}  # the last step read; a later one may exist by now
        self._memory = threading.Lock()
        self._damaged: dict[RoundKey, str] = {}  # rounds not completely readable at the last attempt, and why
        self._gone: StoreGoneError | None = None
        self._left_to_others: set[RoundKey] = set()  # rounds that another collector seals

    @property
    def url(self) -> str:
        """The address of the store, without a password."""
        return self.backend.url

    def layout(self, key: RoundKey) -> Layout:
        """The layout of a round's records."""
        return self.backend.layout(key)

    # Plans and keys

    def register(self, plan: Plan) -> None:
        """Store a plan; `StoreError` when its name and version are registered with different content."""
        named = f"{self.url}: plan {plan.name} version {plan.version}"
        if not plan.text or Plan.from_toml(plan.text) != plan:
            raise StoreError(
                f"{named} cannot be stored without its plan.toml.\n"
                "  Hint: read it with Plan.load or Plan.from_toml"
            )
        if self.backend.put_plan(plan) != plan:
            raise StoreError(
                f"{named} is already registered with different content.\n"
                "  Hint: raise the version; the questions of a version never change"
            )

    def plans(self) -> list[Plan]:
        """Every plan ever registered, by name and version."""
        return self.backend.plans()

    def add_key(self, key: Key) -> None:
        """Store a key's hash."""
        self.backend.add_key(key)

    def keys(self) -> list[Key]:
        """All keys, including revoked ones."""
        return self.backend.keys()

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key at a unix time; False when no key has this id. The first time stays."""
        return self.backend.revoke_key(key_id, at)

    # What administrators did

    def note(self, action: AdminAction) -> None:
        """Add an entry to the log of administrators, where the backend keeps one; durable on return."""
        if isinstance(self.backend, AdminLog):
            self.backend.note(action)

    def noted(self) -> list[AdminAction]:
        """What administrators did with commands, the oldest first."""
        return self.backend.noted() if isinstance(self.backend, AdminLog) else []

    # Records

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        """Put records, end to end per round, into their rounds in one transaction; durable on return."""
        # In the order of their keys: two collectors that lock the rows of several rounds never deadlock.
        groups = {key: self.layout(key).array(records[key]) for key in sorted(records) if records[key]}
        for key in groups:
            self._load(key, "open")
        with self._memory:
            rounds = {key: self._open.get(key) or OpenRound(self.layout(key)) for key in groups}
            fresh = {key: rounds[key].missing(group) for key, group in groups.items()}
            stored, refused = self._put({key: new.records for key, new in fresh.items()})
            # Only now that all is durable does memory change: an append that failed can be tried again.
            for key, span in stored.items():
                self._open[key] = rounds[key]
                if span is not None:
                    rounds[key].add(fresh[key])
                    rounds[key].seen.add(span)
        answers = {}
        for key in records:
            given, new = len(groups.get(key, ())), len(fresh[key].records) if key in fresh else 0
            if key in stored:
                answers[key] = Appended(accepted=new, duplicate=given - new)
            else:
                answers[key] = Appended(refused=given) if key in refused else Appended(late=given)
        return answers

    def _put(self, fresh: dict[RoundKey, Records]) -> tuple[dict[RoundKey, GroupRange | None], set[RoundKey]]:
        """What was stored, and the damaged rounds that take nothing; the other rounds of the append still do."""
        refused: set[RoundKey] = set()
        while fresh:
            try:
                with self._unless_gone():
                    return self.backend.put(fresh), refused
            except DamagedError as error:
                self._damaged[error.key] = error.reason
                refused.add(error.key)
                del fresh[error.key]
        return {}, refused

    @contextmanager
    def _unless_gone(self) -> Iterator[None]:
        """Once the store was gone, nothing is acknowledged any more, even if it seems to be back."""
        if self._gone is not None:
            raise self._gone
        try:
            yield
        except StoreGoneError as error:
            self._gone = error
            raise

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        try:
            yield
        except DamagedError as error:
            self._damaged[error.key] = error.reason
            raise

    def unsealed(self) -> list[RoundKey]:
        """The rounds that are open or closing."""
        return self.backend.unsealed()

    # Open rounds in memory

    def load_open_rounds(self) -> int:
        """Load all open rounds into memory before the first `append`; returns how many reports they hold."""
        stored = {info.key: info.reports for info in self.backend.rounds()}
        for key in self.unsealed():
            self._load(key, "open", expected=stored.get(key, 0))
        return self.open_reports

    @property
    def damaged(self) -> Mapping[RoundKey, str]:
        """The rounds that could not be read completely at the last attempt, and why."""
        return dict(self._damaged)

    @property
    def open_reports(self) -> int:
        """Reports of open rounds in the memory of this process."""
        return sum(len(known) for known in list(self._open.values()))

    @property
    def nbytes(self) -> int:
        """Memory that open rounds take in this process."""
        return sum(known.nbytes for known in list(self._open.values()))

    def _load(self, key: RoundKey, *states: State, expected: int = 0) -> OpenRound | None:
        """A round in memory, loaded if it is in one of these states; None when it is not."""
        known = self._open.get(key)
        if known is None and self.backend.state(key) in states:
            loaded = OpenRound(self.layout(key), expected)
            try:
                self._catch_up(key, loaded, nullcontext())
            except DamagedError as error:  # it still takes reports; counting it is refused
                self._damaged[key] = error.reason
            except RoundGoneError:
                return None
            with self._memory:
                known = self._open.setdefault(key, loaded)
        return known

    def _refresh(self, key: RoundKey) -> OpenRound | None:
        """A round that is not sealed, with what other collectors have added since the last time."""
        self._check_whole(key)
        known = self._load(key, "open", "closing")
        if known is not None and not known.released:
            try:
                self._catch_up(key, known, self._memory)
            except DamagedError as error:
                self._damaged[key] = error.reason
                raise
            except RoundGoneError:
                self._forget(key)
                return None
        return known

    def _check_whole(self, key: RoundKey) -> None:
        """Raise `DamagedError` when a damaged round still is; read it from the start when it was repaired."""
        if key not in self._damaged:
            return
        repair = self.backend.repair(key, dry=True)
        if repair is not None:
            self._damaged[key] = repair.damage
            raise damaged(self.url, key, repair.damage)
        self._damaged.pop(key, None)
        old = self._open.get(key)
        if old is not None and old.released:
            self._forget(key)
        elif old is not None:
            again = OpenRound(self.layout(key))
            with suppress(RoundGoneError):
                self._catch_up(key, again, nullcontext())
                with self._memory:  # held for the rest, so that nothing is appended to the old one meanwhile
                    self._catch_up(key, again, nullcontext())
                    self._open[key] = again

    def _catch_up(self, key: RoundKey, known: OpenRound, lock: AbstractContextManager[object]) -> None:
        """Add the stored groups that are not in memory; the lock is released between reads."""
        for groups in self.backend.groups(key, known.seen):
            with lock:
                known.take(groups)
            if known.released:  # by a seal meanwhile: the same groups would come for ever
                break

    def _forget(self, key: RoundKey) -> None:
        self._steps.pop(key, None)
        if key in self._open:
            with self._memory:
                self._open.pop(key, None)

    # Counts

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of a plan, latest first; open ones in memory with exact reports, others with stored ones."""
        rounds = []
        for info in self.backend.rounds(plan, last):
            if info.damage:
                self._damaged[info.key] = info.damage
            if info.state == "sealed":
                self._forget(info.key)
            try:
                self._check_whole(info.key)
                known = self._refresh(info.key) if info.key in self._open else None
            except DamagedError as error:
                rounds.append(info._replace(damage=error.reason))
            else:
                rounds.append(info if known is None else info._replace(reports=len(known), damage=""))
        return rounds

    def counts(self, key: RoundKey) -> CountsByTags:
        """
        The counts of a round: final when it is sealed, provisional while it is open.

        Provisional counts have each id once: of different reports with one id, which only forgery makes, the
        one that this process saw first.
        """
        try:
            final = self.backend.final(key)
        except DamagedError as error:
            self._damaged[key] = error.reason
            raise
        if final is None:
            known = self._refresh(key)
            if known is not None:
                return known.counts()
            final = self.backend.final(key)  # it was sealed just now, or never was
        self._forget(key)
        return dict(final.counts) if final else {}

    def metric_counts(self, keys: Sequence[RoundKey], metric: str) -> dict[RoundKey, CountsByTags]:
        """The counts of one metric in those of the rounds that are sealed; or `DamagedError`."""
        if isinstance(self.backend, MetricCounts):
            try:
                return self.backend.metric_counts(keys, metric)
            except DamagedError as error:
                self._damaged[error.key] = error.reason
                raise
        return {
            key: {tags: {metric: by_metric[metric]} for tags, by_metric in self.counts(key).items()}
            for key in keys
            if self.backend.state(key) == "sealed"
        }

    def shown(self, key: RoundKey) -> CountsByTags:
        """The counts of a round that is not sealed which readers may see; see `reticent_collector.stores.shown`."""
        if self.layout(key).plan.min_reports == 1:
            return self.counts(key)
        return self._step(key).shown

    def take_step(self, key: RoundKey) -> None:
        """Show readers more of an open round, if enough reports came and the backend keeps steps."""
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
            document = step.to_json()
            if len(document) <= MOST_STEP_BYTES:
                self.backend.put_step(key, step.number, document)

    def _step(self, key: RoundKey) -> Step:
        """The latest step of a round, which another collector may have taken."""
        kept = self.backend.step(key) if isinstance(self.backend, Steps) else None
        return Step() if kept is None else Step.from_json(self.layout(key).plan, *kept)

    @contextmanager
    def claim(self, key: RoundKey) -> Iterator[bool]:
        """Whether to seal a round here: False while another collector does. An optimization only."""
        with self.backend.claim(key) as is_mine:
            if not is_mine:
                self._left_to_others.add(key)
            yield is_mine

    def seal(self, key: RoundKey, *, skip_bad: bool = False) -> bool:
        """
        Seal a round; False when it is sealed already, or was never opened.

        Any process can do it again from the start at any time. It counts what is durable, not what is in
        memory; `skip_bad` leaves out files that cannot be read, which otherwise stop it.
        """
        if not skip_bad:
            self._check_whole(key)
        sealed = False
        with self._unless_gone(), self._noting_damage():
            is_closing = self.backend.close_round(key)
        if is_closing:
            known = self._open.get(key)
            if known is not None:  # nothing more is appended: the memory of the ids is needed for counting
                known.counts()
                with self._memory:
                    known.release()
            with suppress(RoundGoneError), self._noting_damage():
                sealed = self.backend.publish(key, self.backend.count(key, skip_bad=skip_bad))
        self._forget(key)
        return sealed

    def sweep(self) -> None:
        """Drop the records of sealed rounds that could not be dropped at once, and their memory."""
        for key in list(self._left_to_others):
            if self.backend.state(key) in ("sealed", None):
                self._left_to_others.discard(key)
                self._forget(key)
        self.backend.sweep()

    @property
    def table(self) -> ResultsTable | None:
        """The table of results, where the backend keeps one."""
        return self.backend if isinstance(self.backend, ResultsTable) else None

    def verify(self) -> list[str]:
        """The problems of the store, a sentence each; empty when there is none. Changes nothing."""
        return self.backend.verify()

    def repair(self, key: RoundKey, *, dry: bool = True) -> Repair | None:
        """What can be done about a damaged round, and without `dry` do it; None when nothing is wrong."""
        return self.backend.repair(key, dry=dry)

    def prune(self, key: RoundKey) -> bool:
        """Remove the counts of a sealed round for ever; it stays closed. False when it is not sealed."""
        return self.backend.prune(key)

    def ping(self) -> None:
        """Raise `StoreError` when the store cannot be written at the moment."""
        with self._unless_gone():
            self.backend.ping()

    def close(self) -> None:
        """Release files and connections."""
        self.backend.close()


def due(store: Store, now: float, margin: float = MARGIN_SECONDS) -> list[RoundKey]:
    """The rounds that are not sealed, and whose grace is over at unix time `now`."""
    plans = {(plan.name, plan.version): plan for plan in store.plans()}
    return [key for key in store.unsealed() if now >= plans[key[:2]].round(key.round).closes + margin]
