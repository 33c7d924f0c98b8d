"""`reticent count`: the rounds of a lake, counted by DuckDB, PyArrow or Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import track

from reticent.cli.options import near_names
from reticent.cli.output import as_json, console, found_problems, print_json, table
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
    found = _counted(
        _address(lake), (plan, version, rounds or None, sealed), engine, master, conf, skip_bad, as_json
    )
    if out is not None:
        _write(out, _address(lake), found)
    if as_json:
        print_json(_answer(found, engine, out))
    else:
        _show(found, out)
    skipped = {path: reason for each in found for path, reason in each.skipped.items()}
    for path, reason in skipped.items():
        click.echo(f"left out: {path}: {reason}", err=True)
    if skipped:
        found_problems()


def _address(lake: str) -> str:
    return lake if "://" in lake else f"lake:///{lake}"


def _counted(
    url: str,
    asked: tuple[str | None, int | None, tuple[int, ...] | None, bool],
    engine: str,
    master: str | None,
    settings: dict[str, str],
    skip_bad: bool,
    quiet: bool,
) -> list[RoundCount]:
    """All rounds that were asked for; a bar on a terminal, since a round may take a while."""
    from reticent import frames
    from reticent.stores.lake import read_lake

    names = sorted({plan.name for plan in read_lake(url).plans()})
    if asked[0] not in (None, *names):
        with near_names(plan=names):
            raise ParameterError("plan", "a plan of this lake", asked[0])
    try:
        keys = frames.lake_rounds(url, *asked)
        if not keys:
            return []
        with frames.engine(engine, master or "local[*]", settings) as chosen:
            counting = frames.count_lake(url, keys, chosen, skip_bad=skip_bad)
            bar = Console(stderr=True)
            hidden = quiet or not bar.is_terminal
            shown = track(counting, "Counting rounds", len(keys), console=bar, transient=True, disable=hidden)
            return list(shown)
    except ParameterError as error:
        raise ReticentError(f"{url}: {error}") from error


def _write(path: Path, url: str, found: list[RoundCount]) -> None:
    from reticent.frames import CountsFile, write_counts
    from reticent.stores.lake import read_lake

    lake = read_lake(url)
    plans = {each.key[:2]: lake.layout(each.key).plan for each in found}
    write_counts(
        path,
        CountsFile(
            tuple(plans.values()),
            {each.key: each.counts for each in found},
            {each.key: each.state for each in found},
            {name: reason for each in found for name, reason in each.skipped.items()},
        ),
    )


def _answer(found: list[RoundCount], engine: str, out: Path | None) -> dict[str, object]:
    rounds = [
        {
            **each.key._asdict(),
            "state": each.state,
            "files": each.files,
            "reports": each.reports,
            "skipped": each.skipped,
            "counts": [
                {
                    "tags": tags,
                    "metric": metric,
                    "reports": [reports for _, reports, _ in counts.rows()],
                    "ones": [ones for _, _, ones in counts.rows()],
                }
                for tags, by_metric in each.counts.items()
                for metric, counts in by_metric.items()
            ],
        }
        for each in found
    ]
    return {"engine": engine, "out": None if out is None else str(out), "rounds": rounds}


def _show(found: list[RoundCount], out: Path | None) -> None:
    if not found:
        click.echo("No rounds to count.")
        return
    shown = table("plan", "version", "round", "state", "files", "left out", "reports")
    for each in found:
        shown.add_row(
            each.key.plan, str(each.key.version), str(each.key.round), each.state, f"{each.files:,}",
            f"{len(each.skipped):,}", f"{each.reports:,}",
        )  # fmt: skip
    console().print(shown)
    if out is not None:
        click.echo(f"Counts written to {out}.")
