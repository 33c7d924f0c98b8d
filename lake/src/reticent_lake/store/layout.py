"""
The layout of a lake: its paths, the names of its parts, and a report as a row of columns.

A part is one Parquet file of one round, as a collector wrote it or merged it from others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.reports import ID_BYTES
from reticent_collector.stores.records import Layout, Records, RoundKey

FORMAT = 1
NUMBER_BYTES = 7  # bytes of answer bits in one column: a number below 2⁵⁶ has no sign in any engine
_ROW_GROUP = 1 << 18
LAKE = "lake.json"
PLANS, REPORTS, SEALS, COUNTS, KEYS, DAMAGED = "plans", "reports", "seals", "counts", "keys", "damaged"
LEFT_OUT = ".left-out.json"  # ends the name of a file beside a part with the reason why it does not count

_PART = re.compile(r"([0-9a-f]{32})-([0-9]{8,})-([0-9]{8,})-([1-9][0-9]*)\.parquet")
_VALUES = {"plan": "[a-z][a-z0-9_-]*", "version": "[1-9][0-9]*", "round": "0|[1-9][0-9]*"}


def folder_of(key: RoundKey, top: str = REPORTS) -> str:
    """
    The folder of a round, in the form that Hive, DuckDB, Spark and Polars read as columns.

    >>> folder_of(RoundKey("app-usage", 1, 81652))
    'reports/plan=app-usage/version=1/round=81652'
    """
    return f"{top}/plan={key.plan}/version={key.version}/round={key.round}"


def plan_path(name: str, version: int) -> str:
    """The file of a plan."""
    return f"{PLANS}/{name}/v{version}.toml"


def seal_path(key: RoundKey, name: Literal["closing", "parts", "pruned"]) -> str:
    """A file that closes a round, lists the parts that count, or replaces counts that were removed."""
    return f"{folder_of(key, SEALS)}/{name}.json"


def counts_path(key: RoundKey) -> str:
    """The file with the counts of a sealed round."""
    return f"{folder_of(key, COUNTS)}.json"


def value_of(name: str, folder: str) -> str | None:
    """The value of a folder `plan=…`, `version=…` or `round=…`, or of a file `round=….json`; None for others."""
    match = re.fullmatch(f"{name}=({_VALUES[name]})", folder.removesuffix(".json"))
    return match[1] if match else None


class Part(NamedTuple):
    """
    The name of a part: its writer, the writer's commit groups, and the number of rows.

    A writer is one opening of the store, by 128 random bits, and numbers the groups of each round from 1.
    A part that was merged from others has a range of numbers, and covers the parts it was made from.

    >>> one = Part("0" * 32, 3, 3, 40)
    >>> one.name
    '00000000000000000000000000000000-00000003-00000003-40.parquet'
    >>> Part.parse(one.name) == one, Part("0" * 32, 1, 64, 2560).covers(one)
    (True, True)
    """

    writer: str
    first: int
    last: int
    rows: int

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.writer}-{self.first:08d}-{self.last:08d}-{self.rows}.parquet"

    @classmethod
    def parse(cls, name: str) -> Part | None:
        """The part with this name; None for other names."""
        match = _PART.fullmatch(name)
        if match is None or int(match[2]) > int(match[3]):
            return None
        return cls(match[1], int(match[2]), int(match[3]), int(match[4]))

    def covers(self, other: Part) -> bool:
        """Whether this part holds all groups of the other one."""
        return self.writer == other.writer and self.first <= other.first and other.last <= self.last


def outermost(parts: Iterable[Part]) -> list[Part]:
    """The parts that no other part covers; together they hold all groups."""
    covering: list[Part] = []
    for part in sorted(parts, key=lambda part: (part.writer, part.first, -part.last)):
        if not covering or not covering[-1].covers(part):
            covering.append(part)
    return covering


def missing_groups(parts: Iterable[Part]) -> list[Part]:
    """
    The groups that were removed: a writer numbers its groups from 1 without a gap, and later ones are there.

    How many rows they had is not known, so they have the fewest that a part can have.

    >>> missing_groups([Part("0" * 32, 2, 3, 40), Part("0" * 32, 5, 5, 7)])
    [Part(writer='00000000000000000000000000000000', first=1, last=1, rows=1), \
Part(writer='00000000000000000000000000000000', first=4, last=4, rows=1)]
    """
    missing = []
    following: dict[str, int] = {}
    for part in outermost(parts):
        expected = following.get(part.writer, 1)
        if part.first > expected:
            missing.append(Part(part.writer, expected, part.first - 1, 1))
        following[part.writer] = part.last + 1
    return missing


class Field(NamedTuple):
    """A column: some bytes of a record as one big-endian number."""

    name: str
    start: int
    stop: int

    @property
    def type(self) -> pa.DataType:
        """uint8 for a cohort or tag, int64 for the others: the widest that Spark has."""
        small = self.name == "cohort" or self.name.startswith("segment_")
        return pa.uint8() if small else pa.int64()


class Columns:
    """
    The columns of a plan's reports.

    | column | type | holds |
    |---|---|---|
    | `id_high`, `id_low` | int64 | the first and last 8 bytes of the report's id |
    | `cohort` | uint8 | the cohort, if the plan uses one |
    | `asked_0`, `asked_1`, … | int64 | 7 bytes each of the metrics asked, if a report does not answer all |
    | `segment_NAME` | uint8 | the place of the tag among the segment's tags, "other" last |
    | `bits_0`, `bits_1`, … | int64 | 7 bytes each of the bits as on the wire; the last may have fewer |

    Read from left to right, columns order reports exactly as the bytes of their records do.
    """

    def __init__(self, plan: Plan) -> None:
        self.layout = Layout(plan)
        asked = ID_BYTES + plan.uses_cohort
        tags = asked + plan.asked_bytes
        bits = tags + len(plan.segments)
        self.fields = (
            Field("id_high", 0, 8),
            Field("id_low", 8, ID_BYTES),
            *[Field("cohort", ID_BYTES, asked)][: plan.uses_cohort],
            *_numbered("asked", asked, tags),
            *(Field(f"segment_{segment.name}", n, n + 1) for n, segment in enumerate(plan.segments, tags)),
            *_numbered("bits", bits, self.layout.width),
        )
        self._largest = [len(segment.tags) - 1 for segment in plan.segments]
        self._tags = tags
        self.schema = pa.schema([pa.field(field.name, field.type, nullable=False) for field in self.fields])
        self._small = [field.name for field in self.fields if field.type == pa.uint8()]
        self._digest = plan.fingerprint.hex()

    def metadata(self, key: RoundKey) -> dict[str, str]:
        """The metadata of every part of a round."""
        return {
            "reticent.format": str(FORMAT),
            "reticent.plan": key.plan,
            "reticent.version": str(key.version),
            "reticent.round": str(key.round),
            "reticent.digest": self._digest,
        }

    def table(self, records: Records) -> pa.Table:
        """Records as rows; a tag beyond the last one is "other"."""
        for place, largest in enumerate(self._largest, self._tags):
            if len(records) and records[:, place].max() > largest:
                records = records.copy()
                records[:, place] = np.minimum(records[:, place], largest)
        return pa.table([_number(records, field) for field in self.fields], schema=self.schema)

    def records(self, table: pa.Table) -> Records:
        """Rows as records."""
        records = np.empty((table.num_rows, self.layout.width), dtype=np.uint8)
        for field in self.fields:
            numbers = table.column(field.name).to_numpy()
            if field.type == pa.uint8():
                records[:, field.start] = numbers
            else:
                wide = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)
                records[:, field.start : field.stop] = wide[:, 8 - (field.stop - field.start) :]
        return records

    def encode(self, key: RoundKey, records: Records) -> bytes:
        """A part: records in the order of their ids, which does not depend on when they came."""
        order = np.argsort(_number(records, self.fields[0]), kind="stable")
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink, self.schema, compression="none", use_dictionary=self._small or False,
            write_statistics=False, write_page_checksum=True, store_schema=False,
        ) as writer:  # fmt: skip
            writer.write_table(self.table(records[order]), row_group_size=_ROW_GROUP)
            writer.add_key_value_metadata(self.metadata(key))
        return bytes(sink.getvalue())

    def decode(self, key: RoundKey, data: bytes, rows: int) -> Records:
        """The records of a part; `StoreError` with the reason when it is not one, or is damaged."""
        try:
            with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
                problem = self.problem(file, key, rows)
                if problem:
                    raise StoreError(problem)
                return self.records(file.read())
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"cannot be read as Parquet: {str(error).splitlines()[0]}") from error

    def problem(self, file: pq.ParquetFile, key: RoundKey, rows: int) -> str:
        """Why an open file is not a part of so many rows, by its footer; empty when it is one."""
        kept = {name.decode(): text for name, text in (file.metadata.metadata or {}).items()}
        for name, expected in self.metadata(key).items():
            got = kept.get(name, b"nothing").decode(errors="replace")
            if got != expected:
                return f"{name}: expected {expected}, got {got}"
        for column in self.schema:
            place = file.schema_arrow.get_field_index(column.name)
            if place < 0:
                return f"{column.name}: expected a column {column.type}, got none"
            other = file.schema_arrow.field(place)
            if other != column:
                return f"{column.name}: expected {_typed(column)}, got {_typed(other)}"
        if not file.schema_arrow.equals(self.schema):
            return f"columns: expected {self.schema.names}, got others or of other types"
        if file.metadata.num_rows != rows:
            return f"rows: expected {rows} as in the name, got {file.metadata.num_rows}"
        return ""


def bit_place(plan: Plan, bit: int) -> tuple[str, int]:
    """
    The column of an answer bit, and how far to shift it to the right. Bit 0 is the plan's first.

    `plan.offset(metric)` is the first bit of a metric, so its answer is `(column >> shift) & 1`.
    """
    if not 0 <= bit < plan.bits:
        raise IndexError(f"bit: expected 0 to {plan.bits - 1}, got {bit}")
    return _place("bits", plan.report_bytes, bit)


def asked_place(plan: Plan, metric: int) -> tuple[str, int]:
    """The column and shift of the bit that tells whether a report answers a metric, by its number."""
    if not plan.asked_bytes or not 0 <= metric < len(plan.metrics):
        raise IndexError(f"metric: expected the number of one that may not be asked, got {metric}")
    return _place("asked", plan.asked_bytes, metric)


def _place(name: str, size: int, bit: int) -> tuple[str, int]:
    column, rest = divmod(bit, 8 * NUMBER_BYTES)
    return f"{name}_{column}", 8 * min(NUMBER_BYTES, size - column * NUMBER_BYTES) - 1 - rest


def _numbered(name: str, start: int, stop: int) -> Iterator[Field]:
    for place, first in enumerate(range(start, stop, NUMBER_BYTES)):
        yield Field(f"{name}_{place}", first, min(first + NUMBER_BYTES, stop))


def _typed(column: pa.Field) -> str:
    return f"{column.type}{'' if column.nullable else ' not null'}"


def _number(records: Records, field: Field) -> NDArray[Any]:
    if field.type == pa.uint8():
        return np.ascontiguousarray(records[:, field.start])
    wide = np.zeros((len(records), 8), dtype=np.uint8)
    wide[:, 8 - (field.stop - field.start) :] = records[:, field.start : field.stop]
    return wide.view(">i8").reshape(-1).astype(np.int64)
