"""
Every figure of a plan's card against the truth over all pairs of histories that its sentence covers.

Plans have several metrics, a group, cohorts and segments. Histories are all those of small grids; their laws
are enumerated from the integers that a device compares its draws with, after the clamping of `in_range`.
Metrics are drawn independently given the cohort, so the worst pair of a plan is made of the worst pairs of its
parts: a group, or a metric without one. That the device's own code answers so is in test_answers.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product

import mpmath
import pytest

from reticent.device import in_range
from reticent.mechanisms import Flip, HadamardBit, OneBitMean
from reticent.plan import Plan
from reticent_collector.privacy import loss_of_moved_change, loss_of_switch, losses, pattern
from reticent_collector.privacy.card import privacy_card

HEAD = '[plan]\nname = "p"\nversion = 1\nround = "1d"\n'


def mean(name: str, flip: str, epsilon: str = "1", step: str = "") -> str:
    extra = f"step = {step}\n" if step else ""
    return f'[metrics.{name}]\nkind = "mean"\nmax_value = 2\nepsilon = {epsilon}\nflip = {flip}\n{extra}'


def histogram(name: str, flip: str, mechanism: str) -> str:
    return (
        f'[metrics.{name}]\nkind = "histogram"\nmax_value = 3\nbuckets = 3\nepsilon = 1\nflip = {flip}\n'
        f"mechanism = {mechanism}\n"
    )


GROUP = '[groups.both]\nmetrics = ["a", "b"]\nmax_total = 2\n'
TAGS = '[segments]\nos = ["x", "y"]\n'
PLANS = {
    "group and hadamard": HEAD
    + mean("a", "0.2") + mean("b", "0.2") + histogram("h", "0.1", '"hadamard-bit"') + GROUP + TAGS,
    "unlike counters": HEAD + mean("a", "0.2", "0.5") + mean("b", "0.05", "2", "1") + GROUP,
    "two bits": HEAD + mean("a", "0.3", step="1") + histogram("d", "0.2", '"d-bit-flip"\nbits = 2') + TAGS,
    "paper's variant": HEAD + histogram("d", "0.2", '"d-bit-flip"\nbits = 1\nvariant = "paper"'),
    "no flips": HEAD + mean("a", "0") + mean("b", "0") + histogram("h", "0", '"hadamard-bit"') + GROUP,
    "choice and flag": HEAD
    + '[metrics.c]\nkind = "choice"\nlabels = ["x", "y"]\nmechanism = "hadamard-bit"\nepsilon = 1\nflip = 0.2\n'
    + '[metrics.f]\nkind = "flag"\nepsilon = 0.5\nflip = 0.1\n',
    "absent": HEAD
    + histogram("h", "0.1", '"hadamard-bit"\nabsent = true').replace("= 3", "= 2")
    + histogram("d", "0.2", '"d-bit-flip"\nbits = 2\nabsent = true').replace("= 3", "= 2"),
    "tiny epsilon": HEAD + mean("a", "0.2", "0.001", "1") + histogram("h", "0.2", '"hadamard-bit"'),
}  # fmt: skip
COHORTS = (0, 1, 2, 3, 100, 200)
"""Every row of the Hadamard matrix of four, and every window of three buckets."""


@dataclass(frozen=True)
class Part:
    """The metrics of a group, or one metric; and all their clamped values."""

    plan: Plan
    names: tuple[str, ...]

    def vectors(self) -> list[tuple]:
        """All values of whole numbers, and no value, as the device leaves them after clamping."""
        metrics = [self.plan.by_name[name] for name in self.names]
        tops = [
            metric.max_value if metric.kind == "histogram" else metric.max_value + 1 for metric in metrics
        ]
        clean = (
            in_range(self.plan, dict(zip(self.names, values, strict=True)))
            for values in product(*([None, *range(top)] for top in tops))
        )
        vectors = {tuple(vector[name] for name in self.names) for vector in clean}
        return sorted(vectors, key=lambda vector: [(value is None, value or 0) for value in vector])


def parts(plan: Plan) -> list[Part]:
    grouped = {name for group in plan.groups for name in group.metrics}
    groups = [Part(plan, group.metrics) for group in plan.groups]
    return groups + [Part(plan, (name,)) for name in plan.by_name if name not in grouped]


class Truth:
    """The worst loss of a plan over the pairs of histories that `covers` admits, metric by metric."""

    def __init__(self, enumeration, plan: Plan) -> None:
        self.enumeration, self.plan = enumeration, plan
        self._loss = lru_cache(maxsize=None)(self._metric_loss)
        self._law = lru_cache(maxsize=None)(self._metric_law)

    def _metric_law(self, name, values, cohort):
        metric = self.plan.by_name[name]
        return self.enumeration.of_values(metric.mechanism, metric.flip, values, cohort)

    def _metric_loss(self, name, one, other, cohort):
        return self.enumeration.loss(self._law(name, one, cohort), self._law(name, other, cohort))

    def of_part(self, part: Part, rounds: int, covers, cohorts=COHORTS) -> mpmath.mpf:
        """Over all pairs of histories of `rounds` vectors."""
        histories = list(product(part.vectors(), repeat=rounds))
        uses = any(self.plan.by_name[name].mechanism.uses_cohort for name in part.names)
        worst = mpmath.mpf(0)
        for cohort in cohorts if uses else cohorts[:1]:
            for one, other in product(histories, repeat=2):
                if covers(part, one, other, cohort):
                    losses_of_pair = [
                        self._loss(name, ours, theirs, cohort)
                        for name, ours, theirs in zip(
                            part.names, zip(*one, strict=True), zip(*other, strict=True), strict=True
                        )
                    ]
                    worst = max(worst, mpmath.fsum(losses_of_pair))
        return worst

    def of_plan(self, rounds: int, covers) -> mpmath.mpf:
        """The worst pairs of all parts together."""
        with mpmath.workdps(40):
            return mpmath.fsum(self.of_part(part, rounds, covers) for part in parts(self.plan))

    def of_metric(self, name: str, rounds: int, covers) -> mpmath.mpf:
        return self.of_part(Part(self.plan, (name,)), rounds, covers)


def anything(part, one, other, cohort):
    return True


def both_constant(part, one, other, cohort):
    return len(set(one)) == len(set(other)) == 1


def one_round_apart(part, one, other, cohort):
    return sum(ours != theirs for ours, theirs in zip(one, other, strict=True)) <= 1


@pytest.fixture(params=PLANS, scope="module")
def truth(request, enumeration) -> Truth:
    return Truth(enumeration, Plan.from_toml(PLANS[request.param]))


def test_one_round(truth, attains):
    card = privacy_card(truth.plan, rounds=1)
    assert truth.of_plan(1, anything) <= card.round
    assert card.any_history == card.round, "one round is one round"
    for name, loss in card.metrics.items():
        assert attains(truth.of_metric(name, 1, anything), loss.round)
    if "both" in card.groups and len({metric.mechanism for metric in truth.plan.metrics[:2]}) == 1:
        assert attains(truth.of_part(parts(truth.plan)[0], 1, anything), card.groups["both"].round)


def test_constant_devices(truth, attains):
    card = privacy_card(truth.plan)
    figures = [truth.of_plan(rounds, both_constant) for rounds in (1, 2, 3)]
    assert figures == sorted(figures)
    assert figures[-1] <= card.constant
    for name, loss in card.metrics.items():
        mechanism = truth.plan.by_name[name].mechanism
        unflipped = Truth(truth.enumeration, truth.plan)
        unflipped._law = lambda _, values, cohort, m=mechanism: truth.enumeration.of_values(
            m, Flip(0), values, cohort
        )
        assert attains(unflipped.of_metric(name, 1, both_constant), loss.constant), (
            "the limit over many rounds"
        )


def test_same_pattern(truth, attains):
    """Pairs of values whose classes have one pattern under every alpha that the two may share."""

    def covers(part, one, other, cohort):
        for name, ours, theirs in zip(
            part.names, zip(*one, strict=True), zip(*other, strict=True), strict=True
        ):
            mechanism = truth.plan.by_name[name].mechanism
            for _, classes in truth.enumeration.alphas(mechanism, (*ours, *theirs), cohort):
                if pattern(classes[: len(ours)]) != pattern(classes[len(ours) :]):
                    return False
        return True

    card = privacy_card(truth.plan)
    assert truth.of_plan(2, covers) <= card.lifetime
    for name, loss in card.metrics.items():
        mechanism = truth.plan.by_name[name].mechanism
        shapes: dict[tuple[int, ...], list] = {}
        for cohort in COHORTS if mechanism.uses_cohort else (0,):
            for classes in product(range(mechanism.classes), repeat=mechanism.classes):
                law = truth.enumeration.of_classes(mechanism, Flip(0), classes, cohort)
                shapes.setdefault((cohort, *pattern(classes)), []).append(law)
        worst = max(truth.enumeration.worst(product(laws, repeat=2)) for laws in shapes.values())
        assert attains(worst, loss.lifetime)


def test_a_change_moved_by_one_round(truth):
    card = privacy_card(truth.plan)
    for rounds in (2, 3) if max(len(part.vectors()) for part in parts(truth.plan)) < 5 else (2,):
        assert truth.of_plan(rounds, one_round_apart) <= card.change_per_round
    if not mpmath.isinf(card.change_per_round):
        added = mpmath.fsum(loss.change_per_round for loss in card.metrics.values())
        assert card.change_per_round >= added


def test_any_two_histories(truth):
    for rounds in (1, 2, 3):
        largest = max(len(part.vectors()) for part in parts(truth.plan)) ** rounds
        if largest > 70:
            continue
        card = privacy_card(truth.plan, rounds)
        true = truth.of_plan(rounds, anything)
        assert true <= card.any_history
        assert mpmath.isinf(true) == mpmath.isinf(card.any_history)
        for name, loss in card.metrics.items():
            assert truth.of_metric(name, rounds, anything) <= loss.any_history


# Finding 1: devices that change at the same times are not covered by "same pattern".


def test_changing_at_the_same_times_is_not_enough_for_hadamard(enumeration):
    """A row that separates bucket a from b but not from c: a,b,a,b… against a,c,a,c…"""
    plan = Plan.from_toml(HEAD + histogram("h", "0.2", '"hadamard-bit"'))
    metric = plan.by_name["h"]
    mechanism, cohort = metric.mechanism, 1  # row 1: buckets 0 and 2 on one side, 1 on the other
    assert isinstance(mechanism, HadamardBit)
    assert [mechanism.memo_class(bucket, 0, cohort) for bucket in (0, 1, 2)] == [1, 0, 1]
    moving, staying = [0, 1] * 5, [0, 2] * 5
    assert changes(moving) == changes(staying), "they change in the same rounds"
    laws = [enumeration.of_values(mechanism, metric.flip, values, cohort) for values in (moving, staying)]
    assert enumeration.loss(*laws) == pytest.approx(6.31, abs=5e-3)
    assert enumeration.loss(*laws) > 3 * losses(mechanism, metric.flip).lifetime
    # In order or not, five answers from each of two memos against ten from one.
    for rounds, loss in ((10, 6.31), (30, 20.2), (120, 82.6)):
        figure = loss_of_switch(mechanism, metric.flip, rounds // 2, rounds // 2).switched_over_constant
        assert figure == pytest.approx(loss, abs=0.05)
    bare = [enumeration.of_values(mechanism, Flip(0), values, cohort) for values in (moving[:2], staying[:2])]
    assert mpmath.isinf(enumeration.loss(*bare))


def test_changing_at_the_same_times_is_not_enough_for_a_mean(enumeration):
    """0,m,0,m… against 0,1,0,1…: the second changes its cell for one alpha in 21,600."""
    mechanism, flip = OneBitMean(1, 21_600), Flip(0)
    moving, staying = [0, 21_600, 0, 21_600], [0, 1, 0, 1]
    assert changes(moving) == changes(staying)
    laws = [enumeration.of_values(mechanism, flip, values) for values in (moving, staying)]
    assert enumeration.loss(*laws) == pytest.approx(9.98, abs=5e-3)
    assert losses(mechanism, flip).lifetime == 2


def changes(values: list[int]) -> list[bool]:
    return [before != after for before, after in pairwise(values)]


# Finding 8: the whole plan has a figure for a moved change.


def test_moved_changes_add_up():
    plan = Plan.from_toml(
        HEAD + mean("a", "0.2") + mean("b", "0.2") + histogram("h", "0.2", '"hadamard-bit"')
    )
    one = loss_of_moved_change(OneBitMean(1, 2), Flip("0.2"))
    assert privacy_card(plan).change_per_round == pytest.approx(3 * one, rel=1e-14)
    assert privacy_card(plan).change_per_round >= 3 * mpmath.log(4)


def test_a_year_is_counted_in_rounds_of_the_plan():
    daily = Plan.from_toml(HEAD + mean("a", "0.2"))
    often = Plan.from_toml(HEAD.replace("1d", "6h") + mean("a", "0.2"))
    assert (privacy_card(daily).rounds, privacy_card(often).rounds) == (365, 1460)
    expected = 2 * mpmath.log(mpmath.e + 1) + 730 * mpmath.log(4)
    assert privacy_card(often).any_history == pytest.approx(float(expected), rel=1e-12)
    assert privacy_card(often, rounds=365).any_history == privacy_card(daily).any_history
