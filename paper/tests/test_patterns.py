"""Figure 3 at small size: patterns against brute force, and verdicts that follow from the figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from reticent.mechanisms import Grid
from reticent_collector.privacy import pattern
from reticent_lab.fleet import Constant, Uniform
from reticent_lab.fleet.draws import HashDraws
from reticent_lab.pattern_supports import supports
from reticent_paper import patterns
from reticent_paper.claims import ClaimVerdict, Setting

SMALL = Setting(fleets=(400, 1_000, 3_000), days=9)
HOLDS, CORRECTED, OPEN = ClaimVerdict.HOLDS, ClaimVerdict.CORRECTED, ClaimVerdict.OPEN


@pytest.fixture(scope="module")
def result():
    return patterns.run(SMALL)


@pytest.fixture(scope="module")
def cases():
    return [case for app in patterns.stand_ins(SMALL)[:2] for case in patterns.cases_of(app, SMALL)]


def test_supports_are_those_of_the_mechanism_device_by_device(result):
    """The table of the first app at every s, once more with `Grid.cell` and a dictionary."""
    app = patterns.stand_ins(SMALL)[0]
    values = patterns.daily_values(app, 3_000, 9, SMALL.seed)
    rows = {row[1]: row for row in result.tables[0].rows if row[0] == app.name and row[2] == 0}
    for parts, name in ((1, "m"), (2, "m/2"), (3, "m/3")):
        plan, grid = patterns.plan_of(app, parts), Grid.even(86_400, 86_400 // parts)
        draws = [HashDraws(SMALL.seed, device, plan.name).alpha(plan.metrics[0]) for device in range(3_000)]
        counted = Counter(
            pattern(grid.cell(int(value), draw) for value in own)
            for own, draw in zip(values.T, draws, strict=True)
        )
        steady = counted[(0,) * 9]
        lonely = sum(count for count in counted.values() if count <= 2)
        assert rows[name][3:7] == (
            3_000,
            len(counted),
            counted.most_common(1)[0][1],
            pytest.approx(counted.most_common(1)[0][1] / 3_000),
        )
        assert rows[name][8] == pytest.approx(steady / 3_000)
        assert rows[name][9] == pytest.approx(lonely / 3_000)


def test_never_users_are_devices_that_stay_at_0():
    cells = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0], [0, 0, 1]], dtype=np.uint8)
    joined = supports(np.vstack([cells, np.zeros((5, 3), dtype=np.uint8)]))
    quick = patterns.with_never_users(supports(cells), never=5)
    assert quick.counts.tolist() == joined.counts.tolist()
    assert quick.patterns.tolist() == joined.patterns.tolist()
    restless = patterns.with_never_users(supports(cells[[0, 3]]), never=1)
    assert sorted(map(tuple, restless.patterns.tolist())) == [(0, 0, 0), (0, 0, 1), (0, 1, 0)]


def test_the_curve_has_the_papers_axes():
    """Ten devices in patterns of 6, 2, 1 and 1: 60 % have at least 6, 80 % at least 2, all at least 1."""
    cells = [[0, 0, 0]] * 6 + [[0, 0, 1]] * 2 + [[0, 1, 0], [0, 1, 1]]
    shares, counts = patterns.Case.of("app", 1, 0.0, supports(cells)).curve
    assert counts.tolist() == [6, 2, 1]
    assert shares.tolist() == pytest.approx([0.6, 0.8, 1.0])


def test_days_off_the_main_value():
    cells = [[0, 0, 0, 0]] * 3 + [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1]]
    assert patterns.Case.of("app", 1, 0.0, supports(cells)).days_off == (
        (1, 3),
        (2, 2),
        (1, 1),
        (0, 0),
        (0, 0),
    )


def test_the_majority_follows_from_the_figures(cases):
    """Our users stand in for data that are not public: the figures say what they do, and decide nothing."""
    assert (patterns.majority(cases).verdict, patterns.majority(cases).condition) == (OPEN, "")
    plain = [case for case in cases if not case.never]
    smaller = [replace(case, largest=case.devices // 2, constant=0.5) for case in plain]
    assert f"in 0 of {len(plain)} cases" in patterns.majority(smaller).measured
    mixed = patterns.majority([plain[0], *smaller])
    assert "at least 33 %" in mixed.condition, "(2/3 - 1/2) / (1 - 1/2) of never-users"


UPSIDE_DOWN = ((1, 5), (2, 80), (1, 1), (0, 0), (0, 0))


@pytest.mark.parametrize(
    ("claim", "doctored"),
    [
        (patterns.always_constant, {"largest_is_constant": False}),
        (patterns.simple_is_common, {"days_off": UPSIDE_DOWN}),
    ],
)
def test_what_is_measured_follows_from_the_cases(cases, claim, doctored):
    wrong = replace(cases[0], **doctored)
    for given, right in (([cases[0]], 1), ([wrong], 0), ([cases[0], wrong], 1)):
        found = claim(given)
        assert found.measured == f"of our users in {right} of {len(given)} cases"
        assert (found.verdict, found.condition == "") == (OPEN, right == len(given))


def test_a_width_is_a_misprint_and_a_wider_pattern_would_be_more(cases):
    wider = replace(cases[0], parts=1, by_width=(0.5, 0.4, 0.1))
    assert patterns.width_limit(cases).condition == "the width of b(U)"
    assert patterns.width_limit([*cases, wider]).condition == "there are wider patterns"


def test_larger_steps_blend_more(cases):
    plain = [case for case in cases if not case.never]
    assert patterns.larger_steps_blend(plain).verdict is HOLDS
    assert patterns.larger_steps_blend(plain[:3][::-1]).verdict is CORRECTED


@pytest.mark.parametrize(
    ("shares", "words"),
    [((0.01, 0.03, 0.05), ""), ((0.01, 0.06), "in 1 of 2 cases"), ((0.2, 0.001), "in 0 of 2 cases")],
)
def test_lonely_users_follow_from_the_figures(cases, shares, words):
    doctored = [replace(cases[0], never=0.0, lonely=share) for share in shares]
    assert (patterns.lonely_users(doctored).verdict, patterns.lonely_users(doctored).condition) == (
        OPEN,
        words,
    )


def test_unlike_data_give_unlike_figures():
    """Values drawn again every day have no majority pattern; with a constant value nobody ever changes."""
    restless = patterns.run(replace(SMALL, populations=(Uniform(86_400),)))
    assert restless.claims[0].condition
    still = patterns.run(replace(SMALL, populations=(Constant(86_400),)))
    assert not still.claims[0].condition
    assert still.claims[2].condition, "nobody is lonely"


def test_a_range_that_thirds_do_not_divide_leaves_them_out():
    rows = patterns.run(replace(SMALL, populations=(Uniform(100),))).tables[0].rows
    assert {row[1] for row in rows} == {"m", "m/2"}


def test_the_picture_has_a_panel_per_app_and_step(result):
    assert len(result.pictures[0].draw().axes) == 6
