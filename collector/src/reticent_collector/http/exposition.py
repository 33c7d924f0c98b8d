"""
`/metrics`: the health of the collector and the newest sealed estimates, for Prometheus.

An estimate has its interval beside it, and so has the change against four weeks before, the same day of the week: "a
difference that excludes 0" is a rule on two gauges. The intervals of changes hold at once for all metrics of a plan.
The series of a plan depend on the plan alone, so they do not come and go with the data, and their number is bounded.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, time
from itertools import accumulate, chain
from pathlib import Path
from statistics import median
from typing import TypeAlias
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder

from reticent.plan import Metric
from reticent_collector.estimates import Estimate, HistogramEstimate
from reticent_collector.http.health import COMMIT_BOUNDS, Health, KeyTraffic
from reticent_collector.results import (
    LruCache,
    Period,
    Result,
    Results,
    Selection,
    daily_every,
    usual_against,
)
from reticent_collector.results.periods import metrics_kept
from reticent_collector.results.rows import tags_asked

MOST_NUMBERS = 1_000  # means and shares of buckets per plan: six series each

USUAL_PERIODS = 14  # the reports of the newest period are compared with the median of so many before it

Sample: TypeAlias = tuple[str, list[str], float]

FIGURE = ["plan", "metric", "segment", "tag"]
PLAN = ["plan"]
NUMBER = [*FIGURE, "bucket", "bucket_low", "bucket_high", "label"]


END = b"# EOF\n"  # of the OpenMetrics format


def render_metrics(results: Results, health: Health, accept: str) -> tuple[bytes, str]:
    """The body and content type of `/metrics`, in the format that `accept` asks for."""
    encode, kind = choose_encoder(accept)
    current, sealed = _figures(results)
    body = encode(
        _Exposition(chain(_service(health), _requests(health), _process(health), _machine(health), current))
    )
    return body.removesuffix(END) + _encoded(results, sealed, encode, kind), kind


class _Exposition(CollectorRegistry):
    def __init__(self, families: Iterable[Family]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterator[Family]:
        yield from self._families


def _by_worker(health: Health) -> tuple[list[str], list[tuple[list[str], Health]]]:
    """
    Labels, and their values with the health of each process.

    Each worker has a line, whose counts begin at 0 when it is started again: only so can Prometheus tell.
    """
    if not health.workers:
        return [], [([], health)]
    return ["worker"], [([number], worker) for number, worker in health.workers.items()]


def _service(health: Health) -> Iterator[Family]:
    labels, healths = _by_worker(health)
    for kind, family in (("gauge", GaugeMetricFamily), ("counter", CounterMetricFamily)):
        for figure in fields(Health):
            if figure.metadata.get("kind") == kind:
                metric = family(f"reticent_{figure.name}", figure.metadata["text"], labels=labels)
                for worker, one in healths:
                    metric.add_metric(worker, float(getattr(one, figure.name)))
                yield metric
    commits = HistogramMetricFamily(
        "reticent_commit_duration_seconds", "Duration of a commit.", labels=labels
    )
    rejected = CounterMetricFamily(
        "reticent_rejected", "Requests or reports refused, by code.", labels=[*labels, "code"]
    )
    for worker, one in healths:
        commits.add_metric(worker, _buckets(one.commit_times), one.commit_seconds)
        for code, count in sorted(one.rejected.items()):
            rejected.add_metric([*worker, code], float(count))
    yield commits
    yield rejected
    for figure in fields(KeyTraffic):
        if figure.metadata:
            name, text = f"reticent_key_{figure.name}", figure.metadata["text"]
            by_key = CounterMetricFamily(name, text, labels=[*labels, "key"])
            for worker, one in healths:
                for key in one.keys:
                    by_key.add_metric([*worker, key.id], float(getattr(key, figure.name)))
            yield by_key


def _buckets(counts: Iterable[int]) -> list[tuple[str, float]]:
    """The upper ends of buckets, each with the number of all up to it."""
    ends = [*map(str, COMMIT_BOUNDS), "+Inf"]
    return [*zip(ends, map(float, accumulate(counts)), strict=True)]


def _requests(health: Health) -> Iterator[Family]:
    labels, healths = _by_worker(health)
    requests = HistogramMetricFamily(
        "reticent_request_duration_seconds",
        "Time from the last byte of a request to its response; of reports, or other requests.",
        labels=[*labels, "of"],
    )
    for worker, one in healths:
        for name, times in one.requests_of.items():
            requests.add_metric([*worker, name], _buckets(times.counts), times.seconds)
    yield requests


def _process(health: Health) -> Iterator[Family]:
    """What the client library of Prometheus exposes of every process, here of each worker."""
    labels, healths = _by_worker(health)
    for name in healths[0][1].process:
        is_counter = name.endswith("_total")
        metric = (CounterMetricFamily if is_counter else GaugeMetricFamily)(name, PROCESS, labels=labels)
        for worker, one in healths:
            metric.add_metric(worker, one.process.get(name, 0.0))
        yield metric


PROCESS = "Of the process of the collector; see the documentation of Prometheus."


def _machine(health: Health) -> Iterator[Family]:
    """What there is one of, however many workers."""
    build = GaugeMetricFamily("reticent_build_info", "1, with the version.", labels=["version", "python"])
    build.add_metric([health.version, platform.python_version()], 1.0)
    yield build
    free, size = disk_bytes(store_folder(health.store))
    for name, value, text in (
        ("memory_limit_bytes", memory_limit(), "Memory that all processes of the collector may use."),
        ("disk_free_bytes", free, "Free space on the disk of the store, where that is on this machine."),
        ("disk_size_bytes", size, "Size of that disk."),
        (
            "certificate_expires_seconds",
            health.certificate_expires or None,
            "When the certificate of this collector expires, in Unix seconds.",
        ),
    ):
        yield GaugeMetricFamily(f"reticent_{name}", text, value=value)


def disk_bytes(folder: Path | None) -> tuple[int | None, int | None]:
    """How many bytes are free on the disk of a folder, and its size; None where that is not known."""
    if folder is None:
        return None, None
    try:
        disk = os.statvfs(folder)
    except OSError:  # it is not mounted at the moment
        return None, None
    return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize


def store_folder(url: str) -> Path | None:
    """
    The folder on this machine in which a store is; None where it is elsewhere.

    >>> store_folder("sqlite:///data/reticent.db"), store_folder("postgresql://db/reticent")
    (PosixPath('data'), None)
    """
    if url.startswith("sqlite:///"):
        return Path(url.removeprefix("sqlite:///")).parent
    return Path(url.removeprefix("lake:///")) if url.startswith("lake:///") else None


def memory_limit() -> int:
    """The memory of this container (cgroup version 2 or 1), or of the machine where that is less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # there is none, or it is "max"
            limits.append(int(Path(file).read_text()))
    return min(limits)


CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


JOINT = "of its 95 % interval, which holds for all buckets of a histogram at once"
AT_ONCE = (
    "of its interval; with 95 %, those of all metrics of the plan, or of all tags of a segment, hold at once"
)
FIGURE_FAMILIES = {
    "estimate_value": ("Estimate: a mean in its unit, or the share of devices in a bucket.", NUMBER),
    "estimate_lower": (f"Lower end {JOINT}.", NUMBER),
    "estimate_upper": (f"Upper end {JOINT}.", NUMBER),
    "estimate_reports": ("Reports behind the estimate.", FIGURE),
    "estimate_left_out": ("Numbers of the plan that are not exposed because it has too many.", PLAN),
    "change_value": (
        "Change of an estimate from four weeks before, or from the period before where that does not exist.",
        NUMBER,
    ),
    "change_lower": (f"Lower end {AT_ONCE}.", NUMBER),
    "change_upper": (f"Upper end {AT_ONCE}.", NUMBER),
}
PLAN_FAMILIES = {
    "estimate_withheld": ("1 if the newest sealed period has too few reports for an estimate.", PLAN),
    "period_start_seconds": ("Start of the period of the estimates, in Unix seconds.", [*PLAN, "every"]),
    "period_end_seconds": ("End of the period of the estimates, in Unix seconds.", [*PLAN, "every"]),
    "period_reports": ("Reports of the newest sealed period; 0 if there are too few.", PLAN),
    "period_reports_usual": (f"Median of the reports of up to {USUAL_PERIODS} periods before.", PLAN),
    "plan_expires_seconds": ("When devices stop to answer the plan, in Unix seconds.", PLAN),
    "cohort_p_value": (
        "Probability that honest devices answer the rows of a histogram as unevenly, newest sealed round.",
        ["plan", "metric"],
    ),
}


@dataclass(frozen=True, slots=True)
class _SealedFigures:
    """The samples of the newest sealed period of a plan, and what they are of; None where that may change."""

    of: Hashable | None
    samples: tuple[Sample, ...]


def _figures(results: Results) -> tuple[list[Family], list[_SealedFigures]]:
    """What is said of plans and their reports; and of each plan, the figures of its newest sealed period."""
    samples: list[Sample] = []
    sealed_figures = []
    for name, plan in results.plans().items():
        if plan.expires is not None:
            expires = datetime.combine(plan.expires, time.min, UTC).timestamp()
            samples.append(("plan_expires_seconds", [name], expires))
        # Of these many some are open; what is sealed is newest first.
        listed = results.periods(Selection(name, last=USUAL_PERIODS + 6, every=daily_every(plan)))
        sealed = [one for one in listed if one.state == "sealed"]
        samples += [*_of_reports(name, sealed), *_of_balance(results, name)]
        period = next((one for one in sealed if one.reports), None)
        if period is not None:
            samples.append(("period_start_seconds", [name, period.every], period.start))
            samples.append(("period_end_seconds", [name, period.every], period.end))
            sealed_figures.append(_of_newest(results, period, sealed))
    return _families(PLAN_FAMILIES, samples), sealed_figures


def _families(texts: Mapping[str, tuple[str, list[str]]], samples: Iterable[Sample]) -> list[Family]:
    families = {
        name: GaugeMetricFamily(f"reticent_{name}", text, labels=labels)
        for name, (text, labels) in texts.items()
    }
    for name, labels, value in samples:
        families[name].add_metric(labels, float(value))
    return [*families.values()]


def _of_reports(name: str, sealed: Sequence[Period]) -> Iterator[Sample]:
    """How many reports the newest sealed period of a plan has, and usual ones have."""
    yield "estimate_withheld", [name], bool(sealed) and not sealed[0].reports
    if sealed:
        yield "period_reports", [name], sealed[0].reports
        if before := [one.reports for one in sealed[1 : USUAL_PERIODS + 1]]:
            yield "period_reports_usual", [name], median(before)


def _of_balance(results: Results, name: str) -> Iterator[Sample]:
    """Of a round or window: a day of remembered answers has no balance."""
    for result in results.newest(name):
        if (against_chance := result.balance) is not None:
            yield "cohort_p_value", _where(result)[:2], against_chance.p_value


def _of_newest(results: Results, period: Period, sealed: Sequence[Period]) -> _SealedFigures:
    """The figures of a sealed period, and their changes against one of those before it."""
    remembered = _SEALED.setdefault(results, LruCache(REMEMBERED))
    versions = tuple((one.plan.version, len(one.rounds), one.start, one.reports) for one in sealed)
    key = period.plan.name, period.every, versions, period.deleted, MOST_NUMBERS
    known = remembered.get(key)
    if known is None:
        samples = tuple(_of_period(results, period))
        known = _SealedFigures(key if results.is_readable(period, period.metrics) else None, samples)
        if known.of is not None:
            remembered.put(key, known)
    return known


def _encoded(
    results: Results,
    sealed: Sequence[_SealedFigures],
    encode: Callable[[CollectorRegistry], bytes],
    kind: str,
) -> bytes:
    """The text of sealed figures, which is most of the answer."""
    texts = _TEXTS.setdefault(results, LruCache(len(_KINDS)))
    key = kind, tuple(one.of for one in sealed)
    text = None if None in key[1] else texts.get(key)
    if text is None:
        samples = chain.from_iterable(one.samples for one in sealed)
        text = encode(_Exposition(_families(FIGURE_FAMILIES, samples)))
        if None not in key[1]:
            texts.put(key, text)
    return text


REMEMBERED = 64
_KINDS = ("text/plain", "application/openmetrics-text")
_SEALED: WeakKeyDictionary[Results, LruCache[_SealedFigures]] = WeakKeyDictionary()
"""The samples of sealed periods, which never change: computing them at each scrape would take seconds."""
_TEXTS: WeakKeyDictionary[Results, LruCache[bytes]] = WeakKeyDictionary()
"""The same of all plans as text: writing thousands of lines at each scrape would take a tenth of a second."""


def _of_period(results: Results, period: Period) -> Iterator[Sample]:
    asked, left_out = _asked(period)
    yield "estimate_left_out", [period.plan.name], left_out
    for by, metrics in asked.items():
        selection = Selection(
            period.plan.name, by=by, every=period.every, since=period.start, until=period.end
        )
        for result in results.results(period, metrics, selection):
            yield "estimate_reports", _where(result), result.estimate.reports
            yield from _numbers("estimate", result, result.estimate)
        # Where few metrics have room, one by one: changes of all of them would take far longer.
        few = 2 * len(metrics) <= len(period.plan.metrics)
        names = [metric.name for metric in metrics] if few else [None]
        strict = replace(
            selection,
            confidence=1 - (1 - selection.confidence) / (len(metrics) * len(tags_asked(period, selection))),
            against=usual_against(period.plan, period.every),
        )
        for name in names:
            for change in results.changes(replace(strict, metric=name)):
                if change.figure.period.start == period.start and change.figure.metric in metrics:
                    yield from _numbers("change", change.figure, change.estimate)


def _numbers(name: str, subject: Result, estimate: Estimate | HistogramEstimate) -> Iterator[Sample]:
    numbers = (estimate,) if isinstance(estimate, Estimate) else estimate.buckets
    for place, number in enumerate(numbers):
        edges = [f"{edge:.15g}" for edge in number.edges or ()] or ["", ""]
        bucket = "" if isinstance(estimate, Estimate) else str(place)
        labels = [*_where(subject), bucket, *edges, number.label]
        for part in ("value", "lower", "upper"):
            yield f"{name}_{part}", labels, getattr(number, part)


def _where(result: Result) -> list[str]:
    segment, tag = next(iter(result.segment.items()), ("", ""))
    return [result.plan, result.metric.name, segment, tag]


def _asked(period: Period) -> tuple[dict[str | None, list[Metric]], int]:
    """The metrics that are exposed by each segment (None: the whole fleet), and how many numbers have no room."""
    asked: dict[str | None, list[Metric]] = {}
    numbers = left_out = 0
    for segment in (None, *period.plan.segments):
        for metric in metrics_kept(period.plan, period.deleted):
            size = metric.mechanism.intervals * (1 if segment is None else len(segment.tags) + 1)
            if numbers + size > MOST_NUMBERS:
                left_out += size
                continue
            numbers += size
            asked.setdefault(segment.name if segment else None, []).append(metric)
    return asked, left_out
