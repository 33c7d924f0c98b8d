"""The simulator, loaded by path: tests are no package."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def machine() -> ModuleType:
    """`System`, the state machine, and `world`, what it is made of."""
    spec = spec_from_file_location("simulator_machine", Path(__file__).with_name("machine.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that runs the tests may not want to be tracked; these devices must not know."""
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
