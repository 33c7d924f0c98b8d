"""
Write docs/reference/cli.md: every verb with its arguments and its purpose.

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

What each verb of `reticent` (or `python -m reticent`) is for. `reticent VERB --help` has its options with their
defaults and environment variables, and an example; so has this page on the site (`make docs`). The options of `serve`
are [settings of the collector](http.md#settings). Verbs that print a result take `--json`. Errors are one or two
lines on standard error that say what to do.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | failure: a file, a store or the network |
| 2 | wrong usage |
| 3 | a check found problems, or a goal cannot be met |
| 4 | `audit` only: nothing is wrong, but there are too few reports to decide |
| 130 | stopped by Ctrl-C |

"""


def verbs(group: click.Group = reticent, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every verb that does something, in the order of the names."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from verbs(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def row(name: str, command: click.Command) -> tuple[str, str]:
    """A verb in the table."""
    context = click.Context(command)
    arguments = [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]
    return f"`{' '.join([name, *arguments])}`", command.get_short_help_str(limit=150)


def pages() -> dict[Path, str]:
    """The page and its text."""
    rows = table(("verb", "purpose"), (row(*verb) for verb in verbs()))
    return {ROOT / "docs" / "reference" / "cli.md": f"{HEAD}{rows}\n<!-- help -->\n"}


if __name__ == "__main__":
    main(pages)
