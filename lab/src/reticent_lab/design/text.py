"""A plan as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reticent_lab.design.question import Figure


def metric_text(
    figure: Figure,
    top: Fraction,
    edges: Sequence[Fraction],
    settings: dict[str, str | int],
    epsilon: Fraction,
    flip: Fraction | None,
) -> str:
    """The table of a metric."""
    lines = [f"[metrics.{figure.name}]", f'kind = "{figure.kind}"']
    if figure.unit:
        lines.append(f"unit = {json.dumps(figure.unit, ensure_ascii=False)}")
    if figure.kind == "mean":
        lines.append(f"max_value = {toml_number(top)}")
    elif edges:
        lines.append(f"edges = [{', '.join(map(toml_number, edges))}]")
    elif figure.labels:
        lines.append(f"labels = {json.dumps(figure.labels, ensure_ascii=False)}")
    lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    lines.append(f"epsilon = {toml_number(epsilon)}")
    if flip is not None:
        lines.append(f"flip = {toml_number(flip)}")
    return "\n".join(lines) + "\n"


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
