"""The choices on a page: the query of its address, validated."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from reticent.errors import ParameterError, ReticentError
from reticent_collector.results import EVERY, Query, Selection, check_against, unix_seconds
from reticent_collector.results.query import short

CONFIDENCES = (80, 90, 95, 99)
MOST_PERIODS = 1000
VIEWS = ("cut", "raw", "norm-sub")
CHARTS = ("series", "shares", "below")
PRESETS: dict[str, dict[int, str]] = {
    "day": {
        14: "2 weeks",
        28: "4 weeks",
        60: "60 days",
        91: "3 months",
        182: "6 months",
        366: "1 year",
        731: "2 years",
    },
    "week": {4: "4 weeks", 13: "3 months", 26: "6 months", 53: "1 year", 105: "2 years"},
    "month": {6: "6 months", 12: "1 year", 24: "2 years", 60: "5 years"},
}
"""How much can be shown, by the period of a figure."""
COUNTS = {count: f"last {count:,}" for count in (14, 30, 60, 120, 200, 500, 1000)}  # of other periods
USUAL = {"week": 53, "month": 24}  # periods shown by default
USUAL_OF_OTHERS = 60
MOST_VERSION = 2**31
_DAYS = {"day": 1.0, "week": 7.0, "month": 30.4}


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
    rounds: int | None = None  # periods shown, unless `since` is given; None: as many as usual
    every: str | None = None  # the period of a figure, one of `EVERY`; None: the plan's default
    since: str = ""  # the first date shown
    until: str = ""  # the last date shown
    version: int | None = None  # of the plan, apart from the others; None: all of them together
    against: str = ""  # what changes are against, as in `check_against`; empty: as usual
    baseline: str = ""  # the tag of `by` that the others are compared with
    by: str = ""  # the segment whose tags are compared
    tags: tuple[str, ...] = ()  # visible tags; empty: the first ones of the plan
    segment: tuple[str, str] | None = None  # the one tag whose devices figures are about: (segment, tag)
    at: str = ""  # a time within the period of a histogram; empty: the latest
    view: str = "cut"  # bars from 0 up; raw, also below 0; or after Norm-Sub
    search: str = ""  # a part of the names or descriptions of metrics
    chart: str = "series"  # the chart that is wanted as a file

    @classmethod
    def parse(cls, query: QueryParams) -> Params:
        """The choices in an address; raises `ParameterError`."""
        made = chosen(query)
        usual = cls()
        segment = next(((short(name), short(tag)) for name, tag in made.segment().items()), None)
        return cls(
            confidence=_confidence(made) or usual.confidence,
            segment=segment,
            since=_time(made, "since"),
            until=_time(made, "until"),
            at=_time(made, "at"),
            rounds=made.whole("rounds", MOST_PERIODS),
            every=made.one_of("every", EVERY),
            version=made.whole("version", MOST_VERSION),
            against=check_against(made.one("against") or "before") if made.one("against") else "",
            baseline=short(made.one("baseline") or ""),
            by=short(made.one("by") or ""),
            tags=tuple(short(tag) for tag in query.getlist("tag")),
            view=made.one_of("view", VIEWS) or usual.view,
            search=short(made.one("search") or ""),
            chart=made.one_of("chart", CHARTS) or usual.chart,
        )

    def pairs(self) -> list[tuple[str, Any]]:
        """These choices as the parameters of an address."""
        usual = Params()
        pairs: list[tuple[str, Any]] = []
        for name, value in asdict(self).items():
            if name == "tags":
                pairs += [("tag", tag) for tag in value if self.by]
            elif value != getattr(usual, name):
                pairs.append((name, ":".join(value) if name == "segment" else value))
        return pairs

    def query(self, **changes: Any) -> str:
        """These choices, with some changed, as the query of an address."""
        query = urlencode(replace(self, **changes).pairs(), safe=":")
        return f"?{query}" if query else ""

    def estimates_address(self, plan: str, metric: str, every: str) -> str:
        """
        Where programs get the figures of a page.

        >>> Params(by="os", rounds=60).estimates_address("app-usage", "starts", "day")
        '/v1/estimates?plan=app-usage&metric=starts&confidence=0.95&by=os&last=60'
        """
        return f"/v1/estimates?{urlencode(self.selection(plan, metric, shown_by=every).query(), safe=':')}"

    @property
    def tags_picked(self) -> dict[str, str]:
        """The tag whose devices figures are about, by its segment; empty for all devices."""
        return dict([self.segment]) if self.segment else {}

    def count(self, every: str) -> int:
        """How many periods are shown."""
        return self.rounds or USUAL.get(every, USUAL_OF_OTHERS)

    def selection(self, plan: str, metric: str | None = None, shown_by: str = "") -> Selection:
        """The figures that are shown of a plan by such periods; both dates are included."""
        until = unix_seconds("until", self.until) if self.until else None
        if until is not None and len(self.until) == len("2026-11-01") and not self.until.isdigit():
            until += 86_400
        return Selection(
            plan,
            metric,
            last=MOST_PERIODS if self.since else self.count(shown_by),
            segment=self.tags_picked,
            by=self.by or None,
            confidence=self.confidence / 100,
            every=self.every,
            version=self.version,
            since=unix_seconds("since", self.since) if self.since else None,
            until=until,
        )

    def presets(self, every: str) -> list[tuple[int, str]]:
        """How much can be shown, (periods, text) of each choice, with the number asked for."""
        texts = PRESETS.get(every, COUNTS)
        count = self.count(every)
        return sorted({count: f"last {count:,}", **texts}.items())

    def per(self, every: str, before: str) -> str:
        """The address of the same by other periods: as much time, where that is known."""
        rounds = self.rounds
        if rounds is not None:
            known = every in _DAYS and before in _DAYS
            periods = round(rounds * _DAYS[before] / _DAYS[every]) if known else 0
            rounds = min(MOST_PERIODS, periods) or None
        return self.query(every=every, at="", rounds=rounds)


def _confidence(made: Query) -> int | None:
    confidence = made.whole("confidence", 99)
    if confidence is not None and confidence not in CONFIDENCES:
        raise ParameterError("confidence", f"one of {', '.join(map(str, CONFIDENCES))}", confidence)
    return confidence


def _time(made: Query, name: str) -> str:
    """A time as it was given, once it is known to be one."""
    made.time(name)
    return made.one(name) or ""


def chosen(query: QueryParams) -> Query:
    """The choices in an address: a form leaves those empty that are not made."""
    return Query([(name, text) for name, text in query.items() if text and name != "tag"])
