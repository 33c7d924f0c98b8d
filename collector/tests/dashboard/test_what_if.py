"""The plan page with other parameters: the figures are those of the plan that is meant, and never below the truth."""

from __future__ import annotations

import re
from fractions import Fraction
from math import isinf
from typing import Any

import pytest

from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Metric, Plan
from reticent_collector.estimates import expected_average_half_width, expected_half_width
from reticent_collector.privacy import CLAIMS
from reticent_collector.privacy.card import privacy_card

PAGE = "/plans/app-usage"


def changed(text: str, *replacements: tuple[str, str]) -> Plan:
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return Plan.from_toml(text)


def losses(page: Any) -> dict[str, str]:
    """The privacy loss of the changed plan, by claim."""
    return {row[0]: row[2] for row in page.rows if len(row) == 3 and "±" not in row[2]}


def widths(page: Any) -> dict[str, str]:
    """The expected half-widths with the changed plan, by period."""
    return {row[0]: row[2] for row in page.rows if len(row) == 3 and "±" in row[2]}


def check_rounded_up(shown: str, truth: float) -> None:
    """What is printed is at least the truth, and hardly more."""
    if isinf(truth):
        assert shown == "infinite"
        return
    number = Fraction(re.search(r"[\d,.]+", shown)[0].replace(",", ""))  # type: ignore[index]
    assert number >= Fraction(truth) * (1 - Fraction(1, 10**15))
    assert number <= Fraction(truth) * Fraction(102, 100)


def check_losses(page: Any, plan: Plan) -> None:
    """Each claim of the plan's card is on the page."""
    card, shown = privacy_card(plan), losses(page)
    for name in card.columns:
        title = CLAIMS[name].title + (", 1 year" if name == "any_history" else "")
        check_rounded_up(shown[title], getattr(card, name))


def test_untouched_it_is_the_plan_as_served(world: Any) -> None:
    page = world.get(PAGE)
    rows = [row for row in page.page.rows if len(row) == 3 and row[1] != "current"]
    assert len(rows) > 6
    assert all(before == after for _, before, after in rows)
    (devices,) = [tag["value"] for tag in page.page.all("input") if tag.get("name") == "devices"]
    assert devices == "400", "the fleet that answers"
    assert "Changes to plan.toml" not in page.text


def test_another_epsilon_flip_and_range_are_those_of_such_a_plan(world: Any) -> None:
    query = "metric=editor_seconds&epsilon=0.7&flip=0.1&range=10800&devices=50000"
    page = world.get(f"{PAGE}/what-if?{query}").page
    first = 'front"\nmax_value = 21600\nepsilon = 2.0\nflip = 0.05'
    plan = changed(world.plan.text, (first, 'front"\nmax_value = 10800\nepsilon = 0.7\nflip = 0.1'))
    check_losses(page, plan)
    metric = Metric("x", OneBitMean(epsilon="0.7", max_value=10_800), Flip("0.1"))
    shown = widths(page)
    check_rounded_up(shown["one round"], expected_half_width(metric, 50_000))
    check_rounded_up(shown["one day"], expected_average_half_width(metric, 50_000, 4))
    check_rounded_up(shown["one week"], expected_average_half_width(metric, 50_000, 28))
    assert any("Devices that have answered draw new answers" in text for text in page.texts)


def test_sampled_answers_lose_by_the_window_and_have_no_flips(world: Any) -> None:
    page = world.get(f"{PAGE}/what-if?answers=sampled&window=28&devices=280000").page
    plan = changed(
        world.plan.text,
        ("flip = 0.05\n", ""),
        ("[groups.apps]", '[answers]\nkind = "sampled"\nwindow = "7d"\n\n[groups.apps]'),
    )
    check_losses(page, plan)
    assert losses(page)["constant device"] == "no such claim"
    metric = Metric("x", OneBitMean(epsilon=2, max_value=21_600))
    check_rounded_up(widths(page)["one window"], expected_half_width(metric, 280_000))
    check_rounded_up(widths(page)["one round"], expected_half_width(metric, 10_000))


def test_edges_are_stretched_and_choices_have_no_range(world: Any) -> None:
    stretched = world.get(f"{PAGE}/what-if?metric=starts&range=32").page
    rows = [row for row in stretched.rows if len(row) == 3 and "±" not in row[2] and row[1] != "current"]
    assert rows
    assert all(before == after for _, before, after in rows)
    (range_,) = [tag["value"] for tag in stretched.all("input") if tag.get("name") == "range"]
    assert range_ == "32"
    page = world.get(f"{PAGE}?metric=starts").text
    assert 'name="range"' in page


def test_printed_figures_are_never_below_the_truth(world: Any) -> None:
    for epsilon in ("0.123456", "1.99999", "3.3333"):
        query = f"?epsilon={epsilon}&flip=0.123&devices=12345"
        plan = changed(
            world.plan.text,
            (
                'front"\nmax_value = 21600\nepsilon = 2.0\nflip = 0.05',
                f'front"\nmax_value = 21600\nepsilon = {epsilon}\nflip = 0.123',
            ),
        )
        page = world.get(f"{PAGE}/what-if{query}").page
        check_losses(page, plan)
        metric = plan.by_name["editor_seconds"]
        for name, rounds in (("one round", 1), ("one day", 4), ("one week", 28)):
            truth = expected_average_half_width(metric, 12_345, rounds)
            check_rounded_up(widths(page)[name], truth)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("epsilon=0", "epsilon: expected a number from 0.001 to 20"),
        ("epsilon=x", "epsilon: expected"),
        ("flip=0.5", "flip: expected a probability from 0 to below 1/2"),
        ("devices=0", "devices: expected a whole number from 1 to 1,000,000,000"),
        ("range=0", "range: expected"),
        ("answers=sampled&window=0", "window: expected a whole number"),
        ("answers=often", "answers: expected remembered or sampled"),
        ("metric=nope", "metric: expected one of editor_seconds"),
        (f"epsilon={'1' * 5000}", "epsilon: expected"),
        ("epsilon=nan", "epsilon: expected"),
        ("epsilon=1/0", "epsilon: expected"),
    ],
)
def test_what_makes_no_plan_is_said_in_words(world: Any, query: str, message: str) -> None:
    for path in (PAGE, f"{PAGE}/what-if"):
        answer = world.get(f"{path}?{query}")
        assert answer.status == 400, path
        assert message in answer.text
