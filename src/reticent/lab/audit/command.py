"""A client in any language: a program that is asked on its input and answers on its output, a line each."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from reticent.errors import ReticentError
from reticent.lab.audit.client import Values
from reticent.plan import Plan


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
        plain = {name: _plain(value) for name, value in values.items()}
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


def _plain(value: int | Fraction) -> int | str:
    return value.numerator if value.denominator == 1 else str(value)
