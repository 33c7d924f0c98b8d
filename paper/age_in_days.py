"""§3.3: age in days, a counter that only grows, asked every day without flips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from paper.experiment import Claim, Picture, Result, Setting, Table, Verdict
from paper.population_cache import generator
from paper.rounded import rounded_cells
from reticent.counts import MeanCounts
from reticent.estimates import estimate
from reticent.estimates.bounds import paper_bound
from reticent.lab.fleet import AgeInDays
from reticent.mechanisms import OneBitMean
from reticent.plan import Metric
from reticent.plots import COLOURS, drawing, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CENTURY = 36_525
"""The range m: a hundred years, in days."""

ROUNDS = 365
"""A year of daily rounds."""

DEVICES = 100_000
FLIP = 0.2
"""For the figure of what flips do to the form of the answers."""

STRICT = 1 - 1e-6
"""Confidence of the bound that no round should leave."""

YEAR = 365.25


@dataclass(frozen=True, slots=True)
class Year:
    """What a year of answers looked like."""

    devices: int
    of_the_form: int
    """Devices whose answers are z…z z̄…z̄ (or z…z)."""
    rounded_up: int
    """Devices whose rounded value changed within the year."""
    shown: int
    """Devices whose answers changed with it; for the others both remembered bits are equal (t = T)."""
    of_the_form_with_flips: int
    truth: NDArray[np.float64]
    found: NDArray[np.float64]
    half_widths: NDArray[np.float64]
    covered: NDArray[np.bool_]
    bound: float
    """Theorem 1's bound at confidence `STRICT`."""


def result(setting: Setting) -> Result:
    """A year of ages, asked every day."""
    year = simulate(setting, min(DEVICES, setting.fleets[0]))
    even, ages = every_offset()
    return Result(
        name="age-in-days",
        title="Age in days",
        summary=f"{year.devices:,} devices report their age in days, s = m = {CENTURY:,}, on {ROUNDS} days.",
        tables=(_year_table(year), _mean_table(year)),
        pictures=(_picture(year),),
        claims=(form(year), accuracy(year), transition(even, ages)),
    )


def simulate(setting: Setting, devices: int) -> Year:
    """The answers of all devices, with the thresholds and the rounding of the SDK."""
    draw = generator(setting.seed, "tables", "age-in-days")
    mechanism = OneBitMean(1, CENTURY)
    metric = Metric("age", mechanism, unit="day")
    ages = AgeInDays(CENTURY).values(devices, ROUNDS, draw)
    alphas, low, high = (draw.integers(0, 2**64, devices, dtype=np.uint64) for _ in range(3))
    cells = rounded_cells(ages, alphas, mechanism.grid)
    thresholds = [np.uint64(each) for each in mechanism.cell_thresholds]
    answers = np.where(cells == 1, high < thresholds[1], low < thresholds[0])
    estimates = [estimate(metric, MeanCounts(devices, int(ones))) for ones in answers.sum(axis=1)]
    truth = ages.mean(axis=1)
    turned = answers ^ (draw.random(answers.shape, dtype=np.float32) < FLIP)
    return Year(
        devices=devices,
        of_the_form=int((changes(answers) <= 1).sum()),
        rounded_up=int((cells[0] != cells[-1]).sum()),
        shown=int((changes(answers) == 1).sum()),
        of_the_form_with_flips=int((changes(turned) <= 1).sum()),
        truth=truth,
        found=np.array([each.value for each in estimates]),
        half_widths=np.array([each.half_width for each in estimates]),
        covered=np.array(
            [each.lower <= mean <= each.upper for each, mean in zip(estimates, truth, strict=True)]
        ),
        bound=paper_bound(metric, devices, STRICT),
    )


def changes(answers: NDArray[np.bool_]) -> NDArray[np.int64]:
    """
    How often each device's answers change: at most once is what z…z z̄…z̄ means.

    >>> changes(np.array([[0, 0, 1], [1, 0, 0], [1, 0, 1]], dtype=bool)).tolist()
    [1, 0, 2]
    """
    return np.asarray((answers[1:] != answers[:-1]).sum(axis=0), dtype=np.int64)


def every_offset(top: int = CENTURY, rounds: int = ROUNDS) -> tuple[bool, tuple[int, ...]]:
    """
    Whether, for several ages, every day of the year is the day of change for exactly one of the m alphas.

    Then the day of change has one law, 1/m per day, whatever the age: it tells nothing about it.
    """
    alphas = np.arange(top)
    ages = (0, top // 3, top // 2, top - rounds - 1)
    even = True
    for age in ages:
        day = top - age - alphas  # the first day on which age + day + alpha reaches m
        within = np.bincount(day[(day >= 1) & (day <= rounds)], minlength=rounds + 1)[1:]
        even &= bool((within == 1).all())
    return even, ages


def _year_table(year: Year) -> Table:
    return Table(
        "age-in-days",
        "Answers about age in days over a year (ε = 1, no flips)",
        ("what", "devices", "share"),
        tuple(
            (what, count, count / year.devices)
            for what, count in (
                ("all", year.devices),
                ("answers z…z z̄…z̄ or z…z", year.of_the_form),
                ("rounded value changed", year.rounded_up),
                ("of these, answer changed (0 < t < T)", year.shown),
                (f"of that form, were answers flipped with γ = {FLIP:g}", year.of_the_form_with_flips),
            )
        ),
    )


def _mean_table(year: Year) -> Table:
    errors = np.abs(year.found - year.truth)
    return Table(
        "mean-age",
        "Mean age, estimated every day",
        (
            "rounds",
            "mean error (days)",
            "largest error (days)",
            "half-width (days)",
            "rounds covered at 95 %",
        ),
        (
            (
                len(errors),
                float(errors.mean()),
                float(errors.max()),
                float(year.half_widths.mean()),
                float(year.covered.mean()),
            ),
        ),
    )


def form(year: Year) -> Claim:
    """§3.3: each user's answers are z^t followed by z̄^(T-t)."""
    right = year.of_the_form == year.devices
    return Claim(
        "§3.3",
        "Collecting age in days with s = m, each user answers with a sequence z^t z̄^(T-t).",
        f"{year.of_the_form:,} of {year.devices:,} devices do, over {ROUNDS} rounds. {year.rounded_up:,} "
        f"of them passed m - α, and {year.shown:,} of those show it; for the others both remembered bits "
        f"are equal and t = T. With flips of γ = {FLIP:g} the form is gone: "
        f"{year.of_the_form_with_flips:,} devices have it.",
        Verdict.HOLDS if right else Verdict.FAILS,
        "" if right else "some device's rounded value falls back",
    )


def accuracy(year: Year) -> Claim:
    """§3.3: such data can be collected with high accuracy."""
    worst = float(np.abs(year.found - year.truth).max())
    right = worst <= year.bound
    return Claim(
        "§3.3",
        "The mean of such a counter is collected for T rounds with high accuracy.",
        f"The largest error of {ROUNDS} rounds with {year.devices:,} devices is {worst / YEAR:.2f} years "
        f"of {CENTURY / YEAR:.0f}; Theorem 1's bound at δ = 1e-6 is {year.bound / YEAR:.2f}. "
        f"{year.covered.sum()} rounds are inside their 95 % intervals: remembered bits make errors last, "
        "so these are not independent.",
        Verdict.HOLDS if right else Verdict.FAILS,
        "" if right else "the error leaves the bound",
    )


def transition(even: bool, ages: tuple[int, ...]) -> Claim:
    """§3.3: the collector learns the day of change only, which is safe as α is uniform."""
    return Claim(
        "§3.3",
        "The collector learns only the day on which age passes m - α, which is safe as α is uniform.",
        f"For each of the ages {', '.join(f'{age / YEAR:.0f}' for age in ages)} years, every day of the "
        f"year is the day of change for {'exactly one' if even else 'not exactly one'} of the {CENTURY:,} "
        "alphas: the day has the same law for all ages.",
        Verdict.HOLDS if even else Verdict.FAILS,
        "" if even else "the day of change depends on the age",
    )


def _picture(year: Year) -> Picture:
    return Picture(
        name="age-in-days",
        title="Mean age, estimated every day from the same remembered bits",
        caption=(
            "Estimated and true mean age against the day. The estimate with its band of 95 % confidence "
            "runs almost parallel to the truth: as bits are remembered, its error stays nearly the same "
            "all year."
        ),
        draw=lambda: _draw(year),
    )


@drawing
def _draw(year: Year) -> Figure:
    figure, (axis,) = panels(width=6.0, height=3.0)
    days = np.arange(1, len(year.truth) + 1)
    low, high = ((year.found + sign * year.half_widths) / YEAR for sign in (-1, 1))
    axis.fill_between(days, low, high, color=COLOURS[0], alpha=0.18, linewidth=0, label="95 % interval")
    axis.plot(days, year.found / YEAR, color=COLOURS[0], label="estimate")
    axis.plot(days, year.truth / YEAR, color=COLOURS[1], linestyle="--", label="truth")
    axis.set(xlabel="day", ylabel="mean age (years)")
    figure.legend(loc="outside right center", frameon=False)
    return figure
