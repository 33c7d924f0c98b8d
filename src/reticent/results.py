"""
What readers are shown of a store: plans, rounds and estimates, for HTTP, the dashboard and the commands.

`Results(store)` is asked; each of its answers about a metric in a `Period` is a `Result`, or `Withheld` where
there are too few reports. All of them are made of groups of at least `min_reports` reports, as
docs/explanation/readers.md defines them: no other counts leave this module.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from reticent.counts import ABOUT, Counts
from reticent.errors import ParameterError
from reticent.estimates import Balance, Estimate, HistogramEstimate, balance, estimate, shares_of_rows
from reticent.plan import Metric, Plan
from reticent.stores import FEW, CountsByTags, DamagedError, RoundInfo, Rounds, folded, reports_of

REMEMBERED = 4096
"""How many sealed rounds' counts are kept in memory; they never change."""

SETTLED_SECONDS = 60
"""After the last round of a window closes, so that what was accepted in time is stored."""
State = Literal["open", "sealed", "damaged"]

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
class Period:
    """
    What one estimate is made of: a round, or the rounds of a window of sampled answers.

    Devices with sampled answers report once per window, with fresh draws, so the counts of its rounds add up.
    """

    plan: Plan
    first: int
    """The number of its first round."""
    last: int
    state: State
    rounds: tuple[RoundInfo, ...]
    """Those that have reports, latest first, each with as many as are shown of it."""

    @property
    def reports(self) -> int:
        """Reports that are shown; 0 where there are too few of them."""
        return sum(info.reports for info in self.rounds)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a figure is about: a metric, in a period, in a segment."""

    period: Period
    metric: Metric
    segment: Mapping[str, str]
    """The tags that were picked; empty for the whole fleet."""

    @property
    def plan(self) -> str:
        """The plan's name."""
        return self.period.plan.name

    @property
    def version(self) -> int:
        """The plan's version."""
        return self.period.plan.version

    @property
    def round(self) -> int:
        """The number of the period's first round."""
        return self.period.first

    @property
    def to(self) -> int:
        """The number of its last round: the same, but for a window."""
        return self.period.last

    @property
    def start(self) -> int:
        """When the first round begins, in unix seconds."""
        return self.period.plan.round(self.period.first).start

    @property
    def end(self) -> int:
        """When the last round ends."""
        return self.period.plan.round(self.period.last).end

    @property
    def state(self) -> State:
        """Whether it is "open": provisional, reports still come in; or "sealed": final; or "damaged"."""
        return self.period.state

    def to_dict(self) -> dict[str, Any]:
        """What `GET /v1/estimates` says of it."""
        return {
            "plan": self.plan,
            "version": self.version,
            "metric": self.metric.name,
            "kind": self.metric.kind,
            "round": self.round,
            "from": self.round,
            "to": self.to,
            "start": self.start,
            "end": self.end,
            "state": self.state,
            "segment": dict(self.segment),
        }


@dataclass(frozen=True, slots=True)
class Result(Subject):
    """The estimate of one metric in one period and segment."""

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
            **Subject.to_dict(self),
            **self.estimate.to_dict(),
            **({"balance": against_chance.to_dict()} if against_chance else {}),
        }


@dataclass(frozen=True, slots=True)
class Withheld(Subject):
    """A figure that is not shown, since there are too few reports for it, perhaps none at all."""

    @property
    def estimate(self) -> None:
        """There is none."""

    @property
    def reason(self) -> str:
        """Why, in words that are the same for any number of reports that is too small."""
        return _reason(self.period.plan, self.state)

    def to_dict(self) -> dict[str, Any]:
        """What `GET /v1/estimates` lists apart."""
        return {**Subject.to_dict(self), "reports": None, "reason": self.reason}


class Estimates(list[Result]):
    """Estimates, latest first, and what was asked for and is `withheld`."""

    def __init__(self, figures: Iterable[Result | Withheld] = ()) -> None:
        self.withheld: list[Withheld] = []
        for figure in figures:
            if isinstance(figure, Result):
                self.append(figure)
            else:
                self.withheld.append(figure)

    def to_dict(self) -> dict[str, Any]:
        """What `GET /v1/estimates` answers."""
        return {
            "about": ABOUT,
            "estimates": [result.to_dict() for result in self],
            "withheld": [figure.to_dict() for figure in self.withheld],
        }

    @property
    def rows(self) -> list[Result | Withheld]:
        """All of it, for a table: what is withheld comes last."""
        return [*self, *self.withheld]


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
        """
        The rounds of a plan, latest first, with their times and states, ready for JSON.

        `reports` are those that are shown; None where there are too few, and then `reason` says so.
        """
        plans = {(version.name, version.version): version for version in self._store.plans()}
        rows = []
        for info in self._rounds(plan, last):
            version = plans[info.key[:2]]
            window = version.round(info.key.round)
            rows.append(
                {
                    "plan": info.key.plan,
                    "version": info.key.version,
                    "round": window.number,
                    "start": window.start,
                    "end": window.end,
                    "closes": window.closes,
                    "state": _state(info),
                    "reports": info.reports or None,
                    **({} if info.reports else {"reason": _reason(version, _state(info))}),
                }
            )
        return rows

    def _rounds(self, plan: str | None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of a plan, latest first, each with as many reports as are shown of it."""
        plans = {(version.name, version.version): version for version in self._store.plans()}
        rounds = []
        for info in self._store.rounds(plan, last):
            version = plans[info.key[:2]]
            reports = info.reports
            if info.damage or (info.state == "sealed" and reports < version.min_reports):
                reports = 0
            elif info.state != "sealed" and version.min_reports > 1:
                reports = reports_of(version, self._groups(version, info))
            rounds.append(info._replace(reports=reports))
        return rounds

    def periods(self, plan: str, last: int | None = None, per: str | None = None) -> list[Period]:
        """
        The periods of a plan that have reports, latest first: at most the `last` ones.

        `per` is "round" or "window". Left out, it is what each version answers in: windows where answers are
        sampled, else rounds. A window is sealed when no report on any of its rounds can come any more.
        """
        versions = self.versions(plan)
        if per not in (None, "round", "window"):
            raise ParameterError("period", "round or window", per[:20])
        if per == "window" and not self.plan(plan).answers.sampled:
            raise ParameterError("period", "round: the answers of this plan are remembered", per)
        if per == "round" or not any(version.answers.sampled for version in versions.values()):
            return [
                Period(versions[info.key.version], info.key.round, info.key.round, _state(info), (info,))
                for info in self._rounds(plan, last)
            ]
        # `last` windows are an unknown number of rounds, and a window must not be cut: all rounds are listed.
        rounds_of: dict[tuple[int, int, int], list[RoundInfo]] = {}
        for info in self._rounds(plan):
            version, number = versions[info.key.version], info.key.round
            window = version.answers.window_of(number, version.round_seconds)
            ends = (window.first, window.first + window.rounds - 1) if window else (number, number)
            rounds_of.setdefault((version.version, *ends), []).append(info)
        periods = []
        for (number, first, end), rounds in rounds_of.items():
            version = versions[number]
            over = first == end or self.clock() >= version.round(end).closes + SETTLED_SECONDS
            states = {_state(info) for info in rounds}
            state: State = "sealed" if over and states == {"sealed"} else "open"
            if "damaged" in states:
                state = "damaged"
            periods.append(Period(version, first, end, state, tuple(rounds)))
        return sorted(
            periods, key=lambda period: (-period.plan.round(period.last).end, -period.plan.version)
        )[:last]

    def estimates(
        self,
        plan: str,
        metric: str | None = None,
        rounds: Sequence[int] | None = None,
        last: int | None = None,
        segment: Mapping[str, str] | None = None,
        by: str | None = None,
        confidence: float = 0.95,
        per: str | None = None,
        most: int | None = None,
    ) -> Estimates:
        """
        The estimates of a plan's metrics, latest period first.

        A period is a round, or a window where answers are sampled; `per` picks one of them, as for `periods`.
        `rounds` picks rounds by number, and with `per="window"` the windows that they are in; `last` picks the
        latest periods. `segment` keeps the devices with these tags; `by` names a segment whose tags are
        estimated apart: those of reports whose tag is rare stand under "(few)". Periods that nobody answered
        have no estimate. `most` bounds the numbers of an answer, each a mean or the share of a bucket: what
        would have more of them, in more than one period, is refused before anything is worked out.
        """
        picked = segment or {}
        self.check(self.plan(plan), metric, picked, by, confidence)
        if per is None and rounds is not None:
            per = "round"
        wanted = None if rounds is None else set(rounds)
        asked: list[tuple[Period, list[Metric]]] = []
        numbers = 0
        for period in self.periods(plan, last, per):
            declared = {segment.name for segment in period.plan.segments}
            if wanted is not None and wanted.isdisjoint(range(period.first, period.last + 1)):
                continue
            if not {*picked, *([by] if by else [])} <= declared:
                continue  # this version of the plan had no such segment
            metrics = [one for one in period.plan.metrics if metric in (None, one.name)]
            asked.append((period, metrics))
            numbers += _numbers(period.plan, metrics, by)
        if most is not None and numbers > most and len(asked) > 1:
            fitting = max(1, most * len(asked) // numbers)
            raise ParameterError(
                "last or round",
                f"at most {fitting:,} rounds or windows at once of what is asked, with {most:,} numbers in all",
                f"{len(asked):,}, with {numbers:,} numbers",
                "ask for a part at a time with round=FIRST-LAST, for one metric, or without by",
            )
        figures: list[Result | Withheld] = []
        for period, metrics in asked:
            figures += self.figures(period, metrics, picked, by, confidence)
        return Estimates(figures)

    def damaged(self, plan: str | None, last: int | None = None) -> list[dict[str, Any]]:
        """The rounds of a plan that cannot be read and have no figures, latest first, ready for JSON."""
        return [
            {**info.key._asdict(), "reason": info.damage.partition("\n")[0]}
            for info in self._store.rounds(plan, last)
            if info.damage
        ]

    def newest(self, plan: str, confidence: float = 0.95) -> list[Result]:
        """The estimates of a plan's newest sealed period that has enough reports."""
        for period in self.periods(plan, last=20):
            if period.state == "sealed" and period.reports:
                return list(self.results(period, period.plan.metrics, confidence=confidence))
        return []

    def uneven(self, plan: str, last: int) -> list[Result]:
        """The histograms of a plan's latest rounds, newest first, whose reports chance does not explain."""
        results = []
        for period in self.periods(plan, last, "round"):
            metrics = [metric for metric in period.plan.metrics if shares_of_rows(metric)]
            for result in self.results(period, metrics) if metrics else ():
                if result.balance is not None and not result.balance.even:
                    results.append(result)
        return results

    def results(
        self,
        period: Period,
        metrics: Sequence[Metric],
        segment: Mapping[str, str] | None = None,
        by: str | None = None,
        confidence: float = 0.95,
    ) -> list[Result]:
        """The estimates of some metrics in one period; none when it is damaged."""
        return Estimates(self.figures(period, metrics, segment, by, confidence))

    def figures(
        self,
        period: Period,
        metrics: Sequence[Metric],
        segment: Mapping[str, str] | None = None,
        by: str | None = None,
        confidence: float = 0.95,
    ) -> Iterator[Result | Withheld]:
        """The estimates of some metrics in one period, and what is withheld of what was asked for."""
        if period.state == "damaged":
            return
        plan, picked = period.plan, segment or {}
        names = [segment.name for segment in plan.segments]
        totals: dict[str, dict[str, Counts]] = {}  # by tag of segment `by`, and metric
        for info in period.rounds:
            try:
                groups = self._groups(plan, info)
            except DamagedError:  # found while reading: the store says so of the round from now on
                return
            for tags, by_metric in groups.items():
                named = dict(zip(names, tags, strict=True))
                if any(named[name] != tag for name, tag in picked.items()):
                    continue
                group = totals.setdefault(named[by] if by else "", {})
                for name, counts in by_metric.items():
                    group[name] = group[name] + counts if name in group else counts
        tags_of = {segment.name: (*segment.tags, FEW) for segment in plan.segments}
        for metric in metrics:
            for tag in tags_of[by] if by else ("",):
                tags_picked = {**picked, **({by: tag} if by else {})}
                counted = totals.get(tag, {}).get(metric.name)
                if counted is not None and counted.devices:
                    figure = estimate(metric, counted, confidence)
                    yield Result(period, metric, tags_picked, counted, figure)
                elif tag not in totals and tag != FEW and plan.min_reports > 1:
                    yield Withheld(period, metric, tags_picked)

    def _groups(self, plan: Plan, info: RoundInfo) -> CountsByTags:
        """The counts of the groups that are shown of a round: all that any figure is made of."""
        by_tags = self._counts.get(info.key)
        if by_tags is None:
            counts = self._store.counts if info.state == "sealed" else self._store.shown
            by_tags = folded(plan, counts(info.key))
            # `info` was read before the counts: a round that was sealed by then has its final counts here.
            # One that is sealed in between is not remembered yet, though its counts are final too.
            if info.state == "sealed":
                self._counts.put(info.key, by_tags)
        return by_tags

    @staticmethod
    def check(
        plan: Plan, metric: str | None, segment: Mapping[str, str], by: str | None, confidence: float
    ) -> None:
        """Raise `ParameterError` for what a plan does not have."""
        if metric is not None and metric not in plan.by_name:
            raise ParameterError("metric", f"one of {', '.join(plan.by_name)}", metric)
        tags_of = {segment.name: segment.tags for segment in plan.segments}
        for name, tag in segment.items():
            if name not in tags_of:
                raise ParameterError("segment", f"one of {', '.join(tags_of) or '(none declared)'}", name)
            if tag not in (*tags_of[name], FEW):
                raise ParameterError(f"segment {name}", f"one of {', '.join(tags_of[name])}", tag)
        if by is not None and by not in tags_of:
            raise ParameterError("by", f"one of {', '.join(tags_of) or '(none declared)'}", by)
        if not 0 < confidence < 1:
            raise ParameterError("confidence", "a number between 0 and 1, both excluded", confidence)


def _state(info: RoundInfo) -> State:
    """A round that is closing is still open to readers: its counts are not final."""
    if info.damage:
        return "damaged"
    return "sealed" if info.state == "sealed" else "open"


def _reason(plan: Plan, state: State) -> str:
    """Why nothing is shown: the same words for any number of reports that is too small, and for none."""
    if state == "damaged":
        return "damaged: reticent store check says what is wrong"
    least = f"{plan.min_reports:,} reports"
    return (
        f"fewer than {least}" if state == "sealed" else f"an open round is shown in steps of at least {least}"
    )


def _numbers(plan: Plan, metrics: Sequence[Metric], by: str | None) -> int:
    """How many numbers with an interval an answer about a period has at most."""
    tags = next((len(segment.tags) + 1 for segment in plan.segments if segment.name == by), 1)
    buckets = (len(metric.mechanism.points) - 1 for metric in metrics if metric.mechanism.kind == "histogram")
    return tags * (sum(buckets) + sum(metric.mechanism.kind == "mean" for metric in metrics))
