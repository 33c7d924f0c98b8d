"""The collector, from its bytes to its file, with places where a test may step in."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.simulator.world import PLANS, START, Files, files_of, put_files

from reticent.errors import StoreError
from reticent.testing import ManualClock
from reticent_collector.http import Collector, seal_due
from reticent_collector.http.limits import ServerContext
from reticent_collector.http.protocol import CollectorProtocol
from reticent_collector.stores import Appended, Count, RoundKey, SqliteBackend, Store


class WatchedBackend(SqliteBackend):
    """The embedded backend, with places where a test may step in."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.between: Callable[[RoundKey], None] = _nothing
        """Called between closing a round and counting it."""
        self.answer_lost = False
        """Whether the next commit succeeds and seems to fail."""

    def count(self, key: RoundKey, *, skip_bad: bool = False) -> Count:
        self.between(key)
        return super().count(key, skip_bad=skip_bad)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        with super().writing() as transaction:
            yield transaction
        if self.answer_lost:
            self.answer_lost = False
            raise StoreError("the disk failed to say that it had written")

    def limit(self, *, full: bool) -> None:
        """Take all room that is left away from the file, or give it back: SQLite's own `SQLITE_FULL`."""
        with self._writer.transaction() as transaction:
            [(pages,)] = transaction.execute("PRAGMA page_count")
            transaction.execute(f"PRAGMA max_page_count = {pages if full else 1 << 30}")


class WatchedStore(Store):
    """The embedded store, with places where a test may step in."""

    def __init__(self, path: str, sealing: Callable[[RoundKey], None]) -> None:
        super().__init__(WatchedBackend(path))
        self._sealing = sealing
        self.before: Callable[[RoundKey], object] = _nothing
        self.after: Callable[[RoundKey], None] = _nothing

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        [key] = records
        self.before(key)
        done = super().append(records)
        self.after(key)
        return done

    def seal(self, key: RoundKey) -> bool:
        self._sealing(key)
        return super().seal(key)


def _nothing(_: RoundKey) -> None:
    pass


class _Pipe(asyncio.Transport):
    """The collector's end of a connection."""

    def __init__(self, answered: asyncio.Future[bytes]) -> None:
        super().__init__()
        self._answered = answered

    def write(self, data: Any) -> None:
        self._answered.set_result(bytes(data))

    def is_closing(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


class Service:
    """The collector and the file it writes to; `sealing` is called before a round is sealed."""

    def __init__(self, folder: Path, sealing: Callable[[RoundKey], None]) -> None:
        self.clock = ManualClock(float(START))
        self.versions = 1
        self._folder = folder
        self._sealing = sealing
        self._lives = self._starts = 0
        self._loop = asyncio.new_event_loop()
        self.path = folder / "store-0"
        self._dead: Files | None = None
        self.start()

    def start(self) -> None:
        """Start it, as `reticent serve` does."""
        self._starts += 1
        self._outside: sqlite3.Connection | None = None
        self.store = WatchedStore(str(self.path), self._sealing)
        self.app = Collector(PLANS[: self.versions], self.store, clock=self.clock, seal_every=1e9)
        self._connections = ServerContext(self.app, self.app.limits)
        self._messages: asyncio.Queue[Any] = asyncio.Queue()
        self._started: asyncio.Queue[Any] = asyncio.Queue()
        self._life = self._loop.create_task(self._run())
        message = self._loop.run_until_complete(self._started.get())
        assert message["type"] == "lifespan.startup.complete", message
        gc.unfreeze()  # thousands of collectors live in this process, one after the other

    async def _run(self) -> None:
        self._messages.put_nowait({"type": "lifespan.startup"})
        await self.app({"type": "lifespan"}, self._messages.get, self._started.put)

    def stop(self) -> None:
        """An orderly end."""
        self._messages.put_nowait({"type": "lifespan.shutdown"})
        if self._outside is not None:
            self._outside.close()
        refreshing = self.app._refreshing
        assert refreshing is not None
        refreshing.cancel()
        self._loop.run_until_complete(asyncio.gather(self._life, refreshing, return_exceptions=True))

    def close(self) -> None:
        """The end of the test."""
        self.stop()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def restart(self, versions: int) -> None:
        """Stop in order, and start with so many versions of the plan."""
        self.stop()
        self.versions = versions
        self.start()

    def die(self, files: Files | None = None) -> None:
        """The process is killed, now or when `files` were all there was; another one starts."""
        files = files or files_of(self.path)
        self.stop()
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self._lives += 1
        self.path = self._folder / f"store-{self._lives}"
        put_files(self.path, files)
        self.start()

    def answer(self, request: bytes) -> bytes | None:
        """What the collector says to a request; None when it died over it, and was started again."""
        self._dead = None
        answer = self._loop.run_until_complete(self._answer(request))
        self.store.before = self.store.after = _nothing
        self.store.backend.answer_lost = False
        if self._dead is None:
            return answer
        self.die(self._dead)
        return None

    async def _answer(self, request: bytes) -> bytes:
        answered: asyncio.Future[bytes] = self._loop.create_future()
        connection = CollectorProtocol(self._connections, self._loop)
        connection.connection_made(_Pipe(answered))
        connection.data_received(request)
        answer = await answered
        connection.connection_lost(None)
        return answer

    def dies(self, _: RoundKey) -> None:
        """Die here: what is on the disk now is what the next life finds. For `before`, `after`, `between`."""
        self._dead = files_of(self.path)

    def seal_due(self, *, dying: bool = False) -> None:
        """Seal what is due, as the thread of the collector does; perhaps dying while a round is closing."""
        self._dead = None
        self.store.backend.between = self.dies if dying else _nothing
        with suppress(StoreError):
            seal_due(self.store, self.clock())
        self.store.backend.between = _nothing
        if self._dead is not None:
            self.die(self._dead)

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Look into the file from outside."""
        if self._outside is None:
            self._outside = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        return self._outside.execute(sql, parameters).fetchall()

    def state(self) -> tuple[int, int]:
        """Changes whenever the file does, and with each life."""
        [(version,)] = self.rows("PRAGMA data_version")
        return self._starts, version
