"""The command line: one file per verb, or a folder where a verb has several parts."""

from __future__ import annotations

import sys

STOPPED = 130
"""The exit code of Ctrl-C: 128 and the number of the signal, as shells count."""


COMPLETE = "_RETICENT_COMPLETE"
"""The variable by which a shell's script asks for completions, also of `python -m reticent`."""


def main() -> None:
    """Run the `reticent` command."""
    try:
        from reticent.cli.root import reticent
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit("The command line is an optional part: pip install 'reticent[cli]'")
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    reticent(complete_var=COMPLETE)
