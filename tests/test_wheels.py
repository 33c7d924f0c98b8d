"""What each wheel holds, and what an installation of the device alone can do."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSES = {
    "device": "reticent",
    "collector": "reticent_collector",
    "lake": "reticent_lake",
    "lab": "reticent_lab",
    "otel": "reticent_otel",
}

PROGRAM = """
import sys
assert not {"numpy", "scipy", "click", "rich"} & {name.split(".")[0] for name in sys.modules}
try:
    import numpy
except ImportError:
    pass
else:
    sys.exit("numpy is within reach: this is not a bare install")
import reticent
from reticent.reports import to_json
policy = reticent.Policy(silent_in_ci=False, silent_in_containers=False)
with reticent.Device(sys.argv[1], state=sys.argv[2], consent="granted", policy=policy) as device:
    device.set("editor_seconds", 600)
    report = device.report(device.status().current_round)
    assert reticent.Plan.load(sys.argv[1]).name == report.plan
    print(to_json(report).decode())
    print(device.receipt())
assert {name.split(".")[0] for name in sys.modules if name.startswith("reticent")} == {"reticent"}
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each house that would be published."""
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--disable-pip-version-check"]
    houses = [str(ROOT / house) for house in HOUSES]
    subprocess.run([*command, "--no-build-isolation", "--wheel-dir", str(folder), *houses], check=True)
    return {house: next(folder.glob(f"{package}-*.whl")) for house, package in HOUSES.items()}


@pytest.fixture(scope="module")
def bare(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The device's wheel, unpacked: an installation of it alone."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheels["device"]) as archive:
        archive.extractall(site)
    return site


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python that sees the standard library and `site`, nothing else."""
    command = [sys.executable, "-S", "-P", *arguments]
    return subprocess.run(
        command, env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=False, timeout=60
    )


def modules_of(package: Path) -> dict[str, Path]:
    return {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in package.rglob("*.py")
    }


def named(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """The modules that a file imports, at any place but for types, or names in a table of what is imported late."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and path.name == "__init__.py":
            package = ".".join(path.parent.relative_to(ROOT / "device" / "src").parts)
            yield f"{package}.{node.value}"  # a lazy name's module


def test_the_devices_wheel_holds_what_a_device_can_reach_and_nothing_else(wheels: dict[str, Path]) -> None:
    modules = modules_of(ROOT / "device" / "src" / "reticent")
    reached: set[str] = set()
    kinds_of_programs = ["reticent.programs", "reticent.testing"]
    waiting = ["reticent", "reticent.__main__", "reticent.device.device", "reticent.cli", *kinds_of_programs]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in modules:
            continue
        reached.add(name)
        waiting += [name.rpartition(".")[0], *named(modules[name], modules)]
    assert set(modules) - reached == set()
    with zipfile.ZipFile(wheels["device"]) as archive:
        held = [name for name in archive.namelist() if ".dist-info/" not in name]
    assert sorted(held) == sorted(
        [path.relative_to(ROOT / "device" / "src").as_posix() for path in modules.values()]
        + ["reticent/py.typed"]
    )


def test_the_devices_wheel_is_small(wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels["device"]) as archive:
        assert len(archive.namelist()) <= 60
    assert wheels["device"].stat().st_size <= 176_000  # the aim is 130,000


@pytest.mark.parametrize("house", HOUSES)
def test_a_wheel_holds_its_package_and_nothing_else(house: str, wheels: dict[str, Path]) -> None:
    source = ROOT / house / "src"
    kept = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheels[house]) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        legal = {name.rpartition("/")[2] for name in archive.namelist() if "/licenses/" in name}
    assert held == kept
    assert legal == {"LICENSE", "NOTICE"}


def test_the_device_requires_nothing(bare: Path) -> None:
    (metadata,) = bare.glob("*.dist-info/METADATA")
    assert "Requires-Dist" not in metadata.read_text()


def test_the_device_alone_runs_the_program_of_the_readme(bare: Path, tmp_path: Path) -> None:
    plan = str(ROOT / "examples" / "plan.toml")
    state = str(tmp_path / "state.db")
    done = run(bare, "-c", PROGRAM, plan, state)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('{"plan":"app-usage","version":1,')
    for verb in ("status", "preview", "receipt"):
        shown = run(bare, "-m", "reticent", "device", verb, state)
        assert (shown.returncode, shown.stderr) == (0, ""), shown.stderr
        assert "app-usage" in shown.stdout


def test_a_verb_whose_house_is_missing_names_the_package(bare: Path) -> None:
    for verb, folder in {"serve": "collector", "audit": "lab", "sql": "lake"}.items():
        package = f"reticent-{folder}"
        done = run(bare, "-m", "reticent", verb)
        assert done.returncode == 1
        assert f"Hint: pip install '{package}', in a clone './{folder}'\n" in done.stderr
    assert run(bare, "-m", "reticent", "--help").returncode == 0


FRONT_DOORS = {
    "collector": "from reticent_collector.http import Collector, make_server;"
    "import reticent_collector.dashboard.pages;"
    "from reticent_collector.cli.root import reticent; reticent.get_command(None, 'serve')",
    "lake": "from reticent_collector.stores import open_store; from reticent_lake.frames import count_lake, engine;"
    "from reticent_collector.results import Results;"
    "Results(open_store('lake:///' + sys.argv[1])).plans(); engine('duckdb')",
    "lab": "import reticent_lab.simulate, reticent_lab.design, reticent_lab.audit, reticent_collector.plots",
    "otel": "from reticent_otel import PrivateMetricExporter",
}
BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"{name} is not part of this package", name=name)
sys.meta_path.insert(0, Blocker())
"""


@pytest.mark.parametrize("house", FRONT_DOORS)
def test_the_front_door_of_a_house_needs_what_it_asks_for_and_no_more(house: str, tmp_path: Path) -> None:
    """With everything installed here, what other houses and the extras bring is kept out of reach."""
    import tomllib
    from importlib.metadata import packages_distributions, requires

    from packaging.requirements import Requirement

    def brought(name: str) -> set[str]:
        found = {name}
        for line in requires(name) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                other = requirement.name.lower().replace("_", "-")
                if other not in found:
                    found |= brought(other)
        return found

    def asked(folder: str, *, extras: bool) -> set[str]:
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        lines = [*project["dependencies"]]
        if extras:
            lines += [line for more in project.get("optional-dependencies", {}).values() for line in more]
        names = {Requirement(line).name for line in lines}
        return {project["name"]}.union(*(brought(name) for name in names))

    allowed = asked(house, extras=False)
    everything = set().union(*(asked(folder, extras=True) for folder in HOUSES))
    blocked = {
        module
        for module, packages in packages_distributions().items()
        if (owners := {package.lower().replace("_", "-") for package in packages}) & (everything - allowed)
        and not owners & allowed
    }
    program = f"BLOCKED = {blocked!r}\n{BLOCKER}{FRONT_DOORS[house]}"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "lake")],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert blocked
    assert done.returncode == 0, done.stderr[-2000:]
