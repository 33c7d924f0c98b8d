"""What a request asks for: the query of its address, checked."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from reticent.errors import ParameterError

MOST_ROUNDS = 10_000
FORMATS = ("json", "csv", "arrow")


class Query:
    """
    The parameters of a request, of which only `known` ones may be there.

    >>> Query([("plan", "app-usage"), ("round", "5-7")], {"plan", "round"}).rounds()
    [5, 6, 7]
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], known: Collection[str]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            if name not in known:
                raise ParameterError(name, f"one of the parameters {', '.join(sorted(known))}", name)
            self._values.setdefault(name, []).append(value)

    def one(self, name: str) -> str | None:
        """A parameter that is given once at most."""
        values = self._values.get(name, [])
        if len(values) > 1:
            raise ParameterError(name, "one value", len(values))
        return values[0] if values else None

    def last(self) -> int | None:
        """How many of the latest rounds; None when not said."""
        text = self.one("last")
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= MOST_ROUNDS:
            raise ParameterError("last", f"a whole number from 1 to {MOST_ROUNDS:,}", text[:20])
        return int(text)

    def rounds(self) -> list[int] | None:
        """Rounds as 5, or 5-9, or several of them; None when not said."""
        numbers: list[int] = []
        for text in self._values.get("round", []):
            first, dash, last = text.partition("-")
            ends = [first, last if dash else first]
            if not all(end.isascii() and end.isdigit() and len(end) <= 16 for end in ends):
                raise ParameterError("round", "a whole number, or two as FIRST-LAST", text[:40])
            low, high = int(ends[0]), int(ends[1])
            if not low <= high < low + MOST_ROUNDS - len(numbers):
                raise ParameterError("round", f"FIRST-LAST with at most {MOST_ROUNDS:,} rounds", text[:40])
            numbers += range(low, high + 1)
        return numbers or None

    def segment(self) -> dict[str, str]:
        """The tags picked, by segment."""
        picked = {}
        for text in self._values.get("segment", []):
            name, colon, tag = text.partition(":")
            if not colon:
                raise ParameterError("segment", "NAME:TAG", text[:40])
            picked[name] = tag
        return picked

    def confidence(self) -> float:
        """A number; whether it lies between 0 and 1 is for the estimate to say."""
        text = self.one("confidence")
        if text is None:
            return 0.95
        try:
            if re.fullmatch(r"[0-9.]{1,20}(e-?[0-9]{1,3})?", text, re.ASCII | re.IGNORECASE):
                return float(text)
        except ValueError:
            pass
        raise ParameterError("confidence", "a number between 0 and 1", text[:20])

    def format(self, accept: str) -> str:
        """Which of `FORMATS` to answer in: as said, else as the Accept header prefers."""
        form = self.one("format")
        if form is None:
            form = "csv" if "text/csv" in accept else "arrow" if "apache.arrow" in accept else "json"
        if form not in FORMATS:
            raise ParameterError("format", "json, csv or arrow", form[:20])
        return form
