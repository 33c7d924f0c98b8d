"""
Which round a time is in, and when a round starts.

Rounds of one or more whole weeks are counted from Monday 5 January 1970, 00:00 UTC, all others from the epoch.
So a week's round is a calendar week, and a window of weeks begins on Monday.

>>> from datetime import UTC, datetime
>>> week = 7 * 86_400
>>> datetime.fromtimestamp(start_of(round_at(1_750_000_000, week), week), UTC).strftime("%a %d %B %Y")
'Mon 09 June 2025'
"""

from __future__ import annotations

from math import floor

WEEK = 604_800
FIRST_MONDAY = 345_600  #: 1970-01-05, 00:00 UTC, in unix seconds


def start_of(number: int, round_seconds: int) -> int:
    """When a round starts, in unix seconds."""
    return number * round_seconds + (0 if round_seconds % WEEK else FIRST_MONDAY)


def round_at(unix_seconds: float, round_seconds: int) -> int:
    """The number of the round that is under way at a time."""
    return floor((unix_seconds - start_of(0, round_seconds)) / round_seconds)


def first_round_from(unix_seconds: int, round_seconds: int) -> int:
    """The number of the first round that starts at a time or later."""
    return -((start_of(0, round_seconds) - unix_seconds) // round_seconds)
