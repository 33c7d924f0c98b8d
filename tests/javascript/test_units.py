"""The unit tests of the JavaScript device, run by Node's own test runner."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.javascript.conftest import HERE, PACKAGE

from reticent.plan import Plan
from reticent_collector.plans import export_plan

METRIC = """
[metrics.{name}]
kind = "mean"
unit = "minute"
description = "Minutes <b>in front"
max_value = {top}
epsilon = 1.0
flip = 0.2
"""
HEAD = '[plan]\nname = "{name}"\nversion = {version}\nround = "1h"\ngrace = "1h"\n'
MORE = METRIC.format(name="size", top=50) + METRIC.format(name="seconds", top=100)
OPENS = """
[metrics.opens]
kind = "histogram"
max_value = 10
buckets = 5
mechanism = "d-bit-flip"
epsilon = 1.0
flip = 0.2
"""
END = '[segments]\nos = ["linux", "macos"]\n'
USAGE = HEAD.format(name="usage", version=1) + METRIC.format(name="minutes", top=360) + MORE + OPENS + END
LATER = USAGE.replace("version = 1", "version = 2")
VECTORS = json.loads((HERE.parents[1] / "spec" / "answers.json").read_text())
SAMPLED = """
[metrics.saves]
kind = "mean"
max_value = 100
epsilon = 1.0

[metrics.opens]
kind = "mean"
max_value = 100
epsilon = 1.0

[answers]
kind = "sampled"
window = "7d"
metrics = 1
"""

ODD = ("constructor", "valueof", "prototype", "length", "name", "then")
"""Names that objects or functions have; names of a plan are lower-case."""

PLANS = {
    "usage": USAGE,
    "patient": USAGE.replace('grace = "1h"', 'grace = "9h"'),
    "expired": USAGE.replace('grace = "1h"', 'grace = "1h"\nexpires = 2020-01-01'),
    "silently-changed": USAGE.replace("max_value = 360", "max_value = 361"),
    "other-digest": LATER.replace("max_value = 360", "max_value = 400"),
    "more-metrics": LATER.replace("[segments]", METRIC.format(name="starts", top=9) + "[segments]"),
    "fewer-metrics": LATER.replace(OPENS, ""),
    "less-flip": LATER.replace("flip = 0.2", "flip = 0.1", 1),
    "other-words": USAGE.replace("in front", "in the foreground"),
    "sampled-instead": LATER.replace("flip = 0.2", "") + '[answers]\nkind = "sampled"\nwindow = "7d"\n',
    "sampled": HEAD.format(name="sampled", version=1).replace("1h", "6h") + SAMPLED,
    "odd-names": HEAD.format(name="usage", version=1)
    + "".join(METRIC.format(name=name, top=9) for name in ODD),
    "odd-names-2": LATER.replace("[segments]", METRIC.format(name="constructor", top=9) + "[segments]"),
    "kinds": VECTORS["kinds"]["plan"].replace('round = "6h"', 'round = "1h"'),
}


@pytest.fixture(scope="session")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    for name, text in PLANS.items():
        (folder / f"{name}.json").write_text(json.dumps(export_plan(Plan.from_toml(text))))
    return folder


@pytest.mark.parametrize("file", sorted((PACKAGE / "tests").glob("*.test.mjs")), ids=lambda file: file.name)
def test_units(node: str, plans: Path, file: Path) -> None:
    done = subprocess.run(
        [node, "--test", str(file)],
        env=os.environ | {"PLANS": str(plans)},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:]
