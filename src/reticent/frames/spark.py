"""A session of Spark, set up for counting."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from reticent.errors import MissingExtraError, ReticentError
from reticent.frames.java import java_home

LOOPBACK = "127.0.0.1"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.maxPartitionBytes": "32m",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}
"""
No web pages, no chatter, no look at the stack for each expression; tasks small enough to share out evenly;
and a damaged page is an error.
"""


@contextmanager
def session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """
    A session on `master` (`local[N]`, `spark://host:port`, whatever Spark knows), stopped at the end.

    A master on this machine's loopback is answered from there, and so is a local one: nothing listens to the
    network then. `settings` are Spark's own and go before reticent's.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise MissingExtraError("spark", "pyspark") from missing
    with _environment(master):
        builder = SparkSession.builder.master(master).appName("reticent count")
        for name, value in {**SETTINGS, **_addresses(master), **(settings or {})}.items():
            builder = builder.config(name, value)
        try:
            spark = builder.getOrCreate()
        except Exception as error:  # what Java says of itself has no class of its own
            raise ReticentError(f"spark: {master}: {str(error).strip().splitlines()[0]}") from error
        try:
            yield spark
        finally:
            spark.stop()


def _addresses(master: str) -> dict[str, str]:
    if not _on_loopback(master):
        return {}
    return {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}


def _on_loopback(master: str) -> bool:
    return "://" not in master or urlsplit(master).hostname in (LOOPBACK, "localhost", "::1")


@contextmanager
def _environment(master: str) -> Iterator[None]:
    """The variables that Spark's launcher reads, while there is a session; then as they were."""
    java = java_home()
    wanted = {
        **({"JAVA_HOME": java} if java else {}),
        **({"SPARK_LOCAL_IP": LOOPBACK} if _on_loopback(master) else {}),
    }
    known = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in known.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
