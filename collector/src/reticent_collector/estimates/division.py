"""What a plan of several metrics gains where each device answers some of them: the same promise, narrower figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from reticent.device import Policy
from reticent.plan import Plan
from reticent.plan.parse import content_of, fields_of
from reticent_collector.estimates.interval import expected_half_width
from reticent_collector.privacy import Losses
from reticent_collector.privacy.card import privacy_card

BEST_EPSILON = Fraction(
    218, 100
)  # where y coth²(y/2) is least: the best epsilon of a metric that is answered
DIGITS = 1000  # epsilons are rounded down to so many parts of 1


@dataclass(frozen=True, slots=True)
class Division:
    """
    A plan of the same metrics in which a device answers some of them, at the same loss for a constant device.

    With E the loss of the whole plan and t metrics, asking all of them leaves E/t for each, asking k of t leaves E/k;
    n devices then give n k/t answers about a metric. For means, in units of m²/n, the variance is at worst

        all: coth²(E/2t)/4        k of t: (t/k) coth²(E/2k)/4

    which is least near E/k = 2.18.
    """

    metrics: int  #: How many of them a device answers
    times: float  #: What every epsilon is multiplied with, before it is rounded down
    epsilons: Mapping[str, float]
    loss: Losses  #: Of the whole plan
    half_widths: Mapping[str, float]
    narrower: float  #: How many times narrower the intervals are, of the metric that gains least


def best_division(
    plan: Plan, devices: int, confidence: float = 0.95, rounds: int | None = None
) -> Division | None:
    """
    The division of a plan that is best for the metric that gains least; None: it has one already, or none is better.

    Every epsilon is multiplied by the same number, so that a constant device loses no more than before. No epsilon is
    above what devices take by default. `rounds` is the length of any two histories, as for `privacy_card`. Sampled
    answers are not divided here: their draws are fresh in each window.
    """
    count = len(plan.metrics)
    if plan.answers.sampled or plan.asked < count or count < 2 or not plan.text:
        return None
    before = {metric.name: expected_half_width(metric, devices, confidence) for metric in plan.metrics}
    total = Fraction(privacy_card(plan, 1).constant)
    ordered = sorted((metric.mechanism.epsilon for metric in plan.metrics), reverse=True)
    most = Policy().max_epsilon
    found: list[Division] = []
    for asked in {1, *_near(total / BEST_EPSILON, count), *_near(total / Fraction(most or 1), count)}:
        times = total / sum(ordered[:asked])
        if most is not None and _rounded_down(ordered[0] * times) > most:
            continue
        divided = _divided(plan, asked, times)
        answering = max(1, devices * asked // count)
        after = {
            metric.name: expected_half_width(metric, answering, confidence) for metric in divided.metrics
        }
        found.append(
            Division(
                metrics=asked,
                times=float(times),
                epsilons={metric.name: float(metric.mechanism.epsilon) for metric in divided.metrics},
                loss=privacy_card(divided, rounds).loss,
                half_widths=after,
                narrower=min(before[name] / after[name] for name in before),
            )
        )
    best = max(found, key=lambda one: one.narrower, default=None)
    return best if best is not None and best.narrower > 1 else None


def _near(number: Fraction, count: int) -> set[int]:
    """The whole numbers beside a number, at least 1 and less than `count`."""
    return {asked for asked in (floor(number), floor(number) + 1) if 1 <= asked < count}


def _divided(plan: Plan, asked: int, times: Fraction) -> Plan:
    content = content_of(plan.text)
    for metric in plan.metrics:
        content["metrics"][metric.name]["epsilon"] = str(_rounded_down(metric.mechanism.epsilon * times))
    content["answers"] = {"metrics": asked}
    return Plan(**fields_of(content))


def _rounded_down(epsilon: Fraction) -> Fraction:
    return Fraction(floor(epsilon * DIGITS), DIGITS) if epsilon * DIGITS >= 1 else epsilon
