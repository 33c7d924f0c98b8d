"""Plans, keys and the table of results in a lake: files that are made once, by any process."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.columns import COLUMNS, COMPARISON, FIGURE, NUMBER, seconds_of, time_text
from reticent_collector.stores.backend import AdminAction, Key, Note, PeriodKey, not_registered, read_plan
from reticent_collector.stores.records import Layout, RoundKey
from reticent_lake.store.files import Files
from reticent_lake.store.layout import KEYS, PLANS, Columns, plan_path

RESULTS = "results"
COMPARISONS = "comparisons"
ADMIN_LOG = "admin_log"
NOTES = "notes"
IN_PATHS = ("plan", "metric")  # columns that readers find in the paths
_TYPES = {
    "text": pa.string(),
    "json": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "bool": pa.bool_(),
}
SCHEMA = pa.schema([(column.name, _TYPES[column.type]) for column in COLUMNS if column.name not in IN_PATHS])
COMPARED = pa.schema([(column.name, _TYPES[column.type]) for column in COMPARISON if column.name != "plan"])
_TIMES = [column.name for column in COLUMNS if column.type == "timestamp"]
_FILE = re.compile(r"([a-z]+)-v([1-9][0-9]*)-(-?[0-9]+)-([0-9]+)((?:_-?[0-9]+-[0-9]+)*)\.parquet")
_SPAN = re.compile(r"_(-?[0-9]+)-([0-9]+)")


class LakeTables:
    """
    The files that do not depend on the state of a round.

    Results are in `results/plan=NAME/metric=NAME/EVERY-vVERSION-START-END.parquet`, times in unix seconds. A period
    has a file for each metric of its plan, also when all its figures are withheld, and for each metric that only
    older versions have. The file of the last metric of its plan is made last and removed first: while it exists,
    all of them do.

    Comparisons of a period are in one file, `comparisons/plan=NAME/EVERY-vVERSION-START-END_START-END….parquet`, made
    before. Its name has the times of the periods that are subtracted, so that it can be removed with any of them.
    """

    def __init__(self, files: Files, readonly: bool) -> None:
        self.files = files
        self.url = files.url
        self._readonly = readonly
        self._is_shut = False
        self._texts: dict[str, str] = {}  # of plans and keys, which never change
        self._columns: dict[tuple[str, int], Columns] = {}

    # Plans

    def put_plan(self, plan: Plan) -> Plan:
        """Store a plan's text unless its name and version are stored already; returns the stored plan."""
        self._check_writable()
        path = plan_path(plan.name, plan.version)
        if self.files.read(path) is None:
            self.files.put_new(path, plan.text.encode())
        else:  # durable before reports on it are acknowledged
            self.files.settle(f"{PLANS}/{plan.name}")
        return self.plan_at(path)

    def plans(self) -> list[Plan]:
        """Every plan ever stored, by name and version."""
        return sorted(map(self.plan_at, self.plan_paths()), key=lambda plan: (plan.name, plan.version))

    def plan_paths(self) -> list[str]:
        """The files of all plans."""
        return [
            f"{PLANS}/{name}/{file}"
            for name in self.files.names(PLANS)
            for file in self.files.names(f"{PLANS}/{name}")
            if re.fullmatch(r"v[1-9][0-9]*\.toml", file)
        ]

    def plan_at(self, path: str) -> Plan:
        """The plan in a file."""
        plan = read_plan(f"{self.url}: {path}", self._text(path))
        if path != plan_path(plan.name, plan.version):
            raise StoreError(f"{self.url}: {path}: holds the text of {plan.name} version {plan.version}")
        return plan

    def columns(self, key: RoundKey) -> Columns:
        """The columns of a round's parts."""
        columns = self._columns.get(key[:2])
        if columns is None:
            path = plan_path(key.plan, key.version)
            if path not in self._texts and self.files.read(path) is None:
                raise not_registered(self.url, key)
            columns = self._columns[key[:2]] = Columns(self.plan_at(path))
        return columns

    def layout(self, key: RoundKey) -> Layout:
        """The layout of a round's records."""
        return self.columns(key).layout

    # Keys

    def add_key(self, key: Key) -> None:
        """Store a key's hash."""
        self._check_writable()
        kept = {"role": key.role, "hash": key.hash.hex(), "label": key.label, "created_at": key.created_at}
        if key.plans:  # a version that does not know of plans allows such a key nothing
            kept |= {"role": f"{key.role} of plans", "plans": list(key.plans)}
        if not self.files.put_new(f"{KEYS}/{key.id}.json", json.dumps(kept).encode()):
            raise StoreError(f"{self.url}: key {key.id} already exists")
        if key.revoked_at is not None:
            self.revoke_key(key.id, key.revoked_at)

    def keys(self) -> list[Key]:
        """All keys, including revoked ones."""
        names, keys = set(self.files.names(KEYS)), []
        for name in names:
            if name.endswith(".revoked.json") or not name.endswith(".json"):
                continue
            key_id, at = name.removesuffix(".json"), None
            try:
                kept = json.loads(self._text(f"{KEYS}/{key_id}.json"))
                if f"{key_id}.revoked.json" in names:
                    at = json.loads(self._text(f"{KEYS}/{key_id}.revoked.json"))["revoked_at"]
                secret = bytes.fromhex(kept["hash"])
                plans = tuple(kept.get("plans", ()))
                keys.append(
                    Key(
                        key_id,
                        kept["role"].removesuffix(" of plans"),
                        secret,
                        kept["label"],
                        kept["created_at"],
                        at,
                        plans,
                    )
                )
            except (ValueError, KeyError, TypeError) as error:
                reason = f"is damaged: {type(error).__name__}"
                raise StoreError(f"{self.url}: {KEYS}/{key_id}.json: {reason}") from error
        return sorted(keys, key=lambda key: (key.created_at, key.id))

    def revoke_key(self, key_id: str, at: int) -> bool:
        """Revoke a key at a unix time; False when no key has this id. The first time stays."""
        self._check_writable()
        if f"{key_id}.json" not in self.files.names(KEYS):
            return False
        self.files.put_new(f"{KEYS}/{key_id}.revoked.json", json.dumps({"revoked_at": at}).encode())
        return True

    # What administrators did

    def note(self, action: AdminAction) -> None:
        """Add an entry to the log of administrators; durable on return."""
        self._check_writable()
        name = f"{action.at}-{secrets.token_hex(16)}.json"
        self.files.put(f"{ADMIN_LOG}/{name}", json.dumps(action._asdict()).encode())

    def noted(self) -> list[AdminAction]:
        """All entries of the log of administrators, the oldest first."""
        entries = []
        for name in self.files.names(ADMIN_LOG):
            try:
                entries.append(AdminAction(**json.loads(self._text(f"{ADMIN_LOG}/{name}"))))
            except (ValueError, TypeError) as error:
                reason = f"is damaged: {type(error).__name__}"
                raise StoreError(f"{self.url}: {ADMIN_LOG}/{name}: {reason}") from error
        return sorted(entries, key=lambda entry: entry.at)

    # Notes of events

    def put_note(self, note: Note) -> None:
        """Store a note; durable on return. One with its id stays as it is."""
        self._check_writable()
        self.files.put_new(f"{NOTES}/{note.id}.json", json.dumps(note._asdict()).encode())

    def notes(self) -> list[Note]:
        """All notes, the oldest first."""
        notes = []
        for name in self.files.names(NOTES):
            try:
                notes.append(Note(**json.loads(self._text(f"{NOTES}/{name}"))))
            except (ValueError, TypeError) as error:
                reason = f"is damaged: {type(error).__name__}"
                raise StoreError(f"{self.url}: {NOTES}/{name}: {reason}") from error
        return sorted(notes, key=lambda note: (note.at, note.id))

    # The table of results

    def written(self, plan: str) -> set[PeriodKey]:
        """The periods of a plan whose files all exist."""
        periods = set()
        for version in (known for known in self.plans() if known.name == plan):
            for name in self.files.names(_folder(plan, version.metrics[-1].name)):
                period = _period(plan, name)
                if period and period.version == version.version:
                    periods.add(period)
        return periods

    def put_results(
        self,
        period: PeriodKey,
        rows: Iterable[Mapping[str, object]],
        comparisons: Iterable[Mapping[str, object]] = (),
    ) -> None:
        """Make the missing files of a period."""
        self._check_writable()
        compared = [*map(dict, comparisons)]
        if compared:
            self._put_comparisons(period, compared)
        by_metric: dict[str, list[Mapping[str, object]]] = {}
        for row in rows:
            by_metric.setdefault(str(row["metric"]), []).append(row)
        own = self._plan_of(period).by_name
        for metric in [*(by_metric.keys() - own.keys()), *own]:
            self.files.put_new(_path(period, metric), _parquet(by_metric.get(metric, []), SCHEMA))

    def _put_comparisons(self, period: PeriodKey, rows: Sequence[Mapping[str, object]]) -> None:
        """Make the file of the comparisons of a period, unless one has them all; it replaces one that has fewer."""
        times = {(str(row["baseline_start_time"]), str(row["baseline_end_time"])) for row in rows}
        spans = {(seconds_of(start), seconds_of(end)) for start, end in times} - {(period.start, period.end)}
        kept = {path: _subtracted(path) for path in self._comparisons_of(period)}
        if not any(spans <= others for others in kept.values()):
            name = "".join(f"_{start}-{end}" for start, end in sorted(spans))
            path = f"{COMPARISONS}/plan={period.plan}/{_name(period)}{name}.parquet"
            self.files.put_new(path, _parquet(rows, COMPARED))
        self.files.remove(path for path, others in kept.items() if others < spans)

    def _comparisons_of(self, period: PeriodKey) -> list[str]:
        """The files of the comparisons of a period: one, or for a moment one that has fewer beside it."""
        folder = f"{COMPARISONS}/plan={period.plan}"
        return [
            f"{folder}/{name}"
            for name in sorted(self.files.names(folder))
            if _period(period.plan, name) == period
        ]

    def comparisons(self, period: PeriodKey) -> list[dict[str, object]]:
        """The comparisons of a period; a file that cannot be read has none."""
        rows: list[dict[str, object]] = []
        for data in self.files.read_all(self._comparisons_of(period)):
            for row in _rows(data, COMPARED) or ():
                known = {"plan": period.plan, **row}
                rows.append({column.name: _plain(known[column.name], column.type) for column in COMPARISON})
        return rows

    def results(self, period: PeriodKey) -> list[dict[str, object]]:
        """The rows of a period; a file that cannot be read has none."""
        metrics = self._metrics_of(period.plan)
        files = self.files.read_all(_path(period, metric) for metric in metrics)
        rows: list[dict[str, object]] = []
        for metric, data in zip(metrics, files, strict=True):
            for row in _rows(data) or ():
                times = {name: time_text(seconds_of(row[name])) for name in _TIMES}
                known = {"plan": period.plan, "metric": metric, **row, **times}
                rows.append({column.name: known[column.name] for column in COLUMNS})
        return rows

    def written_rows(
        self, periods: Sequence[PeriodKey], metrics: Sequence[str], segments: Sequence[str]
    ) -> dict[PeriodKey, list[dict[str, Any]]]:
        """The rows of some metrics and segments in those of the periods whose files all exist and can be read."""
        written = set().union(*(self.written(plan) for plan in {period.plan for period in periods}))
        listed = [period for period in periods if period in written]
        files = iter(self.files.read_all(_path(period, metric) for period in listed for metric in metrics))
        rows_of: dict[PeriodKey, list[dict[str, Any]]] = {}
        for period in listed:
            tables = {metric: _rows(next(files)) for metric in metrics}
            if any(tables[metric] is None for metric in metrics if metric in self._plan_of(period).by_name):
                continue
            rows_of[period] = [
                {"metric": metric, **{name: row[name] for name in ("segment", *FIGURE, *NUMBER)}}
                for metric, rows in tables.items()
                for row in rows or ()
                if row["segment"] in segments
            ]
        return rows_of

    def drop_results(self, period: PeriodKey) -> None:
        """Remove the files of a period, that of the last metric first."""
        self._check_writable()
        own = self._plan_of(period).by_name
        others = (metric for metric in self._metrics_of(period.plan) if metric not in own)
        for metric in [*reversed(list(own)), *others]:
            self._remove(_folder(period.plan, metric), [_path(period, metric)])
        self._remove(f"{COMPARISONS}/plan={period.plan}", self._comparisons_of(period))

    def drop_results_with(self, key: RoundKey) -> None:
        """
        Remove the files of all periods that a round is in, including leftovers of a process that died.

        So are those of periods that were compared with them. All are written again.
        """
        self._check_writable()
        plan = self.layout(key).plan
        start = plan.round(key.round).start
        folder_of_plan = f"{COMPARISONS}/plan={plan.name}"
        names = [name for name in self.files.names(folder_of_plan) if _holds(plan.name, name, start)]
        for period in {_period(plan.name, name) for name in names}:
            if period and period.start > start:
                self.drop_results(period)
        for metric in reversed(self._metrics_of(plan.name)):
            folder = _folder(plan.name, metric)
            periods = (_period(plan.name, name) for name in self.files.names(folder))
            gone = [
                _path(period, metric) for period in periods if period and period.start <= start < period.end
            ]
            self._remove(folder, gone)
        self._remove(folder_of_plan, [f"{folder_of_plan}/{name}" for name in names])

    def _remove(self, folder: str, paths: list[str]) -> None:
        if paths:
            self.files.remove(paths)
            self.files.settle(folder)  # so that a power cut cannot undo this and keep later removals

    def _metrics_of(self, plan: str) -> list[str]:
        """The metrics of all versions of a plan: a period may have reports of several."""
        versions = (version for version in self.plans() if version.name == plan)
        return [*{metric.name: None for version in versions for metric in version.metrics}]

    def _plan_of(self, period: PeriodKey) -> Plan:
        return self.layout(RoundKey(period.plan, period.version, 0)).plan

    def _text(self, path: str) -> str:
        text = self._texts.get(path)
        if text is None:
            data = self.files.read(path)
            if data is None:
                raise StoreError(f"{self.url}: {path}: is gone")
            text = self._texts[path] = data.decode(errors="replace")
        return text

    def close(self) -> None:
        """Close connections."""
        self._is_shut = True
        self.files.close()

    def _check_not_shut(self) -> None:
        if self._is_shut:
            raise StoreError(f"{self.url}: the store was closed")

    def _check_writable(self) -> None:
        self._check_not_shut()
        if self._readonly:
            raise StoreError(f"{self.url}: is opened read-only")


def _parquet(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> bytes:
    """The file of some rows, with texts of times as times."""
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    made = [{**row, **{name: datetime.fromisoformat(str(row[name])) for name in times}} for row in rows]
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_pylist(made, schema=schema), sink, compression="snappy", write_page_checksum=True
    )
    return bytes(sink.getvalue())


def _plain(cell: Any, type_of: str) -> Any:
    """A cell as rows have it: times as text."""
    return time_text(seconds_of(cell)) if type_of == "timestamp" else cell


def _rows(data: object, schema: pa.Schema = SCHEMA) -> list[dict[str, Any]] | None:
    """The rows of a file of results; None where it is gone or cannot be read."""
    if not isinstance(data, bytes):
        return None
    try:
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            table = file.read()
            for field in schema:  # a file of an older version has fewer columns
                if field.name not in table.column_names:
                    table = table.append_column(field, pa.nulls(len(table), field.type))
            rows: list[dict[str, Any]] = table.select(schema.names).cast(schema).to_pylist()
            return rows
    except (pa.ArrowException, ValueError, OSError):
        return None


def _folder(plan: str, metric: str) -> str:
    return f"{RESULTS}/plan={plan}/metric={metric}"


def _period(plan: str, name: str) -> PeriodKey | None:
    """The period of a file's name; None for other names."""
    match = _FILE.fullmatch(name)
    return PeriodKey(plan, int(match[2]), match[1], int(match[3]), int(match[4])) if match else None


def _holds(plan: str, name: str, start: int) -> bool:
    """Whether a round that begins then is in a period of the file's name, compared or subtracted."""
    period = _period(plan, name)
    return period is not None and any(
        low <= start < high for low, high in {(period.start, period.end)} | _subtracted(name)
    )


def _subtracted(path: str) -> set[tuple[int, int]]:
    """The times of the periods that are subtracted in a file of comparisons, by its name."""
    match = _FILE.fullmatch(path.rpartition("/")[2])
    return {(int(start), int(end)) for start, end in _SPAN.findall(match[5])} if match else set()


def _name(period: PeriodKey) -> str:
    return f"{period.every}-v{period.version}-{period.start}-{period.end}"


def _path(period: PeriodKey, metric: str) -> str:
    return f"{_folder(period.plan, metric)}/{_name(period)}.parquet"
