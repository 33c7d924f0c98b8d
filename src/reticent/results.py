"""
What a store can tell: plans, rounds and estimates, for HTTP, the dashboard and the commands.

`Results(store)` is asked; each of its answers about a metric is a `Result`.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from reticent.counts import Counts
from reticent.errors import ParameterError
from reticent.estimates import Balance, Estimate, HistogramEstimate, balance, estimate, shares_of_rows
from reticent.plan import Metric, Plan
from reticent.stores import CountsByTags, RoundInfo, Rounds

REMEMBERED = 4096
"""How many sealed rounds' counts are kept in memory; they never change."""

T = TypeVar("T")


class LruCache(Generic[T]):
    """
    The latest values that can never change, at most so many; for any number of threads.

    >>> cache: LruCache[str] = LruCache(2)
    >>> for word in ("one", "two", "three"):
    ...     cache.put(word, word.upper())
    >>> cache.get("one"), cache.get("three")
    (None, 'THREE')
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        """The value of a key; None when it is not known, or no longer."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Hashable, value: T) -> None:
        """Remember a value, and forget the one that was not asked for longest."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Result:
    """The estimate of one metric in one round and segment."""

    plan: str
    version: int
    metric: Metric
    round: int
    start: int
    """Unix seconds."""
    end: int
    state: str
    """"open": provisional, reports still come in; "sealed": final."""
    segment: Mapping[str, str]
    """The tags that were picked; empty for the whole fleet."""
    counts: Counts
    estimate: Estimate | HistogramEstimate

    @property
    def balance(self) -> Balance | None:
        """The reports of each row against chance; None where there is nothing to compare."""
        return balance(self.metric, self.counts)

    def to_dict(self) -> dict[str, Any]:
        """What `GET /v1/estimates` answers."""
        against_chance = self.balance
        return {
            "plan": self.plan,
            "version": self.version,
            "metric": self.metric.name,
            "kind": self.metric.kind,
            "round": self.round,
            "start": self.start,
            "end": self.end,
            "state": self.state,
            "segment": dict(self.segment),
            **self.estimate.to_dict(),
            **({"balance": against_chance.to_dict()} if against_chance else {}),
        }


class Results:
    """
    Reads a store. Counts of sealed rounds are remembered, since they never change; open rounds are read anew.

    Methods block and may be called from any thread.
    """

    def __init__(self, store: Rounds, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self.clock = clock
        self._counts: LruCache[CountsByTags] = LruCache(REMEMBERED)

    def plans(self) -> dict[str, Plan]:
        """The newest version of each plan, by name."""
        return {plan.name: plan for plan in sorted(self._store.plans(), key=lambda plan: plan.version)}

    def versions(self, plan: str) -> dict[int, Plan]:
        """Every version of a plan, newest first, by its number."""
        newest_first = sorted(self._store.plans(), key=lambda version: -version.version)
        return {version.version: version for version in newest_first if version.name == plan}

    def plan(self, name: str) -> Plan:
        """The newest version of a plan; raises `ParameterError` when there is none."""
        for plan in self.versions(name).values():
            return plan
        raise ParameterError("plan", "a plan this collector serves", name)

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[dict[str, Any]]:
        """The rounds of a plan, latest first, with their times and states, ready for JSON."""
        plans = {(version.name, version.version): version for version in self._store.plans()}
        rows = []
        for info in self._store.rounds(plan, last):
            window = plans[info.key.plan, info.key.version].round(info.key.round)
            rows.append(
                {
                    "plan": info.key.plan,
                    "version": info.key.version,
                    "round": window.number,
                    "start": window.start,
                    "end": window.end,
                    "closes": window.closes,
                    "state": _state(info),
                    "reports": info.reports,
                }
            )
        return rows

    def estimates(
        self,
        plan: str,
        metric: str | None = None,
        rounds: Sequence[int] | None = None,
        last: int | None = None,
        segment: Mapping[str, str] | None = None,
        by: str | None = None,
        confidence: float = 0.95,
    ) -> list[Result]:
        """
        The estimates of a plan's metrics, latest round first.

        `rounds` picks rounds by number, `last` the latest ones. `segment` keeps the devices with these tags;
        `by` names a segment whose tags are estimated apart. Rounds that nobody answered have no estimate.
        """
        picked = segment or {}
        self._check(self.plan(plan), metric, picked, by, confidence)
        wanted = None if rounds is None else set(rounds)
        versions = self.versions(plan)
        results: list[Result] = []
        for info in self._store.rounds(plan, last):
            version = versions[info.key.version]
            declared = {segment.name for segment in version.segments}
            if wanted is not None and info.key.round not in wanted:
                continue
            if not {*picked, *([by] if by else [])} <= declared:
                continue  # this version of the plan had no such segment
            metrics = [asked for asked in version.metrics if metric in (None, asked.name)]
            results += self._results(info, version, metrics, picked, by, confidence)
        return results

    def newest(self, plan: str, confidence: float = 0.95) -> list[Result]:
        """The estimates of a plan's newest sealed round that has reports."""
        for info in self._store.rounds(plan, last=20):
            if info.state == "sealed" and info.reports:
                version = self.versions(plan)[info.key.version]
                return list(self._results(info, version, version.metrics, {}, None, confidence))
        return []

    def uneven(self, plan: str, last: int) -> list[Result]:
        """The histograms of a plan's latest rounds, newest first, whose reports chance does not explain."""
        versions = self.versions(plan)
        results = []
        for info in self._store.rounds(plan, last):
            version = versions[info.key.version]
            metrics = [metric for metric in version.metrics if shares_of_rows(metric)]
            if metrics:
                for result in self._results(info, version, metrics, {}, None, confidence=0.95):
                    if result.balance is not None and not result.balance.even:
                        results.append(result)
        return results

    def _results(
        self,
        info: RoundInfo,
        plan: Plan,
        metrics: Sequence[Metric],
        segment: Mapping[str, str],
        by: str | None,
        confidence: float,
    ) -> Iterator[Result]:
        window = plan.round(info.key.round)
        by_tags = self._counts.get(info.key)
        if by_tags is None:
            by_tags = self._store.counts(info.key)
            # `info` was read before the counts: a round that was sealed by then has its final counts here.
            # One that is sealed in between is not remembered yet, though its counts are final too.
            if info.state == "sealed":
                self._counts.put(info.key, by_tags)
        groups = _grouped(plan, by_tags, segment, by)
        for metric in metrics:
            for tags, by_metric in groups:
                counts = by_metric.get(metric.name)
                if counts is not None and counts.devices:
                    yield Result(
                        plan=plan.name,
                        version=plan.version,
                        metric=metric,
                        round=window.number,
                        start=window.start,
                        end=window.end,
                        state=_state(info),
                        segment=tags,
                        counts=counts,
                        estimate=estimate(metric, counts, confidence),
                    )

    def _check(
        self, plan: Plan, metric: str | None, segment: Mapping[str, str], by: str | None, confidence: float
    ) -> None:
        if metric is not None and metric not in plan.by_name:
            raise ParameterError("metric", f"one of {', '.join(plan.by_name)}", metric)
        tags_of = {segment.name: segment.tags for segment in plan.segments}
        for name, tag in segment.items():
            if name not in tags_of:
                raise ParameterError("segment", f"one of {', '.join(tags_of) or '(none declared)'}", name)
            if tag not in tags_of[name]:
                raise ParameterError(f"segment {name}", f"one of {', '.join(tags_of[name])}", tag)
        if by is not None and by not in tags_of:
            raise ParameterError("by", f"one of {', '.join(tags_of) or '(none declared)'}", by)
        if not 0 < confidence < 1:
            raise ParameterError("confidence", "a number between 0 and 1, both excluded", confidence)


def _state(info: RoundInfo) -> str:
    """A round that is closing is still open to whoever reads: its counts are not final."""
    return "sealed" if info.state == "sealed" else "open"


def _grouped(
    plan: Plan, counts: CountsByTags, segment: Mapping[str, str], by: str | None
) -> list[tuple[dict[str, str], dict[str, Counts]]]:
    """Counts added up over all tags but those asked for: one entry, or one per tag of segment `by`."""
    names = [segment.name for segment in plan.segments]
    totals: dict[str, dict[str, Counts]] = {}
    for tags, by_metric in counts.items():
        named = dict(zip(names, tags, strict=True))
        if any(named[name] != tag for name, tag in segment.items()):
            continue
        group = totals.setdefault(named[by] if by else "", {})
        for name, count in by_metric.items():
            group[name] = group[name] + count if name in group else count
    order = {segment.name: segment.tags for segment in plan.segments}[by] if by else ("",)
    return [({**segment, **({by: tag} if by else {})}, totals[tag]) for tag in order if tag in totals]
