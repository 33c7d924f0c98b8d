"""
The columns of the table of results: the same names in the same order in SQL, Parquet, Arrow, CSV, JSON and frames.

A row is one number with its interval, so a histogram is a row per bucket. Times and segments are text where there
is no type for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, NamedTuple

__all__ = ["COLUMNS", "SUBJECT", "Column", "segment_text", "time_text", "unix_seconds"]


class Column(NamedTuple):
    """A column: its name, its type, and what it holds."""

    name: str
    type: Literal["text", "int64", "float64", "timestamp", "json"]
    meaning: str


COLUMNS = (
    Column("plan", "text", "the plan's name"),
    Column("version", "int64", "the plan's version"),
    Column("metric", "text", "the metric's name"),
    Column("kind", "text", "mean, histogram, choice or flag"),
    Column("unit", "text", "of a mean, or of a bucket's ends; shares have none"),
    Column("every", "text", "what the figure is of: a round, window, day, week or month"),
    Column("start_time", "timestamp", "when that begins, UTC"),
    Column("end_time", "timestamp", "when it ends, UTC; not part of it"),
    Column("state", "text", "open: provisional; sealed: final"),
    Column("segment", "json", 'the tags it is about, such as {"os":"linux"}; {} for the whole fleet'),
    Column("bucket", "int64", "the bucket's place, from 0; empty for a mean"),
    Column(
        "bucket_low", "float64", "where the bucket begins; empty for a mean and where a bucket has a label"
    ),
    Column("bucket_high", "float64", "where the bucket ends"),
    Column("label", "text", "the bucket's name, of a choice; absent for devices without a value"),
    Column("value", "float64", "the unbiased mean, or share of devices; empty where nobody was asked"),
    Column(
        "lower", "float64", "lower end of the interval, cut to the range that the truth is known to be in"
    ),
    Column("upper", "float64", "upper end of the interval"),
    Column("confidence", "float64", "the probability with which the interval holds the truth"),
    Column("reports", "int64", "reports that speak of this number; empty where the figure is withheld"),
    Column("half_width", "float64", "half of the interval before it was cut: what stands behind ±"),
    Column("noise_half_width", "float64", "the part of it that privacy costs"),
    Column("sampling_half_width", "float64", "the part of it that would remain without privacy"),
    Column("rule", "text", "where the interval comes from"),
    Column("paper_bound", "float64", "the half-width that the paper's theorem would give"),
    Column("manipulation", "float64", "how far dishonest reports move the value, per unit of their share"),
    Column("devices", "int64", "reports altogether"),
    Column("span_lower", "float64", "lower end of the range that the truth is known to be in"),
    Column("span_upper", "float64", "upper end of that range"),
    Column("uncut_lower", "float64", "lower end of the interval before it was cut"),
    Column("uncut_upper", "float64", "upper end of the interval before it was cut"),
    Column("noise_share", "float64", "the share of the variance that privacy costs"),
    Column("together", "int64", "so many intervals hold at once with this confidence"),
    Column("round", "int64", "the number of the first round"),
    Column("last_round", "int64", "the number of the last round"),
)
"""All columns, in their order; new ones go to the end."""

SUBJECT = (
    "plan", "version", "metric", "every", "start_time", "end_time", "state", "segment",
    "round", "last_round",
)  # fmt: skip
"""The columns that say what a figure is about; the others are the figure."""


def time_text(seconds: int) -> str:
    """
    A time as text: ISO 8601, in UTC.

    >>> time_text(1_763_164_800)
    '2025-11-15T00:00:00Z'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def unix_seconds(time: str | datetime) -> int:
    """
    The unix time of what `time_text` wrote, or of a timestamp that a table gave back.

    >>> unix_seconds("2025-11-15T00:00:00Z")
    1763164800
    """
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def segment_text(segment: Mapping[str, str]) -> str:
    """
    A segment as text: one text for one segment, so that texts can be compared.

    >>> segment_text({"os": "linux"}), segment_text({})
    ('{"os":"linux"}', '{}')
    """
    return json.dumps(dict(segment), separators=(",", ":"), sort_keys=True, ensure_ascii=False)
