"""Counts in a file, as Parquet or JSON, with the plans they are counts of."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reticent.counts import Counts, counts_from_rows
from reticent.errors import ParameterError, PlanError, ReticentError
from reticent.estimates import estimate
from reticent.frames.estimates import Estimated
from reticent.plan import Plan
from reticent.stores import CountsByTags, RoundKey

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


@dataclass(frozen=True)
class CountsFile:
    """Counts of rounds, and all that is needed to make estimates of them."""

    plans: tuple[Plan, ...]
    counts: Mapping[RoundKey, CountsByTags]
    states: Mapping[RoundKey, str] = field(default_factory=dict)
    """"open": provisional; "closing"; "sealed": final."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """By path, why a file of the lake was left out."""

    def plan(self, key: RoundKey) -> Plan:
        """The plan of a round."""
        for plan in self.plans:
            if (plan.name, plan.version) == (key.plan, key.version):
                return plan
        raise ParameterError("plan", "a plan of these counts", f"{key.plan} version {key.version}")

    def totals(self, key: RoundKey) -> dict[str, Counts]:
        """The counts of a round over all segments."""
        total: dict[str, Counts] = {}
        for by_metric in self.counts[key].values():
            for name, counts in by_metric.items():
                total[name] = counts if name not in total else total[name] + counts
        return total

    def estimates(self, confidence: float = 0.95) -> list[Estimated]:
        """The estimate of every metric in every round that has reports, for the whole fleet."""
        return [
            Estimated(*key[:2], name, key.round, estimate(self.plan(key).by_name[name], counts, confidence))
            for key in self.counts
            for name, counts in self.totals(key).items()
            if counts.devices
        ]


def write_counts(path: str | os.PathLike[str], found: CountsFile) -> None:
    """Write counts to a file, whole or not at all: `.parquet` or `.json`, by its name."""
    target = Path(path)
    check_name(target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        if target.suffix == ".json":
            document = {**_head(found), "counts": list(_rows(found))}
            temporary.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        else:
            table = counts_table(found)
            pq.write_table(table, temporary)
        os.replace(temporary, target)
    except OSError as error:
        raise ReticentError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_name(path: Path) -> None:
    """Raise `ParameterError` unless a name says which kind of file it is."""
    if path.suffix not in SUFFIXES:
        raise ParameterError("counts", "a file name that ends in .parquet or .json", path.name)


def counts_table(found: CountsFile) -> pa.Table:
    """Counts as an Arrow table: a row per round, tags, metric and row."""
    head = json.dumps(_head(found), ensure_ascii=False).encode()
    return pa.Table.from_pylist(list(_rows(found)), schema=SCHEMA.with_metadata({_HEAD: head}))


def read_counts(path: str | os.PathLike[str]) -> CountsFile:
    """Read what `write_counts` wrote; raises `ReticentError` when it is not that."""
    try:
        if Path(path).suffix == ".json":
            head = json.loads(Path(path).read_text())
            rows = head["counts"]
        else:
            table = pq.read_table(path)
            head, rows = json.loads((table.schema.metadata or {})[_HEAD]), table.to_pylist()
        return _read(head, rows)
    except OSError as error:
        raise ReticentError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (pa.ArrowException, ValueError, KeyError, TypeError, PlanError) as error:
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise ReticentError(
            f"{path}: expected a file of reticent count, got another or a damaged one: {said}"
        ) from error


def _head(found: CountsFile) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "plans": [plan.text for plan in found.plans],
        "rounds": [{**key._asdict(), "state": found.states.get(key, "")} for key in found.counts],
        "skipped": dict(found.skipped),
    }


def _rows(found: CountsFile) -> Iterator[dict[str, Any]]:
    for key, by_tags in found.counts.items():
        for tags, by_metric in by_tags.items():
            for metric, counts in by_metric.items():
                for row, reports, ones in counts.rows():
                    yield {
                        **key._asdict(), "tags": list(tags), "metric": metric, "row": row,
                        "reports": reports, "ones": ones,
                    }  # fmt: skip


def _read(head: dict[str, Any], rows: Iterable[dict[str, Any]]) -> CountsFile:
    if head["format"] != FORMAT:
        raise ParameterError("format", str(FORMAT), head["format"])
    plans = tuple(Plan.from_toml(text) for text in head["plans"])
    states = {
        RoundKey(each["plan"], each["version"], each["round"]): each["state"] for each in head["rounds"]
    }
    cells: dict[tuple[RoundKey, tuple[str, ...], str], list[tuple[int, int, int]]] = {}
    for row in rows:
        cell = RoundKey(row["plan"], row["version"], row["round"]), tuple(row["tags"]), row["metric"]
        cells.setdefault(cell, []).append((row["row"], row["reports"], row["ones"]))
    found = CountsFile(plans, {key: {} for key in states}, states, head["skipped"])
    for (key, tags, name), numbers in cells.items():
        metric = found.plan(key).by_name[name]
        found.counts[key].setdefault(tags, {})[name] = counts_from_rows(metric, numbers)
    return found
