"""
Counting a round of a lake from its parts: each id once, by a rule that needs no order of arrival.

`count_round`, for collectors that seal and for `reticent count`, selects the parts, checks them, and starts again
when parts vanish. An engine adds up: `Arrow`, which every lake has, or DuckDB and Spark of `reticent_lake.frames`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from reticent.errors import ReticentError, StoreError
from reticent_collector.stores.backend import State
from reticent_collector.stores.records import Count, CountsByTags, Records, RoundKey, reports_of
from reticent_collector.stores.sorting import Sorting, count_once
from reticent_lake.store.files import Files
from reticent_lake.store.layout import Columns, Part, folder_of
from reticent_lake.store.seals import GONE

if TYPE_CHECKING:
    from reticent_lake.store.backend import LakeBackend

LOOKS = 50  # how often a folder is listed again because its parts were merged while they were read
_THREADS = 4


class BadFileError(ReticentError):
    """RoundParts that cannot be counted, with the reason for each: by path in `files`, by name in `names`."""

    def __init__(self, lake: str, folder: str, names: Mapping[str, str]) -> None:
        self.names = dict(names)
        self.files = {f"{folder}/{name}": reason for name, reason in sorted(names.items())}
        listed = "\n".join(f"{lake}: {path}: {reason}" for path, reason in self.files.items())
        super().__init__(f"{listed}\n  Hint: --skip-bad counts the rest and lists what was left out")


class EngineError(ReticentError):
    """An engine cannot read the lake at its address."""


class RoundParts:
    """The Parquet files of one round, by name."""

    def __init__(self, files: Files, columns: Columns, key: RoundKey) -> None:
        self.files, self.columns, self.key = files, columns, key
        self.folder = folder_of(key)

    def rows(self, names: Sequence[str]) -> int:
        """The number of rows of some parts, by their names."""
        return sum(part.rows for name in names if (part := Part.parse(name)))

    def read(self, name: str) -> Records:
        """The records of a part; `StoreError` with the reason when it is gone or bad."""
        data = self.files.read(f"{self.folder}/{name}")
        if data is None:
            raise StoreError(GONE)
        return self.columns.decode(self.key, data, self.rows([name]))

    def problems(self, names: Sequence[str], pages: bool) -> dict[str, str]:
        """The bad ones of some parts, and why, by their footers; with `pages` also by the checksum of each page."""
        with ThreadPoolExecutor(_THREADS) as pool:
            reasons = pool.map(lambda name: self._problem(name, pages), names)
            return {name: reason for name, reason in zip(names, reasons, strict=True) if reason}

    def _problem(self, name: str, pages: bool) -> str:
        try:
            with (
                self.files.reader(f"{self.folder}/{name}") as file,
                pq.ParquetFile(file, page_checksum_verification=True) as parquet,
            ):
                problem = self.columns.problem(parquet, self.key, self.rows([name]))
                if pages and not problem:
                    for group in range(parquet.num_row_groups):
                        parquet.read_row_group(group, use_threads=False)
                return problem
        except FileNotFoundError:
            return GONE
        except (pa.ArrowException, OSError) as error:
            return f"cannot be read as Parquet: {str(error).splitlines()[0]}"


class CountingEngine(Protocol):
    """Counts the parts of one round: each id once, by its smallest row."""

    @property
    def checks(self) -> Literal["nothing", "pages", "all"]:
        """The damage it detects itself while it reads."""

    @property
    def at_once(self) -> int:
        """How many small rounds it counts side by side, in threads."""

    def count(self, parts: RoundParts, names: Sequence[str]) -> CountsByTags:
        """The counts of a round."""


class Arrow:
    """PyArrow reads and NumPy counts, in memory that does not grow with the round (`stores.sorting`)."""

    checks: Literal["all"] = "all"
    at_once = 4

    def __init__(self, rows_at_once: int | None = None, folder: str | None = None) -> None:
        self._rows_at_once = rows_at_once
        self._folder = folder

    def count(self, parts: RoundParts, names: Sequence[str]) -> CountsByTags:
        """The counts of a round; every part is read once."""
        records = map(parts.read, names)
        sorting = Sorting(self._rows_at_once, self._folder)
        return count_once(parts.columns.layout, records, parts.rows(names), sorting).counts


class _VanishedError(Exception):
    """A part is gone: merged with others, or counted and removed."""


def count_round(
    lake: LakeBackend, key: RoundKey, engine: CountingEngine, *, skip_bad: bool = False
) -> tuple[Count, State, int]:
    """
    Count a round: the counts, its state, and how many parts were counted.

    Each id counts once, of different reports with one id the smallest. A sealed round has its final counts. For
    others, damage that the engine does not detect itself is looked for before it starts. A part that is gone,
    damaged, or not of this round raises `BadFileError`, and nothing is counted; with `skip_bad`, such parts are
    left out and listed.
    """
    parts = RoundParts(lake.files, lake.columns(key), key)
    for _ in range(LOOKS):
        final = lake.final(key)
        if final is not None:
            return final, "sealed", 0
        try:
            return _count_parts(lake, parts, engine, skip_bad)
        except _VanishedError:
            continue
    raise StoreError(f"{lake.url}: {parts.folder}: parts vanish while they are being counted")


def _count_parts(
    lake: LakeBackend, parts: RoundParts, engine: CountingEngine, skip_bad: bool
) -> tuple[Count, State, int]:
    key = parts.key
    # Asked before the parts are listed: those of an older list may have been merged before it was frozen.
    frozen = lake.seals.kept(key) is not None
    state: State = "closing" if lake.seals.is_closing(key) else "open"
    good = lake.seals.countable(key)
    left_out = lake.seals.left_out(key)
    bad = {} if lake.seals.is_sealed(key) else lake.seals.gaps(key)
    if engine.checks != "all":
        bad |= _problems(lake, parts, good, frozen, pages=engine.checks == "nothing")
    while True:
        if bad and not skip_bad:
            raise BadFileError(lake.url, parts.folder, bad)
        good = [name for name in good if name not in bad]
        try:
            counts = engine.count(parts, good) if good else {}
        except EngineError:
            raise
        except Exception as error:  # engines have their own exceptions: check the parts
            bad |= _blamed(lake, parts, good, frozen, error)
            continue
        total = reports_of(parts.columns.layout.plan, counts)
        repeated = parts.rows(good) - total
        return Count(total, counts, left_out | bad, repeated), state, len(good)


def _problems(
    lake: LakeBackend, parts: RoundParts, names: Sequence[str], frozen: bool, pages: bool
) -> dict[str, str]:
    """The bad ones of some parts, and why; `_VanishedError` when the list of parts is out of date."""
    problems = parts.problems(names, pages)
    if GONE in problems.values() and (not frozen or lake.seals.is_sealed(parts.key)):
        raise _VanishedError
    return problems


def _blamed(
    lake: LakeBackend, parts: RoundParts, names: Sequence[str], frozen: bool, error: Exception
) -> dict[str, str]:
    """The parts on which an engine failed, and why; the error itself when it is not theirs."""
    # A list is cheaper than reading everything, and merging is the usual cause.
    if not frozen and not {*names} <= {*lake.files.names(parts.folder)}:
        raise _VanishedError from error
    problems = _problems(lake, parts, names, frozen, pages=True)
    if problems:
        return problems
    if isinstance(error, ReticentError):
        raise error
    reason = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
    raise ReticentError(f"{lake.url}: the engine failed: {reason}") from error
