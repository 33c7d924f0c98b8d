"""A folder with a store, a device, a lake and plans, as the examples in --help name them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.shared.collectors import make_reports

from reticent import Device
from reticent.device import Policy
from reticent.plan import Plan
from reticent.reports import to_ndjson
from reticent_collector.cli.root import reticent as command
from reticent_collector.stores import Layout, RoundKey, create_key, open_store
from reticent_lab.fleet import SdkFleet

EXAMPLES = Path(__file__).parents[2] / "examples"
VALUES = np.random.default_rng(1).integers(0, 21600, 100).tolist()
ROUNDS = (100, 900_000)
"""One long over and not sealed, one in the far future."""

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    def invoke(*arguments: object, answer: str | None = None) -> Result:
        return CliRunner().invoke(command, [str(argument) for argument in arguments], input=answer)

    return invoke


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder as it is made once."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("*.ipynb", "__pycache__"))
    text = "min_reports = 1\n" + (EXAMPLES / "plan.toml").read_text()
    (folder / "plan.toml").write_text(text)
    (folder / "plan-v1.toml").write_text(text)
    (folder / "plan-v2.toml").write_text(text.replace("version = 1", "version = 2"))
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
    reports = make_reports(Plan.from_toml(text), Plan.from_toml(text).round_at(time.time()), 20)
    (folder / "reports.ndjson").write_bytes(to_ndjson(reports))
    for url in (f"sqlite:///{folder / 'reticent.db'}", f"lake:///{folder / 'reticent-lake'}"):
        _fill(url, Plan.from_toml(text))
    with Device(
        folder / "plan.toml", state=folder / "telemetry.db", consent="granted", policy=Policy.unlimited()
    ) as device:
        device.set("editor_seconds", 12345)
        assert device.report(device.current_round) is not None
    return folder


def _fill(url: str, plan: Plan) -> None:
    store, layout = open_store(url), Layout(plan)
    store.register(plan)
    for role in ("ingest", "reader"):
        store.add_key(create_key(role, "", now=0)[1])
    fleet = SdkFleet(plan, len(VALUES), seed=1, segments=[{"os": "linux"}, {"os": "macos"}] * 50)
    for number in ROUNDS:
        reports = fleet.reports(number, {metric.name: VALUES for metric in plan.metrics})
        store.append({RoundKey(plan.name, 1, number): b"".join(layout.pack(report) for report in reports)})
    store.close()


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to work in, with paths as a person types them."""
    copy = tmp_path / "folder"
    shutil.copytree(made, copy)
    monkeypatch.chdir(copy)
    return copy
