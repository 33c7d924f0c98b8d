"""
Sampled answers, exactly: the loss of one window from the integers, of two windows by the answering code itself.

The keyed hash of `SecretDraws` is replaced by a table that gives each input one output, and every table is
enumerated with its probability. A draw that two windows share would be shared here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product

from reticent.device import SecretDraws, answer, in_range
from reticent.losses import compose
from reticent.mechanisms import COHORTS, SCALE, Buckets, Mechanism, SubsetSelection
from reticent.plan import Answers, Metric, Plan
from reticent.reports import to_json
from reticent_collector.privacy.card import privacy_card
from reticent_lab.audit.enumeration import (
    ONE_WINDOW,
    TWO_WINDOWS,
    AuditCheck,
    largest_over_sets,
    losses_by_size,
)
from reticent_lab.audit.exact import EVEN, Enumerated, Ratio, enumerated, loss_of_constant, total

Value = int | Fraction
Values = Mapping[str, int | Fraction | str]
"""What a device records in a round: numbers, and the labels of choices."""

History = tuple[Values, ...]  # What is recorded in each round
WindowLaw = dict[tuple[bytes, ...], Fraction]
"""The chance of all that is sent: the bytes of each round, or none."""

Outputs = Sequence[tuple[int, bytes]]  # The outputs that an input of the hash may have, each with its weight
_LATE = 10**6  # A round with this number or a later one is in a window, whatever the plan


def resolved(mechanism: Mechanism, aim: Value | str, cohort: int | None) -> Value | None:
    """A value; "first" and "second" are the two that differ most in a cohort (None: the first that tells them)."""
    if not isinstance(aim, str):
        return aim.numerator if aim.denominator == 1 else aim
    pairs = (mechanism.extremes(number) for number in (range(COHORTS) if cohort is None else (cohort,)))
    pair = next((pair for pair in pairs if pair is not None), None)
    return 0 if pair is None else pair[aim == "second"]


def as_recorded(plan: Plan, values: Mapping[str, Value | None]) -> Values:
    """
    Values as a program records them: a choice by its label, and nothing where there is no value.

    That of a split is the place of the part that has the whole range.
    """
    recorded: dict[str, int | Fraction | str] = {}
    for name, value in values.items():
        metric = plan.by_name[name]
        if value is None:
            continue
        if metric.parts:
            recorded[metric.recorded[int(value)]] = metric.max_total
        else:
            recorded[name] = metric.labels[int(value)] if metric.labels else value
    return recorded


def enumerate_windows(plan: Plan, rounds: int) -> tuple[list[Enumerated], list[AuditCheck]]:
    """
    Exact losses of a plan with sampled answers, each beside its claim, and whether windows are independent.

    One window: the worst pair of values per metric and group, and the worst set of metrics of a report. Two
    windows: all pairs of histories of a small copy of the plan, with windows of at most two rounds and the values
    that differ most.
    """
    card = privacy_card(plan, rounds)
    checks = []
    results: list[Enumerated] = []
    parts: list[list[Decimal]] = []  # per group or single metric: the largest loss of 0, 1, … of its members
    grouped = {name for group in plan.groups for name in group.metrics}
    for place, metric in enumerate(plan.metrics):
        window = loss_of_constant(metric.mechanism, 0, 1)
        pairs = f"all pairs of {metric.mechanism.classes} classes, all answers"
        results.append(enumerated(metric.name, ONE_WINDOW, metric.mechanism.epsilon, window, pairs))
        if metric.name not in grouped:
            parts.append([Decimal(0), window.logarithm])
        few = tuple(map(_small, (metric, plan.metrics[place - 1]) if plan.asked_bytes else (metric,)))
        alone = Answers(plan.answers.window)
        copy = replace(plan, version=1, metrics=few, groups=(), segments=(), expires=None, answers=alone)
        worst, count, independent = _two_windows(copy)
        claim = compose([card.metrics[metric.name].round] * 2)
        over = f"all pairs of {count} histories, by the answering code"
        results.append(enumerated(metric.name, TWO_WINDOWS, claim, worst, over))
        checks.append(
            AuditCheck(metric.name, "two windows are drawn independently", independent, f"{count} laws")
        )
    for group in plan.groups:
        by_size = losses_by_size(plan, group, flips=False)
        parts.append(by_size)
        for what, windows in ((ONE_WINDOW, 1), (TWO_WINDOWS, 2)):
            claim = compose([card.groups[group.name].round] * windows)
            over = "all answers, corners and even spreads of the limit; windows added"
            results.append(
                enumerated(f"group {group.name}", what, claim, total([by_size[-1]] * windows), over)
            )
    largest = largest_over_sets(parts, plan.asked)
    first = plan.answers.window * _LATE
    touched = max(
        len({plan.window_of(start + number) for number in range(rounds)})
        for start in range(first, first + plan.answers.window)
    )
    for what, windows, claim in (
        (ONE_WINDOW, 1, card.round),
        (TWO_WINDOWS, 2, compose([card.round] * 2)),
        (f"any two histories, {rounds} rounds", touched, card.any_history),
    ):
        over = f"the worst set of {plan.asked} metrics, in {windows} windows"
        results.append(enumerated("whole plan", what, claim, total([largest] * windows), over))
    return results, checks


def _small(metric: Metric) -> Metric:
    """A metric as it is, or subset selection at its epsilon with three buckets, of which all answers can be tried."""
    if not isinstance(metric.mechanism, SubsetSelection):
        return metric
    if metric.parts:
        mechanism = SubsetSelection(metric.mechanism.epsilon, Buckets(range(3), absent=True))
        return Metric(metric.name, mechanism, parts=metric.parts[:2], max_total=metric.max_total)
    return Metric(metric.name, SubsetSelection(metric.mechanism.epsilon, Buckets(range(4))))


@lru_cache(maxsize=256)
def _two_windows(plan: Plan) -> tuple[Ratio, int, bool]:
    """The worst ratio of the first metric, over how many histories, and whether the two windows are independent."""
    worst = EVEN
    count = 0
    independent = True
    for metrics, length in ((plan.metrics, min(plan.answers.window, 2)), (plan.metrics[:1], 1)):
        copy = replace(plan, metrics=metrics, answers=Answers(length, 1))
        wide = length == 1
        laws = window_laws(copy, window_grid(copy, middle=wide), cohorts=1 + wide)
        worst = max(worst, loss_of_laws(laws))
        count = count + len(laws)
        independent &= all(windows_are_independent(law, length) for law in laws)
    return worst, count, independent


def window_grid(plan: Plan, *, middle: bool) -> list[History]:
    """All histories of two windows over the two values of the first metric that differ most, and one between."""
    first, *others = plan.metrics
    held = {metric.name: resolved(metric.mechanism, "first", None) for metric in others}
    values = [resolved(first.mechanism, aim, None) for aim in ("first", "second")]
    half = Fraction(first.max_value) / 2
    values += [half] if middle and not first.parts else []
    moments = [as_recorded(plan, held | {first.name: value}) for value in values]
    if middle and first.parts:
        moments.append({**as_recorded(plan, held), first.recorded[0]: half})
    return list(product(moments, repeat=2 * plan.answers.window))


class FunctionTable:
    """A random function, one table at a time: the outputs of its inputs are chosen by a path through a tree."""

    def __init__(self, outputs: Callable[[list[bytes]], Outputs]) -> None:
        self._outputs = outputs
        self._path: list[tuple[int, int]] = []

    def runs(self, program: Callable[[], tuple[bytes, ...]]) -> Iterator[tuple[tuple[bytes, ...], Fraction]]:
        """What a program does for each table, and the table's probability."""
        self._path = []
        while True:
            self._known: dict[bytes, bytes] = {}
            self._used, self._weight = 0, Fraction(1)
            yield program(), self._weight
            while self._path and self._path[-1][0] + 1 == self._path[-1][1]:
                self._path.pop()
            if not self._path:
                return
            choice, choices = self._path.pop()
            self._path.append((choice + 1, choices))

    def look_up(self, root: bytes, message: bytes) -> bytes:
        """The output of an input: the same one for the same input."""
        if root + message not in self._known:
            fields = []
            place = 0
            while place < len(message):
                size = int.from_bytes(message[place : place + 4], "big")
                fields.append(message[place + 4 : place + 4 + size])
                place += 4 + size
            outputs = self._outputs(fields)
            if self._used == len(self._path):
                self._path.append((0, len(outputs)))
            weight, self._known[root + message] = outputs[self._path[self._used][0]]
            self._weight *= Fraction(weight, sum(other for other, _ in outputs))
            self._used += 1
        return self._known[root + message]


class _TableHash:
    """`blake2b` as far as `SecretDraws` uses it, over a table."""

    def __init__(self, table: FunctionTable, root: bytes, data: bytes = b"") -> None:
        self._table = table
        self._root = root
        self._data = data

    def copy(self) -> _TableHash:
        return _TableHash(self._table, self._root, self._data)

    def update(self, more: bytes) -> None:
        self._data += more

    def digest(self) -> bytes:
        return self._table.look_up(self._root, self._data)


class TableDraws(SecretDraws):
    """The draws of a device whose hash is a table: plan and window enter through the digest of the true hash."""

    def __init__(self, table: FunctionTable, plan: str, window: int | None) -> None:
        super().__init__(bytes(32), plan, 0, window)
        self._root = _TableHash(table, self._root.digest())  # type: ignore[assignment]


def window_laws(
    plan: Plan,
    histories: Sequence[History],
    draws: Callable[[FunctionTable, str, int | None], SecretDraws] = TableDraws,
    cohorts: int = 2,
) -> list[WindowLaw]:
    """The law of all that a device sends in each of the histories, which begin with a window."""
    moments = [in_range(plan, moment) for history in histories for moment in history]
    table = FunctionTable(_outputs_of(plan, moments, cohorts))
    origin = plan.answers.window * _LATE
    window = plan.window_of(origin)
    first = window.first if window else origin

    def sent(history: History) -> tuple[bytes, ...]:
        messages = []
        for begin in range(0, len(history), plan.answers.window):
            window = plan.window_of(first + begin)
            drawn = draws(table, plan.name, window.start if window else None)
            picked = drawn.picked_round(window) if window else first
            for number, values in enumerate(history[begin : begin + plan.answers.window], first + begin):
                is_picked = number == picked
                messages.append(to_json(answer(drawn, plan, number, values).report) if is_picked else b"")
        return tuple(messages)

    laws = []
    for history in histories:
        law: WindowLaw = {}
        for messages, weight in table.runs(lambda history=history: sent(history)):  # type: ignore[misc]
            law[messages] = law.get(messages, Fraction(0)) + weight
        laws.append(law)
    return laws


def loss_of_laws(laws: Sequence[WindowLaw]) -> Ratio:
    """The largest ratio of an observation's chances, over all pairs of laws."""
    worst = EVEN
    for observation in set().union(*laws):
        chances = [law.get(observation, Fraction(0)) for law in laws]
        most, least = max(chances), min(chances)
        worst = max(worst, Ratio(most.numerator * least.denominator, most.denominator * least.numerator))
    return worst


def windows_are_independent(law: WindowLaw, rounds: int) -> bool:
    """Whether the law of two windows is exactly the product of its two halves: nothing links them."""
    halves: tuple[WindowLaw, WindowLaw] = {}, {}
    for messages, chance in law.items():
        for half, part in zip(halves, (messages[:rounds], messages[rounds:]), strict=True):
            half[part] = half.get(part, Fraction(0)) + chance
    return all(
        law.get(one + two, 0) == first * second
        for (one, first), (two, second) in product(halves[0].items(), halves[1].items())
    )


def _outputs_of(
    plan: Plan, moments: Sequence[Mapping[str, Value | None]], most: int
) -> Callable[[list[bytes]], Outputs]:
    """
    What each draw can be, up to what a device with these values does with it.

    One or two cohorts stand for all, since a cohort is public and independent of values. Of several answer bits
    the first two, in which such values differ, are enumerated.
    """
    cohorts = _cohorts(plan, most)
    window = plan.answers.window
    ranks: Outputs = [(1, place.to_bytes(8, "big").ljust(64)) for place in range(len(plan.metrics))]
    known: dict[tuple[str, str], Outputs] = {
        ("", "round"): _parts({-(-SCALE * place // window) for place in range(window)}),
        ("", "cohort"): [(1, bytes([cohort]).ljust(64)) for cohort in cohorts],
    }
    orders: Outputs = [
        (1, b"".join(place.to_bytes(8, "big") for place in order)) for order in (range(8), range(8, 0, -1))
    ]
    for metric in plan.metrics:
        values = {moment[name] for moment in moments for name in metric.recorded}
        if metric.parts:
            known[metric.name, "moment"] = _parts(_moment_cuts(metric, moments))
            values = {*range(len(metric.parts)), None}
        known[metric.name, "metrics"] = ranks  # every set of metrics can be asked; equal draws go by name
        known[metric.name, "alpha"] = _parts(_alpha_cuts(metric, values))
        known[metric.name, "memo"] = _parts(
            _memo_cuts(metric, values, cohorts), min(metric.mechanism.memo_draws, 2)
        )
        known[metric.name, "base"] = orders

    def outputs(fields: list[bytes]) -> Outputs:
        name = fields[0].decode()
        purpose = fields[3].decode()
        block = int.from_bytes(fields[5], "big")
        if purpose == "id" or block:  # an id of its own; bits beyond the first eight
            return [(1, b"".join(fields).rjust(64)[-64:])]
        return known[name, purpose]

    return outputs


def _cohorts(plan: Plan, most: int) -> list[int]:
    """Neighbouring cohorts, the first of which tells values of every metric apart."""
    tells = [
        cohort
        for cohort in range(COHORTS)
        if all(metric.mechanism.extremes(cohort) for metric in plan.metrics)
    ]
    if not tells:
        return [0]
    return [(tells[0] + more) % COHORTS for more in range(most if plan.uses_cohort else 1)]


def _moment_cuts(metric: Metric, moments: Sequence[Mapping[str, Value | None]]) -> set[int]:
    """The draws from which on another part of a split is in front."""
    sums = {
        sum((moment[name] or 0 for name in metric.recorded[: place + 1]), Fraction(0))
        for moment in moments
        for place in range(len(metric.parts))
    }
    return {-(-SCALE * used // Fraction(metric.max_total)) for used in sums}


def _alpha_cuts(metric: Metric, values: set[Value | None]) -> set[int]:
    """The draws from which on one of the values is rounded to another point of the grid."""
    grid = metric.mechanism.grid
    return {
        -(-SCALE * (high - value) // (high - low))
        for low, high in pairwise(grid.points if grid else ())
        for value in values
        if value is not None and low < value < high
    }


def _memo_cuts(metric: Metric, values: set[Value | None], cohorts: Sequence[int]) -> set[int]:
    """The draws from which on one of the values has another answer."""
    mechanism = metric.mechanism
    classes = {
        (mechanism.memo_class(value, alpha, cohort), cohort)
        for value, alpha, cohort in product(values, (0, SCALE - 1), cohorts)
    }
    return {cut for pair in classes for cut in mechanism.cuts(*pair)}


def _parts(cuts: set[int], words: int = 1) -> Outputs:
    """[0, 2⁶⁴) cut at some places: per part its size, and its first number as a word of a block."""
    sizes = [(end - start, start.to_bytes(8, "big")) for start, end in pairwise(sorted({0, *cuts, SCALE}))]
    outputs = [(1, b"")]
    for _ in range(words):
        outputs = [(weight * size, block + word) for weight, block in outputs for size, word in sizes]
    return [(weight, block.ljust(64, b"\0")) for weight, block in outputs]
