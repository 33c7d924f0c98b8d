"""
The least that a collector in Python can be: a measure for the real one, not a model.

httptools on uvloop, msgspec, a set of ids, and one row of SQLite for each group commit. No keys, limits,
time-outs, or checks against a plan; no lock either, so a report can get lost between two lists.

    python -m benchmarks.bare FILE        # prints the address it listens on
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
import time
from binascii import a2b_base64
from typing import Any

import httptools
import msgspec
import uvloop

ACCEPTED = (
    b'HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{"accepted":1}'
)
REFUSED = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"


class Report(msgspec.Struct, forbid_unknown_fields=True):
    """A report in JSON."""

    plan: str
    version: int
    round: int
    id: str
    bits: str
    cohort: int = 0
    segment: dict[str, str] = {}


decode = msgspec.json.Decoder(Report).decode


class Group:
    """One thread that commits what has come since its last commit."""

    def __init__(self, loop: asyncio.AbstractEventLoop, path: str) -> None:
        self._loop = loop
        self._path = path
        self._ids: set[bytes] = set()
        self._waiting: list[Connection] = []
        self._records: list[bytes] = []
        self._wake = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, connection: Connection, name: bytes, record: bytes) -> None:
        """Queue a record, once."""
        if name not in self._ids:
            self._ids.add(name)
            self._records.append(record)
        self._waiting.append(connection)  # after its record: the commit takes the records of all that wait
        if len(self._waiting) == 1:
            with self._wake:
                self._wake.notify()

    def _run(self) -> None:
        database = sqlite3.connect(self._path, isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE records (number INTEGER PRIMARY KEY, data BLOB)")
        while True:
            with self._wake:
                while not self._waiting:
                    self._wake.wait(0.1)
            begin = time.perf_counter()
            waiting, self._waiting = self._waiting, []
            records, self._records = self._records, []
            database.execute("INSERT INTO records (data) VALUES (?)", (b"".join(records),))
            self._loop.call_soon_threadsafe(self._answer, waiting)
            if len(waiting) >= 128:  # what this measure was found to be fastest with
                time.sleep(max(0.0, begin + 0.003 - time.perf_counter()))

    def _answer(self, waiting: list[Connection]) -> None:
        for connection in waiting:
            if connection.transport is not None:
                connection.transport.write(ACCEPTED)


class Connection(asyncio.Protocol):
    """One connection, whose every request is taken for a report."""

    __slots__ = ("_body", "_group", "_parser", "transport")

    def __init__(self, group: Group) -> None:
        self._group = group
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """A client has connected."""
        self.transport = transport
        self._parser = httptools.HttpRequestParser(self)

    def connection_lost(self, error: Exception | None) -> None:
        """It has gone."""
        self.transport = None

    def data_received(self, data: bytes) -> None:
        """Bytes came in."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._body = b""

    def on_body(self, body: bytes) -> None:
        """A part of its body came."""
        self._body += body

    def on_message_complete(self) -> None:
        """It is whole."""
        try:
            report = decode(self._body)
            name, bits = (
                a2b_base64(text.replace("-", "+").replace("_", "/") + "===")
                for text in (report.id, report.bits)
            )
        except ValueError:
            self.transport.write(REFUSED)
            return
        self._group.put(self, name, name + bytes([report.cohort]) + bits)


async def main() -> None:
    """Listen on a free port, and say which."""
    loop = asyncio.get_running_loop()
    group = Group(loop, sys.argv[1])
    server = await loop.create_server(lambda: Connection(group), "127.0.0.1", 0, backlog=4096)
    host, port = server.sockets[0].getsockname()
    print(f"Listening on http://{host}:{port}", file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
