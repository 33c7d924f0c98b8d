"""Charts as SVG, drawn on the server: nothing to load, no script needed, never a line without its band."""

from reticent_collector.dashboard.charts.bars import (
    Bar,
    Bars,
    Measure,
    cumulative_chart,
    gauge,
    histogram,
    measures,
    small_histogram,
)
from reticent_collector.dashboard.charts.series import (
    Flag,
    Line,
    Mark,
    RoundBar,
    key,
    reports_per_round,
    series,
    small_bars,
    spark,
)
from reticent_collector.dashboard.charts.svg import PALETTE, alone, narrow

__all__ = [
    "PALETTE",
    "Bar",
    "Bars",
    "Flag",
    "Line",
    "Mark",
    "Measure",
    "RoundBar",
    "alone",
    "cumulative_chart",
    "gauge",
    "histogram",
    "key",
    "measures",
    "narrow",
    "reports_per_round",
    "series",
    "small_bars",
    "small_histogram",
    "spark",
]
