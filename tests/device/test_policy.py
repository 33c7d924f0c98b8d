"""What a host allows: figures of the plan, never of the values."""

from __future__ import annotations

from math import exp, log

import pytest
from tests.shared.devices import HERE, Make, with_epsilon

from reticent.device import Policy
from reticent.plan import Plan
from reticent.testing import ManualClock


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
        (Policy(), None),
        (Policy(max_epsilon=2), None),
        (Policy(max_epsilon=1.5), "metrics.opened_files.epsilon is 2; the policy allows 1.5"),
        (Policy(shortest_round=21_600), None),
        (Policy(shortest_round=86_400), "plan.round is 21600 s; the policy wants at least 86400 s"),
        (Policy(lifetime_cap=total_lifetime() + 0.001), None),
        (Policy(lifetime_cap=total_lifetime() - 0.001), "the policy allows"),
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
    assert (device.receipt().reports == ()) == (reason is not None)


def test_the_cap_counts_every_epoch_at_its_full_lifetime(device_of: Make, clock: ManualClock) -> None:
    """Two epochs fit under the cap, a third does not; what was in fact told plays no part."""
    device = device_of(policy=Policy(lifetime_cap=2 * total_lifetime() + 0.01))
    for epoch in range(3):
        clock.advance(21_600)
        answered = device.report(device.current_round)
        assert (answered is not None) == (epoch < 2)
        device.forget()
        clock.advance(21_600)


def test_a_refused_plan_is_not_held(device_of: Make, clock: ManualClock) -> None:
    refused = device_of(policy=Policy(max_epsilon=1))
    assert refused.status().version is None
    clock.advance(10 * 21_600)
    assert device_of().status().answers_from == HERE + 11


def test_plans_must_not_ask_anew_too_often(device_of: Make, clock: ManualClock, plan_text: str) -> None:
    policy = Policy(fewest_rounds_per_epoch=28)
    device_of(policy=policy).close()
    clock.advance(27 * 21_600)
    newer = with_epsilon(plan_text, 2, "1.0")
    device = device_of(newer, policy=policy)
    [reason] = device.status().refused
    assert reason == (
        "asks for new remembered answers 27 rounds after the last change; the policy wants at least 28"
    )
    assert device.report() is None
    clock.advance(21_600)
    assert device_of(newer, policy=policy).status().refused == ()


def test_a_new_metric_is_asking_anew_and_another_flip_is_not(
    device_of: Make, clock: ManualClock, plan_text: str
) -> None:
    policy = Policy(fewest_rounds_per_epoch=28)
    device_of(policy=policy).close()
    text = plan_text.replace("version = 1", "version = 2")
    renamed = Plan.from_toml(text.replace("opened_files", "files_opened"))
    flipped = Plan.from_toml(text.replace("flip = 0.1", "flip = 0.3"))
    assert device_of(renamed, policy=policy).status().refused != ()
    assert device_of(flipped, policy=policy).status().refused == ()


def test_what_was_asked_before_may_be_asked_again(
    device_of: Make, clock: ManualClock, plan_text: str
) -> None:
    """Going back to parameters whose answers are remembered costs nothing new."""
    policy = Policy(fewest_rounds_per_epoch=4)
    device_of(policy=policy).close()
    clock.advance(10 * 21_600)
    device_of(with_epsilon(plan_text, 2, "1.0"), policy=policy).close()
    back = device_of(with_epsilon(plan_text, 3, "2.0"), policy=policy)
    assert back.status().refused == ()
