"""What the attacks of this folder share: a round of a day, their options, and tables in plain text."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path

DAY = 86_400
"""Seconds in a day: the length of a round."""


def options(description: str | None, arguments: list[str] | None, devices: int) -> Namespace:
    """--seed, --out and --devices, as given on the command line."""
    parser = ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=2017, help="the same seed prints the same figures")
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where pictures go")
    parser.add_argument("--devices", type=int, default=devices, help=f"{devices} unless told otherwise")
    return parser.parse_args(arguments)


def table(columns: Mapping[str, Iterable[object]], digits: int = 3) -> None:
    """Print columns under their names, right aligned; fractions with so many digits."""
    cells = [
        [name, *(f"{each:.{digits}f}" if isinstance(each, float) else str(each) for each in column)]
        for name, column in columns.items()
    ]
    widths = [max(map(len, column)) for column in cells]
    for row in zip(*cells, strict=True):
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
