"""Who is audited: the SDK's answering core for volume, whole devices on real files, or any program."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from reticent.device import Device, Policy, SecretDraws, answer
from reticent.device.prf import SECRET_BYTES
from reticent.errors import ReticentError
from reticent.plan import Plan
from reticent.reports import from_json, to_json
from reticent.testing import ManualClock, RecordingTransport

Values = Mapping[str, int | Fraction | str]
"""What a device records in a round: numbers, and the labels of choices."""

_SUFFIXES = ("", "-wal", "-shm")  # A state file, and what SQLite keeps beside it

_ELSEWHERE = """
import sys
from reticent.device import Device
from reticent.reports import to_json

report = Device.open(sys.argv[1]).report(int(sys.argv[2]))
sys.stdout.buffer.write(to_json(report) if report else b"")
"""


class Participant(Protocol):
    """One device under audit."""

    def answer(self, round_number: int, values: Values) -> bytes | None:
        """
        The bytes it would send for a round with these values; None for silence.

        Rounds are asked in rising order; the latest one may be asked again, with the same values.
        """

    def restart(self) -> None:
        """Go on as after a crash: with nothing but what the device has stored."""

    def copy(self) -> Participant | None:
        """Another one with the same stored state, as from a backup; None where it cannot be copied."""

    def close(self) -> None:
        """It is not asked any more."""


class AuditedClient(Protocol):
    """A program that answers plans."""

    @property
    def name(self) -> str:
        """What it is called in the report."""

    def start(self, plan: Plan, first_round: int) -> Participant:
        """A fresh device with randomness of its own, whose first full round is `first_round`."""


@dataclass
class CoreClient:
    """The SDK's answering core: secret, `answer`, codec. Secrets are random, or from `seed` to repeat a run."""

    seed: str | None = None
    name: str = "SDK core"
    _started: int = field(default=0, repr=False)

    def start(self, plan: Plan, first_round: int) -> CoreParticipant:
        """A device with a secret of its own."""
        self._started += 1
        if self.seed is None:
            secret = os.urandom(SECRET_BYTES)
        else:
            secret = blake2b(f"{self.seed}/{self._started}".encode(), digest_size=SECRET_BYTES).digest()
        return CoreParticipant(plan, secret)

    def part(self, label: str) -> CoreClient:
        """The same client for a part of the work: with the same secrets, independent of the other parts."""
        part = copy(self)
        part.seed = None if self.seed is None else f"{self.seed}/{label}"
        part._started = 0
        return part


@dataclass
class CoreParticipant:
    """A report is a function of secret, plan, round and values; this is that function."""

    plan: Plan
    secret: bytes = field(repr=False)
    draws: SecretDraws = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.restart()

    def answer(self, round_number: int, values: Values) -> bytes | None:
        """The report, as JSON; where answers are sampled, none but in the round that its window's draws pick."""
        window = self.plan.window_of(round_number)
        if window is not None and self.draws.window != window.start:
            self.draws = SecretDraws(self.secret, self.plan.name, 0, window.start)
        if window is not None and self.draws.picked_round(window) != round_number:
            return None
        return to_json(answer(self.draws, self.plan, round_number, values).report)

    def restart(self) -> None:
        """Only the secret is stored."""
        self.draws = SecretDraws(self.secret, self.plan.name, epoch=0)

    def copy(self) -> CoreParticipant:
        """The same secret."""
        return CoreParticipant(self.plan, self.secret)

    def close(self) -> None:
        """Nothing is open."""


class SdkClient:
    """The whole SDK: a `reticent.Device` on a state file, a manual clock, and a transport that records."""

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

    def start(self, plan: Plan, first_round: int) -> SdkParticipant:
        """A device enrolled in the round before."""
        return SdkParticipant(self, plan, self.new_path(), first_round)

    def new_path(self) -> Path:
        """Where one more state file goes."""
        self._made += 1
        return Path(self._folder.name) / f"state-{self._made}"

    def close(self) -> None:
        """Remove the files."""
        self._folder.cleanup()


class SdkParticipant:
    """One `reticent.Device`, end to end: values in, bytes of the transport out."""

    def __init__(self, client: SdkClient, plan: Plan, path: Path, first_round: int) -> None:
        self._client = client
        self._plan = plan
        self._path = path
        self._first = first_round
        self._clock = ManualClock(float(plan.round(first_round - 1).start))
        self._transport = RecordingTransport()
        self._open()

    def _open(self) -> None:
        # What is audited is the law of the answers, also of plans that a device would refuse by default.
        self._device = Device(
            self._plan,
            self._path,
            consent="granted",
            policy=Policy.unlimited(),
            clock=self._clock,
            transport=self._transport,
        )

    def answer(self, round_number: int, values: Values) -> bytes | None:
        """Record in the round, let it end, let the device answer and send; again: ask for the report."""
        span = self._plan.round(round_number)
        if self._clock() >= span.end:
            report = self._device.report(round_number)
            return None if report is None else to_json(report)
        self._clock.now = float(span.start)
        for name, value in values.items():
            self._device.choose(name, value) if isinstance(value, str) else self._device.set(name, value)
        self._clock.now = float(span.end)
        before = len(self._transport.bodies)
        self._device.flush()
        sent = [body for body in self._transport.bodies[before:] if from_json(body).round == round_number]
        return sent[-1] if sent else None

    def answer_elsewhere(self, round_number: int) -> bytes | None:
        """The report of a round, asked by another process while this one has the file open."""
        command = [sys.executable, "-c", _ELSEWHERE, str(self._path), str(round_number)]
        sent = subprocess.run(command, capture_output=True, check=False, timeout=120).stdout  # noqa: S603
        return sent or None

    def restart(self) -> None:
        """Close the file and open it again."""
        self._device.close()
        self._open()

    def copy(self) -> SdkParticipant:
        """A copy of the state file and of what stands beside it."""
        self._device.close()
        other = self._client.new_path()
        for suffix in _SUFFIXES:
            file = self._path.with_name(self._path.name + suffix)
            if file.exists():
                shutil.copy(file, other.with_name(other.name + suffix))
        self._open()
        twin = SdkParticipant(self._client, self._plan, other, self._first)
        twin._clock.now = self._clock.now
        return twin

    def core(self) -> CoreParticipant:
        """The same secret in the answering core: what this device must send, byte for byte."""
        connection = sqlite3.connect(self._path)
        try:
            [(secret,)] = connection.execute("SELECT secret FROM device").fetchall()
        finally:
            connection.close()
        return CoreParticipant(self._plan, secret)

    def close(self) -> None:
        """Close and remove the file."""
        self._device.close()
        for suffix in _SUFFIXES:
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)


class CommandClient:
    """
    A program that plays devices.

    It gets one JSON object per line on its standard input, and answers each with one line:

        {"do":"start","device":7,"first_round":81652}     a fresh device
        {"do":"answer","device":7,"round":81653,"values":{"editor_seconds":21600}}
                                                          the report it would send, or null
        {"do":"restart","device":7}                       forget all that is not stored
        {"do":"copy","device":7,"to":8}                   device 8 with the stored state of device 7
        {"do":"close","device":7}                         will not be asked any more

    The answer to everything but "answer" is any line, such as `true`; "copy" may be answered with `null` by a
    program that cannot. Values are whole numbers, or texts such as "10800/7".
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.name = command[0]
        self._devices = 0
        try:
            self._process = subprocess.Popen(  # noqa: S603 (the command is the user's own)
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        except OSError as error:
            raise ReticentError(f"{command[0]}: cannot be started ({error.strerror}).") from None

    def start(self, plan: Plan, first_round: int) -> CommandParticipant:
        """One more device."""
        number = self.new_device()
        self.ask({"do": "start", "device": number, "first_round": first_round})
        return CommandParticipant(self, number)

    def new_device(self) -> int:
        """The next device's number."""
        self._devices += 1
        return self._devices

    def ask(self, request: dict[str, object]) -> bytes:
        """One line out, one line back."""
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        if pipe_in is None or pipe_out is None:
            raise ReticentError(f"{self.name}: has no input or output.")
        try:
            pipe_in.write(json.dumps(request, separators=(",", ":")).encode() + b"\n")
            pipe_in.flush()
            line = pipe_out.readline()
        except OSError:
            line = b""
        if not line:
            raise ReticentError(
                f"{self.name}: ended, or closed its output, when asked to {request['do']}.\n"
                "  Hint: it must answer every line it reads with one line, and flush it"
            )
        return line.strip()

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


@dataclass(frozen=True, slots=True)
class CommandParticipant:
    """One device of a program."""

    client: CommandClient
    number: int

    def answer(self, round_number: int, values: Values) -> bytes | None:
        """Ask for the report of a round."""
        plain = {
            name: value
            if isinstance(value, str)
            else value.numerator
            if value.denominator == 1
            else str(value)
            for name, value in values.items()
        }
        line = self.client.ask(
            {"do": "answer", "device": self.number, "round": round_number, "values": plain}
        )
        return None if line == b"null" else line

    def restart(self) -> None:
        """Ask it to forget all that is not stored."""
        self.client.ask({"do": "restart", "device": self.number})

    def copy(self) -> CommandParticipant | None:
        """Ask for a device with the same stored state; a program that has none says null."""
        number = self.client.new_device()
        if self.client.ask({"do": "copy", "device": self.number, "to": number}) == b"null":
            return None
        return CommandParticipant(self.client, number)

    def close(self) -> None:
        """Say that this one is done."""
        self.client.ask({"do": "close", "device": self.number})
