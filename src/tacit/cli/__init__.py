"""The command line: one file per verb, or a folder where a verb has several parts."""

from __future__ import annotations

import sys

STOPPED = 130
"""The exit code of Ctrl-C: 128 and the number of the signal, as shells count."""


COMPLETE = "_TACIT_COMPLETE"
"""The variable by which a shell's script asks for completions, also of `python -m tacit`."""


def main() -> None:
    """Run the `tacit` command."""
    try:
        from tacit.cli.root import tacit
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit("The command line is an optional part: pip install 'tacit[cli]'")
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    tacit(complete_var=COMPLETE)
