"""`reticent store check|backup`: looking after a store."""

from __future__ import annotations

from pathlib import Path

import click

from reticent.cli.options import opened_store, store_option
from reticent.cli.output import as_json, found_problems, print_json
from reticent.errors import StoreError


@click.group()
def store() -> None:
    """Check or back up a store."""


@store.command()
@store_option
@as_json
def check(store: str, as_json: bool) -> None:
    """
    Look through a store for anything that is not as it should be.

    \b
    Example:
      reticent store check --store sqlite:///reticent.db

    Exit code 3 when problems were found.
    """
    with opened_store(store) as opened:
        problems, url = opened.verify(), opened.url
    if as_json:
        print_json({"store": url, "problems": problems})
    else:
        for problem in problems:
            click.echo(problem)
        click.echo(
            f"{url}: {len(problems)} problem{'s' * (len(problems) > 1)}."
            if problems
            else f"{url}: all is well."
        )
    if problems:
        found_problems()


@store.command()
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@store_option
@as_json
def backup(path: Path, store: str, as_json: bool) -> None:
    """
    Copy a SQLite store into a new FILE while it is in use.

    \b
    Example:
      reticent store backup reticent-backup.db --store sqlite:///reticent.db
    """
    from reticent.stores.sqlite import SqliteBackend

    with opened_store(store) as opened:
        if not isinstance(opened.backend, SqliteBackend):
            raise StoreError(
                f"{opened.url}: expected a SQLite store.\n"
                "  Hint: pg_dump backs up PostgreSQL; the files of a lake can be copied"
            )
        opened.backend.backup(path)
    if as_json:
        print_json({"file": str(path)})
    else:
        click.echo(f"Copied to {path}.")
