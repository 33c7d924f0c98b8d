"""The checks before a release notice what they are there for."""

from __future__ import annotations

import doctest
import importlib
import io
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> object:
    """Import a module of tools/, as its scripts do."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module


@pytest.fixture
def archives(load: object) -> ModuleType:
    return importlib.import_module("archives")


@pytest.mark.parametrize("name", ["archives", "audit_dependencies", "index_page", "lock_minimal"])
@pytest.mark.usefixtures("load")
def test_examples_run_as_printed(name: str) -> None:
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted > 0
    assert done.failed == 0


def wheel(path: Path, page: str, *headers: str) -> Path:
    metadata = "\n".join(["Metadata-Version: 2.4", "Name: reticent", *headers, "", page])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("reticent-1.2.0.dist-info/METADATA", metadata)
        archive.writestr("reticent/a.py", "")
    return path


def test_a_wheel_that_is_right_has_no_problems(archives: ModuleType, tmp_path: Path) -> None:
    page = "See [the paper](https://example.org)."
    made = wheel(tmp_path / "a.whl", page, "Version: 1.2.0", 'Requires-Dist: click>=8.1; extra == "cli"')
    assert archives.metadata_problems(made, "1.2.0") == []
    assert archives.in_wheel(made) == {"reticent-1.2.0.dist-info/METADATA", "reticent/a.py"}


def test_each_fault_of_the_metadata_is_named(archives: ModuleType, tmp_path: Path) -> None:
    page = "See [the plan](docs/plan.md).\n\n![a picture](docs/a.png)\n"
    made = wheel(tmp_path / "a.whl", page, "Version: 1.1.0", "Requires-Dist: click>=8.1")
    assert archives.metadata_problems(made, "1.2.0") == [
        "the wheel has version 1.1.0",
        "the bare wheel requires click>=8.1",
        "the index page has a link that leads nowhere: ](docs/plan.md)",
        "the index page has a link that leads nowhere: ](docs/a.png)",
    ]


def test_a_wheel_without_its_notice_is_refused(archives: ModuleType) -> None:
    found = {"reticent/a.py", "reticent-1.2.0.dist-info/licenses/LICENSE"}
    assert archives.wheel_problems(found, ["reticent/a.py"]) == ["the wheel lacks the text of NOTICE"]


def test_an_sdist_is_read_without_its_folder(archives: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("reticent-1.2.0/conftest.py"), io.BytesIO())
    assert archives.in_sdist(path) == {"conftest.py"}


@pytest.mark.parametrize("heading", ["1.1.0 (2026-01-01)", "1.2.0", "1.2.0 (soon)", "1.2.00 (2026-01-01)"])
def test_a_changelog_of_another_version_is_refused(archives: ModuleType, heading: str) -> None:
    (problem,) = archives.changelog_problems(f"# Changelog\n\n## {heading}\n", "1.2.0", final=False)
    assert heading in problem


def test_the_changelog_begins_with_the_version_of_the_project(archives: ModuleType) -> None:
    import tomllib

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert archives.changelog_problems((ROOT / "CHANGELOG.md").read_text(), version, final=False) == []


def test_a_vulnerable_version_and_an_unchecked_one_are_both_told(load: object) -> None:
    verdict = importlib.import_module("audit_dependencies").verdict
    holes = [{"id": "PYSEC-1", "fix_versions": ["2.0"], "aliases": [], "description": ""}]
    answer = {
        "dependencies": [
            {"name": "click", "version": "8.5.1", "vulns": []},
            {"name": "jinja2", "version": "1.9", "vulns": holes},
            {"name": "rich", "skip_reason": "not found"},
        ]
    }
    assert verdict("c.txt", answer) == [
        "c.txt: jinja2 1.9: PYSEC-1, fixed in: 2.0",
        "c.txt: 1 of 3 versions could not be checked (is pypi.org in reach?), first rich: not found",
    ]
    assert verdict("c.txt", {"dependencies": []}) == ["c.txt: no version was found in it"]
