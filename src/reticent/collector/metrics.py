"""`/metrics`: the health of the service and the newest estimates, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from reticent.estimates import Estimate
from reticent.results import Results

GAUGES = {
    "uptime_seconds": "Seconds since the collector started.",
    "queue": "Reports waiting for the next commit.",
    "open_reports": "Reports in open rounds.",
    "memory_bytes": "Memory that open rounds hold.",
}
COUNTERS = {
    "requests": "Requests to the ingest path.",
    "accepted": "Reports that became durable and count.",
    "duplicate": "Reports that were there already.",
    "commits": "Commits.",
    "failed_commits": "Commits that failed; their reports were not acknowledged.",
    "sealed": "Rounds sealed by this collector.",
}
BY_KEY = {
    "requests": "Requests to the ingest path, by the id of their key.",
    "reports": "Reports that were acknowledged, repeats among them, by the id of their key.",
    "refused": "Requests or reports that were refused, by the id of their key.",
    "limited": "Requests that were refused because their key was over its rate, by its id.",
}
"""For the keys of the store that may send, or tried to: a key that is not known has no series."""


def render_metrics(reader: Results, health: Mapping[str, Any], accept: str) -> tuple[bytes, str]:
    """The page and its content type, in the form that the reader asks for."""
    registry = CollectorRegistry()
    registry.register(_Figures(reader, health))
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


class _Figures(Collector):
    def __init__(self, reader: Results, health: Mapping[str, Any]) -> None:
        self._reader = reader
        self._health = health

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        for name, text in GAUGES.items():
            yield GaugeMetricFamily(f"reticent_{name}", text, value=float(self._health[name]))
        for name, text in COUNTERS.items():
            yield CounterMetricFamily(f"reticent_{name}", text, value=float(self._health[name]))
        yield self._commit_times()
        rejected = CounterMetricFamily(
            "reticent_rejected", "Requests or reports refused, by code.", labels=["code"]
        )
        for code, count in sorted(self._health["rejected"].items()):
            rejected.add_metric([code], float(count))
        yield rejected
        yield from self._keys()
        yield from self._estimates()

    def _commit_times(self) -> Metric:
        times = GaugeMetricFamily(
            "reticent_commit_duration_seconds",
            "Time of a commit, by quantile of the latest.",
            labels=["quantile"],
        )
        for quantile, name in (("0.5", "commit_p50_ms"), ("0.99", "commit_p99_ms")):
            times.add_metric([quantile], float(self._health[name]) / 1000)
        return times

    def _keys(self) -> Iterator[Metric]:
        for name, text in BY_KEY.items():
            family = CounterMetricFamily(f"reticent_key_{name}", text, labels=["key"])
            for key in self._health["keys"]:
                family.add_metric([key["id"]], float(key[name]))
            yield family

    def _estimates(self) -> Iterator[Metric]:
        labels = ["plan", "metric", "bucket"]
        families = {
            name: GaugeMetricFamily(f"reticent_estimate_{name}", text, labels=labels)
            for name, text in (
                ("value", "Newest sealed estimate: a mean in its unit, or the share of devices in a bucket."),
                ("lower", "Lower end of its 95 % interval (for all buckets at once)."),
                ("upper", "Upper end of its 95 % interval (for all buckets at once)."),
                ("reports", "Reports behind it."),
            )
        }
        rounds = GaugeMetricFamily("reticent_estimate_round", "Its round.", labels=["plan", "metric"])
        balances = GaugeMetricFamily(
            "reticent_cohort_p_value",
            "The chance that honest devices speak as unevenly of a histogram's rows, newest sealed round.",
            labels=["plan", "metric"],
        )
        for plan in self._reader.plans():
            for found in self._reader.newest(plan):
                name = found.metric.name
                rounds.add_metric([plan, name], float(found.round))
                if found.balance is not None:
                    balances.add_metric([plan, name], found.balance.p_value)
                one = isinstance(found.estimate, Estimate)
                numbers = [found.estimate] if isinstance(found.estimate, Estimate) else found.estimate.buckets
                for place, number in enumerate(numbers):
                    where = [plan, name, "" if one else str(place)]
                    for each, family in families.items():
                        family.add_metric(where, float(getattr(number, each)))
        yield from families.values()
        yield rounds
        yield balances
