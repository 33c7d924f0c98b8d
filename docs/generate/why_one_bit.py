"""
The picture of how-it-works.md: n·Var of a light bucket against the number of buckets, by reticent's own formulas.

    python docs/generate/why_one_bit.py             writes docs/images/why-one-bit.svg
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from reticent.mechanisms import Buckets, DBitFlip, HadamardBit
from reticent.plan import Metric
from reticent_collector.estimates import expected_variance

PICTURE = Path(__file__).resolve().parents[1] / "images" / "why-one-bit.svg"
SIZES = [4, 8, 16, 32, 64, 128]
EPSILON = 1

LINES: list[tuple[str, str, Callable[[Buckets], DBitFlip | HadamardBit]]] = [
    ("1 bit as printed (ε)", "#8b97a3", lambda buckets: DBitFlip(EPSILON, buckets, 1, "paper")),
    ("4 bits (4ε)", "#b84a00", lambda buckets: DBitFlip(EPSILON, buckets, 4)),
    ("1 bit, tight (2ε)", "#7a4fb0", lambda buckets: DBitFlip(EPSILON, buckets, 1)),
    ("a bit per bucket (kε)", "#2a8a57", lambda buckets: DBitFlip(EPSILON, buckets, len(buckets))),
    ("Hadamard bit (2ε)", "#0066b0", lambda buckets: HadamardBit(EPSILON, buckets)),
]


def noise(mechanism: DBitFlip | HadamardBit) -> float:
    """n·Var of the estimate of a bucket that hardly anyone is in."""
    return 1000 * expected_variance(Metric("spread", mechanism), devices=1000, at=0)


def picture() -> Figure:
    """One line per mechanism; the name says the same-pattern loss at ε = 1."""
    figure = Figure(figsize=(7.6, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, colour, make in LINES:
        values = [noise(make(Buckets.even(24, size))) for size in SIZES]
        axes.plot(
            SIZES, values, color=colour, marker="o", markersize=4, linewidth=2.4 if "Had" in name else 1.6
        )
        above = {"1 bit, tight (2ε)": -9, "4 bits (4ε)": 8, "Hadamard bit (2ε)": 7}.get(name, -7)
        axes.annotate(
            name, (SIZES[-1], values[-1]), (8, above), textcoords="offset points", color=colour, va="center"
        )
    axes.set(
        xscale="log", yscale="log", xlim=(3.6, 420), xlabel="buckets, k", ylabel="n · Var of a light bucket"
    )
    axes.set_xticks(SIZES, [str(size) for size in SIZES], minor=False)
    axes.set_yticks([10, 100], ["10", "100"], minor=False)
    axes.minorticks_off()
    axes.grid(axis="y", color="#d5dbe1")
    axes.set_title("Noise at ε = 1; in brackets the same-pattern loss", loc="left", fontsize=11)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


if __name__ == "__main__":
    mpl.rcParams.update({"svg.hashsalt": "reticent", "font.family": "DejaVu Sans", "font.size": 10})
    picture().savefig(PICTURE, metadata={"Date": None})
