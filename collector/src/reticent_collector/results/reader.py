"""
`Results`: plans, rounds and estimates of a store, for HTTP, the dashboard and the commands.

All figures are made of groups of at least `min_reports` reports, as docs/explanation/readers.md defines them: no
other counts leave this module. Each version of a plan in a round is partitioned into groups by itself, before counts
are added over versions: so a reader who has the sum and all versions but one has no smaller group, and a version with
too few reports in a round is not in its sum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

from reticent.errors import ParameterError
from reticent.plan import Metric, Plan
from reticent_collector.counts import Counts
from reticent_collector.estimates import average, difference
from reticent_collector.estimates.cohort_balance import shares_of_rows
from reticent_collector.estimates.versions import question, rhythm
from reticent_collector.results.cache import LruCache
from reticent_collector.results.periods import (
    Period,
    PeriodState,
    Span,
    answered_every,
    check_every,
    span_of,
    usual_every,
)
from reticent_collector.results.result import Change, Estimates, Result, Withheld, reason_of
from reticent_collector.results.rows import Asked, in_table, key_of, read_figures, tags_asked
from reticent_collector.results.selection import Selection
from reticent_collector.stores import (
    FEW,
    CountsByTags,
    DamagedError,
    PeriodKey,
    RoundInfo,
    RoundKey,
    Store,
    folded,
    reports_of,
)

MOST_ROWS_CACHED = 2_000_000  # rows of the counts of sealed rounds in memory, some 70 bytes each
MOST_NUMBERS_CACHED = 100_000  # of sealed figures that are not in the table, about a kilobyte each
SETTLED_SECONDS = 60  # after the last round of a period closes, so that what was accepted in time is stored
MOST_ROUNDS_READ = 10_000  # rounds that a bounded answer is made of at most, unless one period has more


Parts = dict[tuple[Metric, str], dict[int, dict[int, Counts]]]
"""By metric and tag: the counts of each round, by version of the plan."""


class Results:
    """Reads a store, from any thread; methods block. Counts of sealed rounds, which never change, are cached."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self.clock = clock
        self._counts: LruCache[CountsByTags] = LruCache(MOST_ROWS_CACHED)
        self._computed: LruCache[tuple[Result | Withheld, ...]] = LruCache(MOST_NUMBERS_CACHED)
        self._changes: LruCache[tuple[Change, ...]] = LruCache(MOST_NUMBERS_CACHED)

    def plans(self) -> dict[str, Plan]:
        """The newest version of each plan, by name."""
        return {plan.name: plan for plan in sorted(self._store.plans(), key=lambda plan: plan.version)}

    def versions(self, plan: str) -> dict[int, Plan]:
        """Every version of a plan, newest first, by its number."""
        newest_first = sorted(self._store.plans(), key=lambda version: -version.version)
        return {version.version: version for version in newest_first if version.name == plan}

    def alike(self, plan: Plan) -> list[Plan]:
        """The versions of a plan with the same rounds and windows, newest first: their counts can be added."""
        return [version for version in self.versions(plan.name).values() if rhythm(version) == rhythm(plan)]

    def plan(self, name: str) -> Plan:
        """The newest version of a plan; raises `ParameterError` when there is none."""
        for plan in self.versions(name).values():
            return plan
        raise ParameterError("plan", "a plan this collector serves", name)

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[dict[str, Any]]:
        """The rounds of a plan, latest first, ready for JSON; without `reports` but with a `reason` if too few."""
        plans = {(version.name, version.version): version for version in self._store.plans()}
        rows = []
        for listed in self._store.rounds(plan, last):
            version = plans[listed.key[:2]]
            info, window = self._round(version, listed), version.round(listed.key.round)
            times = {"start": window.start, "end": window.end, "closes": window.closes}
            row = {**info.key._asdict(), **times, "state": _state(info), "reports": info.reports or None}
            rows.append(row if info.reports else {**row, "reason": reason_of(version, _state(info))})
        return rows

    def _round(self, plan: Plan, info: RoundInfo) -> RoundInfo:
        """A round with as many reports as are shown of it."""
        reports = info.reports
        if info.damage or (info.state == "sealed" and reports < plan.min_reports):
            reports = 0
        elif info.state != "sealed":
            try:
                reports = reports_of(plan, folded(plan, self._store.shown(info.key)))
            except DamagedError as error:  # found while it was counted
                return info._replace(reports=0, damage=error.reason)
        return info._replace(reports=reports)

    def periods(self, selection: Selection) -> list[Period]:
        """
        The periods of a selection that have reports, latest first: at most the `last` ones.

        Versions of a plan with the same rounds and windows share periods. A period is sealed when no report on any
        of its rounds can come any more, and all are sealed. With a damaged round it stays open, since that may be
        repaired.
        """
        return [self._shown(period) for period in self._listed(selection)]

    def _shown(self, period: Period) -> Period:
        plans = {version.version: version for version in period.versions}
        shown = tuple(self._round(plans[info.key.version], info) for info in period.rounds)
        return replace(period, rounds=shown)

    def _listed(self, selection: Selection) -> list[Period]:
        """The same periods, with all reports of their rounds: not for readers."""
        plan = selection.plan
        since = selection.since
        until = selection.until
        versions = self.versions(plan)
        chosen = None
        if selection.every is not None:
            chosen = check_every([self.plan(plan), *versions.values()], selection.every)
        kinds = {number: chosen or usual_every(version) for number, version in versions.items()}
        # The number of rounds in the `last` days is not known, and none must be cut: then all rounds are listed.
        bounded = {*kinds.values()} <= {"round"} and since is None and until is None
        most = selection.last * len(versions) if bounded and selection.last is not None else None
        rhythms = {number: rhythm(version) for number, version in versions.items()}
        rounds_of: dict[tuple[object, Span], list[RoundInfo]] = {}
        for info in self._store.rounds(plan, most):
            number = info.key.version
            if selection.version not in (None, number):
                continue
            span = span_of(versions[number], info.key.round, kinds[number])
            if (since is None or span.start >= since) and (until is None or span.start < until):
                rounds_of.setdefault((rhythms[number], span), []).append(info)
        periods = []
        for (_, span), rounds in rounds_of.items():
            held = {info.key.version for info in rounds}
            plans = tuple(version for number, version in versions.items() if number in held)
            state = self._state(plans, span.first, span.last, rounds)
            periods.append(Period(plans[0], *span, state, tuple(rounds), plans))
        periods.sort(key=lambda period: (-period.end, -period.plan.version))
        periods = periods[: selection.last]
        if selection.rounds is None:
            return periods
        wanted = set(selection.rounds)
        return [one for one in periods if not wanted.isdisjoint(range(one.first, one.last + 1))]

    def is_readable(self, period: Period, metrics: Sequence[Metric]) -> bool:
        """Whether the counts of some metrics in all its rounds can be read; some damage is found only then."""
        try:
            for info in period.rounds:
                version, own = _own_metrics(period, info, metrics)
                self._groups(version, info, [*own.values()])
        except DamagedError:  # the store lists the round as damaged from now on
            return False
        return True

    def _state(
        self, versions: Sequence[Plan], first: int, last: int, rounds: Sequence[RoundInfo]
    ) -> PeriodState:
        states = {_state(info) for info in rounds}
        alone = first == last and len(self.alike(versions[0])) == 1
        if len(states) == 1 and (alone or states == {"damaged"}):
            return states.pop()
        closes = max(version.round(last).closes for version in versions)
        over = alone or self.clock() >= closes + SETTLED_SECONDS
        return "sealed" if over and states == {"sealed"} else "open"

    def estimates(self, selection: Selection) -> Estimates:
        """
        The estimates of a plan's metrics, latest period first.

        Periods without reports have no estimate. An answer of several periods with more numbers than `most` of
        the selection, or made of more than `MOST_ROUNDS_READ` rounds, is refused before anything is computed.
        """
        asked = [(self._shown(period), metrics) for period, metrics in self._asked(selection)]
        return Estimates(self._figures(asked, selection))

    def _figures(self, asked: Sequence[Asked], selection: Selection) -> Iterator[Result | Withheld]:
        """The figures of periods: those in the table of results from there, others from the counts."""
        table = self._store.table
        written: dict[PeriodKey, list[Result | Withheld]] = {}
        if table is not None and in_table(selection):
            written = dict(read_figures(table, asked, selection))
        if selection.metric is not None:
            unwritten = [period for period, _ in asked if key_of(period) not in written]
            self.read_ahead(unwritten, selection.metric)
        for period, metrics in asked:
            figures = written.get(key_of(period))
            yield from self._remembered(period, metrics, selection) if figures is None else figures

    def _remembered(
        self, period: Period, metrics: Sequence[Metric], selection: Selection
    ) -> Sequence[Result | Withheld]:
        """The figures of a period from its counts; cached once it is sealed."""
        key = (_cache_key(period), *_asked_key(metrics, selection))
        known = self._computed.get(key)
        if known is None:
            known = tuple(self.computed(period, metrics, selection))
            if period.state == "sealed" and self.is_readable(period, metrics):
                numbers = sum(metric.mechanism.intervals for metric in metrics)
                self._computed.put(key, known, 1 + numbers * len(tags_asked(period, selection)))
        return known

    def changes(self, selection: Selection) -> list[Change]:
        """
        How metrics changed from one period to the next, latest first: see `reticent_collector.results.result`.

        The selection is about the later of two periods. There is no change where the period before has no
        reports, asked with other parameters, or has no sealed round to compare.
        """
        asked = self._asked(selection)
        followed_by = {(rhythm(one.plan), one.last + 1): one for one in self._listed(selection.all_periods)}
        known: dict[tuple[object, int], tuple[Period, Parts]] = {}
        changes: list[Change] = []
        for period, metrics in asked:
            way = rhythm(period.plan)
            earlier = followed_by.get((way, period.first))
            if earlier is None:
                continue
            key = (_cache_key(period), _cache_key(earlier), *_asked_key(metrics, selection))
            compared = self._changes.get(key)
            if compared is None:
                for one in (period, earlier):
                    if (way, one.first) not in known:
                        left_out = {info.key.round for info in one.rounds if info.state != "sealed"}
                        final = tuple(info for info in one.rounds if info.key.round not in left_out)
                        asked_of = selection.metrics(one.metrics)
                        readable, parts = self._parts(replace(one, rounds=final), asked_of, selection)
                        known[way, one.first] = self._shown(readable), parts
                after = known[way, period.first]
                before = known[way, earlier.first]
                compared = tuple(_compared(after, before, selection))
                if {after[0].state, before[0].state} == {"sealed"}:
                    self._changes.put(key, compared, 1 + sum(len(change.numbers) for change in compared))
            changes += compared
        return changes

    def _asked(self, selection: Selection) -> list[tuple[Period, list[Metric]]]:
        """The metrics asked for in each period; refuses unknown names, and answers that are too large."""
        periods = self._listed(selection)
        versions = self.versions(selection.plan)
        # A metric that ended is one of the newest version that has it.
        asked_in = (version for version in versions.values() if selection.metric in version.by_name)
        selection.check(next(asked_in, self.plan(selection.plan)))
        if selection.version is not None and selection.version not in versions:
            raise ParameterError(
                "version", f"one of {', '.join(map(str, sorted(versions)))}", selection.version
            )
        # A version of the plan without the segments that are asked for has no such figures.
        asked = []
        for period in periods:
            having = tuple(version for version in period.versions if selection.has_segments(version))
            if having:
                asked.append((period, selection.metrics(period.metrics)))
        if selection.most is not None and len(asked) > 1:
            _check_size(asked, selection.by, selection.most)
        return asked

    def damaged(self, plan: str | None, last: int | None = None) -> list[dict[str, Any]]:
        """The damaged rounds of a plan, latest first, ready for JSON."""
        return [
            {**info.key._asdict(), "reason": info.damage.partition("\n")[0]}
            for info in self._store.rounds(plan, last)
            if info.damage
        ]

    def newest(self, plan: str, confidence: float = 0.95) -> list[Result]:
        """The estimates of a plan's newest sealed round, or window, that has enough reports."""
        for period in self.periods(Selection(plan, last=20, every=answered_every(self.plan(plan)))):
            if period.state == "sealed" and period.reports:
                selection = Selection(plan, confidence=confidence)
                return list(self.results(period, period.metrics, selection))
        return []

    def uneven(self, last: int) -> list[Result]:
        """The newest round of each histogram, among the `last` ones, whose rows chance does not explain."""
        newest: dict[tuple[str, str], Result] = {}
        for plan in sorted(self.plans()):
            selection = Selection(plan, last=last, every="round")
            for period in self.periods(selection):
                metrics = [metric for metric in period.metrics if shares_of_rows(metric)]
                for result in self.results(period, metrics, selection) if metrics else ():
                    if result.balance is not None and not result.balance.even:
                        newest.setdefault((result.plan, result.metric.name), result)
        return list(newest.values())

    def results(self, period: Period, metrics: Sequence[Metric], selection: Selection) -> list[Result]:
        """The estimates of some metrics in one period; none when it is damaged."""
        return Estimates(self._figures([(period, metrics)], selection))

    def with_counts(self, result: Result) -> Result:
        """A figure with its counts, which one from the table of results does not have."""
        if result.by_round:
            return result
        metric = result.metric
        selection = Selection(result.plan, segment=result.segment, confidence=result.estimate.confidence)
        period, parts = self._parts(result.period, [metric], selection)
        by_round, _ = _added(parts.get((metric, ""), {}))
        if period.state == result.state and len(by_round) == result.rounds:
            return replace(result, by_round=by_round)
        computed = self.computed(result.period, [metric], selection)  # it was damaged or pruned meanwhile
        return next((figure for figure in computed if isinstance(figure, Result)), result)

    def computed(
        self, period: Period, metrics: Sequence[Metric], selection: Selection
    ) -> Iterator[Result | Withheld]:
        """
        The estimates of some metrics in one period, and the withheld figures, from the counts.

        Of the selection only its segment, tags and confidence matter here.
        """
        plan = period.plan
        period, parts = self._parts(period, metrics, selection)
        readable = period.state != "damaged"
        sealed = {info.key.round for info in period.rounds}
        sealed -= {info.key.round for info in period.rounds if info.state != "sealed"}
        for metric in metrics:
            for tag, tags in tags_asked(period, selection).items():
                by_round, versions = _added(parts.get((metric, tag), {}))
                # An open round may have only a few reports yet, and the round with the fewest determines the
                # interval of an average. The counts of a window of sampled answers simply add up.
                if not plan.answers.sampled and not sealed.isdisjoint(by_round):
                    by_round = {number: counts for number, counts in by_round.items() if number in sealed}
                if by_round:
                    estimate = average(metric, by_round, selection.confidence, plan)
                    yield Result.of_counts(period, metric, tags, estimate, by_round, versions)
                elif readable and tag != FEW and plan.min_reports > 1:
                    yield Withheld(period, metric, tags)

    def _parts(self, period: Period, metrics: Sequence[Metric], selection: Selection) -> tuple[Period, Parts]:
        """
        The counts of each round that a figure is made of, by metric and tag of segment `by`.

        Some damage is found only here. Then the period is another one than was listed: no longer final.
        """
        if len(metrics) == 1:
            self.read_ahead([period], metrics[0].name)
        parts: Parts = {}
        infos = list(period.rounds)
        for place, info in enumerate(period.rounds):
            version, own = _own_metrics(period, info, metrics)
            if info.damage or not selection.has_segments(version):
                continue
            names = [declared.name for declared in version.segments]
            try:
                groups = self._groups(version, info, [*own.values()])
            except DamagedError as error:  # the store lists the round as damaged from now on
                infos[place] = info._replace(reports=0, damage=error.reason)
                state = self._state(period.versions, period.first, period.last, infos)
                period = replace(period, rounds=tuple(infos), state=state)
                continue
            for tags, by_metric in groups.items():
                named = dict(zip(names, tags, strict=True))
                if any(named[name] != tag for name, tag in selection.segment.items()):
                    continue
                for metric in own:
                    counts = by_metric.get(metric.name)
                    if counts is None or not counts.devices:
                        continue
                    rounds = parts.setdefault((metric, named[selection.by] if selection.by else ""), {})
                    of_versions = rounds.setdefault(info.key.round, {})
                    known = of_versions.get(version.version)
                    of_versions[version.version] = counts if known is None else known + counts
        # Of a round that cannot be read under one version, a part of the fleet would look like all of it.
        damaged = {info.key.round for info in infos if info.damage}
        for rounds in parts.values():
            for number in damaged & rounds.keys():
                del rounds[number]
        return period, {figure: rounds for figure, rounds in parts.items() if rounds}

    def _groups(self, plan: Plan, info: RoundInfo, metrics: Sequence[Metric]) -> CountsByTags:
        """The counts of some metrics in the groups that are shown of a round; every figure is made of these."""
        if info.state != "sealed":
            return folded(plan, self._store.shown(info.key))
        # `info` was read before the counts: a round that was sealed by then has its final counts here. The counts
        # of a round sealed in between are final too, and not cached yet.
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

        What is not read here is read on demand, a whole round at a time. Plans whose devices answer some of the
        metrics are always read so: the number of reports of a group is known from all metrics only.
        """
        wanted: dict[RoundKey, Plan] = {
            info.key: version
            for period in periods
            for version in period.versions
            if metric in version.by_name and not version.asked_bytes
            for info in period.rounds
            if info.key.version == version.version
            and info.state == "sealed"
            and not info.damage
            and self._counts.get((info.key, metric)) is None
        }
        with suppress(DamagedError):  # raised again when that round is read by itself
            for key, counts in self._store.metric_counts(list(wanted), metric).items() if wanted else ():
                self._remember(wanted[key], key, counts)

    def _remember(self, plan: Plan, key: RoundKey, counts: CountsByTags) -> dict[str, CountsByTags]:
        """The groups that are shown of the counts of a sealed round, by metric; cached."""
        by_metric: dict[str, CountsByTags] = {name: {} for name in plan.by_name}
        for tags, group in folded(plan, counts).items():
            for name, of_metric in group.items():
                by_metric[name][tags] = {name: of_metric}
        named = {name for group in counts.values() for name in group}
        for name in named or by_metric.keys():
            weight = sum(plan.by_name[name].mechanism.row_count for _ in by_metric[name])
            self._counts.put((key, name), by_metric[name], 1 + weight)
        return by_metric


def _state(info: RoundInfo) -> PeriodState:
    """For readers a closing round is open: its counts are not final."""
    if info.damage:
        return "damaged"
    return "sealed" if info.state == "sealed" else "open"


def _own_metrics(
    period: Period, info: RoundInfo, metrics: Sequence[Metric]
) -> tuple[Plan, dict[Metric, Metric]]:
    """The version of the plan that a round is of, and by each of some metrics the version's own that adds to it."""
    version = next(version for version in period.versions if version.version == info.key.version)
    asked = {question(metric): metric for metric in version.metrics}
    return version, {metric: asked[question(metric)] for metric in metrics if question(metric) in asked}


def _added(rounds: Mapping[int, Mapping[int, Counts]]) -> tuple[dict[int, Counts], tuple[int, ...]]:
    """The counts of each round over versions of a plan, and these versions."""
    versions = tuple(sorted({version for by_version in rounds.values() for version in by_version}))
    return {
        number: reduce(add, by_version.values()) for number, by_version in sorted(rounds.items())
    }, versions


def _cache_key(period: Period) -> tuple[object, ...]:
    """A period in a cache: another state, round or report makes another key."""
    return key_of(period), period.state, len(period.rounds), period.reports


def _asked_key(metrics: Sequence[Metric], selection: Selection) -> tuple[object, ...]:
    """What is asked for of a period, in a cache."""
    tags = tuple(sorted(selection.segment.items()))
    asked = tuple(question(metric) for metric in metrics)
    return asked, tags, selection.by, selection.confidence, selection.version


def _compared(
    after: tuple[Period, Parts], before: tuple[Period, Parts], selection: Selection
) -> Iterator[Change]:
    """The changes between two periods in a row, each of the rounds that both have."""
    period, later_parts = after
    earlier, earlier_parts = before
    confidence = selection.confidence
    shift = period.first - earlier.first
    known = {(question(metric), tag): rounds for (metric, tag), rounds in earlier_parts.items()}
    for (metric, tag), by_version in later_parts.items():
        later, versions = _added(by_version)
        rounds, versions_before = _added(known.get((question(metric), tag), {}))
        numbers = sorted(number for number in later if number - shift in rounds)
        if not numbers:
            continue
        tags = selection.tags(tag)
        of_later = {number: later[number] for number in numbers}
        of_earlier = {number - shift: rounds[number - shift] for number in numbers}
        new = average(metric, of_later, confidence, period.plan)
        old = average(metric, of_earlier, confidence, period.plan)
        yield Change(
            Result(period, metric, tags, new, len(of_later), by_round=of_later, added=versions),
            Result(earlier, metric, tags, old, len(of_earlier), by_round=of_earlier, added=versions_before),
            difference(metric, of_later, of_earlier, confidence, period.plan),
        )


def _check_size(asked: Sequence[tuple[Period, Sequence[Metric]]], by: str | None, most: int) -> None:
    """Raise `ParameterError` for an answer of too many numbers or rounds."""
    numbers = 0
    for period, metrics in asked:
        tags = next((len(one.tags) + 1 for one in period.plan.segments if one.name == by), 1)
        shapes = (one.mechanism for one in metrics)
        numbers += tags * sum(len(one.points) - 1 if one.kind == "histogram" else 1 for one in shapes)
    rounds = sum(len(period.rounds) for period, _ in asked)
    if numbers > most or rounds > MOST_ROUNDS_READ:
        share = min(most / max(numbers, 1), MOST_ROUNDS_READ / max(rounds, 1))
        raise ParameterError(
            "last",
            f"at most {max(1, int(len(asked) * share)):,} periods at once of what is asked, with {most:,} "
            f"numbers from {MOST_ROUNDS_READ:,} rounds in all",
            f"{len(asked):,}, with {numbers:,} numbers from {rounds:,} rounds",
            "ask for a part at a time with since and until, for one metric, or without by",
        )
