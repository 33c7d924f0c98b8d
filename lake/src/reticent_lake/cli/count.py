"""`reticent count`: the rounds of a lake, counted or sealed by DuckDB, PyArrow or Spark."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reticent.errors import ParameterError, ReticentError
from reticent_collector.cli.options import check_name
from reticent_collector.cli.output import (
    VerbCommand,
    as_json,
    counted,
    date_and_time,
    found_problems,
    progress,
    quiet,
    show,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from reticent_collector.stores import RoundKey
    from reticent_lake.frames import CountingEngine, RoundCount


def _setting(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    if not all("=" in pair for pair in pairs):
        raise click.BadParameter("expected NAME=VALUE.")
    return dict(pair.split("=", 1) for pair in pairs)


@click.command(cls=VerbCommand, short_help="Count the rounds of a lake, or seal them.")
@click.argument("lake", metavar="LAKE")
@click.option("--seal", is_flag=True, help="Seal the rounds whose grace is over.")
@click.option("--plan", metavar="NAME", help="Rounds of this plan only.")
@click.option(
    "--version", type=click.IntRange(1), metavar="N", help="Rounds of this version of the plan only."
)
@click.option("--round", "rounds", type=click.IntRange(0), multiple=True, metavar="R",
              help="This round, in any state; may be repeated.")  # fmt: skip
@click.option("--engine", type=click.Choice(["duckdb", "arrow", "spark"]), default="duckdb", show_default=True,
              help="Engine that counts.")  # fmt: skip
@click.option("--master", metavar="URL", help="Spark's master, as spark://HOST:PORT; local[*] when left out.")
@click.option("--conf", multiple=True, callback=_setting, metavar="NAME=VALUE", help="A setting of Spark.")
@click.option("--skip-bad", is_flag=True, help="Leave out files that cannot be counted, and list them.")
@quiet
@as_json
def count(
    lake: str,
    seal: bool,
    plan: str | None,
    version: int | None,
    rounds: tuple[int, ...],
    engine: str,
    master: str | None,
    conf: dict[str, str],
    skip_bad: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """
    Count the rounds of a lake that are open or closing. LAKE is a folder, or an address such as
    lake+s3://bucket/prefix.

    Each report counts once, however often it was stored. A file that is damaged, or of another plan or round, is
    named with the reason, and nothing is counted. With --skip-bad the rest is counted, and the exit code is 3.

    Without --seal nothing in the lake changes. With it, rounds whose grace is over are sealed with the counts of
    the engine, exactly as a collector seals them; serve --no-seal leaves sealing to this command. A round that
    cannot be sealed is named, the others are still sealed, and the exit code is 3.

    \b
    Example:
      reticent count lake:///reticent-lake --plan app-usage --engine duckdb
      reticent count lake:///reticent-lake --seal
    """
    if engine != "spark" and (master or conf):
        raise click.UsageError("--master and --conf are for --engine spark.")
    if seal and skip_bad:
        raise click.UsageError(
            "--seal does not go with --skip-bad: run reticent store repair first to set bad files aside."
        )
    from reticent_lake.store import open_lake

    url = _address(lake)
    names = sorted({plan.name for plan in open_lake(url, readonly=True).plans()})
    if plan is not None:
        check_name("plan", plan, names)
    try:
        keys = _chosen(url, plan, version, rounds, seal)
        results = _counted(url, keys, engine, master, conf, seal=seal, skip_bad=skip_bad, quiet=quiet)
    except ParameterError as error:
        raise ReticentError(f"{url}: {error}") from error
    show(
        as_json,
        {"engine": engine, "rounds": [_plain(result) for result in results]},
        *_lines(results, seal),
    )
    _print_problems(url, results)


def _print_problems(url: str, results: list[RoundCount]) -> None:
    """Name the files that were left out and the rounds that were not sealed; then the exit code is 3."""
    for result in results:
        for path, reason in result.skipped.items():
            click.echo(f"left out: {path}: {reason}", err=True)
        if result.problem:
            named = f"round {result.key.round} of {result.key.plan} version {result.key.version}"
            click.echo(f"not sealed: {named}: {result.problem.removeprefix(f'{url}: ')}", err=True)
    if any(result.skipped or result.problem for result in results):
        found_problems()


def _address(lake: str) -> str:
    """The address of a lake that may be given as a folder; another store is an error."""
    if lake.startswith(("sqlite:", "postgres")) or Path(lake).is_file():
        raise ReticentError(
            f"{lake.rpartition('@')[2]}: expected a lake: a folder, or an address such as lake+s3://bucket/prefix.\n"
            "  Hint: reticent serve counts a SQLite or PostgreSQL store; reticent rounds --store URL lists its rounds"
        )
    return lake if "://" in lake else f"lake:///{lake}"


def _chosen(
    url: str, plan: str | None, version: int | None, rounds: tuple[int, ...], seal: bool
) -> list[RoundKey]:
    """The rounds that are counted; to seal, only those whose grace is over."""
    from reticent_lake import frames

    keys = frames.lake_rounds(url, plan, version, rounds or None)
    return _due(url, keys, named=bool(rounds)) if seal else keys


def _counted(
    url: str,
    keys: list[RoundKey],
    engine: str,
    master: str | None,
    conf: dict[str, str],
    *,
    seal: bool,
    skip_bad: bool,
    quiet: bool,
) -> list[RoundCount]:
    """The rounds, counted by the engine, and sealed where that is asked; with a progress bar."""
    from reticent_lake import frames

    results: list[RoundCount] = []
    if not keys:
        return results
    with (
        frames.engine(engine, master or "local[*]", conf) as chosen,
        progress("Sealing rounds" if seal else "Counting rounds", quiet) as tell,
    ):
        counting = (
            _sealing(url, keys, chosen) if seal else frames.count_lake(url, keys, chosen, skip_bad=skip_bad)
        )
        for result in counting:
            results.append(result)
            tell(len(results), len(keys))
    return results


def _lines(results: list[RoundCount], seal: bool) -> list[str | Table]:
    """What is printed about the rounds."""
    if not results:
        return [f"No rounds to {'seal' if seal else 'count'}."]
    rows = [
        (*result.key, result.state, f"{result.files:,}", f"{len(result.skipped):,}", f"{result.reports:,}")
        for result in results
    ]
    lines: list[str | Table] = [
        table("plan", "version", "round", "state", "files", "left out", "reports", rows=rows)
    ]
    if seal:
        lines.append(f"{counted(sum(not result.problem for result in results), 'round')} sealed.")
    return lines


def _due(url: str, keys: list[RoundKey], named: bool) -> list[RoundKey]:
    """The rounds that may be sealed; a named one whose grace is not over is an error."""
    from reticent_collector.stores import due, open_store

    store = open_store(url, readonly=True)
    over = set(due(store, time.time()))
    plans = {(plan.name, plan.version): plan for plan in store.plans()}
    for key in keys if named else ():
        closes = plans[key.plan, key.version].round(key.round).closes
        if key not in over and time.time() < closes:
            raise ParameterError(
                "round", "one whose grace is over", f"{key.round}, until {date_and_time(closes)}"
            )
    return [key for key in keys if key in over]


def _sealing(url: str, keys: list[RoundKey], engine: CountingEngine) -> Iterator[RoundCount]:
    from reticent_collector.results import write_results
    from reticent_collector.stores import open_store
    from reticent_lake import frames

    with closing(open_store(url)) as store:
        yield from frames.seal_lake(store, keys, engine)
        write_results(store)


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
        **({"problem": result.problem} if result.problem else {}),
        "counts": counts,
    }
