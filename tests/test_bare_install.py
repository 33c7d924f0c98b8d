"""`pip install reticent` brings nothing along: the built wheel, alone, imports and runs a device."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

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
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built and unpacked into a folder of its own: an installation without dependencies."""
    folder = tmp_path_factory.mktemp("bare")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*command, "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python that sees the standard library and `site`, nothing else."""
    command = [sys.executable, "-S", "-P", *arguments]
    return subprocess.run(
        command, env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_wheel_requires_nothing(site: Path) -> None:
    (metadata,) = site.glob("*.dist-info/METADATA")
    required = [line for line in metadata.read_text().splitlines() if line.startswith("Requires-Dist")]
    assert required
    assert all("extra ==" in line for line in required)


def test_the_wheel_holds_the_package_and_nothing_else(site: Path) -> None:
    source = ROOT / "src"
    kept = {path.relative_to(source) for path in source.rglob("*") if "__pycache__" not in path.parts}
    found = {path.relative_to(site) for path in site.rglob("*") if ".dist-info" not in str(path)}
    assert found == kept
    assert {Path(f"reticent/{name}") for name in ("py.typed", "lab/demo.toml", "dashboard/static")} <= found
    (legal,) = site.glob("*.dist-info/licenses")
    assert {path.name for path in legal.iterdir()} == {"LICENSE", "NOTICE"}


def test_the_page_of_the_index_leads_nowhere_but_to_the_web(site: Path) -> None:
    (metadata,) = site.glob("*.dist-info/METADATA")
    links = re.findall(r"\]\(([^)]*)\)", metadata.read_text())
    assert links
    assert [link for link in links if not link.startswith("https://")] == []


def test_a_bare_install_runs_a_device(site: Path, tmp_path: Path) -> None:
    plan = str(ROOT / "examples" / "plan.toml")
    done = run(site, "-c", PROGRAM, plan, str(tmp_path / "state.db"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('{"plan":"app-usage","version":1,')


def test_a_bare_install_says_what_the_command_line_needs(site: Path) -> None:
    done = run(site, "-c", "from reticent.cli import main; main()")
    assert done.returncode == 1
    assert "pip install 'reticent[collector]'" in done.stderr


FRONT_DOORS = {
    "cli": "from reticent.cli import command; command()",
    "estimates": "import reticent_collector.estimates, reticent_collector.counts",
    "collector": "from reticent_collector.http import Collector, make_server; import reticent_collector.dashboard.pages",
    "postgres": "from reticent_collector.stores import PostgresBackend",
    "lab": "import reticent_lab.simulate, reticent_lab.design, reticent_lab.audit, reticent_collector.plots",
    "frames": "from reticent_lake.frames import count, count_lake, engine",
    "lake": "from reticent_collector.stores import open_store; from reticent_lake.frames import count_lake, engine;"
    "from reticent.cli import command; from reticent_collector.results import Results;"
    "Results(open_store('lake:///' + sys.argv[1])).plans(); engine('duckdb')",
    "otel": "from reticent_otel import PrivateMetricExporter",
    "agent": "from reticent_otel.agent import Agent",
}
BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"{name} is not part of this extra", name=name)
sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture(scope="module")
def owners() -> dict[str, set[str]]:
    """The packages that each module here comes from."""
    return {
        module: {package.lower().replace("_", "-") for package in packages}
        for module, packages in packages_distributions().items()
    }


def closure(extra: str) -> set[str]:
    """The packages that an extra names, and those of the extras that it names."""
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = set()
    for line in lines[extra]:
        name = re.match(r"[\w-]+", line)
        assert name is not None
        if name[0] == "reticent":
            for other in re.findall(r"[\w-]+", line.partition("[")[2].partition("]")[0]):
                packages |= closure(other)
        else:
            packages.add(name[0])
    return packages


@pytest.mark.parametrize("extra", FRONT_DOORS)
def test_the_front_door_of_each_extra_needs_nothing_of_the_others(
    extra: str, owners: dict[str, set[str]], tmp_path: Path
) -> None:
    """With everything installed here, what other extras bring is kept out of reach."""
    allowed = closure(extra)
    banned = closure("all") - allowed
    blocked = {module for module, packages in owners.items() if packages & banned and not packages & allowed}
    program = f"BLOCKED = {blocked!r}\n{BLOCKER}{FRONT_DOORS[extra]}"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "lake")],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert blocked
    assert done.returncode == 0, done.stderr[-2000:]
