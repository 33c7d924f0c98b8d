"""Programs in processes of their own, where they may fork, be killed, and be tracked."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def tracked_environment() -> dict[str, str]:
    """The machine that runs the tests may not want to be tracked; the devices in them must not know."""
    return {name: value for name, value in os.environ.items() if name != "DO_NOT_TRACK"}


def run_script(
    folder: Path, prelude: str, script: str, *arguments: object, timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, after a prelude; it has to succeed, and a warning is an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", prelude + textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=tracked_environment(),
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
