"""
The example notebook runs, and says what is stored in it.

Run as a program, this file executes the notebook and stores what it says, in its place or in another file:

    python tests/examples/test_notebook.py [FILE]

The test runs that program too, so that what Jupyter leaves open ends with a process of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from math import isclose
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
DRAWS_ANEW = "draws-anew"
"""The tag of a cell whose bits come from the operating system: its digits are not compared."""
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")


def executed(notebook: Any, folder: Path) -> Any:
    """The notebook, run from the start in `folder` by this interpreter, over sockets that are files."""
    from nbclient import NotebookClient
    from traitlets.config import Config

    shutil.copy(NOTEBOOK.with_name("plan.toml"), folder)
    sockets = {"transport": "ipc", "connection_file": str(folder / "kernel.json")}
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=240,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
        config=Config(AsyncKernelManager=sockets),
    )
    environment = {name: value for name, value in os.environ.items() if name != "DO_NOT_TRACK"}
    client.execute(env={**environment, "IPYTHONDIR": str(folder / "ipython")})
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def read() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


def said(cell: Any) -> list[tuple[str, str]]:
    """What a cell says, but for its pictures: kind and text."""
    texts: list[tuple[str, str]] = []
    for output in cell.get("outputs", []):
        parts = {output.get("name", ""): output["text"]} if "text" in output else output.get("data", {})
        for kind, text in sorted(parts.items()):
            if texts and texts[-1][0] == kind == "stdout":  # a cell that takes a moment prints in pieces
                texts[-1] = (kind, texts[-1][1] + text)
            elif not kind.startswith("image/"):
                texts.append((kind, text))
    if DRAWS_ANEW in cell.metadata.get("tags", []):
        texts = [(kind, re.sub(r"\d", "#", re.sub(r"'[0-9a-f]{32}'", "'id'", text))) for kind, text in texts]
    return texts


def pictures(cell: Any) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def alike(one: list[tuple[str, str]], other: list[tuple[str, str]]) -> bool:
    """Whether the words are the same, and the numbers too but for the last digits of a float."""
    if [kind for kind, _ in one] != [kind for kind, _ in other]:
        return False
    for (_, here), (_, there) in zip(one, other, strict=True):
        left, right = NUMBER.split(here), NUMBER.split(there)
        if left[::2] != right[::2]:
            return False
        if not all(
            isclose(float(a), float(b), rel_tol=1e-9) for a, b in zip(left[1::2], right[1::2], strict=True)
        ):
            return False
    return True


@pytest.fixture(scope="module")
def stored() -> Any:
    return read()


@pytest.fixture(scope="module")
def fresh() -> Any:
    with TemporaryDirectory(prefix="reticent-") as folder:
        file = Path(folder) / "fresh.ipynb"
        done = subprocess.run(
            [sys.executable, __file__, str(file)], capture_output=True, text=True, check=False, timeout=280
        )
        assert done.returncode == 0, done.stderr
        return nbformat.read(file, as_version=4)


def test_every_cell_runs_and_says_what_is_stored(stored: Any, fresh: Any) -> None:
    assert len(fresh.cells) == len(stored.cells)
    for before, now in zip(stored.cells, fresh.cells, strict=True):
        assert alike(said(before), said(now)), before.source
        assert pictures(before) == pictures(now), before.source


def test_another_word_or_number_would_be_noticed(stored: Any) -> None:
    (cell,) = [cell for cell in stored.cells if "held =" in cell.source]
    ((kind, text), *rest) = said(cell)
    assert alike(said(cell), [(kind, text), *rest])
    assert not alike(said(cell), [(kind, text.replace("hold", "held")), *rest])
    assert not alike(said(cell), [(kind, re.sub(r"^\d+", "1", text)), *rest])
    assert not alike(said(cell), rest)


def test_it_is_stored_as_run_once_from_the_top(stored: Any) -> None:
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    assert not any(output.get("name") == "stderr" for cell in code for output in cell.outputs)
    assert sum(map(pictures, code)) == 4


def test_it_holds_nothing_about_who_ran_it_where_and_when(stored: Any) -> None:
    assert stored.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert all(set(cell.metadata) <= {"tags"} for cell in stored.cells)
    words = "\n".join(cell.source + "".join(text for _, text in said(cell)) for cell in stored.cells)
    assert re.search(r"(?<![\w<.])/(?:\w+/)+\w+|[A-Z]:\\|\bfile:", words) is None
    assert re.search(r"\d{4}-\d\d-\d\dT|\d\d:\d\d:\d\d", words) is None
    assert NOTEBOOK.stat().st_size < 600_000


def test_its_links_lead_somewhere(stored: Any) -> None:
    links = [link for cell in stored.cells for link in re.findall(r"\]\((?!https?:)([^)#]+)", cell.source)]
    assert links
    assert [link for link in links if not (NOTEBOOK.parent / link).exists()] == []


if __name__ == "__main__":
    with TemporaryDirectory(prefix="reticent-") as place:  # short: the path of a socket has at most 107 bytes
        nbformat.write(executed(read(), Path(place)), Path(sys.argv[1]) if sys.argv[1:] else NOTEBOOK)
