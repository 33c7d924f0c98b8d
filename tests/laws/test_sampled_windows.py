"""
Sampled answers, exactly: what a device sends in two windows loses 2ε over any two histories, and no more.

The law is that of the real answering code. Its keyed hash is replaced by a table that gives each input one
output, and every table is enumerated with its probability as a whole number over a power of 2⁶⁴. So a draw
that two windows shared would be shared here too. What is compared is the joint observation of all rounds of
both windows (in which round a report came, and its bytes), not a product of two laws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, permutations, product
from typing import Any

import mpmath
import pytest

from reticent.device import SecretDraws, answer, prf
from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Answers, Group, Metric, Plan
from reticent.privacy import joint_limit_loss
from reticent.reports import to_json

SECRET = bytes(32)
Values = Mapping[str, int]
History = tuple[Values, ...]
Law = dict[tuple[bytes, ...], Fraction]
Outputs = list[tuple[int, bytes]]
"""The outputs that an input may have, each with its weight out of 2⁶⁴."""


def fields_of(message: bytes) -> list[bytes]:
    """What an input of the hash is made of."""
    fields, place = [], 0
    while place < len(message):
        size = int.from_bytes(message[place : place + 4], "big")
        fields.append(message[place + 4 : place + 4 + size])
        place += 4 + size
    return fields


class Table:
    """A random function, one table at a time: a hash whose outputs are chosen by a path through a tree."""

    def __init__(self, outputs: Callable[[list[bytes]], Outputs]) -> None:
        self.outputs = outputs
        self.path: list[tuple[int, int]] = []

    def runs(self, program: Callable[[], Any]) -> Iterator[tuple[Any, Fraction]]:
        """What a program does for each table, and the table's probability."""
        self.path = []
        while True:
            self.known: dict[bytes, bytes] = {}
            self.used, self.weight = 0, Fraction(1)
            yield program(), self.weight
            while self.path and self.path[-1][0] + 1 == self.path[-1][1]:
                self.path.pop()
            if not self.path:
                return
            choice, choices = self.path.pop()
            self.path.append((choice + 1, choices))

    def look_up(self, message: bytes) -> bytes:
        """The output of an input: the same one for the same input."""
        if message not in self.known:
            outputs = self.outputs(fields_of(message))
            if self.used == len(self.path):
                self.path.append((0, len(outputs)))
            weight, self.known[message] = outputs[self.path[self.used][0]]
            self.weight *= Fraction(weight, sum(each for each, _ in outputs))
            self.used += 1
        return self.known[message]


class Hash:
    """`blake2b` as far as `reticent.device.prf` uses it, over a table."""

    table: Table

    def __init__(self, data: bytes = b"", *, key: bytes, digest_size: int) -> None:
        self.data = data

    def copy(self) -> Hash:
        return type(self)(self.data, key=b"", digest_size=64)

    def update(self, more: bytes) -> None:
        self.data += more

    def digest(self) -> bytes:
        return self.table.look_up(self.data)


def parts(cuts: set[int], bits: int = 1) -> Outputs:
    """[0, 2⁶⁴) cut at some places: per part its size, and its first number as every word of a block."""
    edges = sorted({0, *cuts, SCALE})
    sizes = [(end - start, start.to_bytes(8, "big")) for start, end in pairwise(edges)]
    outputs = []
    for words in product(sizes, repeat=bits):
        weight = 1
        for size, _ in words:
            weight *= size
        outputs.append((weight, b"".join(word for _, word in words).ljust(64, b"\0")))
    return outputs


def outputs_of(plan: Plan, values: set[int | Fraction]) -> Callable[[list[bytes]], Outputs]:
    """
    What each draw can be, up to what the device does with it.

    Cohorts are taken from the first four, which reach every row of the small histograms here: a cohort is
    seen and does not depend on values, so the law given any cohorts may lose no more either.
    """
    cohorts = range(4 if plan.uses_cohort else 1)

    def outputs(fields: list[bytes]) -> Outputs:
        name, purpose = fields[-6].decode(), fields[-3].decode()
        if purpose == "round":
            cuts = {-(-SCALE * place // plan.answers.window) for place in range(plan.answers.window)}
            return parts(cuts)
        if purpose == "metrics":
            orders = permutations(range(len(plan.metrics)))
            return [(1, b"".join(n.to_bytes(8, "big") for n in order).ljust(64, b"\0")) for order in orders]
        if purpose == "cohort":
            return [(1, bytes([cohort]).ljust(64, b"\0")) for cohort in cohorts]
        if purpose == "id":
            return [(1, b"|".join(fields).ljust(64, b"\0")[-64:])]
        mechanism = plan.by_name[name].mechanism
        if purpose == "alpha":
            top = int(mechanism.max_value)
            edges = {-(-SCALE * (top - value) // top) for value in values if 0 < value < top}
            return parts(edges if mechanism.kind == "mean" else set())
        assert purpose == "memo"
        cuts = {
            cut
            for cohort in cohorts
            for memo_class in range(mechanism.classes)
            for cut in mechanism.thresholds(memo_class, cohort)
        }
        return parts(cuts, mechanism.bits)

    return outputs


Draw = Callable[[Plan, int], SecretDraws]


def as_the_device_does(plan: Plan, start: int) -> SecretDraws:
    return SecretDraws(SECRET, plan.name, 0, start)


def observation(plan: Plan, history: History, draw: Draw) -> tuple[bytes, ...]:
    """What is sent in each round, the first of which is the first of a window; nothing but in picked ones."""
    first = plan.window_of(4000).first
    sent = []
    for number, values in enumerate(history, first):
        window = plan.window_of(number)
        draws = draw(plan, window.start)
        picked = draws.picked_round(window) == number
        sent.append(to_json(answer(draws, plan, number, values).report) if picked else b"")
    return tuple(sent)


def laws(plan: Plan, histories: Sequence[History], monkeypatch: Any, draw: Draw) -> list[Law]:
    values = {value for history in histories for moment in history for value in moment.values()}
    values |= {Fraction(1)} if plan.groups else set()  # what is left under the joint limit
    table = Table(outputs_of(plan, values))
    monkeypatch.setattr(prf, "blake2b", type("Hash", (Hash,), {"table": table}))
    found = []
    for history in histories:
        law: Law = {}
        for sent, weight in table.runs(lambda history=history: observation(plan, history, draw)):
            law[sent] = law.get(sent, Fraction(0)) + weight
        assert sum(law.values()) == 1
        found.append(law)
    return found


def loss(some: Sequence[Law]) -> mpmath.mpf:
    """The largest ln of a ratio, over all pairs of laws."""
    worst = Fraction(1)
    for outcome in set().union(*some):
        chances = [law.get(outcome, Fraction(0)) for law in some]
        if min(chances) == 0:
            return mpmath.inf
        worst = max(worst, max(chances) / min(chances))
    with mpmath.workdps(60):
        return mpmath.log(mpmath.mpf(worst.numerator) / worst.denominator)


def windows_are_independent(law: Law, rounds: int) -> bool:
    """Whether the law of two windows is exactly the product of its two halves: nothing links them."""
    left: dict[tuple[bytes, ...], Fraction] = {}
    right: dict[tuple[bytes, ...], Fraction] = {}
    for sent, chance in law.items():
        left[sent[:rounds]] = left.get(sent[:rounds], Fraction(0)) + chance
        right[sent[rounds:]] = right.get(sent[rounds:], Fraction(0)) + chance
    return all(law.get(one + two, 0) == left[one] * right[two] for one in left for two in right)


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
}
"""By name: the plan, the values of a round, and the loss of two windows."""


@pytest.mark.parametrize(("plan", "moments", "figure"), CASES.values(), ids=CASES)
def test_two_windows_lose_twice_epsilon_over_all_histories(
    plan: Plan, moments: list[Values], figure: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = plan.answers.window
    found = laws(plan, every_history(2 * rounds, moments), monkeypatch, as_the_device_does)
    exact = loss(found)
    assert exact <= figure
    assert figure - exact < 1e-14 * figure
    assert all(windows_are_independent(law, rounds) for law in found)


def test_a_joint_limit_lowers_what_a_window_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two counters that cannot both be at their top lose less than their sum, in each window."""
    histories = every_history(2, [{"a": left, "b": right} for left, right in ((0, 2), (2, 0))])
    twin = Metric("b", OneBitMean(1, 2))
    found = laws(plan_of(MEAN, twin, window=1, limit=1), histories, monkeypatch, as_the_device_does)
    figure = 2 * joint_limit_loss([MEAN.mechanism, twin.mechanism], [Flip(0), Flip(0)], 1, rounds="one")
    assert loss(found) <= figure < 4
    assert figure - loss(found) < 1e-12
    assert all(windows_are_independent(law, 1) for law in found)


class Kept(SecretDraws):
    """Draws of which one kind is kept across windows."""

    kinds: tuple[str, ...] = ()

    def __init__(self, secret: bytes, plan: str, epoch: int, window: int | None = None) -> None:
        super().__init__(secret, plan, epoch, window)
        lasting = SecretDraws(secret, plan, epoch)
        for kind in self.kinds:
            setattr(self, kind, getattr(lasting, kind))


def keeping(*kinds: str) -> Draw:
    kept = type("Kept", (Kept,), {"kinds": kinds})
    return lambda plan, start: kept(SECRET, plan.name, 0, start)


class Shared(SecretDraws):
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
    "draws of two metrics shared": ("both of two", lambda plan, start: Shared(SECRET, plan.name, 0, start)),
}


@pytest.mark.parametrize(("case", "draw"), MUTANTS.values(), ids=MUTANTS)
def test_a_device_that_keeps_or_shares_draws_is_caught(
    case: str, draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, moments, figure = CASES[case]
    found = laws(plan, every_history(2 * plan.answers.window, moments), monkeypatch, draw)
    independent = all(windows_are_independent(law, plan.answers.window) for law in found)
    assert loss(found) > figure or not independent


def test_a_kept_memo_loses_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, moments, _ = CASES["mean, window of one round"]
    assert loss(laws(plan, every_history(2, moments), monkeypatch, keeping("memo"))) == mpmath.inf


class Inputs(Hash):
    """Notes what is hashed."""

    seen: list[bytes]

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
    assert sum((picks.count(each) - 100) ** 2 / 100 for each in set(picks)) < 75


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
        number = next(each for each in range(window.first, window.first + 4) if each != number)
    else:
        draws, number = SecretDraws(SECRET, "p", 0), 3
    with pytest.raises(ValueError, match="window"):
        answer(draws, plan, number, {})
