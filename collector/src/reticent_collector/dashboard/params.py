"""The choices on a page: the query of its address, validated."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from reticent.errors import ParameterError, ReticentError
from reticent_collector.results import EVERY, Selection, unix_seconds

CONFIDENCES = (80, 90, 95, 99)
ROUNDS = (14, 30, 60, 120, 200, 500, 1000)
MOST_ROUNDS = 1000
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
        confidence = whole(query, "confidence", cls().confidence, 99)
        if confidence not in CONFIDENCES:
            raise ParameterError("confidence", f"one of {', '.join(map(str, CONFIDENCES))}", confidence)
        return cls(
            confidence=confidence,
            segment=_segment(query),
            since=_time(query, "since"),
            until=_time(query, "until"),
            at=_time(query, "at"),
            rounds=whole(query, "rounds", cls().rounds, MOST_ROUNDS),
            every=_one_of(query, "every", EVERY) or None,
            by=_short(query.get("by") or ""),
            tags=tuple(_short(tag) for tag in query.getlist("tag")),
            view=_one_of(query, "view", VIEWS) or "raw",
            sort=_one_of(query, "sort", SORTS) or "plan",
            search=_short(query.get("search") or ""),
            chart=_one_of(query, "chart", CHARTS) or "series",
        )

    def query(self, **changes: Any) -> str:
        """These choices, with some changed, as the query of an address."""
        chosen, usual = replace(self, **changes), Params()
        pairs: list[tuple[str, Any]] = []
        for name, value in asdict(chosen).items():
            if name == "tags":
                pairs += [("tag", tag) for tag in value if chosen.by]
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
            last=MOST_ROUNDS if self.since else self.rounds,
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


def _segment(query: QueryParams) -> tuple[str, str] | None:
    """The segment and the tag in an address; None when not given."""
    segment, colon, tag = (query.get("segment") or "").partition(":")
    if segment and not (colon and tag):
        raise ParameterError("segment", "a segment and a tag such as os:linux", _short(segment))
    return (_short(segment), _short(tag)) if segment else None


def _time(query: QueryParams, name: str) -> str:
    """A date or time in an address, as it was written; raises `ParameterError` when it is none."""
    text = query.get(name) or ""
    if text:
        unix_seconds(name, text)
    return text


def _one_of(query: QueryParams, name: str, choices: tuple[str, ...]) -> str:
    text = query.get(name) or ""
    if text and text not in choices:
        raise ParameterError(name, f"one of {', '.join(choices)}", _short(text))
    return text


def whole(query: QueryParams, name: str, default: int, most: int) -> int:
    """The number in an address; raises `ParameterError` unless it is from 1 to `most`."""
    text = query.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 17 and 1 <= int(text) <= most):
        raise ParameterError(name, f"a whole number from 1 to {most:,}", _short(text))
    return int(text)


def _short(text: str) -> str:
    return text if len(text) <= 64 else f"{text[:61]}..."
