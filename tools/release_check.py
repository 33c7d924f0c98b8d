"""
Build the houses, install them as a stranger would, and try them: all that must hold before a release.

    make release-check                   # everything: about fifteen minutes
    make release-check ARGS=--quick      # without the tests on the installed wheels
    make release-check ARGS=--final      # the changelog must carry the date of the release

From a clone. The archives are left in dist/. Needs the network, for a package index.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from archives import (
    changelog_problems,
    in_sdist,
    in_wheel,
    licence_problems,
    metadata_problems,
    npm_problems,
    sdist_problems,
    version_problems,
    wheel_problems,
    without_folders,
)
from environments import Environment
from houses import HOUSES, PUBLISHED, ROOT, package, project, with_extras

DIST = ROOT / "dist"
PINNED = ("--constraint", str(ROOT / "constraints.txt"))

BARE = """
import sys
from importlib.metadata import distributions, version
from pathlib import Path
import reticent
from reticent import Device, Policy
assert "site-packages" in Path(reticent.__file__).parts, reticent.__file__
assert version("reticent") == sys.argv[1], version("reticent")
assert {each.name for each in distributions()} <= {"reticent", "pip", "setuptools"}, "more than reticent came along"
policy = Policy(silent_in_ci=False, silent_in_containers=False)
with Device(sys.argv[2], state=sys.argv[3], consent="granted", policy=policy) as device:
    device.set("editor_seconds", 600)
    assert device.report(device.status().current_round) is not None
"""

TOGETHER = """
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
for name in sys.argv[2:]:
    home = Path(import_module(name).__file__)
    assert "site-packages" in home.parts, home
    assert version(name.replace("_", "-")) == sys.argv[1], (name, version(name.replace("_", "-")))
"""

LICENCES = """
import json
from importlib.metadata import distributions
found = {}
for each in distributions():
    head = each.metadata
    words = [head.get("License-Expression") or "", (head.get("License") or "")[:200]]
    words += [line for line in head.get_all("Classifier") or [] if line.startswith("License ::")]
    found[each.name] = " ".join(words)
print(json.dumps(found))
"""

IN_NODE = """
import { Device } from "reticent";
import { folderState } from "reticent/node";
if (typeof Device.open !== "function" || typeof folderState !== "function") throw new Error("an entry is missing");
"""


class Built(NamedTuple):
    """What is uploaded of a house."""

    wheel: Path
    sdist: Path


def tell(step: str) -> None:
    """Say what is being done."""
    print(f"-- {step}", flush=True)


def build(environment: Environment) -> dict[str, Built]:
    """Build each sdist, each wheel from its sdist (which is shown to be enough by that), and check them."""
    shutil.rmtree(DIST, ignore_errors=True)
    built = {}
    for house in PUBLISHED:
        environment.run("-m", "build", "--no-isolation", "--outdir", DIST, ROOT / house)
        (wheel,) = DIST.glob(f"{package(house)}-*.whl")
        (sdist,) = DIST.glob(f"{package(house)}-*.tar.gz")
        built[house] = Built(wheel, sdist)
    environment.run("-m", "twine", "check", "--strict", *(path for each in built.values() for path in each))
    return built


def tracked(house: str) -> list[str]:
    """The files of a house that the repository holds, from the house's folder."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT / house, check=True, capture_output=True, text=True
    ).stdout
    return [name for name in listed.splitlines() if (ROOT / house / name).exists()]


def contents(house: str, built: Built, version: str) -> list[str]:
    """What is wrong with the two archives of a house."""
    files = tracked(house)
    problems = [
        *wheel_problems(in_wheel(built.wheel), files),
        *sdist_problems(in_sdist(built.sdist), files),
        *metadata_problems(built.wheel, version),
    ]
    return [f"{house}: {problem}" for problem in problems]


def bare(archive: Path, folder: Path, version: str) -> None:
    """Install one archive of the device with nothing else, run a device, and look at it with its command."""
    environment = Environment(folder / f"bare{archive.suffix}")
    environment.install(archive)
    plan = ROOT / "examples" / "plan.toml"
    state = environment.folder / "state.db"
    environment.run("-W", "error", "-c", BARE, version, plan, state)
    for verb in ("status", "preview", "receipt"):
        if "app-usage" not in environment.command("reticent", "device", verb, state):
            sys.exit(f"release-check: stopped, since reticent device {verb} does not name the plan")


def npm(folder: Path, version: str) -> list[str]:
    """Pack the JavaScript device, look into the package, install it alone and load its entries."""
    if shutil.which("npm") is None:
        return ["device-js: npm is not installed, so its package was not built"]
    source = ROOT / "device-js"
    packed = subprocess.check_output(
        ["npm", "pack", "--json", "--pack-destination", DIST], cwd=source, text=True
    )
    (described,) = json.loads(packed)
    home = folder / "npm"
    home.mkdir()
    (home / "package.json").write_text('{"type": "module", "private": true}')
    (home / "program.mjs").write_text(IN_NODE)
    archive = DIST / described["filename"]
    subprocess.run(["npm", "install", "--silent", "--offline", archive], cwd=home, check=True)
    subprocess.run(["node", "program.mjs"], cwd=home, check=True)
    files = {each["path"] for each in described["files"]}
    return [f"device-js: {problem}" for problem in npm_problems(files, described["version"], version)]


def verbs(*houses: str) -> list[str]:
    """The verbs that some houses bring."""
    entries = (project(house).get("entry-points", {}) for house in houses)
    return ["device", *(verb for each in entries for verb in each.get("reticent.commands", {}))]


def alone(built: dict[str, Built], folder: Path, version: str) -> None:
    """Install each house with what it requires and nothing optional, import it, and ask its verbs for their help."""
    for house in PUBLISHED[1:]:
        environment = Environment(folder / house)
        environment.install(*PINNED, "--find-links", DIST, built[house].wheel)
        environment.run("-W", "error", "-c", TOGETHER, version, package(house))
        if house != "otel":  # its verb comes with an extra
            for verb in verbs(house):
                environment.command("reticent", verb, "--help")


def bill(tools: Environment, environment: Environment) -> list[str]:
    """Write what is inside an environment as CycloneDX, and tell of licences that nobody has agreed to."""
    path = DIST / "sbom.cdx.json"
    tools.run("-m", "cyclonedx_py", "environment", "--output-reproducible", "-o", path, environment.python)
    text = without_folders(path.read_text())
    path.write_text(text)
    named = [
        f"sbom: names the folder {folder}" for folder in (ROOT, environment.folder) if str(folder) in text
    ]
    return named + licence_problems(json.loads(environment.answer("-c", LICENCES)))


def together(built: dict[str, Built], folder: Path, version: str) -> Environment:
    """Install all wheels with all that is optional, import each house and ask each verb for its help."""
    environment = Environment(folder / "all")
    environment.install(*PINNED, "--upgrade", "pip")
    environment.install(*PINNED, *(f"{each.wheel}{with_extras(house)}" for house, each in built.items()))
    environment.run("-W", "error", "-c", TOGETHER, version, *map(package, PUBLISHED))
    listed = environment.command("reticent", "--help")
    for verb in verbs(*PUBLISHED):
        if f" {verb} " not in listed:
            sys.exit(f"release-check: stopped, since reticent --help does not list {verb}")
        environment.command("reticent", verb, "--help")
    return environment


def tests(environment: Environment) -> None:
    """Run the repository's tests, and the examples in the docstrings of the wheels, on what is installed."""
    environment.install(*PINNED, "--group", f"{ROOT / 'pyproject.toml'}:dev", ROOT / "paper")
    pytest = [
        "-m",
        "pytest",
        "-m",
        "not soak",
        "-n",
        "auto",
        "--dist",
        "worksteal",
        "-p",
        "tools.installed_copy",
    ]
    # Not the houses' src: with importlib, pytest would import a module of it by its name and leave it there.
    folders = ["./tests", "./spec", "./device-js", *(f"./{house}/tests" for house in HOUSES)]
    environment.run(*pytest, "--pyargs", *folders, *map(package, HOUSES), folder=ROOT)


def main() -> int:
    """Run all steps; 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(description="Build, install and try what would be released.")
    parser.add_argument("--quick", action="store_true", help="leave out the tests on the installed wheels")
    parser.add_argument("--final", action="store_true", help="the changelog must carry a date")
    options = parser.parse_args()
    version = project("device")["version"]
    problems = version_problems({house: project(house)["version"] for house in HOUSES})
    problems += changelog_problems((ROOT / "CHANGELOG.md").read_text(), version, options.final)
    with tempfile.TemporaryDirectory(prefix="reticent-release-") as name:
        folder = Path(name)
        tell(f"building {', '.join(PUBLISHED)}: each sdist, and the wheel from it")
        tools = Environment(folder / "tools")
        tools.install(*PINNED, "build", "twine", "hatchling", "cyclonedx-bom")
        built = build(tools)
        for house, archives in built.items():
            problems += contents(house, archives, version)
        for archive in built["device"]:
            tell(f"a device with {archive.name} alone")
            bare(archive, folder, version)
        tell("the JavaScript device, packed and loaded")
        problems += npm(folder, version)
        tell("each wheel by itself")
        alone(built, folder, version)
        tell("all wheels together, their bill of materials and licences")
        environment = together(built, folder, version)
        problems += bill(tools, environment)
        if not options.quick:
            tell("the tests on the installed wheels")
            tests(environment)
    print("\n".join(problems) or f"reticent {version}: ready")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"release-check: stopped, since this failed: {' '.join(map(str, error.cmd))[:200]}")
