"""Pages that are written by a program are what it would write now, and say what is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATE = ROOT / "docs" / "generate"
PROGRAMS = [path.stem for path in sorted(GENERATE.glob("*.py")) if "--check" in path.read_text()]


def check(program: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, program, "--check"], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "writing"])
def test_the_page_is_current(name: str) -> None:
    done = check(GENERATE / f"{name}.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_page_that_is_not_current_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "generate"
    folder.mkdir(parents=True)
    (folder / "writing.py").write_text((GENERATE / "writing.py").read_text())
    program = folder / "page.py"
    program.write_text("from writing import ROOT, main\nmain(lambda: {ROOT / 'page.md': 'new'})\n")
    assert check(program).returncode == 3
    assert subprocess.run([sys.executable, program], timeout=60, check=True).returncode == 0
    assert check(program).returncode == 0
    (tmp_path / "page.md").write_text("old")
    assert (done := check(program)).returncode == 3
    assert "page.md: not current; run python" in done.stderr
