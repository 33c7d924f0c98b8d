"""A plan as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
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
    elif figure.kind == "split":
        lines.append(f"max_value = {toml_number(top)}")
        lines.append(f"labels = {json.dumps(figure.labels, ensure_ascii=False)}")
    elif edges:
        lines.append(f"edges = [{', '.join(map(toml_number, edges))}]")
    elif figure.labels:
        lines.append(f"labels = {json.dumps(figure.labels, ensure_ascii=False)}")
    lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    lines.append(f"epsilon = {toml_number(epsilon)}")
    if flip is not None:
        lines.append(f"flip = {toml_number(flip)}")
    return "\n".join(lines) + "\n"


def means_text(
    figure: Figure,
    top: Fraction,
    edges: Sequence[Fraction],
    settings: dict[str, str | int],
    epsilon: Fraction,
    flip: Fraction | None,
) -> str:
    """The tables of a split that is asked as a mean for each label, whose sum is limited."""
    names = [f"{figure.name}_{number}" for number in range(1, len(figure.labels) + 1)]
    tables = []
    for name, label in zip(names, figure.labels, strict=True):
        mean = replace(figure, name=name, kind="mean", labels=())
        said = f"description = {json.dumps(label, ensure_ascii=False)}\n"
        tables.append(metric_text(mean, top, edges, settings, epsilon, flip) + said)
    limit = f"[groups.{figure.name}]\nmetrics = {json.dumps(names)}\nmax_total = {toml_number(top)}\n"
    return "\n".join([*tables, limit])


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
