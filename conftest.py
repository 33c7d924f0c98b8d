"""What holds for every test."""

import inspect
import os
import shutil
import tempfile
from functools import partialmethod

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

# Stores sync their files all the time, and no test cuts the power of the machine: folders are in memory if it has room.
if os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 4 << 30:  # noqa: S108
    tempfile.tempdir = os.environ.setdefault("TMPDIR", "/dev/shm")  # noqa: S108

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the other cores have tests of their own

settings.register_profile("reticent", settings(), deadline=None)  # nothing here is timed
settings.load_profile("reticent")

if "mix_stderr" in inspect.signature(CliRunner.__init__).parameters:  # click 8.1 has one or the other
    CliRunner.__init__ = partialmethod(CliRunner.__init__, mix_stderr=False)  # type: ignore[method-assign,assignment]
    Result.output = property(lambda result: result.stdout + result.stderr)  # type: ignore[method-assign,assignment]
