"""
The columns of the table of results: the same names in the same order in SQL, Parquet, Arrow, CSV, JSON and frames.

A row is one number with its interval, so a histogram is a row per bucket. Times and segments are text where there
is no type for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, NamedTuple

__all__ = [
    "COLUMNS",
    "COMPARISON",
    "FIGURE",
    "NUMBER",
    "QUANTILES",
    "SUBJECT",
    "Column",
    "seconds_of",
    "segment_text",
    "time_text",
]


class Column(NamedTuple):
    """A column: its name, type and content."""

    name: str
    type: Literal["text", "int64", "float64", "timestamp", "json", "bool"]
    meaning: str


COLUMNS = (
    Column("plan", "text", "name of the plan"),
    Column("version", "int64", "newest version of the plan with reports in the period"),
    Column("metric", "text", "name of the metric"),
    Column("kind", "text", "mean, histogram, choice, flag or split"),
    Column("unit", "text", "unit of a mean, of a split, or of the edges of a bucket; empty for other shares"),
    Column("every", "text", "kind of period: round, window, day, week or month"),
    Column("start_time", "timestamp", "start of the period, UTC"),
    Column("end_time", "timestamp", "end of the period, UTC, exclusive"),
    Column("state", "text", "open: provisional; sealed: final"),
    Column("segment", "json", 'tags of the segment, such as {"os":"linux"}; {} for the whole fleet'),
    Column("bucket", "int64", "index of the bucket, from 0; empty for a mean"),
    Column(
        "bucket_low", "float64", "lower edge of the bucket; empty for a mean, and for a bucket with a label"
    ),
    Column("bucket_high", "float64", "upper edge of the bucket"),
    Column(
        "label",
        "text",
        "name of the bucket of a choice or split; absent: devices without a value; unused: the rest of a split",
    ),
    Column(
        "value",
        "float64",
        "unbiased mean (of a split: of the part), or share of devices; empty where no device was asked",
    ),
    Column("lower", "float64", "lower end of the interval, clipped to the possible range"),
    Column("upper", "float64", "upper end of the interval, clipped to the possible range"),
    Column("confidence", "float64", "probability that the interval contains the true value"),
    Column("reports", "int64", "reports about this number; empty where the figure is withheld"),
    Column(
        "half_width", "float64", "half the width of the interval before it is clipped: the number after ±"
    ),
    Column("noise_half_width", "float64", "the part of it that is due to privacy"),
    Column("sampling_half_width", "float64", "the part of it that would remain without privacy"),
    Column("rule", "text", "method of the interval"),
    Column("paper_bound", "float64", "half-width by the theorem of the paper"),
    Column("manipulation", "float64", "how far dishonest reports move the value, per unit of their share"),
    Column("devices", "int64", "reports in total"),
    Column("span_lower", "float64", "lower end of the possible range"),
    Column("span_upper", "float64", "upper end of the possible range"),
    Column("uncut_lower", "float64", "lower end of the interval before it is clipped"),
    Column("uncut_upper", "float64", "upper end of the interval before it is clipped"),
    Column("noise_share", "float64", "the share of the variance that is due to privacy"),
    Column("together", "int64", "number of intervals that hold at once with this confidence"),
    Column("round", "int64", "number of the first round"),
    Column("last_round", "int64", "number of the last round"),
    Column("rounds", "int64", "number of rounds that the figure is made of"),
    Column(
        "median_lower", "float64", "lower end of the interval of a histogram's median; empty for other kinds"
    ),
    Column("median_upper", "float64", "upper end of the interval of a histogram's median"),
    Column(
        "cohort_p_value",
        "float64",
        "probability that honest devices answer the rows of a histogram as unevenly; empty where none is known",
    ),
    Column("rounds_missing", "int64", "rounds of the period that are not in the figure; 0: it is complete"),
    Column("versions", "text", "versions of the plan whose reports are added in the figure, such as 1,2"),
    Column(
        "p10_lower", "float64", "lower end of the interval of the value that 10 % of devices do not exceed"
    ),
    Column("p10_upper", "float64", "upper end of it; all quantiles of a histogram hold at once"),
    Column("p25_lower", "float64", "lower end for 25 % of devices"),
    Column("p25_upper", "float64", "upper end for 25 % of devices"),
    Column("p75_lower", "float64", "lower end for 75 % of devices"),
    Column("p75_upper", "float64", "upper end for 75 % of devices"),
    Column("p90_lower", "float64", "lower end for 90 % of devices"),
    Column("p90_upper", "float64", "upper end for 90 % of devices"),
    Column("p99_lower", "float64", "lower end for 99 % of devices"),
    Column("p99_upper", "float64", "upper end for 99 % of devices"),
)
"""All columns, in their order; new ones go to the end."""

SUBJECT = (
    "plan", "version", "metric", "every", "start_time", "end_time", "state", "segment",
    "round", "last_round",
)  # fmt: skip
"""The columns that identify a figure; the others are the figure."""

QUANTILES = {0.1: "p10", 0.25: "p25", 0.5: "median", 0.75: "p75", 0.9: "p90", 0.99: "p99"}
"""The quantiles of a histogram that tables have, by level: columns such as p10_lower and p10_upper."""

_MEANINGS = {column.name: column for column in COLUMNS}
COMPARISON = (
    *(
        _MEANINGS[name]
        for name in (
            "plan",
            "version",
            "metric",
            "kind",
            "unit",
            "every",
            "start_time",
            "end_time",
            "segment",
        )
    ),
    Column(
        "against", "text", "before, week, 4-weeks or year: an earlier period; tag: the devices of another tag"
    ),
    Column("baseline_segment", "json", "tags of the devices whose figure is subtracted"),
    Column("baseline_start_time", "timestamp", "start of the period whose figure is subtracted, UTC"),
    Column("baseline_end_time", "timestamp", "end of that period, UTC, exclusive"),
    *(_MEANINGS[name] for name in ("bucket", "bucket_low", "bucket_high", "label")),
    Column("figure", "float64", "mean or share, of the rounds that are compared"),
    Column("baseline", "float64", "what is subtracted from it, of the rounds that are compared"),
    Column("difference", "float64", "the figure less the baseline"),
    Column("lower", "float64", "lower end of the interval of the difference"),
    Column("upper", "float64", "upper end of it"),
    Column("half_width", "float64", "half the width of the interval before it is clipped"),
    Column(
        "confidence", "float64", "probability that it contains the true difference; of all buckets at once"
    ),
    Column("clear", "bool", "whether the interval does not hold 0"),
    Column("reports", "int64", "reports on the side with fewer"),
    Column("rule", "text", "method of the interval"),
    Column("rounds", "int64", "number of rounds that are compared: those that both sides have"),
    Column("rounds_missing", "int64", "rounds of the period that are not compared"),
    Column("versions", "text", "versions of the plan whose reports are compared, such as 1,2"),
)
"""The columns of comparisons: a figure less another one, a row per number."""

_ENDS = tuple(f"{name}_{end}" for name in QUANTILES.values() for end in ("lower", "upper"))
FIGURE = ("rounds", *_ENDS, "cohort_p_value", "rounds_missing", "versions")
"""The columns about a whole figure: the same in each row of a histogram."""

NUMBER = tuple(column.name for column in COLUMNS if column.name not in (*SUBJECT, *FIGURE))
"""The columns about one number: a mean, or the share of a bucket."""


def time_text(seconds: int) -> str:
    """
    A time as ISO 8601 text, in UTC.

    >>> time_text(1_763_164_800)
    '2025-11-15T00:00:00Z'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def seconds_of(time: str | datetime) -> int:
    """
    The unix time of a text of `time_text`, or of a timestamp from a table.

    >>> seconds_of("2025-11-15T00:00:00Z")
    1763164800
    """
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def segment_text(segment: Mapping[str, str]) -> str:
    """
    A segment as JSON text, the same for equal segments.

    >>> segment_text({"os": "linux"}), segment_text({})
    ('{"os":"linux"}', '{}')
    """
    return _segment_text(tuple(segment.items()))


@lru_cache(maxsize=4096)
def _segment_text(tags: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(dict(tags), separators=(",", ":"), sort_keys=True, ensure_ascii=False)
