"""The collector as an ASGI application: ingest, the rest of the interface, the dashboard, background tasks."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.http.access import Access, Pages
from reticent_collector.http.api import Api
from reticent_collector.http.compression import Compression
from reticent_collector.http.health import Health, ServerFigures, decoded, encoded, process_figures, together
from reticent_collector.http.history import History
from reticent_collector.http.ingest import Ingest, Intake
from reticent_collector.http.limits import Limits
from reticent_collector.http.log import log, log_fault
from reticent_collector.http.notes import write_notes
from reticent_collector.http.problems import Acknowledgement, ProblemError
from reticent_collector.http.wire import Wire
from reticent_collector.http.workers import Worker
from reticent_collector.http.writing import Committer, Sealer
from reticent_collector.results import Results
from reticent_collector.stores import Store

FAILED_SECONDS = 5.0  # for which a failed commit counts more than a small write that succeeds


class Collector:
    """
    The collector as an ASGI application.

    `POST /v1/reports` goes straight to `Ingest`; everything else goes through Starlette. Startup loads the open
    rounds into memory; shutdown commits what is queued, then closes the store.
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        store: Store,
        *,
        limits: Limits | None = None,
        rate: float = 0.0,
        most_waiting: int = 1_000_000,
        skew: float = 300.0,
        secure_cookies: bool = False,
        clock: Callable[[], float] | None = None,
        seal_every: float | None = 2.0,
        pages: Pages | None = None,
        public: Collection[str] = (),
        allowed_origins: Sequence[str] = (),
        trusted_header: str | None = None,
        worker: Worker | None = None,
        read_plans: Callable[[], Iterable[Plan]] = tuple,
    ) -> None:
        self.store = store
        self.limits = limits or Limits()
        clock = clock or SteadyClock()
        for plan in plans:
            store.register(plan)
        self._read_plans = read_plans
        self.access = Access(
            store, rate, clock, secret=worker.secret if worker else None, trusted_header=trusted_header
        )
        self._worker = worker
        self.results = Results(store, clock)
        self._wire = Wire(store.plans(), skew)
        self._clock = clock
        self._most_waiting = most_waiting
        self._seal_every = seal_every
        self._version = version("reticent")  # what runs here, also while the package is being replaced
        self._started_at = time.monotonic()
        self._committer: Committer | None = None
        self.ingest: Ingest | None = None
        self._sealer: Sealer | None = None
        self._history = History()
        self.server_figures = ServerFigures()  # the server fills them in
        self._refreshing: asyncio.Task[None] | None = None
        self._api = Api(
            self.results,
            self.check_writable,
            self.access,
            self.health,
            secure_cookies,
            pages,
            public,
            partial(write_notes, self.store),
        )
        self._compressed = Compression(self._api)
        self.allowed_origins = frozenset(origin.encode() for origin in allowed_origins)
        self.cross_origin = for_pages(self._answer, allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI scope."""
        if scope["type"] == "http":
            if self.cross_origin is not None and scope["path"] == "/v1/reports":
                await self.cross_origin(scope, receive, send)
            else:
                await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/v1/reports" and scope["method"] == "POST" and self.ingest is not None:
            await take_reports(self.ingest, scope, receive, send)
        else:
            await self._compressed(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            reports = await asyncio.to_thread(self.store.stored_reports)
            self._committer = Committer(self.store, asyncio.get_running_loop(), self._most_waiting)
            self.ingest = Ingest(self._wire, self._committer, self.access, self.limits, self._clock)
            if self._seal_every is not None:
                self._sealer = Sealer(self.store, self._clock, self._seal_every)
            self._note()  # the first slot of the last day is there from the start
            self._refreshing = asyncio.create_task(self._refresh())
            gc.freeze()  # what is loaded by now stays: the garbage collector can skip it
            log("started", store=self.store.url, open_reports=reports)
            for key, reason in self.store.damaged.items():
                log("round-damaged", **key._asdict(), reason=reason)
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._api.close()
        # In this order: the seal under way is finished, the queue is committed, the store is closed.
        for part in (self._sealer, self._committer):
            if part is not None:
                await asyncio.to_thread(part.stop)
        await asyncio.to_thread(self.store.close)
        log("stopped")
        await send({"type": "lifespan.shutdown.complete"})

    async def reload(self) -> None:
        """Take up plans that were added since; the server calls it on SIGHUP."""
        try:
            await asyncio.to_thread(self.take_up_plans)
        except StoreError as error:
            log_fault("plan-refused", error)

    def take_up_plans(self) -> None:
        """Register the plans that `read_plans` returns, and accept reports on all that the store has; blocks."""
        for plan in self._read_plans():
            try:
                self.store.register(plan)
            except StoreError as error:  # another plan of this name and version: the others go on
                log_fault("plan-refused", error, plan=plan.name, version=plan.version)
        plans = self.store.plans()
        self._wire.set_plans(plans)
        log("plans-read", plans=len(plans))

    async def _refresh(self) -> None:
        """Every second: note the totals, publish them to other workers, refresh the keys when they are stale."""
        while True:
            await asyncio.sleep(1)
            self._note()
            if self._worker is not None:
                self._worker.publish(encoded(self._own_health()))
            await self.access.refresh_when_stale()

    def check_writable(self) -> None:
        """
        Raise `StoreError` when reports cannot be committed at the moment; blocks.

        On a full disk a small write may succeed where commits fail, so the last commit decides. When none was tried
        for a while, as behind a proxy that has turned to another collector, a small write does.
        """
        failed_at = self._committer.failed_at if self._committer else None
        if failed_at is not None and time.monotonic() - failed_at < FAILED_SECONDS:
            raise StoreError(f"{self.store.url}: the last commit failed")
        self.store.ping()

    def _note(self) -> None:
        own = self._own_health()
        totals = {name: getattr(own, name) for name in ("accepted", "duplicate", "late", "refused")}
        self._history.note(self._clock(), self._sealer.take_delay() if self._sealer else 0.0, **totals)

    def health(self) -> Health:
        """The health of this process, or of all workers combined."""
        if self._worker is None:
            return self._own_health()
        # Its own is published first: counters that another worker shows next never run back, even if this one dies.
        own = self._own_health()
        self._worker.publish(encoded(own))
        workers = {number: decoded(text) for number, text in self._worker.published().items()}
        workers[self._worker.number] = own
        return together({str(number): health for number, health in sorted(workers.items())})

    def _own_health(self) -> Health:
        committer, ingest = self._committer, self.ingest
        health = Health(
            version=self._version,
            store=self.store.url,
            uptime_seconds=time.monotonic() - self._started_at,
            open_reports=self.store.open_reports,
            duplicate=self.store.repeated,
            sealed=self._sealer.sealed if self._sealer else 0,
            rate=self.access.rate,
            history=self._history.slots,
            requests_of={"reports": self.server_figures.reports, "other": self.server_figures.other},
            process=process_figures(),
            certificate_expires=self.server_figures.certificate_expires,
        )
        if committer is None or ingest is None:  # it has not started yet
            return health
        latencies = sorted(committer.latencies)
        return replace(
            health,
            **asdict(committer.tally),
            requests=ingest.requests,
            rejected=dict(ingest.refused),
            commit_p50_ms=_quantile(latencies, 0.5) * 1000,
            commit_p99_ms=_quantile(latencies, 0.99) * 1000,
            queue=committer.waiting,
            keys=ingest.traffic.table(self.access.all_keys),
            commit_times=tuple(committer.commit_times),
            commit_seconds=committer.commit_seconds,
        )


def _quantile(ordered: list[float], level: float) -> float:
    return ordered[min(len(ordered) - 1, int(level * len(ordered)))] if ordered else 0.0


def for_pages(app: ASGIApp, origins: Sequence[str]) -> ASGIApp | None:
    """
    The CORS middleware for `origins`, which may send reports and nothing else; None without origins.

    The built-in server answers reports itself, with the same headers; it leaves the question before them to this one.
    """
    if not origins:
        return None
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["POST"],
        allow_headers=["authorization", "content-type"],
        expose_headers=["retry-after"],
        max_age=86_400,
    )


async def take_reports(ingest: Intake, scope: Scope, receive: Receive, send: Send) -> None:
    """The ingest path for any ASGI server; the built-in server takes a shorter one, see `protocol`."""
    waiting: asyncio.Future[Acknowledgement | ProblemError] = asyncio.get_running_loop().create_future()

    def finish(result: Acknowledgement | ProblemError) -> None:
        if not waiting.done():  # the request may have been cancelled
            waiting.set_result(result)

    try:
        admission = ingest.admit(scope["headers"])
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ProblemError(400, "bad_request")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > ingest.limits.body:
                raise ingest.limits.too_large()
        ingest.take(admission, bytes(body), finish)
        result = await waiting
    except ProblemError as problem:
        result = problem
    await send({"type": "http.response.start", "status": result.status, "headers": result.headers})
    await send({"type": "http.response.body", "body": result.body})


def seconds_awake_or_asleep() -> float:
    """A clock that cannot be set, and that runs on during sleep where the system has one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class SteadyClock:
    """
    Unix time that does not follow a jump of the system clock at once.

    Seals and refusals of late reports are final, so a clock that is days ahead for one minute would end every
    open round. This clock follows the system clock while that agrees with a clock that cannot be set, within
    `tolerance` seconds. After a jump it continues as before, and follows the jump once it has lasted `doubt`
    seconds. It cannot detect a clock that is wrong from the start, or wrong for longer than that.

    >>> wall, steady = [1_000_000.0], [5.0]
    >>> clock = SteadyClock(lambda: wall[0], lambda: steady[0])
    >>> wall[0] += 3 * 86_400 + 10; steady[0] += 10; clock()     # three days ahead: not followed yet
    1000010.0
    >>> wall[0] += 900; steady[0] += 900; clock()                # unchanged after 15 minutes
    1260110.0
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = seconds_awake_or_asleep,
        tolerance: float = 60.0,
        doubt: float = 900.0,
    ) -> None:
        self._wall, self._steady = wall, steady
        self._tolerance, self._doubt = tolerance, doubt
        self._lock = threading.Lock()
        self._offset = wall() - steady()
        self._doubted: tuple[float, float] | None = None  # the other offset, and since when it has been seen

    def __call__(self) -> float:
        """Unix time, in seconds."""
        with self._lock:
            steady = self._steady()
            offset = self._wall() - steady
            if abs(offset - self._offset) <= self._tolerance:
                self._offset, self._doubted = offset, None
            elif self._doubted is None or abs(offset - self._doubted[0]) > self._tolerance:
                self._doubted = offset, steady
                log("clock-jumped", seconds=round(offset - self._offset))
            elif steady - self._doubted[1] >= self._doubt:
                log("clock-believed", seconds=round(offset - self._offset))
                self._offset, self._doubted = offset, None
            return self._offset + steady
