"""A problem with a plan: its place, the rule it breaks, what was found and what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """
    One broken rule.

    >>> print(Problem("metrics.app.epsilon", "range", "expected a number > 0, got 0.", "try 1.0"))
    metrics.app.epsilon: expected a number > 0, got 0.
      Hint: try 1.0
    """

    where: str
    rule: str
    message: str
    hint: str = ""
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" + (f"\n  Hint: {self.hint}" if self.hint else "")

    def to_dict(self) -> dict[str, str]:
        """Ready for JSON."""
        return asdict(self)
