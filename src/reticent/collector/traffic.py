"""What each key sends: since the start, and over the last minutes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from reticent.stores import Key

SLOTS = 30
SLOT_SECONDS = 10.0
LATELY_SECONDS = SLOTS * SLOT_SECONDS
"""How far "lately" looks back."""


class Recent:
    """
    A sum over the last five minutes, in slots of ten seconds: of one size, however much comes.

    One thread adds; any may read.
    """

    __slots__ = ("_slots", "_sums")

    def __init__(self) -> None:
        self._sums = [0] * SLOTS
        self._slots = [-SLOTS] * SLOTS

    def add(self, count: int, now: float) -> None:
        """Count something at a time that never runs back."""
        slot = int(now // SLOT_SECONDS)
        place = slot % SLOTS
        if self._slots[place] != slot:
            self._sums[place] = 0
            self._slots[place] = slot
        self._sums[place] += count

    def total(self, now: float) -> int:
        """
        What was counted lately.

        >>> recent = Recent()
        >>> recent.add(3, now=1000.0)
        >>> recent.total(now=1290.0), recent.total(now=1300.0)
        (3, 0)
        """
        slot = int(now // SLOT_SECONDS)
        return sum(
            count
            for count, counted in zip(self._sums, self._slots, strict=True)
            if slot - SLOTS < counted <= slot
        )


@dataclass(slots=True)
class _Sent:
    requests: int = 0
    reports: int = 0
    refused: int = 0
    limited: int = 0
    reports_lately: Recent = field(default_factory=Recent)
    limited_lately: Recent = field(default_factory=Recent)


class Traffic:
    """
    What the keys of a store send to this collector. A key that is not known is not remembered.

    Nothing is counted where no key is needed: all of it would be one line, and is on the page already.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent: dict[str, _Sent] = {}

    def request(self, key: Key | None) -> None:
        """A request came with a key."""
        if key is not None:
            self._of(key).requests += 1

    def reports(self, key: Key | None, count: int) -> None:
        """So many reports of a key were acknowledged; some may have been there already."""
        if key is not None and count:
            sent = self._of(key)
            sent.reports += count
            sent.reports_lately.add(count, self._clock())

    def refused(self, key: Key | None, code: str, count: int = 1) -> None:
        """A request of a key, or so many of its reports, were refused."""
        if key is not None and count:
            sent = self._of(key)
            sent.refused += count
            if code == "rate_limited":
                sent.limited += count
                sent.limited_lately.add(count, self._clock())

    def _of(self, key: Key) -> _Sent:
        found = self._sent.get(key.id)
        if found is None:
            found = self._sent[key.id] = _Sent()
        return found

    def table(self, keys: Iterable[Key]) -> list[dict[str, Any]]:
        """
        A row for each of these keys that may send or has tried to, whoever sent most first.

        Names are those of the health page; a key's secret is not in it, nor is there any way to it.
        """
        now = self._clock()
        known = [(key, self._sent.get(key.id)) for key in keys]
        rows = [
            _row(key, sent or _Sent(), now)
            for key, sent in known
            if sent is not None or (key.active and key.role != "reader")
        ]
        return sorted(rows, key=lambda row: (-row["reports"], -row["requests"], row["id"]))


def _row(key: Key, sent: _Sent, now: float) -> dict[str, Any]:
    return {
        "id": key.id,
        "label": key.label,
        "role": key.role,
        "active": key.active,
        "requests": sent.requests,
        "reports": sent.reports,
        "refused": sent.refused,
        "limited": sent.limited,
        "reports_lately": sent.reports_lately.total(now),
        "limited_lately": sent.limited_lately.total(now),
    }
