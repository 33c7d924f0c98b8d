"""`reticent sql`: the counting and debiasing of a plan as a query to paste."""

from __future__ import annotations

from pathlib import Path

import click

from reticent.plan import Plan
from reticent_collector.cli.options import confidence_option, input_file
from reticent_collector.cli.output import VerbCommand, as_json, show

DIALECTS = ["duckdb", "postgres", "spark", "bigquery", "snowflake"]


@click.command(cls=VerbCommand, short_help="Print the query that counts and debiases reports.")
@click.argument("plan", metavar="PLAN", type=input_file)
@click.option("--dialect", type=click.Choice(DIALECTS), default="duckdb", show_default=True,
              help="Which SQL to write.")  # fmt: skip
@click.option("--table", default="reports", show_default=True, metavar="TABLE",
              help="The table of raw reports, or any expression that SQL allows after FROM.")  # fmt: skip
@confidence_option
@as_json
def sql(plan: Path, dialect: str, table: str, confidence: float, as_json: bool) -> None:
    """
    Print a query in SQL that turns raw reports on PLAN into estimates with intervals.

    TABLE has the columns of a lake's files, and plan, version and round of its paths. Rounds whose grace is over are
    counted as a seal counts them, groups of fewer than min_reports reports are not shown, and the integers and
    values are those of reticent estimate. Its intervals are not: SQL has no function for Clopper-Pearson intervals, so
    the query has Hoeffding's, which always hold and are about 1.2 to 1.6 times as wide. The column rule names them.

    \b
    Example:
      reticent sql plan.toml --dialect postgres --table telemetry.reports
    """
    from reticent_lake.frames import counting_query

    query = counting_query(Plan.load(plan), dialect, table, confidence)
    show(as_json, {"dialect": dialect, "table": table, "sql": query}, query)
