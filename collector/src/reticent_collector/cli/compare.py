"""`reticent compare`: one figure against another, with the interval of their difference."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from reticent_collector.cli import options
from reticent_collector.cli.output import VerbCommand, as_json, show, table
from reticent_collector.cli.reading import bucket_name, figure_and_interval, period_name, trend_lines
from reticent_collector.cli.sources import checked, opened_source
from reticent_collector.counts import ABOUT


@click.command(cls=VerbCommand, short_help="Compare periods, or the devices of two tags.")
@options.selection_options(default=10, show_default=True)
@options.against_option
@options.baseline_option
@as_json
def compare(store: str | None, url: str | None, key: str | None, as_json: bool, **selection: Any) -> None:
    """
    Compare each period with an earlier one (--against), or the devices of each tag with those of one (--baseline).

    Compared are the rounds that both have, and the interval is that of the difference: two figures whose intervals
    overlap may differ clearly. Devices with another tag are other devices, so a difference between versions is not the
    effect of a version. Without --baseline, what rises or falls over all periods is said too.

    \b
    Example:
      reticent compare --store sqlite:///reticent.db --metric editor_seconds --by os --baseline linux --last 4
      reticent compare --store sqlite:///reticent.db --against year --json
    """
    from reticent_collector.results import OTHER_DEVICES, against_words

    last_from = click.get_current_context().get_parameter_source("last")
    with opened_source(store, url, key) as source:
        if selection["since"] is not None and last_from is ParameterSource.DEFAULT:
            selection["last"] = None
        asked = checked(source, **selection)
        differences = source.differences(asked)
        trends = [] if asked.baseline else source.trends(asked)
    answer = {"about": ABOUT, "differences": differences, "trends": trends}
    than = f"{asked.by}:{asked.baseline}" if asked.baseline else against_words(asked.against)
    if not differences:
        show(as_json, answer, f"Nothing to compare: no round has enough reports on both sides ({than}).")
        return
    columns = ("metric", "when", "segment", f"less {than}", f"{asked.confidence:.0%} interval", "", "rounds")
    rows = [row for difference in differences for row in _rows(difference)]
    about = [OTHER_DEVICES] if asked.baseline else trend_lines(trends)
    show(as_json, answer, table(*columns, rows=rows), *about, ABOUT)


def _rows(difference: dict[str, Any]) -> list[tuple[str, ...]]:
    """A line for each mean or bucket."""
    compared = difference["rounds"]
    possible = compared + difference["rounds_missing"]
    rows: list[tuple[str, ...]] = []
    for number in difference.get("buckets", [difference]):
        _, interval = figure_and_interval(difference, number)
        words, _, verdict = number["words"].partition(" (")[0].rpartition(": ")
        rows.append(
            (
                difference["metric"] + bucket_name(number),
                period_name(difference),
                ", ".join(f"{name}:{tag}" for name, tag in difference["segment"].items()),
                words,
                interval,
                verdict,
                f"{compared:,}" if compared == possible else f"{compared:,} of {possible:,}",
            )
        )
    return rows
