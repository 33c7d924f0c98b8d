"""The dashboard in a real Chromium, as a person uses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.shared.browsers import chromium, needs_chromium

METRIC = "/plans/app-usage/metrics"
PAGES = ["/", "/plans/app-usage", f"{METRIC}/editor_seconds?by=os", f"{METRIC}/editor_spread", "/health"]

OVERLAPS = """
[...document.querySelectorAll(".chart")].flatMap(chart => {
    const beside = (a, b) => a.right <= b.left || b.right <= a.left;
    const above = (a, b) => a.bottom <= b.top + 2 || b.bottom <= a.top + 2;
    const boxes = [...chart.querySelectorAll("text")]
        .map(text => [text.textContent, text.getBoundingClientRect()])
        .filter(([, box]) => box.width > 0);
    return boxes.flatMap(([name, a], place) =>
        boxes.slice(place + 1).filter(([, b]) => !beside(a, b) && !above(a, b))
            .map(([other]) => `${name} / ${other}`));
})
"""

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


class Visitor:
    """A tab that notes every complaint and every request that leaves the server."""

    def __init__(self, context: Any, port: int) -> None:
        self.home = f"http://127.0.0.1:{port}"
        self.page = context.new_page()
        self.page.set_default_timeout(10_000)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def go(self, path: str) -> Any:
        self.page.goto(self.home + path)
        return self.page

    def visible(self) -> set[str]:
        """The lines of the chart that can be seen."""
        shown = self.page.evaluate(
            "[...document.querySelectorAll('.chart.wide [data-line]')]"
            ".filter(line => getComputedStyle(line).display !== 'none').map(line => line.dataset.line)"
        )
        return set(shown)

    def looks(self) -> int:
        """How often the server was asked for a page or figures."""
        return sum("/static/" not in url for url in self.requests)

    def ground(self) -> str:
        colour: str = self.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return colour


@pytest.fixture
def visit(browser: Any, world: Any) -> Iterator[Any]:
    contexts, visitors = [], []

    def start(**options: Any) -> Visitor:
        contexts.append(browser.new_context(**options))
        visitors.append(Visitor(contexts[-1], world.port))
        return visitors[-1]

    yield start
    for visitor in visitors:
        assert visitor.complaints == []
        assert {url for url in visitor.requests if not url.startswith(visitor.home)} == set()
        assert visitor.requests
    for context in contexts:
        context.close()


def test_a_morning_with_the_dashboard(visit: Any) -> None:
    visitor = visit(viewport={"width": 1200, "height": 900}, color_scheme="light")
    page = visitor.go("/")
    page.click("text=editor_seconds")
    page.wait_for_url(f"**{METRIC}/editor_seconds")
    page.select_option("select[name=by]", "os")
    page.wait_for_selector("[data-line]", state="attached")
    assert visitor.visible() == {"windows", "macos", "linux"}

    looks = visitor.looks()
    page.uncheck("input[value=linux]")
    assert visitor.visible() == {"windows", "macos"}
    assert visitor.looks() == looks, "a tag is hidden without asking the server"
    assert "tag=linux" not in page.url
    page.reload()
    assert visitor.visible() == {"windows", "macos"}, "the address says what is shown"
    twin = page.get_attribute(".bottom a", "href")
    assert twin is not None
    assert "by=os" in twin

    page.select_option("select[name=confidence]", "99")
    page.wait_for_selector(".sure:has-text('99 % interval')")
    assert "confidence=99" in page.url
    page.go_back()
    page.wait_for_selector(".sure:has-text('95 % interval')")


def test_the_theme_follows_the_system_and_then_the_reader(visit: Any) -> None:
    dark = visit(color_scheme="dark")
    dark.go("/")
    night = dark.ground()
    visitor = visit(color_scheme="light")
    page = visitor.go("/")
    day = visitor.ground()
    assert day != night
    page.click("#theme")
    assert visitor.ground() == night
    visitor.go("/health")
    assert visitor.ground() == night, "remembered on the next page"
    page.click("#theme")
    assert visitor.ground() == day


def test_a_tooltip_says_what_is_under_the_pointer(visit: Any, world: Any) -> None:
    visitor = visit(viewport={"width": 1200, "height": 900})
    page = visitor.go(f"{METRIC}/editor_seconds?by=os")
    hits = page.query_selector_all(".chart.wide.series .hit")
    hits[3].hover()
    lines = page.inner_text("#tip").split("\n")
    assert lines[0].endswith("UTC")
    assert sorted(line.partition(":")[0] for line in lines[1:]) == ["linux", "macos", "windows"]
    page.uncheck("input[value=macos]")
    hits[4].hover()
    assert "macos" not in page.inner_text("#tip")
    page.mouse.move(5, 5)
    assert page.is_hidden("#tip")


def test_raw_and_norm_sub_change_places_without_a_reload(visit: Any) -> None:
    visitor = visit(viewport={"width": 1200, "height": 900})
    page = visitor.go(f"{METRIC}/editor_spread")
    looks = visitor.looks()
    shown = (
        "[...document.querySelectorAll('.chart.wide .bars')]"
        ".filter(bars => getComputedStyle(bars).display !== 'none').map(bars => bars.classList[1])"
    )
    assert page.evaluate(shown) == ["raw"]
    page.click("text=Norm-Sub >> nth=0")
    assert page.evaluate(shown) == ["norm-sub"]
    assert visitor.looks() == looks
    assert "view=norm-sub" in page.url


def test_open_rounds_are_looked_at_again(visit: Any) -> None:
    visitor = visit()
    visitor.page.clock.install()
    page = visitor.go(f"{METRIC}/editor_seconds")
    page.evaluate(
        "document.querySelector('#numbers').open = false; document.querySelector('h1').textContent = 'old'"
    )
    with page.expect_response(f"**{METRIC}/editor_seconds"):
        page.clock.fast_forward(31_000)
    page.wait_for_selector("h1:has-text('editor_seconds')")
    assert page.evaluate("document.querySelector('#numbers').open") is False, "what was folded stays folded"


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("width", [360, 1200])
def test_no_page_scrolls_sideways_and_no_labels_touch(visit: Any, path: str, width: int) -> None:
    page = visit(viewport={"width": width, "height": 740}, has_touch=width < 1000).go(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERLAPS) == []


def test_everything_can_be_read_without_a_script(visit: Any) -> None:
    visitor = visit(java_script_enabled=False, viewport={"width": 1000, "height": 800})
    page = visitor.go(f"{METRIC}/editor_seconds?by=os")
    assert page.is_visible(".chart.wide.series")
    assert page.is_hidden("#theme")
    page.uncheck("input[value=linux]")
    page.click("button:has-text('Show')")
    page.wait_for_url("**tag=windows**")
    boxes = page.query_selector_all("input[name=tag]")
    assert sorted(box.get_attribute("value") for box in boxes if box.is_checked()) == ["macos", "windows"]
    assert page.get_attribute(".chart.wide [data-line=linux]", "class").endswith("off")
    visitor.go(f"{METRIC}/editor_spread?view=norm-sub")
    assert page.is_visible(".chart.wide .bars.norm-sub")
    assert page.is_hidden(".chart.wide .bars.raw")
