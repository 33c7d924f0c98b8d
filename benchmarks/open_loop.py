"""
Load that does not wait: requests are due at fixed times, whether or not answers have come.

A client that sends its next request when the last one was answered sends less whenever the server is slow,
and so measures least when there is most to measure. Here the n-th request is due n / rate after the start,
and its latency counts from then, also when it had to wait for a connection.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, deque
from dataclasses import dataclass, field
from time import monotonic, time
from typing import cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.requests import KINDS, Requests, ids

TICK_SECONDS = 0.001
PATIENCE_SECONDS = 30.0
"""How long an answer may take before it is given up, and the connection with it."""


@dataclass(slots=True)
class OneRound:
    """What was sent and acknowledged in a round, by kind of answer."""

    sent: list[int] = field(default_factory=lambda: [0] * KINDS)
    acknowledged: list[int] = field(default_factory=lambda: [0] * KINDS)

    @property
    def unknown(self) -> int:
        """Reports without an answer: they may be counted or not."""
        return sum(self.sent) - sum(self.acknowledged)


class OpenLoop:
    """Offers single reports at a rate for some seconds, over so many connections that are kept."""

    def __init__(self, port: int, requests: Requests, rate: float, seconds: float, connections: int) -> None:
        self.rate, self.total = rate, int(rate * seconds)
        self.latencies: NDArray[np.float32] = np.full(self.total, np.nan, dtype=np.float32)
        """Seconds from when a request was due to its acknowledgement; not a number without one."""
        self.errors: Counter[str] = Counter()
        self.rounds: dict[int, OneRound] = {}
        self.due = self.acknowledged = 0
        self.usual = b""
        """The acknowledgement, byte for byte, once one has come."""
        self._port, self._requests, self._count = port, requests, connections
        self._connections: set[_Connection] = set()
        self._free: deque[_Connection] = deque()
        self._waiting: deque[int] = deque()
        self._ids = ids()
        self._begin = 0.0
        self._number = -1
        self._kinds: list[tuple[bytes, bytes]] = []
        self._round = OneRound()
        self._connecting: set[asyncio.Task[None]] = set()

    @property
    def behind(self) -> int:
        """Requests that are due and wait for a connection."""
        return len(self._waiting)

    async def run(self) -> None:
        """Offer everything; returns when the last answer has come or is given up."""
        self._loop = asyncio.get_running_loop()
        await asyncio.gather(*(self._connect() for _ in range(self._count)))
        self._begin, looked = monotonic(), monotonic()
        while self.due < self.total:
            self._send_due()
            await asyncio.sleep(TICK_SECONDS)
            if monotonic() - looked > 1:
                looked = monotonic()
                self._give_up_on(looked - PATIENCE_SECONDS)
        end = monotonic() + PATIENCE_SECONDS
        while len(self._free) < len(self._connections) and monotonic() < end:
            self._look_at_the_round()  # what waits for a connection is sent in the round under way
            await asyncio.sleep(0.01)
        if self._waiting:
            self.errors["not sent"] = len(self._waiting)
        self._give_up_on(monotonic())
        for connection in list(self._connections):
            connection.leave()

    def _look_at_the_round(self) -> None:
        number = self._requests.plan.round_at(time())
        if number != self._number:
            self._number, self._kinds = number, self._requests.of_round(number)
            self._round = self.rounds.setdefault(number, OneRound())

    def _send_due(self) -> None:
        self._look_at_the_round()
        until = min(self.total, int((monotonic() - self._begin) * self.rate) + 1)
        for place in range(self.due, until):
            if self._free:
                self._send(self._free.popleft(), place)
            else:
                self._waiting.append(place)
        self.due = until

    def _send(self, connection: _Connection, place: int) -> None:
        kind = place % KINDS
        before, after = self._kinds[kind]
        self._round.sent[kind] += 1
        connection.place, connection.round, connection.since = place, self._round, monotonic()
        connection.transport.write(before + next(self._ids) + after)

    def answered(self, connection: _Connection, error: str = "") -> None:
        """An answer has come: note it, and send what waits."""
        place = connection.place
        if error:
            self.errors[error] += 1
        else:
            self.acknowledged += 1
            self.latencies[place] = monotonic() - self._begin - place / self.rate
            connection.round.acknowledged[place % KINDS] += 1
        connection.place = -1
        if self._waiting:
            self._send(connection, self._waiting.popleft())
        else:
            self._free.append(connection)

    def lost(self, connection: _Connection) -> None:
        """A connection has ended, perhaps with a request under way: make another."""
        self._connections.discard(connection)
        if connection.place >= 0:
            self.errors["connection lost"] += 1
        elif connection in self._free:
            self._free.remove(connection)
        if not connection.left:
            task = self._loop.create_task(self._connect())
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self) -> None:
        for _ in range(int(PATIENCE_SECONDS)):
            try:
                _, connection = await self._loop.create_connection(
                    lambda: _Connection(self), "127.0.0.1", self._port
                )
            except OSError:
                self.errors["not connected"] += 1
                await asyncio.sleep(1)
                continue
            self._connections.add(connection)
            self._free.append(connection)
            return

    def _give_up_on(self, since: float) -> None:
        for connection in list(self._connections):
            if connection.place >= 0 and connection.since < since:
                self.errors["no answer"] += 1
                connection.place = -1
                connection.transport.abort()


class _Connection(asyncio.Protocol):
    """One connection with at most one request under way."""

    transport: asyncio.Transport

    def __init__(self, load: OpenLoop) -> None:
        self._load = load
        self._said = b""
        self.place = -1
        self.round = OneRound()
        self.since = 0.0
        self.left = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """An answer, nearly always the usual one and in one piece."""
        if data == self._load.usual and not self._said:
            self._load.answered(self)
            return
        self._said += data
        head, end, body = self._said.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if not end or length is None or len(body) < int(length[1]):
            return
        said, self._said = self._said, b""
        status = head.split(b" ", 2)[1]
        if status == b"202":
            self._load.usual = said
            self._load.answered(self)
        else:
            code = re.search(rb'"code":"(\w+)"', body)
            self._load.answered(self, f"{status.decode()} {code[1].decode() if code else ''}".strip())

    def connection_lost(self, problem: Exception | None) -> None:
        """Ended, by either side."""
        self._load.lost(self)

    def leave(self) -> None:
        """End it for good."""
        self.left = True
        self.transport.close()
