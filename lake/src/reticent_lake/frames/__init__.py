"""
Counting anywhere: the same counts, to the integer, from any frame or engine that holds the reports.

`count` takes a frame of pandas, Polars, PyArrow, DuckDB or PySpark; `count_lake` counts the rounds of a lake
and `seal_lake` seals them; `counting_query` is the same in SQL. `docs/how-to/counting.md` compares them.
"""

from __future__ import annotations

from reticent_collector.estimates import estimates_to_frame
from reticent_lake.frames.counting import FrameError, count, to_arrow
from reticent_lake.frames.engines import (
    DuckDB,
    RoundCount,
    Spark,
    count_lake,
    engine,
    lake_rounds,
    seal_lake,
    spark_session,
)
from reticent_lake.frames.sql import counting_query
from reticent_lake.frames.tables import estimates_from_frame, from_frame
from reticent_lake.store import Arrow, CountingEngine

__all__ = [
    "Arrow",
    "CountingEngine",
    "DuckDB",
    "FrameError",
    "RoundCount",
    "Spark",
    "count",
    "count_lake",
    "counting_query",
    "engine",
    "estimates_from_frame",
    "estimates_to_frame",
    "from_frame",
    "lake_rounds",
    "seal_lake",
    "spark_session",
    "to_arrow",
]
