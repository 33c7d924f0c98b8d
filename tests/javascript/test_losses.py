"""One bound of losses: the same doubles in both devices, the same plans taken up, and never below the truth."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from math import isclose, nextafter
from random import Random
from typing import Any

import mpmath
import pytest
from spec.interpreter import DEFAULT_POLICY
from tests.javascript.conftest import PACKAGE, Ask
from tests.javascript.random_plans import random_plan

from reticent import losses
from reticent.device import Policy
from reticent.mechanisms import SubsetSelection
from reticent.plan import Plan
from reticent_collector.plans import export_plan
from reticent_collector.privacy import loss_by_width
from reticent_collector.privacy.card import privacy_card

LIMITS = {name: re.sub("_(.)", lambda match: match[1].upper(), name) for name in DEFAULT_POLICY}


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    """Some of them ask a device for some of their metrics, for life."""
    random = Random(3)
    texts = [random_plan(random) for _ in range(120)]
    divided = "[answers]\nmetrics = 1\n"
    return [
        Plan.from_toml(text + ("" if place % 3 or "[answers]" in text else divided))
        for place, text in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def answers(ask: Ask, plans: list[Plan]) -> list[Any]:
    """The figures of JavaScript."""
    return ask([("losses", {"plan": json.dumps(export_plan(plan)), "policy": {}}) for plan in plans])


def test_the_figures_of_the_specification(ask: Ask) -> None:
    vectors = json.loads((PACKAGE.parent / "spec" / "losses.json").read_text())
    plans = [json.dumps(export_plan(Plan.from_toml(vector["plan"]))) for vector in vectors]
    answers = ask([("losses", {"plan": plan, "policy": {}}) for plan in plans])
    for vector, figures in zip(vectors, answers, strict=True):
        assert figures["report"] == vector["report"]
        assert figures["lifetime"] == vector["lifetime"] or "sampled" in vector["plan"]
        for expected, found in zip(vector["metrics"].values(), figures["metrics"], strict=True):
            assert {name: found[name] for name in expected} == expected


def test_both_devices_have_the_same_doubles(plans: list[Plan], answers: list[Any]) -> None:
    for plan, figures in zip(plans, answers, strict=True):
        assert figures["report"] == losses.loss_of_report(plan)
        assert losses.lifetime_of(plan) == (0 if plan.answers.sampled else figures["lifetime"])
        for metric, of_metric in zip(plan.metrics, figures["metrics"], strict=True):
            mechanism = metric.mechanism
            assert of_metric["epsilon"] == losses.loss_of_answer(mechanism)
            assert of_metric["round"] == losses.loss_of_round(metric)
            assert of_metric["lifetime"] == losses.loss_for_life(mechanism)
            widths = range(1, mechanism.classes + 1)
            assert of_metric["widths"] == [losses.loss_of_classes(mechanism, width) for width in widths]


def test_both_devices_take_up_the_same_plans(plans: list[Plan], ask: Ask) -> None:
    """Under a limit that is a figure of the plan itself, and the doubles below and above it."""
    random = Random(6)
    asked = []
    for plan in plans:
        figures = {
            "max_window": losses.loss_of_report(plan),
            "max_lifetime": losses.lifetime_of(plan),
            "max_epsilon": max(losses.loss_of_answer(metric.mechanism) for metric in plan.metrics),
            "least_flip": min(float(metric.flip.probability) for metric in plan.metrics),
        }
        limit, figure = random.choice(list(figures.items()))
        for most in (nextafter(figure, 0), figure, nextafter(figure, 100)):
            asked.append((plan, {**dict.fromkeys(LIMITS), limit: most}))
    questions = [
        {
            "plan": json.dumps(export_plan(plan)),
            "policy": {LIMITS[name]: most for name, most in limits.items()},
        }
        for plan, limits in asked
    ]
    refused = [answer["refused"] for answer in ask([("losses", question) for question in questions])]
    assert refused == [bool(Policy(**limits).problems(plan)) for plan, limits in asked]
    assert len(plans) / 2 < sum(refused) < len(asked) / 2


def test_the_default_policy_refuses_the_same_plans(plans: list[Plan], answers: list[Any]) -> None:
    refused = [bool(Policy().problems(plan)) for plan in plans]
    assert refused == [figures["refused"] for figures in answers]
    assert 0 < sum(refused) < len(plans)


def test_a_bound_is_never_below_the_exact_figure_and_mostly_equal(plans: list[Plan]) -> None:
    """Larger: uneven grids, unlike counters, parts of a group. The exact figures are of the formula: 1e-14 above."""
    exact = 0
    for plan in plans:
        card = privacy_card(plan, 1)
        groups = [[plan.by_name[name] for name in group.metrics] for group in plan.groups]
        unlike = any(len({(one.mechanism, one.flip) for one in group}) > 1 for group in groups)
        is_exact = not unlike and (plan.asked == len(plan.metrics) or not plan.groups)
        report = losses.loss_of_report(plan)
        assert report >= card.round * (1 - 1e-14)
        assert not is_exact or isclose(report, card.round, rel_tol=1e-14)
        exact += is_exact
        assert plan.answers.sampled or losses.lifetime_of(plan) >= card.lifetime * (1 - 1e-14)
        for metric in plan.metrics:
            mechanism, points = metric.mechanism, metric.mechanism.points
            rounding = 1e-12 if mechanism.name == "subset" else 1e-15  # of weights that add up to 2^64
            assert isclose(losses.loss_of_answer(mechanism), float(mechanism.epsilon), rel_tol=rounding)
            assert isclose(losses.loss_of_round(metric), card.metrics[metric.name].round, rel_tol=1e-14)
            is_even = metric.kind != "mean" or all(
                left + right == points[-1] for left, right in zip(points, reversed(points), strict=True)
            )
            for width in range(1, mechanism.classes + 1):
                bound, true = losses.loss_of_classes(mechanism, width), loss_by_width(mechanism, width)
                assert isclose(bound, true, rel_tol=1e-14) if is_even else bound >= true * (1 - 1e-14)
    assert exact > len(plans) / 2


def test_figures_are_not_below_the_logarithms_of_the_integers(plans: list[Plan], answers: list[Any]) -> None:
    with mpmath.workdps(60):
        for plan, found in zip(plans, answers, strict=True):
            for metric, figures in zip(plan.metrics, found["metrics"], strict=True):
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
