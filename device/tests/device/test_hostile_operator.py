"""
Whoever writes the plans: what all reports from one state file can tell has a limit, and the receipt states it.

The operator has the whole language of plans and all the time there is. The device has its defaults. Its
exact loss is computed twice: from the ledger, and by enumerating what a device with values that never change
can have sent, with the law of every report that was in fact answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import inf, log
from pathlib import Path

import pytest
from tests.shared.devices import HERE, SECONDS

from reticent.device import Device, Policy, in_range
from reticent.losses import printed
from reticent.mechanisms import OneBitMean
from reticent.plan import Plan
from reticent.reports import Report
from reticent.testing import ManualClock

MOST = Policy()


def text(
    version: int,
    *,
    name: str = "app-usage",
    round_length: str = "6h",
    epsilon: str = "1",
    flip: str = "0.2",
    max_total: str = "21600",
    metrics: tuple[str, str] = ("editor", "browser"),
) -> str:
    tables = "".join(
        f'[metrics.{metric}]\nkind = "mean"\nmax_value = 21600\nepsilon = {epsilon}\nflip = {flip}\n'
        for metric in metrics
    )
    return f"""
[plan]
name = "{name}"
version = {version}
round = "{round_length}"
{tables}
[groups.both]
metrics = ["{metrics[0]}", "{metrics[1]}"]
max_total = {max_total}
"""


def swept_limits() -> Iterator[str]:
    """Finding 2: a limit that alternates moves a value that never changes between its remembered answers."""
    for version in range(1, 101):
        yield text(version, max_total=str((21_600, 10_800)[version % 2]))


def many_versions() -> Iterator[str]:
    """Finding 3: a little less epsilon each time, and each time fresh answers to average."""
    for version in range(1, 101):
        yield text(version, epsilon=str(1 - version / 1000))


def new_limits() -> Iterator[str]:
    for version in range(1, 101):
        yield text(version, max_total=str(21_600 - version))


def no_flips() -> Iterator[str]:
    yield text(1)
    for version in range(2, 101):
        yield text(version, flip=str(max(0, 0.2 - version / 100)))


def renames() -> Iterator[str]:
    for version in range(1, 101):
        yield text(version, metrics=(f"editor{version}", "browser"))


def other_plans() -> Iterator[str]:
    for version in range(1, 101):
        yield text(version, name=f"app-usage-{version}")


def shorter_rounds() -> Iterator[str]:
    for version in range(1, 101):
        yield text(version, round_length=f"{max(1, 360 - 4 * version)}m")


def everything_at_once() -> Iterator[str]:
    for version in range(1, 101):
        yield text(
            version,
            epsilon=("1", "2", "20")[version % 3],
            flip=("0.2", "0", "0.1")[version // 3 % 3],
            max_total=str(21_600 - 100 * (version % 7)),
            metrics=("editor", f"browser{version // 30}"),
        )


OPERATORS = [
    swept_limits,
    many_versions,
    new_limits,
    no_flips,
    renames,
    other_plans,
    shorter_rounds,
    everything_at_once,
]


def answered(operator: Iterator[str], state: Path) -> tuple[Device, list[tuple[Plan, Report]]]:
    """
    What a default device on one file answers, with values that never change; each version has 30 rounds.

    Of these the operator asks for two by number, also for one of the time before the version came. The
    person wishes to forget once in a while.
    """
    clock = ManualClock(HERE * SECONDS + 60.0)
    held: dict[int, Plan] = {}
    reports: dict[int, Report] = {}
    device = None
    for number, written in enumerate(operator):
        plan = Plan.from_toml(written)
        device = Device(plan, state, consent="granted", clock=clock)
        status = device.status()
        if status.version == plan.version and not status.refused:
            held[plan.version] = plan
        if status.problem:
            continue  # another plan: the file is left alone
        for here in (device.current_round, device.current_round + 29):
            clock.now = here * SECONDS + 60.0
            for name in plan.by_name:
                device.set(name, 21_600)
            report = device.report(here)
            if report is not None:
                reports[here] = report
        if number % 25 == 7:
            device.forget()
        device.close()
        clock.advance(SECONDS)
    device = Device.open(state, clock=clock)
    return device, [(held[reports[here].version], reports[here]) for here in sorted(reports)]


@pytest.mark.parametrize("operator", OPERATORS)
def test_no_operator_gets_more_than_the_policy_states(operator: object, tmp_path: Path) -> None:
    assert callable(operator)
    device, reports = answered(operator(), tmp_path / "state")
    receipt = device.receipt()
    assert MOST.max_lifetime is not None
    assert reports, "an operator who gets nothing is no test"
    assert 0 < receipt.total_loss <= receipt.total_lifetime <= MOST.max_lifetime
    assert f" / {printed(receipt.total_lifetime)}" in str(receipt)
    for plan, _ in reports:
        assert plan.round_seconds >= 3600
        assert all(metric.flip.probability >= Fraction(1, 10) for metric in plan.metrics)
        assert all(metric.mechanism.epsilon <= 2 for metric in plan.metrics)
    # Each set of remembered answers that was used is in the ledger, for its epoch.
    used = {
        (metric.name, metric.digest, told.epoch)
        for (plan, _), told in zip(reports, receipt.reports, strict=True)
        for metric in plan.metrics
    }
    entered = {
        (entry.metric, entry.digest, entry.epoch) for entry in receipt.losses if entry.classes_seen > 0
    }
    assert used == entered
    assert constant_loss(reports, [told.epoch for told in receipt.reports]) <= receipt.total_loss
    device.close()


def constant_loss(reports: list[tuple[Plan, Report]], epochs: list[int]) -> float:
    """
    The exact loss between any two devices whose values never change, over all reports that were answered.

    Each metric's answers under one digest and epoch are noisy copies of one remembered bit, if a value that
    never changes stays in one class there. It does, because all that decides the class is in the digest. So
    the worst odds of one such run of answers are those between the thresholds of the two ends of the range,
    seen through the flips of its rounds; and runs are independent of each other.
    """
    runs: dict[tuple[str, bytes, int], list[tuple[OneBitMean, Fraction]]] = {}
    for (plan, _), epoch in zip(reports, epochs, strict=True):
        for metric in plan.metrics:
            assert isinstance(metric.mechanism, OneBitMean)
            run = runs.setdefault((metric.name, metric.digest, epoch), [])
            run.append((metric.mechanism, metric.flip.probability))
    total = 0.0
    for run in runs.values():
        mechanism = run[0][0]
        low, high = (Fraction(mechanism.thresholds(end, 0)[0], 2**64) for end in (0, mechanism.grid.steps))
        # The likeliest evidence is the same bit in every round; flips are symmetric, so either bit will do.
        from_one = from_zero = Fraction(1)
        for _, flip in run[:40]:  # beyond forty rounds the odds no longer move in double precision
            from_one, from_zero = from_one * (1 - flip), from_zero * flip
        chances = [share * from_one + (1 - share) * from_zero for share in (low, high)]
        total += abs(log(chances[1] / chances[0])) if all(chances) else inf
    return total


def test_a_constant_device_stays_in_one_class_for_each_digest_and_alpha() -> None:
    """Finding 2: two limits under one digest made a constant device switch, for half of all alphas."""
    plans = [Plan.from_toml(written) for written in swept_limits()]
    for alpha in range(0, 2**64, 2**58):
        classes: dict[tuple[str, bytes], set[int]] = {}
        for plan in plans:
            clean = in_range(plan, {"editor": 21_600, "browser": 7_000})
            for metric in plan.metrics:
                memo_class = metric.mechanism.memo_class(clean[metric.name], alpha, 0)
                classes.setdefault((metric.name, metric.digest), set()).add(memo_class)
        assert {len(visited) for visited in classes.values()} == {1}
