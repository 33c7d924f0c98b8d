"""The one printer of all verbs: tables, progress and failures for people, JSON for scripts."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from reticent.cli import FOUND_PROBLEMS, json_text
from reticent.errors import MissingPackageError, ReticentError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

as_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON, for scripts.")
quiet = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
PROGRESS_SECONDS = 5.0
"""Between two lines of progress where there is no terminal."""


def console(markup: bool = True) -> Console:
    """Where people read; wide enough for a table when the output is a file. Without `markup`, [x] is no style."""
    from rich.console import Console

    screen = Console(highlight=False, emoji=False, markup=markup)
    if not screen.is_terminal:
        screen.width = max(screen.width, 110)
    return screen


def print_json(answer: object) -> None:
    """An answer as JSON."""
    click.echo(json_text(answer))


def show(as_json: bool, answer: object, *parts: str | Table) -> None:
    """The answer: as JSON where it is asked for, else its parts, plain lines and tables, for people."""
    if as_json:
        print_json(answer)
        return
    for part in parts:
        if isinstance(part, str):
            click.echo(part)
        else:
            console(markup=False).print(part)


def found_problems() -> NoReturn:
    """End with the exit code of a check that found problems."""
    raise SystemExit(FOUND_PROBLEMS)


def now_and_then(quiet: bool) -> Callable[[Callable[[], str]], None]:
    """Writes a line to standard error every `PROGRESS_SECONDS`, unless it is to be quiet."""
    shown_at = time.monotonic()

    def tell(line: Callable[[], str]) -> None:
        nonlocal shown_at
        if not quiet and time.monotonic() - shown_at >= PROGRESS_SECONDS:
            shown_at = time.monotonic()
            click.echo(line(), err=True)

    return tell


@contextmanager
def progress(label: str, quiet: bool) -> Iterator[Callable[[float, float], None]]:
    """On standard error, called with what is done and the total: a bar in a terminal, else a line now and then."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    screen, begun, tell = Console(stderr=True), time.monotonic(), now_and_then(quiet)

    def line(done: float, total: float) -> str:
        left = (time.monotonic() - begun) * (total - done) / done
        return f"{label}: {done / total:.0%}, about {left:.0f} s left"

    if quiet or not screen.is_terminal:
        yield lambda done, total: tell(lambda: line(done, total)) if 0 < done < total else None
        return
    columns = (TextColumn(label), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda done, total: bar.update(task, completed=done / total)


@contextmanager
def plain_faults() -> Iterator[None]:
    """Errors of reticent and of the system, missing packages and Ctrl-C, in plain words."""
    try:
        yield
    except ReticentError as error:
        text, cause = str(error), str(error.__cause__ or "")
        package = re.search(
            r"\binstall (\S+)", cause, re.IGNORECASE
        )  # of fsspec: "Install s3fs to access S3"
        if package and isinstance(error.__cause__, ImportError) and cause in text:
            text = text.replace(cause, f"{package[1]} is not installed.\n  Hint: pip install {package[1]}")
        raise click.ClickException(text) from error
    except ModuleNotFoundError as error:
        from reticent_collector.cli.doctor.machine import package_of

        package_name = package_of(error.name or "")
        if package_name is None:
            raise
        raise click.ClickException(str(MissingPackageError(package_name, str(error.name)))) from error
    except BrokenPipeError:
        raise  # the reader closed the pipe; click ends quietly
    except OSError as error:
        if error.strerror is None:
            raise
        place = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{place}{error.strerror}.") from error
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
        raise SystemExit(130) from None  # 128 and the number of the signal, as shells count


class _Plain:
    """Failures in plain words, wherever a verb is run from; the same look of --help for all verbs."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        settings["context_settings"] = {
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
            **(settings.get("context_settings") or {}),
        }
        super().__init__(*arguments, **settings)

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:
        """Read the arguments."""
        with plain_faults():
            context: click.Context = super().make_context(*arguments, **settings)  # type: ignore[misc]
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        with plain_faults():
            return super().invoke(ctx)  # type: ignore[misc]


class VerbCommand(_Plain, click.Command):
    """A command of `reticent`."""


class VerbGroup(_Plain, click.Group):
    """A command of `reticent` that has commands of its own."""


def make_folder(folder: Path | None) -> None:
    """Make the folder of --out before the work begins: a folder that cannot be made ends the command at once."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)


def table(
    *columns: str, rows: Iterable[Iterable[object]] = (), title: str | None = None, words: Iterable[int] = ()
) -> Table:
    """A plain table; the first column and those in `words` are text, the others figures."""
    from rich.table import Table

    shown = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    left = {0, *(place % len(columns) for place in words)}
    for place, column in enumerate(columns):
        shown.add_column(column, justify="left" if place in left else "right", style="" if place else "bold")
    for row in rows:
        shown.add_row(*map(str, row))
    return shown


def figure(number: float) -> str:
    """A figure for people, to four significant digits; JSON has all of them."""
    if math.isinf(number):
        return "no bound"
    text = f"{number:,.4g}" if abs(number) < 1000 else f"{number:,.0f}"
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
