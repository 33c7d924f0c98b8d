"""`reticent count`: the rounds of a lake, counted or sealed by DuckDB, PyArrow or Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reticent.cli.options import near_names
from reticent.cli.output import (
    as_json,
    console,
    counted,
    date_and_time,
    found_problems,
    print_json,
    progress,
    quiet_option,
    table,
)
from reticent.errors import ParameterError, ReticentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reticent.frames import Engine, RoundCount
    from reticent.stores import RoundKey


def _setting(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    if not all("=" in pair for pair in pairs):
        raise click.BadParameter("expected NAME=VALUE.")
    return dict(pair.split("=", 1) for pair in pairs)


@click.command(short_help="Count the rounds of a lake, or seal them.")
@click.argument("lake", metavar="LAKE")
@click.option("--seal", is_flag=True, help="Seal the rounds whose grace is over.")
@click.option("--plan", metavar="NAME", help="Rounds of this plan only.")
@click.option(
    "--version", type=click.IntRange(1), metavar="N", help="Rounds of this version of the plan only."
)
@click.option("--round", "rounds", type=click.IntRange(0), multiple=True, metavar="R",
              help="This round, in any state; may be given several times.")  # fmt: skip
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "arrow", "spark"]),
    default="duckdb",
    show_default=True,
    help="Engine that counts.",
)
@click.option("--master", metavar="URL", help="Spark's master, as spark://HOST:PORT; local[*] when left out.")
@click.option("--conf", multiple=True, callback=_setting, metavar="NAME=VALUE", help="A setting of Spark.")
@click.option("--skip-bad", is_flag=True, help="Leave out files that cannot be counted, and list them.")
@quiet_option
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

    Without --seal nothing in the lake changes. With it, the rounds whose grace is over are sealed with what the
    engine counted, as a collector would seal them; serve --no-seal leaves that work to this command. A round
    that cannot be sealed is named, the others are still sealed, and the exit code is 3.

    \b
    Example:
      reticent count lake:///reticent-lake --plan app-usage --engine duckdb
      reticent count lake:///reticent-lake --seal
    """
    if engine != "spark" and (master or conf):
        raise click.UsageError("--master and --conf are for --engine spark.")
    if seal and skip_bad:
        raise click.UsageError(
            "--seal does not go with --skip-bad: reticent store repair first sets bad files aside."
        )
    from reticent import frames
    from reticent.stores.lake import read_lake

    if lake.startswith(("sqlite:", "postgres")) or Path(lake).is_file():
        raise ReticentError(
            f"{lake.rpartition('@')[2]}: expected a lake: a folder, or an address such as lake+s3://bucket/prefix.\n"
            "  Hint: reticent serve counts a SQLite or PostgreSQL store; reticent rounds --store URL lists its rounds"
        )
    url = lake if "://" in lake else f"lake:///{lake}"
    names = sorted({plan.name for plan in read_lake(url).plans()})
    if plan not in (None, *names):
        with near_names(plan=names):
            raise ParameterError("plan", "a plan of this lake", plan)
    results: list[RoundCount] = []
    try:
        keys = frames.lake_rounds(url, plan, version, rounds or None)
        if seal:
            keys = _due(url, keys, named=bool(rounds))
        if keys:
            with (
                frames.engine(engine, master or "local[*]", conf) as chosen,
                progress("Sealing rounds" if seal else "Counting rounds", quiet) as tell,
            ):
                counting = frames.count_lake(url, keys, chosen, skip_bad=skip_bad)
                for result in _sealing(url, keys, chosen) if seal else counting:
                    results.append(result)
                    tell(len(results), len(keys))
    except ParameterError as error:
        raise ReticentError(f"{url}: {error}") from error
    if as_json:
        print_json({"engine": engine, "rounds": [_plain(result) for result in results]})
    else:
        _show(results, seal)
    _end(url, results)


def _due(url: str, keys: list[RoundKey], named: bool) -> list[RoundKey]:
    """Those of the rounds that may be sealed; one that was named and is not over is an error."""
    from reticent.stores import due, open_store

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


def _sealing(url: str, keys: list[RoundKey], engine: Engine) -> Iterator[RoundCount]:
    from reticent import frames
    from reticent.results import write_results
    from reticent.stores import open_store

    store = open_store(url)
    try:
        yield from frames.seal_lake(store, keys, engine)
        write_results(store)
    finally:
        store.close()


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


def _show(results: list[RoundCount], seal: bool) -> None:
    if not results:
        click.echo(f"No rounds to {'seal' if seal else 'count'}.")
        return
    rows = table("plan", "version", "round", "state", "files", "left out", "reports")
    for result in results:
        numbers = result.files, len(result.skipped), result.reports
        rows.add_row(*map(str, result.key), result.state, *(f"{number:,}" for number in numbers))
    console().print(rows)
    if seal:
        click.echo(f"{counted(sum(not result.problem for result in results), 'round')} sealed.")


def _end(url: str, results: list[RoundCount]) -> None:
    """Name what was left out and what was not sealed; then the exit code is 3."""
    for result in results:
        for path, reason in result.skipped.items():
            click.echo(f"left out: {path}: {reason}", err=True)
        if result.problem:
            named = f"round {result.key.round} of {result.key.plan} version {result.key.version}"
            click.echo(f"not sealed: {named}: {result.problem.removeprefix(f'{url}: ')}", err=True)
    if any(result.skipped or result.problem for result in results):
        found_problems()
