"""Options that several verbs share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.errors import StoreError

if TYPE_CHECKING:
    from tacit.stores import Store


def _store(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    file = os.environ.get("TACIT_STORE_FILE")
    if value is None and file:
        value = Path(file).read_text().strip()
    if not value:
        raise click.MissingParameter(ctx=context, param=parameter)
    return value


store_option = click.option(
    "--store",
    envvar="TACIT_STORE",
    callback=_store,
    metavar="URL",
    help="sqlite:///PATH, postgresql://USER@HOST/DATABASE or lake:///FOLDER; or in file TACIT_STORE_FILE.",
)


@contextmanager
def opened_store(url: str) -> Iterator[Store]:
    """A store that exists; one that is only mistyped is not made."""
    from tacit.stores import open_store

    file, folder = url.removeprefix("sqlite:///"), url.removeprefix("lake:///")
    is_file, is_lake = Path(file).is_file(), (Path(folder) / "lake.json").is_file()
    if (file != url and not is_file) or (folder != url and not is_lake):
        raise StoreError(
            f"{url}: there is no such store.\n  Hint: tacit serve and tacit keys create make a new one"
        )
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()
