"""
Sampled answers, exactly: what a device sends in two windows loses 2ε over any two histories, and no more.

The law is that of the real answering code, enumerated by `reticent_lab.audit.window_laws` over all outputs of its
keyed hash: a draw that two windows shared would be shared here too. What is compared is the joint observation of
all rounds of both windows (in which round a report came, and its bytes), not a product of two laws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import mpmath
import pytest

from reticent.device import SecretDraws, answer, prf
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Answers, Group, Metric, Plan
from reticent_collector.privacy import joint_limit_loss
from reticent_lab.audit.windows import (
    FunctionTable,
    TableDraws,
    WindowLaw,
    loss_of_laws,
    window_laws,
    windows_are_independent,
)

SECRET = bytes(32)
Values = Mapping[str, int]
History = tuple[Values, ...]


def loss(laws: Sequence[WindowLaw]) -> mpmath.mpf:
    """The largest ln of a ratio, over all pairs of laws, each of which adds up to 1."""
    assert all(sum(law.values()) == 1 for law in laws)
    worst = loss_of_laws(laws)
    with mpmath.workdps(60):
        return mpmath.log(mpmath.mpf(worst.above) / worst.below) if worst.below else mpmath.inf


Draw = Callable[[FunctionTable, str, "int | None"], SecretDraws]


def every_history(rounds: int, moments: Sequence[Values]) -> list[History]:
    return list(product(moments, repeat=rounds))


def plan_of(*metrics: Metric, window: int, asked: int | None = None, limit: int = 0) -> Plan:
    groups = (Group("g", tuple(metric.name for metric in metrics), limit),) if limit else ()
    return Plan("p", 1, 86_400, 0, metrics, groups, answers=Answers(window, asked))


MEAN = Metric("a", OneBitMean(1, 2))
FINE = Metric("a", OneBitMean(1, 2, step=1))
OTHER = Metric("b", OneBitMean("1/2", 2))
HADAMARD = Metric("h", HadamardBit(1, Buckets.even(3, 3)))
BITS = Metric("h", DBitFlip(1, Buckets.even(3, 3), 2, label="p/h"))
CHOICE = Metric("c", HadamardBit(1, Buckets(range(3), absent=True)), labels=("x", "y"))
ONE = [{"a": value} for value in (0, 1, 2)]
BOTH = [{"a": left, "b": right} for left, right in ((0, 0), (1, 2), (2, 2))]
HISTOGRAM = [{"h": value} for value in (0, 1, 2)]

CASES = {
    "mean": (plan_of(MEAN, window=2), ONE, 2),
    "mean, window of one round": (plan_of(MEAN, window=1), ONE, 2),
    "mean with steps": (plan_of(FINE, window=1), ONE, 2),
    "hadamard": (plan_of(HADAMARD, window=1), HISTOGRAM, 2),
    "dbitflip": (plan_of(BITS, window=1), HISTOGRAM, 2),
    "one of two": (plan_of(MEAN, OTHER, window=1, asked=1), BOTH, 2),
    "both of two": (plan_of(MEAN, OTHER, window=1), BOTH, 3),
    "choice": (plan_of(CHOICE, window=1), [{"c": 0}, {"c": 1}, {}], 2),
}
"""By name: the plan, the values of a round, and the loss of two windows."""


@pytest.mark.parametrize(("plan", "moments", "figure"), CASES.values(), ids=CASES)
def test_two_windows_lose_twice_epsilon_over_all_histories(
    plan: Plan, moments: list[Values], figure: float
) -> None:
    rounds = plan.answers.window
    laws = window_laws(
        plan, every_history(2 * rounds, moments), cohorts=4
    )  # every row of the histograms here
    exact = loss(laws)
    assert exact <= figure
    assert figure - exact < 1e-14 * figure
    assert all(windows_are_independent(law, rounds) for law in laws)


def test_a_joint_limit_lowers_what_a_window_loses() -> None:
    """Two counters that cannot both be at their top lose less than their sum, in each window."""
    histories = every_history(2, [{"a": left, "b": right} for left, right in ((0, 2), (2, 0))])
    twin = Metric("b", OneBitMean(1, 2))
    laws = window_laws(plan_of(MEAN, twin, window=1, limit=1), histories)
    figure = 2 * joint_limit_loss([MEAN.mechanism, twin.mechanism], [Flip(0), Flip(0)], 1, rounds="one")
    assert loss(laws) <= figure < 4
    assert figure - loss(laws) < 1e-12
    assert all(windows_are_independent(law, 1) for law in laws)


def keeping(kind: str) -> Draw:
    """Draws of which one kind is kept across windows."""

    def draws(table: FunctionTable, plan: str, window: int | None) -> SecretDraws:
        fresh = TableDraws(table, plan, window)
        setattr(fresh, kind, getattr(TableDraws(table, plan, None), kind))
        return fresh

    return draws


class Shared(TableDraws):
    """Every class of every metric has the same draw."""

    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        return super().memo(FIRST, 0)


FIRST = MEAN
MUTANTS: dict[str, tuple[str, Draw]] = {
    "memo kept": ("mean, window of one round", keeping("memo")),
    "alpha kept": ("mean, window of one round", keeping("alpha")),
    "cohort kept": ("hadamard", keeping("cohort")),
    "pick kept": ("mean", keeping("picked_round")),
    "metrics kept": ("one of two", keeping("asked")),
    "draws of two metrics shared": ("both of two", Shared),
}


@pytest.mark.parametrize(("case", "draw"), MUTANTS.values(), ids=MUTANTS)
def test_a_device_that_keeps_or_shares_draws_is_caught(case: str, draw: Draw) -> None:
    plan, moments, figure = CASES[case]
    laws = window_laws(plan, every_history(2 * plan.answers.window, moments), draw)
    independent = all(windows_are_independent(law, plan.answers.window) for law in laws)
    assert loss(laws) > figure or not independent


def test_a_kept_memo_loses_everything() -> None:
    plan, moments, _ = CASES["mean, window of one round"]
    assert loss(window_laws(plan, every_history(2, moments), keeping("memo"))) == mpmath.inf


class Inputs:
    """`blake2b` as far as the draws use it; notes what is hashed."""

    seen: list[bytes]

    def __init__(self, data: bytes = b"", *, key: bytes, digest_size: int) -> None:
        self.data = data

    def copy(self) -> Inputs:
        return type(self)(self.data, key=b"", digest_size=64)

    def update(self, more: bytes) -> None:
        self.data += more

    def digest(self) -> bytes:
        self.seen.append(self.data)
        return bytes(64)


def inputs(plan: Plan, draws: SecretDraws, number: int, monkeypatch: pytest.MonkeyPatch) -> set[bytes]:
    """All inputs of a report: its pick, its metrics, its delay and its answers."""
    seen: list[bytes] = []
    monkeypatch.setattr(Inputs, "seen", seen, raising=False)
    if plan.answers.sampled:
        draws.picked_round(plan.window_of(number))
    draws.delay(number)
    answer(draws, plan, number, {"a": 1})
    return set(seen)


@pytest.mark.parametrize("by", ["start", "number"])
def test_no_input_of_the_hash_repeats_across_windows_modes_or_epochs(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W = 1000 and then 1013: window 81 of one and window 81 of the other. Keyed by numbers, all repeat."""
    monkeypatch.setattr(prf, "blake2b", Inputs)
    seen: list[set[bytes]] = []
    for length in (1000, 1013):
        plan = plan_of(MEAN, OTHER, window=length, asked=1)
        origin = next(number for number in range(99) if plan.window_of(number))
        for place in (3, 5, 81):
            window = plan.window_of(origin + place * length)
            for epoch in (0, 3, 5):
                draws = SecretDraws(SECRET, "p", epoch, window.start if by == "start" else place)
                monkeypatch.setattr(SecretDraws, "window", window.start)
                seen.append(inputs(plan, draws, window.first, monkeypatch))
    monkeypatch.setattr(SecretDraws, "window", None)
    remembered = Plan("p", 1, 86_400, 0, (MEAN, OTHER))
    for epoch in (0, 3, 5):
        seen.append(inputs(remembered, SecretDraws(SECRET, "p", epoch), 4000 + epoch, monkeypatch))
    assert (sum(map(len, seen)) == len(set().union(*seen))) is (by == "start")


def test_the_pick_is_the_same_in_each_version_and_uniform() -> None:
    plan = plan_of(MEAN, window=28)
    window = plan.window_of(4000)
    picks = [
        SecretDraws(device.to_bytes(32, "big"), "p", 0, window.start).picked_round(window)
        for device in range(2800)
    ]
    assert set(picks) == set(range(window.first, window.first + 28))
    # chi-squared of 27 degrees: above 75.0 with probability 2e-6 (the secrets are fixed)
    assert sum((picks.count(pick) - 100) ** 2 / 100 for pick in set(picks)) < 75


@pytest.mark.parametrize("wrong", ["window", "round", "remembered", "before the first window"])
def test_a_device_answers_its_picked_round_with_the_draws_of_its_window_only(wrong: str) -> None:
    plan = plan_of(MEAN, window=4)
    window = plan.window_of(4000)
    draws = SecretDraws(SECRET, "p", 0, window.start)
    number = draws.picked_round(window)
    assert answer(draws, plan, number, {}).report.round == number
    if wrong == "window":
        draws = SecretDraws(SECRET, "p", 0, window.start + 4 * 86_400)
    elif wrong == "remembered":
        draws = SecretDraws(SECRET, "p", 0)
    elif wrong == "round":
        number = next(other for other in range(window.first, window.first + 4) if other != number)
    else:
        draws, number = SecretDraws(SECRET, "p", 0), 3
    with pytest.raises(ValueError, match="window"):
        answer(draws, plan, number, {})
