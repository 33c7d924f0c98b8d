"""The joint law over several rounds: remembered bits do not average out."""

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest
from tests.shared.exact_laws import distance, law_of_devices, law_of_sampler

from reticent.counts import count_reports
from reticent.errors import ParameterError
from reticent.lab.fleet import VectorisedFleet
from reticent.lab.fleet_counts import Histories, ones_per_round
from reticent.mechanisms import SCALE, Flip, Grid, OneBitMean
from reticent.plan import Metric, Plan
from reticent.reports import from_packed

MECHANISM = OneBitMean(1, grid=Grid([0, 40, 100]))


def device_law(history: tuple[int, ...], thresholds: tuple[int, ...], flip: Flip) -> dict:
    """The law of one device's bits over all rounds: a bit per class drawn once, a flip drawn each round."""
    law: dict[tuple[int, ...], Fraction] = {}
    turned, classes = Fraction(flip.threshold, SCALE), sorted(set(history))
    for bits in product((0, 1), repeat=len(classes)):
        memo, weight = dict(zip(classes, bits, strict=True)), Fraction(1)
        for memo_class, bit in memo.items():
            chance = Fraction(thresholds[memo_class], SCALE)
            weight *= chance if bit else 1 - chance
        for turns in product((0, 1), repeat=len(history)):
            chance = weight
            for turn in turns:
                chance *= turned if turn else 1 - turned
            sent = tuple(memo[each] ^ turn for each, turn in zip(history, turns, strict=True))
            law[sent] = law.get(sent, Fraction(0)) + chance
    return law


DEVICES = [(0, 0, 2), (0, 0, 2), (1, 0, 1), (2, 2, 2)]


@pytest.mark.parametrize(("gamma", "devices"), [("0", DEVICES), ("1/5", [(0, 1), (0, 1), (2, 2)])])
def test_a_tiny_fleet_has_the_joint_law_of_its_devices(gamma, devices):
    """Every outcome of two or three rounds, enumerated; devices that forget have another law."""
    flip, thresholds = Flip(gamma), MECHANISM.cell_thresholds
    histories = Histories.of(np.array(devices).T)
    assert len(histories.devices) < len(devices)
    drawn = law_of_sampler(lambda source: ones_per_round(thresholds, flip, histories, 1, source)[0])
    exact = law_of_devices(device_law(history, thresholds, flip) for history in devices)
    assert distance(drawn, exact) < 1e-12
    alone = [
        law_of_devices(device_law((each,), thresholds, flip) for each in each_round)
        for each_round in zip(*devices, strict=True)
    ]
    forgetful = {
        tuple(key[0] for key in keys): prod(law[key] for law, key in zip(alone, keys, strict=True))
        for keys in product(*alone)
    }
    assert distance(drawn, forgetful) > 0.01


def worst(draws: np.ndarray, law: dict) -> float:
    """The largest difference of a frequency from its probability, in standard errors."""
    law = {key: chance for key, chance in law.items() if chance}
    outcomes, seen = np.unique(draws, axis=0, return_counts=True)
    found = {tuple(outcome): int(number) for outcome, number in zip(outcomes.tolist(), seen, strict=True)}
    if found.keys() - law.keys():
        return float("inf")
    chances = np.array([float(law[key]) for key in law])
    shares = np.array([found.get(key, 0) / len(draws) for key in law])
    return float((np.abs(shares - chances) / np.sqrt(chances * (1 - chances) / len(draws))).max())


def test_the_mean_of_a_week_varies_as_remembered_bits_do():
    """
    n·Var of the share of ones over T = 7 days of steady devices: (1-2γ)²P(1-P) + γ(1-γ)/T = 0.112, not the
    0.036 that dividing one day's by 7 would give. 20,000 draws; a variance is known to 1 %, five of them.
    """
    devices, days, flip = 1_000, 7, Flip("0.2")
    steady = Histories(np.full((1, days), 1), np.array([devices]))
    draws = ones_per_round(MECHANISM.cell_thresholds, flip, steady, 20_000, np.random.default_rng(6))
    found = devices * (draws / devices).mean(axis=1).var()
    chance = MECHANISM.probability_of_one(40)
    expected = 0.36 * chance * (1 - chance) + 0.16 / days
    assert round(expected, 3) == 0.112
    assert found == pytest.approx(expected, rel=0.05)
    naive = (0.6 * chance + 0.2) * (0.8 - 0.6 * chance) / days
    assert round(naive, 3) == 0.036
    assert found > 3 * naive


def test_a_vectorised_fleet_remembers_in_the_same_way():
    """
    300 fleets of 60 devices over three rounds: each of the nine second moments within 6 standard errors.
    """
    plan = Plan("memo", 1, 60, 60, (Metric("a", MECHANISM, Flip("0.1")),))
    rounds = np.array([[40] * 60, [0] * 20 + [40] * 40, [0] * 20 + [100] * 40])
    totals = []
    for seed in range(300):
        fleet, row = VectorisedFleet(plan, 60, seed), []
        for number, values in enumerate(rounds):
            (counts,) = count_reports(from_packed(fleet.packed(number, {"a": values}), plan), plan).values()
            row.append(counts["a"].ones)
        totals.append(row)
    cells = np.searchsorted([0, 40, 100], rounds)
    source, flip = np.random.default_rng(7), Flip("0.1")
    drawn = ones_per_round(MECHANISM.cell_thresholds, flip, Histories.of(cells), 20_000, source)
    centre = drawn.mean(axis=0)
    moments = [each - centre for each in (np.array(totals), drawn)]
    few, many = (each[:, :, None] * each[:, None, :] for each in moments)
    error = many.std(axis=0) / len(totals) ** 0.5
    assert (np.abs(few.mean(axis=0) - many.mean(axis=0)) < 6 * error).all()
    assert many.mean(axis=0)[0, 1] > 6 * error[0, 1]  # two thirds repeat their bit


def test_steps_of_few_repetitions_do_not_change_the_law(monkeypatch):
    """50,000 draws: each of at most 125 outcomes within 6 standard errors, a false alarm below 1e-6."""
    histories = Histories.of(np.array(DEVICES).T)
    monkeypatch.setattr("reticent.lab.fleet_counts._AT_ONCE", 1_000)
    flip = Flip("0.1")
    draws = ones_per_round(MECHANISM.cell_thresholds, flip, histories, 50_000, np.random.default_rng(1))
    exact = law_of_devices(device_law(history, MECHANISM.cell_thresholds, flip) for history in DEVICES)
    assert worst(draws, exact) < 6


def test_what_is_no_history_is_refused():
    with pytest.raises(ParameterError, match="whole numbers >= 0"):
        Histories.of(np.array([0, 1]))
    with pytest.raises(ParameterError, match="one for each of 3 classes"):
        ones_per_round((1, 2), Flip(0), Histories.of(np.array([[2]])), 1, np.random.default_rng(1))
