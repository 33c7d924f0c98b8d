"""The law of the device: what is answered, and that nothing but the bits depends on the values."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from hashlib import sha256
from math import ceil

import pytest
from scipy.stats import binomtest

from reticent.device import SecretDraws, answer
from reticent.mechanisms import SCALE, DBitFlip, Flip, OneBitMean
from reticent.plan import Metric, Plan, Window

FALSE_ALARM = 1e-6


class Counted:
    """Draws that count what is asked of them."""

    def __init__(self, source: SecretDraws) -> None:
        self.source = source
        self.window = source.window
        self.counted: Counter[str] = Counter()

    def alpha(self, metric: Metric) -> int:
        self.counted[f"alpha {metric.name}"] += 1
        return self.source.alpha(metric)

    def memo(self, metric: Metric, memo_class: int) -> Sequence[int]:
        draws = self.source.memo(metric, memo_class)
        self.counted[f"memo {metric.name}"] += len(draws)
        return draws

    def flips(self, metric: Metric, round_number: int) -> Sequence[int]:
        draws = self.source.flips(metric, round_number)
        self.counted[f"flip {metric.name}"] += len(draws)
        return draws

    def picked_round(self, window: Window) -> int:
        return self.source.picked_round(window)

    def asked(self, plan: Plan) -> tuple[bool, ...]:
        return self.source.asked(plan)

    def cohort(self) -> int:
        return self.source.cohort()

    def report_id(self, version: int, round_number: int) -> bytes:
        return self.source.report_id(version, round_number)


def secret(number: int) -> bytes:
    return sha256(f"device {number}".encode()).digest()


def by_hand(plan: Plan, draws: SecretDraws, number: int, values: dict[str, int]) -> list[int]:
    """The bits, written out from the definitions for the plan of the fixture, one metric at a time."""
    total = values["editor_seconds"] + values["browser_seconds"]
    scale = Fraction(21_600, total) if total > 21_600 else Fraction(1)
    bits = []
    for metric in plan.metrics:
        value = values[metric.name] * (scale if metric.name in plan.groups[0].metrics else 1)
        mechanism = metric.mechanism
        flips = draws.flips(metric, number)
        low, high = mechanism.response.low, mechanism.response.high
        if isinstance(mechanism, OneBitMean):
            step = mechanism.grid.points[1]
            cell, rest = divmod(value, step)
            cell += bool(rest) and draws.alpha(metric) >= ceil((step - rest) / Fraction(step) * SCALE)
            thresholds = [low + cell * (high - low) // mechanism.grid.steps]
            memo = draws.memo(metric, int(cell))
        elif isinstance(mechanism, DBitFlip):
            bucket = min(value * 32 // 21_600, 31)
            window = mechanism.rows_of(draws.cohort())
            thresholds = [high if bucket == asked else low for asked in window]
            memo = draws.memo(metric, window.index(bucket) if bucket in window else 4)
        else:
            column = min(value * 8 // 64, 7) + 1
            odd = (draws.cohort() % 16 & int(column)).bit_count() % 2
            thresholds, memo = [low if odd else high], draws.memo(metric, odd)
        bits += [
            (m < t) ^ (f < metric.flip.threshold) for m, t, f in zip(memo, thresholds, flips, strict=True)
        ]
    return bits


@pytest.mark.parametrize("device", range(20))
def test_the_bits_are_those_of_the_definitions(plan: Plan, device: int) -> None:
    draws = SecretDraws(secret(device), plan.name, 0)
    for number in range(3):
        values = {
            "editor_seconds": 700 * device,
            "browser_seconds": 9_000 + number,
            "editor_hours": 999 * device,
        }
        values["opened_files"] = 3 * device
        report = answer(draws, plan, number, values).report
        assert [report.bit(place) for place in range(plan.bits)] == by_hand(plan, draws, number, values)
        assert len(report.bits) == plan.report_bytes


def test_a_report_is_a_function_of_secret_plan_round_and_values(plan: Plan) -> None:
    values = {"editor_seconds": 5_000}
    one = answer(SecretDraws(secret(1), plan.name, 0), plan, 7, values, {"os": "linux"})
    two = answer(SecretDraws(secret(1), plan.name, 0), plan, 7, values, {"os": "linux"})
    assert one == two
    assert one.report.segment == {"os": "linux"}
    assert answer(SecretDraws(secret(1), plan.name, 0), plan, 7, values, {"os": "beos"}).report.segment == {
        "os": "other"
    }


def test_a_missing_value_is_answered_like_zero(plan: Plan) -> None:
    draws = SecretDraws(secret(2), plan.name, 0)
    assert answer(draws, plan, 7, {}) == answer(draws, plan, 7, {metric.name: 0 for metric in plan.metrics})


def test_what_is_drawn_does_not_depend_on_the_values(plan: Plan) -> None:
    seen = []
    sizes = set()
    for value in (0, 1, 777, 21_600, float("nan"), None, 10**30):
        draws = Counted(SecretDraws(secret(3), plan.name, 0))
        report = answer(draws, plan, 7, {metric.name: value for metric in plan.metrics}).report
        seen.append(draws.counted)
        sizes.add((len(report.bits), report.id, report.cohort))
    assert all(counts == seen[0] for counts in seen)
    assert len(sizes) == 1
    assert seen[0]["memo editor_hours"] == seen[0]["flip editor_hours"] == 4


def test_the_number_of_hashes_does_not_depend_on_the_values(plan: Plan) -> None:
    """Below the interface too: no remembered answer is cheaper because it was used before."""
    digests: list[object] = []

    def note(_: object, event: str, called: object) -> None:
        if event == "c_call" and getattr(called, "__name__", "") == "digest":
            digests.append(called)

    def cost(sequence: list[int]) -> int:
        digests.clear()
        draws = SecretDraws(secret(3), plan.name, 0)
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            for number, value in enumerate(sequence):
                answer(draws, plan, number, {metric.name: value for metric in plan.metrics})
        finally:
            sys.setprofile(before)
        return len(digests)

    assert cost([5, 5, 5, 5]) == cost([5, 21_600, 9_000, 64]) > 0


def agrees(ones: int, devices: int, chance: Fraction) -> bool:
    """Whether a count of ones is one that a chance explains, with a false-alarm rate of `FALSE_ALARM`."""
    return binomtest(ones, devices, float(chance)).pvalue > FALSE_ALARM


def test_over_secrets_the_bits_follow_the_law_and_a_wrong_epsilon_is_refused(plan: Plan) -> None:
    """Marginals over devices: three tests at 1e-6 each (the secrets are fixed, so this does not flicker)."""
    devices, value = 45_000, 21_600
    metric = Metric("saves", OneBitMean(1, 21_600, step=21_600))
    small = Plan("p", 1, 60, 60, (metric,))
    for amount, share in ((0, Fraction(0)), (value // 4, Fraction(1, 4)), (value, Fraction(1))):
        ones = sum(
            answer(SecretDraws(secret(device), "p", 0), small, 1, {"saves": amount}).report.bit(0)
            for device in range(devices)
        )
        laws = {
            epsilon: metric.flip.channel(OneBitMean(epsilon, 21_600).response) for epsilon in (0.9, 1.0, 1.1)
        }
        chance = {epsilon: law.low + share * law.contrast for epsilon, law in laws.items()}
        assert agrees(ones, devices, chance[1.0])
        if share != Fraction(1, 4):
            assert not agrees(ones, devices, chance[0.9])
            assert not agrees(ones, devices, chance[1.1])


def test_flips_are_fresh_each_round_and_memo_bits_are_not(plan: Plan) -> None:
    """A constant device: without flip one answer for ever; with flip 0.2 it differs from its memo in 20 %."""
    draws = SecretDraws(secret(5), plan.name, 0)
    rounds = 4_000
    reports = [answer(draws, plan, number, {}).report for number in range(rounds)]
    browser, editor = plan.offset("browser_seconds"), plan.offset("editor_seconds")
    assert len({report.bit(browser) for report in reports}) == 1
    ones = sum(report.bit(editor) for report in reports)
    turned = min(ones, rounds - ones)
    assert agrees(turned, rounds, Fraction(1, 5))
    assert not agrees(turned, rounds, Fraction(1, 4))


class Fixed:
    """Draws that stand at the thresholds: every answer is as close as it can be."""

    window = None

    def __init__(self, memo: int, flip: int) -> None:
        self._memo, self._flip = memo, flip

    def alpha(self, metric: Metric) -> int:
        return 0

    def memo(self, metric: Metric, memo_class: int) -> list[int]:
        return [threshold + self._memo for threshold in metric.mechanism.thresholds(memo_class, 0)]

    def flips(self, metric: Metric, round_number: int) -> list[int]:
        return [metric.flip.threshold + self._flip] * metric.bits

    def cohort(self) -> int:
        return 0

    def report_id(self, version: int, round_number: int) -> bytes:
        return bytes(16)


@pytest.mark.parametrize(("memo", "flip", "bit"), [(0, 0, 0), (-1, 0, 1), (0, -1, 1), (-1, -1, 0)])
def test_a_draw_equal_to_its_threshold_is_not_below_it(memo: int, flip: int, bit: int) -> None:
    """Otherwise a probability of k/2⁶⁴ would be one of (k + 1)/2⁶⁴, and 0 would be possible."""
    plan = Plan("app-usage", 1, 3600, 3600, (Metric("saves", OneBitMean(1, max_value=10), Flip(0.2)),))
    report = answer(Fixed(memo, flip), plan, 1, {"saves": 4}).report  # type: ignore[arg-type]
    assert report.bit(0) == bit
