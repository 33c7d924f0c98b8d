"""
Every program in examples/ is shorter than 60 lines, and is run.

A program is run when a page that is tested types it into a terminal: README, tutorial, the how-to pages
(test_pages.py), and those of the attacks (tests/examples/test_attacks.py); or when it is begun here. A part,
which does nothing when it is begun by hand, is run when a program that is run imports it. To be mentioned,
or to be typed where a test does not go, is not enough.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from pagetest.page import commands, read_page

from reticent.reports import from_json

ROOT = Path(__file__).parents[2]
MOST_LINES = 59
BEGINNINGS = {".py": 'if __name__ == "__main__":', ".mjs": "if (import.meta.url === "}
RUNNERS = ("python", "node")
DEVICE = "examples/device.mjs"
BEGUN_HERE = {DEVICE}
"""Its page runs it by `make soak` alone."""


def programs(root: Path) -> list[Path]:
    return sorted(path for end in BEGINNINGS for path in (root / "examples").rglob(f"*{end}"))


def pages_with_tests(root: Path) -> list[Path]:
    docs = root / "docs"
    single = [page for page in (root / "README.md", docs / "tutorial.md") if page.exists()]
    return [*single, *(docs / "how-to").glob("*.md"), *(docs / "explanation" / "attacks").glob("*.md")]


def typed(page: Path) -> set[str]:
    """The files that commands of the page hand to Python or Node, whenever its test is run."""
    blocks = [block for block in read_page(page.read_text()) if block.language == "console"]
    lines = [c.text for block in blocks if not block.skipped and not block.soak for c in commands(block)]
    words = [shlex.split(line.replace("\\\n", " "), comments=True) for line in lines]
    return {after for line in words for before, after in pairwise(line) if before in RUNNERS}


def imported(program: Path) -> set[Path]:
    """The files beside a program that it imports as it starts."""
    text = program.read_text()
    if program.suffix == ".py":
        top = ast.parse(text).body
        names = {node.module for node in top if isinstance(node, ast.ImportFrom)}
        names |= {name.name for node in top if isinstance(node, ast.Import) for name in node.names}
        return {program.with_name(f"{name}.py") for name in names}
    return {program.parent / name for name in re.findall(r'^import .* from "\./(.+)";$', text, re.MULTILINE)}


def with_parts(begun: set[Path]) -> set[Path]:
    """Programs, and all that is imported when they are begun."""
    found, waiting = set(begun), list(begun)
    while waiting:
        parts = {path for path in imported(waiting.pop()) if path.exists()} - found
        found |= parts
        waiting += parts
    return found


def problems(root: Path) -> list[str]:
    """What is wrong with the programs, a sentence each."""
    names = BEGUN_HERE.union(*map(typed, pages_with_tests(root)))
    begun = {path for path in programs(root) if path.relative_to(root).as_posix() in names}
    run, found = with_parts(begun), []
    for path in programs(root):
        name, text = path.relative_to(root).as_posix(), path.read_text()
        lines = len(text.splitlines())
        if lines > MOST_LINES:
            found.append(f"{name} has {lines} lines")
        if path not in (begun if BEGINNINGS[path.suffix] in text else run):
            found.append(f"{name} is not run")
    return found


def test_every_program_is_short_and_is_run() -> None:
    assert len(programs(ROOT)) >= 15
    assert problems(ROOT) == []


def test_the_device_in_javascript_answers_when_it_is_begun() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on the PATH")
    answer = {"do": "answer", "round": 81_652, "values": {"saves": 3}}
    requests = [{"do": "start", "device": 1, "first_round": 81_652}, {"do": "copy", "device": 1, "to": 2}]
    requests += [{**answer, "device": 1}, {**answer, "device": 2}, {**answer, "device": 2, "round": 81_653}]
    done = subprocess.run(
        [node, str(ROOT / DEVICE)],
        input="".join(f"{json.dumps(request)}\n" for request in requests),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    *started, original, copied, later = done.stdout.splitlines()
    assert started == ["true", "true"]
    assert original == copied
    reports = [from_json(text.encode()) for text in (original, later)]
    assert [(report.plan, report.version, report.round) for report in reports] == [
        ("saves", 1, 81_652),
        ("saves", 1, 81_653),
    ]
    assert reports[0].id != reports[1].id


PROGRAM = 'import part\n\nif __name__ == "__main__":\n    print(part.WORD)\n'
TYPED = "```console\n$ python examples/program.py\nword\n```\n"
PAGE = "docs/how-to/page.md"
NOTHING_IS_RUN = ["examples/part.py is not run", "examples/program.py is not run"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"examples/part.py": "WORD = 1" + "\n" * 60}, ["examples/part.py has 60 lines"]),
        ({"examples/part.py": "WORD = 1" + "\n" * 59}, []),
        ({"examples/other.py": PROGRAM}, ["examples/other.py is not run"]),
        ({"examples/part.py": PROGRAM}, ["examples/part.py is not run"]),
        ({"examples/alone.py": "import part\n"}, ["examples/alone.py is not run"]),
        ({"examples/alone.mjs": ""}, ["examples/alone.mjs is not run"]),
        ({"examples/program.py": PROGRAM.replace("import", "#")}, ["examples/part.py is not run"]),
        ({PAGE: "See examples/program.py\n"}, NOTHING_IS_RUN),
        ({PAGE: TYPED.replace("python", "cat")}, NOTHING_IS_RUN),
        ({PAGE: TYPED.replace("python", "true # python")}, NOTHING_IS_RUN),
        ({PAGE: "<!-- test: skip, why not -->\n" + TYPED}, NOTHING_IS_RUN),
        ({PAGE: "<!-- test: soak -->\n" + TYPED}, NOTHING_IS_RUN),
    ],
)
def test_a_long_program_and_one_that_is_only_named_are_found(
    tmp_path: Path, changed: dict[str, str], expected: list[str]
) -> None:
    files = {"examples/program.py": PROGRAM, "examples/part.py": "WORD = 'word'\n", PAGE: TYPED}
    for name, text in {**files, **changed}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert problems(tmp_path) == expected
