"""The table of results in a lake: a Parquet file per period and metric, for whatever reads Parquet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from reticent.columns import COLUMNS, time_text, unix_seconds
from reticent.plan import Plan
from reticent.stores.lake.registry import Registry
from reticent.stores.records import RoundKey
from reticent.stores.store import PeriodKey

RESULTS = "results"
IN_PATHS = ("plan", "metric")  # columns that readers find in the paths
_TYPES = {
    "text": pa.string(),
    "json": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "timestamp": pa.timestamp("ms", "UTC"),
}
SCHEMA = pa.schema([(column.name, _TYPES[column.type]) for column in COLUMNS if column.name not in IN_PATHS])
_TIMES = [column.name for column in COLUMNS if column.type == "timestamp"]
_FILE = re.compile(r"([a-z]+)-v([1-9][0-9]*)-(-?[0-9]+)-([0-9]+)\.parquet")


class ResultFiles(Registry):
    """
    Files `results/plan=NAME/metric=NAME/EVERY-vVERSION-START-END.parquet`, times in unix seconds.

    A period has a file for each metric of its plan, also when all its figures are withheld. The file of the last
    metric is made last and removed first: while it exists, all of them do. Each is made once, by any process.
    """

    def written(self, plan: str) -> set[PeriodKey]:
        """The periods of a plan whose files all exist."""
        periods = set()
        for version in (known for known in self.plans() if known.name == plan):
            for name in self.files.names(_folder(plan, version.metrics[-1].name)):
                period = _period(plan, name)
                if period and period.version == version.version:
                    periods.add(period)
        return periods

    def put_results(self, period: PeriodKey, rows: Iterable[Mapping[str, object]]) -> None:
        """Make the missing files of a period."""
        self._check_writable()
        by_metric: dict[str, list[dict[str, object]]] = {}
        for row in rows:
            times = {name: datetime.fromisoformat(str(row[name])) for name in _TIMES}
            by_metric.setdefault(str(row["metric"]), []).append({**row, **times})
        for metric in self._plan_of(period).by_name:
            table = pa.Table.from_pylist(by_metric.get(metric, []), schema=SCHEMA)
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="snappy", write_page_checksum=True)
            self.files.put_new(_path(period, metric), bytes(sink.getvalue()))

    def results(self, period: PeriodKey) -> list[dict[str, object]]:
        """The rows of a period; a file that cannot be read has none."""
        metrics = list(self._plan_of(period).by_name)
        files = self.files.read_all(_path(period, metric) for metric in metrics)
        rows: list[dict[str, object]] = []
        for metric, data in zip(metrics, files, strict=True):
            if not isinstance(data, bytes):
                continue
            try:
                with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
                    kept = file.read().cast(SCHEMA).to_pylist()
            except (pa.ArrowException, ValueError, OSError):
                continue
            for row in kept:
                times = {name: time_text(unix_seconds(row[name])) for name in _TIMES}
                known = {"plan": period.plan, "metric": metric, **row, **times}
                rows.append({column.name: known[column.name] for column in COLUMNS})
        return rows

    def drop_results(self, period: PeriodKey) -> None:
        """Remove the files of a period, that of the last metric first."""
        self._check_writable()
        for metric in reversed(list(self._plan_of(period).by_name)):
            self._remove(_folder(period.plan, metric), [_path(period, metric)])

    def drop_results_with(self, key: RoundKey) -> None:
        """Remove the files of all periods that a round is in, including leftovers of a process that died."""
        self._check_writable()
        plan = self.layout(key).plan
        start = plan.round(key.round).start
        for metric in reversed(list(plan.by_name)):
            folder = _folder(plan.name, metric)
            periods = (_period(plan.name, name) for name in self.files.names(folder))
            gone = [
                _path(period, metric)
                for period in periods
                if period and period.version == key.version and period.start <= start < period.end
            ]
            self._remove(folder, gone)

    def _remove(self, folder: str, paths: list[str]) -> None:
        if paths:
            self.files.remove(paths)
            self.files.settle(folder)  # so that a power cut cannot undo this and keep later removals

    def _plan_of(self, period: PeriodKey) -> Plan:
        return self.layout(RoundKey(period.plan, period.version, 0)).plan


def _folder(plan: str, metric: str) -> str:
    return f"{RESULTS}/plan={plan}/metric={metric}"


def _period(plan: str, name: str) -> PeriodKey | None:
    """The period of a file's name; None for other names."""
    match = _FILE.fullmatch(name)
    return PeriodKey(plan, int(match[2]), match[1], int(match[3]), int(match[4])) if match else None


def _path(period: PeriodKey, metric: str) -> str:
    name = f"{period.every}-v{period.version}-{period.start}-{period.end}.parquet"
    return f"{_folder(period.plan, metric)}/{name}"
