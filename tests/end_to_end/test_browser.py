"""A person logs in to the demo's dashboard with a reader's key, in a real Chromium."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Page, expect
from tests.shared.browsers import needs_chromium

from reticent_collector.cli.root import reticent as command

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str]]:
    """A collector on the store of a demo, behind keys: its address, a reader's and an ingest key."""
    folder = tmp_path_factory.mktemp("demo")
    plan = str(files("reticent_lab").joinpath("demo.toml"))
    store = f"sqlite:///{folder / 'collector.db'}"
    demo = ["demo", "--once", "--port", "0", "--devices", "500", "--rounds", "4", "--keep", str(folder)]
    assert CliRunner().invoke(command, demo).exit_code == 0
    reader, ingest = (
        CliRunner().invoke(command, ["keys", "create", "--store", store, "--role", role]).stdout.strip()
        for role in ("reader", "ingest")
    )
    tool = Path(sys.executable).with_name("reticent")
    server = subprocess.Popen(
        [tool, "serve", plan, "--store", store, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    try:
        address = next(
            found[1] for line in server.stderr if (found := re.search(r"Listening on (http://\S+)", line))
        )
        yield address, reader, ingest
    finally:
        server.terminate()
        assert server.wait(30) == 0
        server.stderr.close()


@pytest.fixture
def page(browser: Any, keys: tuple[str, str, str]) -> Iterator[Page]:
    opened = browser.new_page(base_url=keys[0])
    problems: list[str] = []
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: problems.append(request.url) if keys[0] not in request.url else None)
    yield opened
    opened.close()
    assert [each for each in problems if "401" not in each] == []


def log_in(page: Page, key: str) -> None:
    page.locator("input[name=key]").fill(key)
    page.get_by_role("button", name=re.compile("log in", re.IGNORECASE)).click()


def test_a_person_logs_in_follows_a_metric_and_toggles_a_segment(
    page: Page, keys: tuple[str, str, str]
) -> None:
    page.goto("/plans/demo/metrics/editor_seconds?by=os")
    expect(page).to_have_url(re.compile("/login"))
    log_in(page, keys[1])
    expect(page.locator("h1")).to_have_text("editor_seconds")
    page.goto("/")
    page.evaluate("for (const group of document.querySelectorAll('details')) group.open = true")
    page.get_by_role("link", name="editor_seconds").first.click()
    expect(page.locator("h1")).to_have_text("editor_seconds")
    page.goto("/plans/demo/metrics/editor_seconds?by=os")
    toggle = page.get_by_role("checkbox", name="windows")
    expect(toggle).to_be_checked()
    toggle.uncheck()
    expect(toggle).not_to_be_checked()
    cookie = next(each for each in page.context.cookies() if each["name"] == "reticent_session")
    assert cookie["httpOnly"] is True
    assert cookie["sameSite"] == "Strict"
    page.get_by_role("button", name=re.compile("log out", re.IGNORECASE)).click()
    expect(page).to_have_url(re.compile("/login"))


@pytest.mark.parametrize("which", ["nonsense", "ingest"])
def test_other_keys_do_not_open_it(page: Page, keys: tuple[str, str, str], which: str) -> None:
    page.goto("/")
    log_in(page, keys[2] if which == "ingest" else "nonsense")
    expect(page.locator("body")).to_contain_text("not a reader")
    page.goto("/")
    expect(page).to_have_url(re.compile("/login"))
