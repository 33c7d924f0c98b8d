"""What a store can tell: plans, rounds and estimates, for HTTP, the dashboard and the commands."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.counts import Counts
from reticent.errors import ParameterError
from reticent.estimates import Estimate, HistogramEstimate, estimate
from reticent.estimates.balance import Balance, balance, shares_of_rows
from reticent.plan import Metric, Plan
from reticent.stores import CountsByTags, RoundInfo, RoundKey, Store

REMEMBERED = 4096
"""How many sealed rounds' counts are kept in memory; they never change."""


@dataclass(frozen=True, slots=True)
class Found:
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
            **({"balance": found.to_dict()} if (found := self.balance) else {}),
        }


@dataclass(frozen=True, slots=True)
class Uneven:
    """A histogram whose reports in one round chance does not explain."""

    plan: str
    version: int
    metric: Metric
    round: int
    start: int
    end: int
    state: str
    balance: Balance

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "plan": self.plan,
            "version": self.version,
            "metric": self.metric.name,
            "round": self.round,
            "start": self.start,
            "end": self.end,
            "state": self.state,
            **self.balance.to_dict(),
        }


class Reader:
    """
    Reads a store. Counts of sealed rounds are remembered, since they never change; open rounds are read anew.

    Methods block and may be called from any thread.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self.clock = clock
        self._counts: OrderedDict[RoundKey, CountsByTags] = OrderedDict()
        self._lock = threading.Lock()

    def plans(self) -> dict[str, Plan]:
        """The newest version of each plan, by name."""
        return {plan.name: plan for plan in sorted(self.store.plans(), key=lambda plan: plan.version)}

    def plan(self, name: str, version: int | None = None) -> Plan:
        """A plan by name; raises `ParameterError` when there is none."""
        for plan in sorted(self.store.plans(), key=lambda plan: -plan.version):
            if plan.name == name and version in (None, plan.version):
                return plan
        raise ParameterError("plan", "a plan this collector serves", name)

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[dict[str, Any]]:
        """The rounds of a plan, latest first, with their times and states, ready for JSON."""
        by_key = {(each.name, each.version): each for each in self.store.plans()}
        return [
            self._round(info, by_key[info.key.plan, info.key.version])
            for info in self.store.rounds(plan, last)
        ]

    def _round(self, info: RoundInfo, plan: Plan) -> dict[str, Any]:
        asked = plan.round(info.key.round)
        return {
            "plan": plan.name,
            "version": plan.version,
            "round": asked.number,
            "start": asked.start,
            "end": asked.end,
            "closes": asked.closes,
            "state": "sealed" if info.state == "sealed" else "open",
            "reports": info.reports,
        }

    def estimates(
        self,
        plan: str,
        metric: str | None = None,
        rounds: Sequence[int] | None = None,
        last: int | None = None,
        segment: Mapping[str, str] | None = None,
        by: str | None = None,
        confidence: float = 0.95,
    ) -> list[Found]:
        """
        The estimates of a plan's metrics, latest round first.

        `rounds` picks rounds by number, `last` the latest ones. `segment` keeps the devices with these tags;
        `by` names a segment whose tags are estimated apart. Rounds that nobody answered have no estimate.
        """
        asked = self.plan(plan)
        self._check(asked, metric, segment, by, confidence)
        wanted = set(rounds) if rounds is not None else None
        versions = {each.version: each for each in self.store.plans() if each.name == plan}
        return [
            found
            for info in self.store.rounds(plan, last)
            if wanted is None or info.key.round in wanted
            for found in self._found(info, versions[info.key.version], metric, segment or {}, by, confidence)
        ]

    def newest(self, plan: str, confidence: float = 0.95) -> list[Found]:
        """The estimates of a plan's newest sealed round that has reports."""
        for info in self.store.rounds(plan, last=20):
            if info.state == "sealed" and info.reports:
                versions = {each.version: each for each in self.store.plans() if each.name == plan}
                return list(self._found(info, versions[info.key.version], None, {}, None, confidence))
        return []

    def uneven(self, plan: str, last: int) -> list[Uneven]:
        """The histograms of a plan's latest rounds, newest first, whose reports chance does not explain."""
        versions = {each.version: each for each in self.store.plans() if each.name == plan}
        return [
            found
            for info in self.store.rounds(plan, last)
            for found in self._uneven(info, versions[info.key.version])
        ]

    def _uneven(self, info: RoundInfo, plan: Plan) -> Iterator[Uneven]:
        if not any(shares_of_rows(metric) for metric in plan.metrics):
            return
        asked, state = plan.round(info.key.round), "sealed" if info.state == "sealed" else "open"
        for _, by_metric in grouped(plan, self._counts_of(info), {}, None):
            for metric in plan.metrics:
                found = balance(metric, by_metric[metric.name]) if metric.name in by_metric else None
                if found is not None and not found.even:
                    yield Uneven(
                        *(plan.name, plan.version, metric, asked.number, asked.start, asked.end, state, found)
                    )

    def _found(
        self,
        info: RoundInfo,
        plan: Plan,
        name: str | None,
        segment: Mapping[str, str],
        by: str | None,
        confidence: float,
    ) -> Iterator[Found]:
        declared = {each.name for each in plan.segments}
        if not {*segment, *([by] if by else [])} <= declared:
            return  # this version of the plan had no such segment
        asked = plan.round(info.key.round)
        state = "sealed" if info.state == "sealed" else "open"
        groups = grouped(plan, self._counts_of(info), segment, by)
        for metric in plan.metrics:
            if name not in (None, metric.name):
                continue
            for tags, by_metric in groups:
                if metric.name in by_metric and by_metric[metric.name].devices:
                    yield Found(
                        *(plan.name, plan.version, metric, asked.number, asked.start, asked.end, state, tags),
                        by_metric[metric.name],
                        estimate(metric, by_metric[metric.name], confidence),
                    )

    def _counts_of(self, info: RoundInfo) -> CountsByTags:
        with self._lock:
            known = self._counts.get(info.key)
            if known is not None:
                self._counts.move_to_end(info.key)
                return known
        counts = self.store.counts(info.key)
        if info.state == "sealed":
            with self._lock:
                self._counts[info.key] = counts
                while len(self._counts) > REMEMBERED:
                    self._counts.popitem(last=False)
        return counts

    def _check(
        self,
        plan: Plan,
        metric: str | None,
        segment: Mapping[str, str] | None,
        by: str | None,
        confidence: float,
    ) -> None:
        if metric is not None and metric not in plan.by_name:
            raise ParameterError("metric", f"one of {', '.join(plan.by_name)}", metric)
        known = {each.name: each for each in plan.segments}
        for name, tag in (segment or {}).items():
            if name not in known:
                raise ParameterError("segment", f"one of {', '.join(known) or '(none declared)'}", name)
            if tag not in known[name].tags:
                raise ParameterError(f"segment {name}", f"one of {', '.join(known[name].tags)}", tag)
        if by is not None and by not in known:
            raise ParameterError("by", f"one of {', '.join(known) or '(none declared)'}", by)
        if not 0 < confidence < 1:
            raise ParameterError("confidence", "a number between 0 and 1, both excluded", confidence)


def grouped(
    plan: Plan, counts: CountsByTags, segment: Mapping[str, str], by: str | None
) -> list[tuple[dict[str, str], dict[str, Counts]]]:
    """Counts added up over all tags but those asked for: one entry, or one per tag of segment `by`."""
    names = [each.name for each in plan.segments]
    totals: dict[str, dict[str, Counts]] = {}
    for tags, by_metric in counts.items():
        named = dict(zip(names, tags, strict=True))
        if any(named[name] != tag for name, tag in segment.items()):
            continue
        group = totals.setdefault(named[by] if by else "", {})
        for name, count in by_metric.items():
            group[name] = group[name] + count if name in group else count
    order = {each.name: each for each in plan.segments}[by].tags if by else ("",)
    return [({**segment, **({by: tag} if by else {})}, totals[tag]) for tag in order if tag in totals]
