"""What runs elsewhere names folders, targets and houses that are here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from tools.houses import HOUSES

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in ROOT.glob(".github/workflows/*.yml")}
JOBS = WORKFLOWS["test"]["jobs"]
RELEASE = WORKFLOWS["release"]["jobs"]


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


def test_a_release_is_what_was_checked_and_says_where_it_was_built() -> None:
    """It has never run: what can be shown is that its steps belong together."""
    text = (ROOT / ".github/workflows/release.yml").read_text()
    assert text.startswith("# Prepared, and not run yet")
    assert WORKFLOWS["release"][True] == {"push": {"tags": ["v*"]}}, "YAML reads the key `on` as true"
    steps = RELEASE["build"]["steps"]
    check, attest, upload = [
        step for step in steps if "setup" not in str(step) and "checkout" not in str(step)
    ]
    assert check["run"] == 'make release-check ARGS="--quick --final"'
    assert attest["uses"].startswith("actions/attest-build-provenance@")
    assert attest["with"]["subject-path"] == "dist/*"
    assert upload["with"]["path"] == "dist/"
    for job in ("pypi", "npm"):
        assert RELEASE[job]["needs"] == "build"
        assert RELEASE[job]["environment"] == job
        assert RELEASE[job]["permissions"] == {"id-token": "write"}, "no token is stored"


def test_workflows_may_do_nothing_by_default_and_use_actions_by_digest() -> None:
    assert set(WORKFLOWS) == {"test", "release"}
    for workflow in WORKFLOWS.values():
        assert workflow["permissions"] == {}
        for job in workflow["jobs"].values():
            assert job["timeout-minutes"] <= 60
            for step in job["steps"]:
                assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step.get("uses", f"own/step@{'0' * 40}"))
