"""A transaction of a database, whichever database it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

SqlRow = tuple[Any, ...]
"""A row that a statement returns."""


class Transaction(NamedTuple):
    """One transaction: all of it or nothing."""

    execute: Callable[..., list[SqlRow]]  #: runs a statement, with ? for the parameters after it
