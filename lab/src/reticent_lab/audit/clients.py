"""Who is audited: whole devices of the SDK on real files, or any program."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

from reticent.device import Device, Policy
from reticent.device.transport import outcome
from reticent.errors import ReticentError
from reticent.plan import Plan
from reticent.reports import to_json
from reticent.testing import ManualClock, RecordingTransport
from reticent_collector.plans import export_plan


class AuditedClient(Protocol):
    """A program that answers plans, one device at a time."""

    @property
    def name(self) -> str:
        """What it is called in the report."""

    def begin(self) -> bool:
        """A new device with nothing stored; False: it takes no test secret, so its bytes cannot be foretold."""

    def act(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Let an event happen to the device; returns the bodies that were `sent`, and the `result` of a report.

        Events are those of spec/transitions.md, with the text of the plan under `plan`. `secret` has the 32 bytes
        (hexadecimal) that the operating system gives during this event; where it is missing nothing may be drawn.
        """


class SdkClient:
    """`reticent.Device` on a state file, with a manual clock and a transport that records."""

    name = "reticent.Device"

    def __init__(self) -> None:
        if os.environ.get("DO_NOT_TRACK", "0") not in ("", "0"):
            raise ReticentError(
                "DO_NOT_TRACK is set, so the SDK answers nothing and cannot be audited.\n"
                "  Hint: env -u DO_NOT_TRACK reticent audit …"
            )
        memory = Path("/dev/shm")  # noqa: S108 (a folder of our own is made in it)
        self._folder = tempfile.TemporaryDirectory(
            prefix="reticent-audit-", dir=memory if os.access(memory, os.W_OK) else None
        )
        self._made = 0
        self._clock = ManualClock()
        self._devices: list[Device] = []
        self._secret = b""

    def begin(self) -> bool:
        """Another state file."""
        self._end()
        self._made += 1
        return True

    def act(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call the device."""
        self._clock.now = float(event["at"])
        secret = event.get("secret")
        self._secret = bytes.fromhex(secret) if secret else b""
        with patch.object(os, "urandom", self._urandom):
            if event["do"] == "open":
                return self._open(event)
            device = self._devices[-1]
            self._transport.bodies = []
            self._transport.outcomes = [
                outcome(answer["status"], waiting(answer), json.dumps(answer).encode())
                for answer in event.get("answers", [])
            ]
            result = self._call(device, event)
        return {"sent": [body.decode() for body in self._transport.bodies], "result": result}

    def _open(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        self._transport = RecordingTransport()
        self._devices.append(
            Device(
                Plan.from_toml(event["plan"]),
                Path(self._folder.name) / f"state-{self._made}",
                consent=event["consent"],
                segment=event.get("segment"),
                policy=Policy.unlimited(),
                clock=self._clock,
                transport=self._transport,
            )
        )
        return {"sent": [body.decode() for body in self._transport.bodies]}

    def _call(self, device: Device, event: Mapping[str, Any]) -> object:
        do = event["do"]
        if do in ("add", "set", "choose"):
            given = event["label"] if do == "choose" else number(event["amount" if do == "add" else "value"])
            getattr(device, do)(event["metric"], given)
            device.save()
        elif do == "report":
            report = device.report(device.current_round if event.get("current") else None)
            return None if report is None else to_json(report).decode()
        elif do == "consent":
            device.set_consent(event["choice"])
        elif do != "kill":  # a device that is killed is left as it is
            getattr(device, do)()
        return None

    def _urandom(self, size: int) -> bytes:
        """The bytes of the event; where nothing may be drawn, what no rule foretells."""
        if size != 32:
            return hashlib.shake_256(f"other {size}".encode()).digest(size)
        return self._secret or hashlib.sha256(b"nothing may be drawn").digest()

    def _end(self) -> None:
        for device in self._devices:
            device.close()
        self._devices = []

    def close(self) -> None:
        """Remove the files."""
        self._end()
        self._folder.cleanup()


def waiting(answer: Mapping[str, Any]) -> str | None:
    """The header `Retry-After` of a collector's answer."""
    return str(answer["retry_after"]) if "retry_after" in answer else None


def number(given: object) -> object:
    """A value of an event as a program holds it."""
    if isinstance(given, str):
        return Fraction(given) if given.lstrip("-")[0].isdigit() else float(given)
    return given


class CommandClient:
    """
    A program that plays devices.

    It gets one JSON object per line on its standard input, and answers each with one line. `{"do":"life"}` asks for a
    device with nothing stored; the answer is `true`, or `null` by a program that takes no test secret. Every other
    line is an event of spec/transitions.md; the answer is `{"sent":[…],"result":…}`, or `null` where nothing left.
    The plan of an `open` is the object that `reticent plan export` prints. A value is a number, a text such as
    "10800/7", "NaN", "Infinity" or "-Infinity", or null, which is no number either.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.name = command[0]
        try:
            self._process = subprocess.Popen(  # noqa: S603 (the command is the user's own)
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except OSError as error:
            raise ReticentError(f"{command[0]}: cannot be started ({error.strerror}).") from None

    def begin(self) -> bool:
        """A new device."""
        return bool(self.ask({"do": "life"}))

    def act(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Pass an event on."""
        plan = {"plan": export_plan(Plan.from_toml(event["plan"]))} if "plan" in event else {}
        answer = self.ask({**event, **plan})
        return answer if isinstance(answer, dict) else {"sent": []}

    def ask(self, request: Mapping[str, object]) -> Any:
        """One line out, one line back."""
        pipe_in = self._process.stdin
        pipe_out = self._process.stdout
        if pipe_in is None or pipe_out is None:
            raise ReticentError(f"{self.name}: has no input or output.")
        line = b""
        with suppress(OSError):
            pipe_in.write(json.dumps(request, separators=(",", ":")).encode() + b"\n")
            pipe_in.flush()
            line = pipe_out.readline()
        try:
            return json.loads(line)
        except ValueError:
            raise ReticentError(
                f"{self.name}: ended, or gave no line of JSON, when asked to {request['do']}.\n"
                "  Hint: it must answer every line it reads with one line, and flush it"
            ) from None

    def close(self) -> None:
        """End of input; the program should end."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # it has ended, and a line for it could not be written
                    pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
