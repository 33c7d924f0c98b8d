"""The plan page with other parameters: the figures are those of the plan that is meant, and never below the truth."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Metric, Plan, privacy_card
from reticent_collector.estimates import expected_average_half_width, expected_half_width

PAGE = "/plans/app-usage"


def changed(text: str, *replacements: tuple[str, str]) -> Plan:
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return Plan.from_toml(text)


def test_untouched_it_is_the_plan_as_served(world: Any) -> None:
    twin = world.get(f"{PAGE}.json").json()["what_if"]
    assert twin["served"] == twin["chosen"]
    assert twin["devices"] == 400, "the fleet that answers"
    assert twin["lifetime_added"] == 0
    assert "Changes to plan.toml" not in world.get(PAGE).text


def test_another_epsilon_flip_and_range_are_those_of_such_a_plan(world: Any) -> None:
    query = "metric=editor_seconds&epsilon=0.7&flip=0.1&range=10800&devices=50000"
    twin = world.get(f"{PAGE}/what-if.json?{query}").json()
    first = 'front"\nmax_value = 21600\nepsilon = 2.0\nflip = 0.05'
    plan = changed(world.plan.text, (first, 'front"\nmax_value = 10800\nepsilon = 0.7\nflip = 0.1'))
    card = privacy_card(plan)
    for name, loss in twin["chosen"]["loss"].items():
        assert loss == (getattr(card, name) if getattr(card, name) < 1e300 else None)
    metric = Metric("x", OneBitMean(epsilon="0.7", max_value=10_800), Flip("0.1"))
    widths = twin["chosen"]["half_width"]
    assert widths["round"] == expected_half_width(metric, 50_000)
    assert widths["day"] == expected_average_half_width(metric, 50_000, 4)
    assert widths["week"] == expected_average_half_width(metric, 50_000, 28)
    assert twin["lifetime_added"] > 0, "devices that answered draw new answers"


def test_sampled_answers_lose_by_the_window_and_have_no_flips(world: Any) -> None:
    twin = world.get(f"{PAGE}/what-if.json?answers=sampled&window=28&devices=280000").json()
    plan = changed(
        world.plan.text,
        ("flip = 0.05\n", ""),
        ("[groups.apps]", '[answers]\nkind = "sampled"\nwindow = "7d"\n\n[groups.apps]'),
    )
    card = privacy_card(plan)
    assert twin["chosen"]["loss"] == {"window": card.window, "any_history": card.any_history}
    assert twin["chosen"]["reports"] == 10_000
    metric = Metric("x", OneBitMean(epsilon=2, max_value=21_600))
    assert twin["chosen"]["half_width"]["window"] == expected_half_width(metric, 280_000)
    assert twin["chosen"]["half_width"]["round"] == expected_half_width(metric, 10_000)


def test_edges_are_stretched_and_choices_have_no_range(world: Any) -> None:
    twin = world.get(f"{PAGE}/what-if.json?metric=starts&range=32").json()
    assert twin["chosen"]["loss"] == twin["served"]["loss"]
    assert twin["max_value"] == 32
    page = world.get(f"{PAGE}?metric=starts").text
    assert 'name="range"' in page


def test_printed_figures_are_never_below_the_truth(world: Any) -> None:
    for epsilon in ("0.123456", "1.99999", "3.3333"):
        query = f"?epsilon={epsilon}&flip=0.123&devices=12345"
        truth = world.get(f"{PAGE}/what-if.json{query}").json()["chosen"]
        rows = {row[0]: row[2] for row in world.get(f"{PAGE}/what-if{query}").page.rows if len(row) == 3}
        pairs = [
            ("one round", truth["half_width"]["round"], rows["one round"]),  # the second table has it too
            ("same pattern", truth["loss"]["lifetime"], rows["same pattern"]),
            ("constant device", truth["loss"]["constant"], rows["constant device"]),
            ("one day", truth["half_width"]["day"], rows["one day"]),
            ("one week", truth["half_width"]["week"], rows["one week"]),
        ]
        for name, true, shown in pairs:
            number = Fraction(re.search(r"[\d,.]+", shown)[0].replace(",", ""))
            assert number >= Fraction(true) * (1 - Fraction(1, 10**15)), name
            assert number <= Fraction(true) * Fraction(102, 100), name


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
    for path in (PAGE, f"{PAGE}/what-if", f"{PAGE}/what-if.json"):
        answer = world.get(f"{path}?{query}")
        assert answer.status == 400, path
        assert message in answer.text
