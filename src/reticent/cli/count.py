"""`reticent count`: the rounds of a lake, counted by DuckDB, PyArrow or Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from reticent.cli.options import near_names
from reticent.cli.output import as_json, console, found_problems, print_json, progress, table
from reticent.errors import ParameterError, ReticentError

if TYPE_CHECKING:
    from reticent.frames import RoundCount


def _setting(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    if not all("=" in pair for pair in pairs):
        raise click.BadParameter("expected NAME=VALUE.")
    return dict(pair.split("=", 1) for pair in pairs)


def _out(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and path.suffix not in (".parquet", ".json"):
        raise click.BadParameter("expected a name that ends in .parquet or .json.")
    return path


@click.command()
@click.argument("lake", metavar="LAKE")
@click.option("--plan", metavar="NAME",
              help="Rounds of this plan only.")  # fmt: skip
@click.option("--version", type=click.IntRange(1), metavar="N", help="Of this version of the plan only.")
@click.option("--round", "rounds", type=click.IntRange(0), multiple=True, metavar="R",
              help="This round, in whatever state; may be given several times.")  # fmt: skip
@click.option("--sealed", is_flag=True, help="Sealed rounds too, from the counts that the lake keeps.")
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "arrow", "spark"]),
    default="duckdb",
    show_default=True,
    help="What does the counting.",
)
@click.option("--master", metavar="URL", help="Spark's master, as spark://HOST:PORT; local[*] when left out.")
@click.option("--conf", multiple=True, callback=_setting, metavar="NAME=VALUE", help="A setting of Spark.")
@click.option("--skip-bad", is_flag=True, help="Leave out files that cannot be counted, and list them.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), callback=_out, metavar="COUNTS",
              help="Write the counts to this file: .parquet or .json.")  # fmt: skip
@as_json
def count(
    lake: str,
    plan: str | None,
    version: int | None,
    rounds: tuple[int, ...],
    sealed: bool,
    engine: str,
    master: str | None,
    conf: dict[str, str],
    skip_bad: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """
    Count the rounds of a lake that are open or closing. LAKE is a folder, or an address such as
    lake+s3://bucket/prefix.

    Each report counts once, however often it was stored. Nothing in the lake changes. A file that is damaged,
    or of another plan or round, is named with the reason, and nothing is counted or written; with --skip-bad
    the rest is counted, and the exit code is 3.

    \b
    Example:
      reticent count lake:///reticent-lake --plan app-usage --engine duckdb --out counts.parquet
    """
    if engine != "spark" and (master or conf):
        raise click.UsageError("--master and --conf are for --engine spark.")
    from reticent import frames
    from reticent.stores.lake import read_lake

    url = lake if "://" in lake else f"lake:///{lake}"
    opened = read_lake(url)
    names = sorted({plan.name for plan in opened.plans()})
    if plan not in (None, *names):
        with near_names(plan=names):
            raise ParameterError("plan", "a plan of this lake", plan)
    results: list[RoundCount] = []
    try:
        keys = frames.lake_rounds(url, plan, version, rounds or None, sealed)
        if keys:
            with (
                frames.engine(engine, master or "local[*]", conf) as chosen,
                progress("Counting rounds", as_json) as tell,
            ):
                for result in frames.count_lake(url, keys, chosen, skip_bad=skip_bad):
                    results.append(result)
                    tell(len(results), len(keys))
    except ParameterError as error:
        raise ReticentError(f"{url}: {error}") from error
    skipped = {path: reason for result in results for path, reason in result.skipped.items()}
    if out is not None:
        plans = {result.key[:2]: opened.layout(result.key).plan for result in results}
        counts = {result.key: result.counts for result in results}
        states = {result.key: result.state for result in results}
        frames.write_counts(out, frames.CountsFile(tuple(plans.values()), counts, states, skipped))
    if as_json:
        print_json(
            {
                "engine": engine,
                "out": None if out is None else str(out),
                "rounds": [_plain(result) for result in results],
            }
        )
    elif not results:
        click.echo("No rounds to count.")
    else:
        _show(results)
        if out is not None:
            click.echo(f"Counts written to {out}.")
    for path, reason in skipped.items():
        click.echo(f"left out: {path}: {reason}", err=True)
    if skipped:
        found_problems()


def _plain(result: RoundCount) -> dict[str, object]:
    """A round and its counts, ready for JSON."""
    counts = []
    for tags, by_metric in result.counts.items():
        for metric, numbers in by_metric.items():
            _, reports, ones = zip(*numbers.rows(), strict=True)
            counts.append({"tags": tags, "metric": metric, "reports": reports, "ones": ones})
    return {
        **result.key._asdict(),
        "state": result.state,
        "files": result.files,
        "reports": result.reports,
        "skipped": result.skipped,
        "counts": counts,
    }


def _show(results: list[RoundCount]) -> None:
    rows = table("plan", "version", "round", "state", "files", "left out", "reports")
    for result in results:
        numbers = result.files, len(result.skipped), result.reports
        rows.add_row(*map(str, result.key), result.state, *(f"{number:,}" for number in numbers))
    console().print(rows)
