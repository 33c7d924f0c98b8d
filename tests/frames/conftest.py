"""Plans, reports with duplicates, stores of every kind, and a real Spark cluster on loopback."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest

from reticent.counts import count_reports
from reticent.frames.spark import java_home
from reticent.plan import Plan
from reticent.reports import Report
from reticent.stores import CountsByTags, Layout, RoundKey, open_store
from reticent.stores.lake import LakeStore

HEAD = '[plan]\nname = "{name}"\nversion = 1\nround = "1h"\n'
MEAN = '[metrics.{name}]\nkind = "mean"\nunit = "minute"\nmax_value = 60\nepsilon = 1.0\n'
HISTOGRAM = '[metrics.{name}]\nkind = "histogram"\nmax_value = 64\nepsilon = 1.0\n'
HADAMARD = HISTOGRAM + 'buckets = 13\nmechanism = "hadamard-bit"\n'
D_BIT = HISTOGRAM + 'buckets = 32\nmechanism = "d-bit-flip"\nbits = {bits}\n'
SEGMENTS = '[segments]\nos = ["windows", "macos"]\nchannel = ["stable"]\n'

PLANS = {
    "mean": MEAN.format(name="minutes"),
    "hadamard": MEAN.format(name="minutes") + HADAMARD.format(name="hours"),
    "d-bit": D_BIT.format(name="files", bits=5) + MEAN.format(name="minutes"),
    "segments": HADAMARD.format(name="hours") + SEGMENTS,
    # 70 bits in two columns, of which the first and the cohort, or the second, are a word each
    "wide": "".join(D_BIT.format(name=f"files_{n}", bits=17) for n in range(4))
    + MEAN.format(name="m")
    + SEGMENTS,
}
ROUND = 81_652


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> Plan:
    return make_plan(request.param)


def make_plan(name: str) -> Plan:
    return Plan.from_toml(HEAD.format(name=name) + PLANS[name])


@pytest.fixture(scope="session")
def all_plans() -> list[Plan]:
    return [make_plan(name) for name in PLANS]


def make_reports(plan: Plan, number: int, seed: int, rounds: tuple[int, ...] = (ROUND,)) -> list[Report]:
    """Reports of which one in twenty comes twice, in random order."""
    draws = random.Random(seed)
    reports = [
        Report(
            plan.name,
            plan.version,
            draws.choice(rounds),
            draws.randbytes(16),
            masked(draws.randbytes(plan.report_bytes), plan.bits),
            draws.randrange(256) if plan.uses_cohort else None,
            {each.name: draws.choice(each.tags) for each in plan.segments},
        )
        for _ in range(number)
    ]
    reports += draws.sample(reports, number // 20)
    draws.shuffle(reports)
    return reports


def masked(bits: bytes, width: int) -> bytes:
    """Bits beyond the last answer are 0."""
    spare = 8 * len(bits) - width
    return (int.from_bytes(bits) >> spare << spare).to_bytes(len(bits))


@pytest.fixture(scope="session")
def reports_on() -> Callable[..., list[Report]]:
    return make_reports


@pytest.fixture(scope="session")
def forged() -> Callable[[list[Report], Plan], list[Report]]:
    """More reports under ids that are there already, with other bits, cohorts and tags."""

    def forge(reports: list[Report], plan: Plan) -> list[Report]:
        draws = random.Random(99)
        others = make_reports(plan, 40, 98)
        more = [
            Report(
                other.plan,
                other.version,
                victim.round,
                victim.id,
                *draws.choice(
                    [(other.bits, victim.cohort, victim.segment), (other.bits, other.cohort, other.segment)]
                ),
            )
            for victim, other in zip(draws.sample(reports, 40), others, strict=False)
        ]
        mixed = reports + more
        draws.shuffle(mixed)
        return mixed

    return forge


@pytest.fixture(scope="session")
def smallest() -> Callable[[Iterable[Report], Plan], dict[Any, Any]]:
    """The counts by the rule of the lake, the slow way: of all records in order, the first of an id."""

    def counted(reports: Iterable[Report], plan: Plan) -> dict[Any, Any]:
        pack = Layout(plan).pack
        return count_reports(sorted(reports, key=lambda report: (report.round, pack(report))), plan)

    return counted


def filled(url: str, plan: Plan, reports: list[Report], group: int = 100) -> RoundKey:
    """Put reports into a store, in groups and through two collectors in turn where it is a lake."""
    key, pack = RoundKey(plan.name, plan.version, reports[0].round), Layout(plan).pack
    stores = [open_store(url)]
    stores[0].register(plan)
    if isinstance(stores[0], LakeStore):
        stores.append(open_store(url))
    for place, start in enumerate(range(0, len(reports), group)):
        chosen = reports[start : start + group]
        stores[place % len(stores)].append({key: b"".join(map(pack, chosen))})
    for store in stores:
        store.close()
    return key


@pytest.fixture(scope="session")
def fill() -> Callable[..., RoundKey]:
    return filled


@pytest.fixture(scope="session")
def by_tags() -> Callable[[dict[Any, Any]], CountsByTags]:
    """The counts of the one round that there is, as stores give them."""
    return lambda counts: {tags: by_metric for (_, tags), by_metric in counts.items()}


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
        found = find_spec("pyspark")
        if found is None or found.origin is None:
            pytest.skip("pyspark is not installed")
        self.folder, self._home = folder, Path(found.origin).parent
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0")
        self.url = self._said("master", r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for name in ("one", "two"):
            self._start(name, "worker.Worker", "--host", "127.0.0.1", "-c", "1", "-m", "1g", self.url)
        for name in ("one", "two"):
            self._said(name, r"Successfully registered with master")

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
        with (place / "log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [
                        self._home / "bin" / "spark-class",
                        f"org.apache.spark.deploy.{role}",
                        "--webui-port",
                        "0",
                        *arguments,
                    ],
                    cwd=place,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _said(self, name: str, pattern: str) -> str:
        log = self.folder / name / "log"
        for _ in range(1200):
            found = re.search(pattern, log.read_text())
            if found:
                return found[found.lastindex or 0]
            assert all(each.poll() is None for each in self._processes), log.read_text()
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    def has_shuffled(self, name: str) -> bool:
        """Whether a worker holds results of tasks that others still need."""
        return any((self.folder / name / "local").rglob("shuffle_*.data"))

    def kill(self, name: str) -> None:
        """Kill a worker and its executors, which are in its process group, at once."""
        self._end(self._processes[["master", "one", "two"].index(name)], signal.SIGKILL)

    def stop(self) -> None:
        for process in reversed(self._processes):
            self._end(process, signal.SIGKILL)

    def _end(self, process: subprocess.Popen[bytes], how: int) -> None:
        if process.poll() is None:
            os.killpg(process.pid, how)
            process.wait(60)


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
