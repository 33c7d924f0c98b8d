"""The pages by kind of program: the accuracy they name, and the desktop application in a real window on a display."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pagetest.page import read_page

from reticent.plan import Plan
from reticent_collector.estimates import expected_half_width

START = Path(__file__).parents[2] / "docs" / "start"
PAGE = START / "desktop.md"

ACCURACY = {
    "command-line": ("command", {20_000: "6.4 points", 100_000: "2.9", 1_000_000: "0.9"}),
    "desktop": ("minutes", {20_000: "2.5 %", 100_000: "1.1 %"}),
    "opentelemetry": ("level_starts", {20_000: "2.5 %"}),
    "service": ("requests", {5_000: "5 %", 50_000: "1.6"}),
    "web-page": ("clicks", {20_000: "1.9 %", 100_000: "0.8 %"}),
}
"""By page: a metric of its plan, and its half-widths in percent of the range, by number of devices."""


@pytest.mark.parametrize("name", ACCURACY)
def test_a_page_names_the_half_widths_of_its_plan(name: str) -> None:
    page = START / f"{name}.md"
    (text,) = [block.text for block in read_page(page.read_text()) if block.file == "plan.toml"]
    metric, half_widths = ACCURACY[name]
    asked = Plan.from_toml(text).by_name[metric]
    for devices, said in half_widths.items():
        assert f"± {said}" in page.read_text()
        assert f"{devices:,}" in page.read_text().replace("a million", "1,000,000")
        part = 100 * expected_half_width(asked, devices) / asked.top
        assert f"{part:.1f}".removesuffix(".0") == said.split()[0], f"{page}: {devices:,} devices"


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
