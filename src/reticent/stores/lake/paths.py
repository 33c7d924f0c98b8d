"""Where a lake keeps what, and what the name of a segment says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from reticent.stores.records import RoundKey

LAKE = "lake.json"
PLANS, REPORTS, SEALS, COUNTS, KEYS = "plans", "reports", "seals", "counts", "keys"

_SEGMENT = re.compile(r"([0-9a-f]{32})-([0-9]{8,})-([0-9]{8,})-([1-9][0-9]*)\.parquet")
_ROUND = re.compile(r"round=(0|[1-9][0-9]*)")
_VERSION = re.compile(r"version=([1-9][0-9]*)")
_PLAN = re.compile(r"plan=([a-z][a-z0-9_-]*)")


def folder_of(key: RoundKey, top: str = REPORTS) -> str:
    """
    The folder of a round, in words that Hive, DuckDB, Spark and Polars read as columns.

    >>> folder_of(RoundKey("app-usage", 1, 81652))
    'reports/plan=app-usage/version=1/round=81652'
    """
    return f"{top}/plan={key.plan}/version={key.version}/round={key.round}"


def plan_path(name: str, version: int) -> str:
    """The file of a plan."""
    return f"{PLANS}/{name}/v{version}.toml"


def closing_path(key: RoundKey) -> str:
    """The file that stops `append`."""
    return f"{folder_of(key, SEALS)}/closing.json"


def frozen_path(key: RoundKey) -> str:
    """The file that says which segments count."""
    return f"{folder_of(key, SEALS)}/segments.json"


def counts_path(key: RoundKey) -> str:
    """The file of a sealed round."""
    return f"{folder_of(key, COUNTS)}.json"


def plan_of(name: str) -> str | None:
    """The plan of a folder `plan=…`."""
    found = _PLAN.fullmatch(name)
    return found[1] if found else None


def version_of(name: str) -> int | None:
    """The version of a folder `version=…`."""
    found = _VERSION.fullmatch(name)
    return int(found[1]) if found else None


def round_of(name: str) -> int | None:
    """The number of a folder `round=…` or of a file `round=….json`."""
    found = _ROUND.fullmatch(name.removesuffix(".json"))
    return int(found[1]) if found else None


class Segment(NamedTuple):
    """
    What the name of a segment says: whose it is, which commit groups of the writer, and how many rows.

    A writer is one opening of the store, by 128 random bits, and numbers the groups of each round from 1 on.
    A segment that was merged from others has a range of numbers, and covers the segments it was made from.

    >>> one = Segment("0" * 32, 3, 3, 40)
    >>> one.name
    '00000000000000000000000000000000-00000003-00000003-40.parquet'
    >>> Segment.parse(one.name) == one, Segment("0" * 32, 1, 64, 2560).covers(one)
    (True, True)
    """

    writer: str
    first: int
    last: int
    rows: int

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.writer}-{self.first:08d}-{self.last:08d}-{self.rows}.parquet"

    @classmethod
    def parse(cls, name: str) -> Segment | None:
        """The segment of a name; None when it is not the name of one."""
        found = _SEGMENT.fullmatch(name)
        if found is None or int(found[2]) > int(found[3]):
            return None
        return cls(found[1], int(found[2]), int(found[3]), int(found[4]))

    def covers(self, other: Segment) -> bool:
        """Whether all that the other one has is in this one."""
        return self.writer == other.writer and self.first <= other.first and other.last <= self.last


def outermost(segments: Iterable[Segment]) -> list[Segment]:
    """
    Those segments that no other one covers: all that is in any of them.

    >>> parts = [Segment("a", 1, 1, 5), Segment("a", 2, 2, 5), Segment("a", 1, 2, 10), Segment("a", 3, 3, 5)]
    >>> [segment[1:] for segment in outermost(parts)]
    [(1, 2, 10), (3, 3, 5)]
    """
    found: list[Segment] = []
    for segment in sorted(segments, key=lambda each: (each.writer, each.first, -each.last)):
        if not found or not found[-1].covers(segment):
            found.append(segment)
    return found


def is_hidden(name: str) -> bool:
    """Whether a name is one that readers of Parquet folders pass over, like `_SUCCESS` or `.nfs0001`."""
    return name.startswith((".", "_"))
