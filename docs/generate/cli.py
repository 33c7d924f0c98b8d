"""
docs/reference/cli.md, from the commands themselves.

    python docs/generate/cli.py            writes the page
    python docs/generate/cli.py --check    exit code 3 when it is not what would be written
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from reticent.cli.root import reticent

PAGE = Path(__file__).parents[1] / "reference" / "cli.md"
NOT_CURRENT = 3

HEAD = """\
# The command line

Written by `python docs/generate/cli.py` from the commands themselves: change them, not this page.

`reticent VERB --help` says the same in a terminal, and `python -m reticent` is the same as `reticent`. Verbs that
answer take `--json`, for scripts. Errors are a line or two on standard error that say what to do.
`reticent completion` lets a shell complete verbs, options, plans, stores and metrics.

| exit code | means |
|---|---|
| 0 | ok |
| 1 | failure: a file, a store or a network said no |
| 2 | wrong usage |
| 3 | a check found problems, or a goal cannot be met |
| 4 | `audit` only: nothing is wrong, but there were too few reports to tell |
| 130 | stopped by Ctrl-C |

An option with a variable in its last column can also be set by that variable of the environment.
"""


def verbs(group: click.Group, path: str = "reticent") -> Iterator[tuple[str, click.Command]]:
    """Every verb in the order of its name, those of a group after it."""
    for name in sorted(group.commands):
        command = group.commands[name]
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from verbs(command, f"{path} {name}")


def page() -> str:
    """The whole page."""
    found = list(verbs(reticent))
    listed = [f"| [`{name}`](#{anchor(name)}) | {summary(command)} |" for name, command in found]
    contents = "\n".join(["| verb | does |", "|---|---|", *listed])
    return (
        "\n".join([HEAD, contents, "", *(section(name, command) for name, command in found)]).rstrip() + "\n"
    )


def anchor(name: str) -> str:
    """The link to a heading."""
    return name.replace(" ", "-")


def summary(command: click.Command) -> str:
    """The first sentence of a verb's help."""
    first = " ".join(paragraphs(command)[0].split())
    return re.split(r"(?<=[a-z)])[.:;] |\.$", escape(first))[0] + "."


def section(name: str, command: click.Command) -> str:
    """A verb: synopsis, text, options, example, exit codes."""
    context = click.Context(command, info_name=name)
    pieces = " ".join(command.collect_usage_pieces(context))
    parts = [f"## {name}", "", f"    {name} {pieces}", ""]
    for text in paragraphs(command):
        parts += [block(text), ""]
    rows = [row(each) for each in command.params if isinstance(each, click.Option)]
    if rows:
        parts += ["| option | means | default | variable |", "|---|---|---|---|", *rows, ""]
    return "\n".join(parts)


def paragraphs(command: click.Command) -> list[str]:
    """The paragraphs of a verb's help; those that are not to be wrapped begin with a \\b."""
    return inspect.cleandoc(command.help or "").replace("\b\n", "\b").split("\n\n")


def block(text: str) -> str:
    """A paragraph as Markdown: prose, or a heading with its lines as they are."""
    if not text.startswith("\b"):
        return escape(" ".join(text.split()))
    head, *lines = text.removeprefix("\b").splitlines()
    return "\n".join([head, "", *(f"    {line.removeprefix('  ')}" for line in lines)])


def row(option: click.Option) -> str:
    """One option of the table."""
    names = ", ".join(option.opts)
    value = "" if option.is_flag else f" {option.make_metavar(click.Context(reticent))}"
    words = [escape(option.help or "")]
    if option.required:
        words.append("Required.")
    if option.multiple and "several times" not in words[0]:
        words.append("May be given several times.")
    default = option.default if option.show_default and option.default is not None else ""
    variable = f"`{option.envvar}`" if option.envvar else ""
    cell = f"`{names}{value}`".replace("|", "\\|")
    return f"| {cell} | {' '.join(words)} | {default} | {variable} |"


def escape(text: str) -> str:
    """Prose in which options and addresses are code."""
    plain = text.replace("|", "\\|")
    return re.sub(r"(?<![\w`/])(--[a-z][a-z-]+|[a-z0-9+]+://[^\s;,]*[^\s;,.]|[A-Z]+_[A-Z_]+)", r"`\1`", plain)


def main(arguments: list[str]) -> int:
    """Write the page, or compare it."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write(f"{__doc__}")
        return 2
    wanted = page()
    if not arguments:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    sys.stderr.write(f"{PAGE.name} is not current: python docs/generate/cli.py writes it.\n")
    return NOT_CURRENT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
