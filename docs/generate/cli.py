"""
Write docs/reference/cli.md: every verb with its arguments, its purpose and the names of its options.

    python docs/generate/cli.py            write it
    python docs/generate/cli.py --check    say whether it is current, and exit with 3 if not
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from writing import ROOT, main, table

from reticent.cli.root import reticent

HEAD = """\
# The command line

All verbs of `reticent` (or `python -m reticent`) with their options. `reticent VERB --help` describes each option, its
default and its environment variable; the site (`make docs`) has the same text below the table. `--json` prints JSON
for scripts. [serve](http.md#settings) has a table of settings. `reticent completion` sets up completion in a shell.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | failure: a file, a store or the network |
| 2 | wrong usage |
| 3 | a check found problems, or a goal cannot be met |
| 4 | `audit` only: nothing is wrong, but there are too few reports to decide |
| 130 | stopped by Ctrl-C |

Errors are one or two lines on standard error that say what to do.

"""


def verbs(group: click.Group = reticent, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every verb that does something, in the order of the names."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from verbs(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def row(name: str, command: click.Command) -> tuple[str, str, str]:
    """A verb in the table."""
    context = click.Context(command)
    arguments = [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]
    options = [each.opts[-1] for each in command.params if isinstance(each, click.Option)]
    purpose = command.get_short_help_str(limit=150)
    return f"`{' '.join([name, *arguments])}`", purpose, f"`{' '.join(options)}`" if options else ""


def pages() -> dict[Path, str]:
    """The page and its text."""
    rows = table(("verb", "purpose", "options"), (row(*verb) for verb in verbs()))
    return {ROOT / "docs" / "reference" / "cli.md": f"{HEAD}{rows}\n<!-- help -->\n"}


if __name__ == "__main__":
    main(pages)
