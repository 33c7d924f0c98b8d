"""The trade-off as a picture: half-width against the loss behind the promise, the goal and the choice in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from reticent.plan.card import duration
from reticent.privacy import CLAIMS, printed
from reticent_collector.plots import COLOURS, MARKERS, drawing, panels
from reticent_lab.design.alternatives import MOST_BITS
from reticent_lab.design.choice import EPSILONS, Candidate, Choice, candidates, half_width
from reticent_lab.design.goal import DAY, Goal
from reticent_lab.design.ranges import Range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLIPS = tuple(Fraction(flip) for flip in ("0", "0.1", "0.2", "0.3", "0.4"))
WINDOWS = tuple(days * DAY for days in (1, 7, 28, 91, 364))
POINTS = 25
REACH = 8  # The picture shows from an eighth to eight times the loss of the design that was chosen


@dataclass(frozen=True, slots=True)
class Curve:
    """Half-widths of one candidate by the loss behind the promise (of a year, if sampled), as epsilon grows."""

    label: str
    losses: tuple[float, ...]
    half_widths: tuple[float, ...]
    dashed: bool = False


def curves(choice: Choice) -> Iterator[Curve]:
    """What is compared: flips of a mean, or its windows; mechanisms of a histogram."""
    chosen, goal = choice.chosen, choice.goal
    if goal.buckets is None and goal.sampled:
        seconds = {window for window in WINDOWS if not window % goal.round_seconds}
        for window in sorted({*seconds, goal.answers.window * goal.round_seconds}):
            other = goal.in_windows(window // goal.round_seconds, chosen.epsilon)
            yield _curve(choice, chosen.candidate, chosen.flip, f"window {duration(window)}", goal=other)
        return
    if goal.buckets is None:
        for flip in sorted({*FLIPS, chosen.flip}):
            yield _curve(choice, chosen.candidate, flip, f"flip {float(flip):g}")
        return
    for candidate in candidates(goal):
        flip_of_own = candidate.flip(goal)
        few = candidate.bits <= MOST_BITS or candidate == chosen.candidate
        if flip_of_own is not None and few:
            several = f", {candidate.bits} bit{'s' * (candidate.bits > 1)}"
            name = candidate.mechanism + (several if candidate.mechanism == "d-bit-flip" else "")
            label = name if goal.sampled else f"{name}, flip {float(flip_of_own):g}"
            yield _curve(choice, candidate, flip_of_own, label)
    if chosen.flip:
        yield _curve(choice, chosen.candidate, Fraction(0), "the chosen one without flips", True)


@drawing
def draw(choice: Choice, ranges: tuple[Range, ...] = ()) -> Figure:
    """Half-width against loss, on logarithmic scales; and below it what other ranges of recorded values cost."""
    figure, (axes, *below) = panels(rows=1 + bool(ranges), width=7.2, height=4.2)
    drawn = [curve for curve in curves(choice) if curve.losses]
    for place, curve in enumerate(drawn):
        axes.plot(
            curve.losses, curve.half_widths, "--" if curve.dashed else "-", label=curve.label, markevery=6,
            color=COLOURS[place % len(COLOURS)], marker=MARKERS[place % len(MARKERS)],
        )  # fmt: skip
    goal, chosen = choice.goal, choice.chosen
    unit = (goal.unit or "in the counter's unit") if goal.buckets is None else "share of devices in a bucket"
    of = "" if goal.period_name == "a round" else f" of {goal.period_name}"
    height = f"{goal.confidence * 100:g} % half-width{of} ({unit})"
    claim = CLAIMS["any_history" if goal.sampled else "lifetime"]
    loss = f"{claim.title}{', 1 year' * goal.sampled}: loss (epsilon)"
    axes.set(xscale="log", yscale="log", xlabel=loss, ylabel=height)
    _mark_goal(axes, goal)
    axes.plot(
        [chosen.loss * _windows(goal)], [chosen.half_width], "ko", fillstyle="none", markersize=9, zorder=5,
        label=f"{'chosen' if choice.met else 'nearest'}: epsilon {printed(float(chosen.epsilon))}",
    )  # fmt: skip
    parts = f" in {goal.segments} segments of {goal.reports:,}" if goal.segments > 1 else ""
    axes.set_title(f"{goal.name}: {goal.kind} from {goal.devices:,} devices{parts}", fontsize=10)
    if below:
        _draw_ranges(below[0], choice, ranges)
    for panel in (axes, *below):
        _scaled(panel)
        panel.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
    return figure


def _scaled(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _draw_ranges(axes: Axes, choice: Choice, ranges: tuple[Range, ...]) -> None:
    unit = choice.goal.unit or "in the counter's unit"
    tops = [float(tried.max_value) for tried in ranges]
    errors = [tried.rmse for tried in ranges]
    lines = {
        "error": errors,
        "clipping": [tried.bias for tried in ranges],
        "noise": [tried.noise for tried in ranges],
    }
    for place, (label, heights) in enumerate(lines.items()):
        style = "--" if place else "-"
        axes.plot(tops, heights, style, label=label, color=COLOURS[place], marker=MARKERS[place])
    axes.axvline(float(choice.goal.max_value), color="#333333", linewidth=1, linestyle=":", label="chosen")
    axes.set(xscale="log", yscale="log", xlabel=f"range ({unit})", ylabel=f"root mean square error ({unit})")
    axes.set_ylim(min(errors) / 10, max(errors) * 1.5)


def _windows(goal: Goal) -> int:
    """How many times the loss of one promise a curve shows: once, or once for each window that a year touches."""
    return goal.answers.windows_touched(goal.rounds) if goal.sampled else 1


def _curve(
    choice: Choice,
    candidate: Candidate,
    flip: Fraction,
    label: str,
    dashed: bool = False,
    goal: Goal | None = None,
) -> Curve:
    goal = goal or choice.goal
    middle = Fraction(choice.chosen.loss) * _windows(choice.goal) / _windows(goal)
    low = candidate.most_epsilon(goal, middle / REACH) or EPSILONS[0]
    high = candidate.most_epsilon(goal, middle * REACH)
    if high is None or high <= low:
        return Curve(label, (), ())
    ratio = float(high / low) ** (1 / (POINTS - 1))
    epsilons = [*(Fraction(float(low) * ratio**place) for place in range(POINTS - 1)), high]
    return Curve(
        label,
        tuple(candidate.loss(goal, epsilon) * _windows(goal) for epsilon in epsilons),
        tuple(half_width(goal, candidate.metric(goal, epsilon, flip)) for epsilon in epsilons),
        dashed,
    )


def _mark_goal(axes: Axes, goal: Goal) -> None:
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    limited = any(limit is not None for limit in (goal.epsilon, goal.lifetime, goal.year))
    limit = float(goal.limit * _windows(goal)) if limited else right
    wanted = top if goal.half_width is None else float(goal.half_width)
    left, bottom = min(left, limit / 2), min(bottom, wanted / 2)
    axes.set(xlim=(left, max(right, limit)), ylim=(bottom, max(top, wanted)))
    axes.fill_between(
        [left, limit], bottom, wanted, color="#888888", alpha=0.15, linewidth=0, label="the goal"
    )
    if goal.half_width is not None:
        axes.axhline(wanted, color="#333333", linewidth=1, linestyle=":")
    if limited:
        axes.axvline(limit, color="#333333", linewidth=1, linestyle=":")
