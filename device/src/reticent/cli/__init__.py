"""The command line: one file per verb."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click


def command() -> click.Group:
    """The `reticent` command with all its verbs, as click has it."""
    from reticent_collector.cli.root import reticent

    return reticent


def bare(arguments: Sequence[str]) -> int:
    """The command on a bare install, without click; returns the exit code."""
    from reticent.cli import device

    if arguments[:1] == ["device"]:
        return device.main(arguments[1:])
    verb = arguments[0] if arguments else ""
    extra = {"agent": "agent", "count": "lake", "sql": "lake"}.get(verb, "collector")
    sys.stderr.write(
        f"{f'reticent {verb}'.strip()} needs packages that are not installed: pip install 'reticent[{extra}]'\n"
        f"Without them reticent device works: {', '.join(device.VERBS)}.\n"
    )
    return 1


def main() -> None:
    """Run the `reticent` command."""
    try:
        reticent = command()
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(bare(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    reticent(complete_var="_RETICENT_COMPLETE")  # the name also where it runs as `python -m reticent`
