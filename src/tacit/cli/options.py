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
    from tacit.stores import SqlStore


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
    help="sqlite:///PATH or postgresql://USER@HOST/DATABASE; also from a file named by TACIT_STORE_FILE.",
)


@contextmanager
def opened_store(url: str) -> Iterator[SqlStore]:
    """A store that exists; one that is only mistyped is not made."""
    from tacit.stores import open_store

    path = url.removeprefix("sqlite:///")
    if path != url and not Path(path).is_file():
        raise StoreError(
            f"{url}: there is no such file.\n  Hint: tacit serve and tacit keys create make a new store"
        )
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()
