"""All installed verbs as one click group: what completion, the reference and tests look at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from reticent.cli import DEVICE_VERBS, JSON, added_verbs, run_device
from reticent_collector.cli.output import VerbCommand, as_json, show


class Verbs(click.Group):
    """Imports a verb when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs of all packages that are installed here."""
        return sorted(["device", *added_verbs()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of this name."""
        if cmd_name == "device":
            return device_verbs
        verbs: dict[str, Any] = added_verbs()
        return verbs[cmd_name]() if cmd_name in verbs else None


class DeviceVerbs(click.Command):
    """`reticent device …`, which reads its arguments itself."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs of a device, then files and the options of the verb."""
        given: Sequence[str] = ctx.params.get("arguments") or ()
        if not given:
            words = list(DEVICE_VERBS)
        elif given[0] in DEVICE_VERBS and incomplete.startswith("-"):
            words = [option.name for option in (*DEVICE_VERBS[given[0]].options, JSON)]
        elif given[0] in DEVICE_VERBS and len(given) > 1:
            words = list(DEVICE_VERBS[given[0]].choices)
        else:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]


@click.command(
    "device",
    cls=DeviceVerbs,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
    short_help="Show what a device sends, and choose whether it may.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def device_verbs(arguments: tuple[str, ...]) -> None:
    """Show what a device sends, and choose whether it may."""
    code = run_device(arguments)
    if code:
        raise SystemExit(code)


@click.group(cls=Verbs)
def reticent() -> None:
    """Private telemetry for counters."""


class Completion(VerbCommand):
    """Answers the shell when it asks for completions, which the variable of click's scripts tells."""

    def main(self, *arguments: Any, **settings: Any) -> Any:
        """Complete a word, or print the script."""
        instruction = os.environ.get("_RETICENT_COMPLETE")
        if instruction:
            raise SystemExit(shell_complete(reticent, {}, "reticent", "_RETICENT_COMPLETE", instruction))
        return super().main(*arguments, **settings)


@click.command(cls=Completion, short_help="Print the script for completion in a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@as_json
def completion(shell: str, as_json: bool) -> None:
    """
    Print the script that lets SHELL complete verbs and options.

    \b
    One line installs it:
      bash   echo 'eval "$(reticent completion bash)"' >> ~/.bashrc
      zsh    echo 'eval "$(reticent completion zsh)"' >> ~/.zshrc
      fish   reticent completion fish > ~/.config/fish/completions/reticent.fish

    \b
    Example:
      reticent completion bash
    """
    complete = get_completion_class(shell)
    assert complete is not None  # noqa: S101  the three above are click's own
    script = complete(reticent, {}, "reticent", "_RETICENT_COMPLETE").source()
    show(as_json, {"shell": shell, "script": script}, script)
