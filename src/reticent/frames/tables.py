"""
Counts and estimates as tables.

A file of counts, Parquet or JSON, holds the plans that they are counts of. Tables of estimates are made by
`reticent.estimates.table`; here they are read back.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reticent.counts import counts_from_rows
from reticent.errors import ParameterError, PlanError, ReticentError
from reticent.estimates import Estimate, HistogramEstimate
from reticent.estimates.table import ABOUT, COLUMNS, frame_rows
from reticent.plan import Plan
from reticent.stores import CountsByTags, RoundInfo, RoundKey, State, latest, reports_of

FORMAT = 1
SCHEMA = pa.schema(
    [
        ("plan", pa.string()),
        ("version", pa.int64()),
        ("round", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("metric", pa.string()),
        ("row", pa.int64()),
        ("reports", pa.int64()),
        ("ones", pa.int64()),
    ]
)
_HEAD = b"reticent.counts"
SUFFIXES = (".parquet", ".json")


# Counts


@dataclass(frozen=True)
class CountsFile:
    """
    Counts of rounds, and all that is needed to make estimates of them.

    It answers as a store does, so `reticent.results.Results(read_counts(path))` has the estimates.
    """

    versions: tuple[Plan, ...]
    """The plans that the counts are counts of."""
    by_round: Mapping[RoundKey, CountsByTags]
    states: Mapping[RoundKey, State] = field(default_factory=dict)
    """"open": provisional; "closing"; "sealed": final."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """By path, why a file of the lake was left out."""

    def plans(self) -> list[Plan]:
        """The plans that the counts are counts of, by name and version."""
        return sorted(self.versions, key=lambda plan: (plan.name, plan.version))

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of a plan, latest first; at most the `last` ones of each plan."""
        known = {(version.name, version.version): version for version in self.versions}
        return [
            RoundInfo(key, self.states.get(key, "open"), reports_of(known[key[:2]], self.by_round[key]))
            for key in latest((key for key in self.by_round if plan in (None, key.plan)), last)
        ]

    def counts(self, key: RoundKey) -> CountsByTags:
        """The counts of a round."""
        return self.by_round[key]

    def shown(self, key: RoundKey) -> CountsByTags:
        """The same: who has the file has the counts."""
        return self.by_round[key]


def write_counts(path: str | os.PathLike[str], file: CountsFile) -> None:
    """Write counts to a file, whole or not at all: `.parquet` or `.json`, by its name."""
    target = Path(path)
    if target.suffix not in SUFFIXES:
        raise ParameterError("counts", "a file name that ends in .parquet or .json", target.name)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        if target.suffix == ".json":
            document = {**_head(file), "counts": list(_rows(file))}
            temporary.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        else:
            pq.write_table(counts_table(file), temporary)
        os.replace(temporary, target)
    except OSError as error:
        raise ReticentError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def counts_table(file: CountsFile) -> pa.Table:
    """Counts as an Arrow table: a row per round, tags, metric and row."""
    head = json.dumps(_head(file), ensure_ascii=False).encode()
    return pa.Table.from_pylist(list(_rows(file)), schema=SCHEMA.with_metadata({_HEAD: head}))


def read_counts(path: str | os.PathLike[str]) -> CountsFile:
    """Read what `write_counts` wrote; raises `ReticentError` when it is not that."""
    try:
        if Path(path).suffix == ".json":
            head = json.loads(Path(path).read_text())
            rows = head["counts"]
        else:
            table = pq.read_table(path)
            head, rows = json.loads((table.schema.metadata or {})[_HEAD]), table.to_pylist()
        if head["format"] != FORMAT:
            raise ParameterError("format", str(FORMAT), head["format"])
        states = {RoundKey(row["plan"], row["version"], row["round"]): row["state"] for row in head["rounds"]}
        plans = {(plan.name, plan.version): plan for plan in map(Plan.from_toml, head["plans"])}
        cells: dict[tuple[RoundKey, tuple[str, ...], str], list[tuple[int, int, int]]] = {}
        for row in rows:
            cell = RoundKey(row["plan"], row["version"], row["round"]), tuple(row["tags"]), row["metric"]
            cells.setdefault(cell, []).append((row["row"], row["reports"], row["ones"]))
        by_round: dict[RoundKey, CountsByTags] = {key: {} for key in states}
        for (key, tags, name), numbers in cells.items():
            metric = plans[key.plan, key.version].by_name[name]
            by_round[key].setdefault(tags, {})[name] = counts_from_rows(metric, numbers)
        return CountsFile(tuple(plans.values()), by_round, states, head["skipped"])
    except OSError as error:
        raise ReticentError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (pa.ArrowException, ValueError, KeyError, TypeError, PlanError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ReticentError(
            f"{path}: expected a file of reticent count, got another or a damaged one: {reason}"
        ) from error


def _head(file: CountsFile) -> dict[str, Any]:
    """What is said once for the whole file."""
    return {
        "format": FORMAT,
        "plans": [plan.text for plan in file.versions],
        "rounds": [{**key._asdict(), "state": file.states.get(key, "")} for key in file.by_round],
        "skipped": dict(file.skipped),
    }


def _rows(file: CountsFile) -> Iterator[dict[str, Any]]:
    for key, by_tags in file.by_round.items():
        for tags, by_metric in by_tags.items():
            for metric, counts in by_metric.items():
                about = {**key._asdict(), "tags": list(tags), "metric": metric}
                for row, reports, ones in counts.rows():
                    yield {**about, "row": row, "reports": reports, "ones": ones}


# Estimates


@dataclass(frozen=True, slots=True)
class Estimated:
    """The estimate of one metric in one round and segment: what the rows of a table tell of it."""

    plan: str
    version: int
    metric: str
    round: int
    """The first round's number, of a window."""
    to: int
    """The last round's number: the same, but for a window."""
    start: int
    """Unix seconds."""
    end: int
    state: str
    """"open": provisional; "sealed": final."""
    segment: Mapping[str, str]
    """The tags it is about; empty for the whole fleet."""
    estimate: Estimate | HistogramEstimate


def estimates_from_frame(frame: Any) -> list[Estimated]:
    """
    The estimates of a frame that `estimates_to_frame` made, in the order of their first rows.

    Figures that were withheld are not among them: their rows have no number of reports.
    """
    required = [name for name in ABOUT if name != "segment"]  # which is empty for the whole fleet
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in frame_rows(frame):
        missing = [name for name in required if row.get(name) is None]
        if missing:
            raise ParameterError("frame", f"the columns {', '.join(required)}", f"no {', '.join(missing)}")
        if row.get("reports") is None:
            continue
        key = *(row[name] for name in required), row.get("segment") or ""
        groups.setdefault(key, []).append(row)
    return [
        Estimated(
            plan, int(version), metric, int(number), int(to), int(start), int(end), state,
            dict(pair.split(":", 1) for pair in segment.split(";") if pair), _estimate(rows),
        )
        for (plan, version, metric, number, to, start, end, state, segment), rows in groups.items()
    ]  # fmt: skip


def from_frame(frame: Any) -> Estimate | HistogramEstimate:
    """The one estimate that a frame of PyArrow, pandas or Polars holds; the inverse of its `to_frame`."""
    return _estimate(frame_rows(frame))


def _estimate(rows: Sequence[Mapping[str, Any]]) -> Estimate | HistogramEstimate:
    """The estimate that rows hold: a number, or a histogram of which all buckets are there."""
    names = [column.name for column in COLUMNS]
    missing = [name for name in names if rows and name not in rows[0]]
    if missing or not rows:
        raise ParameterError(
            "rows of an estimate", f"the columns {', '.join(names)}", f"no {', '.join(missing) or 'rows'}"
        )
    if len(rows) == 1 and rows[0]["bucket"] is None:
        return _number(rows[0], rows[0]["unit"] or "")
    ordered = sorted(rows, key=lambda row: -1 if row["bucket"] is None else int(row["bucket"]))
    places = [None if row["bucket"] is None else int(row["bucket"]) for row in ordered]
    if places != list(range(len(rows))):
        raise ParameterError("bucket", f"each of 0 to {len(rows) - 1} once", places)
    first = ordered[0]
    return HistogramEstimate(
        tuple(_number(row, "") for row in ordered),  # shares have no unit
        int(first["devices"]),
        first["confidence"],
        first["unit"] or "",
    )


def _number(row: Mapping[str, Any], unit: str) -> Estimate:
    same = ("lower", "upper", "confidence", "noise_share", "paper_bound", "manipulation")
    return Estimate(
        value=nan if row["value"] is None else row["value"],
        **{name: row[name] for name in same},
        **{name: int(row[name]) for name in ("reports", "devices", "together")},
        rule=row["rule"],
        kind=row["kind"],
        label=row["label"] or "",
        unit=unit,
        span=(row["span_lower"], row["span_upper"]),
        uncut=(row["uncut_lower"], row["uncut_upper"]),
        edges=None if row["bucket_low"] is None else (row["bucket_low"], row["bucket_high"]),
    )
