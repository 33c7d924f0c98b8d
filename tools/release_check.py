"""
Build reticent, install it as a stranger would, and try it: all that must hold before a release.

    make release-check                   # everything: about ten minutes
    make release-check ARGS=--quick      # without the tests on the installed wheel
    make release-check ARGS=--final      # the changelog must carry the date of the release

The archives are left in dist/. Needs the network, for a package index.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from archives import (
    changelog_problems,
    in_sdist,
    in_wheel,
    metadata_problems,
    sdist_problems,
    wheel_problems,
)
from environments import Environment

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"

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


def tell(step: str) -> None:
    """Say what is being done."""
    print(f"-- {step}", flush=True)


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, the wheel from the sdist (which is shown to be enough by that), and check both."""
    environment = Environment(folder / "tools")
    environment.install("build", "twine")
    shutil.rmtree(DIST, ignore_errors=True)
    environment.run("-m", "build", "--outdir", DIST, ROOT)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    environment.run("-m", "twine", "check", "--strict", wheel, sdist)
    return wheel, sdist


def tracked() -> list[str]:
    """The repository's files, when this is one; an unpacked sdist has no list of what should be in it."""
    if not (ROOT / ".git").exists():
        return []
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def contents(wheel: Path, sdist: Path, version: str) -> list[str]:
    """What is wrong with the two archives."""
    source = ROOT / "src"
    modules = (path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return [
        *wheel_problems(in_wheel(wheel), (path.relative_to(source).as_posix() for path in modules)),
        *sdist_problems(in_sdist(sdist), tracked()),
        *metadata_problems(wheel, version),
    ]


def bare(archive: Path, folder: Path, version: str) -> None:
    """Install one archive with nothing else and run a device."""
    environment = Environment(folder / f"bare{archive.suffix}")
    environment.install(archive)
    plan = ROOT / "examples" / "plan.toml"
    environment.run("-W", "error", "-c", BARE, version, plan, environment.folder / "state.db")


def everything(wheel: Path, sdist: Path, folder: Path) -> None:
    """Install the wheel with all extras and run the sdist's tests, and the wheel's own examples, on it."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (root,) = (folder / "unpacked").iterdir()
    environment = Environment(folder / "all")
    pinned = ["--constraint", str(root / "constraints.txt")]
    environment.install(*pinned, "--upgrade", "pip")
    environment.install(*pinned, "--group", f"{root / 'pyproject.toml'}:dev", f"{wheel}[all]")
    pytest = ["-m", "pytest", "-m", "not soak", "-n", "auto", "--dist", "worksteal"]
    environment.run(*pytest, "-p", "tools.installed_copy", "--pyargs", "./tests", "reticent", folder=root)


def main() -> int:
    """Run all steps; 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(description="Build, install and try what would be released.")
    parser.add_argument("--quick", action="store_true", help="leave out the tests on the installed wheel")
    parser.add_argument("--final", action="store_true", help="the changelog must carry a date")
    options = parser.parse_args()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    problems = changelog_problems((ROOT / "CHANGELOG.md").read_text(), version, options.final)
    with tempfile.TemporaryDirectory(prefix="reticent-release-") as name:
        folder = Path(name)
        tell("building the sdist, and the wheel from it")
        wheel, sdist = build(folder)
        problems += contents(wheel, sdist, version)
        for archive in (wheel, sdist):
            tell(f"a device with {archive.name} alone")
            bare(archive, folder, version)
        if not options.quick:
            tell("the tests on the installed wheel, with all extras")
            everything(wheel, sdist, folder)
    print("\n".join(problems) or f"reticent {version}: ready")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"release-check: stopped, since this failed: {' '.join(map(str, error.cmd))[:200]}")
