"""A design as a section of plan.toml, and as the smallest plan there is around it."""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from fractions import Fraction

from reticent.lab.design.choice import Choice


def section(choice: Choice) -> str:
    """
    The `[metrics.NAME]` table of the chosen design.

    >>> from reticent.lab.design import Wish, choose
    >>> wish = Wish(max_value="0.5", devices=1000, epsilon=1, name="load", unit="share")
    >>> print(section(choose(wish)), end="")
    [metrics.load]
    kind = "mean"
    unit = "share"
    max_value = 0.5
    epsilon = 1
    flip = 0.2
    """
    metric = choice.chosen.metric
    lines = [f"[metrics.{metric.name}]", f'kind = "{metric.kind}"']
    if metric.unit:
        lines.append(f"unit = {json.dumps(metric.unit, ensure_ascii=False)}")
    lines.append(f"max_value = {toml_number(choice.wish.max_value)}")
    if choice.wish.buckets is not None:
        lines.append(f"buckets = {choice.wish.buckets}")
    lines += [f"{key} = {json.dumps(value)}" for key, value in metric.mechanism.settings.items()]
    lines += [f"epsilon = {toml_number(choice.chosen.epsilon)}", f"flip = {toml_number(choice.chosen.flip)}"]
    return "\n".join(lines) + "\n"


def plan_text(choice: Choice) -> str:
    """A whole plan of one metric, which `reticent plan check` reads as it is; rounds of a day, to be changed."""
    name = choice.chosen.metric.name
    return (
        "# Made by reticent design. A whole plan, so that it can be checked:\n"
        f"#   {check_command(choice, f'{file_name(choice)}.toml')}\n"
        "# Name an owner and a day of expiry, or copy the metric into a plan of your own.\n\n"
        f'[plan]\nname = "{name}"\nversion = 1\nround = "1d"\n\n{section(choice)}'
    )


def file_name(choice: Choice) -> str:
    """What the files of a design are called, without their endings."""
    return f"{choice.wish.name}-design"


def check_command(choice: Choice, path: str) -> str:
    """The command that prints the figures of a design once more, from its plan."""
    wish = choice.wish
    confidence = "" if wish.confidence == 0.95 else f" --confidence {wish.confidence:g}"
    return f"reticent plan check {path} --devices {wish.reports}{confidence}"


def toml_number(number: Fraction) -> str:
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
