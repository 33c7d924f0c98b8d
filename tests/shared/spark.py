"""A real Spark cluster on loopback, for tests and benchmarks."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from reticent_lake.frames.engines import java_home


class Cluster:
    """A master and workers of one core, each a process of its own in a group of its own."""

    def __init__(self, folder: Path, workers: int, memory: str, java_options: str) -> None:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        self.folder, self._home, self._java_options = folder, Path(spec.origin).parent, java_options
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.workers = [f"worker-{number}" for number in range(workers)]
        try:
            self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
            self.url = self._wait_for("master", r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
            for name in self.workers:
                self._start(name, "worker.Worker", "--host", "127.0.0.1", "-c", "1", "-m", memory, self.url)
            for name in self.workers:
                self._wait_for(name, r"Successfully registered with master")
        except BaseException:
            self.stop()
            raise

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
            "SPARK_DAEMON_JAVA_OPTS": self._java_options,
        }
        command = [self._home / "bin" / "spark-class", f"org.apache.spark.deploy.{role}", "--webui-port", "0"]
        with (place / "log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [*command, *arguments], cwd=place, env=environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _wait_for(self, name: str, pattern: str) -> str:
        log = self.folder / name / "log"
        for _ in range(1200):
            match = re.search(pattern, log.read_text())
            if match:
                return match[match.lastindex or 0]
            assert all(process.poll() is None for process in self._processes.values()), log.read_text()
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    def shuffled(self, name: str) -> set[Path]:
        """The results of tasks that a worker holds for others."""
        return set((self.folder / name / "local").rglob("shuffle_*.data"))

    def kill(self, name: str) -> None:
        """Kill a process and its executors, which are in its process group, at once."""
        process = self._processes[name]
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)

    def stop(self) -> None:
        for name in reversed(list(self._processes)):
            self.kill(name)


@contextmanager
def spark_cluster(
    workers: int, memory: str = "1g", java_options: str = "", folder: Path | None = None
) -> Iterator[Cluster]:
    """A cluster, in a folder that goes with it."""
    place = Path(tempfile.mkdtemp(prefix="reticent-spark-", dir=folder))
    try:
        cluster = Cluster(place, workers, memory, java_options)
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)
