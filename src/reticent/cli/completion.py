"""`reticent completion`: what to type next, completed by the shell."""

from __future__ import annotations

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from reticent.cli import COMPLETE
from reticent.cli.output import as_json, print_json


class ColonBash(BashComplete):
    """
    Bash takes a colon for the end of a word, so an address arrives in pieces: they are joined before
    completing, and what is there already is cut off the answer.
    """

    name = "bash"

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one under the cursor, and what is typed of that."""
        before, incomplete = super().get_completion_args()
        words = join_colons([*before, incomplete])
        return words[:-1], words[-1]

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Completions without the part that bash keeps in an earlier word."""
        kept = incomplete.rpartition(":")[0]
        found = super().get_completions(args, incomplete)
        if kept:
            for item in found:
                item.value = item.value.removeprefix(f"{kept}:")
        return found


SHELLS: dict[str, type[ShellComplete]] = {"bash": ColonBash, "zsh": ZshComplete, "fish": FishComplete}
add_completion_class(ColonBash)


def join_colons(words: list[str]) -> list[str]:
    """
    Words as they were typed, from the pieces that bash makes of them.

    >>> join_colons(["--store", "sqlite", ":", "///reticent.db", "--metric", ""])
    ['--store', 'sqlite:///reticent.db', '--metric', '']
    >>> join_colons(["--store", "sqlite", ":"])
    ['--store', 'sqlite:']
    """
    joined: list[str] = []
    glue = False
    for word in words:
        if joined and (glue or word == ":"):
            joined[-1] += word
        else:
            joined.append(word)
        glue = word == ":"
    return joined


@click.command(short_help="Print the script for completion in a shell.")
@click.argument("shell", type=click.Choice(list(SHELLS)))
@as_json
def completion(shell: str, as_json: bool) -> None:
    """
    Print the script that lets SHELL complete verbs, options, plans, stores and metrics.

    \b
    One line installs it:
      bash   echo 'eval "$(reticent completion bash)"' >> ~/.bashrc
      zsh    echo 'eval "$(reticent completion zsh)"' >> ~/.zshrc
      fish   reticent completion fish > ~/.config/fish/completions/reticent.fish

    \b
    Example:
      reticent completion bash
    """
    from reticent.cli.root import reticent

    script = SHELLS[shell](reticent, {}, "reticent", COMPLETE).source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
