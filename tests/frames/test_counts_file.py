"""Counts go into a file and come back as they were, with all that an estimate needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from reticent.counts import count_reports
from reticent.errors import ParameterError, ReticentError
from reticent.estimates import estimate
from reticent.frames import CountsFile, counts_table, read_counts, write_counts
from reticent.plan import Plan
from reticent.stores import RoundKey


@pytest.fixture
def found(all_plans: list[Plan], reports_on: Any, by_tags: Callable[..., Any]) -> CountsFile:
    counts = {}
    for plan in all_plans:
        for number in (7, 8):
            reports = reports_on(plan, 60, number, (number,))
            counts[RoundKey(plan.name, 1, number)] = by_tags(count_reports(reports, plan))
    states = {key: "open" if key.round == 7 else "sealed" for key in counts}
    return CountsFile(tuple(all_plans), counts, states, {"reports/a.parquet": "cannot be read"})


@pytest.mark.parametrize("name", ["counts.parquet", "counts.json"])
def test_counts_come_back_as_they_were(tmp_path: Path, found: CountsFile, name: str) -> None:
    write_counts(tmp_path / name, found)
    assert read_counts(tmp_path / name) == found
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_the_rows_say(found: CountsFile, tmp_path: Path) -> None:
    table = counts_table(found)
    assert table.column_names == ["plan", "version", "round", "tags", "metric", "row", "reports", "ones"]
    key = RoundKey("mean", 1, 7)
    (row,) = [row for row in table.to_pylist() if (row["plan"], row["round"]) == ("mean", 7)]
    total = found.counts[key][()]["minutes"]
    assert row == {
        "plan": "mean", "version": 1, "round": 7, "tags": [], "metric": "minutes", "row": 0,
        "reports": total.reports, "ones": total.ones,
    }  # fmt: skip
    write_counts(tmp_path / "counts.json", found)
    assert json.loads((tmp_path / "counts.json").read_text())["counts"] == table.to_pylist()


def test_estimates_from_a_file_alone(tmp_path: Path, found: CountsFile, all_plans: list[Plan]) -> None:
    write_counts(tmp_path / "counts.parquet", found)
    made = read_counts(tmp_path / "counts.parquet").estimates(0.9)
    assert len(made) == 2 * sum(len(plan.metrics) for plan in all_plans)
    (of_mean,) = [each for each in made if (each.plan, each.round) == ("mean", 8)]
    counts = found.counts[RoundKey("mean", 1, 8)][()]["minutes"]
    assert of_mean.estimate == estimate(all_plans[0].metrics[0], counts, 0.9)
    (of_segments,) = [each for each in made if (each.plan, each.round) == ("segments", 8)]
    assert of_segments.estimate.reports == 60  # over all tags


def test_other_files_are_refused(tmp_path: Path, found: CountsFile) -> None:
    with pytest.raises(ParameterError, match=r"ends in \.parquet or \.json, got counts\.csv"):
        write_counts(tmp_path / "counts.csv", found)
    with pytest.raises(ReticentError, match="cannot be written"):
        write_counts(tmp_path / "no" / "such" / "counts.json", found)
    with pytest.raises(ReticentError, match="cannot be read"):
        read_counts(tmp_path / "counts.parquet")
    (tmp_path / "a.json").write_text('{"format": 2}')
    (tmp_path / "b.json").write_text("not JSON")
    (tmp_path / "c.parquet").write_text("not Parquet")
    pq.write_table(counts_table(found).replace_schema_metadata(None), tmp_path / "d.parquet")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(ReticentError, match=f"{path.name}: expected a file of reticent count"):
            read_counts(path)
    with pytest.raises(ParameterError, match="a plan of these counts, got usage version 1"):
        found.plan(RoundKey("usage", 1, 7))
