"""`reticent estimate --counts`: the estimates of a file of counts are those of the store it was counted from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

LAKE, COUNTS = ("--store", "lake:///reticent-lake"), ("--counts", "counts.parquet")


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--metric", "editor_seconds", "--confidence", "0.5"],
        ["--by", "os", "--last", "1"],
        ["--segment", "os:linux", "--plan", "app-usage"],
    ],
    ids=" ".join,
)
def test_a_file_of_counts_answers_as_the_lake_does(run: Any, folder: Path, options: list[str]) -> None:
    stored = json.loads(run("estimate", *LAKE, *options, "--json").stdout)["estimates"]
    counted = json.loads(run("estimate", *COUNTS, *options, "--json").stdout)["estimates"]
    assert counted == stored
    assert counted
    assert run("estimate", *COUNTS, *options).output == run("estimate", *LAKE, *options).output


def test_the_file_is_taken_before_a_store_of_the_environment(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETICENT_STORE", "sqlite:///nope.db")
    assert run("estimate", *COUNTS).exit_code == 0
    assert run("estimate").exit_code == 1


def test_an_export_of_counts_is_that_of_the_lake(run: Any, folder: Path) -> None:
    assert run("export", "counted.csv", *COUNTS).exit_code == 0
    assert run("export", "stored.csv", *LAKE).exit_code == 0
    assert Path("counted.csv").read_text() == Path("stored.csv").read_text()


def test_sealed_rounds_are_final(run: Any, folder: Path) -> None:
    assert run("rounds", *LAKE, "--seal").exit_code == 0
    assert (
        run("count", "reticent-lake", "--engine", "arrow", "--sealed", "--out", "sealed.json").exit_code == 0
    )
    found = json.loads(run("estimate", "--counts", "sealed.json", "--json").stdout)["estimates"]
    assert {each["round"]: each["state"] for each in found} == {900_000: "open", 100: "sealed"}
