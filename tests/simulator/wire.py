"""A connection without a socket: bytes handed from one end to the other."""

from __future__ import annotations

from collections.abc import Callable
from http.client import HTTPConnection
from io import BytesIO

from reticent.device import HttpTransport


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
