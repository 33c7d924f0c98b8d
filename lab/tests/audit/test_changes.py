"""Histories that change: mirrored in pairs, with returns, and held against claims that are theirs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from reticent.plan import Plan
from reticent_lab.audit.blind import compare_envelopes
from reticent_lab.audit.bounds import HistoryComparison, judge
from reticent_lab.audit.changes import compare_changes
from reticent_lab.audit.enumeration import enumerate_plan
from reticent_lab.audit.scenarios import Sample, World, histories

WORLD = World(({"m": 0}, {"m": 1}, {"m": 2}), rounds=10)


def test_histories_come_in_mirrored_pairs_that_change_and_return() -> None:
    paths = WORLD.paths(4_000, [1, 2]).astype(int)
    first, second = paths[::2], paths[1::2]
    assert set(np.unique((second - first) % 3)) == {1, 2}
    assert ((first != second).all(axis=1)).all()
    for pair in zip(first[:200], second[:200], strict=True):
        assert len(set(np.concatenate(pair))) == 2  # two states, wherever the pair is
    changes = first[:, 1:] != first[:, :-1]
    assert 0.7 < changes.mean() < 0.8
    assert (changes.mean(axis=0) > 0.7).all()  # in every place
    returned = [len(set(path)) == 2 and (path[1:] != path[:-1]).sum() >= 2 for path in first]
    assert np.mean(returned) > 0.95


def test_histories_are_fixed_before_any_answer() -> None:
    assert (WORLD.paths(50, [3, 4]) == WORLD.paths(50, [3, 4])).all()
    assert (WORLD.paths(50, [3, 4]) != WORLD.paths(50, [3, 5])).any()


@pytest.mark.parametrize("name", ["mean", "group", "mixed", "hadamard"])
def test_every_metric_moves_and_every_limit_is_kept(plans: dict[str, Plan], name: str) -> None:
    plan = plans[name]
    told = histories(plan, 10)
    assert told.moving is not None
    states = told.worlds[told.moving].states
    assert all(len({state[metric.name] for state in states}) == 2 for metric in plan.metrics)
    for world, group in product(told.worlds, plan.groups):
        assert all(sum(state[name] for name in group.metrics) <= group.max_total for state in world.states)


def test_the_middle_is_between_two_cells(plans: dict[str, Plan]) -> None:
    """Where devices differ in how they round, so that a shared alpha shows."""
    told = histories(plans["group of two"], 10)
    assert told.middle is not None
    [state] = told.worlds[told.middle].states
    assert state == {"app0": 50, "app1": 50}


def compared(plan: Plan, agrees: float, agrees_later: float) -> list[HistoryComparison]:
    """Moving devices whose answers speak for their value in these shares: in the first half, and the second."""
    told = histories(plan, 10)
    assert told.moving is not None
    world, devices, coins = told.worlds[told.moving], 4_000, np.random.default_rng(5)
    states = world.paths(devices, [0])
    chance = np.where(np.arange(devices) < devices // 2, agrees, agrees_later)[:, None]
    answers = (states == 0) == (coins.random(states.shape) < chance)
    sample = Sample(
        states=states,
        bits=(answers.astype(np.uint8) << 7)[:, :, None],
        silent=np.zeros(states.shape, np.bool_),
        sizes=np.ones(states.shape, np.int32),
        cohorts=np.zeros(states.shape, np.uint8),
        asked=np.zeros((*states.shape, 0), np.uint8),
        picks=np.zeros(states.shape, np.int32),
        ids=np.zeros((devices, 16), np.uint8),
        faults={},
    )
    return list(compare_changes(plan, world, sample, enumerate_plan(plan, 10)))


def test_what_is_learned_is_judged_on_other_devices(plans: dict[str, Plan]) -> None:
    """Devices that tell all, but only where the event is learned, prove nothing; elsewhere they prove much."""
    lowers = {
        shares: max(row.lower for row in judge(compared(plans["mean"], *shares)) if "returning" in row.what)
        for shares in ((1.0, 0.5), (0.9, 0.9))
    }
    assert lowers[1.0, 0.5] < 0.5
    assert lowers[0.9, 0.9] > 2


def test_how_much_is_compared_does_not_depend_on_answers(plans: dict[str, Plan]) -> None:
    sizes = {len(compared(plans["mean"], share, share)) for share in (0.0, 0.5, 1.0)}
    assert sizes == {9 * 6 + 1}  # in each place but the first: two single rounds, four pairs; and all rounds


def test_sizes_are_learned_and_judged_on_different_devices(plans: dict[str, Plan]) -> None:
    """Sizes that are all chance, of many kinds: what was commoner among some devices is not so among others."""
    shape, coins = (2_000, 1), np.random.default_rng(6)
    samples = [
        Sample(
            states=np.zeros(shape, np.int16),
            bits=np.zeros((*shape, 1), np.uint8),
            silent=np.zeros(shape, np.bool_),
            sizes=coins.integers(1, 500, shape).astype(np.int32),
            cohorts=np.zeros(shape, np.uint8),
            asked=np.zeros((*shape, 0), np.uint8),
            picks=np.zeros(shape, np.int32),
            ids=coins.integers(0, 256, (shape[0], 16)).astype(np.uint8),
            faults={},
        )
        for _ in range(2)
    ]
    assert [attack.what for attack in judge(compare_envelopes(plans["mean"], samples)) if attack.above] == []
