"""What runs elsewhere names folders, targets and houses that are here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from tools.houses import HOUSES

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
JOBS = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]


def commands() -> list[str]:
    return [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]


def with_python() -> list[str]:
    return [" ".join(command.split()) for command in commands() if command.startswith("python -m")]


def test_every_folder_that_is_installed_or_tested_is_there() -> None:
    install, run = with_python()
    assert [(house, (ROOT / house / "pyproject.toml").exists()) for house in editable(install)] == [
        ("device", True), ("collector", True), ("lake", True), ("lab", True),
    ]  # fmt: skip
    folders = run.partition('"not soak" ')[2].split()
    assert len(folders) > 5
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def editable(command: str) -> list[str]:
    return re.findall(r'--editable "?([\w-]+)', command)


def test_every_target_is_one_of_the_makefile() -> None:
    targets = {word for command in commands() for word in re.findall(r"^make ([\w-]+)", command)}
    assert targets == {"test", "test-", "docs", "proofs", "release-check"}
    for target in targets - {"test-"}:
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)


def test_every_house_is_tested_by_itself_and_kept_up_to_date() -> None:
    assert set(JOBS["house"]["strategy"]["matrix"]["house"]) == {*HOUSES, "device-js"}
    (listed,) = re.findall(r"^HOUSES *:= (.*)$", MAKEFILE, re.MULTILINE)
    assert tuple(listed.split()) == HOUSES
    assert "$(HOUSES:%=test-%): test-%:" in MAKEFILE
    assert "\ntest-device-js:" in MAKEFILE
    updates: list[dict[str, Any]] = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    (pip,) = [each for each in updates if each["package-ecosystem"] == "pip"]
    assert pip["directories"] == ["/", *(f"/{house}" for house in HOUSES)]
    (npm,) = [each for each in updates if each["package-ecosystem"] == "npm"]
    assert (ROOT / npm["directory"].strip("/") / "package.json").exists()


def test_every_folder_with_a_project_is_a_house() -> None:
    assert {path.parent.name for path in ROOT.glob("*/pyproject.toml")} == set(HOUSES)
