"""Engines that count the files of one round: DuckDB and PyArrow on this machine, Spark anywhere."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import narwhals as nw
import pyarrow as pa

from reticent.counts import Counts
from reticent.counts.reports import Slice
from reticent.errors import MissingExtraError, ParameterError, ReticentError
from reticent.frames.counting import count, shares
from reticent.frames.files import Bucket, Checked, Place
from reticent.plan import Plan
from reticent.stores import RoundKey
from reticent.stores.lake import Columns, Part

SliceCounts = dict[Slice, dict[str, Counts]]
ROWS_AT_ONCE = 1 << 22
"""Rows that PyArrow takes at once."""
ROWS_PER_SHARE = 1 << 21
"""Rows that a task of Spark groups by id, some 100 bytes each."""


class Engine(Protocol):
    """What counts files that are known to be segments of one round."""

    checks_pages: bool
    """Whether it notices by itself that a page is damaged."""

    def count(self, plan: Plan, key: RoundKey, place: Place, paths: Sequence[str]) -> SliceCounts:
        """The counts of a round."""


class Arrow:
    """PyArrow: nothing but what a lake needs anyway. A large round is read once per `ROWS_AT_ONCE` rows."""

    checks_pages = True

    def __init__(self, rows_at_once: int = ROWS_AT_ONCE) -> None:
        self._rows_at_once = rows_at_once

    def count(self, plan: Plan, key: RoundKey, place: Place, paths: Sequence[str]) -> SliceCounts:
        """The counts of a round."""
        files = Checked(place, Columns(plan), key)
        passes = max(1, -(-sum(_rows(path) for path in paths) // self._rows_at_once))
        total: SliceCounts = {}
        for share in shares(passes):
            parts = [nw.from_native(files.read(path)).filter(share).to_native() for path in paths]
            _add(total, count(pa.concat_tables(parts), plan, round=key.round))
        return total


class DuckDB:
    """
    DuckDB in this process, on all cores.

    What does not fit into `memory` goes to a temporary folder, in `folder` or where the system has such.
    """

    checks_pages = False

    def __init__(self, memory: str = "2GiB", threads: int | None = None, folder: str | None = None) -> None:
        self._memory, self._threads, self._folder = memory, threads, folder

    def count(self, plan: Plan, key: RoundKey, place: Place, paths: Sequence[str]) -> SliceCounts:
        """The counts of a round."""
        with tempfile.TemporaryDirectory(prefix="reticent-duckdb-", dir=self._folder) as folder:
            connection = self._connection(folder)
            try:
                if isinstance(place, Bucket):
                    connection.register_filesystem(place.filesystem)
                names = [_escaped_for_duckdb(place.address(path)) for path in paths]
                rows = connection.read_parquet(names, hive_partitioning=False)
                return count(rows, plan, round=key.round)
            finally:
                connection.close()

    def _connection(self, folder: str) -> Any:
        try:
            import duckdb
        except ImportError as missing:
            raise MissingExtraError("lake", "duckdb") from missing
        settings: dict[str, Any] = {
            "memory_limit": self._memory,
            "temp_directory": folder,
            "preserve_insertion_order": False,
            "enable_external_file_cache": False,
        }
        if self._threads is not None:
            settings["threads"] = self._threads
        return duckdb.connect(":memory:", config=settings)


class Spark:
    """Spark, in a session that somebody else opens and closes; its workers must see the lake's folder."""

    checks_pages = True

    def __init__(self, session: Any) -> None:
        self._session = session

    def count(self, plan: Plan, key: RoundKey, place: Place, paths: Sequence[str]) -> SliceCounts:
        """The counts of a round."""
        if not place.local:
            raise ReticentError(
                "spark: expected a lake in a folder that all workers see, got one in a bucket.\n"
                "  Hint: read it in a session of your own and hand the frame to reticent.frames.count; "
                "or take --engine duckdb"
            )
        types = {pa.uint8(): "smallint", pa.int64(): "bigint"}
        columns = ", ".join(f"`{each.name}` {types[each.type]}" for each in Columns(plan).schema)
        names = [_escaped_for_spark(place.address(path)) for path in paths]
        with self._shares(sum(_rows(path) for path in paths)):
            return count(self._session.read.schema(columns).parquet(*names), plan, round=key.round)

    @contextmanager
    def _shares(self, rows: int) -> Iterator[None]:
        """As many shares of ids as the round needs, unless somebody has set how many; Spark has 200."""
        context, conf, name = self._session.sparkContext, self._session.conf, "spark.sql.shuffle.partitions"
        if context.getConf().contains(name):
            yield
            return
        known = conf.get(name)
        conf.set(name, str(max(2 * context.defaultParallelism, -(-rows // ROWS_PER_SHARE))))
        try:
            yield
        finally:
            conf.set(name, known)


@contextmanager
def engine(
    name: str, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> Iterator[Engine]:
    """An engine by name: "duckdb", "arrow" or "spark", the last with a session on `master`."""
    if name == "spark":
        from reticent.frames.spark import session

        with session(master, settings) as opened:
            yield Spark(opened)
    elif name in ("duckdb", "arrow"):
        yield DuckDB() if name == "duckdb" else Arrow()
    else:
        raise ParameterError("engine", "one of duckdb, arrow, spark", name)


def _rows(path: str) -> int:
    segment = Part.parse(path.rpartition("/")[2])
    return segment.rows if segment else 0


def _add(total: SliceCounts, more: SliceCounts) -> None:
    for cell, by_metric in more.items():
        known = total.get(cell)
        total[cell] = (
            by_metric if known is None else {name: known[name] + each for name, each in by_metric.items()}
        )


def _escaped_for_duckdb(path: str) -> str:
    """A path in which nothing stands for other characters."""
    return re.sub(r"[*?\[]", lambda found: f"[{found[0]}]", path)


def _escaped_for_spark(path: str) -> str:
    return "file://" + re.sub(r"[*?\[\]{}\\]", lambda found: "\\" + found[0], path)
