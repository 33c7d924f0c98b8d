"""Midpoints: rounding every value to the middle of its segment, against rounding by each device's alpha."""

import numpy as np
from drawing import publish, ticks
from gallery import DAY, options, table

from reticent.mechanisms import Grid, OneBitMean
from reticent.plan import Metric, Plan
from reticent_collector.counts import MeanCounts
from reticent_collector.estimates import Estimate, estimate
from reticent_collector.plots import COLOURS, MARKERS, panels
from reticent_lab.fleet import VectorisedFleet, population

MAX, STEPS = 1440, (1440, 360, 120)  # minutes
CONFIDENCE = 0.995  # of each interval: all twelve of them hold with 94%
MIDDLE = {step: np.minimum(np.arange(MAX + 1), MAX - 1) // step * step + step // 2 for step in STEPS}


def errors(step: int, devices: int, seed: int) -> tuple[float, dict[str, Estimate], float]:
    """The mean minutes of a fleet of app users, its two estimates, and the error that midpoints must make."""
    minutes = population("gran-turismo-sport", MAX).values(devices, 1, np.random.default_rng(seed))[0]
    middles = Grid([0, *np.unique(MIDDLE[step]).tolist(), MAX])  # a midpoint is a point: no alpha moves it
    metrics = Metric("midpoint", OneBitMean(1, grid=middles)), Metric("alpha-point", OneBitMean(1, MAX, step))
    fleet = VectorisedFleet(Plan("midpoint", 1, DAY, DAY, metrics), devices, seed)
    values = {"midpoint": MIDDLE[step][minutes], "alpha-point": minutes}
    ones = {name: int(fleet.bits(name, 0, values).sum()) for name in values}
    found = {each.name: estimate(each, MeanCounts(devices, ones[each.name]), CONFIDENCE) for each in metrics}
    return float(minutes.mean()), found, float((MIDDLE[step][minutes] - minutes).mean())


def main(arguments: list[str] | None = None) -> None:
    """Estimate with both roundings, for several steps and fleets; print the figures and draw the errors."""
    asked = options(__doc__, arguments, devices=200_000)
    sizes = [asked.devices // 100, asked.devices // 10, asked.devices]
    cases = [(step, asked.devices) for step in STEPS] + [(STEPS[-1], size) for size in sizes]
    results = [errors(step, size, asked.seed + place) for place, (step, size) in enumerate(cases)]
    columns = {"step": [step for step, _ in cases], "devices": [size for _, size in cases]}
    columns["true mean"] = [truth for truth, _, _ in results]
    for name in ("midpoint", "alpha-point"):
        columns[name] = [found[name].value for _, found, _ in results]
        columns[f"{name} ±"] = [found[name].half_width for _, found, _ in results]
    table({**columns, "bias of midpoints": [bias for _, _, bias in results]}, digits=1)
    figure, (left, right) = panels(2)
    looks = zip(("midpoint", "alpha-point"), COLOURS[1::-1], MARKERS, (0.96, 1.04), strict=False)
    for name, colour, marker, aside in looks:
        off = np.array([found[name].value - truth for truth, found, _ in results])
        width = np.array([found[name].half_width for _, found, _ in results])
        for axis, x, at in ((left, STEPS, slice(0, 3)), (right, sizes, slice(3, 6))):
            axis.errorbar(aside * np.array(x), off[at], width[at], color=colour, fmt=marker, label=name)
            axis.axhline(0, color="k", linewidth=0.8)
            axis.set(ylabel="estimate - true mean, minutes", xscale="log")
    ticks(left, STEPS, xlabel="step, minutes", title=f"{asked.devices:,} devices")
    ticks(right, sizes, xlabel="devices", title=f"Step of {STEPS[-1]} minutes")
    publish(figure, asked.out, "midpoint", together=2)


if __name__ == "__main__":
    main()
