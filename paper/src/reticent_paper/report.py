"""The report of a run: a page (HTML), the claims (Markdown), and CSV, pictures and JSON beside them."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reticent.errors import ReticentError
from reticent_collector.plots import save
from reticent_paper.claims import ClaimVerdict, NumberTable, PaperClaim, Run

PAGES = {"index.html": "report.html.j2", "claims.md": "claims.md.j2"}
"""What is written, and its template: everything as HTML, the claims as Markdown for the docs."""

WRITTEN_BY = "python -m reticent_paper"
RESULTS = "results.json"

MOST_ROWS = 60  # Rows of a table that a page shows; the CSV file has all of them
MARKS = {
    ClaimVerdict.HOLDS: "✓",
    ClaimVerdict.CONDITION: "~",
    ClaimVerdict.CORRECTED: "✗",
    ClaimVerdict.OPEN: "?",
}
"""Beside the word, for who sees no colours."""

HEADLINES = (
    "1BitMean preserves",
    "The accuracy with α-point rounding",
    "Two users of one pattern",
    "A user whose value stays",
    "At ε = 1, γ = 0.2",
    "Collecting usage of several apps",
    "1BitRRPM is consistently better",
    "BinFlip (equivalently",
    "4BitFlipPM to 1BitFlipPM",
    "For each app and s one pattern",
)
"""How the ten claims begin that a report opens with: what the paper is cited for."""

DEFAULT_POPULATION = (
    "daily seconds of three apps per person, drawn from generators fitted to published recordings "
    "(Vuorre et al., osf.io/fb38n), since the paper's data set is not public"
)


class FolderError(ReticentError):
    """A folder that a report cannot be written to."""


def check_folder(folder: Path) -> None:
    """Raise unless `folder` is new, empty, or holds an earlier report and may be written over."""
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder}: expected a folder, got a file.")
    if folder.is_dir() and any(folder.iterdir()) and _earlier(folder) is None:
        raise FolderError(
            f"{folder}: expected an empty folder or an earlier report, got other files.\n"
            "  Hint: give another folder with --out, or empty this one yourself"
        )


def _earlier(folder: Path) -> list[str] | None:
    """The files of an earlier report in a folder, or None if there is none."""
    try:
        results = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
        if results["written_by"] != WRITTEN_BY:
            return None
        return [name for name in results["files"] if Path(name).name == name]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(run: Run, folder: Path) -> Path:
    """Write the report over an earlier one, whose files alone are removed; returns the page to open."""
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in _earlier(folder) or []:
        (folder / name).unlink(missing_ok=True)
    written = []
    for result in run.results:
        for table in result.tables:
            written.append(f"{result.stem(table)}.csv")
            write_csv(table, folder / written[-1])
        for picture in result.pictures:
            written += [file.name for file in save(picture.draw(), folder, result.stem(picture))]
    for name in PAGES:
        (folder / name).write_text(page(run, name), encoding="utf-8")
        written.append(name)
    answer = {**to_dict(run), "files": [*written, RESULTS]}
    (folder / RESULTS).write_text(json.dumps(answer, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return folder / "index.html"


def write_csv(table: NumberTable, file: Path) -> None:
    """A table with all digits: what Python reads back is what was computed."""
    with file.open("w", encoding="utf-8", newline="") as text:
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(table.columns)
        rows.writerows([_plain(cell) for cell in row] for row in table.rows)


def to_dict(run: Run) -> dict[str, Any]:
    """Everything but the pictures, ready for JSON: the same in every run with one seed."""
    setting = run.setting

    def cells(row: Sequence[object]) -> list[object]:
        plain = map(_plain, row)
        return [None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in plain]

    return {
        "written_by": WRITTEN_BY,
        "setting": {
            "seed": setting.seed,
            "repetitions": setting.repetitions,
            "fleets": list(setting.fleets),
            "days": setting.days,
            "populations": [counter.name for counter in setting.populations],
        },
        "versions": run.versions,
        "results": [
            {
                "name": result.name,
                "title": result.title,
                "summary": result.summary,
                "claims": [asdict(claim) for claim in result.claims],
                "tables": [
                    asdict(table) | {"rows": [cells(row) for row in table.rows]} for table in result.tables
                ],
                "pictures": [
                    {"name": picture.name, "title": picture.title, "caption": picture.caption}
                    for picture in result.pictures
                ],
            }
            for result in run.results
        ],
    }


def cost(run: Run) -> dict[str, Any]:
    """What a run took, which differs between two runs."""
    seconds = {result.name: round(s, 3) for result, s in zip(run.results, run.seconds, strict=True)}
    return {"seconds": seconds, "peak_bytes": run.peak_bytes}


def _plain(cell: object) -> object:
    """A cell without NumPy."""
    return cell.item() if hasattr(cell, "item") else cell


def page(run: Run, name: str) -> str:
    """A page: `index.html`, styles inline and nothing from elsewhere, or `claims.md`."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=name.endswith(".html"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"shown": shown, "tally": tally, "cell": markdown_cell, "found": found, "why": why}
    return environment.get_template(PAGES[name]).render(
        run=run,
        facts=facts(run),
        headlines=[
            claim for words in HEADLINES for claim in run.of_the_paper if claim.says.startswith(words)
        ],
        marks=MARKS,
        most_rows=MOST_ROWS,
    )


def facts(run: Run) -> dict[str, str]:
    """What is needed to repeat the run."""
    setting = run.setting
    return {
        "Seed": str(setting.seed),
        "Repetitions": f"{setting.repetitions:,}",
        "Fleets": ", ".join(f"{fleet:,}" for fleet in setting.fleets) + " devices",
        "Days": str(setting.days),
        "Population": population(run),
        "Versions": ", ".join(f"{name} {number}" for name, number in run.versions.items()),
    }


def population(run: Run) -> str:
    """Where values came from, and why that is fair."""
    if not run.setting.populations:
        return DEFAULT_POPULATION
    sources = []
    for given in run.setting.populations:
        individuals = len(getattr(given, "individuals", ()))
        source = f"{given.name}, {individuals:,} recorded individuals" if individuals else given.name
        if 0 < individuals < max(run.setting.fleets):
            source += (
                f" (fleets above {individuals:,} are drawn from them with replacement, so some individuals "
                "stand for several devices and rare patterns look more common than they are)"
            )
        sources.append(source)
    return "; ".join(sources)


def shown(cell: object) -> str:
    """
    A cell of a table.

    >>> shown(3_000_000), shown(0.123456), shown(True), shown("m/2"), shown(86400.25), shown(float("inf"))
    ('3,000,000', '0.1235', 'yes', 'm/2', '86,400', 'no bound')
    """
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if not isinstance(cell, int | float):
        return str(cell)
    if not math.isfinite(cell):
        return "–" if math.isnan(cell) else "no bound"
    if isinstance(cell, int) or (cell == int(cell) and abs(cell) < 1e6):
        return f"{int(cell):,}"
    return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"


def markdown_cell(text: str) -> str:
    """A cell of a Markdown table: neither a bar nor a line break ends it."""
    return text.replace("|", "\\|").replace("\n", " ")


def found(claim: PaperClaim) -> str:
    """The figure that decides a claim, its condition or correction, and its erratum."""
    corrected = "; ".join(filter(None, (claim.measured, claim.condition)))
    return f"{corrected} ({claim.erratum})" if claim.erratum else corrected


def why(claim: PaperClaim) -> str:
    """As `found`, but without the figure where an erratum has it."""
    return f"{claim.condition} ({claim.erratum})" if claim.erratum and claim.condition else found(claim)


def tally(claims: Sequence[PaperClaim]) -> str:
    """How many claims ended how."""
    counts = Counter(claim.verdict for claim in claims)
    return (
        f"{len(claims)} claim{'s' * (len(claims) != 1)}: {counts[ClaimVerdict.HOLDS]} hold, "
        f"{counts[ClaimVerdict.CONDITION]} hold with a condition, {counts[ClaimVerdict.CORRECTED]} needed correcting, "
        f"{counts[ClaimVerdict.OPEN]} not checkable on public data"
    )


def duration(seconds: float) -> str:
    """A length of time."""
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"
