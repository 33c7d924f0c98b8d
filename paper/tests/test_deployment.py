"""The deployment at small size: the plan, the joint limit, the estimates, and verdicts that follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from reticent.plan import Plan
from reticent_collector.cli.root import reticent as command
from reticent_lab.crowd import CrowdDraws
from reticent_lab.fleet import VectorisedFleet
from reticent_paper import deployment
from reticent_paper.claims import ClaimVerdict, Setting

SMALL = Setting(fleets=(1_500, 3_000), days=5)


@pytest.fixture(scope="module")
def fleet():
    return deployment.simulate(400, SMALL)


@pytest.fixture(scope="module")
def result():
    return deployment.run(SMALL)


@pytest.fixture(scope="module")
def plan():
    return Plan.load(deployment.EXAMPLE)


def test_the_plan_passes_the_check():
    done = CliRunner().invoke(command, ["plan", "check", str(deployment.EXAMPLE), "--json"])
    assert done.exit_code == 0, done.output


def test_the_plan_is_the_papers(plan):
    assert plan.round_seconds == 6 * 3600
    assert [metric.name for metric in plan.metrics] == [app.metric for app in deployment.APPS]
    assert len(plan.metrics) == 20
    assert {(m.mechanism.epsilon, m.mechanism.grid.steps, m.max_value) for m in plan.metrics} == {
        (1, 1, 21_600)
    }
    assert {float(metric.flip.probability) for metric in plan.metrics} == {0.2}
    assert [group.max_total for group in plan.groups] == [21_600]


@pytest.fixture(scope="module")
def people(plan):
    return deployment.crowd(plan, 400, 20, SMALL.seed)


def test_no_device_uses_apps_for_longer_than_six_hours(fleet, people):
    raw = people.values(CrowdDraws(Plan.load(deployment.EXAMPLE), people, SMALL.seed).parts[0])
    totals = np.sum([raw[app.metric] for app in deployment.APPS], axis=0, dtype=np.int64)
    assert fleet.full == pytest.approx((totals > 21_600).mean())
    assert 0 < fleet.full < 0.5
    assert fleet.fits


def test_estimates_come_from_the_counts_of_all_devices(fleet, people, plan):
    """The paper's estimator on the drawn counts, and the truth as the device's joint limit leaves it."""
    (drawn,) = CrowdDraws(plan, people, SMALL.seed).draw(1)
    low = 1 / (np.e + 1)
    seen = 0.2 + 0.6 * low
    assert fleet.devices == 400 * 75_000
    raw = people.values(slice(0, 400))
    total = np.sum([raw[app.metric] for app in deployment.APPS], axis=0, dtype=np.int64)
    for place in (0, 7):
        metric = deployment.APPS[place].metric
        ones = int(drawn[metric].ones[0, 0])
        expected = 21_600 * (ones / fleet.devices - seen) / (0.6 * (1 - 2 * low))
        assert fleet.months[place].estimates[0].value == pytest.approx(expected, rel=1e-9)
        scaled = raw[metric] * np.minimum(1, 21_600 / np.maximum(total, 1))
        assert fleet.months[place].truth == pytest.approx(scaled.mean(axis=1))


def test_as_many_patterns_are_steady_as_with_devices_that_answer(fleet, people, plan):
    """A fleet of the same people, one device each: both shares within 5.5 standard errors (1e-6 per app)."""
    raw = people.values(slice(0, 400))
    devices = VectorisedFleet(plan, 400, SMALL.seed)
    by_round = [{name: column[number] for name, column in raw.items()} for number in range(20)]
    for place in (0, 1, 6):
        cells = [devices.cells(deployment.APPS[place].metric, values) for values in by_round]
        share = np.mean([len(set(own)) == 1 for own in np.array(cells).T.tolist()])
        error = np.sqrt(2 * max(share * (1 - share), 0.01) / 400)
        assert abs(fleet.months[place].patterns.share_constant - share) < 5.5 * error


def test_six_hours_make_more_changes_than_days(fleet):
    assert fleet.months[0].patterns.share_constant < fleet.months[0].daily_constant
    assert fleet.steady <= min(month.patterns.share_constant for month in fleet.months)
    assert fleet.moved.max() <= 20


def test_losses_are_those_of_the_equations():
    table = deployment.losses_table()
    rows = {row[0]: row for row in table.rows}
    assert rows["one round"][1] == pytest.approx(0.5694, abs=5e-5)
    tau = rows["one round"][1]
    assert rows["one round"][2] == pytest.approx(tau + 19 * np.log(1 + (np.exp(tau) - 1) / 19), rel=1e-9)
    assert rows["one round"][3:] == (0.686, 1.672)
    assert rows["any number of rounds, same pattern"][1:3] == (2.0, 40.0)
    assert rows["124 rounds: that it switched half-way"][1] == pytest.approx(
        62 * np.log(4) + 2 * np.log(np.e / (np.e + 1)), abs=1e-6
    ), "min(t1, t2)·Λ + 2 ln p (MATHS 5)"


def test_coverage_follows_from_the_estimates(fleet):
    assert deployment.mean_every_round(fleet).verdict is ClaimVerdict.HOLDS
    shifted = replace(
        fleet, months=tuple(replace(month, truth=month.truth + 90_000) for month in fleet.months)
    )
    assert deployment.mean_every_round(shifted).verdict is ClaimVerdict.CORRECTED


def _with_first(table, single, *joint):
    rows = [list(row) for row in table.rows]
    rows[0][1] = single
    for row, figure in zip(rows, joint, strict=False):
        row[2] = figure
    return replace(table, rows=tuple(map(tuple, rows)))


@pytest.mark.parametrize(
    ("joint", "verdict"),
    [(0.6, ClaimVerdict.HOLDS), (1.3, ClaimVerdict.CONDITION), (9.0, ClaimVerdict.CORRECTED)],
)
def test_minor_follows_from_the_figures(joint, verdict):
    table = _with_first(deployment.losses_table(), 0.569, joint)
    assert deployment.minor_loss(table).verdict is verdict


@pytest.mark.parametrize(
    ("joint", "limit", "verdict"),
    [
        (1.3, 1.337, ClaimVerdict.CONDITION),
        (1.4, 1.337, ClaimVerdict.CORRECTED),
        (1.2, 2 * 0.5694451960428427, ClaimVerdict.HOLDS),
    ],
)
def test_any_number_of_apps_follows_from_the_figures(joint, limit, verdict):
    table = _with_first(deployment.losses_table(), 0.569, joint, 11.4, limit)
    assert deployment.any_number_of_apps(table).verdict is verdict


def test_the_total_is_judged_by_what_the_devices_did(fleet):
    assert deployment.bounded_total(fleet).verdict is ClaimVerdict.HOLDS
    assert deployment.bounded_total(replace(fleet, fits=False)).verdict is ClaimVerdict.CORRECTED


def test_the_long_period_is_judged_by_the_loss_of_steady_devices():
    table = deployment.losses_table()
    assert deployment.long_period(table).verdict is ClaimVerdict.CONDITION
    without_bound = _with_first(table, 0.569, 1.3, 11.4, 1.337, float("inf"))
    assert deployment.long_period(without_bound).verdict is ClaimVerdict.CORRECTED


def test_the_result_has_every_app_and_both_pictures(result):
    tables = {table.name: table for table in result.tables}
    assert len(tables["apps"].rows) == 20
    assert [len(picture.draw().axes) for picture in result.pictures] == [4, 1]
