from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest


class Wiretap:
    """A collector that accepts everything, on a bare socket: every byte of a request is kept as it came."""

    def __init__(self, refuse: int = 0) -> None:
        self.requests: list[bytes] = []
        self.refuse = refuse
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def take(self) -> list[bytes]:
        """What came since the last time."""
        taken, self.requests = self.requests, []
        return taken

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        heard = b""
        while b"\r\n\r\n" not in heard:
            heard += connection.recv(65_536)
        head, _, body = heard.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        while len(body) < int(fields[b"Content-Length"]):
            body += connection.recv(65_536)
        self.requests.append(head + b"\r\n\r\n" + body)
        refused, self.refuse = self.refuse > 0, self.refuse - 1
        status = b"503 Service Unavailable" if refused else b"202 Accepted"
        connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


@pytest.fixture
def wiretap() -> Iterator[Wiretap]:
    tap = Wiretap()
    yield tap
    tap.close()
