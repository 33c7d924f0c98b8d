"""
The `reticent` command: the verbs of a device, and those that other installed packages add.

A package adds a verb with an entry point of the group `reticent.commands`: its name is the verb, its object is called
with `args` (what follows the verb) and `prog_name`, as a click command can be. It ends by raising `SystemExit`.

`reticent device …` shows what a device would send and has sent, and enters the person's choices. Its verbs need the
standard library alone.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reticent.errors import ReticentError, StateError, to_install

if TYPE_CHECKING:  # --help needs no device
    from reticent.device import Device, Status


class KnownVerb(NamedTuple):
    """What the command knows about a verb before its package is imported, or where it is not installed."""

    package: str
    summary: str


VERBS = {
    "agent": KnownVerb(
        "reticent-otel[agent]", "Answer a plan with the OpenTelemetry metrics of this machine."
    ),
    "audit": KnownVerb("reticent-lab", "Test a plan's claims, and a client's bytes."),
    "compare": KnownVerb("reticent-collector", "Compare periods, or the devices of two tags."),
    "completion": KnownVerb("reticent-collector", "Print the script for completion in a shell."),
    "count": KnownVerb("reticent-lake", "Count the rounds of a lake, or seal them."),
    "demo": KnownVerb("reticent-lab", "Run the whole system on this machine."),
    "design": KnownVerb("reticent-lab", "Find a plan that answers a question."),
    "device": KnownVerb("reticent", "Show what a device sends, and choose whether it may."),
    "doctor": KnownVerb("reticent-collector", "Check an installation, and tell what to fix."),
    "estimate": KnownVerb("reticent-collector", "Show estimates with their intervals and changes."),
    "export": KnownVerb("reticent-collector", "Write estimates as a table."),
    "ingest": KnownVerb("reticent-collector", "Take reports from a file or a pipe."),
    "keys": KnownVerb("reticent-collector", "Create, list or revoke the keys of a collector."),
    "plan": KnownVerb("reticent-collector", "Write, check, compare, export or certify plans."),
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
        text += f"  {to_install(package)}\n      {', '.join(names)}\n"
    return text


def run(arguments: Sequence[str]) -> int:
    """Run the verb that the arguments begin with; returns the exit code of one that does not exit by itself."""
    if arguments and arguments[0] == "device" and "_RETICENT_COMPLETE" not in os.environ:
        return run_device(arguments[1:])
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
            f"  Hint: {to_install(VERBS[name].package)}\n"
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


# reticent device


CONSENTS = ("granted", "denied", "local", "unset")
FOUND_PROBLEMS = 3


class Option(NamedTuple):
    """An option of a verb; without a metavar it is a flag."""

    name: str
    help: str
    metavar: str = ""
    variable: str = ""


class Verb(NamedTuple):
    """A verb on a state file; `choices` may follow STATE."""

    run: Callable[[argparse.Namespace], int]
    options: tuple[Option, ...] = ()
    choices: tuple[str, ...] = ()
    needs_file: bool = True


def preview(given: argparse.Namespace) -> int:
    """
    Show the exact bytes of the next report, and what each bit means.

    \b
    Example:
      reticent device preview telemetry.db
    """
    with _opened(given.state) as device:
        shown = device.preview()
    if shown is None:
        raise StateError(f"{given.state}: there is nothing to send in the current round or window.")
    return _show(shown, given)


def receipt(given: argparse.Namespace) -> int:
    """
    Show every report, bit by bit, and what they reveal together.

    \b
    Example:
      reticent device receipt telemetry.db --html receipt.html
    """
    with _opened(given.state) as device:
        shown = device.receipt()
    return _show(shown, given) or int(bool(shown.problem))


def status(given: argparse.Namespace) -> int:
    """
    Show whether a device answers, why not, and what it has to send.

    \b
    Example:
      reticent device status telemetry.db --json
    """
    with _opened(given.state) as device:
        return _show(device.status(), given)


def consent(given: argparse.Namespace) -> int:
    """
    Show the consent, or set it: granted, denied, local or unset.

    With local, reports are made and shown, and never sent. Where the file holds no plan yet, or does not exist, give
    the program's plan with --plan.

    \b
    Example:
      reticent device consent telemetry.db denied
    """
    with _opened(given.state, given.plan) as device:
        if given.choice is None:
            return _show(device.status(), given)
        return _changed(device, device.set_consent(given.choice), given)


def pause(given: argparse.Namespace) -> int:
    """
    Stop recording and sending; remembered answers stay.

    \b
    Example:
      reticent device pause telemetry.db
    """
    with _opened(given.state) as device:
        return _changed(device, device.pause(), given)


def resume(given: argparse.Namespace) -> int:
    """
    End a pause; the first round answered is the next one.

    \b
    Example:
      reticent device resume telemetry.db
    """
    with _opened(given.state) as device:
        return _changed(device, device.resume(), given)


def forget(given: argparse.Namespace) -> int:
    """
    Delete the remembered answers, and all that is not sent yet.

    New answers reveal more than the old ones repeated: this is for a device that changes hands. What
    was sent stays sent, and stays on the receipt. A consent of granted or local has to be given again.

    \b
    Example:
      reticent device forget telemetry.db --yes
    """
    if not given.yes:
        sys.stderr.write("New answers will be drawn, which reveal more in the long run. Forget? [y/N]: ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            sys.stderr.write("Nothing was changed.\n")
            return 1
    with _opened(given.state) as device:
        return _changed(device, device.forget(), given)


def check(given: argparse.Namespace) -> int:
    """
    Check a device, and its plan and collector where they are given.

    The collector is sent an empty object: its refusal shows that address and key are right. Nothing is recorded or
    changed. Exit code 3 when there is a problem.

    \b
    Example:
      reticent device check telemetry.db --plan plan.toml --endpoint https://telemetry.example.org
    """
    status: Status | None = None
    try:
        with _opened(given.state) as device:
            status = device.status()
        findings = _check_state(status)
    except StateError as error:
        findings = [("state", "problem", str(error))]
    findings += _check_plan(given.plan, status) if given.plan else []
    findings += _check_endpoint(given.endpoint, given.key) if given.endpoint else []
    if given.as_json:
        answer = [dict(zip(("subject", "level", "text"), finding, strict=True)) for finding in findings]
        sys.stdout.write(json_text(answer) + "\n")
    else:
        sys.stdout.write("".join(f"{level:8}{subject}: {text}\n" for subject, level, text in findings))
    return FOUND_PROBLEMS if any(level == "problem" for _, level, _ in findings) else 0


_PLAN = Option("--plan", "The plan of the program.", "PLAN")
_HTML = Option("--html", "Write it as a page for a browser to this file.", "FILE")
JSON = Option("--json", "Answer in JSON, for scripts.")

_ENDPOINT = Option("--endpoint", "The collector, as the device reaches it.", "URL")
_KEY = Option("--key", "The ingest key of the device.", "KEY", "RETICENT_KEY")

DEVICE_VERBS = {
    "check": Verb(check, (_PLAN, _ENDPOINT, _KEY)),
    "consent": Verb(consent, (_PLAN,), CONSENTS, needs_file=False),
    "forget": Verb(forget, (Option("--yes", "Do not ask for confirmation."),)),
    "pause": Verb(pause),
    "preview": Verb(preview, (_HTML,)),
    "receipt": Verb(receipt, (_HTML,)),
    "resume": Verb(resume),
    "status": Verb(status),
}

ABOUT = "Show what a device sends, and choose whether it may. STATE is its state file."


def run_verb(verb: Verb, given: argparse.Namespace) -> int:
    """Run a verb; returns its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        with suppress(AttributeError):
            getattr(sys, name).reconfigure(errors="replace")  # a terminal may not have every letter
    if not given.state.is_file() and (verb.needs_file or given.state.exists() or given.plan is None):
        makes = "" if verb.needs_file else "; --plan PLAN makes it here"
        sys.stderr.write(
            f"Error: {given.state}: there is no such file.\n  Hint: give the state file that the program uses; "
            f"a device makes none before consent, with DO_NOT_TRACK, in CI or in a container{makes}\n"
        )
        return 2
    code = verb.run(given)
    sys.stdout.flush()  # here, where a closed pipe is handled
    return code


def run_device(arguments: Sequence[str]) -> int:
    """`reticent device` with the standard library alone; returns the exit code."""
    parser = argparse.ArgumentParser("reticent device", description=ABOUT)
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name, verb in DEVICE_VERBS.items():
        words = inspect.cleandoc((verb.run.__doc__ or "").replace("\b\n", "\n"))
        summary = words.strip().splitlines()[0]
        formatter = argparse.RawDescriptionHelpFormatter
        of_verb = verbs.add_parser(name, help=summary, description=words, formatter_class=formatter)
        of_verb.add_argument("state", metavar="STATE", type=Path)
        if verb.choices:
            of_verb.add_argument("choice", nargs="?", choices=verb.choices)
        for option in (*verb.options, JSON):
            target = "as_json" if option is JSON else option.name[2:]
            if option.metavar:
                default = os.environ.get(option.variable) if option.variable else None
                of_verb.add_argument(option.name, help=option.help, metavar=option.metavar, default=default)
            else:
                of_verb.add_argument(option.name, help=option.help, action="store_true", dest=target)
        of_verb.set_defaults(verb=verb, plan=None)
    given = parser.parse_args(arguments)
    try:
        return run_verb(given.verb, given)
    except ReticentError as error:
        sys.stderr.write(f"Error: {error}\n")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.stderr.write(f"Error: {f'{error.filename}: ' if error.filename else ''}{error.strerror}.\n")
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        return 130
    return 1


@contextmanager
def _opened(state: Path, plan: str | None = None) -> Iterator[Device]:
    from reticent.device import Device, Policy

    # The rules about CI and containers are for the place where the program runs, not for this command.
    elsewhere = Policy(silent_in_ci=False, silent_in_containers=False)
    device = Device.open(state) if plan is None else Device(plan, state, policy=elsewhere)
    try:
        yield device
    finally:
        device.close()


def _changed(device: Device, done: bool, given: argparse.Namespace) -> int:
    code = _show(device.status(), given)
    if not done:
        raise StateError(
            f"{given.state}: could not be changed.\n"
            "  Hint: another program holds it or is sending a report, or it holds no plan yet (see --plan)"
        )
    return code


def _show(shown: Any, given: argparse.Namespace) -> int:
    page = getattr(given, "html", None)  # of a preview or a receipt
    if page:
        Path(page).write_text(shown.html(), encoding="utf-8")
    text = f"Written to {page}." if page else str(shown)
    sys.stdout.write(f"{json_text(shown.to_dict()) if given.as_json else text}\n")
    return 0


def json_text(answer: object) -> str:
    """An answer as JSON, rationals as floats; what has no bound is null, since JSON has no infinity."""

    def finite(part: object) -> object:
        if isinstance(part, float) and not math.isfinite(part):
            return None
        if isinstance(part, dict):
            return {key: finite(value) for key, value in part.items()}
        return [finite(value) for value in part] if isinstance(part, list | tuple) else part

    def other(part: object) -> object:
        return float(part) if isinstance(part, Fraction) else str(part)

    from reticent.device.receipt import printable  # what it writes is an escape of JSON too

    return printable(json.dumps(finite(answer), indent=2, ensure_ascii=False, default=other).split("\n"))


Finding = tuple[str, str, str]
"""A subject, a level ("ok", "note" or "problem") and a message."""


def _check_state(shown: Status) -> list[Finding]:
    from reticent.device.transport import in_words

    version = "no plan yet" if shown.version is None else f"version {shown.version}"
    findings: list[Finding] = [("state", "ok", f"plan {shown.plan}, {version}, epoch {shown.epoch}")]
    findings += [("state", "note", reason) for reason in shown.reasons]
    findings += [("state", "note", f"{kind} × {count}") for kind, count in shown.notes.items()]
    if shown.last_outcome and shown.last_outcome != "accepted":
        findings.append(("sending", "problem", f"the last attempt: {in_words(shown.last_outcome)}"))
    return findings


def _check_plan(path: str, shown: Status | None) -> list[Finding]:
    from reticent.device import Policy
    from reticent.plan import Plan

    try:
        plan = Plan.load(path)
    except (ReticentError, OSError) as error:
        return [("plan", "problem", str(error))]
    findings: list[Finding] = [("plan", "ok", f"{plan.name}, version {plan.version}")]
    for reason in Policy().problems(plan):
        findings.append(("plan", "note", f"a device with the default policy refuses it: {reason}"))
    if plan.has_expired(time.time()):
        findings.append(("plan", "problem", f"expired on {plan.expires}: devices do not answer it"))
    if shown is not None and shown.plan != plan.name:
        findings.append(("plan", "problem", f"the state file belongs to plan {shown.plan}"))
    elif shown is not None and shown.version is not None and shown.version > plan.version:
        findings.append(
            ("plan", "problem", f"the device holds version {shown.version} and refuses an older one")
        )
    return findings


def _check_endpoint(endpoint: str, key: str | None) -> list[Finding]:
    from reticent.device import HttpTransport, Retry
    from reticent.device.transport import in_words

    try:
        outcome = HttpTransport(endpoint, key).send(b"{}", 10.0)
    except ReticentError as error:
        return [("endpoint", "problem", str(error))]
    if isinstance(outcome, Retry):
        return [("endpoint", "problem", f"reports would not arrive: {in_words(outcome.fault)}")]
    return [("endpoint", "ok", f"a collector answers{' and accepts the key' if key else ''}")]
