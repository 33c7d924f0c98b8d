"""The losses that the JavaScript device computes from integers are Python's, and never below the truth."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from math import isclose, nextafter
from random import Random

import mpmath
import pytest
from spec.interpreter import DEFAULT_POLICY
from tests.javascript.conftest import PACKAGE, Ask
from tests.javascript.random_plans import random_plan

from reticent.mechanisms import SubsetSelection
from reticent.plan import Plan
from reticent.plan.card import privacy_card
from reticent.privacy import loss_by_width
from reticent_collector.plans import export_plan

LIMITS = {name: re.sub("_(.)", lambda match: match[1].upper(), name) for name in DEFAULT_POLICY}


def is_beyond_the_rules(plan: Plan, round_loss: float, lifetime: float) -> bool:
    """Whether the default policy of the rules refuses a plan with these losses."""
    limit = DEFAULT_POLICY
    epsilons = [float(metric.mechanism.epsilon) for metric in plan.metrics]
    problems = [max(epsilons) > limit["max_epsilon"], plan.round_seconds < limit["shortest_round"]]
    problems.append(round_loss > limit["max_window"])
    if plan.answers.sampled:
        length = plan.answers.window * plan.round_seconds
        touched = -(-(365 * 86_400 - 1) // length) + 1
        problems += [length < limit["shortest_window"], round_loss * touched > limit["max_year"]]
    else:
        flips = [metric.flip.threshold / 2**64 for metric in plan.metrics]
        problems += [min(flips) < limit["least_flip"], lifetime > limit["max_lifetime"]]
    return any(problems)


def test_figures_are_those_of_python(ask: Ask) -> None:
    """Except where the device counts a simpler bound: uneven grids, groups of unlike counters, parts of a group."""
    random = Random(3)
    plans = [Plan.from_toml(random_plan(random)) for _ in range(60)]
    answers = ask([("losses", {"plan": json.dumps(export_plan(plan)), "policy": {}}) for plan in plans])
    refusals = exact = 0
    for plan, losses in zip(plans, answers, strict=True):
        card = privacy_card(plan, 1)
        unlike = any(
            len({(str(plan.by_name[name].mechanism), plan.by_name[name].flip) for name in group.metrics}) > 1
            for group in plan.groups
        )
        is_exact = not unlike and (plan.asked == len(plan.metrics) or not plan.groups)
        assert losses["report"] >= card.round * (1 - 1e-14)
        assert not is_exact or isclose(losses["report"], card.round, rel_tol=1e-14)
        exact += is_exact
        lifetime = 0.0
        for metric, figures in zip(plan.metrics, losses["metrics"], strict=True):
            mechanism = metric.mechanism
            assert figures["epsilon"] == float(mechanism.epsilon) or isclose(
                figures["epsilon"], float(mechanism.epsilon), rel_tol=1e-15
            )
            assert isclose(figures["round"], card.metrics[metric.name].round, rel_tol=1e-14)
            points, widths = mechanism.points, figures["widths"]
            is_even = metric.kind != "mean" or all(
                left + right == points[-1] for left, right in zip(points, reversed(points), strict=True)
            )
            for width, loss in enumerate(widths, 1):
                python = loss_by_width(mechanism, width)
                assert isclose(loss, python, rel_tol=1e-14) if is_even else loss >= python * (1 - 1e-14)
            lifetime += widths[-1]
            assert figures["lifetime"] == widths[-1]
        refused = is_beyond_the_rules(plan, card.round, lifetime)
        assert losses["refused"] == refused or (losses["refused"] and not is_exact)
        refusals += refused
    assert 0 < refusals < len(plans)
    assert exact > len(plans) / 2


def test_figures_are_not_below_the_logarithms_of_the_integers(ask: Ask) -> None:
    random = Random(4)
    plans = [Plan.from_toml(random_plan(random)) for _ in range(60)]
    answers = ask([("losses", {"plan": json.dumps(export_plan(plan)), "policy": {}}) for plan in plans])
    with mpmath.workdps(60):
        for plan, losses in zip(plans, answers, strict=True):
            for metric, figures in zip(plan.metrics, losses["metrics"], strict=True):
                response, turned = metric.mechanism.response, metric.flip.threshold
                one, other = (
                    one * (2**64 - turned) + (2**64 - one) * turned for one in (response.high, response.low)
                )
                if isinstance(metric.mechanism, SubsetSelection):
                    one, other = metric.mechanism.inside, metric.mechanism.outside
                exact = metric.mechanism.changed_bits(1) * mpmath.log(mpmath.mpf(one) / other)
                assert exact <= figures["round"] <= exact * (1 + mpmath.mpf(2) ** -51)


@pytest.mark.parametrize(("rule", "javascript"), LIMITS.items())
def test_the_default_limits_are_those_of_the_rules(rule: str, javascript: str) -> None:
    default = DEFAULT_POLICY[rule]
    text = (PACKAGE / "src" / "policy.js").read_text()
    assert f"  {javascript} = {default:_};" in text or f"  {javascript} = {default};" in text


def test_logarithms_are_raised_by_more_than_their_error_and_rounded_up(ask: Ask) -> None:
    random = Random(5)
    ratios = [Fraction(random.randrange(2**130), random.randrange(1, 2**128)) for _ in range(200)]
    ratios = [max(ratio, 1 / ratio) for ratio in ratios if ratio] + [
        Fraction(1),
        Fraction(2),
        Fraction(2**64 - 1, 1),
    ]
    numbers = [Fraction(random.randrange(2**200), 2 ** random.randrange(60, 200)) for _ in range(100)]
    numbers += [Fraction(1), Fraction(3, 10), Fraction(2**53 + 1), Fraction(2**53 - 1, 2**53)]
    answers = ask([("ln", str(ratio)) for ratio in ratios] + [("upward", str(number)) for number in numbers])
    with mpmath.workdps(100):
        for ratio, text in zip(ratios, answers, strict=False):
            found, exact = Fraction(text), mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
            error = mpmath.mpf(found.numerator) / found.denominator - exact
            assert 0 < error < mpmath.mpf(2) ** -180
    for number, up in zip(numbers, map(float, answers[len(ratios) :]), strict=True):
        assert Fraction(up) >= number
        assert Fraction(nextafter(up, 0)) < number
