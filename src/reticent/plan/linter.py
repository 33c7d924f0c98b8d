"""What is unwise in a plan that can be read: warnings, each with what to do instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from math import prod

from reticent.errors import Problem
from reticent.plan.card import plan_tracking, share
from reticent.plan.metric import Group, Metric
from reticent.plan.plan import Plan

LARGE_EPSILON = Fraction(4)
MANY_TAGS = 50
SHORT_ROUND = 60
TRACKABLE = 0.1
"""Matching the reports of more than this share of devices across rounds calls for a warning."""
FLEET = 100_000
"""Devices, where nobody says how many there are."""
LONG_WINDOW = 31 * 86_400


_MEASURED = re.compile(
    r"(milli|micro|nano)seconds?|[mµun]s|percent|%|fps|.+/.+|.+ per .+|k?hertz|°?c|celsius", re.I
)
"""Units of what is measured now and then (a delay, a rate, a level), in contrast to what adds up over a round."""
_OF_REMEMBERED = ("many-steps", "many-bits")
"""Rules of mechanisms about the same-pattern loss of remembered answers."""


def lint(plan: Plan, today: date | None = None, devices: int = FLEET) -> list[Problem]:
    """Every warning about a plan that so many devices answer, in the order of the plan."""
    problems = [*_of_plan(plan, today), *_of_tracking(plan, devices)]
    for metric in plan.metrics:
        problems += _of_metric(metric, plan.answers.sampled)
    for group in plan.groups:
        problems += _of_group(plan, group)
    return problems


def lint_succession(previous: Plan, plan: Plan) -> list[Problem]:
    """What breaks when `plan` follows `previous`: parameters must not change under one version."""
    if plan.name != previous.name:
        return [
            Problem("plan.name", "succession", f'expected "{previous.name}", the name of the earlier plan.')
        ]
    if plan.round_seconds != previous.round_seconds:
        return [
            Problem(
                "plan.round",
                "succession",
                f"expected {previous.round_seconds} seconds, the length of the earlier plan's rounds.",
                "rounds are numbered by their length; give a plan with other rounds another name",
            )
        ]
    if plan.version < previous.version:
        return [
            Problem(
                "plan.version", "succession", f"expected at least {previous.version}, got {plan.version}."
            )
        ]
    if plan.version == previous.version and plan.fingerprint != previous.fingerprint:
        return [
            Problem(
                "plan.version",
                "succession",
                f"what is asked has changed, but the version is still {plan.version}.",
                "devices refuse changed parameters under a version they hold; raise the version",
            )
        ]
    return []


def _warning(where: str, rule: str, message: str, hint: str) -> Problem:
    return Problem(where, rule, message, hint, "warning")


def _of_plan(plan: Plan, today: date | None) -> Iterator[Problem]:
    if not plan.owner:
        yield _warning(
            "plan.owner", "owner", "is missing.", "name somebody who answers questions about this plan"
        )
    if plan.expires is None:
        yield _warning("plan.expires", "expiry", "is missing.", "a plan without an end is asked for ever")
    elif today is not None and plan.expires <= today:
        yield _warning(
            "plan.expires", "expired", f"was {plan.expires}: devices no longer answer.", "set a new date"
        )
    if plan.round_seconds < SHORT_ROUND:
        yield _warning(
            "plan.round",
            "short-round",
            f"is {plan.round_seconds} seconds.",
            "fine for a test; a real fleet is asked a few times a day",
        )
    if plan.grace_seconds < plan.round_seconds // 4:
        yield _warning(
            "plan.grace",
            "short-grace",
            "is below a quarter of the round: sends crowd together, and devices that are off are missed.",
            "give it about a round",
        )
    if plan.answers.window * plan.round_seconds > LONG_WINDOW:
        yield _warning(
            "answers.window",
            "long-window",
            "is above 31 days: a device answers no window that began before it was enrolled.",
            "a shorter window counts newcomers sooner",
        )
    tags = prod(len(segment.tags) for segment in plan.segments)
    if tags > MANY_TAGS:
        yield _warning(
            "segments",
            "many-segments",
            f"make {tags} combinations: rare ones single devices out, and each is estimated apart.",
            "keep fewer tags",
        )


def _of_tracking(plan: Plan, devices: int) -> Iterator[Problem]:
    matched = plan_tracking(plan, devices)
    if matched.many_rounds > TRACKABLE:
        yield _warning(
            "plan",
            "tracking",
            f"up to {share(matched.many_rounds)} of {devices:,} devices can be tracked by their remembered answers, "
            "cohort and tags alone.",
            "ask about fewer metrics, raise flip, or keep fewer tags",
        )


def _of_metric(metric: Metric, sampled: bool) -> Iterator[Problem]:
    where = f"metrics.{metric.name}"
    if not metric.unit and metric.kind in ("mean", "histogram"):
        yield _warning(f"{where}.unit", "unit", "is missing.", "say what is counted, e.g. second")
    if metric.kind == "histogram" and not metric.absent and _MEASURED.fullmatch(metric.unit):
        yield _warning(
            f"{where}.absent",
            "zeros",
            "is not set: devices that measured nothing count as 0, among those that did.",
            "absent = true gives them a bucket of their own",
        )
    if metric.mechanism.epsilon > LARGE_EPSILON:
        yield _warning(
            f"{where}.epsilon",
            "large-epsilon",
            f"is {float(metric.mechanism.epsilon):g}: an answer is almost the truth.",
            "most plans get by with 1 or less",
        )
    if sampled and metric.kind == "mean" and len(metric.mechanism.points) > 2:
        yield _warning(
            f"{where}.step",
            "no-effect",
            "has no effect: a sampled answer costs and tells the same with any step.",
            "leave it out",
        )
    if not sampled and metric.flip.probability == 0:
        yield _warning(
            f"{where}.flip",
            "no-flip",
            "is 0: a change in what a device sends proves a change in what it did.",
            "0.2 hides single changes at the price of intervals 1.7 times as wide",
        )
    for key, rule, message, hint in metric.mechanism.warnings():
        if not (sampled and rule in _OF_REMEMBERED):
            yield _warning(f"{where}.{key}", rule, message, hint)


def _of_group(plan: Plan, group: Group) -> Iterator[Problem]:
    where = f"groups.{group.name}"
    members = [plan.by_name[name] for name in group.metrics]
    if group.max_total >= sum(metric.max_value for metric in members):
        yield _warning(
            f"{where}.max_total",
            "no-limit",
            "is no limit: the metrics cannot add up to more anyway.",
            "a joint limit only helps when it is below the sum of max_value",
        )
    if len({metric.unit for metric in members}) > 1:
        yield _warning(
            f"{where}.metrics", "mixed-units", "have different units.", "only like can share a limit"
        )
