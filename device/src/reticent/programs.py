"""
Kinds of programs: a timer and flags for all, the commands of a command-line program, the requests of a web service.

A command-line program:

    telemetry = CommandLine(Path(__file__).with_name("plan.toml"), endpoint="https://telemetry.example.org")
    telemetry.add_to(cli)                   # a click group, a typer app, or what argparse's add_subparsers returned

    with telemetry.running(arguments.command):   # with argparse only: click and typer are measured by themselves
        ...

It gets a command `telemetry on|off|status|preview|receipt`. Where nobody has chosen yet, and there is a terminal to ask
in, the question comes after the command. Reports are sent by another process after the command is over.

A web service:

    app = AsgiTelemetry(app, device)        # or WsgiTelemetry

Each request is added to those of these metrics that the plan has:

    requests                  1
    requests_2xx … _5xx       1, by the class of the status
    requests_LABEL            1, by the label of the route
    seconds, seconds_LABEL    how long it took, in the unit of the metric

The labels are those of the plan's metrics, a closed set; any other route is `other`. A path, a parameter or an address
reaches no state file.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reticent.device import Consent, Device, Policy
    from reticent.plan import Plan

__all__ = ["Action", "AsgiTelemetry", "CommandLine", "WsgiTelemetry", "first_part", "set_flags", "timer"]

_PER_SECOND = {
    "ms": 1e3, "millisecond": 1e3, "us": 1e6, "microsecond": 1e6, "min": 1 / 60, "minute": 1 / 60, "h": 1 / 3600,
    "hour": 1 / 3600,
}  # fmt: skip


def in_unit_of(plan: Plan, metric: str, seconds: float) -> float:
    """A duration in the unit of a metric: seconds, unless the plan says milliseconds, minutes or another unit."""
    known = plan.by_name.get(metric)
    unit = known.unit.strip().lower() if known else ""
    return seconds * _PER_SECOND.get(unit, _PER_SECOND.get(unit.removesuffix("s"), 1))


@contextmanager
def timer(device: Device, metric: str) -> Iterator[None]:
    """
    Add the time that a block takes to a metric, in the unit of the plan.

    >>> from reticent.mechanisms import Flip, OneBitMean
    >>> from reticent.plan import Metric, Plan
    >>> from reticent.testing import sandbox
    >>> plan = Plan("app", 1, 3600, 3600, (Metric("saving", OneBitMean(1, 100), Flip(0.2), unit="millisecond"),))
    >>> with sandbox(plan) as box:
    ...     with timer(box.device, "saving"):
    ...         pass
    ...     0 < box.values()["saving"] < 100
    True
    """
    began = time.perf_counter()
    try:
        yield
    finally:
        elapsed = time.perf_counter() - began
        plan = device.plan
        device.add(metric, in_unit_of(plan, metric, elapsed) if plan else elapsed)


def set_flags(device: Device, prefix: str, labels: Iterable[str]) -> None:
    """
    Set the flag `PREFIX_LABEL` for each of several labels; a label without a flag in the plan is left out.

    Each flag is a metric of its own: its loss is in the plan's card, whether it is set or not.

    >>> from reticent.mechanisms import Flip, OneBitMean
    >>> from reticent.plan import Metric, Plan
    >>> from reticent.testing import sandbox
    >>> flags = [Metric(f"used_{name}", OneBitMean(1, 1), Flip(0.2), is_flag=True) for name in ("csv", "json", "xml")]
    >>> with sandbox(Plan("app", 1, 3600, 3600, tuple(flags))) as box:
    ...     set_flags(box.device, "used", ["csv", "xml", "a file of mine"])
    ...     box.values()
    {'used_csv': 1, 'used_xml': 1}
    """
    plan = device.plan
    for label in labels:
        if plan is not None and f"{prefix}_{label}" in plan.by_name:
            device.set(f"{prefix}_{label}", 1)


# A command-line program


IN_SANDBOX = "RETICENT_SANDBOX"
"""Set in the environment by `reticent.testing.sandbox`: no process that sends is started."""

SEND_EVERY = 3600.0  # a process that sends is started at most so often, s
_CHILD = (
    "import json, sys; given = json.load(sys.stdin); sys.path[:] = given.pop('path');"
    "from reticent.programs import send; send(**given)"
)
QUESTION = "May this program count how it is used? It sends a few random bits, never what you did."


class Action(StrEnum):
    """What the command `telemetry` does."""

    ON = "on"
    OFF = "off"
    STATUS = "status"
    PREVIEW = "preview"
    RECEIPT = "receipt"


class CommandLine:
    """
    The telemetry of a command-line program. Nothing here raises into the program, unless `debug` is True.

    `command`, `duration` and `failed` name the metrics of the plan: a choice of the last command, the time of the last
    command in the unit of the plan, and a flag. One that the plan does not have is left out; so is a command that is
    none of the labels. A flag `used_build` is set when the command `build` is used. Without `state`, the state file is
    in the user's folder for such files, as `Device` has it.
    """

    def __init__(
        self,
        plan: str | os.PathLike[str],
        state: str | os.PathLike[str] | None = None,
        *,
        endpoint: str | None = None,
        key: str | None = None,
        segment: Mapping[str, str] | None = None,
        policy: Policy | None = None,
        consent: Consent = "unset",
        question: str = QUESTION,
        command: str = "command",
        duration: str = "duration",
        failed: str = "failed",
        debug: bool = False,
    ) -> None:
        self._plan = os.path.abspath(plan)
        self._state = None if state is None else os.path.abspath(state)
        self._endpoint = endpoint
        self._key = key
        self._segment = dict(segment or {})
        self._policy = policy
        self._consent = consent
        self._question = question
        self._command = command
        self._duration = duration
        self._failed = failed
        self._debug = debug

    def open(self) -> Device:
        """The device of the program, for values of its own; it may raise, and is the caller's to close."""
        from reticent.device import Device

        return self._open(Device)

    def _open(self, kind: type[Device]) -> Device:
        return kind(
            self._plan,
            self._state,
            consent=self._consent,
            endpoint=self._endpoint,
            key=self._key,
            segment=self._segment,
            policy=self._policy,
            debug=self._debug,
        )

    # In front of the program

    def add_to(self, program: Any) -> None:
        """Add the command `telemetry` to a click group, a typer app, or what argparse's `add_subparsers` returned."""
        if hasattr(program, "add_parser"):
            self._add_to_argparse(program)
        elif hasattr(program, "add_command"):
            self._add_to_click(program)
        elif hasattr(program, "registered_commands"):
            self._add_to_typer(program)
        else:
            expected = "a click group, a typer app, or what add_subparsers() returned"
            raise TypeError(f"program: expected {expected}, got a {type(program).__name__}.")

    def _add_to_argparse(self, subparsers: Any) -> None:
        import argparse  # a program that uses click need not load it

        line = self

        class Act(argparse.Action):
            def __call__(self, parser: object, namespace: object, values: Any, option: object = None) -> None:
                sys.exit(line.act(Action(values)))

        parser = subparsers.add_parser("telemetry", help=_HELP, description=_HELP)
        parser.add_argument("action", action=Act, choices=[str(action) for action in Action])

    def _add_to_click(self, group: Any) -> None:
        click = sys.modules["click"]
        action = click.Argument(["action"], type=click.Choice([str(action) for action in Action]))

        def callback(action: str) -> None:
            sys.exit(self.act(Action(action)))

        group.add_command(click.Command("telemetry", params=[action], callback=callback, help=_HELP))
        invoke = group.invoke
        group.invoke = lambda context: self._measured(invoke, context)

    def _add_to_typer(self, app: Any) -> None:
        def act(action: Action) -> None:
            sys.exit(self.act(action))

        app.command("telemetry", help=_HELP)(act)
        given = getattr(app.info.cls, "value", app.info.cls) or sys.modules["typer.core"].TyperGroup

        def invoke(group: Any, context: Any) -> object:
            return self._measured(lambda context: given.invoke(group, context), context)

        app.info.cls = type("MeasuredGroup", (given,), {"invoke": invoke})

    def _measured(self, invoke: Callable[[Any], object], context: Any) -> object:
        """Invoke a group of click's, which says afterwards which command it was."""
        began, status = time.monotonic(), 0
        try:
            return invoke(context)
        except BaseException as error:
            status = exit_status(error)
            raise
        finally:
            self._finish(context.invoked_subcommand, time.monotonic() - began, status)

    @contextmanager
    def running(self, command: str | None) -> Iterator[None]:
        """Measure a command."""
        began, status = time.monotonic(), 0
        try:
            yield
        except BaseException as error:
            status = exit_status(error)
            raise
        finally:
            self._finish(command, time.monotonic() - began, status)

    # After a command

    def _finish(self, command: str | None, seconds: float, status: int) -> None:
        if command is None or command == "telemetry":
            return
        try:
            if self._is_idle():
                return
            from reticent.device import Device
            from reticent.device.process import default_state

            class Brief(Device):
                _leaves_log = self._endpoint is not None and _can_start()  # who sends copies and wipes it

            device = self._open(Brief)
            try:
                self._record(device, command, seconds, status)
                self._ask(device)
            finally:
                device.close()
            plan = device.plan
            if plan and self._endpoint and device.consent == "granted" and not device.status().silenced_by:
                self._send_later(self._state or default_state(plan.name))
        except Exception:
            if self._debug:
                raise

    def _is_idle(self) -> bool:
        """Whether there is nothing to record and nobody to ask, as far as it can be told without a device."""
        if self._debug or os.environ.get(IN_SANDBOX):
            return False
        if self._state is None or self._consent not in ("unset", "denied"):
            return False
        if not os.path.exists(self._state):
            return self._consent == "denied" or not _at_terminal()
        from reticent.device.schema import choice_in

        choice = choice_in(self._state)
        return choice == "denied" or (choice == "unset" and not _at_terminal())

    def _record(self, device: Device, command: str, seconds: float, status: int) -> None:
        plan = device.plan
        if plan is None:
            return
        chosen = plan.by_name.get(self._command)
        if chosen is not None and command in chosen.labels:
            device.choose(self._command, command)
        set_flags(device, "used", [command])
        if self._duration in plan.by_name:
            device.set(self._duration, in_unit_of(plan, self._duration, seconds))
        if self._failed in plan.by_name and status != 0:
            device.set(self._failed, 1)

    def _ask(self, device: Device) -> None:
        """Ask where nobody has chosen, nothing silences the device, and somebody is there; an empty answer is no."""
        if device.consent != "unset" or not _at_terminal():
            return
        if device.status().silenced_by:
            return
        sys.stderr.write(f"{self._question}\nSee `telemetry preview`. Agree? [y/N]: ")
        sys.stderr.flush()
        try:
            answer = sys.stdin.readline()
        except KeyboardInterrupt:
            answer = ""
        if answer:  # not at the end of the input
            device.set_consent("granted" if answer.strip().lower() in ("y", "yes") else "denied")

    def _send_later(self, state: str) -> None:
        """Start a process that answers and sends what is due, at most once an hour, and do not wait for it."""
        if not _can_start():
            return
        import subprocess  # not loaded by a command that sends nothing

        stamp = f"{state}-sent"
        try:
            if 0 <= time.time() - os.stat(stamp).st_mtime < SEND_EVERY:
                return
        except FileNotFoundError:
            pass
        os.close(os.open(stamp, os.O_CREAT | os.O_WRONLY, 0o600))
        os.utime(stamp)
        given = {
            "path": sys.path,
            "plan": self._plan,
            "state": state,
            "endpoint": self._endpoint,
            "key": self._key,  # by a pipe: a command line can be seen by every user of the machine
            "segment": self._segment,
            "policy": None if self._policy is None else vars(self._policy),
            "consent": self._consent,  # what holds until the person chooses: another default would wipe the file
        }
        quiet = subprocess.DEVNULL
        child = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-c", _CHILD],
            stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True, cwd=os.path.abspath(os.sep),
        )  # fmt: skip
        if child.stdin is not None:
            with suppress(OSError), child.stdin as pipe:  # it may have ended already
                pipe.write(json.dumps(given).encode())
        child.returncode = 0  # it outlives this process, and no warning about that is wanted

    # What the person can see and choose

    def act(self, action: Action) -> int:
        """Do what `telemetry ACTION` asks, on the terminal; returns the exit code."""
        from reticent.errors import ReticentError

        try:
            device = self.open()
        except (ReticentError, OSError) as error:
            sys.stderr.write(f"Error: {error}\n")
            return 1
        try:
            done = True
            if action in (Action.ON, Action.OFF):
                done = device.set_consent("granted" if action is Action.ON else "denied")
            shown: object = device.status()
            if action is Action.PREVIEW:
                shown = device.preview() or "There is nothing to send in the current round or window."
            elif action is Action.RECEIPT:
                shown = device.receipt()
            sys.stdout.write(f"{shown}\n")
        finally:
            device.close()
        if not done:
            sys.stderr.write(
                "Error: the choice could not be kept, or a report on its way is not through yet.\n"
            )
        return 0 if done else 1


def _can_start() -> bool:
    """Whether a process can be started that sends."""
    return bool(sys.executable) and not getattr(sys, "frozen", False) and not os.environ.get(IN_SANDBOX)


def _at_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


_HELP = "Show what this program counts about its use, and choose whether it may."


def exit_status(error: BaseException) -> int:
    """
    The exit status that an exception of a command leads to.

    >>> exit_status(SystemExit(None)), exit_status(SystemExit("no such file")), exit_status(KeyboardInterrupt())
    (0, 1, 130)
    """
    if isinstance(error, KeyboardInterrupt):
        return 130
    code = getattr(error, "exit_code", 1)  # of click's exceptions
    if isinstance(error, SystemExit):
        code = error.code
    if code is None:
        return 0
    return code if isinstance(code, int) else 1


def send(
    plan: str,
    state: str,
    endpoint: str,
    key: str | None,
    segment: dict[str, str],
    policy: dict[str, Any] | None,
    consent: Consent,
) -> None:
    """In a process of its own: answer what is due and send what waits."""
    from reticent.device import Device, Policy

    if os.path.exists(state):
        rules = None if policy is None else Policy(**policy)
        device = Device(
            plan, state, endpoint=endpoint, key=key, segment=segment, policy=rules, consent=consent
        )
        device.flush(60.0)
        device._begin_log()
        device.close()


# A web service


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

OTHER_ROUTE = "other"


def first_part(path: str) -> str:
    """
    The default label of a route: the first part of the path.

    >>> first_part("/files/diary.txt"), first_part("/")
    ('files', 'index')
    """
    return path.strip("/").partition("/")[0] or "index"


class _Requests:
    """Adds a request to the metrics that the plan has."""

    def __init__(self, device: Device, label: Callable[[str], str]) -> None:
        self._device = device
        self._label = label
        plan = device.plan
        self._plan = plan
        self._names = frozenset(plan.by_name) if plan else frozenset()

    def add(self, path: str, status: int, seconds: float) -> None:
        """Never raises: a label function of the host's own may."""
        try:
            label = str(self._label(path))
        except Exception:
            label = OTHER_ROUTE
        if not {f"requests_{label}", f"seconds_{label}"} & self._names:
            label = OTHER_ROUTE
        for name in ("requests", f"requests_{label}", f"requests_{status // 100}xx"):
            if name in self._names:
                self._device.add(name)
        for name in ("seconds", f"seconds_{label}"):
            if name in self._names and self._plan is not None:
                self._device.add(name, in_unit_of(self._plan, name, seconds))


class AsgiTelemetry:
    """
    An ASGI application that counts the requests of another one.

    `label` gives the label of a path. The device is started when the application starts and closed when it ends,
    where the server speaks of its lifespan; otherwise that is the host's to do.
    """

    def __init__(self, app: AsgiApp, device: Device, *, label: Callable[[str], str] = first_part) -> None:
        self._app = app
        self._device = device
        self._requests = _Requests(device, label)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and count it."""
        if scope["type"] == "lifespan":
            self._device.start()
            try:
                await self._app(scope, receive, send)
            finally:
                self._device.close()
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, began = 500, time.perf_counter()  # an application that raises before it answers is a 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            self._requests.add(scope["path"], status, time.perf_counter() - began)


class WsgiTelemetry:
    """A WSGI application that counts the requests of another one; a request ends when its body is closed."""

    def __init__(self, app: WsgiApp, device: Device, *, label: Callable[[str], str] = first_part) -> None:
        self._app = app
        self._requests = _Requests(device, label)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve a request, and count it."""
        watch = _Watch(self._requests, environ.get("PATH_INFO", ""))

        def watched(status: str, *rest: Any) -> Any:
            watch.status = int(status[:3])
            return start_response(status, *rest)

        try:
            watch.body = self._app(environ, watched)
        except BaseException:
            watch.status = 500
            watch.count()
            raise
        return watch


class _Watch:
    """The body of a response, watched until it is closed."""

    def __init__(self, requests: _Requests, path: str) -> None:
        self._requests = requests
        self._path = path
        self._began = time.perf_counter()
        self._counted = False
        self.status = 500
        self.body: Iterable[bytes] = ()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.body)

    def close(self) -> None:
        """What a server calls at the end of a request, after an error too."""
        try:
            close = getattr(self.body, "close", None)
            if close is not None:
                close()
        finally:
            self.count()

    def count(self) -> None:
        """Count the request, once."""
        if not self._counted:
            self._counted = True
            self._requests.add(self._path, self.status, time.perf_counter() - self._began)
