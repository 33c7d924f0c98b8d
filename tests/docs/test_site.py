"""The site is built without a warning and without a network, and nothing on it leads to nowhere."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("furo", reason="the group `docs` is not installed (make docs)")

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.soak  # half a minute of one core; `make docs` is the same


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-c", "docs"]
    done = subprocess.run(
        [*build, "-d", folder / "doctrees", ".", folder / "html"],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "html"


def addresses(page: Path) -> Iterator[str]:
    """Whatever a page asks a browser for, or leads to."""
    for address in re.findall(r'\b(?:src|srcset|href|data)="([^"]+)"', page.read_text()):
        yield unescape(address)


def test_every_address_on_the_site_is_there(site: Path) -> None:
    missing = set()
    for page in site.rglob("*.html"):
        for address in addresses(page):
            file, _, anchor = unquote(address).partition("#")
            target = page.parent / file.partition("?")[0] if file else page
            if re.match(r"(https?|mailto|data):", address):
                continue
            if not target.exists() or (
                anchor
                and target.suffix == ".html"
                and not re.search(f'id="{re.escape(anchor)}"', target.read_text())
            ):
                missing.add((page.relative_to(site).as_posix(), address))
    assert missing == set()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|img|iframe|source|object)\b[^>]*(?:src|srcset|data)="(https?:[^"]+)"',
            page.read_text(),
        )
        styles = re.findall(
            r'<link\b[^>]*rel="(?:stylesheet|preload)"[^>]*href="(https?:[^"]+)"', page.read_text()
        )
        assert fetched + styles == [], page


def test_every_public_name_is_described(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    from_code = importlib.import_module("from_code")
    for module in from_code.documented_modules():
        built = (site / "docs" / "reference" / "python" / f"{module}.html").read_text()
        names = from_code.public_names(importlib.import_module(module))
        assert [name for name in names if f'id="{module}.{name}"' not in built] == []
