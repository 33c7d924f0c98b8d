"""A design as a section of plan.toml, and as the smallest plan there is around it."""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from fractions import Fraction
from shlex import quote

from reticent.plan.card import duration
from reticent_lab.design.choice import Choice


def section(choice: Choice, every: bool = False) -> str:
    """
    The `[metrics.NAME]` table of the chosen design, after the `[answers]` of a plan with sampled answers.

    Where a plan has several such metrics, that of the first, or of `every` one.

    >>> from reticent_lab.design import Goal, choose
    >>> goal = Goal(max_value="0.5", devices=1000, epsilon=1, name="load", unit="share")
    >>> print(section(choose(goal)), end="")
    [metrics.load]
    kind = "mean"
    unit = "share"
    max_value = 0.5
    epsilon = 1
    flip = 0.2
    """
    goal = choice.goal
    plan = choice.chosen.plan
    lines = []
    if plan.answers.sampled:
        window = duration(plan.answers.window * plan.round_seconds)
        lines += ["[answers]", 'kind = "sampled"', f'window = "{window}"']
        lines += [f"metrics = {plan.answers.metrics}"] * (plan.asked < len(plan.metrics)) + [""]
    for metric in plan.metrics if every else plan.metrics[:1]:
        lines += [f"[metrics.{metric.name}]", f'kind = "{metric.kind}"']
        if metric.unit:
            lines.append(f"unit = {json.dumps(metric.unit, ensure_ascii=False)}")
        if goal.labels:
            lines.append(f"labels = {json.dumps(goal.labels, ensure_ascii=False)}")
        elif goal.edges:
            lines.append(f"edges = [{', '.join(map(toml_number, goal.edges))}]")
        elif not goal.flag:
            lines.append(f"max_value = {toml_number(goal.max_value)}")
            lines += [f"buckets = {goal.buckets}"] * (goal.buckets is not None)
        lines += [f"{key} = {json.dumps(value)}" for key, value in metric.mechanism.settings.items()]
        lines.append(f"epsilon = {toml_number(choice.chosen.epsilon)}")
        if not goal.sampled:
            lines.append(f"flip = {toml_number(choice.chosen.flip)}")
        lines.append("")
    return "\n".join(lines)


def plan_text(choice: Choice) -> str:
    """A whole plan, which `reticent plan check` reads as it is."""
    plan = choice.chosen.plan
    return (
        "# Made by reticent design. A whole plan, so that it can be checked:\n"
        f"#   {check_command(choice, f'{plan.name}-design.toml')}\n"
        "# Name an owner and a day of expiry, or copy the metric into a plan of your own.\n\n"
        f'[plan]\nname = "{plan.name}"\nversion = 1\nround = "{duration(plan.round_seconds)}"\n\n'
        f"{section(choice, every=True)}"
    )


def check_command(choice: Choice, path: str) -> str:
    """The command that prints the figures of a design once more, from its plan."""
    goal = choice.goal
    confidence = "" if goal.confidence == 0.95 else f" --confidence {goal.confidence:g}"
    return f"reticent plan check {quote(path)} --devices {goal.reports}{confidence}"


def toml_number(number: Fraction | int) -> str:
    """
    A rational as a plan may have it: exactly, as a decimal where it is one.

    >>> [toml_number(Fraction(text)) for text in ("21600", "0.001", "1/3")]
    ['21600', '0.001', '"1/3"']
    """
    if number.denominator == 1:
        return str(number.numerator)
    with localcontext() as context:
        context.prec = 100
        shown = Decimal(number.numerator) / Decimal(number.denominator)
    return f"{shown:f}" if Fraction(shown) == number else f'"{number}"'
