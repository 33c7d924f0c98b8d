"""What must happen around a fork: the child shares no connection, lock or thread with its parent."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class ForkAware(Protocol):
    """Something that holds what a fork would tear in two."""

    def before_fork(self) -> None:
        """In the parent, just before: come to rest and let go of what must not be inherited."""

    def after_fork_in_parent(self) -> None:
        """Take it up again."""

    def after_fork_in_child(self) -> None:
        """Start over."""


_watched: WeakSet[ForkAware] = WeakSet()
_resting: list[ForkAware] = []


def watch(one: ForkAware) -> None:
    """Call the three methods of `one` around every `os.fork`, for as long as it lives."""
    _watched.add(one)


def _before() -> None:
    for one in list(_watched):
        one.before_fork()
        _resting.append(one)


def _in_parent() -> None:
    while _resting:
        _resting.pop().after_fork_in_parent()


def _in_child() -> None:
    while _resting:
        _resting.pop().after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
