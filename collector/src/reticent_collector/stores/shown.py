"""
What readers are shown of a round: sums over groups of at least `min_reports` reports, and nothing else.

`folded` partitions the reports of a sealed round into such groups, `Step` those of an open one, and the second
partition is finer than the first; docs/explanation/readers.md has the theorem and its proof. The groups depend
on how many reports came with which tags, and never on an answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from reticent.plan import Plan
from reticent_collector.stores.records import Count, CountsByTags, add_counts, counts_of_rows, reports_of

FEW = "(few)"
"""The tag of reports whose own tag is not shown; no plan can declare it."""
GROWTH = 10  # an open round takes a step when it has a tenth more reports, so any round takes few
MOST_STEP_BYTES = 1 << 22  # a larger step is not taken, so no commit waits long; the seal shows the round


def folded(plan: Plan, counts: CountsByTags) -> CountsByTags:
    """
    The groups of a sealed round: combinations of tags, the rare ones together. Nothing, if it has too few reports.

    Combinations with fewer than `min_reports` lose their last tag and join those that share the tags before
    it; where that is still too few, the tag before it goes too. What is too few without any tag takes in the
    smallest of the other groups.
    """
    width, groups = len(plan.segments), counts
    for place in reversed(range(width)):
        kept, joined = {}, CountsByTags()
        for tags, by_metric in groups.items():
            if reports_of(plan, {tags: by_metric}) >= plan.min_reports:
                kept[tags] = by_metric
            else:
                wider = (*tags[:place], *[FEW] * (width - place))
                joined = add_counts(joined, {wider: by_metric})
        groups = kept | joined
    rest = (FEW,) * width
    if rest not in groups or reports_of(plan, {rest: groups[rest]}) >= plan.min_reports:
        return groups
    others = {tags: by_metric for tags, by_metric in groups.items() if tags != rest}
    if not others:
        return {}
    smallest = min(others, key=lambda tags: (reports_of(plan, {tags: others[tags]}), tags))
    return add_counts({rest: others.pop(smallest)} | others, {rest: groups[rest]})


@dataclass(frozen=True, slots=True)
class Step:
    """
    What is shown of an open round, and what will be shown next, for each combination of tags.

    A combination moves on when it has at least `min_reports` more than the waiting counts: these are shown then,
    and the current counts wait. So what is shown always lacks at least `min_reports` of the reports that came,
    and the seal, which shows all of them, adds at least as many at once.
    """

    number: int = 0
    reports: int = 0  #: how many the round had stored when the step was taken
    shown: CountsByTags = field(default_factory=dict)
    waiting: CountsByTags = field(default_factory=dict)

    def is_due(self, plan: Plan, reports: int) -> bool:
        """Whether a round with so many reports takes the next step; fewer new reports change nothing."""
        return reports - self.reports >= max(plan.min_reports, self.reports // GROWTH)

    def following(self, plan: Plan, counts: CountsByTags, stored: int) -> Step:
        """The next step; `counts` have each id once, and include all reports that were counted for this one."""
        shown, waiting = dict(self.shown), dict(self.waiting)
        for tags, by_metric in counts.items():
            before = reports_of(plan, {tags: self.waiting.get(tags, {})})
            if reports_of(plan, {tags: by_metric}) - before >= plan.min_reports:
                if tags in self.waiting:
                    shown[tags] = self.waiting[tags]
                waiting[tags] = by_metric
        return Step(self.number + 1, stored, shown, waiting)

    def to_json(self) -> str:
        """A step as a document, without its number."""
        rows = {name: list(Count(0, getattr(self, name)).rows()) for name in ("shown", "waiting")}
        return json.dumps({"reports": self.reports, **rows}, separators=(",", ":"))

    @classmethod
    def from_json(cls, plan: Plan, number: int, document: str) -> Step:
        """The step of a stored document."""
        kept = json.loads(document)
        return cls(
            number, kept["reports"], *(counts_of_rows(plan, kept[name]) for name in ("shown", "waiting"))
        )
