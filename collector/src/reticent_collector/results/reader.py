"""
`Results`: plans, rounds and estimates of a store, for HTTP, the dashboard and the commands.

All figures are made of groups of at least `min_reports` reports, as docs/explanation/readers.md defines them: no
other counts leave this module. Each version of a plan in a round is partitioned into groups by itself, before counts
are added over versions: so a reader who has the sum and all versions but one has no smaller group, and a version with
too few reports in a round is not in its sum.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

from reticent.errors import ParameterError
from reticent.plan import Metric, Plan
from reticent_collector.counts import Counts
from reticent_collector.estimates import average
from reticent_collector.estimates.cohort_balance import shares_of_rows
from reticent_collector.estimates.versions import question, rhythm
from reticent_collector.results.against import earlier_span
from reticent_collector.results.cache import LruCache
from reticent_collector.results.difference import Difference, Side, difference_of
from reticent_collector.results.periods import (
    Period,
    PeriodState,
    Span,
    answered_every,
    check_every,
    metrics_kept,
    span_of,
    usual_every,
)
from reticent_collector.results.result import Estimates, Result, Withheld, reason_of
from reticent_collector.results.rows import Asked, in_table, key_of, read_figures, tags_asked
from reticent_collector.results.selection import Selection
from reticent_collector.results.trend import Trend, earlier_spans, trends_of
from reticent_collector.stores import (
    FEW,
    CountsByTags,
    DamagedError,
    Note,
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
MOST_BASELINES = 3  # tags of a segment with which the others are compared in the table of comparisons

Parts = dict[tuple[Metric, str], dict[int, dict[int, Counts]]]
"""By metric and tag: the counts of each round, by version of the plan."""
Read = dict[tuple[object, Span], tuple[Period, Parts]]
"""The counts of periods that were read, by their rhythm and rounds."""


_allowed: ContextVar[frozenset[str] | None] = ContextVar("the plans that are shown", default=None)
_lists: ContextVar[dict[Hashable, list[Period]] | None] = ContextVar(
    "the periods of one answer", default=None
)


@contextmanager
def one_answer(plans: Collection[str] = ()) -> Iterator[None]:
    """
    An answer to a reader, made in this thread or task of whatever `Results`.

    Periods are listed once for all its figures. Only these plans are shown; all if there are none.
    """
    tokens = _allowed.set(frozenset(plans) if plans else None), _lists.set({})
    try:
        yield
    finally:
        _allowed.reset(tokens[0])
        _lists.reset(tokens[1])


class Results:
    """Reads a store, from any thread; methods block. Counts of sealed rounds, which never change, are cached."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self.clock = clock
        self._counts: LruCache[CountsByTags] = LruCache(MOST_ROWS_CACHED)
        self._computed: LruCache[tuple[Result | Withheld, ...]] = LruCache(MOST_NUMBERS_CACHED)
        self._differences: LruCache[tuple[Difference, ...]] = LruCache(MOST_NUMBERS_CACHED)

    def plans(self) -> dict[str, Plan]:
        """The newest version of each plan, by name."""
        return {plan.name: plan for plan in sorted(self._plans(), key=lambda plan: plan.version)}

    def _plans(self) -> list[Plan]:
        """Every version of the plans that are shown."""
        allowed = _allowed.get()
        return [plan for plan in self._store.plans() if allowed is None or plan.name in allowed]

    def versions(self, plan: str) -> dict[int, Plan]:
        """Every version of a plan, newest first, by its number."""
        newest_first = sorted(self._plans(), key=lambda version: -version.version)
        return {version.version: version for version in newest_first if version.name == plan}

    def alike(self, plan: Plan) -> list[Plan]:
        """The versions of a plan with the same rounds and windows, newest first: their counts can be added."""
        return [version for version in self.versions(plan.name).values() if rhythm(version) == rhythm(plan)]

    def plan(self, name: str) -> Plan:
        """The newest version of a plan; raises `ParameterError` when there is none."""
        for plan in self.versions(name).values():
            return plan
        raise ParameterError("plan", "a plan this collector serves", name)

    def notes(
        self, plan: str | None = None, since: int | None = None, until: int | None = None
    ) -> list[Note]:
        """The notes of a plan and those of all plans, the oldest first, of times from `since` to before `until`."""
        known = self.plans()
        return [
            note
            for note in self._store.notes()
            if (note.plan in ("", plan) if plan is not None else note.plan in ("", *known))
            and (since is None or note.at >= since)
            and (until is None or note.at < until)
        ]

    def metric(self, plan: str, name: str) -> tuple[Plan, Metric]:
        """A metric, also one that ended, with the newest version that has it; `ParameterError` if none has."""
        known = self.metrics(plan)
        if name not in known:
            raise ParameterError("metric", f"one of {', '.join(known)}", name)
        return known[name]

    def metrics(self, plan: str) -> dict[str, tuple[Plan, Metric]]:
        """The metrics of all versions of a plan, but for deleted ones, each with the newest version that has it."""
        deleted = self._store.deleted()
        known: dict[str, tuple[Plan, Metric]] = {}
        for version in self.versions(plan).values():
            for metric in metrics_kept(version, deleted):
                known.setdefault(metric.name, (version, metric))
        return known

    def ended(self, plan: str) -> list[Metric]:
        """The metrics that older versions of a plan have and the newest has not, as the last one asked them."""
        newest = self.plan(plan).by_name
        return [metric for name, (_, metric) in self.metrics(plan).items() if name not in newest]

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[dict[str, Any]]:
        """The rounds of a plan, latest first, ready for JSON; without `reports` but with a `reason` if too few."""
        plans = {(version.name, version.version): version for version in self._plans()}
        rows = []
        for listed in self._store.rounds(plan, last):
            version = plans.get(listed.key[:2])
            if version is None:
                continue
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
        lists = _lists.get()
        if lists is None:
            return self._list(selection)
        times = selection.every, selection.since, selection.until, selection.last, selection.rounds
        key = id(self), selection.plan, selection.version, times
        if key not in lists:
            lists[key] = self._list(selection)
        return lists[key]

    def _list(self, selection: Selection) -> list[Period]:
        versions = self.versions(selection.plan)
        deleted = frozenset(self._store.deleted())
        alike = Counter[object](map(rhythm, versions.values()))
        periods = []
        for (beat, span), rounds in self._rounds_by_span(selection, versions).items():
            held = {info.key.version for info in rounds}
            plans = tuple(version for number, version in versions.items() if number in held)
            state = self._state(plans, span.first, span.last, rounds, alike[beat])
            periods.append(Period(plans[0], *span, state, tuple(rounds), plans, deleted))
        periods.sort(key=lambda period: (-period.end, -period.plan.version))
        periods = periods[: selection.last]
        if selection.rounds is None:
            return periods
        wanted = set(selection.rounds)
        return [one for one in periods if not wanted.isdisjoint(range(one.first, one.last + 1))]

    def _rounds_by_span(
        self, selection: Selection, versions: Mapping[int, Plan]
    ) -> dict[tuple[object, Span], list[RoundInfo]]:
        """The rounds of a selection by the period they are in; versions with other rounds have other periods."""
        chosen = None
        if selection.every is not None:
            chosen = check_every([self.plan(selection.plan), *versions.values()], selection.every)
        kinds = {number: chosen or usual_every(version) for number, version in versions.items()}
        # The number of rounds in the `last` days is not known, and none must be cut: then all rounds are listed.
        bounded = {*kinds.values()} <= {"round"} and selection.since is None and selection.until is None
        most = selection.last * len(versions) if bounded and selection.last is not None else None
        rhythms = {number: rhythm(version) for number, version in versions.items()}
        rounds_of: dict[tuple[object, Span], list[RoundInfo]] = {}
        for info in self._store.rounds(selection.plan, most):
            number = info.key.version
            if selection.version in (None, number):
                span = span_of(versions[number], info.key.round, kinds[number])
                if selection.begins_in(span.start):
                    rounds_of.setdefault((rhythms[number], span), []).append(info)
        return rounds_of

    def is_readable(self, period: Period, metrics: Sequence[Metric]) -> bool:
        """Whether the counts of some metrics in all its rounds can be read; some damage is found only then."""
        try:
            asked = {one.version: (one, _own_metrics(period, one, metrics)) for one in period.versions}
            for info in period.rounds:
                version, own = asked[info.key.version]
                self._groups(version, info, [*own.values()])
        except DamagedError:  # the store lists the round as damaged from now on
            return False
        return True

    def _state(
        self, versions: Sequence[Plan], first: int, last: int, rounds: Sequence[RoundInfo], alike: int
    ) -> PeriodState:
        """The state of a period of some rounds; so many versions of the plan, with reports or not, share it."""
        states = {_state(info) for info in rounds}
        alone = first == last and alike == 1
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

    def changes(self, selection: Selection) -> list[Difference]:
        """
        How metrics changed between two periods, latest first: see `reticent_collector.results.difference`.

        The selection is about the later of them; `against` says which is the other one, by default the period before.
        There is no change where that has no reports, asked with other parameters, or has no sealed round to compare.
        """
        asked = self._asked(selection)
        listed = self._by_span(selection)
        read: Read = {}
        changes: list[Difference] = []
        for period, metrics in asked:
            span = earlier_span(period, selection.against)
            earlier = listed.get((rhythm(period.plan), span))
            if earlier is not None and span.first != period.first:
                changes += self._subtracted(period, earlier, metrics, selection, read)
        return changes

    def differences(self, selection: Selection) -> list[Difference]:
        """
        How the devices of each tag of segment `by` differ from those of the tag `baseline`, latest period first.

        Compared are the rounds that both have in a period. Without a `baseline`, the changes.
        """
        if selection.baseline is None:
            return self.changes(selection)
        read: Read = {}
        differences: list[Difference] = []
        for period, metrics in self._asked(selection):
            differences += self._subtracted(period, period, metrics, selection, read)
        return differences

    def comparisons(self, period: Period, earlier: Mapping[str, Period]) -> Iterator[tuple[str, Difference]]:
        """
        A final period less earlier ones, by what they are against, and its tags less the largest ones ("tag").

        These are what the table of comparisons has. Of days it has those of the whole fleet alone.
        """
        metrics = list(period.metrics)
        segments = {segment.name: None for version in period.versions for segment in version.segments}
        for by in (None, *(segments if period.every != "day" else ())):
            selection = Selection(period.plan.name, by=by)
            read: Read = {}
            for against, other in earlier.items():
                for difference in self._subtracted(period, other, metrics, selection, read):
                    yield against, difference
            for tag in self._largest_tags(period, selection, read) if by else ():
                baseline = replace(selection, baseline=tag)
                for difference in self._subtracted(period, period, metrics, baseline, read):
                    yield "tag", difference

    def _largest_tags(self, period: Period, selection: Selection, read: Read) -> list[str]:
        """The tags with the most reports, as far as readers are shown them."""
        _, parts = self._final(period, selection, read)
        reports: dict[str, int] = {}
        for (_, tag), rounds in parts.items():
            devices = sum(counts.devices for by_version in rounds.values() for counts in by_version.values())
            reports[tag] = max(devices, reports.get(tag, 0))
        tags = sorted(reports.keys() - {FEW}, key=lambda tag: (-reports[tag], tag))
        return tags[:MOST_BASELINES]

    def trends(self, selection: Selection) -> list[Trend]:
        """Whether metrics rise or fall over the periods of a selection: see `reticent_collector.results.trend`."""
        asked = [(period, metrics) for period, metrics in self._asked(selection) if period.state == "sealed"]
        if not asked:
            return []
        last, metrics = next(((one, metrics) for one, metrics in asked if metrics), asked[0])
        since = min(period.start for period, _ in asked if rhythm(period.plan) == rhythm(last.plan))
        listed = {(rhythm(period.plan), _span(period)): period for period, _ in asked}
        spans = [(rhythm(last.plan), span) for span in earlier_spans(last, since)]
        earlier = [listed[span] for span in spans if span in listed]
        figures = len(metrics) * len(tags_asked(last, selection))
        strict = replace(
            selection,
            confidence=1 - (1 - selection.confidence) / max(1, figures * len(earlier)),
            baseline=None,
        )
        read: Read = {}
        by_figure: dict[tuple[Metric, str], list[Difference]] = {}
        for period in earlier:
            for one in self._subtracted(last, period, metrics, strict, read):
                tag = one.figure.segment.get(selection.by or "", "")
                by_figure.setdefault((one.figure.metric, tag), []).append(one)
        return [
            trend for compared in by_figure.values() for trend in trends_of(compared, selection.confidence)
        ]

    def _by_span(self, selection: Selection) -> dict[tuple[object, Span], Period]:
        """All periods of the kind that is selected, by their rounds."""
        return {(rhythm(one.plan), _span(one)): one for one in self._listed(selection.all_periods)}

    def _subtracted(
        self, period: Period, other: Period, metrics: Sequence[Metric], selection: Selection, read: Read
    ) -> tuple[Difference, ...]:
        """A period less another one, or each of its tags less the baseline; cached once both are sealed."""
        asked = _asked_key(metrics, selection)
        key = (_cache_key(period), _cache_key(other), *asked, selection.baseline)
        known = self._differences.get(key)
        if known is None:
            figure, baseline = (self._final(one, selection, read) for one in (period, other))
            wanted = {question(metric) for metric in metrics}
            pairs = _tags(figure, selection) if selection.baseline else _periods(figure, baseline, selection)
            made = (
                difference_of(metric, one, another, selection.confidence)
                for metric, one, another in pairs
                if question(metric) in wanted
            )
            known = tuple(difference for difference in made if difference is not None)
            if {figure[0].state, baseline[0].state} == {"sealed"}:
                self._differences.put(key, known, 1 + sum(len(one.numbers) for one in known))
        return known

    def _final(self, period: Period, selection: Selection, read: Read) -> tuple[Period, Parts]:
        """The counts of the sealed rounds of a period, read once for each call."""
        key = rhythm(period.plan), _span(period)
        if key not in read:
            left_out = {info.key.round for info in period.rounds if info.state != "sealed"}
            final = tuple(info for info in period.rounds if info.key.round not in left_out)
            asked_of = selection.metrics(period.metrics)
            readable, parts = self._parts(replace(period, rounds=final), asked_of, selection)
            read[key] = self._shown(readable), parts
        return read[key]

    def _asked(self, selection: Selection) -> list[tuple[Period, list[Metric]]]:
        """The metrics asked for in each period; refuses unknown names, and answers that are too large."""
        periods = self._listed(selection)
        versions = self.versions(selection.plan)
        # A metric that ended is one of the newest version that has it.
        known = self.metrics(selection.plan) if selection.metric is not None else {}
        version, _ = known.get(str(selection.metric), (self.plan(selection.plan), None))
        selection.check(version)
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
        known = self.plans()
        return [
            {**info.key._asdict(), "reason": info.damage.partition("\n")[0]}
            for info in self._store.rounds(plan, last)
            if info.damage and info.key.plan in known
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
        asked = {one.version: (one, _own_metrics(period, one, metrics)) for one in period.versions}
        for place, info in enumerate(period.rounds):
            version, own = asked[info.key.version]
            if info.damage or not selection.has_segments(version):
                continue
            names = [declared.name for declared in version.segments]
            try:
                groups = self._groups(version, info, [*own.values()])
            except DamagedError as error:  # the store lists the round as damaged from now on
                infos[place] = info._replace(reports=0, damage=error.reason)
                alike = len(self.alike(period.plan))
                state = self._state(period.versions, period.first, period.last, infos, alike)
                period = replace(period, rounds=tuple(infos), state=state)
                continue
            selected = [*_selected(groups, names, selection)]
            for metric in own:
                by_tag: dict[str, Counts] = {}
                for tag, by_metric in selected:
                    counts = by_metric.get(metric.name)
                    if counts is not None and counts.devices:
                        by_tag[tag] = by_tag[tag] + counts if tag in by_tag else counts
                for tag, counts in by_tag.items():
                    of_round = parts.setdefault((metric, tag), {}).setdefault(info.key.round, {})
                    of_round[version.version] = counts
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
            weight = len(by_metric[name]) * plan.by_name[name].mechanism.row_count
            self._counts.put((key, name), by_metric[name], 1 + weight)
        return by_metric


def _state(info: RoundInfo) -> PeriodState:
    """For readers a closing round is open: its counts are not final."""
    if info.damage:
        return "damaged"
    return "sealed" if info.state == "sealed" else "open"


def _own_metrics(period: Period, version: Plan, metrics: Sequence[Metric]) -> dict[Metric, Metric]:
    """By each of some metrics, that of a version of the plan whose counts add to it."""
    asked = {question(metric): metric for metric in metrics_kept(version, period.deleted)}
    return {metric: asked[question(metric)] for metric in metrics if question(metric) in asked}


def _selected(
    groups: CountsByTags, names: Sequence[str], selection: Selection
) -> Iterator[tuple[str, Mapping[str, Counts]]]:
    """The groups with the tags of a selection, each with its tag of the segment `by`."""
    for tags, by_metric in groups.items():
        named = dict(zip(names, tags, strict=True))
        if selection.segment.items() <= named.items():
            yield named[selection.by] if selection.by else "", by_metric


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


def _span(period: Period) -> Span:
    return Span(period.every, period.first, period.last, period.start, period.end)


def _periods(
    figure: tuple[Period, Parts], baseline: tuple[Period, Parts], selection: Selection
) -> Iterator[tuple[Metric, Side, Side]]:
    """Each figure of a period, and the same of another one."""
    period, parts = figure
    other, others = baseline
    known = {(question(metric), tag): rounds for (metric, tag), rounds in others.items()}
    for (metric, tag), by_version in parts.items():
        tags = selection.tags(tag)
        earlier = _added(known.get((question(metric), tag), {}))
        yield metric, Side(period, tags, *_added(by_version)), Side(other, tags, *earlier)


def _tags(figure: tuple[Period, Parts], selection: Selection) -> Iterator[tuple[Metric, Side, Side]]:
    """Each figure of a tag, and that of the baseline."""
    period, parts = figure
    chosen = str(selection.baseline)
    for (metric, tag), by_version in parts.items():
        if tag != chosen and (metric, chosen) in parts:
            sides = ((tag, by_version), (chosen, parts[metric, chosen]))
            one, other = (Side(period, selection.tags(name), *_added(rounds)) for name, rounds in sides)
            yield metric, one, other


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
