"""Pictures of a simulation: estimates beside the truth, and what people would give away."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.losses import printed
from reticent_collector.estimates import clopper_pearson
from reticent_collector.plots import COLOURS, drawing, panels
from reticent_lab.simulate.simulation import MetricEstimates, People, Simulation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ESTIMATE, _TRUTH = COLOURS[0], COLOURS[1]


def pictures(simulation: Simulation) -> dict[str, Callable[[], Figure]]:
    """What can be drawn, by name: the estimates of each metric, and its people where answers are remembered."""
    drawn: dict[str, Callable[[], Figure]] = {}
    for name, estimates in simulation.metrics.items():
        drawn[f"{name}-estimates"] = partial(_estimates, simulation, estimates)
        if name in simulation.people:
            drawn[f"{name}-people"] = partial(_people, simulation.people[name])
    return drawn


@drawing
def _estimates(simulation: Simulation, estimates: MetricEstimates) -> Figure:
    from matplotlib.ticker import MaxNLocator

    figure, (left, right) = panels(2, width=5.0)
    if estimates.truth.shape[1] == 1:
        _mean_over_rounds(left, estimates)
    else:
        _last_histogram(left, estimates)
    rounds = np.arange(1, simulation.rounds + 1)
    right.axhline(estimates.confidence, color=_TRUTH, label="nominal", zorder=1)
    low, high = clopper_pearson(estimates.inside.sum(axis=0), simulation.repetitions, 0.95)
    reach = [estimates.coverage - low, high - estimates.coverage]
    right.errorbar(
        rounds, estimates.coverage, reach, fmt="o", color=_ESTIMATE, label="measured, 95 % interval", zorder=2
    )
    right.set(
        title=f"Coverage of the intervals ({simulation.repetitions} repetitions)",
        xlabel="round",
        ylabel="share of repetitions",
        xlim=(0, simulation.rounds + 1),
        ylim=(min(0.5, low.min()) - 0.03, 1.03),
    )
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.legend(loc="lower right")
    figure.suptitle(f"{estimates.metric.name}: {simulation.devices:,} devices", fontsize=11)
    return figure


def _mean_over_rounds(axes: Any, estimates: MetricEstimates) -> None:
    rounds = np.arange(1, len(estimates.truth) + 1)
    value, lower, upper = (part[0, :, 0] for part in (estimates.value, estimates.lower, estimates.upper))
    label = f"{100 * estimates.confidence:g} % interval"
    if len(rounds) == 1:  # a band or a line through one point would not be seen
        axes.errorbar(
            rounds, (lower + upper) / 2, yerr=(upper - lower) / 2, fmt="none", color=_ESTIMATE, label=label
        )
        axes.set_xticks(rounds)
    else:
        axes.fill_between(rounds, lower, upper, color=_ESTIMATE, alpha=0.2, linewidth=0, label=label)
    axes.plot(rounds, value, color=_ESTIMATE, marker="o", label="estimate")
    marker = "D" if len(rounds) == 1 else None
    axes.plot(rounds, estimates.truth[:, 0], color=_TRUTH, linestyle="--", marker=marker, label="truth")
    axes.set(
        title="Mean per round, first repetition", xlabel="round", ylabel=estimates.metric.unit or "mean value"
    )
    axes.legend(loc="upper right")


def _last_histogram(axes: Any, estimates: MetricEstimates) -> None:
    labels = estimates.metric.labels or estimates.metric.parts
    edges = [float(edge) for edge in estimates.metric.mechanism.points]
    places = np.arange(estimates.truth.shape[1])
    value = estimates.value[0, -1]
    lower = estimates.lower[0, -1]
    upper = estimates.upper[0, -1]
    middle = (lower + upper) / 2
    reach = (upper - lower) / 2
    axes.bar(places, estimates.truth[-1], color=_TRUTH, alpha=0.45, width=0.9, label="truth")
    axes.errorbar(
        places, middle, yerr=reach, fmt="none", color=_ESTIMATE, label="interval, all buckets at once"
    )
    axes.plot(places, value, "o", color=_ESTIMATE, markersize=3, label="estimate")
    step = max(1, len(places) // 8)
    if labels:
        axes.set_xticks(places, estimates.metric.bucket_labels, rotation=30, ha="right")
    else:
        axes.set_xticks(places[: len(edges) - 1 : step] - 0.5, [f"{edge:,g}" for edge in edges[:-1:step]])
    axes.set(
        title=f"Histogram of round {len(estimates.truth)}, first repetition",
        xlabel="" if labels else f"from … {estimates.metric.unit}".strip(),
        ylabel="share of devices",
    )
    axes.legend(loc="upper right")


@drawing
def _people(people: People) -> Figure:
    figure, (left, right) = panels(2, width=5.0)
    shares, losses = people.share_by_width, people.loss_by_width
    bars = left.bar(range(len(shares)), [100 * share for share in shares.values()], color=_ESTIMATE)
    left.bar_label(bars, [f"loss ≤ {printed(losses[width])}" for width in shares], fontsize=8, padding=2)
    left.set_xticks(range(len(shares)), [str(width) for width in shares])
    left.set(
        title="Loss by the width of the pattern",
        xlabel=f"remembered answers used in {people.rounds} rounds",
        ylabel="% of devices",
        ylim=(0, 112),
    )
    supports = people.supports
    right.step(
        100 * np.concatenate([[0.0], supports.cumulative_shares]),
        np.concatenate([supports.counts[:1], supports.counts]),
        where="pre",
        color=_ESTIMATE,
    )
    right.set_yscale("log")
    right.set(
        title=f"Devices per pattern: {100 * supports.share_lonely:.1f} % share theirs with at most one",
        xlabel="% of devices, most common patterns first",
        ylabel="devices with the pattern",
    )
    figure.suptitle(
        f"{people.metric.name}: {100 * supports.share_constant:.1f} % never change their remembered answer",
        fontsize=11,
    )
    return figure
