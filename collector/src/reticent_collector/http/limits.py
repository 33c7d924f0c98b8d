"""The limits of a collector, all in one place, and what counts against them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from reticent_collector.http.problems import ProblemError

if TYPE_CHECKING:
    from reticent_collector.http.protocol import CollectorProtocol

LARGE = 1 << 20  # bytes of a body whose memory is given back
_trim: Callable[[], object] = partial(getattr(ctypes.CDLL(None), "malloc_trim", lambda size: None), 0)


class Limits(msgspec.Struct, frozen=True):
    """The limits of one server process. Sizes are bytes, times are seconds."""

    # One request
    head: int = 32 << 10  # request line and headers
    body: int = 16 << 20
    batch: int = 200_000  # reports of one body
    seconds: float = 20.0  # from the first byte of a request to its last

    # One connection
    handshake_seconds: float = 10.0  # of TLS; `seconds` where that is less
    idle_seconds: float = 75.0  # between a response and the next request
    pipelined: int = 32  # requests waiting behind an unanswered one; the connection ends after them
    unread: int = 1 << 16  # of a body that the application has not taken; reading pauses then
    reading_rate: int = 1 << 10  # bytes a second of a response that a client has to read at least
    linger_seconds: float = 2.0  # for reading after the last response, so that it is not lost

    # All connections of the process
    connections: int = 10_000  # fewer where the system allows fewer open files
    in_flight: int = 64 << 20  # of all bodies in memory at once; room for two of the largest at least

    # The end
    arriving_seconds: float = 0.5  # for which a stopping server waits for partial requests
    answer_seconds: float = 30.0  # for which it waits for commits, to answer their reports

    @property
    def held(self) -> int:
        """Bytes of all bodies that may be in memory at once."""
        return max(self.in_flight, 2 * self.body)

    def too_large(self) -> ProblemError:
        """The problem of a body above the limit."""
        return ProblemError(413, "too_large", f"A body has at most {self.body:,} bytes.")


class Connections:
    """What the connections of a server share: the application, the limits, and the bodies in memory."""

    def __init__(self, app: Any, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self.all: set[CollectorProtocol] = set()  # from accept on, before any TLS handshake
        self.held = 0  # bytes of bodies in memory
        self.is_draining = False
        self._has_let_go = False  # whether the memory of a large body is still to be given back

    def hold(self, size: int) -> None:
        """Count bytes of a body; above the limit of the process, the largest body is refused."""
        self.held += size
        while self.held > self.limits.held:
            max(self.all, key=lambda connection: connection.held).shed()

    def let_go(self, size: int) -> None:
        """Bytes of a body are no longer needed."""
        self.held -= size
        if size > LARGE:
            self._has_let_go = True

    def give_back(self) -> None:
        """Return the memory of large bodies to the system, every second; the C library would keep it."""
        if self._has_let_go and not self.held:
            self._has_let_go = False
            _trim()
