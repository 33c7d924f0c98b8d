"""The query of an address as values: one grammar for `/v1` and for pages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from reticent.errors import ParameterError
from reticent_collector.results.periods import unix_seconds

MOST_ROUNDS = 10_000  # that a request may name


class Query:
    """
    The parameters of a request; any not in `known` is refused, unless that is left out.

    >>> Query([("plan", "app-usage"), ("round", "5-7")], {"plan", "round"}).rounds()
    [5, 6, 7]
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], known: Collection[str] | None = None) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            if known is not None and name not in known:
                raise ParameterError(name, f"one of the parameters {', '.join(sorted(known))}", name)
            self._values.setdefault(name, []).append(value)

    def values(self, name: str) -> list[str]:
        """A parameter that may be given several times."""
        return self._values.get(name, [])

    def one(self, name: str) -> str | None:
        """A parameter that may be given once; None when it is not."""
        values = self.values(name)
        if len(values) > 1:
            raise ParameterError(name, "one value", len(values))
        return values[0] if values else None

    def one_of(self, name: str, choices: Collection[str]) -> str | None:
        """One of some words."""
        text = self.one(name)
        if text is not None and text not in choices:
            raise ParameterError(name, f"one of {', '.join(choices)}", short(text))
        return text

    def whole(self, name: str, most: int) -> int | None:
        """A whole number from 1 to `most`."""
        text = self.one(name)
        if text is None:
            return None
        if not (_is_whole(text) and 1 <= int(text) <= most):
            raise ParameterError(name, f"a whole number from 1 to {most:,}", short(text))
        return int(text)

    def time(self, name: str) -> int | None:
        """A date or time as Unix seconds."""
        text = self.one(name)
        return None if text is None else unix_seconds(name, text)

    def rounds(self) -> list[int] | None:
        """Rounds as 5, or 5-9, or several of them."""
        numbers: list[int] = []
        for text in self.values("round"):
            first, dash, last = text.partition("-")
            ends = [first, last if dash else first]
            if not all(map(_is_whole, ends)):
                raise ParameterError("round", "a whole number, or two as FIRST-LAST", short(text))
            low, high = int(ends[0]), int(ends[1])
            if not low <= high < low + MOST_ROUNDS - len(numbers):
                raise ParameterError("round", f"FIRST-LAST with at most {MOST_ROUNDS:,} rounds", short(text))
            numbers += range(low, high + 1)
        return numbers or None

    def segment(self) -> dict[str, str]:
        """The chosen tag of each segment."""
        picked: dict[str, str] = {}
        for text in self.values("segment"):
            name, _, tag = text.partition(":")
            if not tag or picked.setdefault(name, tag) != tag:
                raise ParameterError("segment", "NAME:TAG, one tag of each segment", short(text))
        return picked

    def confidence(self) -> float:
        """A number; `Selection.check` says whether it is between 0 and 1."""
        text = self.one("confidence")
        if text is None:
            return 0.95
        try:
            if re.fullmatch(r"[0-9.]{1,20}(e-?[0-9]{1,3})?", text, re.ASCII | re.IGNORECASE):
                return float(text)
        except ValueError:
            pass
        raise ParameterError("confidence", "a number between 0 and 1", short(text))


def short(text: str) -> str:
    """A text of at most 64 characters, for a message."""
    return text if len(text) <= 64 else f"{text[:61]}..."


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 16
