"""The moving picture of how-it-works.md, in a Chromium: its laws are reticent's, it draws what it computed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from math import e, log, sqrt, tanh
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom
from tests.shared.browsers import needs_chromium

from reticent import Metric
from reticent.mechanisms import SCALE, Flip, Grid, OneBitMean, RandomizedResponse
from reticent_collector.counts import MeanCounts
from reticent_collector.estimates import estimate

PAGE = Path(__file__).parents[2] / "docs" / "_static" / "how-it-works.html"
FALSE_ALARM = 1e-6  # of each comparison of a frequency with its law, were the draws fresh coins
DEVICES = 50_000

pytestmark = needs_chromium


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """Opens the picture; afterwards nothing may have complained, or asked for more than its two files."""
    contexts, complaints, requests = [], [], []

    def start(**options: Any) -> Any:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(PAGE.as_uri())
        return page

    yield start
    assert complaints == []
    assert {Path(url).name for url in requests} == {"how-it-works.html", "how-it-works.js"}
    for context in contexts:
        context.close()


def agrees(ones: int, chance: float, trials: int = DEVICES) -> bool:
    """Whether a count is one that a coin of this chance gives, but for FALSE_ALARM."""
    low, high = binom.ppf(FALSE_ALARM / 2, trials, chance), binom.isf(FALSE_ALARM / 2, trials, chance)
    return bool(low <= ones <= high)


def counted(page: Any, condition: str, settings: str = "") -> int:
    """How many of the first devices fulfil a condition on `picture`."""
    found: int = page.evaluate(
        f"""() => {{
            let found = 0;
            for (let device = 1; device <= {DEVICES}; device++) {{
                const picture = {{...state, device, {settings}}};
                found += ({condition}) ? 1 : 0;
            }}
            return found;
        }}"""
    )
    return found


def test_the_probabilities_are_those_of_the_mechanism(opened: Any) -> None:
    page = opened()
    mean = OneBitMean(epsilon=1, max_value=100, step=25)
    for point in range(0, 101, 5):
        assert page.evaluate(f"model.chanceOfOne({point})") == pytest.approx(mean.probability_of_one(point))
    for flips, flip in (("false", Flip(0)), ("true", Flip("0.2"))):
        channel = flip.channel(RandomizedResponse(1))
        for share in (0.0, 0.3, 0.5, 1.0):
            said = page.evaluate(f"model.unbiased({share}, {flips})")
            assert said == pytest.approx(100 * channel.truth(share))


@pytest.mark.parametrize("step", [25, 100])
def test_rounding_is_the_grids(opened: Any, step: int) -> None:
    page = opened()
    grid = Grid.even(100, step)
    cases = [
        (value, eighth) for value in range(101) for eighth in range(8)
    ]  # eighths are exact in both worlds
    said = page.evaluate(
        f"cases => cases.map(([value, eighth]) => model.cellOf(value, eighth / 8, {step}))", cases
    )
    assert said == [grid.cell(value, int(Fraction(eighth, 8) * SCALE)) for value, eighth in cases]


def test_over_devices_the_bits_follow_the_law(opened: Any) -> None:
    """Nine frequencies: false alarms at most 9e-6 together."""
    page = opened()
    for point in (0, 25, 100):
        ones = counted(page, f"model.remembered({point}, picture)", "step: 25")
        chance = float(OneBitMean(1, 100).probability_of_one(point))
        assert agrees(ones, chance)
        assert not agrees(ones, chance + 0.02), "a less noisy coin is refused"
        assert not agrees(ones, chance - 0.02), "and so is another"
    for value in (10, 37, 80):
        up = counted(page, f"model.pointOf({value}, picture) === 100")
        assert agrees(up, value / 100), "rounding is unbiased"
        assert not agrees(up, value / 100 + 0.02)
    for value in (0, 50, 100):
        ones = counted(page, "model.answer(7, picture).sent", f"value: {value}")
        chance = Flip("0.2").channel(RandomizedResponse(1)).share(value / 100)
        assert agrees(ones, chance), "rounded, remembered and flipped: Eq. 1 after the flip"
        assert value == 50 or not agrees(ones, OneBitMean(1, 100).probability_of_one(value))


def test_draws_of_one_device_do_not_hang_together(opened: Any) -> None:
    page = opened()
    both = counted(page, "model.remembered(0, picture) && model.remembered(100, picture)")
    low = 1 / (1 + e)
    assert agrees(both, low * (1 - low)), "two remembered bits are independent"
    assert not agrees(both, low), "a draw shared by both points would make the smaller imply the larger"
    turned = counted(page, "model.answer(3, picture).turned && model.answer(4, picture).turned")
    assert agrees(turned, 0.04), "flips of two rounds are independent"


def test_what_is_remembered_stays(opened: Any) -> None:
    page = opened()
    page.uncheck("#flips")
    sent = "[...document.querySelectorAll('#sent rect')].map(bit => Number(bit.dataset.bit))"
    first = page.evaluate(sent)
    assert len(first) == 240
    assert len(set(first)) == 1, "one value, one bit, in every round"
    assert page.evaluate("model.averages(240, state).at(-1)") == pytest.approx(
        page.evaluate("model.limit(state)")
    )
    page.uncheck("#memo")
    assert set(page.evaluate(sent)) == {0, 1}, "without a memo the bit is drawn again"
    page.check("#memo")
    page.fill("#value", "90")
    page.fill("#value", "37")
    assert page.evaluate(sent) == first, "the value returns, and so does its bit"
    page.reload()
    page.uncheck("#flips")
    assert page.evaluate(sent) == first, "nothing is redrawn"


def test_what_is_drawn_is_what_was_computed(opened: Any) -> None:
    page = opened()
    for _ in range(3):
        page.click("#another")
        drawn = page.evaluate(
            "[...document.querySelectorAll('#sent rect')].map(bit => Number(bit.dataset.bit))"
        )
        assert drawn == page.evaluate(
            "Array.from({length: 240}, (_, round) => model.answer(round, state).sent)"
        )
        circles = page.evaluate(
            "[...document.querySelectorAll('#line [data-point]')]"
            ".every(({dataset}) => model.remembered(Number(dataset.point), state) === Number(dataset.bit))"
        )
        assert circles
        said = re.search(r"the average is (-?\d+)\.", page.inner_text("#said"))
        assert said is not None
        assert abs(int(said[1]) - page.evaluate("model.averages(240, state).at(-1)")) <= 0.5


def test_the_average_tends_to_its_limit(opened: Any) -> None:
    """20,000 rounds, Hoeffding at FALSE_ALARM for each of eight settings: 8e-6 together."""
    page = opened()
    rounds, scale = 20_000, 100 / (0.6 * tanh(0.5))
    reach = scale * sqrt(log(2 / FALSE_ALARM) / (2 * rounds))
    for memo in ("true", "false"):
        for rounding in ("true", "false"):
            for wander in ("true", "false"):
                picture = f"{{...state, memo: {memo}, rounding: {rounding}, wander: {wander}}}"
                seen = page.evaluate(f"model.averages({rounds}, {picture}).at(-1)")
                assert abs(seen - page.evaluate(f"model.limit({picture})")) < reach
    fresh = page.evaluate("model.limit({...state, memo: false, rounding: false})")
    assert fresh == pytest.approx(37), "without a memo an observer who waits learns the value"
    rounded = page.evaluate("model.limit({...state, memo: false})")
    assert rounded == pytest.approx(page.evaluate("model.pointOf(37, state)")), "rounded, the rounded value"
    kept = page.evaluate("model.limit(state)")
    assert abs(kept - 37) > 2 * reach, "with one, not"


@pytest.mark.parametrize("value", [37, 100])
def test_the_caption_says_what_the_average_tends_to(opened: Any, value: int) -> None:
    page = opened()
    page.fill("#value", str(value))
    page.uncheck("#memo")
    for rounding in (True, False):
        page.set_checked("#rounding", rounding)
        said, limit = page.inner_text("#said"), round(page.evaluate("model.limit(state)"))
        assert f"learns the {'rounded ' if rounding else ''}value, {limit}" in said
        assert (f"(not the value, {value})" in said) == (limit != value)
    page.check("#wander")
    assert f"learns the mean of the values, {round(page.evaluate('model.limit(state)'))}." in page.inner_text(
        "#said"
    )


def test_sampled_answers_are_one_fresh_bit_per_window(opened: Any) -> None:
    """Four frequencies: false alarms at most 4e-6 together."""
    page = opened()
    for value in (0, 37, 100):
        ones = counted(page, "model.sampled(2, picture).sent", f"value: {value}")
        assert agrees(ones, float(OneBitMean(1, 100).probability_of_one(value))), "Eq. 1 on the value"
    both = counted(page, "model.sampled(2, picture).sent && model.sampled(3, picture).sent", "value: 100")
    high = e / (1 + e)
    assert agrees(both, high * high), "two windows are independent"
    assert not agrees(both, high), "nothing is remembered"
    rounds = page.evaluate("Array.from({length: 8}, (_, window) => model.sampled(window, state).round)")
    assert [number // 30 for number in rounds] == list(range(8))
    drawn = page.locator("#sampled [data-bit]")
    assert drawn.count() == 8
    page.fill("#rounds", str(rounds[3]))
    assert drawn.count() == 3, "the picked round is not over"
    assert "3 so far." in page.inner_text("#said-sampled")


def test_counts_become_the_estimate_that_reticent_makes_of_them(opened: Any) -> None:
    """Three settings: false alarms at most 3e-6 together."""
    page = opened()
    settings: list[tuple[str, str, Flip]] = [
        ("value: 37", "true", Flip("0.2")),
        ("value: 100, memo: false", "true", Flip("0.2")),
        ("value: 10, flips: false, step: 25", "false", Flip(0)),
    ]
    for setting, flips, flip in settings:
        picture = f"{{...state, {setting}}}"
        counts = page.evaluate(f"model.fleetCounts(5, {picture})")
        value = page.evaluate(f"({picture}).value")
        assert counts["truth"] == pytest.approx(value)
        chance = flip.channel(RandomizedResponse(1)).share(value / 100)
        assert agrees(counts["ones"], chance, trials=10_000)
        metric = Metric("value", OneBitMean(1, 100), flip=flip)
        expected = estimate(metric, MeanCounts(reports=10_000, ones=counts["ones"]))
        found = page.evaluate(f"model.estimate({counts['ones']}, {flips})")
        assert found == pytest.approx(
            {"value": expected.value, "lower": expected.lower, "upper": expected.upper}
        )
    said = page.inner_text("#counted")
    assert f"{page.evaluate('model.fleetCounts(239, state).ones'):,} of 10,000 devices" in said


def test_the_keyboard_and_a_phone_are_enough(opened: Any) -> None:
    page = opened(viewport={"width": 360, "height": 740}, has_touch=True, reduced_motion="reduce")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.focus("#value")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#shown") == "38"
    page.focus("#memo")
    page.keyboard.press("Space")
    assert page.evaluate("state.memo") is False
    page.fill("#rounds", "5")
    assert page.inner_text("#count") == "5"
    page.focus("#play")
    page.keyboard.press("Enter")
    assert page.inner_text("#count") == "240", "who wants no motion gets the end at once"
    unnamed = (
        "[...document.querySelectorAll('input, select')].filter(control => !control.labels.length).length"
    )
    assert page.evaluate(unnamed) == 0


def test_it_is_dark_at_night(opened: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    day, night = opened(color_scheme="light"), opened(color_scheme="dark")
    assert day.evaluate(ground) != night.evaluate(ground)
