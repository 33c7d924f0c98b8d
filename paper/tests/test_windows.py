"""What Windows could have promised: exact guesses, the page's figures, and one small run."""

from __future__ import annotations

import json
import re
from itertools import combinations
from math import exp
from pathlib import Path

import pytest

from reticent.losses import printed
from reticent_collector.estimates import expected_variance
from reticent_paper.claims import Setting
from reticent_paper.windows import (
    ALL_APPS,
    ONE_APP,
    ONE_MEMO,
    PER_SLOT,
    SAME_LOSS,
    SPLIT,
    WAYS,
    figures,
    habit_guessed,
    plan_of,
    run,
)

ROOT = Path(__file__).parents[2]


def test_a_habit_is_guessed_as_often_as_the_closed_forms_say():
    """
    Flips average out over many days, and then a memo is known.

    One memo: the habit shows when the two bits differ, a chance of p² + q². A memo per slot: the best guess is a
    slot with a 1 if there is one. Sampled: no more than the odds e^ε per answer allow.
    """
    p = 0.7310585786300049
    q = 1 - p
    assert habit_guessed(ONE_MEMO, days=44) == pytest.approx(p**2 + q**2 + 2 * p * q / 4, abs=1e-4)
    ones = [p * q**3 / 4, 4 * p * q**2 * p / 4, 6 * p * q * p**2 / 4, 4 * p * p**3 / 4, q * p**3 / 4]
    assert habit_guessed(PER_SLOT, days=44) == pytest.approx(sum(ones), abs=1e-4)
    assert 0.25 < habit_guessed(ONE_APP) < habit_guessed(ALL_APPS) < 0.6


def test_a_habit_is_guessed_from_the_sets_of_a_split_as_often_as_by_enumeration():
    """
    One week. All sets of 5 of 21 labels: one that has the app in front is e times as likely as one that has not.

    A set with the app and without the unused rest tells the slot, the reverse excludes it, others tell nothing: of the
    three best guesses the first two are right with a quarter of the same chance.
    """
    weights = {
        (app, rest): exp(app) * sum({0, 20} & set(members) == found for members in combinations(range(21), 5))
        for app, rest, found in ((1, 0, {0}), (0, 1, {20}), (1, 1, {0, 20}), (0, 0, set()))
    }
    right, wrong = (weights[pair] / sum(weights.values()) for pair in ((1, 0), (0, 1)))
    assert habit_guessed(SPLIT, days=7) == pytest.approx((1 + right - wrong) / 4, abs=1e-9)
    assert habit_guessed(ONE_APP) < habit_guessed(SPLIT) < habit_guessed(SAME_LOSS)


def test_a_small_run_covers_and_a_memo_per_slot_costs_four_times_as_much():
    found = figures(individuals=60, sizes=(1_000_000,))
    assert [row["way"] for row in found["precision"]] == list(WAYS)
    for row in found["precision"]:
        assert row["covered"] > 0.9, row  # 2,240 intervals; 0.95 less ten deviations of independent ones
        assert row["covered_weeks"] > 0.8, row
    losses = found["losses"]
    assert losses[PER_SLOT]["constant"] == pytest.approx(4 * losses[ONE_MEMO]["constant"])
    assert losses[ONE_APP] == losses[SPLIT] == {"once": 1.0, "constant": 5.0, "any_history": 5.0}
    assert losses[SAME_LOSS]["once"] == pytest.approx(losses[ALL_APPS]["once"], rel=1e-4)
    weeks = {row["way"]: row["week"] for row in found["precision"]}
    for way in (SPLIT, SAME_LOSS):
        [metric] = plan_of(way).metrics
        assert weeks[way] == pytest.approx(1.96 * expected_variance(metric, 10**6, at=540) ** 0.5, rel=0.08)


def test_a_reproduction_has_the_plan_and_its_sibling_side_by_side():
    result = run(Setting(fleets=(300, 600, 900), days=28))
    [table], [picture] = result.tables, result.pictures
    assert [row[:2] for row in table.rows] == [(way, size) for size in (100_000, 10_000_000) for way in WAYS]
    assert len(picture.draw().axes) == 2


def test_the_page_has_the_figures_of_the_command():
    page = (ROOT / "docs" / "explanation" / "windows.md").read_text()
    found = json.loads((ROOT / "docs" / "images" / "windows.json").read_text())
    names = {
        1_000_000: "1 million",
        10_000_000: "10 million",
        100_000_000: "100 million",
        1_500_000_000: "1.5 billion",
    }
    rows = {(row["way"], row["devices"]): row for row in found["precision"]}
    assert {row["way"] for row in found["precision"]} == set(WAYS)
    for row in found[
        "precision"
    ]:  # misses of remembered answers come in runs; the people are the same in all ways
        assert row["covered"] > 0.93, row
        assert row["covered_weeks"] > 0.85, row
    for devices, name in names.items():
        numbers = [
            rows[way, devices][what]
            for way in (ONE_MEMO, ALL_APPS, ONE_APP, SPLIT, SAME_LOSS)
            for what in ("round", "week")
        ]
        shown = re.search(rf"^\| {name} \|(.*)\|$", page, re.MULTILINE)
        assert shown is not None
        for text, number in zip(shown[1].split("|"), numbers, strict=True):
            assert float(text) == float(f"{number:.3g}"), name
    for way in WAYS:
        loss, habit = (page.partition(f"## {title}")[2] for title in ("Promises", "A habit"))
        line = next(line for line in loss.splitlines() if line.startswith(f"| {way} |"))
        for text, number in zip(line.strip("| ").split("|")[1:], found["losses"][way].values(), strict=True):
            assert text == printed(number), "rounded up"
        line = next(line for line in habit.splitlines() if line.startswith(f"| {way} |"))
        month, year = (float(share.strip(" %")) for share in line.strip("| ").split("|")[1:])
        assert month == round(100 * found["habit_guessed"][way])
        if way in found["habit_guessed_in_a_year"]:
            assert year == round(100 * found["habit_guessed_in_a_year"][way])
        else:
            assert year == pytest.approx(100 * habit_guessed(way, days=30), abs=0.6)
