"""
`reticent` in processes of their own, forked from one that has loaded it: a start takes 0.1 s instead of 0.9.

What has been loaded starts no thread, as in the supervisor of `reticent serve --workers`.
"""

from __future__ import annotations

import atexit
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from importlib import import_module

LOADED = ("reticent_collector.http", "reticent_collector.dashboard", "reticent_collector.stores")


class Forked:
    """What `subprocess.Popen` is for a child, of a process that the parent of all made."""

    _parent: tuple[subprocess.Popen[bytes], socket.socket] | None = None
    _lock = threading.Lock()

    def __init__(self, arguments: list[str], env: Mapping[str, str], log: int, seal_seconds: float) -> None:
        """`reticent serve` looks for rounds to seal so often."""
        question = {
            "arguments": arguments,
            "env": dict(env),
            "folder": os.getcwd(),
            "seal_seconds": seal_seconds,
        }
        self.pid = self._ask(question, log)
        self._file = os.pidfd_open(self.pid)
        weakref.finalize(self, os.close, self._file)
        self._waiting = threading.Lock()
        self.returncode: int | None = None

    @classmethod
    def _ask(cls, question: dict[str, object], *files: int) -> int:
        with cls._lock:
            if cls._parent is None or cls._parent[0].poll() is not None:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    number = theirs.fileno()
                    command = [sys.executable, __file__, str(number)]
                    quiet = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
                    cls._parent = subprocess.Popen(command, pass_fds=[number], env=quiet), ours
                atexit.register(cls._end)
            socket.send_fds(cls._parent[1], [json.dumps(question).encode()], files)
            return int(cls._parent[1].recv(100))

    @classmethod
    def _end(cls) -> None:
        assert cls._parent is not None
        cls._parent[1].close()
        cls._parent[0].wait()

    def wait(self, timeout: float | None = None) -> int:
        if not select.select([self._file], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("reticent", timeout or 0.0)
        with self._waiting:  # its parent can be asked only once
            if self.returncode is None:
                self.returncode = self._ask({"wait": self.pid})
            return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._file, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def fork_on_demand(questions: socket.socket) -> None:
    """Fork and wait as asked, until nobody can ask any more; returns in each child, with its arguments set."""
    while True:
        message, files, _, _ = socket.recv_fds(questions, 1 << 20, 1)
        if not message:
            os._exit(0)
        question = json.loads(message)
        if "wait" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                break
            os.close(files[0])
        questions.send(str(answer).encode())
    questions.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate([os.open(os.devnull, os.O_RDONLY), files[0], files[0]]):
        os.dup2(file, number)
    os.closerange(3, max(files[0], file) + 2)
    os.chdir(question["folder"])
    os.environ.clear()
    os.environ.update(question["env"])
    sys.argv = ["reticent", *question["arguments"]]
    sys.modules["reticent_collector.cli.serve"].__dict__["SEAL_SECONDS"] = question["seal_seconds"]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of whoever interrupts the tests, or a group of processes
    for name in LOADED:
        for module in pkgutil.iter_modules(import_module(name).__path__, f"{name}."):
            import_module(module.name)
    for verb in ("relay", "root", "serve"):
        import_module(f"reticent_collector.cli.{verb}")
    assert os.listdir("/proc/self/task") == [str(os.getpid())], "a thread is not forked"
    fork_on_demand(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(import_module("reticent.cli").main())
