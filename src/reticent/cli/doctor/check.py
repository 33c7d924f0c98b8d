"""What a doctor says: one line each, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Check:
    """
    One thing that was looked at.

    "ok": as it should be. "note": works, but worth knowing, or could not be looked at. "problem": does not
    work, or is not safe; `hint` then says what to do.
    """

    area: str
    """What it is about: installation, machine, plan, store, device, tls or endpoint."""
    name: str
    state: State
    message: str
    hint: str = ""

    def to_dict(self) -> dict[str, str]:
        """Ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Area:
    """Makes the checks of one area."""

    name: str

    def ok(self, name: str, message: str) -> Check:
        """All is well."""
        return Check(self.name, name, "ok", message)

    def note(self, name: str, message: str, hint: str = "") -> Check:
        """Works, but worth knowing."""
        return Check(self.name, name, "note", message, hint)

    def problem(self, name: str, message: str, hint: str) -> Check:
        """Does not work, or is not safe."""
        return Check(self.name, name, "problem", message, hint)

    def failure(self, name: str, error: Exception, hint: str) -> Check:
        """What an error says, with its own hint if it has one."""
        message, _, own = str(error).partition("\n  Hint: ")
        return self.problem(name, message.splitlines()[0].rstrip(".") if message else "failed", own or hint)
