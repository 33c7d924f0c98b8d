"""How the collector is doing: one record of it, what fills it, and how Prometheus and `/readyz` read it."""

from __future__ import annotations

import time
from asyncio import Lock
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector as Exposition
from starlette.concurrency import run_in_threadpool

from reticent.errors import StoreError
from reticent.estimates import Estimate
from reticent.results import Result, Results
from reticent.stores import Key

SLOTS = 30
SLOT_SECONDS = 10.0
LATELY_SECONDS = SLOTS * SLOT_SECONDS
"""How far "lately" looks back."""

FRESH_SECONDS = 1.0
"""How long an answer to `/readyz` stands."""


@dataclass(frozen=True, slots=True)
class KeyTraffic:
    """One key: its id and label, never its secret, and what it sent since the start and lately."""

    id: str
    label: str
    role: str
    active: bool
    requests: int = 0
    reports: int = 0
    """Acknowledged; repeats count again."""
    refused: int = 0
    """Requests, or reports of a batch."""
    limited: int = 0
    """Requests that were refused because the key was over its rate."""
    reports_lately: int = 0
    """Lately is the last five minutes."""
    limited_lately: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """The collector at one moment; counts are since its start."""

    version: str
    store: str
    """Its address, without a password."""
    uptime_seconds: float = 0.0
    requests: int = 0
    """POSTs that came, of one report or a batch."""
    accepted: int = 0
    """New reports, durable."""
    duplicate: int = 0
    """Reports that were there already."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Requests, or reports of a batch, that were refused, by code."""
    commits: int = 0
    failed_commits: int = 0
    """Their reports were not acknowledged."""
    commit_p50_ms: float = 0.0
    """Time that the store takes for a commit, median of the latest."""
    commit_p99_ms: float = 0.0
    queue: int = 0
    """Reports that wait for the next commit."""
    open_reports: int = 0
    """Reports in rounds that are open."""
    memory_bytes: int = 0
    """Memory that those take."""
    sealed: int = 0
    """Rounds sealed by this collector."""
    rate: float = 0.0
    """Reports a second that a key may send, 0 for any number."""
    keys: tuple[KeyTraffic, ...] = ()
    uneven: tuple[Result, ...] | None = None
    """Histograms whose reports chance does not explain; None when nobody looked, which takes a while."""

    @property
    def late(self) -> int:
        """Reports whose round took no more."""
        return self.rejected.get("late", 0)

    @property
    def refused(self) -> int:
        """What was refused for another reason than being late."""
        return sum(self.rejected.values()) - self.late

    def share(self, count: int) -> float:
        """A number of reports as a part of all that came; a request that was refused as a whole is one."""
        received = self.accepted + self.duplicate + sum(self.rejected.values())
        return count / received if received else 0.0


class Recent:
    """
    A sum over the last five minutes, in slots of ten seconds: of one size, however much comes.

    One thread adds; any may read.
    """

    __slots__ = ("_slots", "_sums")

    def __init__(self) -> None:
        self._sums = [0] * SLOTS
        self._slots = [-SLOTS] * SLOTS

    def add(self, count: int, now: float) -> None:
        """Count something at a time that never runs back."""
        slot = int(now // SLOT_SECONDS)
        place = slot % SLOTS
        if self._slots[place] != slot:
            self._sums[place] = 0  # the sum first: a reader in between takes it for the old slot's
            self._slots[place] = slot
        self._sums[place] += count

    def total(self, now: float) -> int:
        """
        What was counted lately.

        >>> recent = Recent()
        >>> recent.add(3, now=1000.0)
        >>> recent.total(now=1290.0), recent.total(now=1300.0)
        (3, 0)
        """
        slot = int(now // SLOT_SECONDS)
        return sum(
            count
            for count, counted in zip(self._sums, self._slots, strict=True)
            if slot - SLOTS < counted <= slot
        )


@dataclass(slots=True)
class _Sent:
    requests: int = 0
    reports: int = 0
    refused: int = 0
    limited: int = 0
    reports_lately: Recent = field(default_factory=Recent)
    limited_lately: Recent = field(default_factory=Recent)


class Traffic:
    """
    What the keys of a store send to this collector. A key that is not known is not remembered.

    Nothing is counted where no key is needed: all of it would be one line, and is on the page already.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent: dict[str, _Sent] = {}

    def request(self, key: Key | None) -> None:
        """A request came with a key."""
        if key is not None:
            self._of(key).requests += 1

    def reports(self, key: Key | None, count: int) -> None:
        """So many reports of a key were acknowledged; some may have been there already."""
        if key is not None and count:
            sent = self._of(key)
            sent.reports += count
            sent.reports_lately.add(count, self._clock())

    def refused(self, key: Key | None, code: str, count: int = 1) -> None:
        """A request of a key, or so many of its reports, were refused."""
        if key is not None and count:
            sent = self._of(key)
            sent.refused += count
            if code == "rate_limited":
                sent.limited += count
                sent.limited_lately.add(count, self._clock())

    def _of(self, key: Key) -> _Sent:
        sent = self._sent.get(key.id)
        if sent is None:
            sent = self._sent[key.id] = _Sent()
        return sent

    def table(self, keys: Iterable[Key]) -> tuple[KeyTraffic, ...]:
        """
        A line for each of these keys that may send or has tried to, whoever sent most first.

        A key's secret is not in it, nor is there any way to it.
        """
        now, lines = self._clock(), []
        for key in keys:
            tried = key.id in self._sent
            if tried or (key.active and key.role != "reader"):
                sent = self._sent[key.id] if tried else _Sent()
                lines.append(
                    KeyTraffic(
                        id=key.id,
                        label=key.label,
                        role=key.role,
                        active=key.active,
                        requests=sent.requests,
                        reports=sent.reports,
                        refused=sent.refused,
                        limited=sent.limited,
                        reports_lately=sent.reports_lately.total(now),
                        limited_lately=sent.limited_lately.total(now),
                    )
                )
        return tuple(sorted(lines, key=lambda line: (-line.reports, -line.requests, line.id)))


class Readiness:
    """
    The answer to `/readyz`: whether the store can be written.

    Asking it costs a write, and anybody may ask: so an answer, good or bad, stands for a second, and those
    who ask at once share one question.
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


# Prometheus

GAUGES = {
    "uptime_seconds": "Seconds since the collector started.",
    "queue": "Reports waiting for the next commit.",
    "open_reports": "Reports in open rounds.",
    "memory_bytes": "Memory that open rounds hold.",
}
COUNTERS = {
    "requests": "Requests to the ingest path.",
    "accepted": "Reports that became durable and count.",
    "duplicate": "Reports that were there already.",
    "commits": "Commits.",
    "failed_commits": "Commits that failed; their reports were not acknowledged.",
    "sealed": "Rounds sealed by this collector.",
}
BY_KEY = {
    "requests": "Requests to the ingest path, by the id of their key.",
    "reports": "Reports that were acknowledged, repeats among them, by the id of their key.",
    "refused": "Requests or reports that were refused, by the id of their key.",
    "limited": "Requests that were refused because their key was over its rate, by its id.",
}
"""For the keys of the store that may send, or tried to: a key that is not known has no series."""


def render_metrics(results: Results, health: Health, accept: str) -> tuple[bytes, str]:
    """`/metrics`: its body and content type, in the form that `accept` asks for."""
    registry = CollectorRegistry()
    registry.register(_Exposition(results, health))
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


class _Exposition(Exposition):
    """The health of the service and the newest estimates, as Prometheus takes them."""

    def __init__(self, results: Results, health: Health) -> None:
        self._results = results
        self._health = health

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        health = self._health
        for name, text in GAUGES.items():
            yield GaugeMetricFamily(f"reticent_{name}", text, value=float(getattr(health, name)))
        for name, text in COUNTERS.items():
            yield CounterMetricFamily(f"reticent_{name}", text, value=float(getattr(health, name)))
        commits = GaugeMetricFamily(
            "reticent_commit_duration_seconds",
            "Time of a commit, by quantile of the latest.",
            labels=["quantile"],
        )
        commits.add_metric(["0.5"], health.commit_p50_ms / 1000)
        commits.add_metric(["0.99"], health.commit_p99_ms / 1000)
        yield commits
        rejected = CounterMetricFamily(
            "reticent_rejected", "Requests or reports refused, by code.", labels=["code"]
        )
        for code, count in sorted(health.rejected.items()):
            rejected.add_metric([code], float(count))
        yield rejected
        for name, text in BY_KEY.items():
            by_key = CounterMetricFamily(f"reticent_key_{name}", text, labels=["key"])
            for key in health.keys:
                by_key.add_metric([key.id], float(getattr(key, name)))
            yield by_key
        yield from self._estimates()

    def _estimates(self) -> Iterator[Metric]:
        labels = ["plan", "metric", "bucket"]
        families = {
            name: GaugeMetricFamily(f"reticent_estimate_{name}", text, labels=labels)
            for name, text in (
                ("value", "Newest sealed estimate: a mean in its unit, or the share of devices in a bucket."),
                ("lower", "Lower end of its 95 % interval (for all buckets at once)."),
                ("upper", "Upper end of its 95 % interval (for all buckets at once)."),
                ("reports", "Reports behind it."),
            )
        }
        rounds = GaugeMetricFamily("reticent_estimate_round", "Its round.", labels=["plan", "metric"])
        balances = GaugeMetricFamily(
            "reticent_cohort_p_value",
            "The chance that honest devices speak as unevenly of a histogram's rows, newest sealed round.",
            labels=["plan", "metric"],
        )
        for plan in self._results.plans():
            for result in self._results.newest(plan):
                where = [plan, result.metric.name]
                rounds.add_metric(where, float(result.round))
                balance = result.balance
                if balance is not None:
                    balances.add_metric(where, balance.p_value)
                numbers = (
                    {"": result.estimate}
                    if isinstance(result.estimate, Estimate)
                    else {str(place): bucket for place, bucket in enumerate(result.estimate.buckets)}
                )
                for place, number in numbers.items():
                    for name, family in families.items():
                        family.add_metric([*where, place], float(getattr(number, name)))
        yield from families.values()
        yield rounds
        yield balances
