"""A real Spark cluster on loopback, and each kind of plan."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pytest
from tests.shared.reports import PLANS

from reticent.frames.spark import java_home
from reticent.plan import Plan


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> Plan:
    return PLANS[request.param]


QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class Cluster:
    """A master and two workers of one core, each a process of its own in a group of its own."""

    settings: ClassVar[dict[str, str]] = {
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.extraJavaOptions": QUICK,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",  # to compile costs more than to count so little
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }

    def __init__(self, folder: Path) -> None:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            pytest.skip("pyspark is not installed")
        self.folder, self._home = folder, Path(spec.origin).parent
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
        self.url = self._wait_for("master", r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for name in ("one", "two"):
            self._start(name, "worker.Worker", "--host", "127.0.0.1", "-c", "1", "-m", "1g", self.url)
        for name in ("one", "two"):
            self._wait_for(name, r"Successfully registered with master")

    def _start(self, name: str, role: str, *arguments: str) -> None:
        place = self.folder / name
        place.mkdir()
        java = java_home()
        environment = {
            **os.environ,
            **({"JAVA_HOME": java} if java else {}),
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(place / "local"),
            "SPARK_WORKER_DIR": str(place / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
        }
        command = [self._home / "bin" / "spark-class", f"org.apache.spark.deploy.{role}", "--webui-port", "0"]
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, *arguments],
                cwd=place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)

    def _wait_for(self, name: str, pattern: str) -> str:
        log = self.folder / name / "log"
        for _ in range(1200):
            match = re.search(pattern, log.read_text())
            if match:
                return match[match.lastindex or 0]
            assert all(process.poll() is None for process in self._processes), log.read_text()
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    def has_shuffled(self, name: str) -> bool:
        """Whether a worker holds results of tasks that others still need."""
        return any((self.folder / name / "local").rglob("shuffle_*.data"))

    def kill(self, name: str) -> None:
        """Kill a process and its executors, which are in its process group, at once."""
        process = self._processes[["master", "one", "two"].index(name)]
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)

    def stop(self) -> None:
        for name in ("two", "one", "master")[3 - len(self._processes) :]:
            self.kill(name)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="reticent-spark-"))
    started = None
    try:
        started = Cluster(folder)
        yield started
    finally:
        if started is not None:
            started.stop()
        _end_gateway()
        shutil.rmtree(folder, ignore_errors=True)


def _end_gateway() -> None:
    """The driver's Java, which pyspark started in this process and would keep until its end."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
        SparkContext._gateway = SparkContext._jvm = None
