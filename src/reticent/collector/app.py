"""The application: the ingest path, the rest of the interface, the dashboard, and what runs beside them."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from reticent.collector.access import Access
from reticent.collector.api import Api
from reticent.collector.asgi import Receive, Scope, Send, answer
from reticent.collector.clocks import SteadyClock
from reticent.collector.commits import Committer
from reticent.collector.door import Pages
from reticent.collector.ingest import Ingest, Limits
from reticent.collector.log import log, log_fault
from reticent.collector.sealing import Sealer
from reticent.collector.wire import Wire
from reticent.plan import Plan
from reticent.results import Results
from reticent.stores import Store


class Collector:
    """
    The collector as an ASGI application.

    `POST /v1/reports` goes straight to `Ingest`; everything else goes through Starlette. Starting brings the
    open rounds into memory; stopping writes what waits, then lets go of the store.
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
        seal_every: float = 2.0,
        pages: Pages | None = None,
    ) -> None:
        self.store = store
        self.limits = limits or Limits()
        clock = clock or SteadyClock()
        for plan in plans:
            store.register(plan)
        self.access = Access(store, rate, clock)
        self.reader = Results(store, clock)
        self._wire = Wire(store.plans(), skew)
        self._clock = clock
        self._most_waiting = most_waiting
        self._seal_every = seal_every
        self._started_at = time.monotonic()
        self._committer: Committer | None = None
        self.ingest: Ingest | None = None
        self._sealer: Sealer | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._api = Api(self.reader, store.ping, self.access, self.health, secure_cookies, pages)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or start and stop."""
        if scope["type"] == "http":
            if scope["path"] == "/v1/reports" and scope["method"] == "POST" and self.ingest is not None:
                await answer(self.ingest, scope, receive, send)
            else:
                await self._api(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.to_thread(self._stop)
        await send({"type": "lifespan.shutdown.complete"})

    async def _start(self) -> None:
        reports = await asyncio.to_thread(self.store.load_open_rounds)
        self._committer = Committer(self.store, asyncio.get_running_loop(), self._most_waiting)
        self.ingest = Ingest(self._wire, self._committer, self.access, self.limits, self._clock)
        self._sealer = Sealer(self.store, self._clock, self._seal_every)
        self._refreshing = asyncio.create_task(self._refresh())
        gc.freeze()  # what is here by now stays: the collector of garbage need not look at it again
        log("started", store=self.store.url, open_reports=reports)

    def _stop(self) -> None:
        for part in (self._sealer, self._committer):
            if part is not None:
                part.stop()
        self.store.close()
        log("stopped")

    async def _refresh(self) -> None:
        """Read the keys anew now and then."""
        while True:
            await asyncio.sleep(1)
            if self.access.is_stale():
                try:
                    await asyncio.to_thread(self.access.refresh)
                except Exception as error:  # those known go on; try again when they are stale once more
                    log_fault("keys-failed", error)

    def health(self) -> dict[str, Any]:
        """What `/health` and `/metrics` show of the service itself."""
        committer, ingest = self._committer, self.ingest
        latencies = sorted(committer.latencies) if committer else []
        tally = committer.tally if committer else None
        return {
            "version": version("reticent"),
            "store": self.store.url,
            "uptime_seconds": time.monotonic() - self._started_at,
            "requests": ingest.requests if ingest else 0,
            "accepted": tally.accepted if tally else 0,
            "duplicate": tally.duplicate if tally else 0,
            "rejected": dict(ingest.refused) if ingest else {},
            "late": ingest.refused["late"] if ingest else 0,
            "commits": tally.commits if tally else 0,
            "failed_commits": tally.failed_commits if tally else 0,
            "commit_p50_ms": _quantile(latencies, 0.5) * 1000,
            "commit_p99_ms": _quantile(latencies, 0.99) * 1000,
            "queue": committer.waiting if committer else 0,
            "open_reports": self.store.open_reports,
            "memory_bytes": self.store.nbytes,
            "sealed": self._sealer.sealed if self._sealer else 0,
            "rate": self.access.rate,
            "keys": ingest.traffic.table(self.access.all_keys) if ingest else [],
        }


def _quantile(ordered: list[float], level: float) -> float:
    return ordered[min(len(ordered) - 1, int(level * len(ordered)))] if ordered else 0.0
