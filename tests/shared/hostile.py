"""A server that says anything, and what a folder looks like."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Talk = Callable[[socket.socket], None]


@contextmanager
def listening(talk: Talk) -> Iterator[int]:
    """
    A server on this machine that does the same with every connection; the port it is on.

    It closes when the client has: to close with a part of the request unread would reset the connection, and the
    client might lose the answer.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    talk(connection)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65_536):
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def picture(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every file of a folder: its kind and mode, when it changed, and its content."""
    seen = {}
    for file in sorted(folder.rglob("*")):
        status = file.lstat()
        content = file.read_bytes() if file.is_file() else b""
        seen[file.name] = (status.st_mode, status.st_mtime_ns, status.st_ino, content)
    return seen
