"""The dashboard in a real Chromium, as a person uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.shared.browsers import needs_chromium
from tests.shared.plans import CLEAR

from reticent_collector.stores import Note
from reticent_lab.fleet import SdkFleet

METRIC = "/plans/app-usage/metrics"
PAGES = [
    "/",
    "/plans/app-usage",
    f"{METRIC}/editor_seconds?every=round&by=os",
    f"{METRIC}/editor_spread?by=os",
    "/health",
    "/public/app-usage",
]

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

AXE = "axe.run({ resultTypes: ['violations'] }).then(found => found.violations)"

pytestmark = needs_chromium


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
            "[...document.querySelectorAll('.chart.wide [data-line]')].map(line => line.dataset.line)"
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

    page.evaluate("scrollTo(0, 200)")
    page.locator("input[value=linux]").evaluate("box => box.click()")
    page.wait_for_url("**tag=macos**")
    page.wait_for_function("scrollY === 200")
    assert visitor.visible() == {"windows", "macos"}, "the address says what is shown"
    assert "tag=linux" not in page.url
    twin = page.get_attribute(".bottom a", "href")
    assert twin is not None
    assert "by=os" in twin

    page.click("text=More")
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
    page = visitor.go(f"{METRIC}/editor_seconds?every=round&by=os")
    hits = page.query_selector_all(".chart.wide.series .hit")
    hits[3].hover()
    lines = page.inner_text("#tip").split("\n")
    assert lines[0].endswith("UTC")
    assert sorted(line.partition(":")[0] for line in lines[1:]) == ["linux", "macos", "windows"]
    page.uncheck("input[value=macos]")
    page.wait_for_url("**tag=linux**")
    page.query_selector_all(".chart.wide.series .hit")[4].hover()
    assert "macos" not in page.inner_text("#tip")
    page.mouse.move(5, 5)
    assert page.is_hidden("#tip")


def test_a_tag_is_compared_with_the_baseline_that_a_reader_chooses(visit: Any) -> None:
    visitor = visit(viewport={"width": 1200, "height": 900})
    page = visitor.go(f"{METRIC}/editor_seconds?every=day&by=os")
    page.select_option("select[name=baseline]", "macos")
    page.wait_for_url("**baseline=macos**")
    assert "baseline" in page.inner_text("#by-tag tr:has(th:text-is('macos'))")
    assert "difference" in page.inner_text("#by-tag tr:has(th:text-is('linux'))")
    page.click("#by-tag ~ section summary:has-text('made of')")
    page.select_option("form.controls >> nth=0 >> select[name=by]", "channel")
    page.wait_for_url("**by=channel**")
    assert "beta" in page.inner_text("#by-tag"), "a baseline of another segment is left out"


def test_a_page_looks_again_and_leaves_the_reader_alone(visit: Any) -> None:
    visitor = visit(viewport={"width": 1000, "height": 500})
    visitor.page.clock.install()
    page = visitor.go(f"{METRIC}/editor_seconds?by=os")
    page.evaluate(
        "document.querySelector('#numbers').open = false; document.querySelector('h1').textContent = 'old';"
        "document.querySelector('input[value=linux]').focus(); scrollTo(0, 300);"
        "getSelection().selectAllChildren(document.querySelector('.foot'))"
    )
    chart = page.query_selector(".chart.wide.series")
    scroll, selected = page.evaluate("[scrollY, String(getSelection())]")
    with page.expect_response(f"**{METRIC}/editor_seconds?by=os"):
        page.clock.fast_forward(31_000)
    page.wait_for_selector("h1:has-text('editor_seconds')")
    assert page.evaluate("document.querySelector('#numbers').open") is False, "what was folded stays folded"
    assert page.evaluate("document.activeElement.value") == "linux"
    assert page.evaluate("[scrollY, String(getSelection())]") == [scroll, selected]
    assert chart.evaluate("chart => chart.isConnected"), "what has not changed is not drawn again"


def test_a_page_says_since_when_its_figures_are_old_and_recovers(visit: Any) -> None:
    """Also one whose rounds are all sealed, and one that is logged out."""
    visitor = visit()
    visitor.page.clock.install()
    for path in ("/", "/plans/app-usage"):
        page = visitor.go(path)
        page.evaluate("document.querySelector('main').dataset.refresh = '120'")
        assert page.is_hidden("#away")
        page.route("**/*", lambda route: route.abort())
        page.clock.fast_forward(121_000)
        page.wait_for_selector("#away:has-text('has not answered since')")
        page.unroute("**/*")
        page.route("**/*", lambda route: route.fulfill(status=401, body="who are you"))
        page.clock.fast_forward(31_000)
        page.wait_for_selector("#away:has-text('logged out')")
        page.unroute("**/*")
        page.clock.fast_forward(31_000)
        page.wait_for_selector("#away", state="hidden")
    assert all("Failed to load resource" in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()


LONG = CLEAR + '[segments]\nos = ["linux", "macos"]\n'


def test_a_long_series_is_one_drawing_that_is_printed_and_downloaded(visit: Any, make_world: Any) -> None:
    world = make_world(LONG)
    fleet = SdkFleet(world.plan, 6, seed=5, segments=[{"os": "linux"}, {"os": "macos"}] * 3)
    last = world.plan.round_at(world.now) - 3
    for number in range(last - 159, last + 1):
        world.answer(fleet, number, {"minutes": [number % 300] * 6})
    begins = world.plan.round(last - 159).start
    world.store.put_note(Note("first", begins, "", "2.2 released"))
    visitor = visit(viewport={"width": 1000, "height": 900}, timezone_id="Asia/Tokyo")
    visitor.home = f"http://127.0.0.1:{world.port}"
    page = visitor.go("/plans/small/metrics/minutes?every=round&rounds=200&by=os")
    assert page.is_visible(".chart.wide.series")
    titles = "[...document.querySelectorAll('.chart.wide.series .unit')].map(text => text.textContent)"
    assert page.evaluate(titles) == ["linux, h", "macos, h"], "a strip for each tag"
    assert page.query_selector("canvas") is None
    assert page.is_visible(".flags:has-text('2.2 released')"), "also before the periods of the table"

    page.click("#numbers summary")
    begins = page.query_selector("#numbers time")
    assert begins.get_attribute("title").endswith("UTC")
    assert "UTC" not in begins.inner_text(), "times of day are the reader's own"
    with page.expect_download() as download:
        page.click("[data-png]")
    assert download.value.suggested_filename == "minutes.png"
    page.emulate_media(media="print")
    assert page.is_visible(".chart.wide.series")
    assert page.is_hidden(".controls")
    assert visitor.ground() == "rgb(255, 255, 255)", "paper is not grey"
    assert page.inner_text("figcaption").split()[:2] == ["linux", "macos"]


def test_a_phone_shows_a_figure_on_its_first_screen(visit: Any) -> None:
    """Choices that are rarely made are folded, unless they are."""
    visitor = visit(viewport={"width": 390, "height": 844}, has_touch=True)
    for path in (f"{METRIC}/editor_seconds?by=os", f"{METRIC}/editor_spread", f"{METRIC}/starts"):
        page = visitor.go(path)
        assert page.query_selector(".figure strong").bounding_box()["y"] < 844 / 2, path
        assert page.is_hidden("select[name=confidence]")
    page = visitor.go("/")
    assert page.query_selector(".metrics .now").bounding_box()["y"] < 844 * 0.75
    page = visitor.go(f"{METRIC}/editor_seconds?confidence=99")
    assert page.is_visible("select[name=confidence]")


def test_many_tags_are_folded_but_for_those_that_are_drawn(visit: Any, make_world: Any) -> None:
    names = [f"c{number:02}" for number in range(30)]
    world = make_world(CLEAR + f"[segments]\ncountry = {names}\n".replace("'", '"'))
    fleet = SdkFleet(world.plan, 30, seed=5, segments=[{"country": name} for name in names])
    world.answer(fleet, world.plan.round_at(world.now) - 3, {"minutes": [60] * 30})
    visitor = visit(viewport={"width": 390, "height": 844}, has_touch=True)
    visitor.home = f"http://127.0.0.1:{world.port}"
    page = visitor.go("/plans/small/metrics/minutes?every=round&by=country")
    assert page.query_selector(".figure strong").bounding_box()["y"] < 844 / 2
    assert page.is_visible("input[value=c00]")
    assert page.is_hidden("input[value=c29]")
    page.click("summary:has-text('26 more')")
    page.locator("input[value=c29]").evaluate("box => box.click()")
    page.wait_for_url("**tag=c29**")
    assert page.is_checked("input[value=c29]")


def test_metrics_are_found_while_typing(visit: Any) -> None:
    visitor = visit()
    page = visitor.go("/")
    page.fill("input[type=search]", "browser")
    shown = "[...document.querySelectorAll('tr[data-text]')].filter(row => row.offsetHeight).length"
    assert page.evaluate(shown) == 1
    page.fill("input[type=search]", "")
    assert page.evaluate(shown) == 4


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_no_page_scrolls_sideways_and_no_labels_touch(visit: Any, width: int) -> None:
    visitor = visit(viewport={"width": width, "height": 740}, has_touch=width < 1000)
    cut = "box => box.scrollWidth > box.clientWidth + 1"
    boxes = "[...document.querySelectorAll('.panel, .scroll:has(.metrics)')]"
    heights = "[...document.querySelectorAll('.chart text')].map(text => text.getBoundingClientRect().height)"
    for path in PAGES:
        page = visitor.go(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.evaluate(OVERLAPS) == [], path
        assert page.evaluate(f"{boxes}.filter({cut}).length") == 0, f"{path}: tables stay inside their panels"
        assert max(page.evaluate(heights), default=0) < 24, f"{path}: no chart is blown up to fill its place"


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (768, "light")])
def test_axe_finds_no_barrier_on_any_page(visit: Any, width: int, scheme: str) -> None:
    """Contrast, names, roles and focus, by the rules of axe-core; a link without a name is found."""
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    script = Path(axe.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    visitor = visit(viewport={"width": width, "height": 800}, color_scheme=scheme, has_touch=width < 700)
    for path in PAGES:
        page = visitor.go(path)
        page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        page.evaluate(script)
        assert [(one["id"], one["nodes"][0]["html"]) for one in page.evaluate(AXE)] == [], path
    page.evaluate("document.querySelector('main').innerHTML += '<a href=/></a>'")
    assert [one["id"] for one in page.evaluate(AXE)] == ["link-name"]


def test_everything_can_be_read_without_a_script(visit: Any) -> None:
    visitor = visit(java_script_enabled=False, viewport={"width": 1000, "height": 800})
    page = visitor.go(f"{METRIC}/editor_seconds?by=os")
    assert page.is_visible(".chart.wide.series")
    assert page.is_hidden("#theme")
    page.uncheck("input[value=linux]")
    page.click("button:has-text('Show')")
    page.wait_for_url("**tag=windows**")
    boxes = page.query_selector_all("input[type=checkbox]")
    assert sorted(box.get_attribute("value") for box in boxes if box.is_checked()) == ["macos", "windows"]
    assert visitor.visible() == {"macos", "windows"}
    visitor.go(f"{METRIC}/editor_spread")
    page.click("text=Norm-Sub >> nth=0")
    page.wait_for_url("**view=norm-sub#shares")
    assert "Norm-Sub is the nearest histogram" in page.inner_text("#shares")


def test_sliders_show_what_the_server_works_out(visit: Any, world: Any) -> None:
    visitor = visit(viewport={"width": 1200, "height": 900})
    page = visitor.go("/plans/app-usage")
    with page.expect_response("**/plans/app-usage/what-if?**") as answer:
        page.evaluate(
            "slider => { slider.value = 500; slider.dispatchEvent(new Event('input', { bubbles: true })) }",
            page.query_selector("[data-for=what-epsilon]"),
        )
    assert answer.value.status == 200
    page.wait_for_selector("#what-if-plan", state="attached")
    assert page.input_value("#what-epsilon") == "1"
    assert "epsilon=1" in page.url
    shown = page.inner_text("#what-if-figures tr:has-text('constant device') td:last-child")
    answered = world.get(f"/plans/app-usage/what-if{page.evaluate('location.search')}").page
    (row,) = [row for row in answered.rows if row[0] == "constant device"]
    assert shown == row[2] != row[1]
    page.reload()
    assert page.input_value("#what-epsilon") == "1", "the address says what is set"
    page.fill("#what-devices", "0")
    page.wait_for_selector("#what-if-fault:visible")
    assert "devices: expected" in page.inner_text("#what-if-fault")
    visitor.complaints.clear()  # the browser notes the 400


def test_other_parameters_without_a_script(visit: Any) -> None:
    page = visit(java_script_enabled=False, viewport={"width": 1000, "height": 800}).go("/plans/app-usage")
    assert page.is_hidden("[data-for=what-epsilon]")
    page.fill("#what-epsilon", "0.5")
    page.click("#what-if button")
    page.wait_for_url("**epsilon=0.5**")
    assert page.input_value("#what-epsilon") == "0.5"
    assert page.is_visible("#what-if-plan")
