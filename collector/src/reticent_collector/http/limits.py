"""The limits of a collector, all in one place, and what counts against them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from reticent_collector.http.health import ServerFigures
from reticent_collector.http.problems import ProblemError

if TYPE_CHECKING:
    from reticent_collector.http.protocol import CollectorProtocol

LARGE = 1 << 20  # bytes of a body whose memory is given back
_trim: Callable[[], object] = partial(getattr(ctypes.CDLL(None), "malloc_trim", lambda size: None), 0)


class Limits(msgspec.Struct, frozen=True):
    """The limits of one server process. Sizes are bytes, times are seconds."""

    # One request
    head: int = 32 << 10  # request line and headers
    headers: int = 100  # their number
    body: int = 16 << 20  # of reports with a valid key
    small_body: int = 1 << 16  # of reports without one, and of every other request
    batch: int = 200_000  # reports of one body
    seconds: float = 20.0  # from the first byte of a request to its last

    # One connection
    handshake_seconds: float = 10.0  # of TLS; `seconds` where that is less
    idle_seconds: float = 75.0  # between a response and the next request
    answering_seconds: float = 300.0  # from a complete request to its response
    reading_rate: int = 1 << 10  # bytes a second of a response that a client has to read at least
    linger_seconds: float = 2.0  # for reading after the last response, so that it is not lost

    # All connections of the process
    connections: int = 10_000  # fewer where the system allows fewer open files
    in_flight: int = 64 << 20  # of reports until they are answered; room for two of the largest at least
    from_strangers: int = 16 << 20  # of heads, and of bodies without a valid key
    unread: int = 64 << 20  # of responses that clients have not read

    # The end
    arriving_seconds: float = 0.5  # for which a stopping server waits for partial requests
    answer_seconds: float = 30.0  # for which it waits for commits, to answer their reports

    def too_large(self, most: int | None = None) -> ProblemError:
        """The problem of a body above the limit, or above another one."""
        return ProblemError(413, "too_large", f"A body has at most {most or self.body:,} bytes.")


class Budget:
    """
    Bytes of one kind that connections hold, and their limit.

    A quarter more is kept for holders of few bytes: a few large batches do not keep single reports out.
    """

    __slots__ = ("few", "held", "limit")

    def __init__(self, limit: int, few: int = 0) -> None:
        self.limit = limit
        self.held = 0
        self.few = few

    def allows(self, largest: int) -> bool:
        """Whether nobody has to give up bytes, if `largest` are the most that somebody holds."""
        return self.held <= (self.limit if largest > self.few else self.limit + self.limit // 4)


class ServerContext:
    """What the connections of a server share: the application, the limits, and the bytes in memory."""

    def __init__(self, app: Any, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self.figures = getattr(app, "server_figures", None) or ServerFigures()
        self.all: set[CollectorProtocol] = set()  # from accept on, before any TLS handshake
        self.strangers = Budget(limits.from_strangers)
        self.reports = Budget(max(limits.in_flight, 2 * limits.body), few=limits.small_body)
        self.responses = Budget(limits.unread)
        self.is_draining = False
        self.has_let_go = False  # whether the memory of a large body is still to be given back

    def make_room(self, budget: Budget) -> None:
        """While there are too many bytes of a kind, end the largest that holds some; of equal ones the slowest."""
        while budget.held > budget.limit:
            holders = (one for one in self.all if one.budget is budget and one.can_give_up)
            largest = max(holders, key=lambda one: (one.held, -one.since), default=None)
            if largest is None or budget.allows(largest.held):
                return
            largest.give_up()

    def give_back(self) -> None:
        """Return the memory of large bodies to the system, every second; the C library would keep it."""
        if self.has_let_go and self.reports.held < LARGE:
            self.has_let_go = False
            _trim()
