"""What stands on the pages: the reader's figures, the same as in the twins, and nothing from elsewhere."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import astuple, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

from reticent.dashboard import login_page
from reticent.estimates import cumulative, norm_sub
from reticent.lab.fleet import SdkFleet
from reticent.plan import privacy_card
from reticent.privacy import CLAIMS
from reticent.reports import Report
from reticent.stores import Layout, RoundKey

METRIC = "/plans/app-usage/metrics"
PAGES = [
    "/",
    "/plans/app-usage",
    "/plans/app-usage?rounds=14",
    f"{METRIC}/editor_seconds",
    f"{METRIC}/editor_seconds?by=os&tag=linux&confidence=99&rounds=200",
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


def twin_of(path: str) -> str:
    parts = urlsplit(path)
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.path if parts.path != '/' else '/index'}.json{query}"


def rounded(value: float, half_width: float) -> str:
    """A figure as pages show it, made here by another way: two significant digits of the half-width."""
    digits = max(0, 1 - math.floor(math.log10(half_width)))
    return f"{value:,.{digits}f}".replace("-", "−")


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
        answer = world.get(path)
        assert answer.status == 200, path
        if answer.headers["content-type"].startswith("text/html"):
            waiting += [address for address in answer.page.addresses if len(seen) < 80]
    assert {f"{METRIC}/starts", "/health", "/index.json", f"{METRIC}/starts.json"} <= seen


@pytest.mark.parametrize("path", [path for path in PAGES if "nope" not in path and "many" not in path])
def test_every_page_links_its_twin(world: Any, path: str) -> None:
    hrefs = [attributes.get("href") for attributes in world.get(path).page.all("a")]
    assert twin_of(path) in hrefs
    twin = world.get(twin_of(path))
    assert twin.headers["content-type"] == "application/json"
    assert isinstance(twin.json(), dict)


@pytest.mark.parametrize("path", [path for path in PAGES if "nope" not in path and "health" not in path])
def test_every_page_says_whom_its_figures_are_about(world: Any, path: str) -> None:
    assert "about the devices that take part" in world.get(path).text


@pytest.mark.parametrize("confidence", [80, 95, 99])
def test_a_mean_is_the_readers_on_the_page_and_in_the_twin(world: Any, confidence: int) -> None:
    path = f"{METRIC}/editor_seconds?confidence={confidence}"
    truth = world.results.estimates("app-usage", "editor_seconds", last=60, confidence=confidence / 100)
    (series,) = world.get(twin_of(path)).json()["series"]
    assert len(truth) == 11
    assert [(point["round"], point["state"]) for point in series["points"]] == [
        (result.round, result.state) for result in truth
    ]
    for point, result in zip(series["points"], truth, strict=True):
        for name, value in result.estimate.to_dict().items():
            assert point[name] == value
    rows = [row for row in world.get(path).page.rows if len(row) == 7][1:]
    for row, point in zip(rows, series["points"], strict=True):
        expected = [
            rounded(point[name], point["half_width"]) for name in ("value", "half_width", "lower", "upper")
        ]
        assert row[1:] == [*expected, f"{point['reports']:,}", point["state"]]


def test_the_headline_is_the_latest_sealed_round_and_the_open_one_is_provisional(world: Any) -> None:
    twin = world.get(f"{METRIC}/editor_seconds.json").json()
    open_point, sealed = twin["series"][0]["points"][:2]
    assert (open_point["state"], sealed["state"]) == ("open", "sealed")
    assert twin["latest"] == sealed
    text = world.get(f"{METRIC}/editor_seconds").text
    figure = " ± ".join(rounded(sealed[name], sealed["half_width"]) for name in ("value", "half_width"))
    assert f"<strong>{figure}</strong>" in text
    assert 'class="dot open"' in text
    overview = world.get("/").text
    assert f"<strong>{figure}</strong>" in overview
    so_far = f"{rounded(open_point['value'], open_point['half_width'])} ± "
    assert re.search(f"{so_far}[^<]*so far, 200 reports, provisional", overview)


def test_what_the_half_width_is_made_of_is_told(world: Any) -> None:
    results = world.results.estimates("app-usage", "editor_seconds", last=60)
    estimate = next(result.estimate for result in results if result.state == "sealed")
    assert estimate.noise_half_width**2 + estimate.sampling_half_width**2 == pytest.approx(
        estimate.half_width**2
    )
    texts = world.get(f"{METRIC}/editor_seconds").page.texts
    for reach in (
        estimate.noise_half_width,
        estimate.sampling_half_width,
        estimate.half_width,
        estimate.paper_bound,
        0.01 * estimate.manipulation,
    ):
        digits = max(0, 2 - math.floor(math.log10(reach)))
        assert f"± {reach:,.{digits}f} seconds" in texts
    twin = world.get(f"{METRIC}/editor_seconds.json").json()
    assert twin["manipulation_bound"] == {"share": 0.01, "moves": pytest.approx(0.01 * estimate.manipulation)}


def test_segments_are_compared_line_by_line(world: Any) -> None:
    path = f"{METRIC}/editor_seconds?by=os"
    twin = world.get(twin_of(path)).json()
    truth = world.results.estimates("app-usage", "editor_seconds", last=60, by="os")
    for series in twin["series"]:
        expected = [result for result in truth if result.segment == series["segment"]]
        assert [point["value"] for point in series["points"]] == [
            result.estimate.value for result in expected
        ]
    assert {series["segment"]["os"] for series in twin["series"]} == {"windows", "macos", "linux"}
    page = world.get(path).page
    lines = [tag for tag in page.all("g") if "data-line" in tag]
    assert [tag["data-line"] for tag in lines] == [series["segment"]["os"] for series in twin["series"]] * 2
    only = world.get(f"{path}&tag=macos").page
    visible = {tag["data-line"] for tag in only.all("g") if "data-line" in tag and "off" not in tag["class"]}
    assert visible == {"macos"}
    boxes = {tag["value"]: "checked" in tag for tag in only.all("input") if tag.get("name") == "tag"}
    assert boxes == {"windows": False, "macos": True, "linux": False}


@pytest.mark.parametrize("metric", ["editor_spread", "starts"])
def test_a_histogram_is_the_readers_on_the_page_and_in_the_twin(world: Any, metric: str) -> None:
    twin = world.get(f"{METRIC}/{metric}.json").json()
    results = world.results.estimates("app-usage", metric, last=60)
    result = next(result for result in results if result.state == "sealed")
    assert twin["round"] == result.round
    assert twin["histogram"] == result.to_dict()
    assert twin["norm_sub"] == list(norm_sub(result.estimate))
    assert sum(twin["norm_sub"]) == pytest.approx(1)
    medians = [cumulative(result.metric, result.counts).quantile(0.5).value for result in results]
    assert [point["value"] for point in twin["medians"]] == medians
    levels = [0.25, 0.5, 0.75, 0.9]
    assert twin["quantiles"] == [
        cumulative(result.metric, result.counts).quantile(level).to_dict() for level in levels
    ]
    page = world.get(f"{METRIC}/{metric}").page
    rows = [row for row in page.rows if len(row) == 7][1:]
    for row, bucket, projected in zip(rows, twin["histogram"]["buckets"], twin["norm_sub"], strict=True):
        shown = [bucket[name] for name in ("value", "half_width", "lower", "upper")] + [projected]
        expected = [rounded(100 * share, 100 * bucket["half_width"]) for share in shown]
        without_sign = [text.removeprefix("−") if not text.strip("−0.") else text for text in expected]
        assert row[1:6] == without_sign
        assert row[6] == f"{bucket['reports']:,}"


def test_a_round_can_be_chosen(world: Any) -> None:
    rounds = [result.round for result in world.results.estimates("app-usage", "starts", last=60)]
    for number in (rounds[0], rounds[4]):
        assert world.get(f"{METRIC}/starts.json?round={number}").json()["round"] == number
    page = world.get(f"{METRIC}/starts?round={rounds[4]}").page
    chosen = [tag["value"] for tag in page.all("option") if "selected" in tag]
    assert chosen[0] == str(rounds[4])
    missing = world.get(f"{METRIC}/starts?round=5")
    assert missing.status == 404
    assert "There is no round called" in missing.text


def test_the_privacy_card_is_in_plain_words_and_in_the_twin(world: Any) -> None:
    card = privacy_card(world.plan)
    twin = world.get("/plans/app-usage.json").json()
    assert twin["privacy"]["round"] == card.round
    assert twin["privacy"]["lifetime"] == card.lifetime
    assert math.isinf(card.metrics["browser_seconds"].change_per_round)
    assert twin["privacy"]["metrics"]["browser_seconds"]["change_per_round"] is None
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
    assert twin["privacy"]["any_history"] is None
    assert any("That a device takes part is public" in text for text in page.texts)
    assert [info["round"] for info in twin["rounds"]] == [info.key.round for info in world.store.rounds()]


ONE_MEAN = """
min_reports = 1
[plan]
name = "small"
version = 1
round = "6h"
[metrics.minutes]
kind = "mean"
unit = "minute"
max_value = 360
epsilon = 3.0
"""


def test_of_many_tags_the_busiest_are_drawn_and_the_asked_one_always(make_world: Callable[..., Any]) -> None:
    tags = [f"t{place:02}" for place in range(12)]
    world = make_world(f"{ONE_MEAN}[segments]\nkind = {tags}\n".replace("'", '"'))
    segments = [{"kind": tags[place]} for place in range(12) for _ in range(12 - place)]
    fleet = SdkFleet(world.plan, len(segments), seed=4, segments=segments)
    last = world.plan.round_at(world.now) - 1
    for number in (last - 1, last - 2):
        world.answer(fleet, number, {"minutes": [60] * len(segments)})
    path = "/plans/small/metrics/minutes?by=kind"

    def drawn(query: str) -> tuple[list[str], list[str]]:
        lines = [tag for tag in world.get(path + query).page.all("g") if "data-line" in tag]
        half = lines[: len(lines) // 2]
        return (
            [tag["data-line"] for tag in half],
            [tag["data-line"] for tag in half if "off" not in tag["class"]],
        )

    assert drawn("") == (tags[:8], tags[:4])
    assert drawn("&tag=t11") == (["t11", *tags[:7]], ["t11"])


@pytest.mark.parametrize("sampled", [False, True])
def test_what_more_rounds_are_worth_depends_on_how_a_plan_is_answered(
    make_world: Callable[..., Any], sampled: bool
) -> None:
    """Remembered answers are the same noise again; sampled ones are drawn anew, and nothing in them lasts."""
    answers = '[answers]\nkind = "sampled"\nwindow = "1d"\n' if sampled else ""
    world = make_world(ONE_MEAN + answers)
    number = world.plan.round_at(world.now) - 1
    world.answer(SdkFleet(world.plan, 80, seed=2), number, {"minutes": [4] * 80})
    metric, plan = world.get("/plans/small/metrics/minutes").text, world.get("/plans/small").text
    assert ("because devices remember their answers" in metric) is not sampled
    assert ("answers are drawn anew in each window" in metric) is sampled
    assert ("its cohort, one byte for ever" in plan) is not sampled
    assert ("does not hold for two: each loses as much again" in plan.replace("&#39;", "'")) is sampled
    assert "Network addresses are neither kept" in plan


def test_reports_that_no_honest_fleet_sends_are_pointed_out(make_world: Callable[..., Any]) -> None:
    world = make_world(ONE_MEAN)
    layout, number = Layout(world.plan), world.plan.round_at(world.now) - 1
    ones = [Report("small", 1, number, place.to_bytes(16, "big"), b"\x80") for place in range(500)]
    key = RoundKey("small", 1, number)
    world.store.append({key: b"".join(layout.pack(report) for report in ones)})
    world.store.seal(key)
    latest = world.get("/plans/small/metrics/minutes.json").json()["latest"]
    assert latest["consistent"] is False
    assert latest["value"] > latest["upper"] == 360
    page = world.get("/plans/small/metrics/minutes").text
    assert "No truth within the range explains these reports" in page
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
    assert world.get("/plans/hostile.json").json()["owner"] == HOSTILE


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
    page, newest = f"{METRIC}/editor_spread", world.get(f"{METRIC}/editor_spread.json").json()["round"]
    query = f"?confidence=99&rounds=14&segment=os:linux&round={newest}&view=norm-sub"
    links = {
        link.get("rel", link.get("data-switch")): link["href"]
        for link in world.get(page + query).page.all("a")
    }
    assert links["raw"] == page + query.removesuffix("&view=norm-sub")
    assert links["prev"] == page + query.replace(str(newest), str(newest - 1))
    usual = {link.get("data-switch"): link["href"] for link in world.get(page).page.all("a")}
    assert (usual["raw"], usual["norm-sub"]) == (page, f"{page}?view=norm-sub")


def test_a_sampled_plan_is_shown_per_window_and_rounds_can_be_had(make_world: Callable[..., Any]) -> None:
    """The counts of a window's rounds are one figure, with the window's dates; the last window is open."""
    world = make_world(
        ONE_MEAN
        + '[answers]\nkind = "sampled"\nwindow = "1d"\n'
        + '[metrics.spread]\nkind = "histogram"\nmechanism = "hadamard-bit"\nbuckets = 4\nmax_value = 9\nepsilon = 1\n'
    )
    now = world.plan.round_at(world.now)
    window = world.plan.answers.window_of(now, world.plan.round_seconds)
    per_window, fleet = window.rounds, SdkFleet(world.plan, 80, seed=2)
    first = window.first - per_window
    for number in range(first, now):
        world.answer(fleet, number, {"minutes": [4] * 80, "spread": [4] * 80})
    page = "/plans/small/metrics"
    for metric, series in (("minutes", "latest"), ("spread", "histogram")):
        twin = world.get(f"{page}/{metric}.json").json()
        assert twin["period"] == "window"
        assert (twin[series]["from"], twin[series]["to"]) == (first, first + per_window - 1)
        assert (twin[series]["reports"], twin[series]["state"]) == (80, "sealed")
        text = world.get(f"{page}/{metric}").text
        assert "per window" in text
        assert "open window, provisional" in text
        begins, ends = (datetime.fromtimestamp(at, UTC) for at in (window.start - 86_400, window.start))
        assert f"{begins.day} {begins:%b %Y, %H:%M} to {ends.day} {ends:%b, %H:%M} UTC" in text
        single = world.get(f"{page}/{metric}?period=round")
        assert "per round" in single.text
        assert '<option value="round" selected' in single.text
        rounds = world.get(f"{page}/{metric}.json?period=round").json()
        figures = rounds["series"][0]["points"] if metric == "minutes" else rounds["medians"]
        assert {figure["from"] == figure["to"] for figure in figures} == {True}
        assert len(figures) > 2
    points = world.get(f"{page}/minutes.json").json()["series"][0]["points"]
    assert [(point["from"], point["state"]) for point in points] == [
        (window.first, "open"),
        (first, "sealed"),
    ]
    chosen = world.get(f"{page}/spread.json?round={first + 1}").json()
    assert (chosen["from"], chosen["to"]) == (first, first + per_window - 1)
    overview = world.get("/").text
    assert "mean, 2 windows" in overview
    assert "spread, latest window" in overview
    plan = world.get("/plans/small").text
    assert "A window" in plan
    assert "Of 80 devices" in plan, "those of a window, not of a round"


@pytest.mark.parametrize(("epsilon", "shown"), [("0.12341", "0.1235"), ("1.00001", "1.001"), ("2", "2.0")])
def test_a_loss_is_rounded_up_wherever_it_stands(
    make_world: Callable[..., Any], epsilon: str, shown: str
) -> None:
    world = make_world(ONE_MEAN.replace("epsilon = 3.0", f"epsilon = {epsilon}"))
    page = world.get("/plans/small").page
    (answered,) = [row for row in page.rows if row[:2] == ["minutes", "mean"]]
    assert answered[4] == shown
    (costs,) = [row for row in page.rows if row[0] == "minutes" and row is not answered]
    assert float(costs[1]) >= float(epsilon) - 1e-12
    total = next(row for row in page.rows if row[0] == "whole plan")
    assert total[1] == costs[1] == shown
