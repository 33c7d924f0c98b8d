"""How verbs answer: tables for people, JSON for scripts."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

FOUND_PROBLEMS = 3

as_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON, for scripts.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
PROGRESS_SECONDS = 5.0
"""Between two lines of progress where there is no terminal."""


def console() -> Console:
    """Where people read; wide enough for a table when the output is a file."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=max(screen.width, 110))


def print_json(answer: object) -> None:
    """An answer as JSON; what has no bound is null, since JSON has no infinity."""
    click.echo(json.dumps(_finite(answer), indent=2, ensure_ascii=False, default=str))


def found_problems() -> NoReturn:
    """End with the exit code of a check that found problems."""
    raise SystemExit(FOUND_PROBLEMS)


@contextmanager
def progress(label: str, quiet: bool) -> Iterator[Callable[[float, float], None]]:
    """On standard error, told how much of how much is done: a bar in a terminal, elsewhere a line now and then."""
    screen = Console(stderr=True)
    columns = (TextColumn(label), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    begun = shown_at = time.monotonic()

    def line(done: float, total: float) -> None:
        nonlocal shown_at
        now = time.monotonic()
        if now - shown_at >= PROGRESS_SECONDS and 0 < done < total:
            shown_at = now
            left = (now - begun) * (total - done) / done
            click.echo(f"{label}: {done / total:.0%}, about {left:.0f} s left", err=True)

    if quiet or not screen.is_terminal:
        yield (lambda done, total: None) if quiet else line
        return
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda done, total: bar.update(task, completed=done / total)


def make_folder(folder: Path | None) -> None:
    """Make the folder of --out before the work begins, so that nothing is worked out in vain."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table; the first column is text, the others are figures."""
    rows = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        rows.add_column(column, justify="left" if place == 0 else "right", style="bold" if place == 0 else "")
    return rows


def figure(number: float, digits: int = 4) -> str:
    """A figure for people, to `digits` significant digits; JSON has all of them."""
    if math.isinf(number):
        return "no bound"
    text = f"{number:,.{digits}g}" if abs(number) < 1000 else f"{number:,.0f}"
    return f"{text}.0" if text.lstrip("-").isdigit() and abs(number) < 10 else text


def date_and_time(seconds: int | None) -> str:
    """
    Unix seconds as a date and a time of day (UTC).

    >>> date_and_time(86_400), date_and_time(None)
    ('1970-01-02 00:00', '')
    """
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def counted(number: int, word: str) -> str:
    """
    A number of things.

    >>> counted(1, "round"), counted(1_460, "round"), counted(0, "note")
    ('1 round', '1,460 rounds', 'no notes')
    """
    return f"{number:,} {word}{'s' * (number != 1)}" if number else f"no {word}s"


def _finite(answer: object) -> object:
    if isinstance(answer, float) and not math.isfinite(answer):
        return None
    if isinstance(answer, dict):
        return {key: _finite(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [_finite(value) for value in answer]
    return answer
