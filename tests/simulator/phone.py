"""A device that can be killed, cut off from power, restored from a backup, and run out of disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from tests.shared.devices import identity
from tests.simulator.world import PLANS, START, Files, files_of, put_files

from reticent.device import Device, HttpTransport, Outcome, Policy, StateFile
from reticent.device.schema import load
from reticent.testing import ManualClock


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

    hang_up = close


class Wire(HttpTransport):
    """The device's own transport, HTTP and all, without a socket; `carry` answers, or raises `OSError`."""

    def __init__(self, carry: Callable[[bytes], bytes]) -> None:
        super().__init__("http://127.0.0.1:9")
        self._carry = carry

    def send(self, body: bytes, timeout: float) -> Outcome:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("reticent.device.exchange._connect", lambda *_, **__: _Socket(self._carry))
            return super().send(body, timeout)


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
        device = Device(
            plan,
            self.path,
            consent="granted",
            segment={"os": "linux"},
            clock=self.clock,
            transport=wire,
            policy=Policy.unlimited(),
        )
        self.device = None if device.status().problem else device

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
            self.answered_then = frozenset(load(copy).reports)

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
        return identity(self.path).secret

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
    plain = StateFile.connect

    def connect(path: Any, patience: float) -> Any:
        connection, phone = plain(path, patience), Phone.here.get(str(path))
        return connection if phone is None else _Disk(connection, phone, Path(path))

    Phone.here = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StateFile, "connect", staticmethod(connect))
        yield
