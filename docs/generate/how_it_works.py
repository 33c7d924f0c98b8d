"""
The still picture of how-it-works.md: docs/_static/how-it-works.html as one finds it.

    python docs/generate/how_it_works.py            writes docs/images/how-it-works.png

It needs playwright and a Chromium (RETICENT_CHROMIUM, or one on the path).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).resolve().parents[1]
CHROMIUM = os.environ.get("RETICENT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def main() -> None:
    """By day, at twice the resolution."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(
            viewport={"width": 760, "height": 700}, color_scheme="light", device_scale_factor=2
        )
        page.goto((DOCS / "_static" / "how-it-works.html").as_uri())
        page.screenshot(path=DOCS / "images" / "how-it-works.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
