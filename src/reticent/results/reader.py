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
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Generic, NamedTuple, TypeVar

from reticent.counts import ABOUT, Counts
from reticent.errors import ParameterError
from reticent.estimates import (
    Balance,
    CumulativeEstimate,
    Estimate,
    HistogramEstimate,
    average,
    balance,
    cumulative,
    difference,
    shares_of_rows,
)
from reticent.estimates.table import subject_row
from reticent.plan import Metric, Plan
from reticent.results.changes import Change
from reticent.results.periods import (
    Every,
    Period,
    Span,
    State,
    answered_every,
    check_every,
    span_of,
    usual_every,
)
from reticent.stores import FEW, CountsByTags, DamagedError, RoundInfo, RoundKey, Rounds, folded, reports_of

REMEMBERED = 2_000_000
"""How many rows of sealed rounds' counts are kept in memory, some 70 bytes each; they never change."""

SETTLED_SECONDS = 60
"""After the last round of a period closes, so that what was accepted in time is stored."""
MOST_ROUNDS_READ = 10_000
"""How many rounds an answer that is bounded is made of at most, unless one period has more."""

T = TypeVar("T")


class LruCache(Generic[T]):
    """
    The latest values that can never change, at most so many, or of so much weight; for any number of threads.

    >>> cache: LruCache[str] = LruCache(2)
    >>> for word in ("one", "two", "three"):
    ...     cache.put(word, word.upper())
    >>> cache.get("one"), cache.get("three")
    (None, 'THREE')
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        """The value of a key; None when it is not known, or no longer."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Hashable, value: T, weight: int = 1) -> None:
        """Remember a value, and forget those that were not asked for longest."""
        with self._lock:
            self._weight += weight - self._values.get(key, (None, 0))[1]
            self._values[key] = value, weight
            self._values.move_to_end(key)
            while self._weight > self._most:
                self._weight -= self._values.popitem(last=False)[1][1]


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
        """The number of its last round."""
        return self.period.last

    @property
    def start(self) -> int:
        """When the period begins, in unix seconds."""
        return self.period.start

    @property
    def end(self) -> int:
        """When it ends."""
        return self.period.end

    @property
    def state(self) -> State:
        """Whether it is "open": provisional, reports still come in; or "sealed": final; or "damaged"."""
        return self.period.state

    @property
    def every(self) -> Every:
        """What the period is: a round, window, day, week or month."""
        return self.period.every

    def to_dict(self) -> dict[str, Any]:
        """What `GET /v1/estimates` says of it."""
        return {**subject_row(self), "kind": self.metric.kind}

    def about(self) -> dict[str, Any]:
        """What it is of, without the figure."""
        return Subject.to_dict(self)


@dataclass(frozen=True, slots=True)
class Result(Subject):
    """The estimate of one metric in one period and segment."""

    by_round: Mapping[int, Counts]
    """The counts that it is made of, by the number of their round."""
    estimate: Estimate | HistogramEstimate

    @property
    def counts(self) -> Counts:
        """The counts of all its rounds. Where answers are remembered, they are not that many independent reports."""
        return reduce(add, self.by_round.values())

    @property
    def rounds_missing(self) -> int:
        """How many rounds of the period are not in it: nobody or too few answered, or they are not over yet."""
        return self.period.possible_rounds - len(self.by_round)

    @property
    def cumulative(self) -> CumulativeEstimate:
        """The cumulative histogram, of which quantiles are read; only for histograms."""
        answers = self.period.plan.answers
        rounds, confidence = [*self.by_round.values()], self.estimate.confidence
        return cumulative(self.metric, rounds, confidence, answers, self.estimate)

    @property
    def balance(self) -> Balance | None:
        """
        The reports of each row against chance; None where there is nothing to compare.

        Nor is there for several rounds of remembered answers: a device is on the same row in all of them.
        """
        if len(self.by_round) > 1 and not self.period.plan.answers.sampled:
            return None
        return balance(self.metric, self.counts)

    def to_dict(self) -> dict[str, Any]:
        """What `GET /v1/estimates` answers."""
        against_chance = self.balance
        return {
            **Subject.to_dict(self),
            "rounds": len(self.by_round),
            "rounds_missing": self.rounds_missing,
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
        if self.period.possible_rounds == 1:
            return _reason(self.period.plan, self.state)
        yet = "" if self.state == "sealed" else " to show yet"
        return f"no round has {self.period.plan.min_reports:,} reports{yet}"

    def to_dict(self) -> dict[str, Any]:
        """What `GET /v1/estimates` lists apart."""
        return {**Subject.to_dict(self), "unit": self.metric.unit, "reports": None, "reason": self.reason}


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


class _Part(NamedTuple):
    """One round of a figure."""

    sealed: bool
    counts: Counts


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
        for info in self._rounds(self._store.rounds(plan, last)):
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

    def _rounds(self, infos: Iterable[RoundInfo]) -> list[RoundInfo]:
        """Rounds, each with as many reports as are shown of it."""
        plans = {(version.name, version.version): version for version in self._store.plans()}
        return [self._round(plans[info.key[:2]], info) for info in infos]

    def _round(self, plan: Plan, info: RoundInfo) -> RoundInfo:
        reports = info.reports
        if info.damage or (info.state == "sealed" and reports < plan.min_reports):
            reports = 0
        elif info.state != "sealed" and plan.min_reports > 1:
            reports = reports_of(plan, folded(plan, self._store.shown(info.key)))
        return info._replace(reports=reports)

    def periods(
        self,
        plan: str,
        last: int | None = None,
        every: str | None = None,
        since: int | None = None,
        until: int | None = None,
    ) -> list[Period]:
        """
        The periods of a plan that have reports, latest first: at most the `last` ones.

        `every` is one of `EVERY`; left out, it is `usual_every` of each version. `since` and `until` pick the
        periods that begin at or after the one and before the other, in unix seconds. Versions of a plan have
        periods of their own. A period is sealed when no report on any of its rounds can come any more, and
        all are sealed. Where a round of it is damaged it stays open, since that may be repaired.
        """
        return [self._shown(period) for period in self._listed(plan, last, every, since, until)]

    def _shown(self, period: Period) -> Period:
        return replace(period, rounds=tuple(self._round(period.plan, info) for info in period.rounds))

    def _listed(
        self,
        plan: str,
        last: int | None = None,
        every: str | None = None,
        since: int | None = None,
        until: int | None = None,
    ) -> list[Period]:
        """The same periods; `reports` of their rounds are all there are, so this is not for readers."""
        versions = self.versions(plan)
        chosen = None if every is None else self._chosen(plan, every)
        kinds = {number: chosen or usual_every(version) for number, version in versions.items()}
        # How many rounds the `last` days are is not known, and none must be cut: then all rounds are listed.
        bounded = {*kinds.values()} <= {"round"} and since is None and until is None
        rounds_of: dict[tuple[int, Span], list[RoundInfo]] = {}
        for info in self._store.rounds(plan, last if bounded else None):
            number = info.key.version
            span = span_of(versions[number], info.key.round, kinds[number])
            if (since is None or span.start >= since) and (until is None or span.start < until):
                rounds_of.setdefault((number, span), []).append(info)
        latest = sorted(rounds_of.items(), key=lambda item: (-item[0][1].end, -item[0][0]))[:last]
        return [
            Period(versions[number], *span, self._state(versions[number], span, rounds), tuple(rounds))
            for (number, span), rounds in latest
        ]

    def _chosen(self, plan: str, every: str) -> Every:
        """The kind of period that is asked for: one that any version has, since each has periods of its own."""
        newest, *older = (self.plan(plan), *self.versions(plan).values())
        for version in older:
            with suppress(ParameterError):
                return check_every(version, every)
        return check_every(newest, every)

    def is_readable(self, period: Period, metrics: Sequence[Metric]) -> bool:
        """Whether the counts of some metrics in all its rounds can be read: some damage is found only then."""
        try:
            for info in period.rounds:
                self._groups(period.plan, info, metrics)
        except DamagedError:  # the store says so of the round from now on
            return False
        return True

    def _state(self, plan: Plan, span: Span, rounds: Sequence[RoundInfo]) -> State:
        states = {_state(info) for info in rounds}
        if len(states) == 1 and (span.first == span.last or states == {"damaged"}):
            return states.pop()
        over = self.clock() >= plan.round(span.last).closes + SETTLED_SECONDS
        return "sealed" if over and states == {"sealed"} else "open"

    def estimates(
        self,
        plan: str,
        metric: str | None = None,
        rounds: Sequence[int] | None = None,
        last: int | None = None,
        segment: Mapping[str, str] | None = None,
        by: str | None = None,
        confidence: float = 0.95,
        every: str | None = None,
        since: int | None = None,
        until: int | None = None,
        most: int | None = None,
    ) -> Estimates:
        """
        The estimates of a plan's metrics, latest period first.

        `every`, `last`, `since` and `until` pick periods, as for `periods`; `rounds` picks rounds by number, and
        with `every` the periods that they are in. `segment` keeps the devices with these tags; `by` names a
        segment whose tags are estimated apart: those of reports whose tag is rare stand under "(few)". Periods
        that nobody answered have no estimate. `most` bounds the numbers of an answer, each a mean or the share
        of a bucket: what would have more of them, or is made of more than `MOST_ROUNDS_READ` rounds, in more
        than one period, is refused before anything is worked out.
        """
        if every is None and rounds is not None:
            every = "round"
        periods = self._listed(plan, last, every, since, until)
        if rounds is not None:
            wanted = set(rounds)
            periods = [one for one in periods if not wanted.isdisjoint(range(one.first, one.last + 1))]
        asked = self._asked(plan, periods, metric, segment or {}, by, confidence, most)
        if metric is not None:
            self.read_ahead([period for period, _ in asked], metric)
        figures: list[Result | Withheld] = []
        for period, metrics in asked:
            figures += self.figures(self._shown(period), metrics, segment, by, confidence)
        return Estimates(figures)

    def changes(
        self,
        plan: str,
        metric: str | None = None,
        last: int | None = None,
        segment: Mapping[str, str] | None = None,
        by: str | None = None,
        confidence: float = 0.95,
        every: str | None = None,
        since: int | None = None,
        until: int | None = None,
        most: int | None = None,
    ) -> list[Change]:
        """
        How metrics changed from one period to the next, latest first: see `reticent.results.changes`.

        What is asked for is said as for `estimates`, and is about the later of two periods. There is no change
        where the period before it has no reports, is one of another version, or shares no sealed round with it.
        """
        picked = segment or {}
        wanted = self._listed(plan, last, every, since, until)
        asked = self._asked(plan, wanted, metric, picked, by, confidence, most)
        followed_by = {(one.plan.version, one.last + 1): one for one in self._listed(plan, None, every)}
        known: dict[tuple[int, int], tuple[Period, dict[tuple[str, str], dict[int, Counts]]]] = {}
        changes = []
        for period, metrics in asked:
            earlier = followed_by.get((period.plan.version, period.first))
            if earlier is None:
                continue
            for one in (period, earlier):
                if (one.plan.version, one.first) not in known:
                    sealed = {
                        key: {number: part.counts for number, part in parts.items() if part.sealed}
                        for key, parts in self._parts(one, metrics, picked, by).items()
                    }
                    known[one.plan.version, one.first] = self._shown(one), sealed
            after, later_rounds = known[period.plan.version, period.first]
            before, earlier_rounds = known[period.plan.version, earlier.first]
            shift = period.first - earlier.first
            for (name, tag), later in later_rounds.items():
                rounds = earlier_rounds.get((name, tag), {})
                numbers = sorted(number for number in later if number - shift in rounds)
                if numbers:
                    changes.append(
                        _change(
                            (after, {number: later[number] for number in numbers}),
                            (before, {number - shift: rounds[number - shift] for number in numbers}),
                            period.plan.by_name[name],
                            {**picked, **({by: tag} if by else {})},
                            confidence,
                        )
                    )
        return changes

    def _asked(
        self,
        plan: str,
        periods: Sequence[Period],
        metric: str | None,
        segment: Mapping[str, str],
        by: str | None,
        confidence: float,
        most: int | None,
    ) -> list[tuple[Period, list[Metric]]]:
        """Of each period the metrics that are asked for; refuses what there is not, and what is too much."""
        self.check(self.plan(plan), metric, segment, by, confidence)
        asked: list[tuple[Period, list[Metric]]] = []
        numbers = 0
        for period in periods:
            if not {*segment, *([by] if by else [])} <= {declared.name for declared in period.plan.segments}:
                continue  # this version of the plan had no such segment
            metrics = [one for one in period.plan.metrics if metric in (None, one.name)]
            asked.append((period, metrics))
            numbers += _numbers(period.plan, metrics, by)
        rounds = sum(len(period.rounds) for period, _ in asked)
        if most is not None and len(asked) > 1 and (numbers > most or rounds > MOST_ROUNDS_READ):
            share = min(most / max(numbers, 1), MOST_ROUNDS_READ / max(rounds, 1))
            raise ParameterError(
                "last",
                f"at most {max(1, int(len(asked) * share)):,} periods at once of what is asked, with {most:,} "
                f"numbers from {MOST_ROUNDS_READ:,} rounds in all",
                f"{len(asked):,}, with {numbers:,} numbers from {rounds:,} rounds",
                "ask for a part at a time with since and until, for one metric, or without by",
            )
        return asked

    def damaged(self, plan: str | None, last: int | None = None) -> list[dict[str, Any]]:
        """The rounds of a plan that cannot be read and have no figures, latest first, ready for JSON."""
        return [
            {**info.key._asdict(), "reason": info.damage.partition("\n")[0]}
            for info in self._store.rounds(plan, last)
            if info.damage
        ]

    def newest(self, plan: str, confidence: float = 0.95) -> list[Result]:
        """The estimates of a plan's newest sealed round, or window, that has enough reports."""
        for period in self.periods(plan, 20, answered_every(self.plan(plan))):
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
        plan, picked = period.plan, segment or {}
        parts = self._parts(period, metrics, picked, by)
        tags_of = {segment.name: (*segment.tags, FEW) for segment in plan.segments}
        readable = period.state != "damaged"
        for metric in metrics:
            for tag in tags_of[by] if by else ("",):
                tags = {**picked, **({by: tag} if by else {})}
                by_round = parts.get((metric.name, tag), {})
                # Reports on an open round may have only begun to come, and the fewest of a round decide over
                # the interval of an average. The counts of sampled answers add up as they are.
                if not plan.answers.sampled and any(part.sealed for part in by_round.values()):
                    by_round = {number: part for number, part in by_round.items() if part.sealed}
                counts = {number: part.counts for number, part in sorted(by_round.items())}
                if counts:
                    figure = average(metric, [*counts.values()], confidence, plan.answers)
                    yield Result(period, metric, tags, counts, figure)
                elif readable and tag != FEW and plan.min_reports > 1:
                    yield Withheld(period, metric, tags)

    def _parts(
        self, period: Period, metrics: Sequence[Metric], segment: Mapping[str, str], by: str | None
    ) -> dict[tuple[str, str], dict[int, _Part]]:
        """The counts of each round that a figure is made of, by metric and tag of segment `by`."""
        if len(metrics) == 1:
            self.read_ahead([period], metrics[0].name)
        names = [declared.name for declared in period.plan.segments]
        parts: dict[tuple[str, str], dict[int, _Part]] = {}
        for info in period.rounds:
            if info.damage:
                continue
            try:
                groups = self._groups(period.plan, info, metrics)
            except DamagedError:  # found while reading: the store says so of the round from now on
                continue
            for tags, by_metric in groups.items():
                named = dict(zip(names, tags, strict=True))
                if any(named[name] != tag for name, tag in segment.items()):
                    continue
                for metric in metrics:
                    counts = by_metric.get(metric.name)
                    if counts is None or not counts.devices:
                        continue
                    rounds = parts.setdefault((metric.name, named[by] if by else ""), {})
                    if info.key.round in rounds:
                        counts = rounds[info.key.round].counts + counts
                    rounds[info.key.round] = _Part(info.state == "sealed", counts)
        return parts

    def _groups(self, plan: Plan, info: RoundInfo, metrics: Sequence[Metric]) -> CountsByTags:
        """The counts of some metrics in the groups that are shown of a round: all that any figure is made of."""
        if info.state != "sealed":
            return folded(plan, self._store.shown(info.key))
        # `info` was read before the counts: a round that was sealed by then has its final counts here. What is
        # sealed in between is not remembered yet, though its counts are final too.
        groups: CountsByTags = {}
        whole: dict[str, CountsByTags] = {}
        for metric in metrics:
            of_metric = whole.get(metric.name) or self._counts.get((info.key, metric.name))
            if of_metric is None:
                whole = self._remember(plan, info.key, self._store.counts(info.key))
                of_metric = whole[metric.name]
            for tags, by_metric in of_metric.items():
                groups.setdefault(tags, {}).update(by_metric)
        return groups

    def read_ahead(self, periods: Iterable[Period], metric: str) -> None:
        """
        Read the sealed counts of one metric in many periods at once, without those of other metrics.

        What is not read here is read when it is asked for, a whole round at a time. So it is where a device answers
        some of the metrics: how many reports a group has is known from all of them alone.
        """
        wanted: dict[RoundKey, Plan] = {
            info.key: period.plan
            for period in periods
            if metric in period.plan.by_name and not period.plan.asked_bytes
            for info in period.rounds
            if info.state == "sealed" and not info.damage and self._counts.get((info.key, metric)) is None
        }
        with suppress(DamagedError):  # who asks for that round by itself is told so
            for key, counts in self._store.metric_counts(list(wanted), metric).items() if wanted else ():
                self._remember(wanted[key], key, counts)

    def _remember(self, plan: Plan, key: RoundKey, counts: CountsByTags) -> dict[str, CountsByTags]:
        """The groups that are shown of the counts of a sealed round, by metric; remembered so, too."""
        by_metric: dict[str, CountsByTags] = {name: {} for name in plan.by_name}
        for tags, group in folded(plan, counts).items():
            for name, of_metric in group.items():
                by_metric[name][tags] = {name: of_metric}
        named = {name for group in counts.values() for name in group}
        for name in named or by_metric.keys():
            weight = sum(plan.by_name[name].mechanism.row_count for _ in by_metric[name])
            self._counts.put((key, name), by_metric[name], 1 + weight)
        return by_metric

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


def _change(
    later: tuple[Period, Mapping[int, Counts]],
    earlier: tuple[Period, Mapping[int, Counts]],
    metric: Metric,
    tags: Mapping[str, str],
    confidence: float,
) -> Change:
    """The change between the given rounds of two periods."""
    answers = later[0].plan.answers
    after, before = (
        Result(period, metric, tags, counts, average(metric, [*counts.values()], confidence, answers))
        for period, counts in (later, earlier)
    )
    changed = difference(metric, [*later[1].values()], [*earlier[1].values()], confidence, answers)
    return Change(after, before, changed)


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
