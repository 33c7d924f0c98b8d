"""Warnings about a valid plan, each with what to do instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from math import prod

from reticent.errors import Problem
from reticent.losses import printed
from reticent.plan.plan import Plan
from reticent_collector.plans.matching import plan_tracking
from reticent_collector.privacy.card import share

LARGE_EPSILON = Fraction(4)
MANY_TAGS = 50
SHORT_ROUND = 60
TRACKABLE = 0.1  # matching the reports of more than this share of devices across rounds calls for a warning
FLEET = 100_000  # devices, by default
LONG_WINDOW = 31 * 86_400
FEW_REPORTS = 10

_MEASURED = re.compile(
    r"(milli|micro|nano)seconds?|[mµun]s|percent|%|fps|.+/.+|.+ per .+|k?hertz|°?c|celsius", re.I
)
"""Units of sampled measurements (a delay, a rate, a level), in contrast to what adds up over a round."""
_OF_REMEMBERED = ("many-steps", "many-bits")
"""Rules of mechanisms about the same-pattern loss of remembered answers."""

_WORDS: Mapping[str, tuple[str, str, str]] = {
    "owner": ("owner", "is missing.", "name a contact for questions about this plan"),
    "expiry": ("expires", "is missing.", "devices answer a plan without an expiry date forever"),
    "expired": ("expires", "was {plan.expires}: devices no longer answer.", "set a new date"),
    "short-round": (
        "round",
        "is {plan.round_seconds} seconds.",
        "fine for a test; a real fleet is asked a few times a day",
    ),
    "short-grace": (
        "grace",
        "is below a quarter of the round: sends are concentrated, and devices that are off are missed.",
        "give it about a round",
    ),
    "long-window": (
        "window",
        "is above 31 days: a device answers no window that began before it was enrolled.",
        "a shorter window counts newcomers sooner",
    ),
    "single-reports": (
        "",
        "is {plan.min_reports}: readers can tell what single devices answered.",
        "100 is the default; 1 is for tests",
    ),
    "many-segments": (
        "",
        "make {tags} combinations: rare ones identify single devices, and each is estimated separately.",
        "keep fewer tags",
    ),
    "tracking": (
        "",
        "up to {matched} of {devices:,} devices can be tracked one by one by remembered answers, cohort and tags.",
        "ask about fewer metrics, raise flip, or keep fewer tags",
    ),
    "unit": ("unit", "is missing.", "name what is counted, e.g. second"),
    "zeros": (
        "absent",
        "is not set: devices without a measurement count as 0.",
        "absent = true gives them a bucket of their own",
    ),
    "large-epsilon": (
        "epsilon",
        "is {epsilon}: an answer is almost always the truth.",
        "most plans get by with 1 or less",
    ),
    "no-effect": (
        "step",
        "has no effect: a sampled answer costs and tells the same with any step.",
        "leave it out",
    ),
    "no-flip": (
        "flip",
        "is 0: a change in what a device sends proves a change in what it did.",
        "0.2 hides single changes at the price of intervals 1.7 times as wide",
    ),
    "no-limit": (
        "max_total",
        "has no effect: the metrics cannot add up to more.",
        "a joint limit only helps when it is below the sum of max_value",
    ),
    "mixed-units": ("metrics", "have different units.", "only metrics with the same unit can share a limit"),
}
"""The key, the message and the hint of each rule; rules of mechanisms bring their own."""


def lint(plan: Plan, today: date | None = None, devices: int = FLEET) -> list[Problem]:
    """Every warning about a plan that `devices` devices answer, in plan order."""
    tags = prod(len(segment.tags) for segment in plan.segments)
    seen = plan_tracking(plan, devices)
    sampled = plan.answers.sampled
    # All reports at once: at most 1.15 times as many were ever found as one by one.
    matched = min(1.25 * seen.many_rounds, seen.together)
    figures = {"plan": plan, "tags": tags, "matched": share(seen.many_rounds), "devices": devices}
    of_plan = {
        "owner": not plan.owner,
        "expiry": plan.expires is None,
        "expired": plan.expires is not None and today is not None and plan.expires <= today,
        "short-round": plan.round_seconds < SHORT_ROUND,
        "short-grace": plan.grace_seconds < plan.round_seconds // 4,
    }
    problems = _warnings("plan", of_plan, figures)
    problems += _warnings("min_reports", {"single-reports": plan.min_reports < FEW_REPORTS}, figures)
    problems += _warnings("answers", {"long-window": plan.answers.window * plan.round_seconds > LONG_WINDOW})
    problems += _warnings("segments", {"many-segments": tags > MANY_TAGS}, figures)
    problems += _warnings("plan", {"tracking": matched > TRACKABLE}, figures)
    for metric in plan.metrics:
        place = f"metrics.{metric.name}"
        mechanism = metric.mechanism
        kind = metric.kind
        of_metric = {
            "unit": not metric.unit and kind in ("mean", "histogram", "split"),
            "zeros": kind == "histogram" and not metric.absent and bool(_MEASURED.fullmatch(metric.unit)),
            "large-epsilon": mechanism.epsilon > LARGE_EPSILON,
            "no-effect": sampled and kind == "mean" and len(mechanism.points) > 2,
            "no-flip": not sampled and metric.flip.probability == 0,
        }
        problems += _warnings(place, of_metric, {"epsilon": printed(float(mechanism.epsilon))})
        problems += [
            Problem(f"{place}.{key}", rule, message, hint, "warning")
            for key, rule, message, hint in mechanism.warnings()
            if not (sampled and rule in _OF_REMEMBERED)
        ]
    for group in plan.groups:
        members = [plan.by_name[name] for name in group.metrics]
        of_group = {
            "no-limit": group.max_total >= sum(metric.max_value for metric in members),
            "mixed-units": len({metric.unit for metric in members}) > 1,
        }
        problems += _warnings(f"groups.{group.name}", of_group)
    return problems


def _warnings(
    place: str, broken: Mapping[str, bool], figures: Mapping[str, object] | None = None
) -> list[Problem]:
    problems = []
    for rule, is_broken in broken.items():
        if is_broken:
            key, message, hint = _WORDS[rule]
            where = f"{place}.{key}" if key else place
            problems.append(Problem(where, rule, message.format(**(figures or {})), hint, "warning"))
    return problems


def lint_succession(previous: Plan, plan: Plan) -> list[Problem]:
    """Problems where `plan` follows `previous`: parameters must not change under one version."""
    key = ""
    message = ""
    hint = ""
    if plan.name != previous.name:
        key = "name"
        message = f'expected "{previous.name}", the name of the earlier plan.'
    elif plan.round_seconds != previous.round_seconds:
        key = "round"
        message = f"expected {previous.round_seconds} seconds, the length of the earlier plan's rounds."
        hint = "rounds are numbered by their length; give a plan with other rounds another name"
    elif plan.version < previous.version:
        key = "version"
        message = f"expected at least {previous.version}, got {plan.version}."
    elif plan.version == previous.version and plan.fingerprint != previous.fingerprint:
        key = "version"
        message = f"what is asked has changed, but the version is still {plan.version}."
        hint = "devices refuse changed parameters under a version they hold; raise the version"
    return [Problem(f"plan.{key}", "succession", message, hint)] if key else []
