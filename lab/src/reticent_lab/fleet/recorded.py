"""
Values that were recorded, per individual and day, from a CSV or Parquet file.

    individual,day,value        device,2021-07-08,2021-07-09        seconds
    17,2021-07-08,5400          17,5400,0                           5400
    17,2021-07-09,0             18,,3600                            0

The first form is for both kinds of file; CSV can also be a table with a row per individual and a column per day, or
one column of values of a single day. Lines may be separated by commas, semicolons or tabs, and a header may be
left out where the form is clear. `individual` is any label. `day` is any label that sorts: whole numbers by size,
anything else (such as ISO dates) as text. `value` is a whole number >= 0. A pair of individual and day that is
missing counts as 0; a pair that comes twice is refused. A day on which nobody has a row is not there.

The first form can have a column per metric of a plan instead of `value`, named as programs record it (METRIC/PART for
a split): whole numbers, or the label of a choice. An empty cell is no value.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from reticent.errors import MissingPackageError, ParameterError, ReticentError
from reticent.mechanisms import Number
from reticent.plan import Metric
from reticent_lab.fleet.usage import whole_range

COLUMNS = ("individual", "day", "value")
_ALSO = {
    "individual": {"device", "device_id", "user", "user_id", "person", "player", "participant", "id", "pid"},
    "day": {"date", "round", "time", "timestamp"},
    "value": {"seconds", "duration", "usage", "count"},
}
"""Other names of these columns, in any case."""
_NOTHING = ("", "na", "nan", "null", "none")
"""What stands in a table of days where an individual has no value."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d")
_OTHER_DATE = re.compile(r"\s*\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b")
_ROWS = 1 << 12  # Rows of CSV at a time: they stay in the cache
_LARGEST = 2**31 - 1
_NONE = np.empty(0, dtype=np.int64)


class ValuesError(ReticentError):
    """A file of values cannot be read; says where in it, and never what the value was."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """
    A recorded population.

    With as many devices as individuals, `values` is the recording itself. With fewer it is a random sample of
    individuals; with more, one with replacement, which makes rare patterns look more common than they are.
    """

    name: str
    max_value: int
    individuals: tuple[str, ...]  #: Labels, in the order in which they first appear
    days: tuple[str, ...]  #: Labels, in order
    table: NDArray[np.int32]  #: One row per day, one column per individual
    metric: Metric | None = None
    """Of a column of a metric: then values are as a device takes them, so that a label is its place and -1 is none."""

    def values(self, devices: int, rounds: int, generator: np.random.Generator) -> NDArray[np.int32]:
        """The first `rounds` days of so many individuals: int32[rounds, devices]."""
        if not 0 <= rounds <= len(self.days):
            raise ParameterError("rounds", f"at most {len(self.days)}, the days in {self.name}", rounds)
        table = self.table[:rounds]
        individuals = len(self.individuals)
        if devices == individuals:
            return table.copy()
        chosen = generator.choice(individuals, devices, replace=devices > individuals)
        return np.asarray(table[:, chosen])

    def check_days(self) -> None:
        """Refuse values of times of a day, where they are to be those of days."""
        if any(map(_TIME.match, self.days)):
            raise ValuesError(
                f"{self.name}: expected a value per individual and day, got times; add them up by days."
            )

    def in_rounds(self, days: int) -> Recorded:
        """
        The totals of so many days at a time, where days are dates; else itself: then a day is a round already.

        Of a column of a metric that can be absent, the last value of the round, as of a device. Days at the end that
        fill no round are left out, but for the only round.
        """
        if days == 1 or not all(map(_is_date, self.days)):
            return self
        rounds = max(1, len(self.days) // days)
        whole = self.table[: rounds * days].astype(np.int64)
        starts = range(0, len(whole), days)
        if _can_be_none(self.metric):
            table = np.full((len(starts), whole.shape[1]), -1, dtype=np.int32)
            for day, values in enumerate(whole):
                table[day // days] = np.where(values < 0, table[day // days], values)
        else:
            table = np.minimum(np.add.reduceat(whole, starts), _LARGEST).astype(np.int32)
        first = tuple(self.days[start] for start in starts)
        top = max(1, int(table.max(initial=1)))
        return Recorded(self.name, top, self.individuals, first, table, self.metric)

    def __repr__(self) -> str:
        return (
            f"Recorded(name={self.name!r}, max_value={self.max_value}, "
            f"individuals={len(self.individuals)}, days={len(self.days)})"
        )


def _is_date(label: str) -> bool:
    try:
        date.fromisoformat(label)
    except ValueError:
        return False
    return True


def _can_be_none(metric: Metric | None) -> bool:
    return metric is not None and metric.absent and not metric.parts


def metrics_in(path: str | os.PathLike[str], names: Sequence[str]) -> list[str]:
    """Which of these names are columns of a table of metrics; none of a file in another form."""
    file = Path(path)
    try:
        if _is_parquet(file):
            heads = _parquet_columns(file)
        else:
            with _opened(file) as text:
                heads = _heads(text.readline())[1]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error):
        return []  # which reading its values explains
    picks = _person_and_day(heads, names)
    if picks is None or (len(heads) == len(COLUMNS) and "value" in map(_column, heads)):
        return []
    return [name for name in names if name in heads]


def read_values(
    path: str | os.PathLike[str],
    max_value: Number | None = None,
    column: tuple[str, Metric] | None = None,
) -> Recorded:
    """
    The values in a file: CSV (also .csv.gz) or Parquet, in one of the forms above.

    Values are clamped to `max_value`, by default the largest in the file. With `column`, the name of a column and its
    metric, they are those of one metric of several. Raises `ValuesError`.
    """
    top = None if max_value is None else whole_range(max_value)
    file = Path(path)
    try:
        rows = _parquet(file, column) if _is_parquet(file) else _csv(file, column)
    except (OSError, EOFError) as error:
        raise ValuesError(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    if not len(rows.values):
        raise ValuesError(f"{file}: expected rows below the columns {', '.join(COLUMNS)}, got none.")
    try:  # days sort as whole numbers where all of them are, as text or dates otherwise
        keys: Sequence[Any] = [int(day) for day in rows.days]
    except (TypeError, ValueError):
        keys = rows.days
        if any(_OTHER_DATE.match(str(day)) for day in keys):
            raise ValuesError(
                f"{file}: day: expected whole numbers, or dates such as 2026-01-31; other dates do not sort."
            ) from None
    order = sorted(range(len(keys)), key=keys.__getitem__)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    places = rank[rows.day] * len(rows.individuals) + rows.individual
    by_place = np.argsort(places, kind="stable")
    again = np.flatnonzero(np.diff(places[by_place]) == 0)
    if len(again):
        row = int(by_place[again + 1].min())
        raise ValuesError(
            f"{_place(file, row, rows.form)}: expected each pair of individual and day once, got a duplicate."
        )
    if top is None:
        top = max(1, int(rows.values.max()))
    if top > _LARGEST:
        raise ValuesError(f"{file}: expected values below 2^31; choose a larger unit, such as MB, not bytes.")
    metric = column[1] if column else None
    none = -1 if _can_be_none(metric) else 0
    table = np.full((len(order), len(rows.individuals)), none, dtype=np.int32)
    table.reshape(-1)[places] = np.minimum(rows.values, top)
    individuals = tuple(map(str, rows.individuals))
    days = tuple(str(rows.days[place]) for place in order)
    return Recorded(file.name.split(".")[0], top, individuals, days, table, metric)


class _Form(NamedTuple):
    delimiter: str
    header: bool
    width: int
    picks: tuple[int | None, int | None, int] | None
    """The places of individual, day and value; None where there is none. No picks: a column per day."""
    days: tuple[str, ...] = ()
    labelled: bool = False  # Of a table of days: whether the first column names the individual

    @property
    def values_per_line(self) -> int:
        return 1 if self.picks else len(self.days)


class _Rows(NamedTuple):
    individuals: list[Any]
    individual: NDArray[np.int64]
    days: list[Any]
    day: NDArray[np.int64]
    values: NDArray[np.int64]
    form: _Form | None = None


# CSV


def _csv(file: Path, column: tuple[str, Metric] | None) -> _Rows:
    individuals: dict[str, int] = {}
    days: dict[str, int] = {}
    columns = [(_NONE, _NONE, _NONE)]
    first = 0  # the number of the first line of a chunk
    with _opened(file) as text:
        try:
            delimiter, heads = _heads(text.readline())
            form = _form(file, delimiter, heads) if column is None else _form_of(column[0], delimiter, heads)
            if not form.header:
                text.seek(0)
            lines = csv.reader(text, delimiter=delimiter)
            while chunk := list(islice(lines, _ROWS)):
                rows = [row for row in chunk if row]
                for place, row in enumerate(rows, first):
                    if len(row) != form.width:
                        where = _place(file, place * form.values_per_line, form)
                        raise ValuesError(f"{where}: expected {form.width} columns, got {len(row)}.")
                names, dates, values = _cells(form, rows, first)
                numbers = _numbers(file, form, first * form.values_per_line, values, column)
                columns.append((_codes(individuals, names), _codes(days, dates), numbers))
                first += len(rows)
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValuesError(
                f"{file}: expected CSV in UTF-8; save it so, as `iconv` does; {error}."
            ) from error
    individual, day, value = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return _Rows(list(individuals), individual, list(days), day, value, form)


def _heads(line: str) -> tuple[str, list[str]]:
    """What separates the columns of a first line, and what stands in them."""
    delimiter = max(",;\t", key=line.count)
    heads = next(csv.reader([line], delimiter=delimiter), [])
    return delimiter, [head.strip().lstrip("\ufeff") for head in heads]


def _person_and_day(heads: Sequence[str], names: Sequence[str]) -> tuple[int, int] | None:
    """The places of individual and day among columns of which some have these names, which count first."""
    places: dict[str, int] = {}
    for place, head in enumerate(heads):
        role = _column(head)
        if role and (head.lower() == role or (head not in names and role not in places)):
            places[role] = place
    return (places["individual"], places["day"]) if {"individual", "day"} <= set(places) else None


def _form_of(name: str, delimiter: str, heads: list[str]) -> _Form:
    """The form of a table of metrics, to read the column of one."""
    picks = _person_and_day(heads, [name])
    if picks is None or name not in heads:
        raise ParameterError("column", "a column of the file", name)
    return _Form(delimiter, True, len(heads), (*picks, heads.index(name)))


def _numbers(
    file: Path, form: _Form, first: int, texts: Sequence[str], column: tuple[str, Metric] | None
) -> NDArray[np.int64]:
    """Values as numbers: of a column of a metric, a label is its place, and an empty cell no value."""
    if column is None:
        return _whole(file, form, first, texts)
    name, metric = column
    cells = [text.strip() for text in texts]
    if metric.labels and not metric.parts:
        return _labelled(lambda row: _place(file, row, form), first, cells, name, metric)
    empty = np.array([cell.lower() in _NOTHING for cell in cells], dtype=bool)
    filled = [cell if cell.lower() not in _NOTHING else "0" for cell in cells]
    numbers = _whole(file, form, first, filled, name)
    if _can_be_none(metric):
        numbers[empty] = -1
    return numbers


def _labelled(
    where: Callable[[int], str], first: int, cells: Sequence[str | None], name: str, metric: Metric
) -> NDArray[np.int64]:
    """The places of labels; -1 is none. `where` says where a row is."""
    places: dict[str | None, int] = dict.fromkeys((None, *_NOTHING), -1)
    places |= {label: place for place, label in enumerate(metric.labels)}
    try:
        return np.fromiter(map(places.__getitem__, cells), np.int64, len(cells))
    except KeyError:
        row = next(row for row, cell in enumerate(cells, first) if cell not in places)
        expected = f"one of the labels {', '.join(metric.labels)}, or nothing"
        raise ValuesError(f"{where(row)}: {name}: expected {expected}; got another text.") from None


def _cells(form: _Form, rows: list[list[str]], first: int) -> tuple[list[str], list[str], list[str]]:
    """The individual, day and value of each value in some lines."""
    numbered = [str(place) for place in range(first, first + len(rows))]
    if form.picks is None:
        return _cells_of_days(form, rows, numbered)
    who, when, what = form.picks
    names = numbered if who is None else [row[who] for row in rows]
    dates = ["1"] * len(rows) if when is None else [row[when] for row in rows]
    return names, dates, [row[what] for row in rows]


def _cells_of_days(
    form: _Form, rows: list[list[str]], numbered: list[str]
) -> tuple[list[str], list[str], list[str]]:
    names = [row[0] for row in rows] if form.labelled else numbered
    values = [cell for row in rows for cell in row[form.labelled :]]
    values = ["0" if cell.strip().lower() in _NOTHING else cell for cell in values]
    return [name for name in names for _ in form.days], list(form.days) * len(rows), values


def _form(file: Path, delimiter: str, heads: list[str]) -> _Form:
    """The form of a file, by the cells of its first line."""
    known = {name: place for place, head in enumerate(heads) if (name := _column(head))}
    size = len(heads)
    if "value" in known and (len(known) == len(COLUMNS) or size <= 2):
        places = known.get("individual"), known.get("day"), known["value"]
        return _Form(delimiter, True, size, places)
    if size == 1 and heads[0]:
        return _Form(delimiter, not _is_number(heads[0]), 1, (None, None, 0))
    if "individual" in known or (size > 1 and not _is_value(heads[-1])):  # a header
        if "day" not in known and all(map(_has_digit, heads[1:])):
            return _Form(delimiter, True, size, None, tuple(heads[1:]), labelled=True)
        _needed(file, heads, [_column(head) or head for head in heads])
    if size < 2:
        _needed(file, heads, [_column(head) or head for head in heads])
    return _form_without_header(file, delimiter, heads)


def _form_without_header(file: Path, delimiter: str, heads: list[str]) -> _Form:
    size = len(heads)
    if size == len(COLUMNS):
        if _is_number(heads[1]):
            raise ValuesError(
                f"{file}: three columns of numbers: expected a first line that names them: "
                f"{', '.join(COLUMNS)}; or device and the name of each day."
            )
        if _has_digit(heads[1]):  # a date
            return _Form(delimiter, False, size, (0, 1, 2))
    labelled = not _is_number(heads[0])
    days = tuple(str(day) for day in range(1, size + 1 - labelled))
    return _Form(delimiter, False, size, None, days, labelled)


def _column(head: str) -> str | None:
    name = head.lower()
    return next((column for column in COLUMNS if name == column or name in _ALSO[column]), None)


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False


def _is_value(text: str) -> bool:
    """Whether it may stand for a value in a table of days."""
    return _is_number(text) or text.lower() in _NOTHING


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _opened(file: Path) -> TextIO:
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _needed(file: Path, heads: Sequence[str], names: Sequence[str] = ()) -> tuple[str, ...]:
    """Refuse a file without the columns; `names` are the heads by the names that they stand for."""
    missing = [name for name in COLUMNS if name not in (names or heads)]
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


def _whole(
    file: Path, form: _Form, first: int, texts: Sequence[str], name: str = "value"
) -> NDArray[np.int64]:
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
            where = f"{_place(file, row, form)}: {name}: expected a whole number from 0 to below 2^53"
            if text.strip().lower() in _NOTHING:
                raise ValuesError(f"{where}, got none; leave the row out: a missing row counts as 0.")
            raise ValuesError(
                f"{where}; choose a unit in which values are whole, such as ms instead of seconds, and add a "
                "constant to values that can be negative."
            )
        numbers.append(int(number))
    return np.array(numbers, dtype=np.int64)


def _place(file: Path, row: int, form: _Form | None = None) -> str:
    if form is None:
        return f"{file}: row {row + 1}"
    with _opened(file) as text:
        lines = csv.reader(text, delimiter=form.delimiter)
        if form.header:
            next(lines)
        for _ in islice((line for line in lines if line), row // form.values_per_line + 1):
            pass
        return f"{file}: line {lines.line_num}"


# Parquet


def _is_parquet(file: Path) -> bool:
    return file.suffix in (".parquet", ".pq")


def _parquet_columns(file: Path) -> list[str]:
    """The names of the columns; none where it is no Parquet file."""
    arrow, parquet = _arrow()
    try:
        with parquet.ParquetFile(file) as opened:
            return list(opened.schema_arrow.names)
    except arrow.ArrowException:
        return []


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise MissingPackageError("reticent-collector[arrow]", "pyarrow") from None
    return arrow, parquet


def _parquet(file: Path, column: tuple[str, Metric] | None) -> _Rows:
    arrow, parquet = _arrow()
    name, metric = column or ("value", None)
    columns = ("individual", "day", name)
    try:
        with parquet.ParquetFile(file) as opened:
            if metric is None:
                _needed(file, opened.schema_arrow.names)
            table = opened.read(columns=list(columns))
    except arrow.ArrowException as error:
        raise ValuesError(f"{file}: expected a Parquet file; {error}.") from error
    for each in columns if metric is None else columns[:2]:
        if table[each].null_count:
            row = table[each].is_null().to_numpy().argmax()
            raise ValuesError(f"{_place(file, int(row))}: {each}: expected a value, got null.")
    if not len(table):
        return _Rows([], _NONE, [], _NONE, _NONE)
    individuals, individual = _encoded(table["individual"])
    days, day = _encoded(table["day"])
    if metric is not None and metric.labels and not metric.parts:
        cells = table[name].to_pylist()
        values = _labelled(lambda row: _place(file, row), 0, cells, name, metric)
    else:
        values = _parquet_numbers(file, table[name], name, metric)
    return _Rows(individuals, individual, days, day, values)


def _parquet_numbers(file: Path, column: Any, name: str, metric: Metric | None) -> NDArray[np.int64]:
    empty = column.is_null().to_numpy().astype(bool)
    values = column.to_numpy()
    if empty.any():
        values = column.fill_null(0).to_numpy()
    if values.dtype.kind not in "iufb":
        raise ValuesError(f"{file}: {name}: expected a column of numbers, got {values.dtype}.")
    wrong = ~((values >= 0) & (values < 2**53))
    if values.dtype.kind == "f":
        wrong |= np.floor(values) != values
    if wrong.any():
        row = int(wrong.argmax())
        raise ValuesError(f"{_place(file, row)}: {name}: expected a whole number from 0 to below 2^53.")
    numbers = values.astype(np.int64)
    if _can_be_none(metric):
        numbers[empty] = -1
    return np.asarray(numbers)


def _encoded(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    if hasattr(encoded, "chunks"):  # older versions of pyarrow keep one chunk
        encoded = encoded.chunk(0)
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
