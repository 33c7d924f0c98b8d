"""A mechanism from outside: one class, added to the plan's list, and everything works with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from numpy.typing import NDArray

from reticent.device import Policy, answer
from reticent.errors import ParameterError, PlanError
from reticent.mechanisms import (
    MECHANISMS,
    Buckets,
    Grid,
    HadamardBit,
    Mechanism,
    MetricTable,
    RandomizedResponse,
    add_mechanism,
)
from reticent.plan import Plan
from reticent.testing import sandbox
from reticent_collector.counts import HistogramCounts, count_reports
from reticent_collector.estimates import (
    HistogramEstimate,
    estimate,
    expectation_maximisation,
    expected_half_width,
)
from reticent_collector.privacy import loss_by_width
from reticent_collector.privacy.card import privacy_card
from reticent_lab.audit import audit
from reticent_lab.fleet import VectorisedFleet
from reticent_lab.fleet.draws import HashDraws


@dataclass(frozen=True, slots=True)
class TwoSides(Mechanism):
    """
    One noisy bit that says which of two buckets a value is in.

    Randomized response with the whole ε answers whether it is the second bucket. A hit for the second bucket
    is a 1, for the first bucket a 0, so every report speaks of both.
    """

    response: RandomizedResponse
    buckets: Buckets

    name = "two-sides"
    kind = "histogram"
    grid = None
    classes = 2
    row_count = 1
    rows_are_buckets = False

    @classmethod
    def from_table(
        cls, table: MetricTable, epsilon: Fraction | None, scale: Grid | Buckets | None, label: str
    ) -> TwoSides | None:
        if isinstance(scale, Buckets) and len(scale) != 2:
            raise ParameterError("buckets", "2, one on each side", len(scale))
        return cls(RandomizedResponse(epsilon), scale) if epsilon and isinstance(scale, Buckets) else None

    @property
    def parameters(self) -> list[object]:
        return [self.name, str(self.response.low), [str(edge) for edge in self.buckets.edges]]

    def thresholds(self, memo_class: int, cohort: int) -> tuple[int, ...]:
        return (self.response.high if memo_class else self.response.low,)

    def hits(
        self, reports: Sequence[int], ones: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.array([reports[0] - ones[0], ones[0]]), np.array([reports[0], reports[0]])

    def yes(self) -> NDArray[np.float64]:
        return np.array([[0.0, 1.0]])


PLAN = """
min_reports = 1
[plan]
name = "toy"
version = 1
round = "1h"

[metrics.minutes]
kind = "histogram"
mechanism = "two-sides"
edges = [0, 10, 60]
epsilon = 1
flip = 0.2
"""


@pytest.fixture(autouse=True)
def _added() -> Iterator[None]:
    add_mechanism(TwoSides)
    yield
    del MECHANISMS[TwoSides.name]


@pytest.fixture
def plan() -> Plan:
    return Plan.from_toml(PLAN)


def test_a_plan_can_name_it(plan: Plan) -> None:
    mechanism = plan.metrics[0].mechanism
    assert mechanism == TwoSides(RandomizedResponse(1), Buckets([0, 10, 60]))
    assert (
        plan.metrics[0].digest != Plan.from_toml(PLAN.replace("two-sides", "hadamard-bit")).metrics[0].digest
    )
    with pytest.raises(PlanError, match="one on each side, got 3"):
        Plan.from_toml(PLAN.replace("[0, 10, 60]", "[0, 10, 20, 60]"))
    with pytest.raises(PlanError, match="belongs to d-bit-flip, not to two-sides"):
        Plan.from_toml(PLAN.replace('"two-sides"', '"two-sides"\nbits = 1'))


def test_a_name_is_given_once() -> None:
    assert add_mechanism(TwoSides) is TwoSides, "adding it again changes nothing"

    class Impostor(HadamardBit):
        name = "two-sides"

    with pytest.raises(ParameterError, match="a name that is free, got two-sides"):
        add_mechanism(Impostor)


def test_its_losses_are_those_of_one_bit(plan: Plan) -> None:
    losses = privacy_card(plan).metrics["minutes"]
    assert (losses.constant, losses.lifetime) == (1.0, 2.0)
    assert losses.round == pytest.approx(0.56945, abs=1e-5), "ε' of one bit at ε = 1 and γ = 0.2"
    assert loss_by_width(plan.metrics[0].mechanism, 1) == 1.0


def test_a_device_answers_and_its_reports_are_counted(plan: Plan) -> None:
    with sandbox(plan, policy=Policy.unlimited()) as box:
        for _ in range(40):
            box.device.add("minutes", 50)
            box.next_round()
        reports = box.reports
    assert len(reports) == 40
    counts = [of_round["minutes"] for of_round in count_reports(reports, plan).values()]
    total = sum(counts)  # one device for 40 rounds: one remembered bit, flipped now and then
    assert isinstance(total, HistogramCounts)
    assert total.reports == (40,)
    ones = max(total.ones[0], 40 - total.ones[0])
    assert sum(comb(40, k) * 0.8**k * 0.2 ** (40 - k) for k in range(ones + 1)) > 1e-6


def test_a_fleet_answers_bit_for_bit_as_devices_do_and_estimates_cover_the_truth(plan: Plan) -> None:
    values = {"minutes": np.random.default_rng(3).integers(0, 61, 20_000)}
    fleet = VectorisedFleet(plan, devices=20_000, seed=3)
    for number, report in zip(range(300), fleet.reports(7, values), strict=False):
        alone = answer(HashDraws(3, number, plan.name), plan, 7, {"minutes": int(values["minutes"][number])})
        assert report == alone.report
    counts = fleet.counts(7, values)[7, ()]["minutes"]
    assert isinstance(counts, HistogramCounts)
    shares = estimate(plan.metrics[0], counts, confidence=0.999999)
    truth = [float((values["minutes"] < 10).mean()), float((values["minutes"] >= 10).mean())]
    assert isinstance(shares, HistogramEstimate)
    for bucket, share in zip(shares.buckets, truth, strict=True):
        assert bucket.lower <= share <= bucket.upper
    assert sum(shares.values) == pytest.approx(1.0)
    assert shares.buckets[0].half_width < 1.5 * expected_half_width(plan.metrics[0], 20_000, 0.999999)
    fitted = expectation_maximisation(plan.metrics[0], counts)
    assert fitted.shares == pytest.approx(shares.values, abs=0.01)


def test_an_audit_enumerates_it_and_finds_a_false_claim(plan: Plan) -> None:
    """Enumeration from the integers; the rules do not know the mechanism, so bytes are not decided."""
    checked = audit(plan, rounds=2)
    assert checked.verdict == "not decided"
    assert checked.problems == []
    assert checked.exact[0].loss == pytest.approx(1.0), "the remembered answer loses all of ε"

    @dataclass(frozen=True, slots=True)
    class Boastful(TwoSides):
        epsilon = Fraction(1, 2)

    metric = plan.metrics[0]
    boast = Boastful(metric.mechanism.response, Buckets([0, 10, 60]))
    boasted = type(metric)(metric.name, boast, metric.flip)
    assert audit(Plan("toy", 1, 3600, 3600, (boasted,)), rounds=2).verdict == "above claim"
