"""`python -m paper tables`: losses, bounds, age in days and remembered histograms, as figures."""

from __future__ import annotations

from paper import age_in_days, bounds_table, losses_table, memo_table
from paper.experiment import Progress, Result, Setting, quiet


def run(setting: Setting, progress: Progress = quiet) -> Result:
    """All tables, part by part."""
    parts: list[Result] = []
    works = (
        losses_table.result,
        lambda: bounds_table.result(setting),
        lambda: age_in_days.result(setting),
        memo_table.result,
    )
    for done, work in enumerate(works):
        progress(done, len(works))
        parts.append(work())
    progress(len(works), len(works))
    return Result(
        name="tables",
        title="Tables: losses, bounds, age in days, remembered histograms",
        summary=" ".join(part.summary for part in parts),
        tables=tuple(table for part in parts for table in part.tables),
        pictures=tuple(picture for part in parts for picture in part.pictures),
        claims=tuple(claim for part in parts for claim in part.claims),
    )
