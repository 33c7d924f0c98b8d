"""Taking values out of a TOML table, noting every problem instead of stopping at the first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction

from reticent.errors import ParameterError
from reticent.mechanisms import exact
from reticent.plan.problems import Problem

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([1-9][0-9]{0,8})(s|m|h|d)")


def shown(value: object) -> str:
    """A plan's value as it is quoted in a message: short, and in TOML's manner."""
    try:
        text = f'"{value}"' if isinstance(value, str) else str(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number of thousands of digits
        return "something too large to quote"
    return text if len(text) <= 60 else text[:57] + "..."


class Table:
    """
    One table of a plan, with its place, that remembers what has been read from it.

    Every reading method returns `None` after noting a problem, so that one pass finds all of them.
    """

    def __init__(self, content: Mapping[str, object], place: str, problems: list[Problem]) -> None:
        self._content = content
        self._place = place
        self._problems = problems
        self._read: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._content

    def where(self, key: str) -> str:
        """The full name of a key."""
        return f"{self._place}.{key}" if self._place else key

    def problem(self, key: str, rule: str, message: str, hint: str = "") -> None:
        """Note a problem with a key."""
        self._problems.append(Problem(self.where(key) if key else self._place, rule, message, hint))

    def expect(self, key: str, expected: str, hint: str = "", rule: str = "type") -> None:
        """Note that a key holds something else than expected."""
        self.problem(key, rule, f"expected {expected}, got {shown(self._content.get(key))}.", hint)

    def get(self, key: str) -> object:
        """What stands at a key, or None."""
        self._read.add(key)
        return self._content.get(key)

    def require(self, key: str, what: str) -> bool:
        """Whether a key is there; notes a problem when it is not."""
        self._read.add(key)
        if key not in self._content:
            self.problem(key, "missing", f"expected {what}, but the key is missing.")
        return key in self._content

    def text(self, key: str, pattern: str = "", expected: str = "a text") -> str:
        """A text that matches a pattern; empty when absent."""
        value = self.get(key)
        if value is None:
            return ""
        if not isinstance(value, str) or len(value) > 2000:
            self.expect(key, expected)
            return ""
        if pattern and not re.fullmatch(pattern, value):
            self.expect(key, expected, rule="name")
            return ""
        return value

    def integer(self, key: str, low: int, high: int) -> int | None:
        """A whole number within bounds."""
        value = self.get(key)
        if value is None:
            return None
        if type(value) is not int or not low <= value <= high:
            self.expect(key, f"a whole number from {low:,} to {high:,}", rule="range")
            return None
        return value

    def number(
        self, key: str, expected: str, low: Fraction, high: Fraction, hint: str = ""
    ) -> Fraction | None:
        """An exact number within [low, high]: an integer, a decimal, or a text such as "1/3"."""
        value = self.get(key)
        if value is None:
            return None
        number = self._exact(value)
        if number is None or not low <= number <= high:
            self.expect(key, expected, hint, rule="range")
            return None
        return number

    def numbers(self, key: str, most: int) -> list[Fraction] | None:
        """A list of exact numbers."""
        value = self.get(key)
        if value is None:
            return None
        found = [self._exact(item) for item in value] if isinstance(value, list) else []
        numbers = [number for number in found if number is not None]
        if not found or len(numbers) != len(found) or len(found) > most:
            self.expect(key, f"a list of 2 to {most} numbers")
            return None
        return numbers

    def seconds(self, key: str) -> int | None:
        """A duration such as "6h", in seconds."""
        value = self.get(key)
        if value is None:
            return None
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            self.expect(key, 'a duration such as "90s", "30m", "6h" or "1d"')
            return None
        return int(match[1]) * _SECONDS[match[2]]

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str | None:
        """One of a few words."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or value not in choices:
            self.expect(key, " or ".join(f'"{choice}"' for choice in choices), rule="choice")
            return None
        return value

    def date(self, key: str) -> date | None:
        """A date."""
        value = self.get(key)
        if value is None:
            return None
        if type(value) is not date:
            self.expect(key, "a date such as 2027-11-01 (no quotes)")
            return None
        return value

    def table(self, key: str) -> Table:
        """A table inside this one; empty when absent."""
        value = self.get(key)
        if value is not None and not isinstance(value, dict):
            self.expect(key, f"a table [{self.where(key)}]")
        return Table(value if isinstance(value, dict) else {}, self.where(key), self._problems)

    def tables(self) -> list[tuple[str, Table]]:
        """All tables inside this one, by name."""
        return [(key, self.table(key)) for key in self._content]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def finish(self) -> None:
        """Note the keys that nobody asked for: a misspelt key would otherwise be silently ignored."""
        for key in self._content:
            if key not in self._read:
                close = get_close_matches(key, sorted(self._read), n=1)
                hint = (
                    f"did you mean {close[0]}?" if close else f"known here: {', '.join(sorted(self._read))}"
                )
                self.problem(key, "unknown-key", "is not a key of a plan.", hint)

    @staticmethod
    def _exact(value: object) -> Fraction | None:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            return None
        try:
            return exact(value)
        except ParameterError:
            return None
