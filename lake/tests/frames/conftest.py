"""A real Spark cluster on loopback, and each kind of plan."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.shared.reports import PLANS
from tests.shared.spark import Cluster, spark_cluster

from reticent.plan import Plan

QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> Plan:
    return PLANS[request.param]


@pytest.fixture
def settings() -> dict[str, str]:
    """Settings for little data."""
    return {
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.extraJavaOptions": QUICK,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",  # to compile costs more than to count so little
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    pytest.importorskip("pyspark")
    try:
        with spark_cluster(workers=2, java_options=QUICK) as started:
            yield started
    finally:
        _end_gateway()


def _end_gateway() -> None:
    """The driver's Java, which pyspark started in this process and would keep until its end."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.kill()
        gateway.proc.wait(60)
        SparkContext._gateway = SparkContext._jvm = None
