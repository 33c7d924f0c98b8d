"""
Counting anywhere: the same counts, to the integer, from whatever frame or engine holds the reports.

`count` takes a frame of pandas, Polars, PyArrow, DuckDB or PySpark; `count_lake` the rounds of a lake. Which
engine when, the schema and what was measured: `docs/how-to/counting.md`.
"""

from __future__ import annotations

from reticent.errors import MissingExtraError

try:
    import narwhals as _narwhals  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as missing:
    raise MissingExtraError("frames", (missing.name or "narwhals").partition(".")[0]) from missing

from reticent.estimates import estimates_to_frame
from reticent.frames.counting import FrameError, count, shares, to_arrow
from reticent.frames.engines import (
    DuckDB,
    RoundCount,
    Spark,
    count_lake,
    engine,
    java_home,
    lake_rounds,
    spark_session,
)
from reticent.frames.tables import (
    CountsFile,
    Estimated,
    counts_table,
    estimates_from_frame,
    from_frame,
    read_counts,
    write_counts,
)
from reticent.stores.lake import Arrow, BadFileError, Engine

__all__ = [
    "Arrow",
    "BadFileError",
    "CountsFile",
    "DuckDB",
    "Engine",
    "Estimated",
    "FrameError",
    "RoundCount",
    "Spark",
    "count",
    "count_lake",
    "counts_table",
    "engine",
    "estimates_from_frame",
    "estimates_to_frame",
    "from_frame",
    "java_home",
    "lake_rounds",
    "read_counts",
    "shares",
    "spark_session",
    "to_arrow",
    "write_counts",
]
