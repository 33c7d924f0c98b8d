"""OTEL_METRICS_EXPORTER=reticent, what it reads, and the program in the page and in the examples."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from tests.shared.state_files import what_is_in

from reticent.errors import ParameterError, PlanError
from reticent.plan import Plan
from reticent_otel import PrivateMetricExporter, segment_of

ROOT = Path(__file__).parents[2]
PLAN = ROOT / "examples" / "plan.toml"
ANYWHERE = {
    "RETICENT_CONSENT": "granted",
    "RETICENT_POLICY": "silent_in_ci=false, silent_in_containers=false",
}


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that says nothing yet."""
    for name in list(os.environ):
        if name.startswith(("RETICENT_", "OTEL_")) or name == "DO_NOT_TRACK":
            monkeypatch.delenv(name)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment with a plan and a place for the state."""
    monkeypatch.setenv("RETICENT_PLAN", str(PLAN))
    monkeypatch.setenv("RETICENT_STATE", str(tmp_path / "telemetry.db"))
    monkeypatch.setenv("RETICENT_CONSENT", "granted")
    return monkeypatch


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Python of its own, in a folder of its own."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **ANYWHERE, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def totals(state: Path) -> dict[str, str]:
    return {metric: value for (_, metric), value in what_is_in(state).totals.items()}


# By name


def test_the_entry_point_is_installed() -> None:
    installed = list(entry_points(group="opentelemetry_metrics_exporter", name="reticent"))
    assert len(installed) == 1, (
        "expected one entry point reticent in the group opentelemetry_metrics_exporter, as in pyproject.toml: "
        "install the package again"
    )
    assert installed[0].load() is PrivateMetricExporter


PROGRAM = """
from opentelemetry import metrics
from opentelemetry.sdk._configuration import _OTelSDKConfigurator

_OTelSDKConfigurator().configure()          # what `opentelemetry-instrument` does before the program
meter = metrics.get_meter("editor")
meter.create_counter("app.editor.time", unit="ms").add(1500, {"document": "diary.txt"})
meter.create_counter("browser.seconds", unit="s").add(7)
"""


def test_the_sdk_configures_it_by_name(tmp_path: Path) -> None:
    """The program does not know reticent; the environment names the exporter, the plan and the state."""
    done = run(
        tmp_path, "-c", PROGRAM,
        OTEL_METRICS_EXPORTER="reticent", RETICENT_PLAN=str(PLAN), RETICENT_STATE="telemetry.db",
        RETICENT_OTEL_NAMES="app.editor.time=editor_seconds, app.editor.time=editor_hours",
        RETICENT_OTEL_SCALE="app.editor.time=1/1000",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    written = {"editor_seconds": "3/2", "editor_hours": "3/2", "browser_seconds": "7"}
    assert totals(tmp_path / "telemetry.db") == written
    assert b"diary" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_the_sdk_says_what_is_missing_from_the_environment(tmp_path: Path) -> None:
    done = run(tmp_path, "-c", PROGRAM, OTEL_METRICS_EXPORTER="reticent")
    assert done.returncode == 1
    assert "RETICENT_PLAN: expected the path of a plan" in done.stderr


# The environment


def test_a_device_from_the_environment_lives_as_long_as_the_exporter(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("OTEL_RESOURCE_ATTRIBUTES", "os=linux,host.name=anns-laptop")
    environment.setenv("RETICENT_ENDPOINT", "http://127.0.0.1:9")
    environment.setenv("RETICENT_KEY", "key")
    exporter = PrivateMetricExporter()
    device = exporter.device
    try:
        report = device.report(device.current_round)
        assert report is not None
        assert report.segment == {"os": "linux"}
    finally:
        exporter.shutdown()
    assert device.report(device.current_round) is None  # closed


@pytest.mark.parametrize("name", ["RETICENT_PLAN", "RETICENT_STATE"])
def test_what_is_missing_is_named(environment: pytest.MonkeyPatch, name: str) -> None:
    environment.delenv(name)
    with pytest.raises(
        ParameterError, match=f"{name}: expected the path of .*, in the environment, got nothing"
    ):
        PrivateMetricExporter()


def test_a_plan_that_cannot_be_read_is_refused(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[plan]\n")
    environment.setenv("RETICENT_PLAN", str(tmp_path / "bad.toml"))
    with pytest.raises(PlanError):
        PrivateMetricExporter()


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("", False),
        ("max_lifetime=5.9", True),
        ("max_lifetime=6, max_window=2", False),
        ("max_window=1", True),
        ("silent_in_ci=false", False),
    ],
)
def test_the_device_has_the_default_limits_but_for_those_named(
    environment: pytest.MonkeyPatch, text: str, refused: bool
) -> None:
    environment.setenv("RETICENT_POLICY", text)
    exporter = PrivateMetricExporter()
    assert exporter._made is not None
    assert bool(exporter._made.status().refused) == refused
    exporter.shutdown()


@pytest.mark.parametrize("text", ["max_lifetime=much", "lifetime=3", "max_lifetime", "silent_in_ci=maybe"])
def test_a_limit_that_is_none_is_named(environment: pytest.MonkeyPatch, text: str) -> None:
    environment.setenv("RETICENT_POLICY", text)
    with pytest.raises(ParameterError, match="RETICENT_POLICY"):
        PrivateMetricExporter()


def test_the_deployment_of_the_paper_is_refused_by_default(environment: pytest.MonkeyPatch) -> None:
    plan = Path(__file__).parents[2] / "examples" / "windows-deployment.toml"
    environment.setenv("RETICENT_PLAN", str(plan))
    exporter = PrivateMetricExporter()
    assert exporter._made is not None
    [reason] = exporter._made.status().refused
    assert reason.endswith("the policy allows 12 (max_lifetime)")
    exporter.shutdown()


def test_do_not_track_leaves_no_trace(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("DO_NOT_TRACK", "1")
    exporter = PrivateMetricExporter()
    exporter.shutdown()
    assert list(tmp_path.iterdir()) == []


def test_lists_in_the_environment(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("RETICENT_OTEL_NAMES", " a.b = editor_seconds ,d=browser_seconds, a.b=editor_hours,")
    environment.setenv("RETICENT_OTEL_SCALE", "a.b=0.001,d=1/60")
    provider = MeterProvider(
        [PeriodicExportingMetricReader(PrivateMetricExporter(), math.inf)], shutdown_on_exit=False
    )
    for name, amount in {"a.b": 1500, "d": 7}.items():
        provider.get_meter("editor").create_counter(name, unit="ms").add(amount)
    provider.force_flush()
    provider.shutdown()
    kept = totals(tmp_path / "telemetry.db")
    assert kept == {"editor_seconds": "3/2", "editor_hours": "3/2", "browser_seconds": "7/60"}


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        *(("NAMES", text, "instrument=metric, separated by commas") for text in ("a", "a=", "=b", "a=b,c")),
        *(("SCALE", text, "numbers such as") for text in ("a=fast", "a=1/0")),
    ],
)
def test_a_list_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, expected: str
) -> None:
    monkeypatch.setenv(f"RETICENT_OTEL_{variable}", text)
    with pytest.raises(ParameterError, match=f"RETICENT_OTEL_{variable}: expected {expected}"):
        PrivateMetricExporter()


def test_only_declared_segments_are_taken_from_a_resource() -> None:
    text = PLAN.read_text() + 'release_channel = ["stable"]\n'
    plan = Plan.from_toml(text)
    resource = Resource({"os": "beos", "release.channel": "stable", "service.instance.id": "4711"})
    segment = segment_of(plan, resource)
    assert segment == {"os": "beos", "release_channel": "stable"}
    assert plan.tags(segment) == {"os": "other", "release_channel": "stable"}
    assert segment_of(plan, Resource({})) == {}


# Imports


def test_reticent_is_imported_without_opentelemetry(tmp_path: Path) -> None:
    code = """
import sys, reticent
reticent.Device, reticent.Plan
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    done = run(tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr


# The page and the example


def test_the_program_in_the_page_runs_as_printed(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "opentelemetry.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    (tmp_path / "examples").mkdir()
    shutil.copy(PLAN, tmp_path / "examples")
    # The tests may run in a container, where a device is silent by default.
    anywhere = program.replace("device = Device(", "device = Device(policy=Policy.unlimited(), plan=", 1)
    anywhere = f"from reticent.device import Policy\n{anywhere}"
    done = run(tmp_path, "-W", "error", "-c", anywhere, RETICENT_KEY="key")
    assert (done.returncode, done.stderr) == (0, "")
    assert totals(tmp_path / "telemetry.db") == {"editor_seconds": "12", "editor_hours": "12"}
    assert b"diary" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_the_page_names_every_variable_that_is_read() -> None:
    page = (ROOT / "docs" / "how-to" / "opentelemetry.md").read_text()
    code = (ROOT / "otel/src/reticent_otel/exporter.py").read_text()
    variables = set(re.findall(r"RETICENT_[A-Z_]+", code))
    assert len(variables) == 9
    assert variables == set(re.findall(r"RETICENT_[A-Z_]+", page))


def test_the_example_runs_and_is_short() -> None:
    program = ROOT / "examples" / "otel_program.py"
    assert len(program.read_text().splitlines()) < 60
    done = run(ROOT, "-W", "error", str(program))
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "The device holds {'editor_hours': 3000, 'editor_seconds': 3000} and has sent nothing." in done.stdout
    )
    assert "100 exports, 1 report:" in done.stdout
