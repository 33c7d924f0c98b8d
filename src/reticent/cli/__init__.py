"""The command line: one file per verb."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click


def command() -> click.Group:
    """The `reticent` command with all its verbs, as click has it."""
    from reticent.cli.root import reticent

    return reticent


def main() -> None:
    """Run the `reticent` command."""
    try:
        reticent = command()
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit("The command line is an optional part: pip install 'reticent[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    reticent(complete_var="_RETICENT_COMPLETE")  # the name also where it runs as `python -m reticent`
