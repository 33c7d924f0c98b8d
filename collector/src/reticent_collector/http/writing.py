"""
What the collector writes to its store, on threads of its own: commits of reports, and seals of rounds.

Commits are grouped: everything queued during one commit goes into the next transaction. Several collectors may
seal at once.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from reticent.errors import StoreError
from reticent_collector.http.health import COMMIT_BOUNDS
from reticent_collector.http.log import log, log_fault
from reticent_collector.http.readers import ShortTurns
from reticent_collector.results import write_results
from reticent_collector.stores import (
    MARGIN_SECONDS,
    Appended,
    DamagedError,
    RoundKey,
    Store,
    StoreGoneError,
    due,
)

RecordsByRound: TypeAlias = Mapping[RoundKey, Sequence[bytes]]
Done: TypeAlias = Callable[[bool | StoreError], None]
Read: TypeAlias = Callable[[list[Any]], Iterable[tuple[RecordsByRound, Done]]]

LATENCIES = 4096  # commits in the latency figures

RESULTS_SECONDS = 60.0  # between two writes of the table of results when nothing was sealed here
STEP_PAUSE = 9  # before the next step of a round, times what the last one took: a tenth of a core
TURN_SECONDS = 1.0  # in which results are written before due rounds are looked for again


class QueueFullError(Exception):
    """The queue is full."""


@dataclass(slots=True)
class CommitTotals:
    """Totals since the start."""

    accepted: int = 0
    commits: int = 0
    failed_commits: int = 0


@dataclass(slots=True)
class _Group:
    """What waits for the next commit."""

    records: dict[RoundKey, list[bytes]] = field(default_factory=dict)
    waiting: list[tuple[Done, Iterable[RoundKey]]] = field(default_factory=list)
    unread: list[Any] = field(default_factory=list)  # single reports as they came
    reports: int = 0

    def add(self, records: RecordsByRound, done: Done) -> None:
        for key, parts in records.items():
            self.records.setdefault(key, []).extend(parts)
        self.waiting.append((done, records))


class Committer:
    """
    One thread that writes to the store, and its queue.

    Each submitter is called back, in the loop's thread, once its records are durable: with True, with False when one
    of their rounds was sealed meanwhile, or with the `StoreError` of a failed commit.

    Single reports are queued as they came and decoded by `read` when the next commit begins, in the commit thread:
    decoding a group at once takes a third of the time and keeps the loop free. `read` returns records with their
    callbacks, also for what cannot be decoded. They are handed over together, once the loop has read all
    connections that had something: so one commit takes them, not a first one and then the rest.
    """

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, most_waiting: int) -> None:
        self._store = store
        self._loop = loop
        self._most = most_waiting
        self.read: Read = lambda reports: ()
        self._group = _Group()
        self._arrived: list[Any] = []
        """Single reports that are not handed over yet; the loop's thread adds to them."""
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._is_answering = False  # whether the callbacks of the last commit are still to run
        self._stopping = False
        self._failing_since: float | None = None
        self.failed_at: float | None = None  # when the last commit failed; None if it did not
        self.is_gone = False  # whether the store is not where it was: nothing is acknowledged any more
        self.tally = CommitTotals()
        self.latencies: deque[float] = deque(maxlen=LATENCIES)
        self.commit_times = [0] * (len(COMMIT_BOUNDS) + 1)
        self.commit_seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="reticent-commit", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Reports in the queue."""
        return self._group.reports + len(self._arrived)

    def submit_one(self, report: Any) -> None:
        """
        Queue a single report to be decoded and committed, in the loop's thread.

        Raises `QueueFullError` when the queue is full.
        """
        arrived = self._arrived
        if self._stopping or self._group.reports + len(arrived) >= self._most:
            raise QueueFullError
        arrived.append(report)
        if len(arrived) == 1:
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        """Let the next commit take the single reports that have arrived."""
        with self._lock:
            self._take_arrived()
            self._wake.notify()

    def _take_arrived(self) -> None:
        taken = self._arrived[:]
        del self._arrived[: len(taken)]  # another may have been added meanwhile
        self._group.unread += taken
        self._group.reports += len(taken)

    def submit(self, records: RecordsByRound, reports: int, done: Done) -> None:
        """Queue records for the next commit; raises `QueueFullError` when they do not fit beside what is queued."""
        with self._lock:
            self._take_arrived()
            group = self._group
            if self._stopping or (group.reports and group.reports + reports > self._most):
                raise QueueFullError
            group.add(records, done)
            group.reports += reports
            self._wake.notify()

    def stop(self) -> None:
        """Commit what is queued, then end; blocks."""
        with self._lock:
            self._stopping = True
            self._take_arrived()
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                # The next group begins when the answers to the last one are on their way. So it holds all that
                # the loop read meanwhile, without any timer; a single report does not wait at all.
                while not self._stopping and (self._is_answering or not self._group.reports):
                    self._wake.wait()
                group, self._group = self._group, _Group()
            if not group.reports:
                return
            self._commit(group)

    def _commit(self, group: _Group) -> None:
        for records, done in self.read(group.unread) if group.unread else ():
            group.add(records, done)
        if not group.records:  # nothing of it can be read
            self._answer(group, {})
            return
        begun = time.perf_counter()
        try:
            appended = self._store.append({key: b"".join(parts) for key, parts in group.records.items()})
        except BaseException as error:  # the thread must live on: every submitter gets an answer
            failure = StoreError(f"the commit failed: {type(error).__name__}")
            if isinstance(error, StoreError):
                failure = error
            self.tally.failed_commits += 1
            self.failed_at = time.monotonic()
            if self._failing_since is None:  # one line for an outage, not one for each commit
                self._failing_since = time.monotonic()
                log("commits-fail", reason=str(failure))
            if isinstance(failure, StoreGoneError) and not self.is_gone:
                self.is_gone = True
                log("store-gone", reason=str(failure))
            self._answer(group, failure)
            return
        self.failed_at = None
        if self._failing_since is not None:
            log("commits-work", after_seconds=round(time.monotonic() - self._failing_since, 1))
            self._failing_since = None
        seconds = time.perf_counter() - begun
        self.latencies.append(seconds)
        self.commit_times[bisect_left(COMMIT_BOUNDS, seconds)] += 1
        self.commit_seconds += seconds
        self.tally.commits += 1
        for of_round in appended.values():
            self.tally.accepted += of_round.accepted
        # Acknowledged only here, with the records durable: an acknowledgement is a promise.
        self._answer(group, appended)

    def _answer(self, group: _Group, result: dict[RoundKey, Appended] | StoreError) -> None:
        late: set[RoundKey] = set()
        refused: set[RoundKey] = set()
        if not isinstance(result, StoreError):
            late = {key for key, appended in result.items() if appended.late}
            refused = {key for key, appended in result.items() if appended.refused}
        damaged = StoreError("the round is damaged and accepts nothing until it is repaired")

        def outcome(records: Iterable[RoundKey]) -> bool | StoreError:
            if isinstance(result, StoreError):
                return result
            if refused and not refused.isdisjoint(records):
                return damaged
            return not late or late.isdisjoint(records)

        def call_back() -> None:
            for done, records in group.waiting:
                try:
                    done(outcome(records))
                except Exception as error:  # the callbacks after it run all the same
                    log_fault("answer-failed", error)
            with self._lock:
                self._is_answering = False
                self._wake.notify()

        self._is_answering = True
        try:
            self._loop.call_soon_threadsafe(call_back)
        except RuntimeError:  # the loop is closed: no caller waits any more
            self._is_answering = False


# Sealing


def seal_due(store: Store, now: float, margin: float = MARGIN_SECONDS) -> list[RoundKey]:
    """
    Seal every round whose grace is over at Unix time `now`; returns those sealed here.

    A damaged round keeps no other one from its seal; the first `DamagedError` is raised after them.
    """
    sealed: list[RoundKey] = []
    faults: list[DamagedError] = []
    for key in due(store, now, margin):
        try:
            sealed += [key] if store.seal(key) else []
        except DamagedError as fault:
            faults.append(fault)
    if faults:
        raise faults[0]
    return sealed


class Sealer:
    """
    A thread that seals due rounds and takes the next step of open ones, every few seconds.

    After a seal it writes the table of results; every minute it adds what another collector left out or a new day has
    finished. A long backlog is written a second at a time, with a look for due rounds after each.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time, every: float = 2.0) -> None:
        self._store = store
        self._clock = clock
        self._every = every
        self._stop = threading.Event()
        self.sealed = 0
        self._delay = 0.0
        self._failing: set[RoundKey | str] = set()
        """The rounds that could not be sealed the last time, and whatever else failed then."""
        self._step_at: dict[RoundKey, float] = {}  # when each open round may take its next step
        self._write_at = -math.inf
        self._thread = threading.Thread(target=self._run, name="reticent-seal", daemon=True)
        self._thread.start()

    def take_delay(self) -> float:
        """The longest time from the end of a round's grace to its seal since the last call, in seconds."""
        delay, self._delay = self._delay, 0.0
        return delay

    def stop(self) -> None:
        """End after the round being sealed."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                is_due = set(due(self._store, self._clock()))
                keys = sorted(self._store.unsealed(), key=lambda key: key not in is_due)
            except Exception as error:  # the thread must live on
                self._failed("list", error)
                continue
            self._failing.discard("list")
            sealed = self.sealed
            self._step_at = {key: at for key, at in self._step_at.items() if key in keys}
            for key in keys:
                if self._stop.is_set():
                    return
                try:
                    if key not in is_due:
                        self._take_step(key)
                    else:
                        self._seal(key)
                    self._failing.discard(key)
                except Exception as error:  # one that cannot be sealed does not keep others from it
                    self._failed(key, error, "seal-failed" if key in is_due else "step-failed")
            try:
                self._store.sweep()
                self._failing.discard("sweep")
            except Exception as error:  # what is left is tried again the next time
                self._failed("sweep", error)
            if self.sealed > sealed or time.monotonic() >= self._write_at:
                self._write_at = time.monotonic() + RESULTS_SECONDS
                try:
                    self._store.stored_reports()  # with what other collectors took
                    self._write()
                    self._failing.discard("results")
                except Exception as error:  # no result is lost: the counts are there, and it is tried again
                    self._failed("results", error, "results-failed")

    def _take_step(self, key: RoundKey) -> None:
        """Show readers more of an open round; a large one takes long to count, and so its steps are rare."""
        begun = time.monotonic()
        if begun >= self._step_at.get(key, begun):
            self._store.take_step(key)
            now = time.monotonic()
            self._step_at[key] = now + STEP_PAUSE * (now - begun)

    def _write(self) -> None:
        """Write results for a second, of one period at least; what is left is written in the next turn."""
        ends = math.inf

        def is_over() -> bool:
            nonlocal ends
            now = time.monotonic()
            if now >= ends:
                self._write_at = now
            ends = min(ends, now + TURN_SECONDS)
            return self._stop.is_set() or self._write_at <= now

        with ShortTurns():
            write_results(self._store, self._clock, stop=is_over)

    def _seal(self, key: RoundKey) -> None:
        with self._store.claim(key) as is_mine:
            if is_mine and self._store.seal(key):
                self.sealed += 1
                closes = next(
                    plan.round(key.round).closes
                    for plan in self._store.plans()
                    if (plan.name, plan.version) == key[:2]
                )
                self._delay = max(self._delay, self._clock() - closes)
                log("sealed", **key._asdict())

    def _failed(self, what: RoundKey | str, error: Exception, event: str = "seal-failed") -> None:
        """Log a lasting fault once, not at every attempt."""
        if what not in self._failing:
            self._failing.add(what)
            log_fault(event, error, **(what._asdict() if isinstance(what, RoundKey) else {}))
