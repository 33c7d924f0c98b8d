"""
What readers are shown of a store: plans, rounds and estimates, for HTTP, the dashboard and the commands.

A `Selection` says which figures are asked for; a `Query` reads it from an address. Each answer of `Results(store)`
about a metric in a `Period` is a `Result`, or `Withheld` where there are too few reports. A `Change` is one period
less the one before it. `write_results` puts final figures into the table of results, from which they are read.
"""

from reticent_collector.results.cache import LruCache
from reticent_collector.results.periods import (
    EVERY,
    Every,
    Period,
    PeriodState,
    answered_every,
    everies,
    span_of,
    unix_seconds,
    usual_every,
)
from reticent_collector.results.query import MOST_ROUNDS, Query
from reticent_collector.results.reader import Results
from reticent_collector.results.result import (
    Change,
    Estimates,
    Result,
    Subject,
    Withheld,
    change_in_words,
    is_clear,
)
from reticent_collector.results.selection import Selection
from reticent_collector.results.writer import problems, write_results

__all__ = [
    "EVERY",
    "MOST_ROUNDS",
    "Change",
    "Estimates",
    "Every",
    "LruCache",
    "Period",
    "PeriodState",
    "Query",
    "Result",
    "Results",
    "Selection",
    "Subject",
    "Withheld",
    "answered_every",
    "change_in_words",
    "everies",
    "is_clear",
    "problems",
    "span_of",
    "unix_seconds",
    "usual_every",
    "write_results",
]
