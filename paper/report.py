"""The report of a run: a page for people (HTML and Markdown), and CSV, pictures and JSON beside it."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from paper.experiment import Result, Table
from paper.pages import html, markdown
from paper.pages.words import stem
from paper.run import Run
from reticent.errors import ReticentError
from reticent.plots import save

PAGE = "index.html"
WRITTEN_BY = "python -m paper"
_RESULTS = "results.json"


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


def write(run: Run, folder: Path, told: Callable[[str], None] = lambda _: None) -> Path:
    """
    Write the report; returns the page to open.

    Files of an earlier report in the folder are removed first, others are never touched: see `check_folder`.
    `told` hears the name of each file.
    """
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in _earlier(folder) or []:
        (folder / name).unlink(missing_ok=True)
    written: list[str] = []
    for result in run.results:
        for file in _files_of(result, folder):
            written.append(file)
            told(file)
    for name, text in ((PAGE, html.page(run)), ("report.md", markdown.page(run))):
        (folder / name).write_text(text, encoding="utf-8")
        written.append(name)
        told(name)
    answer = {**to_dict(run), "files": [*written, _RESULTS]}
    (folder / _RESULTS).write_text(json.dumps(answer, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return folder / PAGE


def _files_of(result: Result, folder: Path) -> Iterator[str]:
    for table in result.tables:
        name = f"{stem(result, table)}.csv"
        write_csv(table, folder / name)
        yield name
    for picture in result.pictures:
        yield from (file.name for file in save(picture.draw(), folder, stem(result, picture)))


def write_csv(table: Table, file: Path) -> None:
    """A table with all digits: what Python reads back is what was computed."""
    with file.open("w", encoding="utf-8", newline="") as text:
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(table.columns)
        rows.writerows([_plain(cell) for cell in row] for row in table.rows)


def to_dict(run: Run) -> dict[str, Any]:
    """
    Everything but the pictures, ready for JSON.

    What differs between two runs with one seed (duration and memory) is under "run" and nowhere else.
    """
    setting = run.setting
    return {
        "written_by": WRITTEN_BY,
        "setting": {
            "seed": setting.seed,
            "repetitions": setting.repetitions,
            "fleets": list(setting.fleets),
            "days": setting.days,
            "population": setting.population.name if setting.population else None,
        },
        "versions": run.versions,
        "run": {
            "seconds": {r.name: round(s, 3) for r, s in zip(run.results, run.seconds, strict=True)},
            "peak_bytes": run.peak_bytes,
        },
        "results": [_result(result) for result in run.results],
    }


def _result(result: Result) -> dict[str, Any]:
    return {
        "name": result.name,
        "title": result.title,
        "summary": result.summary,
        "claims": [asdict(claim) for claim in result.claims],
        "tables": [
            {
                "name": table.name,
                "title": table.title,
                "columns": list(table.columns),
                "rows": [[_finite(_plain(cell)) for cell in row] for row in table.rows],
            }
            for table in result.tables
        ],
        "pictures": [
            {"name": picture.name, "title": picture.title, "caption": picture.caption}
            for picture in result.pictures
        ],
    }


def _plain(cell: object) -> object:
    """A cell without NumPy."""
    return cell.item() if hasattr(cell, "item") else cell


def _finite(cell: object) -> object:
    """JSON has no infinity."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _earlier(folder: Path) -> list[str] | None:
    """The files of an earlier report in a folder, or None if there is none."""
    try:
        found = json.loads((folder / _RESULTS).read_text(encoding="utf-8"))
        if found["written_by"] != WRITTEN_BY:
            return None
        return [name for name in found["files"] if Path(name).name == name]
    except (OSError, ValueError, KeyError, TypeError):
        return None
