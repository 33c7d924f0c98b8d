"""What can be chosen on a page: the query of its address, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from reticent.errors import ParameterError, ReticentError

CONFIDENCES = (80, 90, 95, 99)
ROUNDS = (14, 30, 60, 120, 200, 500)
MOST_ROUNDS = 1000
VIEWS = ("raw", "norm-sub")
PERIODS = ("window", "round")


class NotHereError(ReticentError):
    """A page about a plan or metric that this collector does not have."""

    def __init__(self, what: str, name: str, instead: str = "/") -> None:
        self.what = what
        self.instead = instead
        super().__init__(f"There is no {what} called “{name}” here.")


@dataclass(frozen=True, slots=True)
class Params:
    """
    The choices on a page. Every default is left out of addresses.

    >>> Params(by="os", tags=("linux",)).query(confidence=99)
    '?confidence=99&by=os&tag=linux'
    """

    confidence: int = 95
    """Percent."""
    rounds: int = 60
    by: str = ""
    """The segment whose tags are compared; none when empty."""
    tags: tuple[str, ...] = ()
    """Which tags are visible; all when empty."""
    segment: tuple[str, str] | None = None
    """The one tag whose devices a histogram is about: (segment, tag)."""
    round: int | None = None
    period: str | None = None
    """What a figure is of, a "round" or a "window"; None: what the plan's devices answer in."""
    view: str = "raw"

    @classmethod
    def parse(cls, query: QueryParams) -> Params:
        """The choices in an address; raises `ParameterError` for what is not one."""
        confidence = _whole(query, "confidence", cls().confidence, 1, 99)
        if confidence not in CONFIDENCES:
            raise ParameterError("confidence", f"one of {', '.join(map(str, CONFIDENCES))}", confidence)
        view = query.get("view") or "raw"
        if view not in VIEWS:
            raise ParameterError("view", f"one of {', '.join(VIEWS)}", _short(view))
        period = query.get("period") or None
        if period not in (None, *PERIODS):
            raise ParameterError("period", f"one of {', '.join(PERIODS)}", _short(period))
        segment, colon, tag = (query.get("segment") or "").partition(":")
        if segment and not (colon and tag):
            raise ParameterError("segment", "a segment and a tag such as os:linux", _short(segment))
        return cls(
            confidence=confidence,
            rounds=_whole(query, "rounds", cls().rounds, 1, MOST_ROUNDS),
            by=_short(query.get("by") or ""),
            tags=tuple(_short(tag) for tag in query.getlist("tag")),
            segment=(_short(segment), _short(tag)) if segment else None,
            round=_whole(query, "round", None, 0, 2**53),
            period=period,
            view=view,
        )

    def query(self, **changes: Any) -> str:
        """These choices, with some changed, as the query of an address."""
        chosen, usual = replace(self, **changes), Params()
        pairs = [
            ("confidence", chosen.confidence, usual.confidence),
            ("rounds", chosen.rounds, usual.rounds),
            ("by", chosen.by, ""),
            *(("tag", tag, "") for tag in chosen.tags if chosen.by),
            ("segment", ":".join(chosen.segment) if chosen.segment else "", ""),
            ("round", chosen.round, None),
            ("period", chosen.period, None),
            ("view", chosen.view, usual.view),
        ]
        query = urlencode([(name, value) for name, value, default in pairs if value != default], safe=":")
        return f"?{query}" if query else ""

    @property
    def round_choices(self) -> list[tuple[int, str]]:
        """How many rounds can be shown, (value, text) of each choice; also the number that was asked for."""
        return [(count, f"last {count}") for count in sorted({*ROUNDS, self.rounds})]


def _whole(query: QueryParams, name: str, default: Any, low: int, high: int) -> Any:
    text = query.get(name)
    if text is None or text == "":
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 17 and low <= int(text) <= high):
        raise ParameterError(name, f"a whole number from {low:,} to {high:,}", _short(text))
    return int(text)


def _short(text: str) -> str:
    return text if len(text) <= 64 else f"{text[:61]}..."
