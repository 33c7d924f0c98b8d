"""The command line: one file per verb."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the `reticent` command."""
    try:
        from reticent.cli.root import reticent
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit("The command line is an optional part: pip install 'reticent[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    reticent(complete_var="_RETICENT_COMPLETE")  # the name also where it runs as `python -m reticent`
