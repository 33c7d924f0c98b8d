"""What a host allows: figures of the plans, never of the values."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from pathlib import Path

import pytest
from tests.shared.devices import HERE, SECONDS, Make, with_epsilon

from reticent.device import Device, Policy
from reticent.plan import Plan
from reticent.testing import ManualClock

EXAMPLES = Path(__file__).parents[3] / "examples"


def limits(**some: float) -> Policy:
    """These limits and no others."""
    return replace(Policy.unlimited(), **some)  # type: ignore[arg-type]


def mean_lifetime() -> float:
    """A mean on four steps with ε = 1: the sum of |ln P/(1-P)| over its five cells."""
    low = 1 / (exp(1) + 1)
    shares = [low + cell / 4 * (1 - 2 * low) for cell in range(5)]
    return sum(abs(log(share / (1 - share))) for share in shares)


def total_lifetime() -> float:
    """Of the fixture's plan: that, a mean on one step (2 · 0.5), dBitFlip (d · ε), a Hadamard bit (2 · 2)."""
    return mean_lifetime() + 1.0 + 4.0 + 4.0


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (limits(), None),
        (limits(max_epsilon=2), None),
        (
            limits(max_epsilon=1.5),
            "metrics.opened_files.epsilon is 2.0; the policy allows 1.5 (max_epsilon)",
        ),
        (limits(shortest_round=21_600), None),
        (
            limits(shortest_round=86_400),
            "plan.round is 21600 s; the policy wants at least 86400 (shortest_round)",
        ),
        (limits(max_lifetime=total_lifetime() + 0.001), None),
        (limits(max_lifetime=total_lifetime() - 0.001), "(max_lifetime)"),
        (limits(max_window=4), None),
        (limits(max_window=2), "; the policy allows 2 (max_window)"),
    ],
)
def test_a_plan_that_asks_for_more_is_not_answered(
    device_of: Make, policy: Policy, reason: str | None
) -> None:
    device = device_of(policy=policy)
    device.add("editor_seconds", 5)
    assert (device.report(HERE) is None) == (reason is not None)
    refused = device.status().refused
    assert len(refused) == (reason is not None)
    assert reason is None or reason in refused[0]
    assert device.status().active == (reason is None)
    assert (device.receipt().reports == ()) == (reason is not None)


def test_every_metric_without_enough_flips_is_named(device_of: Make) -> None:
    refused = device_of(policy=limits(least_flip=0.2)).status().refused
    assert refused == (
        "metrics.browser_seconds.flip is 0; the policy wants at least 0.2 (least_flip)",
        "metrics.editor_hours.flip is 0; the policy wants at least 0.2 (least_flip)",
        "metrics.opened_files.flip is 0.1; the policy wants at least 0.2 (least_flip)",
    )


def test_a_device_has_limits_that_nobody_set(tmp_path: Path, clock: ManualClock) -> None:
    """The example is answered as it is; the deployment of the paper once its host allows 40 for life."""
    example, windows = EXAMPLES / "plan.toml", EXAMPLES / "windows-deployment.toml"
    with Device(example, tmp_path / "example", consent="granted", clock=clock) as device:
        assert device.status().refused == ()
        assert device.report(HERE) is not None
    with Device(windows, tmp_path / "windows", consent="granted", clock=clock) as device:
        assert device.status().refused == (
            "with this plan the state file can lose 40 for life; the policy allows 12 (max_lifetime)",
        )
        assert device.report(HERE) is None
    with Device(
        windows, tmp_path / "windows", consent="granted", clock=clock, policy=Policy(max_lifetime=40)
    ) as device:
        assert device.status().refused == ()
        assert device.report(HERE) is not None


def test_the_cap_counts_every_epoch_at_its_full_lifetime(device_of: Make, clock: ManualClock) -> None:
    """Two epochs fit under the limit, a third does not; what was in fact told plays no part."""
    most = 2 * total_lifetime() + 0.01
    device = device_of(policy=limits(max_lifetime=most))
    for epoch in range(3):
        clock.advance(21_600)
        answered = device.report(device.current_round)
        assert (answered is not None) == (epoch < 2)
        assert device.receipt().total_lifetime <= most
        device.forget()
        clock.advance(21_600)


def test_a_higher_limit_lets_a_device_go_on_after_forget(device_of: Make, clock: ManualClock) -> None:
    device = device_of(policy=limits(max_lifetime=total_lifetime() + 0.01))
    device.forget()
    clock.advance(2 * SECONDS)
    assert device.report() is None
    device.close()
    device = device_of(policy=limits(max_lifetime=2 * total_lifetime() + 0.01))
    clock.advance(2 * SECONDS)
    assert device.report() is not None
    assert device.receipt().total_lifetime == pytest.approx(2 * total_lifetime())


def test_what_is_held_counts_before_it_is_answered(
    device_of: Make, clock: ManualClock, plan_text: str
) -> None:
    """Versions that come and go while a device is off can still be answered: each for its rounds."""
    policy = limits(max_lifetime=2 * total_lifetime())
    device_of(policy=policy).close()
    refused = []
    for version, epsilon in enumerate(["1.9", "1.8", "1.7", "1.6"], start=2):
        clock.advance(SECONDS)
        device = device_of(with_epsilon(plan_text, version, epsilon), policy=policy)
        refused.append(bool(device.status().refused))
        device.close()
    assert refused == [False, False, False, True], "3.8 + 3.6 + 3.4 fit, 3.2 more do not"
    assert device_of().receipt().total_lifetime <= 2 * total_lifetime()


def test_a_refused_plan_is_not_held(device_of: Make, clock: ManualClock) -> None:
    refused = device_of(policy=limits(max_epsilon=1))
    assert refused.status().version is None
    assert refused.receipt().losses == ()
    clock.advance(10 * 21_600)
    assert device_of().status().answers_from == HERE + 11


def test_a_refused_version_changes_nothing(device_of: Make, clock: ManualClock, plan_text: str) -> None:
    """The version held goes on, with the values that its metrics get."""
    policy = limits(max_epsilon=2)
    device_of(policy=policy).close()
    device = device_of(with_epsilon(plan_text, 2, "3.0"), policy=policy)
    assert device.status().refused == (
        "metrics.opened_files.epsilon is 3.0; the policy allows 2 (max_epsilon)",
    )
    assert device.status().active
    clock.advance(SECONDS)
    device.add("opened_files", 7)
    assert device._recorded(HERE + 1) == {"opened_files": 7}
    clock.advance(SECONDS)
    report = device.report()
    assert report is not None
    assert (report.round, report.version) == (HERE + 1, 1)


def test_a_limit_that_is_lowered_ends_what_is_held(device_of: Make, clock: ManualClock) -> None:
    device_of(policy=limits(max_window=4)).close()
    clock.advance(2 * SECONDS)
    device = device_of(policy=limits(max_window=2))
    assert not device.status().active
    assert device.report() is None
    device.close()
    device = device_of(policy=limits(max_window=4))
    assert device.report() is None, "nothing was recorded in it"
    clock.advance(2 * SECONDS)
    assert device.report() is not None


def test_plans_must_not_ask_anew_too_often(device_of: Make, clock: ManualClock, plan_text: str) -> None:
    policy = limits(fewest_rounds=28)
    device_of(policy=policy).close()
    clock.advance(27 * 21_600)
    newer = with_epsilon(plan_text, 2, "1.0")
    device = device_of(newer, policy=policy)
    [reason] = device.status().refused
    assert reason == (
        "asks for new remembered answers 27 rounds after the last change; "
        "the policy wants at least 28 (fewest_rounds)"
    )
    clock.advance(21_600)
    report = device.report()
    assert report is not None
    assert report.version == 1
    assert device_of(newer, policy=policy).status().refused == ()


def test_a_new_metric_is_asking_anew_and_another_flip_is_not(
    device_of: Make, clock: ManualClock, plan_text: str
) -> None:
    policy = limits(fewest_rounds=28)
    device_of(policy=policy).close()
    text = plan_text.replace("version = 1", "version = 2")
    renamed = Plan.from_toml(text.replace("opened_files", "files_opened"))
    limited = Plan.from_toml(text.replace("max_total = 21600", "max_total = 21599"))
    flipped = Plan.from_toml(text.replace("flip = 0.1", "flip = 0.3"))
    assert device_of(renamed, policy=policy).status().refused != ()
    assert device_of(limited, policy=policy).status().refused != ()
    assert device_of(flipped, policy=policy).status().refused == ()


def test_what_was_asked_before_may_be_asked_again(
    device_of: Make, clock: ManualClock, plan_text: str
) -> None:
    """Going back to parameters whose answers are remembered costs nothing new."""
    policy = limits(fewest_rounds=4)
    device_of(policy=policy).close()
    clock.advance(10 * 21_600)
    device_of(with_epsilon(plan_text, 2, "1.0"), policy=policy).close()
    back = device_of(with_epsilon(plan_text, 3, "2.0"), policy=policy)
    assert back.status().refused == ()
    assert back.receipt().total_lifetime == pytest.approx(total_lifetime() + 2.0)


def test_nothing_is_answered_in_an_epoch_that_is_not_counted(
    device_of: Make, clock: ManualClock, state: Path
) -> None:
    """`reticent device forget` knows no policy: the next start of the program decides about the new epoch."""
    policy = limits(max_lifetime=total_lifetime() + 0.01)
    device_of(policy=policy).close()
    with Device.open(state, clock=clock) as alone:
        alone.forget()
        clock.advance(2 * SECONDS)
        assert alone.report() is None
        assert alone.status().notes == {}
        assert alone.receipt().total_lifetime == pytest.approx(total_lifetime())
    device = device_of(policy=policy)
    assert device.report() is None
    assert "(max_lifetime)" in device.status().refused[0]


def test_a_device_is_silent_where_nobody_can_be_asked_unless_the_host_says_otherwise() -> None:
    policy = Policy()
    assert (policy.do_not_track, policy.silent_in_ci, policy.silent_in_containers) == (True, True, True)
