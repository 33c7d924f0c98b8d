"""What happens to devices when their process forks or ends."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Protocol
from weakref import WeakSet


class Guest(Protocol):
    """Something that a fork would tear in two, and that has something to finish before its process ends."""

    def before_fork(self) -> None:
        """In the parent, just before: come to rest and let go of what must not be inherited."""

    def after_fork_in_parent(self) -> None:
        """Take it up again."""

    def after_fork_in_child(self) -> None:
        """Start over."""

    def before_exit(self) -> None:
        """The process is about to end."""


_guests: WeakSet[Guest] = WeakSet()
_resting: list[Guest] = []
_finalized_in: list[int] = []


def watch(guest: Guest) -> None:
    """Call the methods of `guest` around every `os.fork` and before this process ends, while it lives."""
    _guests.add(guest)


def watch_exit_of_child() -> None:
    """
    Call `before_exit` in a child that `multiprocessing` made: it ends without what `atexit` has registered.

    Not possible before the child runs: `multiprocessing` forgets the finalizers that it inherits.
    """
    util = sys.modules.get("multiprocessing.util")
    if util is not None and os.getpid() not in _finalized_in:
        from multiprocessing import parent_process

        if parent_process() is not None:
            _finalized_in[:] = [os.getpid()]
            util.Finalize(None, _before_exit, exitpriority=0)


def _before_fork() -> None:
    for guest in list(_guests):
        guest.before_fork()
        _resting.append(guest)


def _after_in_parent() -> None:
    while _resting:
        _resting.pop().after_fork_in_parent()


def _after_in_child() -> None:
    while _resting:
        _resting.pop().after_fork_in_child()


def _before_exit() -> None:
    for guest in list(_guests):
        guest.before_exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
atexit.register(_before_exit)
