"""Values from a file, as options of several verbs name it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reticent.errors import ReticentError
from reticent_collector.cli.options import standard_input

if TYPE_CHECKING:
    from reticent_lab.fleet import Recorded


def values_file(file: str) -> Path:
    """The file of an option; of -, one with what comes on standard input."""
    return standard_input() if file == "-" else Path(file)


def recorded_values(file: Path) -> Recorded:
    """The values in a file."""
    from reticent_lab.fleet import ValuesError, read_values

    try:
        return read_values(file)
    except ValuesError as error:
        if "columns" not in str(error) or "Hint: " in str(error):
            raise
        raise ReticentError(
            f"{error}\n  Hint: name the columns in the first line: individual, day, value; or individual, day and one "
            "per metric; or a row per individual with a column per day; or one column of values"
        ) from error
