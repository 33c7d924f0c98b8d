"""
Devices that lie, through the real collector: how far they move an estimate, and what can be seen of them.

Honest devices answer with the code of the SDK, from a fixed seed. What is allowed for their noise is
Hoeffding's bound at 10⁻⁷ for each comparison, so no test has a false-alarm rate above 10⁻⁶ over all seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp, log, sqrt
from typing import Any

import pytest
from scipy.stats import binomtest

from reticent.mechanisms import hadamard_sign
from reticent.plan import Plan
from reticent.reports import Report, pack_bits, to_packed
from reticent_collector.counts import HistogramCounts
from reticent_collector.estimates.cohort_balance import balance
from reticent_collector.results import Selection
from reticent_collector.stores import RoundKey
from reticent_lab.fleet import SdkFleet

PACKED = "application/vnd.reticent.packed"
HONEST, LIARS = 5400, 1350
SHARE = LIARS / (HONEST + LIARS)
TARGET = 2
"""The bucket that liars are after."""
DELTA = 1e-7

PLAN = """
min_reports = 1
[plan]
name = "poisoned"
version = 1
round = "1h"
grace = "1h"

[metrics.mean]
kind = "mean"
max_value = 1
epsilon = 1.0

[metrics.rows]
kind = "histogram"
max_value = 7
buckets = 7
mechanism = "hadamard-bit"
epsilon = 1.0

[metrics.windows]
kind = "histogram"
max_value = 8
buckets = 8
mechanism = "d-bit-flip"
bits = 2
epsilon = 2.0
"""


class Poisoned:
    """What a collector answers about one round: the estimates, and the counts behind them."""

    def __init__(self, target: Any, plan: Plan, number: int) -> None:
        answer = target.service.get("/v1/estimates?plan=poisoned", target.texts["reader"])
        self.plan = plan
        self.estimates = {each["metric"]: each for each in answer.json["estimates"]}
        self.page = target.service.get("/plans/poisoned/metrics/mean", target.texts["reader"]).body.decode()
        self.mean, rows, windows = (
            target.app.results.estimates(Selection("poisoned", metric=name))[0].estimate
            for name in ("mean", "rows", "windows")
        )
        self.row = rows.buckets[TARGET]
        self.window = windows.buckets[TARGET]
        key = RoundKey(plan.name, plan.version, number)
        (self.counts,) = target.app.store.counts(key).values()
        assert target.app.store.seal(key)
        self.health = target.app.health()
        self.pages = {
            name: target.service.get(path, target.texts["reader"]).body.decode()
            for name, path in (
                ("health", "/health"),
                ("rows", "/plans/poisoned/metrics/rows"),
                ("windows", "/plans/poisoned/metrics/windows"),
            )
        }
        self.worries = self.pages["health"].partition("Needs attention: ")[2].partition("<")[0]


def honest(plan: Plan, number: int, bucket: int) -> list[Report]:
    """Devices of which all have 0 for a mean, and are in one bucket."""
    fleet = SdkFleet(plan, HONEST, seed=5)
    values = {"mean": [0] * HONEST, "rows": [bucket] * HONEST, "windows": [bucket] * HONEST}
    return list(fleet.reports(number, values))


def gathering(plan: Plan) -> list[int]:
    """The cohorts of devices that are asked about the target, at the first place of their window."""
    mechanism = plan.by_name["windows"].mechanism
    return [cohort for cohort in range(256) if mechanism.rows_of(cohort)[0] == TARGET]


def liars(plan: Plan, like: list[Report], up: bool) -> list[Report]:
    """Reports that say what moves the target most: every one claims a cohort that is asked about it."""
    cohorts = gathering(plan)
    rows = plan.by_name["rows"].mechanism
    made = []
    for place in range(LIARS):
        cohort = cohorts[place % len(cohorts)]
        agrees = (hadamard_sign(rows.rows_of(cohort)[0], TARGET + 1) > 0) == up
        bits = [int(up), int(agrees), int(up), 0]
        made.append(replace(like[0], id=place.to_bytes(16, "big"), cohort=cohort, bits=pack_bits(bits)))
    return made


@pytest.fixture(scope="module")
def collected(attack: Any) -> Callable[..., Poisoned]:
    """A round with and without liars, sent to a real collector as packed batches; made once each."""
    made: dict[tuple[bool, bool, int], Poisoned] = {}

    def collect(lies: bool, up: bool = True, repeats: int = 1) -> Poisoned:
        if (lies, up, repeats) not in made:
            with attack(PLAN) as target:
                plan = target.service.plans[0]
                number = target.service.now(plan)
                told = honest(plan, number, bucket=0 if up else TARGET)
                sent = told + (liars(plan, told, up) if lies else [])
                for _ in range(repeats):
                    answer = target.service.post(to_packed(sent, plan), PACKED, target.texts["ingest"])
                    assert answer.json == {"accepted": len(sent), "rejected": []}
                made[lies, up, repeats] = Poisoned(target, plan, number)
        return made[lies, up, repeats]

    return collect


def contrast(epsilon: float) -> float:
    """How far the chances of 1 are apart: (e^ε - 1)/(e^ε + 1)."""
    return (exp(epsilon) - 1) / (exp(epsilon) + 1)


def allowance(reports: int, epsilon: float) -> float:
    """What the noise of honest bits may add, but for a chance of DELTA (Hoeffding), debiased."""
    return sqrt(log(2 / DELTA) / (2 * reports)) / contrast(epsilon)


CASES = [
    # the estimate, ε of one bit, how far a lie reaches: e^ε/(e^ε - 1), or coth(ε/2) + 1 for a Hadamard bit
    ("mean", 1.0, exp(1) / (exp(1) - 1)),
    ("row", 1.0, 1 / contrast(1.0) + 1),
    ("window", 1.0, exp(1) / (exp(1) - 1)),
]


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize(("name", "epsilon", "reach"), CASES)
def test_liars_move_an_estimate_no_further_than_it_says(
    collected: Callable[..., Poisoned], name: str, epsilon: float, reach: float, up: bool
) -> None:
    """A fifth of all reports, all of them about one thing; the bound is checked against the formula too."""
    found = getattr(collected(True, up), name)
    truth = 0.0 if up or name == "mean" else 1.0
    reports = found.reports - LIARS
    noise = allowance(reports, epsilon)
    leverage = (HONEST + LIARS) / found.reports
    assert found.manipulation_bound(SHARE) == pytest.approx(SHARE * leverage * reach, rel=1e-9)
    assert abs(found.value - truth) <= found.manipulation_bound(SHARE) + noise


@pytest.mark.parametrize(
    ("name", "epsilon", "up"), [("mean", 1.0, True), ("row", 1.0, False), ("window", 1.0, False)]
)
def test_a_bound_for_half_of_them_is_broken(
    collected: Callable[..., Poisoned], name: str, epsilon: float, up: bool
) -> None:
    """The attack is near the best there is, so that a bound that says too little is refused."""
    found = getattr(collected(True, up), name)
    moved = abs(found.value - (0.0 if up else 1.0))
    assert moved > found.manipulation_bound(SHARE / 2) + allowance(found.reports - LIARS, epsilon)


def test_without_liars_nothing_moves(collected: Callable[..., Poisoned]) -> None:
    found = collected(False)
    for name, epsilon, _ in CASES:
        each = getattr(found, name)
        assert abs(each.value) <= allowance(each.reports, epsilon)


def test_liars_add_exactly_their_own_bits(collected: Callable[..., Poisoned]) -> None:
    """Exactly, without chance: one report is one answer a metric, whatever it says."""
    clean, poisoned = collected(False).counts, collected(True).counts
    assert poisoned["mean"].ones - clean["mean"].ones == LIARS
    for name in ("rows", "windows"):
        added = [
            after - before for before, after in zip(clean[name].reports, poisoned[name].reports, strict=True)
        ]
        assert sum(added) == LIARS * clean[name].rows_per_report
        assert min(added) >= 0
    assert poisoned["windows"].reports[TARGET] - clean["windows"].reports[TARGET] == LIARS


def test_sending_again_moves_nothing_and_is_seen(collected: Callable[..., Poisoned]) -> None:
    """Who sends a lie three times is counted once; the seal finds the others, and the health page points at them."""
    once, thrice = collected(True), collected(True, repeats=3)
    assert thrice.counts == once.counts
    assert once.health.duplicate == 0
    assert thrice.health.duplicate == 2 * (HONEST + LIARS)
    assert "Duplicate" in thrice.worries
    assert "Duplicate" not in once.worries


def test_the_pages_say_how_far_liars_could_have_moved_it(collected: Callable[..., Poisoned]) -> None:
    found = collected(True)
    assert "If 1\u00a0% of the reports were dishonest" in found.page
    assert found.estimates["mean"]["manipulation"] == pytest.approx(exp(1) / (exp(1) - 1))


def evenness(reports: tuple[int, ...], devices: int, share: float) -> float:
    """The chance that any row is as far off, if a device speaks of it with chance `share` (Bonferroni)."""
    least = min(binomtest(count, devices, share).pvalue for count in reports)
    return min(1.0, float(least) * len(reports))


def test_liars_who_gather_can_be_told_from_the_counts(collected: Callable[..., Poisoned]) -> None:
    """
    Cohorts of honest devices are even, hence so are the reports per bucket of dBitFlip: the counts that every
    store keeps show that cohorts were picked. Alarm at 10⁻⁶.
    """
    clean, poisoned = (collected(lies).counts["windows"] for lies in (False, True))
    assert evenness(clean.reports, clean.devices, 2 / 8) > 1e-6
    assert evenness(poisoned.reports, poisoned.devices, 2 / 8) < 1e-12


def test_liars_who_gather_are_pointed_out(collected: Callable[..., Poisoned]) -> None:
    """On the page of the metric, on the health page and in JSON; with the buckets that they push, named."""
    clean, poisoned = collected(False), collected(True)
    assert "Cohorts" not in clean.worries
    assert all("than chance explains" not in page for page in clean.pages.values())
    assert all(clean.estimates[name]["balance"]["even"] for name in ("rows", "windows"))

    assert "Cohorts" in poisoned.worries
    balance = poisoned.estimates["windows"]["balance"]
    assert (poisoned.estimates["windows"]["state"], balance["even"]) == ("open", False)
    assert TARGET in [row["row"] for row in balance["over"]]
    counts = poisoned.counts["windows"]
    assert [row["reports"] for row in balance["over"] if row["row"] == TARGET] == [counts.reports[TARGET]]
    for name in ("windows", "health"):
        said = poisoned.pages[name]
        assert f"2 to 3 ({counts.reports[TARGET]:,}, {counts.devices / 4:,.0f} expected)" in said
        assert "more than chance explains" in said
        assert "every false answer about a mean, leave no trace" in said
    assert "than chance explains" not in poisoned.pages["rows"]
    assert "balance" not in poisoned.estimates["mean"]


def test_liars_about_a_hadamard_bucket_cannot_be_told_from_the_counts(
    collected: Callable[..., Poisoned],
) -> None:
    """Every row speaks of every bucket, so there is nothing to gather on, and nothing to be seen."""
    poisoned = collected(True).counts["rows"]
    assert evenness(poisoned.reports, poisoned.devices, 1 / 8) > 1e-6


def test_lazy_liars_who_all_claim_one_cohort_are_seen_in_the_rows_too(
    collected: Callable[..., Poisoned],
) -> None:
    """Nothing is won by it: whoever gathers on a row, or forgets to draw one, tells on itself."""
    clean = collected(False)
    rows = clean.plan.by_name["rows"]
    (row,) = {rows.mechanism.rows_of(cohort)[0] for cohort in (17,)}
    counts = clean.counts["rows"]
    reports = [*counts.reports]
    reports[row] += 300
    found = balance(rows, HistogramCounts(tuple(reports), counts.ones, counts.rows_per_report))
    assert found is not None
    assert [each.row for each in found.over] == [row]
