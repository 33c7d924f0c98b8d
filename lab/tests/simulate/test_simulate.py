"""A plan on values: the truth, the estimates and the people are those of the devices, one by one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from reticent.device import in_range
from reticent.errors import ParameterError
from reticent.mechanisms import Flip
from reticent.plan import Answers, Plan
from reticent_collector.estimates import HistogramEstimate, estimate
from reticent_lab.crowd import Crowd, CrowdDraws
from reticent_lab.fleet import VectorisedFleet, read_values
from reticent_lab.simulate import MetricEstimates, simulate, true_values
from reticent_lab.simulate.pictures import pictures

PLAN = Plan.from_toml("""
[plan]
name = "simulated"
version = 1
round = "1d"
grace = "6h"
owner = "telemetry@example.org"

[metrics.editor]
kind = "mean"
unit = "minute"
max_value = 60
step = 20
epsilon = 1.0
flip = 0.1

[metrics.browser]
kind = "mean"
unit = "minute"
max_value = 60
epsilon = 2.0

[metrics.spread]
kind = "histogram"
max_value = 60
buckets = 4
mechanism = "hadamard-bit"
epsilon = 1.0

[groups.together]
metrics = ["editor", "browser"]
max_total = 90
""")


def table(devices: int, rounds: int, seed: int = 1, top: int = 80) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    return {name: draw.integers(0, top, (rounds, devices)).astype(np.int32) for name in PLAN.by_name}


def columns(values: dict[str, Any], place: int, device: int) -> dict[str, int]:
    return {name: int(values[name][place, device]) for name in values}


def test_the_truth_is_that_of_the_values_as_a_device_takes_them() -> None:
    values = table(60, 1)
    inside = [in_range(PLAN, columns(values, 0, device)) for device in range(60)]
    found = true_values(PLAN, {name: values[name][0] for name in values})
    for name in ("editor", "browser"):
        assert found[name] == pytest.approx([float(sum(each[name] for each in inside) / Fraction(60))])
    buckets = [min(int(each["spread"]) // 15, 3) for each in inside]
    assert found["spread"].tolist() == [buckets.count(place) / 60 for place in range(4)]


def are_those(figures: MetricEstimates, repetition: int, counts: list[Any]) -> bool:
    """Whether the figures of a repetition are the estimates of these counts."""
    rows = [estimate(figures.metric, of_round) for of_round in counts]
    parts = [one.buckets if isinstance(one, HistogramEstimate) else [one] for one in rows]
    return all(
        getattr(figures, name)[repetition].tolist()
        == [[getattr(part, name) for part in row] for row in parts]
        for name in ("value", "lower", "upper", "half_width")
    )


def test_estimates_are_those_of_the_counts_that_are_drawn() -> None:
    """The law of the counts is tested in test_crowd.py; here, that each round is estimated from its own."""
    values, seed = table(200, 3), 5
    found = simulate(PLAN, values, repetitions=2, seed=seed)
    drawn = CrowdDraws(PLAN, Crowd.of(values), seed).draw(2)
    for name, figures in found.metrics.items():
        counts = [one[name].counts for one in drawn]
        assert are_those(figures, 0, counts[0])
        assert are_those(figures, 1, counts[1])
        assert not are_those(figures, 0, counts[1])


def test_people_have_the_widths_of_devices() -> None:
    """
    Shares of widths against a fleet of the same individuals, 4,000 of them: both within 5.5 standard errors.

    That is wrong once in 10^6 for each of about eight shares.
    """
    values = table(4000, 4)
    found = simulate(PLAN, values, repetitions=1, seed=9)
    fleet = VectorisedFleet(PLAN, 4000, seed=2)
    for name, people in found.people.items():
        of_rounds = [fleet.cells(name, {n: v[place] for n, v in values.items()}) for place in range(4)]
        widths = np.array([len(set(history)) for history in zip(*of_rounds, strict=True)])
        assert people.supports.devices == 4000
        for width in range(1, 5):
            share = float(np.mean(widths == width))
            error = 5.5 * np.sqrt(2 * max(share * (1 - share), 1e-4) / 4000)
            assert abs(people.share_by_width.get(width, 0.0) - share) < error
        assert people.supports.share_constant == pytest.approx(people.share_by_width[1])
    steps = found.people["editor"]
    assert set(steps.share_by_width) > {1, 2}
    assert steps.loss_by_width[1] == pytest.approx(1.0)
    assert steps.loss_by_width[3] == pytest.approx(
        2.31, abs=0.005
    )  # K = 3, w = 3, in a table checked by hand
    expected = sum(steps.share_by_width[width] * steps.loss_by_width[width] for width in steps.share_by_width)
    assert steps.mean_loss == pytest.approx(expected)


def test_copies_weigh_the_truth_and_people_are_individuals() -> None:
    values = {name: np.array([[0, 30], [60, 30]]) for name in PLAN.by_name}
    found = simulate(PLAN, Crowd.of(values, devices=5), repetitions=1)
    assert found.devices == 5
    assert found.individuals == 2
    assert found.metrics["spread"].truth.tolist() == [[0.4, 0, 0.6, 0], [0, 0, 0.6, 0.4]]
    assert found.metrics["browser"].truth[:, 0] == pytest.approx([0.6 * 30, 0.4 * 45 + 0.6 * 30])
    assert found.people["spread"].supports.devices == 2


def test_a_run_that_would_not_fit_is_refused_before_anything_is_drawn() -> None:
    def never(part: slice) -> Any:
        raise AssertionError("values were asked for")

    crowd = Crowd(rounds=100_000, individuals=100_000, devices=1_500_000_000, values=never)
    with pytest.raises(ParameterError, match=r"memory: expected at least .* GiB .*got 1.0 GiB") as error:
        simulate(PLAN, crowd)
    assert "fewer rounds, individuals or repetitions" in str(error.value)


def test_intervals_hold_as_often_as_promised_and_a_false_promise_is_noticed() -> None:
    """400 repetitions of 2 rounds: flagged once in a million if sound; intervals cut to 60 % are noticed."""
    found = simulate(PLAN, table(500, 2, top=60), repetitions=400, seed=2)
    for figures in found.metrics.values():
        assert not figures.misses_too_often(1e-6)
        low, high = figures.coverage_interval
        assert low <= figures.inside.mean() <= high
        middle = (figures.lower + figures.upper) / 2
        lower, upper = middle - 0.6 * (middle - figures.lower), middle + 0.6 * (figures.upper - middle)
        narrow = replace(figures, lower=lower, upper=upper)
        assert narrow.misses_too_often(1e-6)


def test_the_alarm_is_the_binomial_tail() -> None:
    hits = [[True] * 90 + [False] * 10] * 2
    inside = np.array(hits).T
    figures = MetricEstimates(
        PLAN.metrics[0],
        0.95,
        np.zeros((2, 1)),
        np.zeros((100, 2, 1)),
        np.where(inside, -1.0, 1.0)[:, :, None],
        np.full((100, 2, 1), 2.0),
        np.ones((100, 2, 1)),
        (),
    )
    tail = sum(float(binom.pmf(count, 100, 0.95)) for count in range(91)) * 2
    assert not figures.misses_too_often(tail * 0.99)
    assert figures.misses_too_often(tail * 1.01)
    assert figures.coverage.tolist() == [0.9, 0.9]


def test_the_bias_is_zero_but_for_chance() -> None:
    """Over 400 repetitions within 5.5 standard errors (false alarm below 1e-6); not so with another truth."""
    values = table(400, 1, top=80)
    found = simulate(PLAN, values, repetitions=400, seed=4)
    for figures in found.metrics.values():
        assert (np.abs(figures.bias) < 5.5 * figures.value.std(axis=0) / 20).all()
    editor = found.metrics["editor"]
    uncut = editor.value.mean() - values["editor"].mean()
    assert abs(uncut) > 5.5 * editor.value.std() / 20


def test_the_same_seed_gives_the_same_figures_and_another_others() -> None:
    values = table(300, 2)
    first, again, other = (simulate(PLAN, values, repetitions=2, seed=seed) for seed in (1, 1, 2))
    assert first.to_dict() == again.to_dict()
    assert first.to_dict()["metrics"] != other.to_dict()["metrics"]


def test_what_is_cut_is_told() -> None:
    values = {"editor": [[100, 20]], "browser": [[0, 100]], "spread": [[0, 0]]}
    found = simulate(PLAN, {name: np.array(rows) for name, rows in values.items()}, repetitions=1)
    assert found.kept == {
        "editor": pytest.approx((60 + 20) / 120),  # 20 + 60 stay within the joint limit of 90
        "browser": pytest.approx(60 / 100),
        "spread": 1.0,
    }


@pytest.mark.parametrize(
    "values",
    [
        {"editor": np.zeros((1, 2), int)},
        {"editor": np.zeros((1, 2), int), "browser": np.zeros((1, 3), int), "spread": np.zeros((1, 2), int)},
        dict.fromkeys(PLAN.by_name, np.zeros(3, int)),
        dict.fromkeys(PLAN.by_name, np.zeros((0, 3), int)),
    ],
)
def test_tables_that_do_not_fit_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="values"):
        simulate(PLAN, values)


def test_progress_ends_at_all_of_it() -> None:
    told: list[tuple[int, int]] = []
    simulate(PLAN, table(10, 3), repetitions=2, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)], "one block of individuals, then two repetitions of estimates"


SAMPLED = replace(
    PLAN,
    name="sampled",
    metrics=tuple(replace(metric, flip=Flip(0)) for metric in PLAN.metrics),
    answers=Answers(window=3, metrics=2),
)


def test_sampled_rounds_are_estimated_alone_and_by_window() -> None:
    """
    Two windows of three rounds and one round of a third: each round by itself, and the rounds of each window.

    The truth of a window is the mean over its rounds, and the counts of its rounds are added up.
    """
    values, seed = table(300, 7), 5
    found = simulate(SAMPLED, values, repetitions=1, seed=seed)
    (drawn,) = CrowdDraws(SAMPLED, Crowd.of(values), seed).draw(1)
    for name in SAMPLED.by_name:
        counts = drawn[name].counts
        rounds, windows = found.metrics[name], found.windows[name]
        assert are_those(rounds, 0, counts)
        added = [reduce(add, counts[start : start + 3]) for start in (0, 3, 6)]
        assert are_those(windows, 0, added)
        truths = [rounds.truth[start : start + 3].mean(axis=0) for start in (0, 3, 6)]
        assert windows.truth == pytest.approx(np.array(truths))
        figures = found.to_dict()["metrics"][name]
        assert "rounds" not in figures["windows"], "a list of windows is called what it is"
        assert {row["window"] for row in figures["windows"]["windows"]} == {0, 1, 2}
        assert {row["round"] for row in figures["rounds"]} == set(range(7))
    assert not found.people
    assert found.to_dict()["loss"]["windows"] == 3


def test_sampled_intervals_hold_as_often_as_promised_and_a_false_promise_is_noticed() -> None:
    """
    200 repetitions of two windows whose rounds differ: rounds and windows flagged once in a million if sound.

    Intervals cut to 60 % are noticed, and so is a mean over a window that is taken for its last round's.
    """
    values = table(600, 6, top=60)
    for name in values:
        values[name][2::3] //= 4
    found = simulate(SAMPLED, values, repetitions=200, seed=2)
    for name, windows in found.windows.items():
        for figures in (found.metrics[name], windows):
            assert not figures.misses_too_often(1e-6)
            middle = (figures.lower + figures.upper) / 2
            lower, upper = middle - 0.6 * (middle - figures.lower), middle + 0.6 * (figures.upper - middle)
            assert replace(figures, lower=lower, upper=upper).misses_too_often(1e-6)
        last = replace(windows, truth=found.metrics[name].truth[2::3])
        assert last.misses_too_often(1e-6)


def test_a_sampled_round_that_nobody_answers_is_refused() -> None:
    with pytest.raises(ParameterError, match="devices: expected enough for a report about"):
        simulate(SAMPLED, table(2, 3), repetitions=1)


DAY = Plan.from_toml("""
[plan]
name = "day"
version = 1
round = "1d"
grace = "1d"
owner = "telemetry@example.org"

[metrics.seconds]
kind = "mean"
max_value = 86400
epsilon = 1.0
flip = 0.2

[metrics.hours]
kind = "histogram"
max_value = 86400
buckets = 32
mechanism = "hadamard-bit"
epsilon = 1.0
""")


@pytest.mark.parametrize("name", ["gran_turismo_sport", "forza_horizon_4", "the_crew_2"])
def test_real_usage_is_estimated_as_surely_as_promised(name: str, recordings: Path) -> None:
    """
    Six days of real people, 40 repetitions: flagged once in a million if sound.

    Over 240 intervals the share that holds is 0.95 with standard deviation 0.014 if days were independent;
    memos make them less so: 0.88 is five of those below.
    """
    recorded = read_values(recordings / f"{name}_daily_seconds.csv.gz", max_value=86_400)
    people = recorded.values(len(recorded.individuals), 6, np.random.default_rng(0))
    found = simulate(DAY, {"seconds": people, "hours": people}, repetitions=40, seed=3)
    for figures in found.metrics.values():
        assert not figures.misses_too_often(1e-6)
        assert figures.inside.mean() > 0.88
    assert found.people["seconds"].supports.devices == len(recorded.individuals)


def test_a_picture_says_no_loss_smaller_than_it_is() -> None:
    simulation = simulate(PLAN, table(200, 5), repetitions=1)
    losses = simulation.people["editor"].loss_by_width
    drawn = pictures(simulation)["editor-people"]()
    shown = [text.get_text().removeprefix("loss ≤ ") for text in drawn.axes[0].texts]
    assert len(losses) > 2
    assert all(float(text) >= loss for text, loss in zip(shown, losses.values(), strict=True))
