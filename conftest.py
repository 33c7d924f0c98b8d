"""What holds for every test."""

import gc
import inspect
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import settings

from reticent.device import policy

# The machine that runs the tests may be a build machine, a container or a person's who is not to be tracked, all of
# which would silence every device under test.
for variable in ("DO_NOT_TRACK", *policy.CI_VARIABLES, *policy.CONTAINER_VARIABLES):
    os.environ.pop(variable, None)
policy.CONTAINER_FILES = ()
if policy.environment():
    raise RuntimeError(f"every device under test would stay silent here: {policy.environment()}")

# To sync a file on a disk takes milliseconds, and stores and devices do it all the time. What a sync is good for
# is tested with calls that are recorded or refused, which works in memory too.
memory = Path("/dev/shm")  # noqa: S108
if (
    memory.is_dir()
    and os.access(memory, os.W_OK)
    and not os.statvfs(memory).f_flag & os.ST_NOEXEC  # some tests make programs
    and shutil.disk_usage(memory).free > 4 << 30
):
    tempfile.tempdir = os.environ.setdefault("TMPDIR", str(memory))

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the other cores have tests of their own

settings.register_profile("reticent", settings(), deadline=None)  # nothing here is timed
settings.load_profile("reticent")


@contextmanager
def _isolated(runner: CliRunner, *arguments: Any, **options: Any) -> Iterator[Any]:
    """What is written to stderr is seen at once: click 8.1 does not flush it."""
    with _isolate(runner, *arguments, **options) as streams:
        sys.stderr.reconfigure(write_through=True)  # type: ignore[union-attr]
        yield streams


if "mix_stderr" in inspect.signature(CliRunner.__init__).parameters:  # click 8.1
    _isolate, CliRunner.isolation = CliRunner.isolation, _isolated  # type: ignore[method-assign,assignment]
    CliRunner.__init__ = partialmethod(CliRunner.__init__, mix_stderr=False)  # type: ignore[method-assign,assignment]
    Result.output = property(lambda result: result.stdout + result.stderr)  # type: ignore[method-assign,assignment]

pytest_plugins = ["tests.shared.fixtures", "tests.shared.commands"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand tests and what they import stay until the end: the garbage collector need not look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests are started first, so that no worker waits for one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
