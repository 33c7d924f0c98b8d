"""The program of the page for desktop applications, in a real window on a display of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pagetest.page import read_page

PAGE = Path(__file__).parents[2] / "docs" / "start" / "desktop.md"


@pytest.fixture
def display() -> Iterator[str]:
    """A virtual display, which the server chooses and names."""
    pytest.importorskip("tkinter")
    if shutil.which("Xvfb") is None:
        pytest.skip("Xvfb is not installed")
    reading, writing = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", "640x480x24", "-nolisten", "tcp"],
        pass_fds=[writing],
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    try:
        with os.fdopen(reading) as answers:
            yield f":{answers.readline().strip()}"
    finally:
        server.terminate()
        server.wait(20)


def test_the_desktop_application_counts_what_is_clicked(display: str, tmp_path: Path) -> None:
    for block in read_page(PAGE.read_text()):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_sketch.py"],
        cwd=tmp_path,
        env={**os.environ, "DISPLAY": display},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
