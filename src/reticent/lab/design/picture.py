"""The trade-off as a picture: half-width against same-pattern loss, the wish and the choice in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from reticent.lab.design.alternatives import MOST_BITS
from reticent.lab.design.choice import EPSILONS, Candidate, Choice, candidates, half_width
from reticent.lab.design.wish import Wish
from reticent.plots import COLOURS, MARKERS, drawing, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLIPS = tuple(Fraction(flip) for flip in ("0", "0.1", "0.2", "0.3", "0.4"))
POINTS = 25
REACH = 8
"""The picture shows from an eighth to eight times the loss of the design that was chosen."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Half-widths of one candidate by its same-pattern loss, as epsilon grows."""

    label: str
    lifetimes: tuple[float, ...]
    half_widths: tuple[float, ...]
    dashed: bool = False


def curves(choice: Choice) -> Iterator[Curve]:
    """
    What is compared: flips and steps of a mean, mechanisms of a histogram.

    The paper's dBitFlip of one bit is left out: on these axes it lies on the tight one.
    """
    chosen, wish = choice.chosen, choice.wish
    if wish.buckets is None:
        for flip in sorted({*FLIPS, chosen.flip}):
            yield _curve(choice, chosen.candidate, flip, f"flip {float(flip):g}")
        finer = candidates(wish)[-1]
        yield _curve(choice, finer, chosen.flip, f"flip {float(chosen.flip):g}, {finer.steps} steps", True)
        return
    for candidate in candidates(wish):
        flip_of_own = candidate.flip(wish)
        few = candidate.bits <= MOST_BITS or candidate == chosen.candidate
        if flip_of_own is not None and few and not candidate.for_comparison:
            several = f", {candidate.bits} bit{'s' * (candidate.bits > 1)}"
            name = candidate.mechanism + (several if candidate.mechanism == "d-bit-flip" else "")
            yield _curve(choice, candidate, flip_of_own, f"{name}, flip {float(flip_of_own):g}")
    if chosen.flip:
        yield _curve(choice, chosen.candidate, Fraction(0), "the chosen one without flips", True)


@drawing
def draw(choice: Choice) -> Figure:
    """Half-width against same-pattern loss, on logarithmic scales."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    figure, (axes,) = panels(width=7.2, height=4.2)
    drawn = [curve for curve in curves(choice) if curve.lifetimes]
    for place, curve in enumerate(drawn):
        axes.plot(
            curve.lifetimes,
            curve.half_widths,
            color=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            markevery=6,
            markersize=4,
            linewidth=1.4,
            linestyle="--" if curve.dashed else "-",
            label=curve.label,
        )
    wish, chosen = choice.wish, choice.chosen
    unit = (wish.unit or "in the counter's unit") if wish.buckets is None else "share of devices in a bucket"
    height = f"{wish.confidence * 100:g} % half-width ({unit})"
    axes.set(xscale="log", yscale="log", xlabel="same-pattern loss (epsilon)", ylabel=height)
    _mark_wish(axes, wish)
    axes.plot(
        [chosen.losses.lifetime],
        [chosen.half_width],
        color="#000000",
        marker="o",
        markersize=9,
        markerfacecolor="none",
        markeredgewidth=1.8,
        linestyle="none",
        label=f"{'chosen' if choice.met else 'nearest'}: epsilon {float(chosen.epsilon):g}",
        zorder=5,
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    parts = f" in {wish.segments} segments of {wish.reports:,}" if wish.segments > 1 else ""
    axes.set_title(f"{wish.name}: {wish.kind} from {wish.devices:,} devices{parts}", fontsize=10)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
    return figure


def _curve(choice: Choice, candidate: Candidate, flip: Fraction, label: str, dashed: bool = False) -> Curve:
    wish, middle = choice.wish, Fraction(choice.chosen.losses.lifetime)
    low = candidate.most_epsilon(wish, middle / REACH) or EPSILONS[0]
    high = candidate.most_epsilon(wish, middle * REACH)
    if high is None or high <= low:
        return Curve(label, (), ())
    ratio = float(high / low) ** (1 / (POINTS - 1))
    epsilons = [*(Fraction(float(low) * ratio**place) for place in range(POINTS - 1)), high]
    return Curve(
        label,
        tuple(candidate.lifetime(wish, epsilon) for epsilon in epsilons),
        tuple(half_width(wish, candidate.metric(wish, epsilon, flip)) for epsilon in epsilons),
        dashed,
    )


def _mark_wish(axes: Axes, wish: Wish) -> None:
    """A cross-hair: the half-width wanted, the loss allowed, and grey where both are met."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    limited = wish.epsilon is not None or wish.lifetime is not None
    limit = float(wish.limit) if limited else right
    wanted = top if wish.half_width is None else float(wish.half_width)
    left, right, bottom, top = (
        min(left, limit / 2),
        max(right, limit),
        min(bottom, wanted / 2),
        max(top, wanted),
    )
    axes.set(xlim=(left, right), ylim=(bottom, top))
    axes.fill_between(
        [left, limit], bottom, wanted, color="#888888", alpha=0.15, linewidth=0, label="the wish"
    )
    if wish.half_width is not None:
        axes.axhline(wanted, color="#333333", linewidth=1, linestyle=":")
    if limited:
        axes.axvline(limit, color="#333333", linewidth=1, linestyle=":")
