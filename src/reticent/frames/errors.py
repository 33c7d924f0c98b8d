"""What is raised about a frame that cannot be counted."""

from __future__ import annotations

from reticent.errors import ReticentError


class FrameError(ReticentError):
    """
    A frame does not hold the reports of a plan: a column is missing, of another type, or out of range.

    >>> print(FrameError("bits_0", "whole numbers from 0 to 255", "nulls"))
    bits_0: expected whole numbers from 0 to 255, got nulls.
    """

    def __init__(self, where: str, expected: str, got: object, hint: str = "") -> None:
        super().__init__(f"{where}: expected {expected}, got {got}." + (f"\n  Hint: {hint}" if hint else ""))


class BadFileError(ReticentError):
    """Files of a lake that cannot be counted; `files` has the reason for each."""

    def __init__(self, lake: str, files: dict[str, str]) -> None:
        self.files = files
        listed = "\n".join(f"{lake}: {path}: {reason}" for path, reason in files.items())
        super().__init__(f"{listed}\n  Hint: --skip-bad counts the rest and says what was left out")
