"""Options that several verbs share: one name, one metavar and one wording for one thing."""

from __future__ import annotations

import difflib
import os
import shutil
import socket
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click
from click.core import ParameterSource

from reticent.errors import ParameterError, ReticentError, StoreError

if TYPE_CHECKING:
    import asyncio

    from reticent_collector.http import Client
    from reticent_collector.stores import Store

Decorator = Callable[[Any], Any]


def given_store(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A store by option, variable, or a file that a variable names: an address may hold a password."""
    file, source = os.environ.get("RETICENT_STORE_FILE"), context.get_parameter_source(str(parameter.name))
    if file and source not in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT):
        try:
            value = Path(file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
            raise ReticentError(f"RETICENT_STORE_FILE: {file}: {reason}.") from None
    return value or None


def _either_store(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A path alone is refused with the address that was probably meant."""
    url = given_store(context, parameter, value)
    path = (url or ":").removeprefix("sqlite://").removeprefix("sqlite:")
    if path and not {":", "@"} & {*path} and not (path.startswith("/") and path != url):
        kind = "lake" if Path(path).is_dir() else "sqlite"
        raise ReticentError(
            f"--store: expected sqlite:///PATH, postgresql://USER@HOST/DATABASE or lake:///FOLDER, got {url}.\n"
            f"  Hint: --store {kind}:///{path}"
        )
    return url


def _needed_store(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    url = _either_store(context, parameter, value)
    if url is None:
        example = "For example: --store sqlite:///reticent.db"
        raise click.MissingParameter(example, ctx=context, param=parameter)
    return url


def segment_tags(
    context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, str]:
    """Of --segment: tags by the name of their segment."""
    if not all(":" in pair for pair in pairs):
        raise click.BadParameter("expected NAME:TAG, such as os:linux.")
    tags = dict(pair.split(":", 1) for pair in pairs)
    if len(tags) < len(pairs):
        raise click.BadParameter("expected one tag of each segment.")
    return tags


def standard_input() -> Path:
    """Standard input as a temporary file that only this user can read; it can be read once."""
    take_standard_input()
    folder = click.get_current_context().find_root().with_resource(TemporaryDirectory(prefix="reticent-"))
    path = Path(folder) / "standard-input"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def take_standard_input() -> None:
    """Raise `UsageError` when another argument has read standard input already."""
    meta = click.get_current_context().meta
    if meta.setdefault("reticent.standard_input", False):
        raise click.UsageError("- is standard input, which can be read once: give one - only.")
    meta["reticent.standard_input"] = True


class _InputFile(click.Path):
    """A file to read; - is standard input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value) != "-" or ctx is None:
            return super().convert(value, param, ctx)
        return standard_input()


input_file = _InputFile(exists=True, dir_okay=False, path_type=Path)
input_file_or_folder = _InputFile(exists=True, path_type=Path)

_store: dict[str, Any] = {
    "envvar": "RETICENT_STORE",
    "metavar": "URL",
    "help": "sqlite:///PATH, postgresql://USER@HOST/DATABASE or lake:///FOLDER; or RETICENT_STORE, or the file "
    "that RETICENT_STORE_FILE names.",
}
store_option = click.option("--store", callback=_needed_store, **_store)


def _key(context: click.Context, parameter: click.Parameter, path: Path | None) -> str | None:
    """The key in a file: on the command line every user of the machine could see it."""
    if path is None:
        return None
    try:
        if str(path) == "-":  # never on a disk
            take_standard_input()
            words = sys.stdin.read().split()
        else:
            words = path.read_text().split()
    except UnicodeDecodeError:
        raise click.BadParameter("expected a file with one key in it, got one that is not text.") from None
    if len(words) != 1:
        raise click.BadParameter(f"expected a file with one key in it, got {len(words)} words.")
    return words[0]


key_file_option = click.option(
    "--key-file", "key", callback=_key, metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="The file that holds the key for the collector; - is standard input.",
)  # fmt: skip


def make_client(option: str, url: str, key: str | None, **limits: Any) -> Client:
    """A client of the running collector that an option names."""
    from reticent_collector.http import Client

    try:
        return Client(url, key, **limits)
    except ParameterError as error:
        option = "--key-file" if error.name == "key" else option
        raise click.UsageError(f"{option}: expected {error.expected}, got {error.got}.") from None


@contextmanager
def opened_client(url: str, key: str | None) -> Iterator[tuple[Client, asyncio.Runner]]:
    """A client of a running collector, and what runs its requests."""
    import asyncio

    client = make_client("--url", url, key)
    with asyncio.Runner() as runner, closing(client):
        yield client, runner


def one_source(store: str | None, url: str | None) -> None:
    """Raise `UsageError` unless one of the two was given; a store in the environment gives way to --url."""
    context = click.get_current_context()
    both = url is not None and context.get_parameter_source("store") is ParameterSource.COMMANDLINE
    if both or (store is None and url is None):
        raise click.UsageError(f"Give --store URL or --url URL{', not both' * both}.")
    if context.params.get("key") is not None and url is None:
        raise click.UsageError("--key-file goes with --url.")


def _time(_context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    from reticent_collector.results import unix_seconds

    return None if text is None else unix_seconds(f"--{parameter.name}", text)


def together(*options: Decorator) -> Decorator:
    """Several options as one decorator, in this order in --help."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def variables(prefix: str) -> Decorator:
    """Let a variable of the environment set each option of a command: PREFIX_MAX_BODY sets --max-body."""

    def decorate(command: click.Command) -> click.Command:
        for option in command.params:
            if isinstance(option, click.Option):
                option.envvar = f"{prefix}_{option.opts[0][2:].replace('-', '_').upper()}"
        return command

    return decorate


plan_option = click.option("--plan", metavar="NAME", help="Rounds of this plan only.")
confidence_option = click.option(
    "--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95,
    show_default=True, metavar="C", help="Confidence level of the intervals.",
)  # fmt: skip
source_options = together(
    click.option("--store", callback=_either_store, **_store),
    click.option("--url", metavar="URL", help="Instead of a store: a running collector, as https://HOST."),
    key_file_option,
)
"""Of verbs that use a store or a running collector."""


def selection_options(**last: Any) -> Decorator:
    """Of verbs that read estimates: where from, and which."""
    return together(
        source_options,
        plan_option,
        click.option("--metric", metavar="NAME", help="This metric only."),
        click.option("--every", type=click.Choice(["round", "window", "day", "week", "month"]),
                     help="Period of each figure; a week, or a longer round or window of the plan, when left out."),
        click.option("--since", callback=_time, metavar="TIME",
                     help="Periods that begin then or later: 2026-11-01, or 2026-11-01T06:00Z. UTC unless it has "
                          "an offset."),
        click.option("--until", callback=_time, metavar="TIME", help="Periods that begin before then."),
        click.option("--last", type=click.IntRange(1), metavar="N", **last,
                     help="Latest rounds or periods; all when left out"
                          + (" and --since is given." if last else ".")),
        click.option("--segment", multiple=True, callback=segment_tags, metavar="NAME:TAG",
                     help="Devices with this tag only; may be repeated."),
        click.option("--by", metavar="NAME", help="Estimate each tag of this segment separately."),
        click.option("--plan-version", "version", type=click.IntRange(1), metavar="N",
                     help="Devices with this version of the plan only; all versions are added when left out."),
        confidence_option,
    )  # fmt: skip


against_option = click.option(
    "--against",
    default="before",
    show_default=True,
    metavar="WHEN",
    help="The period that is subtracted: before, week, 4-weeks, year, or that of a date such as 2026-08-17.",
)
baseline_option = click.option(
    "--baseline",
    metavar="TAG",
    help="Subtract the devices with this tag of --by from those with each other tag.",
)


@contextmanager
def opened_store(url: str) -> Iterator[Store]:
    """A store that exists: a mistyped address makes no new one."""
    from reticent_collector.stores import open_store

    file, folder = url.removeprefix("sqlite:///"), url.removeprefix("lake:///")
    is_file, is_lake = Path(file).is_file(), (Path(folder) / "lake.json").is_file()
    if folder != url and not is_lake and Path(folder).is_dir():
        raise StoreError(
            f"{url}: this folder is not a lake: it has no lake.json.\n"
            "  Hint: give the folder that reticent serve uses"
        )
    if (file != url and not is_file) or (folder != url and not is_lake):
        raise StoreError(
            f"{url}: there is no such store.\n  Hint: reticent serve and reticent keys create make a new one"
        )
    if file != url:
        _check_is_store(url, Path(file))
    with closing(open_store(url)) as store:
        yield store


def _check_is_store(url: str, path: Path) -> None:
    """Raise `StoreError` for an empty file or a database of another program: opening it would make a store of it."""
    import sqlite3

    from reticent_collector.stores.sqlite import APPLICATION_ID

    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database:
            ((application,),) = database.execute("PRAGMA application_id")
    except sqlite3.Error:  # it is no database, or cannot be read: opening it says why
        return
    if application != APPLICATION_ID:
        what = "is not a database of reticent" if path.stat().st_size else "is an empty file"
        raise StoreError(
            f"{url}: {what}; it was not changed.\n  Hint: give the file that reticent serve uses, or a backup of it"
        )


def check_name(option: str, name: str | None, names: Collection[str]) -> None:
    """
    Raise `ReticentError` for a name that is not among these, with the one that was probably meant.

    >>> check_name("metric", "editor_second", ["editor_seconds", "editor_hours"])
    Traceback (most recent call last):
    ...
    reticent.errors.ReticentError: metric: expected one of editor_seconds, editor_hours, got editor_second.
      Hint: --metric editor_seconds?
    """
    if option == "plan" and not names:
        raise ReticentError(
            "no plan is registered here yet.\n"
            "  Hint: reticent serve PLAN registers one and takes the reports of devices"
        )
    if name is not None and name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"\n  Hint: --{option} {near[0]}?" if near else ""
        raise ReticentError(f"{option}: expected one of {', '.join(names) or '(none)'}, got {name}.{hint}")


def check_free(host: str, port: int, option: str) -> None:
    """Raise `ReticentError` when the address cannot be bound, before a store is opened; port 0 always can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except OSError as error:
        raise ReticentError(
            f"Cannot listen on {host}:{port}: {error.strerror}.\n  Hint: give another address or port with {option}"
        ) from error
