"""Subset selection through the houses: devices, intake, counts, estimates, fleets, crowds and audits."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import binom, chi2
from starlette.datastructures import QueryParams

from reticent.device import answer
from reticent.errors import ParameterError, ReportError
from reticent.losses import loss_of_report
from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, SubsetSelection
from reticent.plan import Plan
from reticent.reports import Report, Verdict, from_packed, to_json, to_packed
from reticent_collector.cli.plan import plan as plan_group
from reticent_collector.counts import HistogramCounts, count_reports
from reticent_collector.dashboard.views.what_if import Choices
from reticent_collector.estimates import (
    HistogramEstimate,
    cumulative,
    estimate,
    expectation_maximisation,
    expected_variance,
)
from reticent_collector.http.wire import Wire
from reticent_collector.plans import lint
from reticent_collector.plans.export import export_plan
from reticent_collector.privacy import loss_of_window, privacy_card
from reticent_lab.audit import audit
from reticent_lab.crowd import law_of
from reticent_lab.fleet import VectorisedFleet
from reticent_lab.fleet.draws import HashDraws

ROOT = Path(__file__).parents[1]

TEXT = """
min_reports = 1
[plan]
name = "subsets"
version = 1
round = "6h"
[answers]
kind = "sampled"
window = "7d"
[metrics.command]
kind = "choice"
labels = ["build", "test", "run"]
epsilon = 1
[metrics.hours]
kind = "histogram"
max_value = 24
buckets = 12
absent = true
epsilon = 0.5
"""
PLAN = Plan.from_toml(TEXT)
SOME = Plan.from_toml(TEXT.replace('"7d"', '"7d"\nmetrics = 1'))
COMMAND, HOURS = PLAN.metrics
FALSE_ALARM = 1e-6
WINDOW = PLAN.window_of(80_000)


def sent(plan: Plan, device: int = 0) -> Report:
    assert WINDOW is not None
    draws = HashDraws(5, device, plan.name, WINDOW.start)
    return answer(draws, plan, draws.picked_round(WINDOW), {"command": "run", "hours": 7}).report


@pytest.mark.parametrize("plan", [PLAN, SOME], ids=["all", "some"])
def test_a_report_with_another_number_of_ones_is_malformed(plan: Plan) -> None:
    """Alone, among lines, in a packed batch, and where reports are counted or put into a lake's table."""
    frames = pytest.importorskip("reticent_lake.frames")
    reports = [sent(plan, device) for device in range(8)]
    wire = Wire([plan])
    for report in reports:
        result = wire.one(to_json(report), report.round * plan.round_seconds + 5.0)
        assert not isinstance(result, Verdict)
    report = reports[0]
    at = report.round * plan.round_seconds + 5.0
    bits = int.from_bytes(report.bits, "big") >> 8 * len(report.bits) - plan.bits
    for place in range(plan.bits):
        wrong_bits = (bits ^ 1 << place) << 8 * len(report.bits) - plan.bits
        wrong = Report(
            plan.name, 1, report.round, report.id, wrong_bits.to_bytes(len(report.bits), "big"), asked=report.asked
        )  # fmt: skip
        assert wire.one(to_json(wrong), at) is Verdict.MALFORMED
        with pytest.raises(ReportError):
            count_reports([wrong], plan)
        with pytest.raises(ReportError):
            from_packed(to_packed([wrong], plan), plan)
        with pytest.raises(ReportError):
            frames.to_arrow([wrong], plan)
        if place < 2:
            lines = wire.lines(b"\n".join([to_json(report)] * 3 + [to_json(wrong)]), at, 100)
            assert lines is not None
            assert lines.rejected == [(3, Verdict.MALFORMED)]
            batch = wire.packed(to_packed([report, wrong, report], plan), at, 100)
            assert not isinstance(batch, Verdict)
            assert batch.rejected == [(1, Verdict.MALFORMED)]
            odd = frames.to_arrow(to_packed([wrong], plan), plan)
            with pytest.raises(Exception, match="answers"):
                frames.count(odd, plan)


def test_a_fleet_answers_bit_for_bit_as_devices_do() -> None:
    assert WINDOW is not None
    devices = 1500
    values = {"command": np.arange(devices) % 4 - 1, "hours": np.arange(devices) % 27 - 1}
    for plan in (PLAN, SOME):
        fleet = VectorisedFleet(plan, devices, seed=3)
        for number in range(WINDOW.first, WINDOW.first + 5):
            reports = {report.id: report for report in fleet.reports(number, values)}
            assert 10 < len(reports) < devices
            for device in range(devices):
                draws = HashDraws(3, device, plan.name, WINDOW.start)
                if draws.picked_round(WINDOW) != number:
                    continue
                own: dict[str, object] = {"hours": device % 27 - 1} if device % 27 else {}
                if device % 4:
                    own["command"] = COMMAND.labels[device % 4 - 1]
                report = answer(draws, plan, number, own).report
                assert reports[report.id] == report


def test_a_crowd_draws_the_ones_of_each_bucket_by_the_law() -> None:
    """Means, and the covariance of two buckets, which is never above 0 in one report."""
    repetitions = 4000
    in_bucket = np.array([300, 0, 50, 120, 7])
    mechanism = SubsetSelection(1, HOURS.mechanism.buckets.even(5, 5), 2)  # type: ignore[union-attr]
    law = law_of(type(HOURS)("hours", mechanism))
    inside = np.repeat(np.arange(5)[:, None] + 0.5, repetitions, axis=1)
    copies = np.repeat(in_bucket[:, None], repetitions, axis=1)
    reports, ones = law.fresh(inside, copies, np.random.default_rng(1))
    assert np.all(reports == in_bucket.sum())
    assert np.all(ones.sum(axis=1) == 2 * in_bucket.sum())
    seen = mechanism.channel(Flip(0))
    low, high = float(seen.low), float(seen.high)
    means = low * in_bucket.sum() + (high - low) * in_bucket
    # Both in the set: the own one and another one, high · 1/4; or two others of four.
    both_own, both_other = high / 4, high * 0 + (1 - high) * (2 * 1) / (4 * 3)
    expected = np.empty((5, 5))
    for one, other in product(range(5), repeat=2):
        total = 0.0
        for bucket, number in enumerate(in_bucket):
            first, second = (high if place == bucket else low for place in (one, other))
            together = both_own if bucket in (one, other) else both_other
            both = first if one == other else together
            total += number * (both - first * second)
        expected[one, other] = total
    errors = (ones.mean(axis=0) - means)[:4] * np.sqrt(repetitions)
    assert errors @ np.linalg.solve(expected[:4, :4], errors) < chi2.isf(FALSE_ALARM, 4)
    assert np.cov(ones.T) == pytest.approx(expected, rel=0.2, abs=0.06 * expected.max())
    assert (expected[~np.eye(5, dtype=bool)] < 0).all()


@pytest.mark.parametrize(("devices", "truth"), [(1, 0.0), (30, 0.1), (1000, 0.02), (1000, 0.5)])
def test_the_interval_of_each_bucket_covers(devices: int, truth: float) -> None:
    """Exactly: those inside the bucket and those outside draw independent coins; each at its part of the level."""
    channel = HOURS.channel
    inside = round(devices * truth)
    own = binom.pmf(np.arange(inside + 1), inside, float(channel.high))
    others = binom.pmf(np.arange(devices - inside + 1), devices - inside, float(channel.low))
    law = np.convolve(own, others)
    size = HOURS.mechanism.size  # type: ignore[attr-defined]
    covered = 0.0
    for hits in np.flatnonzero(law > 1e-12).tolist():
        rest = size * devices - hits
        ones = [hits, *(rest // 12 + (place < rest % 12) for place in range(12))]
        found = estimate(HOURS, HistogramCounts((devices,) * 13, tuple(ones), 13))
        assert sum(found.values) == pytest.approx(1.0)
        covered += law[hits] * (found.buckets[0].uncut[0] <= inside / devices <= found.buckets[0].uncut[1])
    assert covered >= 1 - 0.05 / 13


def test_estimates_and_what_is_made_of_them() -> None:
    fleet = VectorisedFleet(PLAN, 60_000, seed=4)
    assert WINDOW is not None
    values = {"command": np.arange(60_000) % 4 - 1, "hours": np.arange(60_000) % 16}
    total = sum(
        (
            fleet.counts(number, values)[number, ()]["hours"]
            for number in range(WINDOW.first, WINDOW.first + 28)
        ),
        start=HistogramCounts((0,) * 13, (0,) * 13, 13),
    )
    assert isinstance(total, HistogramCounts)
    assert total.devices == 60_000
    found = estimate(HOURS, total, 1 - 1e-6)
    assert isinstance(found, HistogramEstimate)
    assert sum(found.values) == pytest.approx(1.0)
    truths = [2 / 16] * 4 + [2 / 16] * 4 + [0] * 5
    for number, truth in zip(found.buckets, truths, strict=True):
        assert number.lower <= truth <= number.upper
    fitted = expectation_maximisation(HOURS, total)
    assert fitted.shares == pytest.approx(truths, abs=0.06)
    with pytest.raises(ParameterError):  # "absent" has no place on the axis
        cumulative(COMMAND, [HistogramCounts((10,) * 4, (3, 3, 2, 2), 4)])
    channel = HOURS.channel
    low, high = float(channel.low), float(channel.high)
    reach = max(high, 1 - low) / (high - low)
    assert found.buckets[0].manipulation == pytest.approx(reach)
    at_tenth = low + 0.1 * (high - low)
    assert expected_variance(HOURS, 1000, 0.1) == pytest.approx(
        at_tenth * (1 - at_tenth) / (high - low) ** 2 / 1000
    )


def test_a_window_loses_the_sum_of_epsilons() -> None:
    assert (loss_of_report(PLAN), privacy_card(PLAN).window) == (1.5, 1.5)
    assert (loss_of_report(SOME), privacy_card(SOME).window) == (1.0, 1.0)
    assert loss_of_window([COMMAND.mechanism, HOURS.mechanism], [], 1) == 1.0
    assert "tracking" not in {problem.rule for problem in lint(PLAN)}


def test_an_audit_finds_devices_sound() -> None:
    small = Plan.from_toml(TEXT.partition("[metrics.hours]")[0])
    checked = audit(small, lives=2, rounds=4, families=("values",))
    assert checked.problems == []
    assert checked.sound
    losses = {loss.what: loss.loss for loss in checked.exact if loss.subject == "command"}
    assert losses["any two histories, one window"] == pytest.approx(1.0, rel=1e-9)
    assert losses["any two histories, two windows"] == pytest.approx(2.0, rel=1e-9)


def test_plan_check_and_the_sliders_compare_it_with_what_can_be_remembered() -> None:
    assert COMMAND.mechanism.for_remembered == HadamardBit(1, COMMAND.mechanism.buckets)  # type: ignore[arg-type]
    wide = SubsetSelection(1, Buckets(range(257)))
    assert wide.for_remembered == DBitFlip(1, Buckets(range(257)), 1)
    done = CliRunner().invoke(
        plan_group, ["check", str(ROOT / "examples" / "windows-split.toml"), "--devices", "1000000"]
    )
    assert done.exit_code == 0, done.output
    assert "subset, 5 of 21" in done.output
    assert "Remembered answers with flip 0.2: 1.0 for a constant device, 2.0 same pattern" in " ".join(
        done.output.split()
    )
    remembered = Choices.parse(PLAN, QueryParams({"metric": "hours", "answers": "remembered"}), 1000).applied(
        PLAN
    )
    assert [metric.mechanism.name for metric in remembered.metrics] == ["hadamard-bit"] * 2
    still = Choices.parse(PLAN, QueryParams({"metric": "hours", "epsilon": "2"}), 1000).applied(PLAN)
    assert [metric.mechanism.name for metric in still.metrics] == ["subset"] * 2


def test_an_export_has_the_weights() -> None:
    metrics = json.loads(json.dumps(export_plan(PLAN)))["metrics"]
    mechanism = HOURS.mechanism
    assert isinstance(mechanism, SubsetSelection)
    assert metrics[1]["mechanism"] == "subset"
    assert (metrics[1]["size"], metrics[1]["bits"]) == (mechanism.size, 13)
    assert (metrics[1]["inside"], metrics[1]["outside"]) == (str(mechanism.inside), str(mechanism.outside))
    assert Fraction(mechanism.inside, mechanism.outside) < Fraction("1.6487212707001282")
