"""
Values that were recorded: a table of individual, day and value, from a CSV or Parquet file.

    individual,day,value
    17,2021-07-08,5400
    17,2021-07-09,0

`individual` is any label. `day` is any label that sorts: whole numbers by size, anything else (such as ISO
dates) as text. `value` is a whole number >= 0. A pair of individual and day that is missing counts as 0; a
pair that comes twice is refused. A day on which nobody has a row is not there.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from reticent.errors import MissingExtraError, ParameterError, ReticentError
from reticent.lab.fleet.usage import whole_range
from reticent.mechanisms import Number

COLUMNS = ("individual", "day", "value")
_ROWS = 1 << 12
"""Rows of CSV at a time: they stay in the cache."""
_LARGEST = 2**31 - 1
_NONE = np.empty(0, dtype=np.int64)


class ValuesError(ReticentError):
    """A file of values cannot be read; says where in it, and never what the value was."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """
    A population of people who were really there.

    With as many devices as individuals, `values` is the recording itself, in the order of the file. With
    fewer it is a random sample of individuals; with more, a random sample with replacement: some individuals
    then stand for several devices, which makes rare patterns look more common than they are.
    """

    name: str
    max_value: int
    individuals: tuple[str, ...]
    """Labels, in the order in which they first appear."""
    days: tuple[str, ...]
    """Labels, in order."""
    table: NDArray[np.int32]
    """One row per day, one column per individual."""

    def values(self, devices: int, rounds: int, generator: np.random.Generator) -> NDArray[np.int32]:
        """The first `rounds` days of so many individuals: int32[rounds, devices]."""
        if not 0 <= rounds <= len(self.days):
            raise ParameterError("rounds", f"at most {len(self.days)}, the days in {self.name}", rounds)
        table, individuals = self.table[:rounds], len(self.individuals)
        if devices == individuals:
            return table.copy()
        chosen = generator.choice(individuals, devices, replace=devices > individuals)
        return np.asarray(table[:, chosen])

    def __repr__(self) -> str:
        return (
            f"Recorded(name={self.name!r}, max_value={self.max_value}, "
            f"individuals={len(self.individuals)}, days={len(self.days)})"
        )


def read_values(path: str | os.PathLike[str], max_value: Number | None = None) -> Recorded:
    """
    The values in a file: CSV (also .csv.gz) or Parquet, with the columns individual, day and value.

    Values above `max_value` are clamped to it, as a device would; when it is left out it is the largest value
    in the file. Raises `ValuesError` for a file that is not such a table.
    """
    top = None if max_value is None else whole_range(max_value)
    file = Path(path)
    try:
        rows = _parquet(file) if file.suffix in (".parquet", ".pq") else _csv(file)
    except (OSError, EOFError) as error:
        raise ValuesError(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    if not len(rows.values):
        raise ValuesError(f"{file}: expected rows below the columns {', '.join(COLUMNS)}, got none.")
    try:  # days sort as whole numbers where all of them are, as text or dates otherwise
        keys: Sequence[Any] = [int(day) for day in rows.days]
    except (TypeError, ValueError):
        keys = rows.days
    order = sorted(range(len(keys)), key=keys.__getitem__)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    places = rank[rows.day] * len(rows.individuals) + rows.individual
    by_place = np.argsort(places, kind="stable")
    again = np.flatnonzero(np.diff(places[by_place]) == 0)
    if len(again):
        row = int(by_place[again + 1].min())
        raise ValuesError(f"{_place(file, row)}: expected each individual and day once, got a pair again.")
    if top is None:
        top = max(1, int(rows.values.max()))
    if top > _LARGEST:
        raise ValuesError(f"{file}: expected values below 2^31; give max_value to clamp larger ones.")
    table = np.zeros((len(order), len(rows.individuals)), dtype=np.int32)
    table.reshape(-1)[places] = np.minimum(rows.values, top)
    individuals, days = map(str, rows.individuals), (str(rows.days[place]) for place in order)
    return Recorded(file.name.split(".")[0], top, tuple(individuals), tuple(days), table)


class _Rows(NamedTuple):
    """A file as columns; labels as codes into the list of distinct ones."""

    individuals: list[Any]
    individual: NDArray[np.int64]
    days: list[Any]
    day: NDArray[np.int64]
    values: NDArray[np.int64]


# CSV


def _csv(file: Path) -> _Rows:
    individuals: dict[str, int] = {}
    days: dict[str, int] = {}
    columns = [(_NONE, _NONE, _NONE)]
    first = 0  # the number of the first row of a chunk
    with _opened(file) as text:
        lines = csv.reader(text)
        try:
            heads = [head.strip() for head in next(lines, [])]
            picks = [heads.index(name) for name in _needed(file, heads)]
            while chunk := list(islice(lines, _ROWS)):
                rows = [row for row in chunk if row]
                for place, row in enumerate(rows, first):
                    if len(row) != len(heads):
                        raise ValuesError(
                            f"{_place(file, place)}: expected {len(heads)} columns, got {len(row)}."
                        )
                names, dates, values = ([row[pick] for row in rows] for pick in picks)
                columns.append((_codes(individuals, names), _codes(days, dates), _whole(file, first, values)))
                first += len(rows)
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValuesError(f"{file}: expected CSV in UTF-8; {error}.") from error
    individual, day, value = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return _Rows(list(individuals), individual, list(days), day, value)


def _opened(file: Path) -> TextIO:
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding="utf-8", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _needed(file: Path, heads: Sequence[str]) -> tuple[str, ...]:
    missing = [name for name in COLUMNS if name not in heads]
    if missing:
        raise ValuesError(
            f"{file}: expected the columns {', '.join(COLUMNS)}; "
            f"missing: {', '.join(missing)}; found: {', '.join(heads) or 'nothing'}."
        )
    return COLUMNS


def _codes(known: dict[str, int], labels: Sequence[str]) -> NDArray[np.int64]:
    for label in dict.fromkeys(labels):
        known.setdefault(label, len(known))
    return np.fromiter(map(known.__getitem__, labels), np.int64, len(labels))


def _whole(file: Path, first: int, texts: Sequence[str]) -> NDArray[np.int64]:
    """Values as numbers; the slow way only where one is not plain digits."""
    try:
        values = np.array(list(map(int, texts)), dtype=np.int64)
        if not (values < 0).any():
            return values
    except (ValueError, OverflowError):
        pass
    numbers = []
    for row, text in enumerate(texts, first):
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number < 2**53 or number != int(number):
            raise ValuesError(f"{_place(file, row)}: value: expected a whole number from 0 to below 2^53.")
        numbers.append(int(number))
    return np.array(numbers, dtype=np.int64)


def _place(file: Path, row: int) -> str:
    """Where a row is: its line in a CSV file, its number in a Parquet file."""
    if file.suffix in (".parquet", ".pq"):
        return f"{file}: row {row + 1}"
    with _opened(file) as text:
        lines = csv.reader(text)
        next(lines)
        for _ in islice((line for line in lines if line), row + 1):
            pass
        return f"{file}: line {lines.line_num}"


# Parquet


def _parquet(file: Path) -> _Rows:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("arrow", "pyarrow") from None
    try:
        with parquet.ParquetFile(file) as opened:
            _needed(file, opened.schema_arrow.names)
            table = opened.read(columns=list(COLUMNS))
    except arrow.ArrowException as error:
        raise ValuesError(f"{file}: expected a Parquet file; {error}.") from error
    for name in COLUMNS:
        if table[name].null_count:
            row = table[name].is_null().to_numpy().argmax()
            raise ValuesError(f"{_place(file, int(row))}: {name}: expected something, got nothing.")
    if not len(table):
        return _Rows([], _NONE, [], _NONE, _NONE)
    values = table["value"].to_numpy()
    if values.dtype.kind not in "iuf":
        raise ValuesError(f"{file}: value: expected a column of numbers, got {values.dtype}.")
    wrong = ~((values >= 0) & (values < 2**53))
    if values.dtype.kind == "f":
        wrong |= np.floor(values) != values
    if wrong.any():
        row = int(wrong.argmax())
        raise ValuesError(f"{_place(file, row)}: value: expected a whole number from 0 to below 2^53.")
    individuals, individual = _encoded(table["individual"])
    days, day = _encoded(table["day"])
    return _Rows(individuals, individual, days, day, values.astype(np.int64))


def _encoded(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Distinct labels in order of appearance, and the place of each row's."""
    encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    if hasattr(encoded, "chunks"):  # older versions of pyarrow keep one chunk
        encoded = encoded.chunk(0)
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
