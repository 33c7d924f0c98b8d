"""
The losses of losses.md a second time: decimals of 100 digits, and every set of metrics tried.

It shares no code with reticent. `python -m spec.losses` writes losses.json.
"""

from __future__ import annotations

import json
import math
import tomllib
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

from spec import reference

FILE = Path(__file__).with_name("losses.json")
WHOLE = reference.WHOLE

HEAD = '[plan]\nname = "losses"\nversion = 1\nround = "1d"\n'
MEAN = '[metrics.{name}]\nkind = "mean"\nmax_value = {top}\nepsilon = {epsilon}\n'
FLIP = "flip = 0.2\n"
SAMPLED = '[answers]\nkind = "sampled"\nwindow = "7d"\n'


def mean(name: str, top: object = 60, epsilon: object = 1.0, more: str = FLIP) -> str:
    """The table of a mean."""
    return MEAN.format(name=name, top=top, epsilon=epsilon) + more


def histogram(name: str, more: str) -> str:
    """The table of a histogram of eight buckets."""
    return f'[metrics.{name}]\nkind = "histogram"\nmax_value = 24\nbuckets = 8\nepsilon = 0.75\n{more}\n'


def group(*names: str, limit: object) -> str:
    """A limit that some means share."""
    return f'[groups.g]\nmetrics = {json.dumps(names)}\nmax_total = "{limit}"\n'


THREE = "".join(map(mean, "abc"))
PLANS = [
    HEAD + mean("saves"),
    HEAD + mean("fine", 20, '"1/3"', 'step = 1\nflip = "1/3"\n'),
    HEAD + '[metrics.uneven]\nkind = "mean"\ngrid = [0, 1, 7.5, 60]\nepsilon = 2.25\nflip = 0.1\n',
    HEAD + "".join(
        histogram(name, f"{more}\nflip = 0.1")
        for name, more in {
            "hadamard": 'mechanism = "hadamard-bit"',
            "one": 'mechanism = "d-bit-flip"\nbits = 1',
            "paper": 'mechanism = "d-bit-flip"\nbits = 1\nvariant = "paper"',
            "three": 'mechanism = "d-bit-flip"\nbits = 3',
        }.items()
    ),
    HEAD + SAMPLED + histogram("subset", 'mechanism = "subset"\nsize = 2') + mean("b", 60, 0.5, ""),
    HEAD + THREE + group("a", "b", "c", limit=60),
    HEAD + THREE + group("a", "b", "c", limit="95/2") + mean("d", 60, 0.25),
    HEAD + mean("a") + mean("b", 30) + mean("c", 60, 0.5) + group("a", "b", "c", limit=60),
    HEAD + "[answers]\nmetrics = 2\n" + THREE + mean("d", 60, 1.5) + group("a", "b", "c", limit=20),
    HEAD + SAMPLED + "metrics = 2\n" + "".join(mean(name, 60, 1, "") for name in "abc") + group("a", "b", limit=60),
]  # fmt: skip


def up(number: Decimal | Fraction) -> float:
    """The least double that is not below a number; no figure here is within 1e-50 of a double that it is not."""
    exact = Fraction(number)
    nearest = float(exact)
    if abs(Fraction(nearest) - exact) < Fraction(1, 10**50):
        return nearest
    return nearest if nearest > exact else math.nextafter(nearest, math.inf)


def ln(ratio: Fraction) -> Decimal:
    """The logarithm."""
    return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()


def ratio(metric: dict[str, Any], flip: int) -> Fraction:
    """How much likelier one answer can be than another."""
    if "inside" in metric:
        return Fraction(metric["inside"], metric["outside"])
    low, high = metric["low"], WHOLE - metric["low"]
    return Fraction(high * (WHOLE - flip) + low * flip, low * (WHOLE - flip) + high * flip)


def differing(metric: dict[str, Any], width: int) -> int:
    """How many remembered bits can differ."""
    if "variant" not in metric:
        return width
    return 2 * min(width, metric["bits"]) if metric["bits"] > 1 else min(width, 2)


def classes(metric: dict[str, Any]) -> int:
    """How many answers can be remembered."""
    if "points" in metric:
        return len(metric["points"])
    buckets = len(metric["edges"]) - 1
    if "inside" in metric:
        return buckets
    if "variant" not in metric:
        return 2
    return buckets if metric["variant"] == "paper" or metric["bits"] == buckets else int(metric["bits"]) + 1


def of_width(metric: dict[str, Any], width: int) -> Decimal:
    """Of a pattern of so many answers."""
    if "points" not in metric:
        return differing(metric, width) * ln(ratio(metric, 0))
    top = metric["points"][-1]
    ones = [metric["low"] + int(point * (WHOLE - 2 * metric["low"]) / top) for point in metric["points"]]
    odds = sorted(max(Fraction(one, WHOLE - one), Fraction(WHOLE - one, one)) for one in ones)
    return sum(map(ln, odds[-width:]), Decimal(0))


def joint(members: list[dict[str, Any]], limit: Fraction) -> Decimal:
    """Of a group."""
    kinds = {(metric["points"][-1], ratio(metric, metric["flip"])) for metric in members}
    if len(kinds) > 1:
        return sum((ln(r) for _, r in ((0, ratio(metric, metric["flip"])) for metric in members)), Decimal(0))
    [(top, r)] = kinds
    share, count = limit / top, len(members)
    found = []
    for ones in range(count + 1):
        heaped = min(share, Fraction(count - ones))
        whole = heaped.numerator // heaped.denominator
        loss = whole * ln(r) - ln(1 - (heaped - whole) * (1 - 1 / r))
        if ones:
            loss += ones * ln(1 + min(share, Fraction(ones)) * (r - 1) / ones)
        found.append(loss)
    return max(found)


def figures(text: str) -> dict[str, Any]:
    """All figures of a plan."""
    toml = tomllib.loads(text)
    sampled = reference.is_sampled(toml)
    shapes = {
        name: reference.shape(toml["plan"]["name"], name, table, sampled)
        for name, table in toml["metrics"].items()
    }
    single = {
        name: differing(metric, 1) * ln(ratio(metric, metric["flip"])) for name, metric in shapes.items()
    }
    groups = [(one["metrics"], reference.number(one["max_total"])) for one in toml.get("groups", {}).values()]
    asked = toml.get("answers", {}).get("metrics", len(shapes))

    def of_set(chosen: tuple[str, ...]) -> Decimal:
        grouped = {name for names, _ in groups for name in names}
        loss = sum((single[name] for name in chosen if name not in grouped), Decimal(0))
        for names, limit in groups:
            together = sum((single[name] for name in chosen if name in names), Decimal(0))
            loss += min(together, joint([shapes[name] for name in names], limit))
        return loss

    metrics = {}
    for name, metric in shapes.items():
        parts = 2 if metric.get("variant") == "paper" else differing(metric, 1)
        widths = [up(of_width(metric, width)) for width in range(1, classes(metric) + 1)]
        metrics[name] = {
            "epsilon": up(parts * ln(ratio(metric, 0))),
            "round": up(single[name]),
            "widths": widths,
        }
    lifetimes = sorted((one["widths"][-1] for one in metrics.values()), reverse=True)
    return {
        "plan": text,
        "metrics": metrics,
        "report": up(max(map(of_set, combinations(shapes, asked)))),
        "lifetime": 0.0 if sampled else up(sum(map(Fraction, lifetimes[:asked]), Fraction(0))),
    }


def text() -> str:
    """What the file holds."""
    with localcontext(Context(prec=100)):
        return json.dumps(list(map(figures, PLANS)), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
