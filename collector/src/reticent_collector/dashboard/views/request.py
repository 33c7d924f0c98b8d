"""What the page of a metric is asked for, and the figures that answer it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from reticent.plan import Metric, Plan
from reticent_collector.dashboard import charts
from reticent_collector.dashboard.params import Params
from reticent_collector.dashboard.points import Point, PointReader, comparable
from reticent_collector.dashboard.views import Picture, shade_of
from reticent_collector.results import (
    Difference,
    Every,
    Selection,
    against_choices,
    unix_seconds,
    usual_against,
    usual_every,
)

Parts = tuple[dict[str, Any], dict[str, Picture]]
"""What is shown, and the charts that can be downloaded."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The metric that a page is about, and the choices in its address."""

    reader: PointReader
    plan: Plan
    metric: Metric
    params: Params

    @property
    def versions(self) -> dict[int, Plan]:
        """Every version of the plan, newest first."""
        return self.reader.results.versions(self.plan.name)

    @property
    def path(self) -> str:
        """The address of the page."""
        return f"/plans/{self.plan.name}/metrics/{self.metric.name}"

    @property
    def is_mean(self) -> bool:
        """Whether it is one number per period."""
        return self.metric.mechanism.kind == "mean"

    @property
    def every(self) -> Every:
        """What a point is about: a round, a day and so on."""
        return self.params.every or usual_every(self.plan)  # type: ignore[return-value]

    @property
    def at(self) -> int | None:
        """The time that a histogram is wanted of; None: the latest."""
        return unix_seconds("at", self.params.at) if self.params.at and not self.is_mean else None

    @property
    def againsts(self) -> list[str]:
        """What a change can be against."""
        return against_choices(self.plan, self.every)

    @property
    def against(self) -> str:
        """What changes are against."""
        return self.params.against or usual_against(self.plan, self.every)

    @property
    def selection(self) -> Selection:
        """The figures that are shown, by tag where tags are compared."""
        return self.params.selection(self.plan.name, self.metric.name, self.every)

    @property
    def among(self) -> str:
        """The devices that a chart is about, for its title; nothing for all."""
        version = f", version {self.params.version} of the plan alone" if self.params.version else ""
        return "".join(f", {name} {tag}" for name, tag in self.params.tags_picked.items()) + version

    def read(self, **changes: Any) -> list[Point]:
        """The points of the whole fleet, or of the one tag that is chosen, latest first; some choices changed."""
        return self.reader.points(self.plan, replace(self.selection, **{"by": None, **changes}))

    def points_by_tag(self, like: Point) -> dict[str, list[Point]]:
        """The points of each tag of the segment that is compared, in units like that of a point."""
        by_tag: dict[str, list[Point]] = {}
        by = self.params.by
        for point in comparable(self.read(by=by), like) if by else ():
            by_tag.setdefault(point.segment[by], []).append(point)
        return by_tag

    def tags_at(self, point: Point) -> dict[str, Point]:
        """The points of each tag in one period."""
        self.selection.check(self.plan)
        if not self.params.by:
            return {}
        return {tag: Point.of(result) for tag, result in self.reader.by_tag(point, self.params.by).items()}

    def differences(self, point: Point, baseline: str) -> dict[str, Difference]:
        """How the tags differ from one of them in the period of a point."""
        selection = replace(
            self.selection,
            every=point.every,
            last=None,
            since=point.start,
            until=point.start + 1,
            baseline=baseline,
        )
        by = self.params.by
        differences = self.reader.results.differences(selection)
        return {
            one.figure.segment[by]: one for one in differences if one.figure.metric.name == self.metric.name
        }

    def key(self, tag: str) -> Markup:
        """How the line of a tag is drawn, for a legend."""
        return charts.key(shade_of(self.plan, self.params.by, tag))
