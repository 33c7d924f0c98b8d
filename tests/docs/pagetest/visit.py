"""
A visitor of the page of docs/start/web-page.md: agrees, clicks, and reads the receipt until a report was accepted.

    python visit.py SITE COLLECTOR

Without a Chromium and playwright nobody visits, and the page's other commands are still checked.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING
from urllib.request import urlopen

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = os.environ.get("RETICENT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
ROUND = 5


def pass_rounds(page: Page, rounds: int) -> None:
    """Move the page's clock, and let it do after each second what it does then."""
    for _ in range(rounds * ROUND + 1):
        page.clock.fast_forward(1_000)
        page.wait_for_timeout(50)


def visit(site: str, collector: str) -> None:
    """Fails unless the receipt shows a report that the collector counted, and nothing was sent before consent."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.clock.install(time=time.time() - 45)  # within the grace, so that the visit takes no time
        page.goto(site)
        page.click("#click")
        page.wait_for_selector("#ask >> text=Yes")
        pass_rounds(page, 2)
        assert not any(url.startswith(collector) for url in requests), "nothing is sent before consent"
        page.click("text=Yes")
        page.click("#click")
        page.wait_for_selector("#ask", state="hidden")
        pass_rounds(page, 3)
        page.click("#show")
        page.frame_locator("#receipt").locator("text=accepted").first.wait_for()
        browser.close()
    with urlopen(f"{collector}/v1/estimates?plan=shop") as answer:  # noqa: S310 (loopback)
        assert any(row["metric"] == "clicks" for row in json.load(answer)["estimates"])


if __name__ == "__main__" and CHROMIUM and importlib.util.find_spec("playwright"):
    visit(*sys.argv[1:])
