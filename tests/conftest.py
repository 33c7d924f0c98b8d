"""What several folders of tests share: a database server, and collectors to start."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.shared import collectors
from tests.shared.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server of our own; one for each process that runs tests."""
    folder = Path(tempfile.mkdtemp(prefix="reticent-pg-"))
    server = None
    try:
        server = PostgresServer(folder)
        yield server
    finally:
        if server is not None and server.process.poll() is None:
            server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def tools() -> ModuleType:
    """`Service`, `usage`, `make_reports`, `make_keys` and `in_thread` of tests/shared/collectors.py."""
    return collectors
