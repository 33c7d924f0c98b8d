"""Values from a file, as options of several verbs name it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.errors import ReticentError
from reticent_collector.cli.options import standard_input

if TYPE_CHECKING:
    from reticent_lab.fleet import Recorded


def recorded_values(file: str) -> Recorded:
    """The values in a file, or on standard input."""
    from reticent_lab.fleet import ValuesError, read_values

    try:
        return read_values(standard_input() if file == "-" else file)
    except ValuesError as error:
        if "columns" not in str(error) or "Hint: " in str(error):
            raise
        raise ReticentError(
            f"{error}\n  Hint: a file has the columns individual, day, value; or a row per individual with a column "
            "per day; or one column of values"
        ) from error
