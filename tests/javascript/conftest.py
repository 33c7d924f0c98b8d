"""The JavaScript device, asked in one Node process; without Node these tests are skipped and say so."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "device-js"

Ask = Callable[[list[tuple[str, Any]]], list[Any]]


@pytest.fixture(scope="session")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not on the PATH, so the JavaScript device is not tested")
    return found


@pytest.fixture(scope="session")
def ask(node: str) -> Ask:
    """What functions of the device answer, all asked at once."""

    def ask(questions: list[tuple[str, Any]]) -> list[Any]:
        text = json.dumps(questions)
        done = subprocess.run(
            [node, str(HERE / "oracle.mjs")],
            input=text, capture_output=True, text=True, check=False, timeout=3600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        answers: list[Any] = json.loads(done.stdout)
        return answers

    return ask
