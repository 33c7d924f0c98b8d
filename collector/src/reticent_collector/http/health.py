"""The health of a collector: its record, what fills it, and the answer to `/readyz`."""

from __future__ import annotations

import time
from asyncio import Lock
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec
from prometheus_client import ProcessCollector
from starlette.concurrency import run_in_threadpool

from reticent.errors import StoreError
from reticent_collector.http.history import HistorySlot, merged
from reticent_collector.stores import Key

SLOTS = 30
SLOT_SECONDS = 10.0
LATELY_SECONDS = SLOTS * SLOT_SECONDS  # the meaning of "lately"

FRESH_SECONDS = 1.0  # for which an answer to `/readyz` stands

COMMIT_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""In seconds: the upper ends of the buckets in which commits and requests are counted by the time they took."""
NO_COMMITS = (0,) * (len(COMMIT_BOUNDS) + 1)


def _exposed(kind: str, text: str) -> Any:
    """A number that `/metrics` has too, as a "gauge", a "counter", or one "by key", with this text."""
    return field(default=0, metadata={"kind": kind, "text": text})


@dataclass(frozen=True, slots=True)
class KeyTraffic:
    """One key: its id and label, never its secret, and what it sent since the start and in the last five minutes."""

    id: str
    label: str
    role: str
    active: bool
    requests: int = _exposed("by key", "Requests to the ingest path, by the id of their key.")
    reports: int = _exposed("by key", "Acknowledged reports, duplicates included, by the id of their key.")
    refused: int = _exposed("by key", "Refused requests or reports, by the id of their key.")
    limited: int = _exposed(
        "by key", "Requests refused because their key exceeded its rate, by the id of the key."
    )
    reports_lately: int = 0
    limited_lately: int = 0

    def __add__(self, other: KeyTraffic) -> KeyTraffic:
        """What a key sent to two workers."""
        numbers = [figure.name for figure in fields(self) if figure.type == "int"]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in numbers})


@dataclass(slots=True)
class RequestTimes:
    """Requests by the time from their last byte to their response, in buckets as commits, and the sum of it."""

    counts: list[int] = field(default_factory=lambda: list(NO_COMMITS))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a request."""
        self.counts[bisect_left(COMMIT_BOUNDS, seconds)] += 1
        self.seconds += seconds

    def __add__(self, other: RequestTimes) -> RequestTimes:
        """Those of two workers."""
        counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        return RequestTimes(counts, self.seconds + other.seconds)


class ServerFigures:
    """What a server knows and its application shows."""

    def __init__(self) -> None:
        self.reports = RequestTimes()
        self.other = RequestTimes()
        self.certificate_expires = 0.0  # Unix time; 0: no TLS


def process_figures() -> dict[str, float]:
    """Memory, processor time, open files and start of this process, by the names that Prometheus has for them."""
    families = ProcessCollector(registry=None).collect()
    return {sample.name: sample.value for family in families for sample in family.samples}


@dataclass(frozen=True, slots=True)
class Health:
    """The collector at one moment; counts are since its start. `store` is an address without a password."""

    version: str
    store: str
    uptime_seconds: float = _exposed("gauge", "Seconds since the collector started.")
    requests: int = _exposed("counter", "Requests to the ingest path.")
    accepted: int = _exposed("counter", "Reports that became durable; a repeated one each time.")
    duplicate: int = _exposed(
        "counter", "Reports stored again, found when this collector sealed their round."
    )
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Requests, or reports of a batch, that were refused, by code."""
    commits: int = _exposed("counter", "Commits.")
    failed_commits: int = _exposed("counter", "Failed commits; their reports were not acknowledged.")
    commit_p50_ms: float = 0.0  # time of a commit, median of the latest
    commit_p99_ms: float = 0.0
    queue: int = _exposed("gauge", "Reports waiting for the next commit.")
    open_reports: int = _exposed("gauge", "Reports in open rounds.")
    sealed: int = _exposed("counter", "Rounds sealed by this collector.")
    rate: float = 0.0  # reports a second that a key may send; 0: no limit
    keys: tuple[KeyTraffic, ...] = ()
    history: tuple[HistorySlot, ...] = ()  # the last day, in slots of ten minutes
    workers: Mapping[str, Health] = field(default_factory=dict)
    """Of each worker by its number, where several share a port: then this one is all of them together."""
    commit_times: tuple[int, ...] = NO_COMMITS
    """Commits by the time they took: in each bucket of `COMMIT_BOUNDS`, and above the last."""
    commit_seconds: float = 0.0  # total duration of commits
    requests_of: Mapping[str, RequestTimes] = field(default_factory=dict)
    """Answered requests by the time they took: "reports", and "other" for all other paths."""
    process: Mapping[str, float] = field(default_factory=dict)
    """Memory, processor time, files and start of the process, by the names that Prometheus has for them."""
    certificate_expires: float = 0.0  # Unix time; 0: no TLS

    @property
    def late(self) -> int:
        """Reports whose round was closed."""
        return self.rejected.get("late", 0)

    @property
    def refused(self) -> int:
        """Refusals for any reason but being late."""
        return sum(self.rejected.values()) - self.late

    def share(self, count: int) -> float:
        """A number of reports as a share of all that came; a request refused as a whole counts as one."""
        received = self.accepted + sum(self.rejected.values())
        return count / received if received else 0.0


def encoded(health: Health) -> bytes:
    """The figures of one worker, as bytes for the others."""
    return msgspec.json.encode(health)


def decoded(text: bytes) -> Health:
    """The inverse of `encoded`."""
    return msgspec.json.decode(text, type=Health)


def together(workers: Mapping[str, Health]) -> Health:
    """
    Workers as one collector.

    Counts and queues add up. Each worker asks the store for the reports of open rounds, so of these the largest
    number counts, as of the commit times.
    """
    healths = list(workers.values())
    added, largest = (
        {name: combine(getattr(health, name) for health in healths) for name in names.split()}
        for combine, names in (
            (
                sum,
                "requests accepted duplicate commits failed_commits queue sealed commit_seconds",
            ),
            (max, "uptime_seconds commit_p50_ms commit_p99_ms open_reports"),
        )
    )
    rejected: Counter[str] = Counter()
    keys: dict[str, KeyTraffic] = {}
    requests_of: dict[str, RequestTimes] = {}
    for health in healths:
        for name, times in health.requests_of.items():
            requests_of[name] = requests_of.get(name, RequestTimes()) + times
        rejected.update(health.rejected)
        for key in health.keys:
            keys[key.id] = key + keys[key.id] if key.id in keys else key
    by_reports = sorted(keys.values(), key=lambda key: (-key.reports, -key.requests, key.id))
    return replace(
        healths[0],
        **added,
        **largest,
        rejected=dict(rejected),
        keys=tuple(by_reports),
        history=merged(health.history for health in healths),
        workers=workers,
        commit_times=tuple(map(sum, zip(*(health.commit_times for health in healths), strict=True))),
        requests_of=requests_of,
        process={},
    )


class Recent:
    """A sum over the last five minutes, in slots of ten seconds: of constant size. One thread adds; any may read."""

    def __init__(self) -> None:
        self._sums: dict[int, int] = {}  # by slot, oldest first

    def add(self, count: int, now: float) -> None:
        """Count something at a time that never runs back."""
        slot = int(now // SLOT_SECONDS)
        self._sums[slot] = self._sums.get(slot, 0) + count
        if len(self._sums) > SLOTS:
            del self._sums[next(iter(self._sums))]

    def total(self, now: float) -> int:
        """
        The sum of the last five minutes.

        >>> recent = Recent()
        >>> recent.add(3, now=1000.0)
        >>> recent.total(now=1290.0), recent.total(now=1300.0)
        (3, 0)
        """
        oldest = int(now // SLOT_SECONDS) - SLOTS
        return sum(count for slot, count in list(self._sums.items()) if slot > oldest)


class Traffic:
    """What the keys of a store send to this collector; unknown keys, and requests without one, are not counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent: dict[str, Counter[str]] = {}
        self._lately: dict[tuple[str, str], Recent] = {}

    def request(self, key: Key | None) -> None:
        """A request came with a key."""
        self._add(key, "requests", 1)

    def reports(self, key: Key | None, count: int) -> None:
        """Reports of a key were acknowledged; some may be duplicates."""
        self._add(key, "reports", count, lately=True)

    def refused(self, key: Key | None, code: str, count: int = 1) -> None:
        """A request of a key, or so many of its reports, were refused."""
        self._add(key, "refused", count)
        if code == "rate_limited":
            self._add(key, "limited", count, lately=True)

    def _add(self, key: Key | None, name: str, count: int, lately: bool = False) -> None:
        if key is not None and count:
            sent = self._sent.get(key.id)
            if sent is None:
                sent = self._sent[key.id] = Counter()
            sent[name] += count
            if lately:
                self._lately.setdefault((key.id, name), Recent()).add(count, self._clock())

    def table(self, keys: Iterable[Key]) -> tuple[KeyTraffic, ...]:
        """A row for each of these keys that may send or has tried to, most reports first; never a secret."""
        now, lines = self._clock(), []
        for key in keys:
            if key.id in self._sent or (key.active and key.role != "reader"):
                lately = {
                    f"{name}_lately": self._lately[key.id, name].total(now)
                    for name in ("reports", "limited")
                    if (key.id, name) in self._lately
                }
                sent: Mapping[str, int] = self._sent.get(key.id, {})
                lines.append(KeyTraffic(key.id, key.label, key.role, key.active, **sent, **lately))
        return tuple(sorted(lines, key=lambda line: (-line.reports, -line.requests, line.id)))


class Readiness:
    """
    The answer to `/readyz`: whether the store can be written.

    Asking costs a write and needs no key: so an answer, good or bad, stands for a second, and simultaneous requests
    share one question.
    """

    def __init__(self, ping: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._ping = ping
        self._clock = clock
        self._lock = Lock()
        self._ready = False
        self._until = float("-inf")

    async def __call__(self) -> bool:
        """Whether the store answered, now or within the last second."""
        async with self._lock:
            if self._clock() >= self._until:
                try:
                    await run_in_threadpool(self._ping)
                    self._ready = True
                except StoreError:
                    self._ready = False
                self._until = self._clock() + FRESH_SECONDS
            return self._ready
