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


@pytest.mark.parametrize("name", ["archives", "audit_dependencies", "houses", "lock_minimal", "street"])
@pytest.mark.usefixtures("load")
def test_examples_run_as_printed(name: str) -> None:
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted > 0
    assert done.failed == 0


def wheel(path: Path, page: str, *headers: str, name: str = "reticent") -> Path:
    metadata = "\n".join(["Metadata-Version: 2.4", f"Name: {name}", *headers, "", page])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("reticent-1.2.0.dist-info/METADATA", metadata)
        archive.writestr("reticent/a.py", "")
    return path


def test_a_wheel_that_is_right_has_no_problems(archives: ModuleType, tmp_path: Path) -> None:
    page = "See [the paper](https://example.org)."
    made = wheel(tmp_path / "a.whl", page, "Version: 1.2.0")
    assert archives.metadata_problems(made, "1.2.0") == []
    assert archives.in_wheel(made) == {"reticent-1.2.0.dist-info/METADATA", "reticent/a.py"}


def test_each_fault_of_the_metadata_is_named(archives: ModuleType, tmp_path: Path) -> None:
    page = "See [the plan](docs/plan.md).\n\n![a picture](docs/a.png)\n"
    made = wheel(tmp_path / "a.whl", page, "Version: 1.1.0", "Requires-Dist: click>=8.1")
    assert archives.metadata_problems(made, "1.2.0") == [
        "the wheel has version 1.1.0",
        "the device requires click>=8.1",
        "the index page has a link that leads nowhere: ](docs/plan.md)",
        "the index page has a link that leads nowhere: ](docs/a.png)",
    ]


def test_houses_of_another_version_are_named_and_no_other_package(
    archives: ModuleType, tmp_path: Path
) -> None:
    lines = [
        "reticent==1.2.0",
        "reticent-collector>=1.2.0",
        "click>=8.1",
        "reticent-lab==1.1.0; extra == 'lab'",
    ]
    headers = [
        "Version: 1.2.0",
        *(f"Requires-Dist: {line}" for line in (*lines, "reticent-collector-views==3")),
    ]
    made = wheel(tmp_path / "a.whl", "A page.", *headers, name="reticent-lake")
    assert archives.metadata_problems(made, "1.2.0") == [
        "the wheel requires reticent-collector>=1.2.0, not reticent-collector==1.2.0",
        "the wheel requires reticent-lab==1.1.0; extra == 'lab', not reticent-lab==1.2.0",
    ]


def test_an_empty_page_is_refused(archives: ModuleType, tmp_path: Path) -> None:
    made = wheel(tmp_path / "a.whl", "", "Version: 1.2.0")
    assert archives.metadata_problems(made, "1.2.0") == ["the index page is empty"]


def test_a_wheel_without_its_notice_is_refused(archives: ModuleType) -> None:
    found = {"reticent/a.py", "reticent-1.2.0.dist-info/licenses/LICENSE"}
    assert archives.wheel_problems(found, ["src/reticent/a.py"]) == ["the wheel lacks the text of NOTICE"]


@pytest.mark.usefixtures("load")
def test_the_page_of_a_published_house_has_no_link_that_leads_nowhere(archives: ModuleType) -> None:
    houses = importlib.import_module("houses")
    pages = {house: (ROOT / house / "README.md").read_text() for house in houses.PUBLISHED}
    assert {house: found for house, page in pages.items() if (found := archives.RELATIVE.findall(page))} == {}


@pytest.mark.usefixtures("load")
def test_the_tests_on_the_installed_wheels_look_for_every_house() -> None:
    houses = importlib.import_module("houses")
    packages = importlib.import_module("installed_copy").PACKAGES
    assert list(packages) == [houses.package(house) for house in houses.HOUSES]


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
    version = importlib.import_module("houses").project("device")["version"]
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
