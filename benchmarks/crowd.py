"""
Many clients that want nothing, some that are slow and some that never shake hands, beside honest ones: what do
the honest ones notice?

The collector speaks TLS, and so do all but the last. The crowd is a process of its own (`python -m benchmarks.crowd
PORT IDLE SLOW STRANGERS`): it connects, says "ready", and stays until it is ended. A client that is cut off
comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from benchmarks.load import collector, singles

LEAST_RATIO = 0.9
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
AT_ONCE = 50
"""Connections that the crowd makes at a time: it is to stand there, not to arrive."""


class Crowd:
    """Idle and slow clients of a port, and some that never shake hands."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.connected = 0
        self._door = asyncio.Semaphore(AT_ONCE)
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    async def stay(self, idle: int, slow: int, strangers: int) -> None:
        """All of them, until the process is ended."""
        ways: list[tuple[int, list[Any]]] = [
            (idle, [self._silent, self._satisfied]),
            (slow, [self._slow_head, self._slow_body, self._slow_reader]),
            (strangers, [None]),
        ]
        clients = [kinds[place % len(kinds)] for count, kinds in ways for place in range(count)]
        tasks = [asyncio.create_task(self._come_back(client)) for client in clients]
        while self.connected < len(clients):
            await asyncio.sleep(0.05)
        print("ready", flush=True)
        await asyncio.gather(*tasks)

    async def _come_back(self, client: Any) -> None:
        first = True
        while True:
            with contextlib.suppress(OSError), socket.socket() as connection:
                connection.setblocking(False)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                async with self._door:
                    loop = asyncio.get_running_loop()
                    await loop.sock_connect(connection, ("127.0.0.1", self._port))
                    if client is not None:
                        reader, writer = await asyncio.open_connection(
                            sock=connection, ssl=self._tls, server_hostname="", limit=4096
                        )
                self.connected += first
                first = False
                if client is None:
                    while await loop.sock_recv(connection, 4096):
                        pass
                else:
                    try:
                        await client(reader, writer)
                    finally:
                        writer.transport.abort()
            await asyncio.sleep(STEP_SECONDS)

    async def _silent(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Says nothing, ever."""
        while await reader.read(4096):
            pass

    async def _satisfied(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Had an answer once, and keeps the connection."""
        writer.write(_GET % b"healthz")
        await self._silent(reader, writer)

    async def _slow_head(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._drip(writer, _HEAD)

    async def _slow_body(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_HEAD)
        await self._drip(writer, b" " * 150)

    async def _drip(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        for place in range(len(data)):
            writer.write(data[place : place + 1])
            await writer.drain()
            await asyncio.sleep(STEP_SECONDS)

    async def _slow_reader(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((_GET % b"openapi.json") * _PAGES)
        while await reader.read(1):
            await asyncio.sleep(STEP_SECONDS)


@contextmanager
def standing(port: int, *counts: int) -> Iterator[None]:
    """A crowd, in a process of its own, while the block runs."""
    command = [sys.executable, "-m", "benchmarks.crowd", *map(str, (port, *counts))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.wait()


def certificate(folder: str) -> tuple[str, str]:
    """A certificate for this machine and its key, on the curve that most servers use."""
    paths = f"{folder}/cert.pem", f"{folder}/key.pem"
    subprocess.run(  # noqa: S603
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",  # noqa: S607
         "-days", "2", "-subj", "/CN=localhost", "-out", paths[0], "-keyout", paths[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return paths


def measure(url: str, idle: int, slow: int, strangers: int, pairs: int, seconds: float) -> dict[str, Any]:
    """Honest reports a second with and without the crowd, turn by turn."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="reticent-crowd-") as folder:
        cert, key = certificate(folder)
        with collector(url, "--tls-cert", cert, "--tls-key", key) as process:
            singles([process.port], 64, 2, "https")

            def honest() -> tuple[float, float]:
                """Reports a second, and microseconds of the collector's processor for each."""
                before = process.cpu_seconds
                rate = singles([process.port], 64, seconds, "https")
                return rate, (process.cpu_seconds - before) / (rate * seconds) * 1e6

            for turn in range(pairs):
                rates, costs = {}, {}
                for crowded in (turn % 2 == 0, turn % 2 == 1):
                    if crowded:
                        with standing(process.port, idle, slow, strangers):
                            time.sleep(SETTLE_SECONDS)
                            memory = process.memory
                            rates["with"], costs["with"] = honest()
                        time.sleep(1)
                    else:
                        rates["without"], costs["without"] = honest()
                ratio = rates["with"] / rates["without"]
                rows.append({**rates, "ratio": ratio, "processor_us": costs, "memory_mib": memory / 2**20})
                print(
                    f"with {rates['with']:,.0f}/s, without {rates['without']:,.0f}/s: {ratio:.3f}; processor time "
                    f"of a report {costs['with']:.0f} and {costs['without']:.0f} µs",
                    flush=True,
                )
    ratios = sorted(row["ratio"] for row in rows)
    return {
        "idle": idle,
        "slow": slow,
        "strangers": strangers,
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
        f"{figures['idle']:,} idle, {figures['slow']} slow and {figures['strangers']} handshake-less clients: "
        f"ratio {figures['ratio']:.3f} (median of {len(figures['pairs'])}, {low:.3f} to {high:.3f})"
    )


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    numbers = [int(text) for text in sys.argv[1:]]
    uvloop.run(Crowd(numbers[0]).stay(*numbers[1:]))
