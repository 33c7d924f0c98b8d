"""
Why a server of our own: durable single reports a second by the same log behind four servers, in one run.

    python -m benchmarks servers

The log is that of `benchmarks.bare`: a report is decoded, appended by a thread that commits whole groups, and
acknowledged when it is on disk. It stands behind a bare protocol (`benchmarks.bare`) and, as the least ASGI application
that takes reports, behind uvicorn (uvloop, httptools) and granian; beside them is the real collector, with all its
checks. One process each, turn by turn; the best of several runs. Granian is measured where it is installed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
import threading
import time
from binascii import a2b_base64
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import load
from benchmarks.bare import Group, decode

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

TYPE = [(b"content-type", b"application/json"), (b"content-length", b"14")]
FILE = "RETICENT_BENCH_FILE"
MEASURED = "bare protocol"


class Acknowledged:
    """One request that waits for its commit; it is told as a connection of the bare protocol is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.done = loop.create_future()
        self.transport = self

    def write(self, answer: bytes) -> None:
        """The commit is done."""
        if not self.done.done():
            self.done.set_result(None)


class Application:
    """The least ASGI application that takes reports."""

    def __init__(self) -> None:
        self._group: Group | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one report; whatever else is asked for is refused."""
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        loop = asyncio.get_running_loop()
        if self._group is None:
            self._group = Group(loop, os.environ[FILE])
        body, more = b"", True
        while more:
            part = await receive()
            body += part.get("body", b"")
            more = part.get("more_body", False)
        try:
            report = decode(body)
            name, bits = (
                a2b_base64(text.replace("-", "+").replace("_", "/") + "===")
                for text in (report.id, report.bits)
            )
        except ValueError:
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        waiting: Any = Acknowledged(loop)
        self._group.put(waiting, name, name + bytes([report.cohort]) + bits)
        await waiting.done
        await send({"type": "http.response.start", "status": 202, "headers": TYPE})
        await send({"type": "http.response.body", "body": b'{"accepted":1}'})


application = Application()


def serve(server: str, path: str) -> None:
    """Run the application in this process, or below it, on a free port."""
    os.environ[FILE] = path
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    threading.Thread(target=_announce, args=(port,), daemon=True).start()
    if server == "uvicorn":
        import uvicorn

        uvicorn.run(
            application, port=port, loop="uvloop", http="httptools", lifespan="off", access_log=False,
            log_level="critical", backlog=4096,
        )  # fmt: skip
    else:
        granian: Any = import_module("granian")  # no dependency of anything here
        granian.Granian(
            "benchmarks.servers:application", port=port, interface="asginl", loop="uvloop", log_enabled=False
        ).serve()


def _announce(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    print(f"Listening on http://127.0.0.1:{port}", file=sys.stderr, flush=True)


def main() -> None:
    """Every server, turn by turn."""
    parser = load.arguments(__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        servers = {MEASURED: running.enter_context(load.bare(f"{folder}/bare.db"))}
        for server in ("granian", "uvicorn"):
            try:
                name = f"the same log behind {server} {version(server)}"
            except PackageNotFoundError:
                print(f"{server} is not installed, so it is not measured.")
                continue
            command = [sys.executable, "-m", "benchmarks.servers", server, f"{folder}/{server}.db"]
            servers[name] = running.enter_context(load.Process(*command))
        servers["the collector"] = running.enter_context(load.collector(f"sqlite:///{folder}/real.db"))
        print(f"{'durable single reports a second':<40} {'best':>8} {'ratio':>6}   all runs")
        for connections in (64, 256):
            rates: dict[str, list[float]] = {name: [] for name in servers}
            for _ in range(options.runs):
                for name, process in servers.items():
                    rates[name].append(load.singles([process.port], connections, options.seconds))
            print(f"{connections} connections")
            for name, runs in rates.items():
                ratio = max(runs) / max(rates[MEASURED])
                listed = ", ".join(f"{rate:,.0f}" for rate in sorted(runs))
                print(f"  {name:<38} {max(runs):>8,.0f} {ratio:>6.2f}   {listed}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] in (["uvicorn"], ["granian"]):
        serve(sys.argv[1], Path(sys.argv[2]).absolute().as_posix())
    else:
        main()
