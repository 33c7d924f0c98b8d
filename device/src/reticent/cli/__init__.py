"""
The `reticent` command: the verbs of a device, and those that other installed packages add.

A package adds a verb with an entry point of the group `reticent.commands`: its name is the verb, its object is called
with `args` (what follows the verb) and `prog_name`, as a click command can be. It ends by raising `SystemExit`.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple


class KnownVerb(NamedTuple):
    """What the command knows about a verb before its package is imported, or where it is not installed."""

    package: str
    summary: str


VERBS = {
    "agent": KnownVerb(
        "reticent-otel[agent]", "Answer a plan with the OpenTelemetry metrics of this machine."
    ),
    "audit": KnownVerb("reticent-lab", "Test a plan's claims, and a client's bytes."),
    "completion": KnownVerb("reticent-collector", "Print the script for completion in a shell."),
    "count": KnownVerb("reticent-lake", "Count the rounds of a lake, or seal them."),
    "demo": KnownVerb("reticent-lab", "Run the whole system on this machine."),
    "design": KnownVerb("reticent-lab", "Find range, mechanism, epsilon and kind of answers for a goal."),
    "device": KnownVerb("reticent", "Show what a device sends, and choose whether it may."),
    "doctor": KnownVerb("reticent-collector", "Check an installation, and tell what to fix."),
    "estimate": KnownVerb("reticent-collector", "Show estimates with their intervals and changes."),
    "export": KnownVerb("reticent-collector", "Write estimates as a table."),
    "ingest": KnownVerb("reticent-collector", "Take reports from a file or a pipe."),
    "keys": KnownVerb("reticent-collector", "Create, list or revoke the keys of a collector."),
    "plan": KnownVerb("reticent-collector", "Check, compare, export or certify plans."),
    "relay": KnownVerb(
        "reticent-collector", "Take reports for a collector elsewhere, and hide their senders."
    ),
    "rounds": KnownVerb("reticent-collector", "List the rounds of a store, or seal them."),
    "serve": KnownVerb("reticent-collector", "Take reports, seal rounds, show estimates."),
    "simulate": KnownVerb("reticent-lab", "Run a plan on values of your own."),
    "sql": KnownVerb("reticent-lake", "Print the query that counts and debiases reports."),
    "store": KnownVerb("reticent-collector", "Check, back up, copy, repair or prune a store."),
}

HELP = """\
Usage: reticent [--version] [-h, --help] COMMAND ...

  Private telemetry for counters.

  A device answers with noisy bits; bits add up to counts; debiased counts are estimates.

  Start here:
    reticent demo                                   collector, fleet and dashboard on this machine
    reticent plan check plan.toml --devices 100000  what a plan costs and how accurate it is
    reticent simulate plan.toml --values usage.csv  the plan on your own data
    reticent serve plan.toml --store sqlite:///reticent.db
    reticent doctor --store sqlite:///reticent.db   what to fix on this machine

  Exit codes: 0 ok, 1 failure, 2 wrong usage, 3 a check found problems, 130 stopped by Ctrl-C.
"""


def added_verbs() -> dict[str, Callable[[], Callable[..., object]]]:
    """The verbs of other packages that are installed here, each with what imports it."""
    from importlib.metadata import entry_points

    return {entry.name: entry.load for entry in entry_points(group="reticent.commands")}


def help_text(installed: Sequence[str]) -> str:
    """What `reticent --help` prints, given the verbs that are installed."""
    text = HELP + "\nCommands:\n"
    for name in sorted(installed):
        summary = VERBS[name].summary if name in VERBS else ""
        text += f"  {name:<11} {summary}".rstrip() + "\n"
    missing: dict[str, list[str]] = {}
    for name, verb in VERBS.items():
        if name not in installed:
            missing.setdefault(verb.package, []).append(name)
    if missing:
        text += "\nMore commands, by the package that brings them:\n"
    for package, names in missing.items():
        text += f"  pip install '{package}'\n      {', '.join(names)}\n"
    return text


def run(arguments: Sequence[str]) -> int:
    """Run the verb that the arguments begin with; returns the exit code of one that does not exit by itself."""
    if arguments and arguments[0] == "device" and "_RETICENT_COMPLETE" not in os.environ:
        from reticent.cli import device

        return device.main(arguments[1:])
    verbs = added_verbs()
    if (
        "_RETICENT_COMPLETE" in os.environ and "completion" in verbs
    ):  # set by the script of `reticent completion`
        verbs["completion"]()(args=[], prog_name="reticent")
        return 0
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(help_text(["device", *verbs]))
        return 0 if arguments else 2
    name = arguments[0]
    if name == "--version":
        from importlib.metadata import version

        sys.stdout.write(f"reticent, version {version('reticent')}\n")
        return 0
    if name not in verbs:
        return no_such_verb(name, ["device", *verbs])
    verbs[name]()(args=list(arguments[1:]), prog_name=f"reticent {name}")
    return 0


def no_such_verb(name: str, installed: Sequence[str]) -> int:
    """Say which package brings a verb, or which one was probably meant; returns the exit code."""
    if name in VERBS:
        sys.stderr.write(
            f"Error: reticent {name} is part of a package that is not installed.\n"
            f"  Hint: pip install '{VERBS[name].package}'\n"
        )
        return 1
    near = difflib.get_close_matches(name, installed, n=1)
    hint = f"did you mean {near[0]}?" if near else "reticent --help lists the commands"
    sys.stderr.write(f"Error: No such command '{name}'.\n  Hint: {hint}\n")
    return 2


def main() -> None:
    """Run the `reticent` command."""
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        sys.exit(130)
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
