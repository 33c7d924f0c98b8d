"""The pages that explain: sessions run, pictures are the code's, and figures are the measured ones."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXPLANATION = ROOT / "docs" / "explanation"


def test_the_tables_of_why_one_bit_are_what_its_sessions_print() -> None:
    """Every figure of the two large tables is printed by a session, to the digits that the table shows."""
    text = (EXPLANATION / "why-one-bit.md").read_text()
    sessions = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    printed = [float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", sessions)]
    rows = [
        line
        for line in text.splitlines()
        if re.match(r"\| (?!n·Var|\|)[^|]*\|( \**\d+(\.\d+)?\** \|){4}", line)
    ]
    assert len(rows) == 9
    for row in rows:
        for figure in re.findall(r"(?<=\| )\**(\d+\.\d+)\**(?= \|)", row):
            digits = len(figure.partition(".")[2])
            assert float(figure) in [round(number, digits) for number in printed], row


def check_architecture(root: Path) -> int:
    script = root / "docs" / "generate" / "architecture.py"
    return subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, check=False
    ).returncode


def test_the_picture_of_the_layers_is_that_of_the_import_test(tmp_path: Path) -> None:
    assert check_architecture(ROOT) == 0
    for name in ("docs/generate/architecture.py", "docs/images/architecture.svg", "tests/test_layers.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert check_architecture(tmp_path) == 0
    layers = tmp_path / "tests" / "test_layers.py"
    layers.write_text(layers.read_text().replace('{"privacy"},\n    {"plan"}', '{"privacy", "plan"}'))
    assert check_architecture(tmp_path) == 3, "a layer was moved and the picture was not"
