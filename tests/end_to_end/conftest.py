"""Collectors, databases and reports, as the tests of the collector and of the stores make them."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _helpers(folder: str) -> ModuleType:
    """The conftest of another folder."""
    path = Path(__file__).parents[1] / folder / "conftest.py"
    spec = spec_from_file_location(f"end_to_end_helpers_{folder}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tools() -> Any:
    """`Service`, `usage` and `make_reports` of tests/collector."""
    return _helpers("collector")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A server of our own, as the tests of the stores have it."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-pg-"))
    server = None
    try:
        server = _helpers("stores").PostgresServer(folder)
        yield server
    finally:
        if server is not None and server.process.poll() is None:
            server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)
