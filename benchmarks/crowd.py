"""
Many clients that want nothing, and some that are slow, beside honest ones: what do the honest ones notice?

The crowd is a process of its own (`python -m benchmarks.crowd PORT IDLE SLOW`): it connects, says "ready",
and stays until it is ended. Whoever is cut off comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from benchmarks.load import collector, singles

LEAST_RATIO = 0.8
STEP_SECONDS = 1.0
"""Between two bytes of a slow client."""
_GET = b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_HEAD = (
    b"POST /v1/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 150\r\n\r\n"
)
_PAGES = 4
"""Pages that a slow reader asks for at once: more than its connection holds."""
SETTLE_SECONDS = 3.0
"""Between the last connection of a crowd and a measurement: its first requests are answered by then."""


class Crowd:
    """Idle and slow clients of a port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.connected = 0

    async def stay(self, idle: int, slow: int) -> None:
        """All of them, until the process is ended."""
        ways = [self._silent, self._satisfied], [self._slow_head, self._slow_body, self._slow_reader]
        clients = [ways[0][place % 2] for place in range(idle)]
        clients += [ways[1][place % 3] for place in range(slow)]
        tasks = [asyncio.create_task(self._come_back(client)) for client in clients]
        while self.connected < len(clients):
            await asyncio.sleep(0.05)
        print("ready", flush=True)
        await asyncio.gather(*tasks)

    async def _come_back(self, client: Any) -> None:
        loop, first = asyncio.get_running_loop(), True
        while True:
            with contextlib.suppress(OSError), socket.socket() as connection:
                connection.setblocking(False)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                await loop.sock_connect(connection, ("127.0.0.1", self._port))
                self.connected += first
                first = False
                await client(loop, connection)
            await asyncio.sleep(STEP_SECONDS)

    async def _silent(self, loop: Any, connection: socket.socket) -> None:
        """Says nothing, ever."""
        while await loop.sock_recv(connection, 4096):
            pass

    async def _satisfied(self, loop: Any, connection: socket.socket) -> None:
        """Had an answer once, and keeps the connection."""
        await loop.sock_sendall(connection, _GET % b"healthz")
        await self._silent(loop, connection)

    async def _slow_head(self, loop: Any, connection: socket.socket) -> None:
        await self._drip(loop, connection, _HEAD)

    async def _slow_body(self, loop: Any, connection: socket.socket) -> None:
        await loop.sock_sendall(connection, _HEAD)
        await self._drip(loop, connection, b" " * 150)

    async def _drip(self, loop: Any, connection: socket.socket, data: bytes) -> None:
        for place in range(len(data)):
            await loop.sock_sendall(connection, data[place : place + 1])
            await asyncio.sleep(STEP_SECONDS)

    async def _slow_reader(self, loop: Any, connection: socket.socket) -> None:
        await loop.sock_sendall(connection, (_GET % b"openapi.json") * _PAGES)
        while await loop.sock_recv(connection, 1):
            await asyncio.sleep(STEP_SECONDS)


@contextmanager
def standing(port: int, idle: int, slow: int) -> Iterator[None]:
    """A crowd, in a process of its own, while the block runs."""
    command = [sys.executable, "-m", "benchmarks.crowd", str(port), str(idle), str(slow)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.wait()


def measure(url: str, idle: int, slow: int, pairs: int, seconds: float) -> dict[str, Any]:
    """Honest reports a second with and without the crowd, turn by turn."""
    rows = []
    with collector(url) as process:
        singles([process.port], 64, 2)
        for turn in range(pairs):
            found = {}
            for crowded in (turn % 2 == 0, turn % 2 == 1):
                if crowded:
                    with standing(process.port, idle, slow):
                        time.sleep(SETTLE_SECONDS)
                        memory = process.memory
                        found["with"] = singles([process.port], 64, seconds)
                    time.sleep(1)
                else:
                    found["without"] = singles([process.port], 64, seconds)
            ratio = found["with"] / found["without"]
            rows.append({**found, "ratio": ratio, "memory_mib": memory / 2**20})
            print(f"with {found['with']:,.0f}/s, without {found['without']:,.0f}/s: {ratio:.3f}", flush=True)
    ratios = sorted(row["ratio"] for row in rows)
    return {
        "idle": idle,
        "slow": slow,
        "pairs": rows,
        "ratio": statistics.median(ratios),
        "spread": [ratios[0], ratios[-1]],
        "claims": {
            f"honest clients get at least {LEAST_RATIO} of what they get alone": (
                statistics.median(ratios) >= LEAST_RATIO
            )
        },
    }


def tell(figures: dict[str, Any]) -> None:
    """The figures in a line."""
    low, high = figures["spread"]
    print(
        f"{figures['idle']:,} idle and {figures['slow']} slow clients: ratio {figures['ratio']:.3f} "
        f"(median of {len(figures['pairs'])}, {low:.3f} to {high:.3f})"
    )


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(Crowd(int(sys.argv[1])).stay(int(sys.argv[2]), int(sys.argv[3])))
