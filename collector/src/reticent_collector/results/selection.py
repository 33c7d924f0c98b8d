"""`Selection`: which figures a reader asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from reticent.errors import ParameterError
from reticent.plan import Metric, Plan
from reticent_collector.stores import FEW


@dataclass(frozen=True, slots=True)
class Selection:
    """
    Which figures of a plan are asked for: a page, a request and a command each make one of their own parameters.

    `every` is one of `EVERY`; by default `usual_every` of each version of the plan, or "round" where `rounds` are
    given. `since` and `until` select the periods that begin at or after the one and before the other. `segment`
    keeps the devices with these tags; `by` names a segment whose tags are estimated separately, with rare tags
    together under "(few)". `most` bounds the numbers of an answer, each a mean or the share of a bucket. `against` and
    `baseline` are for comparisons: see `Results.changes` and `Results.differences`.

    >>> Selection("app-usage", "starts", by="os", last=7).query()[:4]
    [('plan', 'app-usage'), ('metric', 'starts'), ('confidence', '0.95'), ('by', 'os')]
    """

    plan: str
    metric: str | None = None  # None: all
    rounds: Sequence[int] | None = None  # these rounds, or the periods that hold them, by number
    last: int | None = None  # the latest periods; None: all
    segment: Mapping[str, str] = field(default_factory=dict, hash=False)
    by: str | None = None
    confidence: float = 0.95
    every: str | None = None
    since: int | None = None  # unix seconds
    until: int | None = None  # unix seconds
    version: int | None = None  # of the plan, apart from the others; None: counts are added over versions
    most: int | None = None
    against: str = "before"  # what a change is against: one of `AGAINST`, or a date
    baseline: str | None = None  # the tag of segment `by` that others are compared with

    def __post_init__(self) -> None:
        object.__setattr__(self, "segment", MappingProxyType(dict(self.segment)))
        if self.rounds is not None:
            object.__setattr__(self, "rounds", tuple(self.rounds))
            if self.every is None:
                object.__setattr__(self, "every", "round")

    @property
    def all_periods(self) -> Selection:
        """The same figures in every period."""
        return replace(self, rounds=None, last=None, since=None, until=None)

    def metrics(self, asked: Iterable[Metric]) -> list[Metric]:
        """Those of some metrics that are asked for."""
        return [metric for metric in asked if self.metric in (None, metric.name)]

    def has_segments(self, plan: Plan) -> bool:
        """Whether a version of the plan has the segments that are asked for."""
        declared = {segment.name for segment in plan.segments}
        return declared.issuperset(self.segment) and (not self.by or self.by in declared)

    def tags(self, tag: str) -> dict[str, str]:
        """The tags of the devices that a figure is about, where `tag` is that of segment `by`."""
        return {**self.segment, self.by: tag} if self.by else dict(self.segment)

    def check(self, plan: Plan) -> None:
        """Raise `ParameterError` for a metric, segment or tag that the plan does not have."""
        if self.metric is not None and self.metric not in plan.by_name:
            raise ParameterError("metric", f"one of {', '.join(plan.by_name)}", self.metric)
        tags_of = {segment.name: segment.tags for segment in plan.segments}
        for name, tag in self.segment.items():
            if name not in tags_of:
                raise ParameterError("segment", f"one of {', '.join(tags_of) or '(none declared)'}", name)
            if tag not in (*tags_of[name], FEW):
                raise ParameterError(f"segment {name}", f"one of {', '.join(tags_of[name])}", tag)
        if self.by is not None and self.by not in tags_of:
            raise ParameterError("by", f"one of {', '.join(tags_of) or '(none declared)'}", self.by)
        if self.baseline is not None and self.by is None:
            raise ParameterError("by", "the segment of which the baseline is a tag", "none")
        if self.baseline is not None and self.baseline not in tags_of[str(self.by)]:
            raise ParameterError("baseline", f"one of {', '.join(tags_of[str(self.by)])}", self.baseline)
        if not 0 < self.confidence < 1:
            raise ParameterError("confidence", "a number between 0 and 1, both excluded", self.confidence)

    def begins_in(self, start: int) -> bool:
        """Whether what begins then is between `since` and `until`."""
        return (self.since is None or start >= self.since) and (self.until is None or start < self.until)

    def query(self) -> list[tuple[str, str]]:
        """The parameters by which `/v1/estimates` of a collector answers the same."""
        names = ("plan", "metric", "confidence", "every", "by", "last", "since", "until", "version")
        pairs = [(name, str(getattr(self, name))) for name in names if getattr(self, name) is not None]
        pairs += [("round", str(number)) for number in self.rounds or ()]
        return pairs + [("segment", f"{name}:{tag}") for name, tag in self.segment.items()]

    @property
    def against_query(self) -> list[tuple[str, str]]:
        """What `/v1/changes` and `/v1/differences` take besides: against what."""
        pairs = [] if self.against == "before" else [("against", self.against)]
        return [*pairs, *([("baseline", self.baseline)] if self.baseline else [])]
