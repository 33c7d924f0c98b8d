"""Counts drawn without devices have the law of counts of devices: exactly, jointly over rounds, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from reticent.device import in_range
from reticent.errors import ParameterError
from reticent.mechanisms import COHORTS, SCALE, Buckets, DBitFlip, Flip, Grid, HadamardBit, OneBitMean
from reticent.plan import Answers, Group, Metric, Plan, Segment
from reticent_lab.crowd import Crowd, CrowdDraws, Tallies
from reticent_lab.fleet import Recorded, Uniform, VectorisedFleet

FLIP = Flip("0.1")
METRICS = {
    "one step": Metric("x", OneBitMean(2, 60), FLIP),
    "flag": Metric("x", OneBitMean(2, 1), FLIP, is_flag=True),
    "three steps": Metric("x", OneBitMean(4, 60, 20), FLIP),
    "uneven grid": Metric("x", OneBitMean(4, grid=Grid([0, Fraction(31, 3), 20, 60])), FLIP),
    "hadamard": Metric("x", HadamardBit(2, Buckets.even(60, 3)), FLIP),
    "choice": Metric("x", HadamardBit(2, Buckets(range(3), absent=True)), FLIP, labels=("a", "b")),
    "one bit": Metric("x", DBitFlip(2, Buckets.even(60, 3), 1), FLIP),
    "two bits": Metric("x", DBitFlip(3, Buckets.even(60, 4), 2), FLIP),
    "two bits of the paper": Metric("x", DBitFlip(3, Buckets.even(60, 4), 2, "paper"), FLIP),
    "all bits": Metric("x", DBitFlip(3, Buckets.even(60, 3), 3), FLIP),
}
HISTORIES = {"flag": [[0, 1, 1, 0], [0, 0, 1, 0]], "choice": [[0, 1, -1, 0], [1, 1, 0, -1]]}
USUAL = [[0, 25, 70, 25], [15, 38, 15, 59]]
"""Two individuals: a value above the range, the top, points of the grid and between them, again and anew."""
COPIES, REPETITIONS = 300, 1000
SIGMAS = 6.0
"""
An entry of a mean or a covariance is off by so much once in 5e8 if the law is right and nearly normal. There are
at most 3,200 of them in a test: about one false alarm in 100,000 runs of this file.
"""


def plan_of(*metrics: Metric, **more: Any) -> Plan:
    return Plan("crowd", 1, 86_400, 0, metrics, **more)


# The law of one device, from the definitions: alpha, cohort, memo and flips, one after the other


def alphas(metric: Metric, history: list[int]) -> list[tuple[float, int]]:
    """Parts of all alphas within which the cells of these values do not change: probability and an alpha of it."""
    if metric.mechanism.grid is None:
        return [(1.0, 0)]
    cuts = {0, SCALE}
    for value in history:
        for left, right in pairwise(metric.mechanism.points):
            if left <= value < right:
                cuts.add(-int(-(right - value) * SCALE // (right - left)))
    return [((high - low) / SCALE, (low + high) // 2) for low, high in pairwise(sorted(cuts))]


def drawn_once(
    metric: Metric, history: list[int], wrong: str
) -> Iterator[tuple[float, list[int], list[int]]]:
    """Every alpha and cohort of each round, with its probability: one for all rounds, unless the law is wrong."""
    rounds = len(history)
    cohorts = range(COHORTS) if metric.mechanism.uses_cohort else (0,)
    by_rows: dict[Any, list[int]] = {}
    for cohort in cohorts:
        by_rows.setdefault(metric.mechanism.rows_of(cohort), []).append(cohort)
    kinds = [(len(same) / len(cohorts), same[0]) for same in by_rows.values()]
    one_alpha, one_cohort = wrong != "alpha", wrong != "cohort"
    for alpha in product(alphas(metric, history), repeat=1 if one_alpha else rounds):
        for cohort in product(kinds, repeat=1 if one_cohort else rounds):
            chance = float(np.prod([part for part, _ in (*alpha, *cohort)]))
            yield (
                chance,
                [draw for _, draw in alpha] * (rounds if one_alpha else 1),
                [draw for _, draw in cohort] * (rounds if one_cohort else 1),
            )


def moments(metric: Metric, history: list[int], wrong: str = "") -> tuple[Any, Any]:
    """Mean and covariance of what one device adds to [rounds, rows, (reports, ones)], laid out in one row."""
    mechanism, rounds = metric.mechanism, len(history)
    inside = [
        None if value < 0 and metric.absent else max(0, min(value, metric.max_value)) for value in history
    ]
    flip = 0.0 if wrong == "flips" else metric.flip.threshold / SCALE
    size = (rounds, mechanism.row_count, 2)
    mean, second = np.zeros(size).ravel(), np.zeros((np.prod(size), np.prod(size)))
    for chance, of_alpha, of_cohort in drawn_once(metric, [v or 0 for v in inside], wrong):
        given, both = np.zeros(size), np.zeros((*size, *size))
        bits = []
        for place, (value, alpha, cohort) in enumerate(zip(inside, of_alpha, of_cohort, strict=True)):
            memo_class = mechanism.memo_class(value, alpha, cohort)
            thresholds = mechanism.thresholds(memo_class, cohort)
            for bit, (row, threshold) in enumerate(zip(mechanism.rows_of(cohort), thresholds, strict=True)):
                memo = threshold / SCALE
                seen = memo * (1 - flip) + (1 - memo) * flip
                given[place, row] = 1, seen
                bits.append((place, row, (memo_class, bit), memo, seen))
        for place, row, memory, memo, seen in bits:
            both[place, row, 1, place, row, 1] += seen * (1 - seen)
            for other, other_row, other_memory, *_ in bits:
                if other != place and memory == other_memory and wrong != "memo":
                    both[place, row, 1, other, other_row, 1] += (1 - 2 * flip) ** 2 * memo * (1 - memo)
        flat = given.ravel()
        mean += chance * flat
        second += chance * (both.reshape(second.shape) + np.outer(flat, flat))
    return mean, second - np.outer(mean, mean)


def sampled_moments(metric: Metric, history: list[int], plan: Plan, wrong: str = "") -> tuple[Any, Any]:
    """The same for sampled answers: in each window one round, drawn for itself, and some of the metrics."""
    width, asked = plan.answers.window, plan.asked / len(plan.metrics)
    rows = metric.mechanism.row_count * 2
    mean, covariance = [], np.zeros((len(history) * rows,) * 2)
    for start in range(0, len(history), width):
        places = range(start, min(start + width, len(history)))
        of_rounds = [moments(metric, [history[place]]) for place in places]
        means = np.concatenate([asked / width * one for one, _ in of_rounds])
        second = np.zeros((len(means), len(means)))
        for place, (one, two) in enumerate(of_rounds):
            block = slice(place * rows, (place + 1) * rows)
            second[block, block] = asked / width * (two + np.outer(one, one))
        window = slice(start * rows, start * rows + len(means))
        # Were rounds picked independently, each with the same chance, nothing would tie those of a window.
        covariance[window, window] = second - np.outer(means, means) * (
            1 if wrong != "picks" else np.kron(np.eye(len(places)), np.ones((rows, rows)))
        )
        mean.append(means)
    return np.concatenate(mean), covariance


def divided_moments(metric: Metric, history: list[int], plan: Plan, wrong: str = "") -> tuple[Any, Any]:
    """The same for remembered answers to some of the metrics: a device is asked in all rounds, or in none."""
    asked = plan.asked / len(plan.metrics)
    mean, covariance = moments(metric, history)
    both = np.full(covariance.shape, asked)
    if wrong == "asked":  # drawn in each round: both rounds are asked with the product of the chances
        rows = metric.mechanism.row_count * 2
        same = np.kron(np.eye(len(history)), np.ones((rows, rows)))
        both = np.where(same == 1, asked, asked**2)
    return asked * mean, both * (covariance + np.outer(mean, mean)) - asked**2 * np.outer(mean, mean)


def agrees(found: NDArray[np.float64], mean: Any, covariance: Any) -> bool:
    """Whether repetitions, one per row, have this mean and this covariance, entry by entry."""
    repetitions, spread = len(found), np.maximum(np.diag(covariance), 0)
    constant = spread < 1e-12
    if not np.allclose(found[:, constant], mean[constant]):
        return False
    off = np.abs(found.mean(axis=0) - mean)[~constant] / np.sqrt(spread[~constant] / repetitions)
    error = np.sqrt((np.outer(spread, spread) + covariance**2) / repetitions)[~constant][:, ~constant]
    apart = np.abs(np.cov(found.T) - covariance)[~constant][:, ~constant] / error
    return bool(off.max(initial=0) < SIGMAS and apart.max(initial=0) < SIGMAS)


def tallies(plan: Plan, crowd: Crowd, repetitions: int = REPETITIONS, name: str = "x") -> NDArray[np.float64]:
    drawn = CrowdDraws(plan, crowd, seed=7).draw(repetitions)
    return np.array(
        [np.stack([one[name].reports, one[name].ones], axis=2).ravel() for one in drawn], dtype=float
    )


@pytest.mark.parametrize("kind", METRICS)
def test_remembered_counts_have_the_mean_and_covariance_of_devices_and_no_other_law_does(kind: str) -> None:
    metric, histories = METRICS[kind], HISTORIES.get(kind, USUAL)
    crowd = Crowd.of({"x": np.array(histories).T}, devices=2 * COPIES)
    found = tallies(plan_of(metric), crowd, 1500 if kind == "three steps" else REPETITIONS)

    def law(wrong: str = "") -> tuple[Any, Any]:
        one, other = (moments(metric, history, wrong) for history in histories)
        return COPIES * (one[0] + other[0]), COPIES * (one[1] + other[1])

    assert agrees(found, *law())
    assert not agrees(found, *law("memo")), "a memo that is drawn in each round"
    assert not agrees(found, *law("flips")), "no flips"
    if metric.mechanism.grid is None and metric.mechanism.uses_cohort:
        assert not agrees(found, *law("cohort")), "a cohort that is drawn in each round"
    elif kind != "flag" and metric.mechanism.grid is not None:
        assert not agrees(found, *law("alpha")), "an alpha that is drawn in each round"


@pytest.mark.parametrize("kind", ["one step", "three steps", "hadamard", "choice", "two bits"])
def test_sampled_counts_have_the_mean_and_covariance_of_devices_and_no_other_law_does(kind: str) -> None:
    """Two windows of three rounds, the second one cut short; two of three metrics."""
    metric = replace(METRICS[kind], flip=Flip(0))
    others = Metric("y", OneBitMean(1, 60)), Metric("z", OneBitMean(1, 60))
    plan = plan_of(others[0], metric, others[1], answers=Answers(window=3, metrics=2))
    histories = [[*history, history[1]] for history in HISTORIES.get(kind, USUAL)]
    values = np.array(histories).T
    crowd = Crowd.of({"x": values, "y": values * 0, "z": values * 0}, devices=2 * COPIES)
    found = tallies(plan, crowd)

    def law(wrong: str = "") -> tuple[Any, Any]:
        one, other = (sampled_moments(metric, history, plan, wrong) for history in histories)
        return COPIES * (one[0] + other[0]), COPIES * (one[1] + other[1])

    assert agrees(found, *law())
    if metric.mechanism.row_count == 1:  # with several rows the reports of each are too few to tell
        assert not agrees(found, *law("picks")), "rounds of a window that are picked independently"


@pytest.mark.parametrize("kind", ["one step", "three steps", "hadamard", "choice", "two bits"])
def test_divided_counts_have_the_mean_and_covariance_of_devices_and_no_other_law_does(kind: str) -> None:
    """Two of three metrics, the same in all rounds."""
    metric, histories = METRICS[kind], HISTORIES.get(kind, USUAL)
    others = Metric("y", OneBitMean(1, 60)), Metric("z", OneBitMean(1, 60))
    plan = plan_of(others[0], metric, others[1], answers=Answers(metrics=2))
    values = np.array(histories).T
    crowd = Crowd.of({"x": values, "y": values * 0, "z": values * 0}, devices=2 * COPIES)
    found = tallies(plan, crowd)

    def law(wrong: str = "") -> tuple[Any, Any]:
        one, other = (divided_moments(metric, history, plan, wrong) for history in histories)
        return COPIES * (one[0] + other[0]), COPIES * (one[1] + other[1])

    assert agrees(found, *law())
    assert not agrees(found, *law("asked")), "metrics that are drawn in each round"


def test_a_device_picks_one_round_of_a_window_and_so_many_metrics() -> None:
    names = ("a", "b", "c")
    plan = plan_of(*(Metric(name, OneBitMean(1, 60)) for name in names), answers=Answers(window=2, metrics=2))
    crowd = Crowd.of(dict.fromkeys(names, np.zeros((4, 3), int)), devices=50)
    for drawn in CrowdDraws(plan, crowd, seed=1).draw(20):
        about = np.array([drawn[name].reports[:, 0] for name in names])
        assert (about.sum(axis=0).reshape(2, 2).sum(axis=1) == 2 * 50).all(), "each device once per window"
        assert (2 * about.max(axis=0) <= about.sum(axis=0)).all(), "no device about a metric twice"
        assert (about.sum(axis=0) % 2 == 0).all()


def test_the_joint_law_of_two_devices_is_that_of_all_their_outcomes() -> None:
    """
    Three rounds, two steps: 27 outcomes of the ones of two devices, with their exact probabilities.

    Pearson's statistic over 4,000 repetitions raises a false alarm once in 10^6; wrong laws raise it.
    """
    metric, history = Metric("x", OneBitMean(4, 60, 30), FLIP), [15, 45, 15]
    found = tallies(plan_of(metric), Crowd.of({"x": np.array([history]).T}, devices=2), repetitions=4000)
    ones = found.reshape(-1, 3, 2)[:, :, 1].astype(int)
    seen = np.bincount(ones @ [9, 3, 1], minlength=27)

    def alarm(wrong: str = "") -> bool:
        one = np.zeros((2, 2, 2))
        flip = 0.0 if wrong == "flips" else FLIP.threshold / SCALE
        for chance, of_alpha, _ in drawn_once(metric, history, wrong):
            cells = [metric.mechanism.memo_class(*pair, 0) for pair in zip(history, of_alpha, strict=True)]
            keys = list(range(3)) if wrong == "memo" else cells  # which memo a round has
            for memo in product((0, 1), repeat=3):
                if any(memo[a] != memo[b] for a in range(3) for b in range(a) if keys[a] == keys[b]):
                    continue
                likely = chance
                for key in set(keys):
                    place = keys.index(key)
                    share = metric.mechanism.thresholds(cells[place], 0)[0] / SCALE
                    likely *= share if memo[place] else 1 - share
                for bits in product((0, 1), repeat=3):
                    turned = sum(a != b for a, b in zip(bits, memo, strict=True))
                    one[bits] += likely * flip**turned * (1 - flip) ** (3 - turned)
        two = np.zeros((3, 3, 3))
        for first, second in product(np.ndindex(2, 2, 2), repeat=2):
            two[tuple(np.add(first, second))] += one[first] * one[second]
        assert two.sum() == pytest.approx(1)
        expected = np.maximum(4000 * two.ravel(), 1e-9)
        return bool(chi2.sf(((seen - expected) ** 2 / expected).sum(), 26) < 1e-6)

    assert not alarm()
    assert all(alarm(wrong) for wrong in ("memo", "flips", "alpha"))


# Against the fleet, device by device

EVERYTHING = plan_of(
    Metric("editor", OneBitMean(2, 60), Flip("0.2")),
    Metric("browser", OneBitMean(2, 60, 20)),
    Metric("spread", HadamardBit(2, Buckets.even(60, 4))),
    Metric("narrow", DBitFlip(2, Buckets.even(60, 4), 2), Flip("0.1")),
    groups=(Group("both", ("editor", "browser"), 70),),
    segments=(Segment("os", ("linux", "windows")),),
)
SAMPLED = replace(
    EVERYTHING,
    metrics=tuple(replace(metric, flip=Flip(0)) for metric in EVERYTHING.metrics),
    answers=Answers(window=2, metrics=3),
)

DIVIDED = replace(EVERYTHING, answers=Answers(metrics=3))


@pytest.mark.parametrize("plan", [EVERYTHING, SAMPLED, DIVIDED], ids=["remembered", "sampled", "divided"])
def test_counts_agree_with_those_of_the_fleet_over_rounds_and_segments(plan: Plan) -> None:
    """
    Means and covariances over rounds and segments of 150 fleets and 250 draws, and a joint limit that bites.

    Two samples: an entry is off by six standard errors once in 5e8. A crowd without the limit is told apart, and
    so are segments that draw the same numbers.
    """
    draw = np.random.default_rng(3)
    names, rounds, copies = list(plan.by_name), 3, 20
    individuals = {name: draw.integers(30, 61, (rounds, 4)) for name in names}
    tags = np.repeat(np.array([[0], [0], [1], [1]], dtype=np.uint8), copies, axis=0)
    devices = {name: np.repeat(values, copies, axis=1) for name, values in individuals.items()}
    crowds = [
        Crowd.of({name: values[:, part] for name, values in individuals.items()}, devices=2 * copies)
        for part in (slice(0, 2), slice(2, 4))
    ]
    window = plan.window_of(plan.round_at(1_700_438_400))
    first = window.first if window else 5

    def of_fleet(seed: int) -> dict[str, list[int]]:
        fleet, heard = VectorisedFleet(plan, 4 * copies, seed), {}
        for place in range(rounds):
            by_cell = fleet.counts(first + place, {n: v[place] for n, v in devices.items()}, tags)
            for os in ("linux", "windows"):
                counts = by_cell.get((first + place, (os,)))
                for name, metric in plan.by_name.items():
                    rows = list(counts[name].rows()) if counts else [(0, 0, 0)] * metric.mechanism.row_count
                    heard.setdefault((name, os), []).extend(n for row in rows for n in row[1:])
        return {name: heard[name, "linux"] + heard[name, "windows"] for name in names}

    def of_crowds(which: Plan, segments: tuple[int, int]) -> list[dict[str, list[int]]]:
        drawn = (
            CrowdDraws(which, crowd, 1, place).draw(250)
            for crowd, place in zip(crowds, segments, strict=True)
        )
        return [
            {name: [n for of in both for n in numbers(of[name])] for name in names}
            for both in zip(*drawn, strict=True)
        ]

    def numbers(one: Tallies) -> list[int]:
        return np.stack([one.reports, one.ones], axis=2).ravel().tolist()

    fleets = [of_fleet(seed) for seed in range(150)]

    def agree(sample: list[dict[str, list[int]]], name: str) -> bool:
        return close(*(np.array([one[name] for one in each], float) for each in (fleets, sample)))

    ours = of_crowds(plan, (0, 1))
    assert all(agree(ours, name) for name in names)
    assert not agree(of_crowds(replace(plan, groups=()), (0, 1)), "browser")
    assert not all(agree(of_crowds(plan, (0, 0)), name) for name in names)


def close(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether two samples have the same mean and covariance, entry by entry."""
    first, second = np.cov(one.T), np.cov(other.T)
    error = sum(np.diag(c) / len(s) for c, s in ((first, one), (second, other)))
    off = np.abs(one.mean(axis=0) - other.mean(axis=0)) / np.sqrt(np.maximum(error, 1e-9))
    spread = np.diag((first + second) / 2)
    errors = (np.outer(spread, spread) + ((first + second) / 2) ** 2) * (1 / len(one) + 1 / len(other))
    apart = np.abs(first - second) / np.sqrt(np.maximum(errors, 1e-9))
    return bool(off.max() < SIGMAS and apart.max() < SIGMAS)


# Size, seeds and mistakes


def test_binomials_of_a_billion_and_a_half_are_as_wide_as_they_should_be() -> None:
    """1.5 billion devices, 3,000 draws: mean and variance within six standard errors; other ones are not."""
    metric = METRICS["three steps"]
    crowd = Crowd.of({"x": np.array([[33], [33]])}, devices=1_500_000_000)
    found = tallies(plan_of(metric), crowd, repetitions=3000)
    mean, covariance = (1_500_000_000 * moment for moment in moments(metric, [33, 33]))
    assert agrees(found, mean, covariance)
    assert not agrees(found, mean, 1.3 * covariance)
    assert not agrees(found, 1.00001 * mean, covariance)


def test_a_seed_gives_the_same_counts_and_blocks_add_up() -> None:
    values = {name: np.random.default_rng(1).integers(0, 61, (3, 40)) for name in EVERYTHING.by_name}
    crowd = Crowd.of(values, devices=1000)
    one, again, other = (CrowdDraws(EVERYTHING, crowd, seed).draw(2) for seed in (1, 1, 2))

    def flat(drawn: Any) -> list[Any]:
        return [tally.ones.tolist() for of in drawn for tally in of.values()]

    assert flat(one) == flat(again)
    assert flat(one) != flat(other)
    assert flat(one[:1]) != flat(one[1:]), "repetitions differ"
    small = CrowdDraws(EVERYTHING, crowd, 1)
    small.block = 16
    assert len(small.parts) == 3
    told: list[tuple[int, int]] = []
    seen: list[int] = []
    drawn = small.draw(1, lambda part, values, inside: seen.extend(range(part.start, part.stop)),
                       lambda done, total: told.append((done, total)))  # fmt: skip
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert seen == list(range(40)), "each individual is looked at once, in order"
    assert drawn[0]["editor"].reports.tolist() == [[1000]] * 3


def test_values_are_taken_as_a_device_takes_them() -> None:
    """The joint limit and the ranges, against the device's own exact arithmetic."""
    draw = np.random.default_rng(5)
    values = {name: draw.integers(-5, 90, (2, 30)) for name in EVERYTHING.by_name}
    looked: dict[str, Any] = {}
    CrowdDraws(EVERYTHING, Crowd.of(values), 1).draw(1, lambda part, raw, inside: looked.update(inside))
    for place, device in product(range(2), range(30)):
        own = in_range(EVERYTHING, {name: int(values[name][place, device]) for name in values})
        for name, value in own.items():
            assert looked[name][place, device] == pytest.approx(float(value or 0), abs=1e-12)


def test_devices_are_shared_out_evenly() -> None:
    crowd = Crowd.of({"x": np.zeros((1, 7), int)}, devices=24)
    copies = crowd.copies(slice(0, 7))
    assert copies.sum() == 24
    assert set(copies.tolist()) == {3, 4}
    assert np.concatenate([crowd.copies(slice(0, 3)), crowd.copies(slice(3, 7))]).tolist() == copies.tolist()


@pytest.mark.parametrize(
    ("devices", "values"), [(2, np.zeros((1, 3))), (None, np.zeros((0, 3))), (None, np.zeros(3))]
)
def test_a_crowd_that_cannot_be_is_refused(devices: int | None, values: Any) -> None:
    with pytest.raises(ParameterError):
        Crowd.of({"x": values.astype(int)}, devices)


@pytest.mark.parametrize("kind", ["three steps", "hadamard"])
def test_individuals_who_never_change_are_all_counted(kind: str) -> None:
    crowd = Crowd.of({"x": np.array([[30, 5, 30, 30], [30, 5, 30, 40]])}, devices=4000)
    (found,) = tallies(plan_of(METRICS[kind]), crowd, repetitions=1)
    assert found.reshape(2, -1, 2)[:, :, 0].sum(axis=1).tolist() == [4000, 4000]


def test_made_up_individuals_differ_between_blocks_and_recorded_ones_stay_together() -> None:
    people = Recorded("r", 60, tuple("abcd"), ("1",), np.array([[1, 2, 3, 4]], dtype=np.int32))
    plan = plan_of(*(Metric(name, OneBitMean(1, 60)) for name in "xyz"))
    crowd = Crowd.drawn(plan, {"x": people, "y": people, "z": Uniform(60)}, 1, 4, 9, seed=1)
    first, second = crowd.values(slice(0, 2)), crowd.values(slice(2, 4))
    assert first["x"].tolist() == first["y"].tolist() == [[1, 2]]
    assert second["y"].tolist() == [[3, 4]]
    assert first["z"].tolist() == crowd.values(slice(0, 2))["z"].tolist() != second["z"].tolist()
    some = Crowd.drawn(plan, {"x": people, "y": people, "z": Uniform(60)}, 1, 3, 9, seed=1).values(
        slice(0, 3)
    )
    assert some["x"].tolist() == some["y"].tolist()
    assert len(set(some["x"][0].tolist())) == 3, "a sample without replacement"
    with pytest.raises(ParameterError, match="individuals: expected at most those in r, got 5"):
        Crowd.drawn(plan, {"x": people, "y": people, "z": Uniform(60)}, 1, 5, 9, seed=1)


@pytest.mark.parametrize("answers", [Answers(), Answers(window=1)], ids=["remembered", "sampled"])
def test_rows_have_the_reports_of_their_cohorts(answers: Answers) -> None:
    """Three buckets share 256 cohorts as 86, 85 and 85; 6 standard deviations of a billion devices tell them apart."""
    mechanism, devices = DBitFlip(2, Buckets.even(3, 3), 1), 10**9
    crowd = Crowd.of({"x": np.array([[1]])}, devices)
    (drawn,) = CrowdDraws(plan_of(Metric("x", mechanism), answers=answers), crowd, 1).draw(1)
    rows = [row for cohort in range(COHORTS) for row in mechanism.rows_of(cohort)]
    expected = np.bincount(rows) * devices / COHORTS
    assert len(set(expected)) > 1
    assert (np.abs(drawn["x"].reports[0] - expected) < SIGMAS * np.sqrt(expected)).all()
