"""Charts as SVG, drawn on the server: nothing to load, no script needed, never a line without its band."""

from reticent.dashboard.charts.bars import (
    Bar,
    Measure,
    cumulative,
    gauge,
    histogram,
    measures,
    small_histogram,
)
from reticent.dashboard.charts.series import Line, Mark, RoundBar, reports_per_round, series, spark
from reticent.dashboard.charts.svg import HALF_SPARK, SPARK, Scale, tick_texts, ticks, time_ticks

__all__ = [
    "HALF_SPARK",
    "SPARK",
    "Bar",
    "Line",
    "Mark",
    "Measure",
    "RoundBar",
    "Scale",
    "cumulative",
    "gauge",
    "histogram",
    "measures",
    "reports_per_round",
    "series",
    "small_histogram",
    "spark",
    "tick_texts",
    "ticks",
    "time_ticks",
]
