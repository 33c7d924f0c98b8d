"""Options that several verbs share."""

from __future__ import annotations

import os
from pathlib import Path

import click


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
