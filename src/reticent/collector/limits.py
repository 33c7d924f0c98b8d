"""What a client may take of a collector: sizes, times and numbers in one place, and what counts against them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from reticent.collector.problems import ProblemError

if TYPE_CHECKING:
    from reticent.collector.protocol import CollectorProtocol

LARGE = 1 << 20
"""Bytes of a body whose memory is given back."""
_trim: Callable[[], object] = partial(getattr(ctypes.CDLL(None), "malloc_trim", lambda size: None), 0)
"""Of the GNU C library; others give back by themselves."""


class Limits(msgspec.Struct, frozen=True):
    """The limits of one server process. Sizes are bytes, times are seconds."""

    # One request
    head: int = 32 << 10
    """Of the request line and headers."""
    body: int = 16 << 20
    batch: int = 200_000
    """Reports of one body."""
    seconds: float = 20.0
    """From the first byte of a request to its last."""

    # One connection
    handshake_seconds: float = 10.0
    """For TLS; `seconds` where that is less."""
    idle_seconds: float = 75.0
    """Between an answer and the next request."""
    pipelined: int = 32
    """Requests that may wait behind one that is not answered yet; the connection ends after them."""
    unread: int = 1 << 16
    """Of a body that the application has not taken yet; no more is read then."""
    reading_rate: int = 1 << 10
    """Bytes a second of an answer that a client has to take at least."""
    linger_seconds: float = 2.0
    """How long a connection stays open for reading after the last answer, so that the answer is not lost."""

    # All connections of the process
    connections: int = 10_000
    """Fewer where the system allows fewer open files."""
    in_flight: int = 64 << 20
    """Of all bodies that are in memory at a time; room for two of the largest at least."""

    # The end
    arriving_seconds: float = 0.5
    """How long a server that stops waits for requests that have arrived in part."""
    answer_seconds: float = 30.0
    """How long it waits for commits, to answer the reports in them."""

    @property
    def held(self) -> int:
        """Bytes of all bodies that may be in memory at a time."""
        return max(self.in_flight, 2 * self.body)

    def too_large(self) -> ProblemError:
        """The problem of a body that is."""
        return ProblemError(413, "too_large", f"A body has at most {self.body:,} bytes.")


class Connections:
    """What the connections of a server share: the application, the limits, and the bodies that arrive."""

    def __init__(self, app: Any, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self.all: set[CollectorProtocol] = set()
        """From the moment on that they are accepted, before a TLS handshake."""
        self.held = 0
        """Bytes of bodies in memory."""
        self.is_draining = False
        self._has_let_go = False
        """Whether a large body was let go of, and its memory not given back yet."""

    def hold(self, size: int) -> None:
        """Count bytes of a body; when there are too many in the process, the largest body is refused."""
        self.held += size
        while self.held > self.limits.held:
            max(self.all, key=lambda connection: connection.held).shed()

    def let_go(self, size: int) -> None:
        """So many bytes of a body are not needed any more."""
        self.held -= size
        if size > LARGE:
            self._has_let_go = True

    def give_back(self) -> None:
        """
        Give the memory of large bodies back to the system, when there are none; once a second.

        The C library keeps what is freed for the next one, and after a crowd that may be all there is.
        """
        if self._has_let_go and not self.held:
            self._has_let_go = False
            _trim()


class Pace:
    """How fast a client takes its answers."""

    __slots__ = ("_limits", "_since")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._since: tuple[float, int] | None = None
        """When it last took its share, and the bytes that waited for it then."""

    def restart(self) -> None:
        """It took all that waited, or most of it."""
        self._since = None

    def is_too_slow(self, waiting: int, now: float) -> bool:
        """Whether bytes wait for so long, and the client took fewer of them than it has to."""
        seconds = self._limits.seconds
        if not waiting:
            self._since = None
        elif self._since is None:
            self._since = now, waiting
        elif now - self._since[0] > seconds:
            if waiting > self._since[1] - self._limits.reading_rate * seconds:
                return True
            self._since = now, waiting
        return False
