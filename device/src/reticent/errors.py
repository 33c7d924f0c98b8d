"""
The exceptions reticent raises on purpose.

    ReticentError
    ├── ParameterError     a number outside its range, at construction (also a ValueError)
    ├── PlanError          a plan that cannot be used; carries every problem found
    ├── ReportError        bytes that are not a report; carries a short code
    ├── StateError         a device's state file that cannot be opened
    ├── UsageError         a mistake of a device's host program, raised in debug mode only
    ├── StoreError         a collector's store that cannot be opened, read or written now
    ├── UnreachableError   a running collector that does not answer, or not as one (reticent_collector.http)
    ├── BatchTooLargeError a batch that a running collector does not take at once (reticent_collector.http)
    ├── MissingPackageError  a package that a part of reticent needs is not installed
    ├── ValuesError        a file of values that cannot be read (reticent_lab.fleet)
    ├── SendError          a collector that does not take a fleet's reports (reticent_lab.fleet)
    ├── FrameError         a frame that does not hold reports on a plan (reticent_lake.frames)
    ├── BadFileError       a file of a lake that cannot be counted (reticent_lake.frames)
    └── FolderError        a folder that a reproduction did not make (paper)

A message says where, what was expected and what to do. None ever carries a private value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from reticent.frozen import frozen


class ReticentError(Exception):
    """Root of everything reticent raises on purpose."""


class ParameterError(ReticentError, ValueError):
    """
    A parameter is outside its range.

    >>> str(ParameterError("epsilon", "a number in [0.001, 20]", 0))
    'epsilon: expected a number in [0.001, 20], got 0.'
    """

    def __init__(self, name: str, expected: str, got: object, hint: str = "") -> None:
        self.name = name
        self.expected = expected
        self.got = got
        self.hint = hint
        super().__init__(f"{name}: expected {expected}, got {got}." + (f"\n  Hint: {hint}" if hint else ""))


@frozen()
class Problem:
    """
    A rule that a plan breaks: its place, the rule, the message and what to do.

    >>> print(Problem("metrics.app.epsilon", "range", "expected a number > 0, got 0.", "try 1.0"))
    metrics.app.epsilon: expected a number > 0, got 0.
      Hint: try 1.0
    """

    where: str
    rule: str
    message: str
    hint: str = ""
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f"\n  Hint: {self.hint}" if self.hint else "")

    def to_dict(self) -> dict[str, str]:
        """Ready for JSON."""
        return dict(vars(self))


class PlanError(ReticentError):
    """A plan breaks at least one rule; `problems` lists all of them, and `file` precedes each in the message."""

    def __init__(self, problems: Sequence[Problem], file: str = "") -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{file}{problem}" for problem in self.problems))


class ReportError(ReticentError):
    """Bytes that are not a report. `code` is stable and short, for counters and clients."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class StateError(ReticentError):
    """A state file cannot be used: locked, read-only, or another program's."""


class NewerStateError(StateError):
    """The file has a layout that this version does not know; nothing in it was changed."""


class UsageError(ReticentError):
    """A program uses its device in a way that records nothing; raised where `debug=True`, otherwise noted."""


class StoreError(ReticentError):
    """A store cannot be opened, read or written now; what was not acknowledged can be retried."""


def to_install(package: str) -> str:
    """
    The command that installs a package of reticent, from an index and in a clone.

    >>> to_install("reticent-otel[agent]")
    "pip install 'reticent-otel[agent]', in a clone './otel[agent]'"
    """
    return f"pip install '{package}', in a clone './{package.removeprefix('reticent-')}'"


class MissingPackageError(ReticentError, ImportError):
    """
    A package that a part of reticent needs is not installed; `package` is what to ask pip for.

    >>> str(MissingPackageError("reticent-collector[postgres]", "psycopg"))
    "psycopg is not installed: pip install 'reticent-collector[postgres]', in a clone './collector[postgres]'"
    """

    def __init__(self, package: str, module: str) -> None:
        super().__init__(f"{module} is not installed: {to_install(package)}")
