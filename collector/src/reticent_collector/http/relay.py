"""
The relay: takes reports for a collector elsewhere, which then never sees who sent them.

Reports wait until there are enough of them, or for long enough; they are shuffled and forwarded as a packed batch.
A device is answered once the collector has answered for its report. Nothing is written to disk.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np
from starlette.types import Receive, Scope, Send

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.reports import Verdict, to_packed
from reticent_collector.http.access import Access
from reticent_collector.http.app import for_pages, take_reports
from reticent_collector.http.client import BatchTooLargeError, Client, UnreachableError
from reticent_collector.http.ingest import ONE_ACCEPTED, PACKED, Admission, Finish, Intake
from reticent_collector.http.limits import Limits
from reticent_collector.http.log import log, log_fault
from reticent_collector.http.problems import Acknowledgement, ProblemError, of_verdict
from reticent_collector.http.wire import ROUND_BYTES, Wire
from reticent_collector.http.writing import QueueFullError
from reticent_collector.stores import Key

MOST_IN_BATCH = 10_000  # reports in one request to the collector

T = TypeVar("T")
Outcome: TypeAlias = Verdict | ProblemError
Waiting: TypeAlias = tuple[bytes, Callable[[Outcome], None]]
"""A record of a packed batch, and what is called with what became of it."""

NO_ANSWER = ProblemError(
    503,
    "unavailable",
    "The collector behind this relay does not answer at the moment; send again.",
    retry_after=5,
)


def shuffled(things: Sequence[T]) -> list[T]:
    """
    The same items in an order drawn from the operating system's generator, each order equally likely.

    Numbers are drawn until all of them differ; given that, every order of them is equally likely.
    """
    while True:
        numbers = np.frombuffer(os.urandom(8 * len(things)), dtype=np.uint64)
        order = np.argsort(numbers)
        if len(np.unique(numbers)) == len(things):
            return [things[place] for place in order.tolist()]


class _Queue:
    """The waiting reports of one version of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.head = to_packed([], plan)
        self.waiting: list[Waiting] = []
        self.since = 0.0  # when it began to fill


class Forwarder:
    """
    Sends batches to the collector, two at a time: one is sent while another is committed.

    A batch begins when at least `batch` reports of a version of a plan wait, or when the first of them has waited for
    `seconds`. Nothing is kept of a report once it is answered.
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        client: Client,
        *,
        batch: int = 100,
        seconds: float = 1.0,
        patience: float = 6.0,
        most_waiting: int = 100_000,
    ) -> None:
        self._queues = {(plan.name, plan.version): _Queue(plan) for plan in plans}
        self._clients = [client, client.twin()]
        self._batch = min(batch, MOST_IN_BATCH)
        self._seconds = seconds
        self._patience = patience
        self._most = most_waiting
        self._waiting = 0  # reports that wait or are being sent
        self._news = asyncio.Event()
        self.is_failing = False  # whether the collector failed to answer for the last batch

    def submit(self, reports: Mapping[tuple[str, int], list[Waiting]]) -> None:
        """Queue reports, by plan and version; raises `QueueFullError` when too many wait."""
        count = sum(map(len, reports.values()))
        if self._waiting and self._waiting + count > self._most:
            raise QueueFullError
        self._waiting += count
        for version, waiting in reports.items():
            queue = self._queues[version]
            if not queue.waiting:
                queue.since = asyncio.get_running_loop().time()
                self._news.set()
            queue.waiting += waiting
            if len(queue.waiting) >= self._batch:
                self._news.set()

    async def run(self) -> None:
        """Send batches until cancelled."""
        try:
            await asyncio.gather(*map(self._send, self._clients))
        finally:
            for client in self._clients:
                client.close()

    async def _send(self, client: Client) -> None:
        while True:
            queue = await self._due()
            taken, queue.waiting = queue.waiting[:MOST_IN_BATCH], queue.waiting[MOST_IN_BATCH:]
            queue.since = asyncio.get_running_loop().time()
            await self._deliver(client, queue.head, shuffled(taken))

    async def _due(self) -> _Queue:
        """The next queue to send, as soon as there is one."""
        while True:
            now = asyncio.get_running_loop().time()
            filled = [queue for queue in self._queues.values() if queue.waiting]
            due = [
                queue
                for queue in filled
                if len(queue.waiting) >= self._batch or now >= queue.since + self._seconds
            ]
            if due:
                return min(due, key=lambda queue: queue.since)
            self._news.clear()
            next_due = min((queue.since + self._seconds for queue in filled), default=None)
            try:
                async with asyncio.timeout_at(next_due):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _deliver(self, client: Client, head: bytes, reports: list[Waiting]) -> None:
        body = b"".join([head, *(record for record, _ in reports)])
        try:
            refused = dict(await client.deliver(body, PACKED.decode(), len(reports), self._patience))
        except BatchTooLargeError as error:
            if len(reports) == 1:
                self._fail(reports, str(error))
                return
            middle = len(reports) // 2
            await self._deliver(client, head, reports[:middle])
            await self._deliver(client, head, reports[middle:])
        except UnreachableError as error:
            self._fail(reports, str(error))
        except Exception as error:  # every client gets an answer, and the next batch is sent all the same
            log_fault("internal-error", error)
            self._fail(reports, type(error).__name__)
        else:
            if self.is_failing:
                self.is_failing = False
                log("collector-answers")
            self._answer(reports, [refused.get(place, Verdict.ACCEPTED) for place in range(len(reports))])

    def _fail(self, reports: list[Waiting], reason: str) -> None:
        """Answer for reports that the collector did not, and for those waiting behind them."""
        if not self.is_failing:  # one line for an outage, not one for each batch
            self.is_failing = True
            log("collector-fails", reason=reason)
        for queue in self._queues.values():
            reports = reports + queue.waiting
            queue.waiting = []
        self._answer(reports, [NO_ANSWER] * len(reports))

    def _answer(self, reports: list[Waiting], outcomes: Sequence[Outcome]) -> None:
        self._waiting -= len(reports)
        for (_, answer), outcome in zip(reports, outcomes, strict=True):
            try:
                answer(outcome)
            except Exception as error:  # the clients after it get their answers all the same
                log_fault("answer-failed", error)


class RelayIntake(Intake):
    """Takes reports for a forwarder; it checks their form, and the collector whether their round is open."""

    def __init__(self, plans: Sequence[Plan], forwarder: Forwarder, access: Access, limits: Limits) -> None:
        # No round begins after that time, so none is early; none is over, so none is late.
        super().__init__(Wire(plans, skew=float("inf")), access, limits, lambda: float("-inf"))
        self._forwarder = forwarder

    def _take_one(self, body: bytes, key: Key | None, finish: Finish) -> None:
        report = self._wire.one(body, self._clock())
        if isinstance(report, Verdict):
            raise of_verdict(report)
        self._access.spend(key, 1)
        (name, version, number), record = report
        waiting = number.to_bytes(ROUND_BYTES) + record, partial(self._one_done, key, finish)
        self._forwarder.submit({(name, version): [waiting]})

    def _one_done(self, key: Key | None, finish: Finish, outcome: Outcome) -> None:
        if outcome is Verdict.ACCEPTED:
            self.traffic.reports(key, 1)
            finish(ONE_ACCEPTED)
        else:
            self._refuse(of_verdict(outcome) if isinstance(outcome, Verdict) else outcome, key, finish)

    def _take_batch(self, body: bytes, admission: Admission, finish: Finish) -> None:
        batch = self._read_batch(body, admission)
        outcomes, left = dict[int, Outcome](batch.rejected), batch.accepted
        self._access.spend(admission.key, left)

        def done(place: int, outcome: Outcome) -> None:
            nonlocal left
            outcomes[place] = outcome
            left -= 1
            if not left:
                self._batch_done(outcomes, admission.key, finish)

        reports: dict[tuple[str, int], list[Waiting]] = {}
        for key, parts in batch.records.items():
            start, records, places = key.round.to_bytes(ROUND_BYTES), b"".join(parts), batch.places[key]
            width = len(records) // len(places)
            reports.setdefault(key[:2], []).extend(
                (start + records[place * width : (place + 1) * width], partial(done, number))
                for place, number in enumerate(places)
            )
        if left:
            self._forwarder.submit(reports)
        else:
            self._batch_done(outcomes, admission.key, finish)

    def _batch_done(self, outcomes: Mapping[int, Outcome], key: Key | None, finish: Finish) -> None:
        """Answer for a batch whose outcome is complete; if some of it has to be sent again, all of it has."""
        for outcome in outcomes.values():
            if isinstance(outcome, ProblemError):
                self._refuse(outcome, key, finish)
                return
        rejected = [
            {"index": place, "code": str(outcomes[place])}
            for place in sorted(outcomes)
            if outcomes[place] is not Verdict.ACCEPTED
        ]
        accepted = len(outcomes) - len(rejected)
        self.traffic.reports(key, accepted)
        for row in rejected:
            self._note(str(row["code"]), key)
        finish(Acknowledgement(msgspec.json.encode({"accepted": accepted, "rejected": rejected})))


class KeyFile:
    """The keys of a relay's clients: a file with one per line, read again every few seconds; none without a file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def keys(self) -> list[Key]:
        """The keys; an empty file is an error, not a relay that needs no key."""
        if self._path is None:
            return []
        try:
            texts = self._path.read_text().split()
        except (OSError, ValueError) as error:
            raise StoreError(f"{self._path}: cannot be read: {error}") from error
        if not texts:
            raise StoreError(f"{self._path}: expected one key per line, found none.")
        digests = [sha256(text.encode()).digest() for text in texts]
        return [Key(digest.hex()[:8], "ingest", digest, "", 0) for digest in digests]


class Relay:
    """
    The relay as an ASGI application, for the same server as a collector.

    >>> from reticent_collector.http import Client
    >>> Relay([], Client("https://telemetry.example.org")).access.is_open
    True
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        client: Client,
        *,
        keys: KeyFile | None = None,
        limits: Limits | None = None,
        batch: int = 100,
        seconds: float = 1.0,
        patience: float = 6.0,
        most_waiting: int = 100_000,
        allowed_origins: Sequence[str] = (),
    ) -> None:
        self._client = client
        self._forwarder = Forwarder(
            plans, client, batch=batch, seconds=seconds, patience=patience, most_waiting=most_waiting
        )
        self.access = Access(keys or KeyFile(None))
        self.ingest = RelayIntake(plans, self._forwarder, self.access, limits or Limits())
        self.allowed_origins = frozenset(origin.encode() for origin in allowed_origins)
        self.cross_origin = for_pages(self._answer, allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI scope."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self.cross_origin is not None and scope["path"] == "/v1/reports":
            await self.cross_origin(scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        tasks = [asyncio.create_task(self._forwarder.run()), asyncio.create_task(self._refresh())]
        log("started", to=self._client.url)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        log("stopped")
        await send({"type": "lifespan.shutdown.complete"})

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(1)
            await self.access.refresh_when_stale()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path == "/v1/reports" and method == "POST":
            await take_reports(self.ingest, scope, receive, send)
            return
        status, body, headers = 200, b'{"status":"ok"}', [(b"content-type", b"application/json")]
        problem = None
        if path == "/v1/reports":
            problem = ProblemError(405, "method_not_allowed")
        elif path == "/readyz" and self._forwarder.is_failing:
            problem = NO_ANSWER
        elif path not in ("/healthz", "/readyz"):
            problem = ProblemError(404, "not_found")
        if problem is not None:
            status, body, headers = problem.status, problem.body, problem.headers
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
