"""The choices on a page: the query of its address, validated."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from reticent.errors import ParameterError, ReticentError
from reticent_collector.results import EVERY, Query, Selection, unix_seconds
from reticent_collector.results.query import short

CONFIDENCES = (80, 90, 95, 99)
ROUNDS = (14, 30, 60, 120, 200, 500, 1000)
MOST_PERIODS = 1000
VIEWS = ("raw", "norm-sub")
SORTS = ("plan", "name", "change", "certainty")
CHARTS = ("series", "shares", "below")


class NotHereError(ReticentError):
    """A plan or metric that this collector does not have."""

    def __init__(self, what: str, name: str, instead: str = "/") -> None:
        self.what = what
        self.instead = instead
        super().__init__(f"There is no {what} called “{name}”.")


@dataclass(frozen=True, slots=True)
class Params:
    """
    The choices on a page. Addresses leave every default out.

    >>> Params(by="os", tags=("linux",)).query(confidence=99)
    '?confidence=99&by=os&tag=linux'
    """

    confidence: int = 95  # percent
    rounds: int = 60  # periods shown, unless `since` is given
    every: str | None = None  # the period of a figure, one of `EVERY`; None: the plan's default
    since: str = ""  # the first date shown
    until: str = ""  # the last date shown
    by: str = ""  # the segment whose tags are compared
    tags: tuple[str, ...] = ()  # visible tags; empty: the first ones of the plan
    segment: tuple[str, str] | None = None  # the one tag whose devices a histogram is about: (segment, tag)
    at: str = ""  # a time within the period of a histogram; empty: the latest
    view: str = "raw"
    sort: str = "plan"  # the order of metrics on the overview
    search: str = ""  # a part of the names or descriptions of metrics
    chart: str = "series"  # the chart that is wanted as a file

    @classmethod
    def parse(cls, query: QueryParams) -> Params:
        """The choices in an address; raises `ParameterError`."""
        made = chosen(query)
        usual = cls()
        for name in ("since", "until", "at"):
            made.time(name)
        confidence = made.whole("confidence", 99) or usual.confidence
        if confidence not in CONFIDENCES:
            raise ParameterError("confidence", f"one of {', '.join(map(str, CONFIDENCES))}", confidence)
        return cls(
            confidence=confidence,
            segment=next(((short(name), short(tag)) for name, tag in made.segment().items()), None),
            since=made.one("since") or "",
            until=made.one("until") or "",
            at=made.one("at") or "",
            rounds=made.whole("rounds", MOST_PERIODS) or usual.rounds,
            every=made.one_of("every", EVERY),
            by=short(made.one("by") or ""),
            tags=tuple(short(tag) for tag in query.getlist("tag")),
            view=made.one_of("view", VIEWS) or usual.view,
            sort=made.one_of("sort", SORTS) or usual.sort,
            search=short(made.one("search") or ""),
            chart=made.one_of("chart", CHARTS) or usual.chart,
        )

    def query(self, **changes: Any) -> str:
        """These choices, with some changed, as the query of an address."""
        params, usual = replace(self, **changes), Params()
        pairs: list[tuple[str, Any]] = []
        for name, value in asdict(params).items():
            if name == "tags":
                pairs += [("tag", tag) for tag in value if params.by]
            elif value != getattr(usual, name):
                pairs.append((name, ":".join(value) if name == "segment" else value))
        query = urlencode(pairs, safe=":")
        return f"?{query}" if query else ""

    def estimates_address(self, plan: str, metric: str) -> str:
        """
        Where programs get the figures of a page.

        >>> Params(by="os").estimates_address("app-usage", "starts")
        '/v1/estimates?plan=app-usage&metric=starts&confidence=0.95&by=os&last=60'
        """
        return f"/v1/estimates?{urlencode(self.selection(plan, metric).query(), safe=':')}"

    @property
    def tags_picked(self) -> dict[str, str]:
        """The tag whose devices figures are about, by its segment; empty for all devices."""
        return dict([self.segment]) if self.segment else {}

    def selection(self, plan: str, metric: str | None = None) -> Selection:
        """The figures that are shown of a plan; both dates are included."""
        until = unix_seconds("until", self.until) if self.until else None
        if until is not None and len(self.until) == len("2026-11-01") and not self.until.isdigit():
            until += 86_400
        return Selection(
            plan,
            metric,
            last=MOST_PERIODS if self.since else self.rounds,
            segment=self.tags_picked,
            by=self.by or None,
            confidence=self.confidence / 100,
            every=self.every,
            since=unix_seconds("since", self.since) if self.since else None,
            until=until,
        )

    @property
    def round_choices(self) -> list[tuple[int, str]]:
        """How many periods can be shown, (value, text) of each choice, with the number asked for."""
        return [(count, f"last {count:,}") for count in sorted({*ROUNDS, self.rounds})]


def chosen(query: QueryParams) -> Query:
    """The choices in an address: a form leaves those empty that are not made."""
    return Query([(name, text) for name, text in query.items() if text and name != "tag"])
