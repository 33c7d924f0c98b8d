"""What all stores share: rounds from open to sealed, over a backend that keeps records and counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.stores.backend import (
    AdminAction,
    AdminLog,
    Appended,
    Backend,
    DamagedError,
    DeletedMetric,
    Key,
    KeyTable,
    Layouts,
    MetricDeletion,
    Note,
    NotesTable,
    Repair,
    ResultsTable,
    RoundGoneError,
    RoundInfo,
    SealedRounds,
    Shortcuts,
    Steps,
    StoreGoneError,
    Upkeep,
    damaged,
)
from reticent_collector.stores.records import Count, CountsByTags, Layout, Records, RoundKey
from reticent_collector.stores.shown import MOST_STEP_BYTES, Step
from reticent_collector.stores.sorting import Sorting, count_once

MARGIN_SECONDS = 2.0
"""Between the end of the grace and the seal: what was accepted just in time is committed by then."""


class Store:
    """
    Open rounds as records in arrival order, sealed rounds as counts, plans and keys, over a backend.

    What every store promises, and `check_store` checks:

    - when `append` returns, its records are durable; when it raises `StoreError`, all of them are or none,
      and appending them again is safe;
    - the records of one id count once in their round;
    - `seal` turns a round into counts in one transaction, and drops its records after it; from then on
      `append` says `late`, and the counts never change, whichever process seals and however often;
    - a round that cannot be read raises `DamagedError`, and all other rounds are served.

    Methods block; a collector calls them from threads of its own. `append` is called by one thread at a time.

    An open round is a log: records are appended and nothing about them is kept in memory, so any number of
    collectors may append to one backend. Whoever counts a round reads its log and takes each id once.

    A round goes from open to closing to sealed. Closing stops `append`; counting takes its time; publishing
    makes the counts final. Any process can finish a closing round.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        # Found once: to ask whether a backend has the methods of a protocol takes as long as a small commit.
        own = backend.layout if isinstance(backend, Shortcuts) else Layouts(backend.url, backend.plans).of
        self._layout_of: Callable[[RoundKey], Layout] = own
        self._stored: dict[RoundKey, int] = {}  # records of open rounds, as far as this process knows
        self._counted: dict[
            RoundKey, tuple[int, CountsByTags]
        ] = {}  # of open rounds: for how many stored records
        self.repeated = 0  #: records of rounds sealed here whose id was counted already
        self._damaged: dict[RoundKey, str] = {}  # rounds not completely readable at the last attempt, and why
        self._gone: StoreGoneError | None = None

    @property
    def url(self) -> str:
        """The address of the store, without a password."""
        return self.backend.url

    def layout(self, key: RoundKey) -> Layout:
        """The layout of a round's records."""
        return self._layout_of(key)

    # Plans and keys

    def register(self, plan: Plan) -> None:
        """Store a plan; `StoreError` when its name and version are registered with different content."""
        named = f"{self.url}: plan {plan.name} version {plan.version}"
        if not plan.text or Plan.from_toml(plan.text) != plan:
            raise StoreError(
                f"{named} cannot be stored without its plan.toml.\n"
                "  Hint: read it with Plan.load or Plan.from_toml"
            )
        registered = self.backend.put_plan(plan)
        if registered != plan:
            different = ", ".join(_differences(registered, plan))
            raise StoreError(
                f"{named} is already registered with different content: {different}.\n"
                "  Hint: raise the version; the questions of a version never change"
            )

    def plans(self) -> list[Plan]:
        """Every plan ever registered, by name and version."""
        return self.backend.plans()

    def add_key(self, key: Key) -> None:
        """Store a key's hash."""
        if not isinstance(self.backend, KeyTable):
            raise StoreError(f"{self.url}: keeps no keys")
        self.backend.add_key(key)

    def keys(self) -> list[Key]:
        """All keys, including revoked ones."""
        return self.backend.keys() if isinstance(self.backend, KeyTable) else []

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key at a unix time; False when no key has this id. The first time stays."""
        return isinstance(self.backend, KeyTable) and self.backend.revoke_key(key_id, at)

    # What administrators did

    def note(self, action: AdminAction) -> None:
        """Add an entry to the log of administrators, where the backend keeps one; durable on return."""
        if isinstance(self.backend, AdminLog):
            self.backend.note(action)

    def noted(self) -> list[AdminAction]:
        """What administrators did with commands, the oldest first."""
        return self.backend.noted() if isinstance(self.backend, AdminLog) else []

    # Records

    def put_note(self, note: Note) -> None:
        """Store a note of an event; one with its id stays as it is. `StoreError` where the backend keeps none."""
        if not isinstance(self.backend, NotesTable):
            raise StoreError(f"{self.url}: keeps no notes")
        self.backend.put_note(note)

    def notes(self) -> list[Note]:
        """All notes of events, the oldest first."""
        return self.backend.notes() if isinstance(self.backend, NotesTable) else []

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        """Append records, end to end per round, to their rounds in one transaction; durable on return."""
        # In the order of their keys: two collectors that lock the rows of several rounds never deadlock.
        groups = {key: self.layout(key).array(records[key]) for key in sorted(records) if records[key]}
        stored, refused = self._put(groups)
        answers = {}
        for key in records:
            given = len(groups.get(key, ()))
            if key in stored:
                answers[key] = Appended(accepted=given)
                self._stored[key] = self._stored.get(key, 0) + given
            elif key in refused:
                answers[key] = Appended(refused=given)
            else:
                answers[key] = Appended(late=given)
                self._forget(key)
        return answers

    def _put(self, groups: Mapping[RoundKey, Records]) -> tuple[Collection[RoundKey], set[RoundKey]]:
        """The rounds that took their group, and the damaged ones that take nothing."""
        left = dict(groups)
        refused: set[RoundKey] = set()
        while left:
            try:
                with self._unless_gone():
                    return self.backend.put(left), refused
            except DamagedError as error:
                self._damaged[error.key] = error.reason
                refused.add(error.key)
                del left[error.key]
        return (), refused

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
        if isinstance(self.backend, Shortcuts):
            return self.backend.unsealed()
        return [info.key for info in self.backend.rounds() if info.state != "sealed"]

    # What is known of open rounds

    def stored_reports(self) -> int:
        """Ask the backend how many reports open rounds hold; a repeated one is as often in it as it was stored."""
        listed = {info.key for info in self.rounds()}
        for key in self._stored.keys() - listed:  # pruned, or never committed
            self._forget(key)
        return self.open_reports

    @property
    def damaged(self) -> Mapping[RoundKey, str]:
        """The rounds that could not be read completely at the last attempt, and why."""
        return dict(self._damaged)

    @property
    def open_reports(self) -> int:
        """Reports in open rounds when they were last listed, and those appended here since."""
        return sum(list(self._stored.values()))

    def _check_whole(self, key: RoundKey) -> None:
        """Raise `DamagedError` when a round that was damaged still is."""
        if key not in self._damaged:
            return
        repair = self.repair(key)
        if repair is not None:
            self._damaged[key] = repair.damage
            raise damaged(self.url, key, repair.damage)
        self._damaged.pop(key, None)

    def _forget(self, key: RoundKey) -> None:
        self._stored.pop(key, None)
        self._counted.pop(key, None)

    # Counts

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of a plan, latest first; open ones with stored reports."""
        rounds = []
        for info in self.backend.rounds(plan, last):
            if info.damage:
                self._damaged[info.key] = info.damage
            if info.state == "sealed":
                self._forget(info.key)
            else:
                self._stored[info.key] = info.reports
            try:
                self._check_whole(info.key)
            except DamagedError as error:
                rounds.append(info._replace(damage=error.reason))
            else:
                rounds.append(info._replace(damage=""))
        return rounds

    def counts(self, key: RoundKey) -> CountsByTags:
        """
        The counts of a round: final when it is sealed, provisional while it is open; each id once.

        Of different reports with one id, which only forgery makes, the smallest counts.
        """
        with self._noting_damage():
            final = self.backend.final(key)
        if final is None:
            self._check_whole(key)
            with suppress(RoundGoneError), self._noting_damage():
                return dict(self._count(key).counts)
            final = self.backend.final(key)  # it was sealed just now, or there is none
        return dict(final.counts) if final else {}

    def _count(self, key: RoundKey, *, skip_bad: bool = False) -> Count:
        if isinstance(self.backend, Shortcuts):
            return self.backend.count(key, skip_bad=skip_bad)
        groups = list(self.backend.records(key))
        return count_once(self.layout(key), groups, sum(map(len, groups)), Sorting())

    def metric_counts(self, keys: Sequence[RoundKey], metric: str) -> dict[RoundKey, CountsByTags]:
        """The counts of one metric in those of the rounds that are sealed; or `DamagedError`."""
        if isinstance(self.backend, Shortcuts):
            with self._noting_damage():
                return self.backend.metric_counts(keys, metric)
        with self._noting_damage():
            finals = {key: final for key in keys if (final := self.backend.final(key)) is not None}
        return {
            key: {tags: {metric: by_metric[metric]} for tags, by_metric in final.counts.items()}
            for key, final in finals.items()
        }

    def shown(self, key: RoundKey) -> CountsByTags:
        """The counts of a round that is not sealed which readers may see; see `reticent_collector.stores.shown`."""
        if self.layout(key).plan.min_reports > 1:
            return self._step(key).shown
        self._check_whole(key)
        stored = self._stored.get(key, 0)
        known, counts = self._counted.get(key, (0, {}))
        if not stored or known != stored:
            counts = self.counts(key)
            if stored:
                self._counted[key] = (stored, counts)
        return counts

    def take_step(self, key: RoundKey) -> None:
        """Show readers more of an open round, if enough reports came and the backend keeps steps."""
        plan = self.layout(key).plan
        if plan.min_reports == 1 or not isinstance(self.backend, Steps):
            return
        self._check_whole(key)
        step = self._step(key)
        stored = self._stored.get(key, 0)
        if step.is_due(plan, stored):
            # Only after the step was read: so what is counted here holds all that was counted for the step.
            step = step.following(plan, self.counts(key), stored)
            document = step.to_json()
            if len(document) <= MOST_STEP_BYTES:
                self.backend.put_step(key, step.number, document)

    def _step(self, key: RoundKey) -> Step:
        """The latest step of a round, which another collector may have taken."""
        kept = self.backend.step(key) if isinstance(self.backend, Steps) else None
        return Step() if kept is None else Step.from_json(self.layout(key).plan, *kept)

    def claim(self, key: RoundKey) -> AbstractContextManager[bool]:
        """Whether to seal a round here: False while another collector does. An optimization only."""
        return self.backend.claim(key) if isinstance(self.backend, Shortcuts) else nullcontext(True)

    def seal(self, key: RoundKey, *, skip_bad: bool = False) -> bool:
        """
        Seal a round; False when it is sealed already, or was never opened.

        Any process can do it again from the start at any time. `skip_bad` leaves out files that cannot be read,
        which otherwise stop it.
        """
        if not skip_bad:
            self._check_whole(key)
        sealed = False
        with self._unless_gone(), self._noting_damage():
            is_closing = self.backend.close_round(key)
        if is_closing:
            with suppress(RoundGoneError), self._noting_damage():
                count = self._count(key, skip_bad=skip_bad)
                sealed = self.backend.publish(key, count)
                self.repeated += count.repeated if sealed else 0
        self._forget(key)
        return sealed

    def sweep(self) -> None:
        """Drop the records of sealed rounds that could not be dropped at once."""
        if isinstance(self.backend, Upkeep):
            self.backend.sweep()

    @property
    def table(self) -> ResultsTable | None:
        """The table of results, where the backend keeps one."""
        return self.backend if isinstance(self.backend, ResultsTable) else None

    def verify(self) -> list[str]:
        """The problems of the store, a sentence each; empty when there is none. Changes nothing."""
        return self.backend.verify() if isinstance(self.backend, Upkeep) else []

    def repair(self, key: RoundKey, *, dry: bool = True) -> Repair | None:
        """What can be done about a damaged round, and without `dry` do it; None when nothing is wrong."""
        return self.backend.repair(key, dry=dry) if isinstance(self.backend, Upkeep) else None

    def prune(self, key: RoundKey) -> bool:
        """Remove the counts of a sealed round for ever; it stays closed. False when it is not sealed."""
        if not isinstance(self.backend, SealedRounds):
            raise StoreError(f"{self.url}: keeps sealed rounds for ever")
        return self.backend.prune(key)

    def deleted(self) -> set[DeletedMetric]:
        """The metrics that were deleted."""
        return self.backend.deleted() if isinstance(self.backend, MetricDeletion) else set()

    def deletable(self, plan: str, metric: str) -> list[DeletedMetric]:
        """The versions of a plan that asked a metric which can be deleted; else `StoreError`, with the reason."""
        if not isinstance(self.backend, MetricDeletion):
            raise StoreError(
                f"{self.url}: only stores in SQLite and PostgreSQL can delete one metric.\n"
                "  Hint: reticent store prune removes whole rounds"
            )
        versions = sorted((one for one in self.plans() if one.name == plan), key=lambda one: one.version)
        asking = [version for version in versions if metric in version.by_name]
        where = f"{self.url}: {metric} of plan {plan}"
        if not asking:
            raise StoreError(f"{where}: no version of the plan asks it")
        if asking[-1] is versions[-1]:
            raise StoreError(
                f"{where}: the newest version of the plan, {versions[-1].version}, still asks it.\n"
                "  Hint: first serve a version without it, or new rounds would bring it back"
            )
        gone = {*self.deleted(), *(DeletedMetric(plan, one.version, metric) for one in asking)}
        for version in asking:
            if version.asked_bytes:
                raise StoreError(
                    f"{where}: devices answer some of the metrics of version {version.version}, and which groups"
                    " readers may see follows from the answers to all of them.\n"
                    "  Hint: reticent store prune removes whole rounds"
                )
            if all((plan, version.version, name) in gone for name in version.by_name):
                raise StoreError(
                    f"{where}: version {version.version} has no other metric.\n"
                    "  Hint: reticent store prune removes its rounds"
                )
        return [DeletedMetric(plan, version.version, metric) for version in asking]

    def delete_metric(self, plan: str, metric: str) -> None:
        """Remove the sealed counts and results of a metric in every version; `deletable` says whether it can be."""
        metrics = self.deletable(plan, metric)
        if isinstance(self.backend, MetricDeletion):
            self.backend.delete_metrics(metrics)

    def ping(self) -> None:
        """Raise `StoreError` when the store cannot be written at the moment."""
        with self._unless_gone():
            if isinstance(self.backend, Upkeep):
                self.backend.ping()

    def close(self) -> None:
        """Release files and connections."""
        if isinstance(self.backend, Upkeep):
            self.backend.close()


def due(store: Store, now: float, margin: float = MARGIN_SECONDS) -> list[RoundKey]:
    """The rounds that are not sealed, and whose grace is over at unix time `now`."""
    plans = {(plan.name, plan.version): plan for plan in store.plans()}
    return [key for key in store.unsealed() if now >= plans[key[:2]].round(key.round).closes + margin]


def _differences(one: Plan, other: Plan) -> list[str]:
    """Where two versions of a plan differ, by the names of its file."""
    names = {"round_seconds": "round", "grace_seconds": "grace"}
    values = ["round_seconds", "grace_seconds", "owner", "expires", "answers", "min_reports"]
    different = [names.get(name, name) for name in values if getattr(one, name) != getattr(other, name)]
    for kind in ("metrics", "groups", "segments"):
        ours, theirs = ({each.name: each for each in getattr(plan, kind)} for plan in (one, other))
        changed = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        different += [f"{kind}.{name}" for name in changed] or (
            [f"order of {kind}"] if [*ours] != [*theirs] else []
        )
    return different
