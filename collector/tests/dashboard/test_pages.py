"""What stands on the pages: the reader's figures, and nothing from elsewhere."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import astuple, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest
from collector.tests.dashboard.conftest import FIRST
from tests.shared.plans import CLEAR

from reticent.plan import Plan
from reticent.reports import Report
from reticent_collector.dashboard import labels, login_page
from reticent_collector.dashboard.views import size_of
from reticent_collector.estimates import expected_half_width, norm_sub
from reticent_collector.estimates.table import csv_text
from reticent_collector.figures import Unit
from reticent_collector.privacy import CLAIMS
from reticent_collector.privacy.card import privacy_card
from reticent_collector.results import Selection
from reticent_collector.stores import Layout, RoundKey
from reticent_lab.fleet import SdkFleet

METRIC = "/plans/app-usage/metrics"
PAGES = [
    "/",
    "/plans/app-usage",
    "/plans/app-usage?rounds=14",
    "/?every=week&rounds=4&search=editor",
    f"{METRIC}/editor_seconds",
    f"{METRIC}/editor_seconds?every=round&by=os&tag=linux&confidence=99&rounds=200",
    f"{METRIC}/editor_spread?by=os&at=2026-09-22&since=2026-09-21&until=2026-09-23",
    f"{METRIC}/browser_seconds?by=channel",
    f"{METRIC}/editor_spread",
    f"{METRIC}/editor_spread?view=norm-sub&segment=os:linux&confidence=80",
    f"{METRIC}/starts",
    "/health",
    "/plans/nope",
    f"{METRIC}/nope",
    "/plans/app-usage?rounds=many",
]
HOSTILE = (
    """</title><script>alert('x')</script><img src=x onerror=alert(1)>"' style="color:red" {{7*7}} &amp;"""
)


def table_of(page: Any) -> tuple[str, list[list[str]]]:
    """The table of a mean over time: its unit, and its rows."""
    head, *rows = [row for row in page.rows if len(row) == 5]
    return head[1].partition(", ")[2], rows


def cards(world: Any, path: str) -> dict[str, str]:
    """What the overview says of each metric, without its name."""
    page = world.get(path).page
    return {row[0]: " ".join(row[1:]) for row in page.rows if row[0] in world.results.plan("quick").by_name}


NOTHING = "No estimate yet: no round has the 1 reports that a figure needs."


def headline_of(page: Any) -> str:
    """What is said of the latest figure: its value, when it is of, and how many reports it has."""
    return " ".join(page.texts).partition("What the ± is made of")[0]


SIZES = {"": 1, "seconds": 1, "min": 60, "h": 3600, "%": 0.01}


def read_back(text: str, unit: str) -> tuple[float, float]:
    """A printed number in the plan's unit, and what its last digit stands for."""
    plain = text.replace(",", "").replace("−", "-")
    digits = plain.partition(".")[2]
    zeros = len(plain) - len(plain.rstrip("0")) if not digits else 0
    return float(plain) * SIZES[unit], 10.0 ** (zeros - len(digits)) * SIZES[unit]


def check_figure(text: str, unit: str, truth: dict[str, Any]) -> None:
    """The value and its ± as printed are the true ones, rounded to two digits of the ±."""
    for part, name in zip(text.split(" ± "), ("value", "half_width"), strict=True):
        number, _ = read_back(part, unit)
        assert number == pytest.approx(truth[name], abs=0.051 * truth["half_width"] + 1e-9)
    significant = text.partition(" ± ")[2].replace(",", "").replace(".", "").lstrip("0")
    assert len(significant.rstrip("0")) <= 2


def check_interval(text: str, unit: str, truth: dict[str, Any]) -> None:
    """The printed interval holds the true one, and is hardly wider."""
    (low, _), (high, _) = (read_back(part, unit) for part in text.split(" to "))
    assert low <= truth["lower"] + 1e-9
    assert high >= truth["upper"] - 1e-9
    assert high - low <= truth["upper"] - truth["lower"] + 0.4 * truth["half_width"]


def check_safe(page: Any) -> None:
    """Nothing inline, nothing from elsewhere: what the content security policy would stop, and more."""
    assert "".join(page.scripts).strip() == ""
    assert not page.all("style")
    for tag, attributes in page.tags:
        wrong = [name for name in attributes if name == "style" or name.startswith("on")]
        assert not wrong, (tag, wrong)
        assert tag not in ("iframe", "object", "embed", "base", "img")
    for address in page.addresses:
        parts = urlsplit(address)
        assert (parts.scheme, parts.netloc) == ("", ""), address
        assert address.startswith(("/", "#", "?")), address
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_anything_inline_or_from_elsewhere(world: Any, path: str) -> None:
    answer = world.get(path)
    check_safe(answer.page)
    outside = re.findall(r"(?:https?:)?//[\w.-]+", answer.text)
    assert {address for address in outside if address != "http://www.w3.org"} == set()
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


def test_the_check_of_pages_would_notice(world: Any) -> None:
    page = world.get("/").page
    for bad in ("<p style='x'>", "<a href='https://a.example'>", "<b onclick=x>", "<script>1</script>"):
        with pytest.raises(AssertionError):
            check_safe(type(page)(bad))


def test_every_link_leads_somewhere(world: Any) -> None:
    seen, waiting = set(), ["/"]
    while waiting:
        path = waiting.pop().partition("#")[0]
        if not path or path in seen or path in ("/login", "/logout"):
            continue
        seen.add(path)
        if path.startswith(("/v1/", "/metrics")):  # the collector's: see test_the_data_of_a_page_is_there
            continue
        answer = world.get(path)
        assert answer.status == 200, path
        if answer.headers["content-type"].startswith("text/html"):
            waiting += [address for address in answer.page.addresses if len(seen) < 80]
    assert {f"{METRIC}/starts", "/health", "/v1/plans"} <= seen
    assert any(path.startswith("/v1/estimates?plan=app-usage&metric=") for path in seen)
    assert any(path.endswith(".csv") for path in seen), "also in the view that a page opens with"


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/", "/v1/plans"),
        ("/plans/app-usage?rounds=14", "/v1/rounds?plan=app-usage&last=14"),
        (
            f"{METRIC}/starts?every=day&since=2026-09-22&until=2026-09-23&by=os&confidence=99&segment=channel:beta",
            "/v1/estimates?plan=app-usage&metric=starts&confidence=0.99&every=day&by=os&last=1000"
            "&since=1790035200&until=1790208000&segment=channel:beta",
        ),
    ],
)
def test_every_page_of_figures_links_to_its_data(world: Any, path: str, data: str) -> None:
    assert data in world.get(path).page.addresses


@pytest.mark.parametrize(
    "path", ["/index.json", "/plans/app-usage.json", f"{METRIC}/starts.json", "/health.json"]
)
def test_a_page_has_no_second_form(world: Any, path: str) -> None:
    assert world.get(path).status == 404


@pytest.mark.parametrize(
    "path", [path for path in PAGES if "nope" not in path and "health" not in path and "many" not in path]
)
def test_every_page_says_whom_its_figures_are_about(world: Any, path: str) -> None:
    assert "about the devices that take part" in world.get(path).text


@pytest.mark.parametrize(("confidence", "every"), [(80, "round"), (99, "round"), (95, "day"), (95, "week")])
def test_a_mean_on_the_page_is_the_readers(world: Any, confidence: int, every: str) -> None:
    path = f"{METRIC}/editor_seconds?confidence={confidence}&every={every}"
    truth = world.results.estimates(
        Selection("app-usage", "editor_seconds", last=60, confidence=confidence / 100, every=every)
    )
    assert len(truth) == {"round": 11, "day": 4, "week": 1}[every]
    unit, rows = table_of(world.get(path).page)
    for row, result in zip(rows, truth, strict=True):
        figure = result.estimate.to_dict()
        assert row[0] == labels.period(result.start, result.end, result.every)
        check_figure(row[1], unit, figure)
        check_interval(row[2], unit, figure)
        some = f"{result.rounds} of {result.period.possible_rounds} rounds"
        missing = some if result.state == "sealed" and result.rounds_missing else ""
        assert row[3:] == [f"{result.estimate.reports:,}", f"{result.state}{missing}"]
    if every == "day":
        assert "3 of 4 rounds" in str(rows), "a sealed day without one of its rounds says so"


def test_the_headline_is_the_latest_sealed_period_and_says_how_it_changed(world: Any) -> None:
    provisional, sealed, *_ = world.results.estimates(Selection("app-usage", "editor_seconds", every="day"))
    assert (provisional.state, sealed.state) == ("open", "sealed")
    (change,) = world.results.changes(
        Selection("app-usage", "editor_seconds", every="day", since=sealed.start, until=sealed.start + 1)
    )
    text = world.get(f"{METRIC}/editor_seconds?every=day&against=before").text
    figure, unit = re.search(r"<strong>([^<]+)</strong> <span class=\"unit\">([^<]*)<", text).groups()  # type: ignore[union-attr]
    check_figure(figure, unit, sealed.estimate.to_dict())
    words = size_of(change.estimate, Unit(SIZES[unit], unit))
    spans = [
        tag.get("class", "").split()
        for tag in world.get(f"{METRIC}/editor_seconds?every=day&against=before").page.all("span")
    ]
    marks = [" ".join(names) for names in spans if "change" in names]
    assert marks == ["change clear" if change.clear else "change"]
    assert words in text
    assert 'class="dot open"' in text
    assert f"<b>{figure}</b> {unit}" in world.get("/?every=day").text


def test_what_the_half_width_is_made_of_and_what_more_devices_would_give(world: Any) -> None:
    (result,) = world.results.estimates(Selection("app-usage", "editor_seconds", rounds=[FIRST + 3]))
    page = world.get(f"{METRIC}/editor_seconds?every=round&since=2026-09-22&until=2026-09-22").page
    midnight = int(datetime(2026, 9, 23, tzinfo=UTC).timestamp())
    estimate = world.results.estimates(
        Selection("app-usage", "editor_seconds", every="round", until=midnight)
    )[0].estimate
    assert estimate.noise_half_width**2 + estimate.sampling_half_width**2 == pytest.approx(
        estimate.half_width**2
    )
    texts = " ".join(page.texts)
    unit, _ = table_of(page)
    for reach in (
        estimate.noise_half_width,
        estimate.sampling_half_width,
        estimate.half_width,
        estimate.paper_bound,
        0.01 * estimate.manipulation,
    ):
        assert f"± {labels.rounded(reach / SIZES[unit], 2)} {unit}" in texts, "all in the unit of the page"
    four = expected_half_width(world.plan.by_name["editor_seconds"], 4 * estimate.devices, at=estimate.value)
    assert four == pytest.approx(estimate.half_width / 2, rel=0.05)
    (shown,) = {text for text in page.texts if text.startswith("With 4 times")}
    assert read_back(*shown.removeprefix("With 4 times the devices: ± ").removesuffix(".").split())[0] == (
        pytest.approx(four, rel=0.05)
    )
    assert result.rounds_missing == 0


def test_segments_are_compared_line_by_line(world: Any) -> None:
    path = f"{METRIC}/editor_seconds?every=round&by=os"
    truth = world.results.estimates(Selection("app-usage", "editor_seconds", last=60, by="os", every="round"))
    page = world.get(path).page
    lines = [tag for tag in page.all("g") if "data-line" in tag]
    assert [tag["data-line"] for tag in lines] == ["windows", "macos", "linux"] * 2
    unit, _ = table_of(page)
    for tag in ("windows", "macos", "linux"):
        latest = next(one for one in truth if one.segment == {"os": tag} and one.state == "sealed")
        (row,) = [row for row in page.rows if row[0] == tag]
        check_figure(row[1], unit, latest.estimate.to_dict())
    only = world.get(f"{path}&tag=macos").page
    visible = {tag["data-line"] for tag in only.all("g") if "data-line" in tag}
    assert visible == {"macos"}
    boxes = {tag["value"]: "checked" in tag for tag in only.all("input") if tag.get("type") == "checkbox"}
    assert boxes == {"windows": False, "macos": True, "linux": False}


@pytest.mark.parametrize("every", ["round", "day"])
@pytest.mark.parametrize("metric", ["editor_spread", "starts"])
def test_a_histogram_on_the_page_is_the_readers(world: Any, metric: str, every: str) -> None:
    results = world.results.estimates(Selection("app-usage", metric, last=60, every=every))
    result = next(result for result in results if result.state == "sealed")
    apart = world.results.estimates(
        Selection("app-usage", metric, every=every, by="os", since=result.start, until=result.start + 1)
    )
    page = world.get(f"{METRIC}/{metric}?every={every}&by=os").page
    rows = [row for row in page.rows if re.fullmatch(r"[\d.,]+ to [\d.,]+", row[0])]
    by_tag, rows = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    assert labels.period(result.start, result.end, every) in page.texts
    buckets = [bucket.to_dict() for bucket in result.estimate.buckets]
    for row, bucket, projected in zip(rows, buckets, norm_sub(result.estimate), strict=True):
        check_figure(row[1], "%", bucket)
        check_interval(row[2], "%", bucket)
        assert read_back(row[3], "%")[0] == pytest.approx(projected, abs=0.06 * bucket["half_width"])
        assert row[4] == f"{bucket['reports']:,}"
        place = rows.index(row)
        for text, one in zip(by_tag[place][1:], apart, strict=True):
            check_figure(text, "%", one.estimate.buckets[place].to_dict())


def test_a_median_is_told_by_the_buckets_it_lies_in_and_never_finer(make_world: Callable[..., Any]) -> None:
    """Nine of ten devices have exactly 0: a point inside of the first bucket would be made up."""
    world = make_world(
        CLEAR.replace('kind = "mean"', 'kind = "histogram"\nmechanism = "hadamard-bit"\nbuckets = 6')
    )
    number = world.plan.round_at(world.now) - 2
    world.answer(SdkFleet(world.plan, 3000, seed=2), number, {"minutes": [0] * 2700 + [200] * 300})
    page = "/plans/small/metrics/minutes"
    for path in (page, "/"):
        texts = " ".join(world.get(path).page.texts)
        assert "between 0 and 1 h" in texts
        assert "sharp" not in texts
    few = make_world(world.plan.text)
    few.answer(SdkFleet(few.plan, 120, seed=2), number, {"minutes": [20, 200] * 60})
    (result,) = few.results.estimates(Selection("small", "minutes", every="round"))
    median = result.cumulative.quantile(0.5)
    buckets = round((median.upper - median.lower) / 60)
    assert buckets > 1
    assert f"within {buckets} of 6 buckets" in " ".join(few.get(page).page.texts)


def test_a_link_names_a_period_by_its_date_and_lasts(world: Any) -> None:
    """Also when the period has left the range that is shown; and where there is none, the page says so."""
    newest, *_, oldest = [
        result
        for result in world.results.estimates(Selection("app-usage", "starts", every="day"))
        if result.state == "sealed"
    ]
    (link,) = [
        tag["href"]
        for tag in world.get(f"{METRIC}/starts?every=day").page.all("a")
        if tag.get("rel") == "bookmark"
    ]
    day = datetime.fromtimestamp(newest.start, UTC).strftime("%Y-%m-%d")
    assert link == f"{METRIC}/starts?every=day&at={day}"
    day = datetime.fromtimestamp(oldest.start, UTC).strftime("%Y-%m-%d")
    said = headline_of(world.get(f"{METRIC}/starts?rounds=1&every=day&at={day}").page)
    assert f"{labels.period(oldest.start, oldest.end, 'day')} · {oldest.estimate.reports:,} reports" in said
    start = (FIRST + 2) * 21_600
    at = datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%M")
    said = headline_of(world.get(f"{METRIC}/starts?rounds=1&every=round&at={at}").page)
    assert f"{labels.period(start, start + 21_600, 'round')} · 400 reports" in said
    gone = world.get(f"{METRIC}/starts?at=2025-01-01")
    assert gone.status == 200
    assert "No figure at 1 Jan 2025" in gone.text


def test_tables_and_charts_are_files_with_the_same_figures(world: Any) -> None:
    table = world.get(f"{METRIC}/editor_spread.csv?every=day&by=os")
    assert table.headers["content-disposition"] == 'attachment; filename="editor_spread.csv"'
    truth = world.results.estimates(Selection("app-usage", "editor_spread", last=60, by="os", every="day"))
    assert table.text == csv_text(truth.rows)
    for chart in ("series", "shares", "below"):
        answer = world.get(f"{METRIC}/editor_spread.svg?chart={chart}&by=os")
        assert answer.headers["content-type"] == "image/svg+xml"
        tree = ElementTree.fromstring(answer.text)  # noqa: S314  (our own)
        texts = ["".join(text.itertext()) for text in tree.iter("{http://www.w3.org/2000/svg}text")]
        assert any("editor_spread" in text for text in texts)
        if chart == "shares":
            assert {"windows", "macos", "linux"} <= set(texts), "the legend goes with it"
    for metric, chart in (
        ("editor_seconds", "series"),
        ("editor_spread", "shares"),
        ("editor_spread", "below"),
    ):
        title = f"{METRIC}/{metric}.svg?chart={chart}"
        assert ", os linux, with" in world.get(f"{title}&segment=os:linux").text, "whose figures they are"
        assert ", os linux" not in world.get(title).text
    missing = world.get(f"{METRIC}/editor_seconds.svg?chart=below")
    assert missing.status == 404


def test_the_overview_finds_and_keeps_what_was_chosen(world: Any) -> None:
    def names(query: str) -> set[str]:
        addresses = [urlsplit(address).path for address in world.get(f"/{query}").page.addresses]
        return {address.rpartition("/")[2] for address in addresses if address.startswith(METRIC)}

    assert names("") == {metric.name for metric in world.plan.metrics}
    assert names("?search=BROWSER") == {"browser_seconds"}
    page = world.get("/?every=week&confidence=99").page
    links = [address for address in page.addresses if "/metrics/" in address]
    assert links
    assert all(link.endswith("?confidence=99&every=week") for link in links)
    (week,) = world.results.periods(Selection("app-usage", every="week"))
    assert labels.period(week.start, week.end, "week") in " ".join(page.texts)


def test_the_privacy_card_is_in_plain_words(world: Any) -> None:
    card = privacy_card(world.plan)
    assert math.isinf(card.metrics["browser_seconds"].change_per_round)
    page = world.get("/plans/app-usage").page
    by_name = {row[0]: row[1:] for row in page.rows if len(row) == 6}
    for name, losses in [*card.metrics.items(), ("whole plan", card.loss)]:
        for figure, truth in zip(by_name[name], astuple(losses), strict=True):
            if math.isinf(truth):
                assert figure == "infinite"
            else:
                assert truth <= float(figure.replace(",", "")) <= truth * 1.001, "rounded up, never down"
    assert by_name["browser_seconds"][3:] == ["infinite", "infinite"]
    assert by_name["whole plan"][3:] == ["infinite", "infinite"]
    assert float(by_name["group apps"][0]) >= card.groups["apps"].round
    assert any(CLAIMS["lifetime"].says(card.lifetime) in text for text in page.texts)
    assert any("Not hidden: that a device takes part" in text for text in page.texts)
    listed = [row[1] for row in page.rows if len(row) == 6 and row[1].isdigit()]
    assert listed == [str(info.key.round) for info in world.store.rounds()]


def test_a_tag_has_one_place_and_one_colour_whatever_the_reports(make_world: Callable[..., Any]) -> None:
    """The plan's order, so nothing moves when devices come and go; and no more lines than eyes tell apart."""
    tags = [f"t{place:02}" for place in range(12)]
    world = make_world(f"{CLEAR}[segments]\nkind = {tags}\n".replace("'", '"'))
    last = world.plan.round_at(world.now) - 1
    path = "/plans/small/metrics/minutes?every=round&by=kind"

    def drawn(query: str = "") -> list[tuple[str, str]]:
        lines = [tag for tag in world.get(path + query).page.all("g") if "data-line" in tag]
        return [(tag["data-line"], tag["class"].split()[1]) for tag in lines[: len(lines) // 2]]

    for number, present in ((last - 3, [tags[7], tags[1], tags[2]]), (last - 2, [*tags[5:9], tags[0]])):
        segments = [{"kind": tag} for tag in present for _ in range(9)]
        fleet = SdkFleet(world.plan, len(segments), seed=4, segments=segments)
        world.answer(fleet, number, {"minutes": [60] * len(segments)})
        if number == last - 3:
            assert drawn() == [("t01", "shade-1"), ("t02", "shade-2"), ("t07", "shade-7")]
    assert drawn("&tag=t02&tag=t08") == [("t02", "shade-2"), ("t08", "shade-0")]
    boxes = [tag["value"] for tag in world.get(path).page.all("input") if tag.get("type") == "checkbox"]
    assert boxes == [*tags[:3], *tags[5:9]]


@pytest.mark.parametrize("sampled", [False, True])
def test_what_more_rounds_are_worth_depends_on_how_a_plan_is_answered(
    make_world: Callable[..., Any], sampled: bool
) -> None:
    """Remembered answers are the same noise again; sampled ones are drawn again, and nothing in them lasts."""
    answers = '[answers]\nkind = "sampled"\nwindow = "1d"\n' if sampled else ""
    world = make_world(CLEAR + answers)
    number = world.plan.round_at(world.now) - 1
    world.answer(SdkFleet(world.plan, 80, seed=2), number, {"minutes": [4] * 80})
    metric, plan = world.get("/plans/small/metrics/minutes").text, world.get("/plans/small").text
    assert ("because devices memoize their answers" in metric) is not sampled
    assert ("each window draws new answers" in metric) is sampled
    assert ("its cohort, one byte that never changes" in plan) is not sampled
    assert (
        "does not cover two: each window adds the same loss again" in plan.replace("&#39;", "'")
    ) is sampled
    assert "Network addresses are neither stored" in plan


def test_reports_that_no_honest_fleet_sends_are_pointed_out(make_world: Callable[..., Any]) -> None:
    world = make_world(CLEAR)
    layout, number = Layout(world.plan), world.plan.round_at(world.now) - 1
    ones = [Report("small", 1, number, place.to_bytes(16, "big"), b"\x80") for place in range(500)]
    key = RoundKey("small", 1, number)
    world.store.append({key: b"".join(layout.pack(report) for report in ones)})
    world.store.seal(key)
    page = world.get("/plans/small/metrics/minutes").text
    assert "No true value within the range explains these reports" in page
    assert "<b>odd</b>" in page
    assert "<b>odd</b>" in world.get("/").text


def test_hostile_text_is_shown_as_text(make_world: Callable[..., Any]) -> None:
    quoted = HOSTILE.replace('"', '\\"')
    text = f"""
min_reports = 1
[plan]
name = "hostile"
version = 1
round = "6h"
owner = "{quoted}"
[metrics.mean]
kind = "mean"
unit = "{quoted}"
description = "{quoted}"
max_value = 10
epsilon = 2.0
[metrics.spread]
kind = "histogram"
unit = "{quoted}"
description = "{quoted}"
max_value = 10
buckets = 4
mechanism = "hadamard-bit"
epsilon = 2.0
[segments]
os = ["a", "b"]
"""
    world = make_world(text)
    world.health = replace(world.health, version=HOSTILE, store=HOSTILE, rejected={HOSTILE: 3})
    fleet = SdkFleet(world.plan, 80, seed=2, segments=[{"os": "a"}] * 80)
    number = world.plan.round_at(world.now) - 1
    for place in range(3):
        world.answer(fleet, number - place, {"mean": [4] * 80, "spread": [4] * 80}, seal=place > 0)
    query = "?by=" + "%3Cscript%3Ealert(1)%3C/script%3E"
    for path in (
        "/",
        "/plans/hostile",
        "/plans/hostile/metrics/mean",
        "/plans/hostile/metrics/mean?by=os",
        "/plans/hostile/metrics/spread",
        "/health",
        "/plans/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        f"/plans/hostile/metrics/mean{query}",
    ):
        answer = world.get(path)
        assert answer.status in (200, 400, 404), path
        check_safe(answer.page)
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text
        assert "49" not in "".join(text for text in answer.page.texts if "7*7" in text)
    assert HOSTILE in " ".join(world.get("/plans/hostile").page.texts)


def test_the_login_page_asks_for_a_key_and_goes_nowhere_else(world: Any) -> None:
    page_of = type(world.get("/").page)
    page = page_of(login_page(HOSTILE, "/plans/app-usage?by=os"))
    check_safe(page)
    (form,) = page.all("form")
    assert (form["method"], form["action"]) == ("post", "/login")
    fields = {tag["name"]: tag for tag in page.all("input")}
    assert fields["key"]["type"] == "password"
    assert (fields["next"]["type"], fields["next"]["value"]) == ("hidden", "/plans/app-usage?by=os")


def test_a_log_out_button_stands_on_every_page_for_who_is_logged_in(make_world: Callable[..., Any]) -> None:
    world = make_world()
    paths = ["/", "/plans/app-usage", f"{METRIC}/starts", "/health", "/plans/nope"]
    for logged_in in (False, True):
        world.logged_in = logged_in
        for path in paths:
            forms = [form for form in world.get(path).page.all("form") if form["action"] == "/logout"]
            assert [form["method"] for form in forms] == (["post"] if logged_in else [])


def test_links_keep_what_was_chosen(world: Any) -> None:
    """And leave out what is usual, so that an address stays short."""
    page = f"{METRIC}/editor_spread"
    query = "?confidence=99&rounds=14&every=day&segment=os:linux&at=2026-09-23&view=norm-sub"
    tags = world.get(page + query).page.all("a")
    links = {link["rel"]: link["href"] for link in tags if "rel" in link and link["rel"] != "nofollow"}
    assert links["prev"] == page + query.replace("-23", "-22")
    assert links["next"] == page + query.replace("-23", "-24")
    views = [link["href"] for link in tags if link.get("rel") == "nofollow"]
    assert views[0] == page + query.removesuffix("&view=norm-sub") + "#shares"
    usual = [link["href"] for link in world.get(page).page.all("a") if link.get("rel") == "nofollow"]
    assert usual == [f"{page}{view}#shares" for view in ("", "?view=raw", "?view=norm-sub")]


@pytest.mark.parametrize(
    ("query", "every", "rounds"),
    [
        ("every=week&rounds=53", "day", 371),
        ("every=day&rounds=91", "week", 13),
        ("every=month&rounds=24", "week", 104),
    ],
)
def test_other_periods_show_as_much_time(world: Any, query: str, every: str, rounds: int) -> None:
    links = world.get(f"{METRIC}/starts?{query}").page.addresses
    (link,) = {
        link for link in links if f"every={every}" in link and link.startswith(METRIC) and ".svg" not in link
    }
    assert f"rounds={rounds}" in link


def test_bars_below_zero_are_drawn_when_asked_for_and_always_in_the_table(world: Any) -> None:
    """Each share is unbiased, so that it may be negative."""
    page = f"{METRIC}/editor_spread?every=day"
    (result, *_) = [
        one
        for one in world.results.estimates(Selection("app-usage", "editor_spread", every="day"))
        if one.state == "sealed"
    ]
    assert min(result.estimate.values) < -0.01

    def lowest(view: str) -> float:
        figure = world.get(f"{page}&view={view}").page
        chart = next(
            place for place, (tag, of) in enumerate(figure.tags) if "chart histogram" in of.get("class", "")
        )
        bars = [of for tag, of in figure.tags[chart:] if tag == "rect" and of.get("class") == "bar"]
        bars = bars[: len(result.estimate.values)]
        zero = min(float(bar["y"]) + float(bar["height"]) for bar in bars)
        return max(float(bar["y"]) + float(bar["height"]) for bar in bars) - zero

    assert lowest("cut") == lowest("norm-sub") == 0
    assert lowest("raw") > 1
    for view in ("cut", "raw"):
        rows = [
            row
            for row in world.get(f"{page}&view={view}").page.rows
            if re.fullmatch(r"[\d.,]+ to [\d.,]+", row[0])
        ]
        for row, bucket in zip(rows, result.estimate.buckets, strict=True):
            check_figure(row[1], "%", bucket.to_dict())


def test_a_mean_of_one_tag_is_the_same_on_its_page_and_in_its_file(world: Any) -> None:
    query = "?every=day&segment=os:linux"
    truth = world.results.estimates(
        Selection("app-usage", "editor_seconds", last=60, every="day", segment={"os": "linux"})
    )
    assert world.get(f"{METRIC}/editor_seconds.csv{query}").text == csv_text(truth.rows)
    page = world.get(f"{METRIC}/editor_seconds{query}").page
    assert "os:linux" in [tag["value"] for tag in page.all("option") if "selected" in tag]
    unit, rows = table_of(page)
    for row, result in zip(rows, truth, strict=True):
        check_figure(row[1], unit, result.estimate.to_dict())
    both = world.get(f"{METRIC}/editor_seconds{query}&by=channel").page
    assert [tag["data-line"] for tag in both.all("g") if "data-line" in tag] == ["stable", "beta"] * 2


def test_dates_pick_what_is_shown_and_both_are_included(world: Any) -> None:
    query = "?every=day&since=2026-09-22&until=2026-09-23"
    _, rows = table_of(world.get(f"{METRIC}/editor_seconds{query}").page)
    assert [row[0] for row in rows] == ["Wed 23 Sep 2026", "Tue 22 Sep 2026"]


def test_a_sampled_plan_is_shown_by_window_and_by_round(make_world: Callable[..., Any]) -> None:
    world = make_world(
        CLEAR.replace('round = "6h"', 'round = "6h"\ngrace = "6h"')
        + '[answers]\nkind = "sampled"\nwindow = "2d"\n'
        + '[metrics.spread]\nkind = "histogram"\nmechanism = "hadamard-bit"\nbuckets = 4\nmax_value = 9\nepsilon = 1\n'
    )
    now = world.plan.round_at(world.now)
    window = world.plan.answers.window_of(now, world.plan.round_seconds)
    first, fleet = window.first - window.rounds, SdkFleet(world.plan, 80, seed=2)
    for number in range(first, now):
        world.answer(fleet, number, {"minutes": [4] * 80, "spread": [4] * 80})
    page = "/plans/small/metrics"
    seconds = world.plan.round_seconds
    whole = labels.period(first * seconds, window.first * seconds, "window")
    one_round = labels.period((window.first - 1) * seconds, window.first * seconds, "round")
    for metric in ("minutes", "spread"):
        assert f"{whole} · 80 reports" in headline_of(world.get(f"{page}/{metric}?every=window").page)
        assert one_round in world.get(f"{page}/{metric}?every=round").page.texts
        assert one_round not in world.get(f"{page}/{metric}?every=window").page.texts
    assert "Of 80 devices" in world.get("/plans/small").text, "those of a window, not of a round"


@pytest.mark.parametrize(("epsilon", "shown"), [("0.12341", "0.1235"), ("1.00001", "1.001"), ("2", "2.0")])
def test_a_loss_is_rounded_up_wherever_it_stands(
    make_world: Callable[..., Any], epsilon: str, shown: str
) -> None:
    world = make_world(CLEAR.replace("epsilon = 3.0", f"epsilon = {epsilon}"))
    page = world.get("/plans/small").page
    (answered,) = [row for row in page.rows if row[:2] == ["minutes", "mean"]]
    assert answered[4] == shown
    (costs,) = [row for row in page.rows if row[0] == "minutes" and row is not answered]
    assert float(costs[1]) >= float(epsilon) - 1e-12
    total = next(row for row in page.rows if row[0] == "whole plan")
    assert total[1] == costs[1] == shown


SECONDS = """
min_reports = 1
[plan]
name = "quick"
version = 1
round = "10s"
[metrics.size]
kind = "histogram"
edges = [0, 1, 2, 4, 8]
mechanism = "d-bit-flip"
bits = 1
epsilon = 1.0
[metrics.theme]
kind = "choice"
labels = ["dark", "light"]
mechanism = "d-bit-flip"
bits = 1
epsilon = 1.0
"""


@pytest.fixture
def quick(make_world: Callable[..., Any]) -> Any:
    """Rounds of ten seconds, with one report each: no bucket is asked about in all of them."""
    world = make_world(SECONDS, now=1_790_100_000.0)
    for place in range(6):
        world.answer(SdkFleet(world.plan, 1, place), 179_000_000 + place, {"size": [1], "theme": ["dark"]})
    return world


@pytest.mark.parametrize("metric", ["size", "theme"])
def test_a_day_with_single_reports_has_a_page(quick: Any, metric: str) -> None:
    page = f"/plans/quick/metrics/{metric}"
    (result,) = quick.results.estimates(Selection("quick", metric, every="day"))
    assert all(math.isnan(bucket.value) for bucket in result.estimate.buckets)
    text = quick.get(f"{page}?every=day")
    assert text.status == 200
    assert "unknown" in text.page.texts
    assert "no bound" not in text.text


def test_rounds_of_seconds_have_addresses_and_times_of_their_own(quick: Any) -> None:
    page = quick.get("/plans/quick/metrics/size?every=round").page
    times = [tag["value"] for tag in page.all("option") if tag["value"].startswith("2026-09-21T")]
    assert len({*times}) == 6
    for place, at in enumerate(times):
        start = (179_000_005 - place) * 10
        said = headline_of(quick.get(f"/plans/quick/metrics/size?every=round&at={at}").page)
        assert f"{labels.period(start, start + 10, 'round')} · 1 reports" in said
    assert "21 Sep 2026, 14:13:30 to 14:13:40 UTC" in page.texts


def test_a_time_in_seconds_ends_where_it_says(quick: Any) -> None:
    page = quick.get("/plans/quick/metrics/size?every=round&until=1790000020").page
    times = [tag["value"] for tag in page.all("option") if tag["value"].startswith("2026-09-21T")]
    assert times == [labels.address(number * 10, "round") for number in (179_000_001, 179_000_000)]


@pytest.mark.parametrize(("before", "after"), [("size", "count"), ("count", "size")])
def test_a_metric_of_another_kind_in_an_older_version_is_another_metric(
    make_world: Callable[..., Any], before: str, after: str
) -> None:
    """Its figures are on no page of the newest version, under no wrong name."""
    kinds = {"size": SECONDS, "count": SECONDS.partition("[metrics.size]")[0] + COUNT}
    world = make_world(kinds[before], now=1_790_100_000.0)
    columns = {"size": [1] * 50, **({"theme": ["dark"] * 50} if before == "size" else {})}
    world.answer(SdkFleet(world.plan, 50, 1), 179_000_000, columns)
    assert "No estimate yet" not in world.get("/plans/quick/metrics/size?every=round").text
    world.store.register(Plan.from_toml(kinds[after].replace("version = 1", "version = 2")))
    assert "No estimate yet" in world.get("/plans/quick/metrics/size?every=round").text
    assert "No result yet" in world.get("/public/quick/size").text
    assert cards(world, "/?every=round")["size"] == NOTHING


def test_the_change_of_a_metric_of_another_kind_is_not_told(make_world: Callable[..., Any]) -> None:
    """Another metric has figures in the older version, so its latest period is that of the plan."""
    head, _, rest = SECONDS.partition("[metrics.size]")
    counted = f"{head}{COUNT}[metrics.theme]{rest.partition('[metrics.theme]')[2]}"
    world = make_world(counted, now=1_790_100_000.0)
    for number in (179_000_000, 179_000_001):
        world.answer(SdkFleet(world.plan, 50, 1), number, {"size": [1] * 50, "theme": ["dark"] * 50})
    world.store.register(Plan.from_toml(SECONDS.replace("version = 1", "version = 2")))
    told = cards(world, "/?every=round")
    assert told["size"] == NOTHING
    assert "no clear change" in told["theme"]
    assert "±" in told["theme"]


COUNT = """[metrics.size]
kind = "mean"
max_value = 8
epsilon = 1.0
"""
