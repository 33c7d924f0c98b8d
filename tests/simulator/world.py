"""
Real parts in one process: devices on state files, a collector on a store, and between them a wire that lies.

Nothing of tacit is replaced. What is simulated is what lies outside of it: clocks (`ManualClock`), the chance
that the operating system offers (seeded), the socket (bytes handed from one end to the other), the death of
a process (its files as they are at that moment, opened anew elsewhere), a power cut (its files as of the last
sync) and a full disk.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from uvicorn.server import ServerState

from tacit.collector.app import Collector
from tacit.collector.protocol import CollectorProtocol
from tacit.collector.sealing import seal_due
from tacit.collector.serving import make_server
from tacit.device import Device, opening, state
from tacit.device.transport import HttpTransport
from tacit.errors import StateError, StoreError
from tacit.plan import Plan
from tacit.stores import Appended, RoundKey
from tacit.stores.sqlite import SqliteStore
from tacit.stores.transactions import Transaction
from tacit.testing import ManualClock

HOUR = 3600
LARGEST = 10**12
VALUES = tuple(918_273_645_001 + 7_654_321_987 * place for place in range(10))
"""What devices measure: numbers so long that none is found anywhere by chance."""

PLAN = """
[plan]
name = "app-usage"
version = {version}
round = "1h"
grace = "2h"
owner = "telemetry@example.org"

[metrics.bytes_written]
kind = "mean"
max_value = {largest}
step = {step}
epsilon = {version}.0
flip = 0.2

[metrics.bytes_read]
kind = "histogram"
max_value = {largest}
buckets = 8
mechanism = "d-bit-flip"
bits = 7
epsilon = 1.0
flip = 0.1

[segments]
os = ["linux", "macos"]
"""
PLANS = tuple(
    Plan.from_toml(PLAN.format(version=version, largest=LARGEST, step=LARGEST // 10)) for version in (1, 2, 3)
)
METRICS = tuple(PLANS[0].by_name)
START = 450_000 * HOUR
"""The beginning of round 450,000."""

Files = tuple[bytes, bytes]
"""A database and its log."""


def files_of(path: Path) -> Files:
    """What a process that dies now leaves behind."""
    log = path.with_name(path.name + "-wal")
    return path.read_bytes(), log.read_bytes() if log.exists() else b""


def put_files(path: Path, files: Files) -> None:
    """The same, at another place."""
    path.write_bytes(files[0])
    path.chmod(0o600)
    if files[1]:
        path.with_name(path.name + "-wal").write_bytes(files[1])


# The wire


class _Socket:
    """The device's end of a connection: what is written goes to the wire, what the wire says is read."""

    def __init__(self, carry: Callable[[bytes], bytes]) -> None:
        self._carry = carry
        self._said = b""

    def sendall(self, data: bytes) -> None:
        self._said += data

    def makefile(self, _: str) -> BytesIO:
        return BytesIO(self._carry(self._said))

    def close(self) -> None:
        pass


class _Connection(HTTPConnection):
    def __init__(self, carry: Callable[[bytes], bytes]) -> None:
        super().__init__("127.0.0.1")
        self._carry = carry

    def connect(self) -> None:
        self.sock = _Socket(self._carry)


class Wire(HttpTransport):
    """The device's own transport, HTTP and all, without a socket; `carry` answers, or raises `OSError`."""

    def __init__(self, carry: Callable[[bytes], bytes]) -> None:
        super().__init__("http://127.0.0.1:9")
        self._carry = carry

    def _connect(self, timeout: float) -> HTTPConnection:
        return _Connection(self._carry)


# A device


class Phone:
    """A device and the file it lives on; `carry` takes its requests."""

    here: dict[str, Phone]
    """By the path of the state file: whose it is."""

    def __init__(self, folder: Path, name: str, carry: Callable[[Phone, bytes], bytes]) -> None:
        self.name = name
        self.clock = ManualClock(float(START))
        self.version = 1
        self.full = ""
        """Where a full disk stops a transaction: at its first "write" or at its "commit"; or nowhere."""
        self.synced: Files = (b"", b"")
        self.backup: bytes = b""
        self.answered_then: frozenset[int] = frozenset()
        """Rounds with a report in the backup."""
        self._carry = carry
        self._folder = folder
        self._lives = 0
        self.device: Device | None = None
        self.path = folder / f"{name}-0"
        self.start()

    def start(self) -> None:
        """The program starts; with a full disk it may fail to, and is started again later."""
        Phone.here[str(self.path)] = self
        life = self._lives
        wire = Wire(lambda request: self._send(life, request))
        plan = PLANS[self.version - 1]
        with suppress(StateError):
            self.device = Device(plan, self.path, segment={"os": "linux"}, clock=self.clock, transport=wire)

    def _send(self, life: int, request: bytes) -> bytes:
        if life != self._lives:
            raise ConnectionError("sent by a process that is dead")
        return self._carry(self, request)

    def stop(self) -> None:
        """An orderly end."""
        device, self.device = self.device, None
        if device is not None:
            device.close()

    def upgrade(self, version: int) -> None:
        """The program is updated, and brings a new plan."""
        self.stop()
        self.version = version
        self.start()

    def die(self, files: Files | None = None) -> None:
        """The process is killed, now or when `files` were all there was; another one starts."""
        files = files or files_of(self.path)
        zombie, old = self.device, self.path
        self.device = None
        self._lives += 1
        self.path = self._folder / f"{self.name}-{self._lives}"
        put_files(self.path, files)
        self.synced = files
        if zombie is not None:
            zombie.close()
        self._throw_away(old)
        self.start()

    def back_up(self) -> None:
        """A copy of the file, as a backup program makes it that knows SQLite."""
        with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(":memory:")) as copy:
            source.backup(copy)
            self.backup = copy.serialize()
            self.answered_then = frozenset(number for (number,) in copy.execute("SELECT round FROM reports"))

    def restore(self, how: str) -> None:
        """
        The backup takes the place of the file: of a "stopped" program, under a "running" one, or of one that
        was "killed" and whose log is still beside it, which belongs to another file.
        """
        if how == "running" and self.device is not None:
            fresh = self._folder / "restored"
            put_files(fresh, (self.backup, b""))
            fresh.replace(self.path)
            self.synced = self.backup, b""
        else:
            self.die((self.backup, files_of(self.path)[1] if how == "killed" else b""))

    def secret(self) -> bytes:
        """What nobody else may ever see."""
        with closing(sqlite3.connect(self.path)) as connection:
            [(secret,)] = connection.execute("SELECT secret FROM device")
            return bytes(secret)

    def _throw_away(self, path: Path) -> None:
        Phone.here.pop(str(path), None)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


class _Disk:
    """A connection to a state file: it keeps the files as of the last sync, and its disk can be full."""

    def __init__(self, connection: sqlite3.Connection, phone: Phone, path: Path) -> None:
        self._connection = connection
        self._phone = phone
        self._path = path
        self._durable = False
        self._file = b""
        self._sync()

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        word = sql.split(maxsplit=1)[0]
        changes = word in ("INSERT", "UPDATE", "DELETE")
        if self._phone.full == ("write" if changes else word.lower()):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        cursor = self._connection.execute(sql, *parameters)
        if sql.startswith("PRAGMA synchronous"):
            self._durable = sql.endswith("FULL")
        elif word == "COMMIT" and (self._durable or self._path.read_bytes() != self._file):
            self._sync()
        elif sql.startswith("PRAGMA wal_checkpoint"):
            rows = cursor.fetchall()
            self._sync()
            return self._connection.execute("VALUES (?, ?, ?)", rows[0])
        return cursor

    def _sync(self) -> None:
        if self._path == self._phone.path and self._path.exists():
            self._phone.synced = files_of(self._path)
            self._file = self._phone.synced[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@contextmanager
def watched_disks() -> Iterator[None]:
    """Within, every connection to a phone's state file is watched."""
    plain = opening.connect

    def connect(path: Path, patience: float) -> Any:
        connection, phone = plain(path, patience), Phone.here.get(str(path))
        return connection if phone is None else _Disk(connection, phone, path)

    Phone.here = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "connect", connect)
        patch.setattr(state, "connect", connect)
        yield


# The collector


class WatchedStore(SqliteStore):
    """The embedded store, with places where a test may step in."""

    def __init__(self, path: str, sealing: Callable[[RoundKey], None]) -> None:
        super().__init__(path)
        self._sealing = sealing
        self.before: Callable[[RoundKey], None] = _nothing
        self.after: Callable[[RoundKey], None] = _nothing
        self.between: Callable[[RoundKey], None] = _nothing
        self.answer_lost = False
        """Whether the next commit succeeds and seems to fail."""

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        [key] = records
        self.before(key)
        done = super().append(records)
        self.after(key)
        return done

    def seal(self, key: RoundKey) -> bool:
        self._sealing(key)
        return super().seal(key)

    def _finish(self, key: RoundKey, number: int) -> bool:
        self.between(key)
        return super()._finish(key, number)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
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

    def close(self) -> None:
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
        """Start it, as `tacit serve` does."""
        self._starts += 1
        self._outside: sqlite3.Connection | None = None
        self.store = WatchedStore(str(self.path), self._sealing)
        self.app = Collector(PLANS[: self.versions], self.store, clock=self.clock, seal_every=1e9)
        self._config = make_server(self.app, "127.0.0.1", 0, self.app.limits).config
        self._config.load()
        self._messages: asyncio.Queue[Any] = asyncio.Queue()
        self._started: asyncio.Queue[Any] = asyncio.Queue()
        self._life = self._loop.create_task(self._run())
        said = self._loop.run_until_complete(self._started.get())
        assert said["type"] == "lifespan.startup.complete", said
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
        said = self._loop.run_until_complete(self._answer(request))
        self.store.before = self.store.after = _nothing
        self.store.answer_lost = False
        if self._dead is None:
            return said
        self.die(self._dead)
        return None

    async def _answer(self, request: bytes) -> bytes:
        answered: asyncio.Future[bytes] = self._loop.create_future()
        connection = CollectorProtocol(self._config, ServerState(), {}, self._loop)
        connection.connection_made(_Pipe(answered))
        connection.data_received(request)
        said = await answered
        connection.connection_lost(None)
        return said

    def dies(self, _: RoundKey) -> None:
        """Die here: what is on the disk now is what the next life finds. For `before`, `after`, `between`."""
        self._dead = files_of(self.path)

    def seal_due(self, *, dying: bool = False) -> None:
        """Seal what is due, as the thread of the collector does; perhaps dying while a round is closing."""
        self._dead = None
        self.store.between = self.dies if dying else _nothing
        with suppress(StoreError):
            seal_due(self.store, self.clock())
        self.store.between = _nothing
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


@contextmanager
def seeded_chance(seed: int) -> Iterator[None]:
    """Within, the operating system draws secrets and jitter from a seed: a sequence can be run again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", Random(seed).randbytes)
        yield
