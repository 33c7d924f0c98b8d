"""Charts as SVG, drawn on the server: nothing to load, no script needed, never a line without its band."""

from reticent.dashboard.charts.bars import Bar, histogram, small_histogram
from reticent.dashboard.charts.distribution import Level, cumulative
from reticent.dashboard.charts.measures import Measure, gauge, measures
from reticent.dashboard.charts.rounds import RoundBar, reports_per_round
from reticent.dashboard.charts.series import Line, Mark, series, spark
from reticent.dashboard.charts.svg import HALF_SPARK, SPARK

__all__ = [
    "HALF_SPARK",
    "SPARK",
    "Bar",
    "Level",
    "Line",
    "Mark",
    "Measure",
    "RoundBar",
    "cumulative",
    "gauge",
    "histogram",
    "measures",
    "reports_per_round",
    "series",
    "small_histogram",
    "spark",
]
