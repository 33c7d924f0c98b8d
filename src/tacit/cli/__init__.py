"""The command line: one file per verb."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the `tacit` command."""
    try:
        from tacit.cli.root import tacit
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit("The command line is an optional part: pip install 'tacit[all]'")
    tacit()
