"""
What readers are shown of a store: plans, rounds and estimates, for HTTP, the dashboard and the commands.

A `Selection` says which figures are asked for; a `Query` reads it from an address. Each answer of `Results(store)`
about a metric in a `Period` is a `Result`, or `Withheld` where there are too few reports. A `Difference` is one figure
less another: a change from another period, or between tags. A `Trend` is about all periods that are shown.
`write_results` puts final figures into the table of results, from which they are read.
"""

from reticent_collector.results.against import (
    against_choices,
    against_words,
    check_against,
    usual_against,
)
from reticent_collector.results.cache import LruCache
from reticent_collector.results.catalog import PLAN_ROW, ROUND_ROW, Listing, listing, plan_rows, round_rows
from reticent_collector.results.difference import OTHER_DEVICES, Difference, is_clear
from reticent_collector.results.periods import (
    EVERY,
    Every,
    Period,
    answered_every,
    daily_every,
    everies,
    span_of,
    unix_seconds,
    usual_every,
)
from reticent_collector.results.query import MOST_ROUNDS, Query
from reticent_collector.results.reader import Results, one_answer
from reticent_collector.results.result import (
    AT_LEAST_ONCE,
    Estimates,
    Result,
    Subject,
    Withheld,
    at_least_once,
)
from reticent_collector.results.selection import Selection
from reticent_collector.results.trend import TREND_METHOD, Trend
from reticent_collector.results.writer import problems, write_results

__all__ = [
    "AT_LEAST_ONCE",
    "EVERY",
    "MOST_ROUNDS",
    "OTHER_DEVICES",
    "PLAN_ROW",
    "ROUND_ROW",
    "TREND_METHOD",
    "Difference",
    "Estimates",
    "Every",
    "Listing",
    "LruCache",
    "Period",
    "Query",
    "Result",
    "Results",
    "Selection",
    "Subject",
    "Trend",
    "Withheld",
    "against_choices",
    "against_words",
    "answered_every",
    "at_least_once",
    "check_against",
    "daily_every",
    "everies",
    "is_clear",
    "listing",
    "one_answer",
    "plan_rows",
    "problems",
    "round_rows",
    "span_of",
    "unix_seconds",
    "usual_against",
    "usual_every",
    "write_results",
]
