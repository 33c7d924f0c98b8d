"""`python -m paper`: the experiments of the paper, with its claims checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from reticent.cli.output import as_json, console, plan_file, print_json
from reticent.cli.root import plain_faults
from reticent.errors import MissingExtraError

if TYPE_CHECKING:
    from paper.experiment import Claim, Setting
    from paper.run import Experiment, Run

NAMES = ("fig3", "fig4", "fig5", "fig6", "fig7", "check", "tables", "deployment", "all")
COLOURS = {"holds": "green", "holds under a condition": "yellow", "does not hold": "red"}


class Reproduce(click.Command):
    """Errors are told as by the verbs of `reticent`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the experiments."""
        with plain_faults():
            return super().invoke(ctx)


@click.command(cls=Reproduce)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", type=click.Choice(NAMES))
@click.option("--out", "folder", required=True, metavar="DIR", help="Write the report there.",
              type=click.Path(path_type=Path))  # fmt: skip
@click.option("--repetitions", type=click.IntRange(2, 1_000_000), default=3000, show_default=True,
              metavar="N", help="Simulated collections per point of a figure.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=2017, show_default=True, metavar="SEED",
              help="The same seed gives the same figures.")  # fmt: skip
@click.option("--values", metavar="FILE", type=plan_file,
              help="Your own data, CSV or Parquet: individual, day, value (seconds of a day).")  # fmt: skip
@click.option("--devices", type=click.IntRange(1000, 10_000_000), metavar="N",
              help="Size of the largest fleet, the others in proportion; 3,000,000 if left out.")  # fmt: skip
@as_json
def reproduce(
    names: tuple[str, ...],
    folder: Path,
    repetitions: int,
    seed: int,
    values: Path | None,
    devices: int | None,
    as_json: bool,
) -> None:
    """
    Run experiments of "Collecting Telemetry Data Privately" (Ding, Kulkarni, Yekhanin, NIPS 2017) and judge
    each of its claims by the figures. NAME is fig3, fig4, fig5, fig6, fig7, tables, deployment, check (fast
    simulation against device by device) or all.

    Writes a page (DIR/index.html, and report.md), a CSV file per table, PNG and SVG per picture, and
    results.json. The paper's data set is not public, so a fitted population stands in for it; --values takes
    real data instead, of which larger fleets are drawn with replacement.

    \b
    Example:
      python -m paper all --out reproduction
      python -m paper fig3 tables --devices 100000 --out quick

    Exit code 0 also when claims do not hold: that is a finding. A folder with other files in it is not
    written to.
    """
    try:
        from paper import report
        from paper.run import run
    except ModuleNotFoundError as missing:
        raise MissingExtraError("lab", missing.name or "numpy") from None
    report.check_folder(folder)
    setting = _setting(repetitions, seed, values, devices)
    with _bars(quiet=as_json) as bars:
        found = run(names, setting, bars.watch)
        page = report.write(found, folder)
    if as_json:
        print_json({"page": str(page), **report.to_dict(found)})
    else:
        _conclude(console(), found, page)


def _setting(repetitions: int, seed: int, values: Path | None, devices: int | None) -> Setting:
    """What the options say; recorded days and fleets larger than asked for are cut."""
    from paper.experiment import DAY, Setting
    from reticent.lab.fleet import read_values

    setting = Setting(seed=seed, repetitions=repetitions)
    if devices is not None:
        setting = replace(setting, fleets=(devices // 10, devices // 3, devices))
    if values is not None:
        recorded = read_values(values, max_value=DAY)
        setting = replace(setting, population=recorded, days=min(setting.days, len(recorded.days)))
    return setting


class _Bars:
    """A bar per experiment."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def watch(self, experiment: Experiment) -> _Bar:
        """The bar of the experiment that starts now."""
        if self._progress is None:
            return _Bar(None, TaskID(0))
        return _Bar(
            self._progress, self._progress.add_task(f"{experiment.name}  {experiment.about}", total=1)
        )


class _Bar:
    """Told how far an experiment is."""

    def __init__(self, progress: Progress | None, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def __call__(self, done: float, total: float) -> None:
        """So much of so much."""
        if self._progress is not None:
            self._progress.update(self._task, completed=done, total=total)


@contextmanager
def _bars(quiet: bool) -> Iterator[_Bars]:
    """Bars on standard error, for people only."""
    screen = Console(stderr=True)
    if quiet or not screen.is_terminal:
        yield _Bars(None)
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=screen) as progress:
        yield _Bars(progress)


def _conclude(screen: Console, found: Run, page: Path) -> None:
    from paper.pages.words import duration, of_reticent, of_the_paper, tally

    claims = Table("verdict", "place", "claim", box=None, pad_edge=False)
    for claim in [*of_the_paper(found.claims), *of_reticent(found.claims)]:
        claims.add_row(*_row(claim))
    screen.print(claims)
    memory = f", {found.peak_bytes / 2**30:.1f} GiB at most" if found.peak_bytes else ""
    screen.print(f"\n{tally(of_the_paper(found.claims))} [dim]({duration(sum(found.seconds))}{memory})[/dim]")
    screen.print(f"The report is [bold]{escape(str(page))}[/bold]")


def _row(claim: Claim) -> tuple[str, str, str]:
    """A claim on the screen: the condition is said, what was measured is in the report."""
    colour = COLOURS[claim.verdict]
    place = claim.place + (f" ({claim.erratum})" if claim.erratum else "")
    note = f"\n[dim]{escape(claim.condition)}[/dim]" if claim.condition else ""
    return f"[{colour}]{claim.verdict}[/{colour}]", escape(place), escape(claim.says) + note
