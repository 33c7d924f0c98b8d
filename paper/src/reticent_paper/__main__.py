"""`python -m reticent_paper`: the experiments of the paper, with its claims checked."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from reticent_collector.cli.options import input_file
from reticent_collector.cli.output import VerbCommand, as_json, console, print_json
from reticent_paper import ALL, EXPERIMENTS, Experiment, run
from reticent_paper.claims import DAY, ClaimVerdict, Run, Setting

COLOURS = {
    ClaimVerdict.HOLDS: "green",
    ClaimVerdict.CONDITION: "yellow",
    ClaimVerdict.CORRECTED: "red",
    ClaimVerdict.OPEN: "cyan",
}


@click.command(cls=VerbCommand)
@click.argument("names", nargs=-1, required=True, metavar="NAME...",
                type=click.Choice([*(experiment.name for experiment in EXPERIMENTS), ALL]))  # fmt: skip
@click.option("--out", "folder", required=True, metavar="DIR", help="Write the report there.",
              type=click.Path(path_type=Path))  # fmt: skip
@click.option("--repetitions", type=click.IntRange(2, 1_000_000), default=3000, show_default=True,
              metavar="N", help="Simulated collections per point of a figure.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=2017, show_default=True, metavar="SEED",
              help="The same seed gives the same figures.")  # fmt: skip
@click.option("--values", metavar="FILE", type=input_file, multiple=True,
              help="Your own data, CSV or Parquet: individual, day, value (seconds). A file per counter.")  # fmt: skip
@click.option("--devices", type=click.IntRange(1000, 10_000_000), metavar="N",
              help="Size of the largest fleet, the others in proportion; 3,000,000 if left out.")  # fmt: skip
@as_json
def reproduce(
    names: tuple[str, ...],
    folder: Path,
    repetitions: int,
    seed: int,
    values: tuple[Path, ...],
    devices: int | None,
    as_json: bool,
) -> None:
    """
    Run experiments of "Collecting Telemetry Data Privately" (Ding, Kulkarni, Yekhanin, NIPS 2017) and judge
    each of its claims by the figures. NAME is fig3, fig4, fig5, fig6, fig7, theorems (sentences that
    are computed), tables, after (what came after 2017), deployment, windows
    (the same asked otherwise) or all.

    Writes a page (DIR/index.html), the claims (claims.md), a CSV file per table, PNG and SVG per picture, and
    results.json. The paper's data set is not public, so three fitted counters stand in for it; --values takes
    real data instead (repeat it for several counters), of which larger fleets are drawn with replacement.

    \b
    Example:
      python -m reticent_paper all --out reproduction
      python -m reticent_paper fig3 tables --devices 100000 --out quick

    Exit code 0 also when claims do not hold: that is a finding. A folder with other files in it is not
    written to.
    """
    from reticent_lab.fleet import read_values
    from reticent_paper import report

    report.check_folder(folder)
    setting = Setting(seed=seed, repetitions=repetitions)
    if devices is not None:
        setting = replace(setting, fleets=(devices // 10, devices // 3, devices))
    if values:
        recorded = tuple(read_values(file, max_value=DAY) for file in values)
        days = min(setting.days, *(len(counter.days) for counter in recorded))
        setting = replace(setting, populations=recorded, days=days)
    screen = Console(stderr=True, quiet=as_json or not sys.stderr.isatty())
    with screen.status("") as status:

        def starting(own: Experiment) -> None:
            status.update(f"{own.name}: {own.about}")
            if not (as_json or sys.stderr.isatty()):
                click.echo(f"{own.name}: {own.about}", err=True)

        done = run(names, setting, starting)
        page = report.write(done, folder)
    if as_json:
        print_json({"page": str(page), **report.cost(done), **report.to_dict(done)})
    else:
        conclude(console(), done, page)


def conclude(screen: Console, done: Run, page: Path) -> None:
    """Claims with their verdicts and conditions; what was measured is in the report."""
    from reticent_paper.report import duration, tally

    claims = Table("verdict", "place", "claim", box=None, pad_edge=False)
    for claim in [*done.of_the_paper, *done.of_reticent]:
        colour = COLOURS[claim.verdict]
        place = claim.place + (f" ({claim.erratum})" if claim.erratum else "")
        note = f"\n[dim]{escape(claim.condition)}[/dim]" if claim.condition else ""
        claims.add_row(f"[{colour}]{claim.verdict}[/{colour}]", escape(place), escape(claim.says) + note)
    screen.print(claims)
    memory = f", {done.peak_bytes / 2**30:.1f} GiB at most" if done.peak_bytes else ""
    screen.print(f"\n{tally(done.of_the_paper)} [dim]({duration(sum(done.seconds))}{memory})[/dim]")
    screen.print(f"The report is [bold]{escape(str(page))}[/bold]")


if __name__ == "__main__":
    reproduce(prog_name="python -m reticent_paper")
