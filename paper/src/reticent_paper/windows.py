"""
What Windows could have promised, at what precision, on how many machines: the figures of
docs/explanation/windows.md.

    python -m reticent_paper.windows docs/images          writes windows.json and windows.svg

Section 6 says that memoization is applied "across days". Read as one memo for all rounds, or as one memo for each
time of day; both are here, beside sampled answers. The people, their apps and the plan are those of
`paper.deployment`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from itertools import product
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from reticent.mechanisms import Flip
from reticent.plan import Answers, Plan
from reticent_collector.counts import MeanCounts
from reticent_collector.estimates import average, estimate
from reticent_collector.plots import COLOURS, drawing, panels, save
from reticent_collector.privacy.card import privacy_card
from reticent_lab.crowd import Crowd, CrowdDraws, law_of
from reticent_paper.deployment import APPS, EXAMPLE, ROUNDS_PER_DAY, SIX_HOURS, crowd
from reticent_paper.losses import DEPLOYED, FLIP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (1_000_000, 10_000_000, 100_000_000, 1_500_000_000)
WEEK = 7 * ROUNDS_PER_DAY
WEEKS = 4
CONFIDENCE = 0.95
ONE_MEMO, PER_SLOT, ONE_APP, ALL_APPS = WAYS = (
    "remembered, one memo",
    "remembered, a memo per time of day",
    "sampled weekly, one app",
    "sampled weekly, all apps",
)


@dataclass(frozen=True, slots=True)
class Precision:
    """How well one way of answering tells the means of all apps, in seconds out of six hours."""

    way: str
    devices: int
    round: float  #: Half-width of a round, mean over apps and rounds
    week: float  #: Half-width of a week
    week_error: float  #: Root of the mean square of a week's error
    covered: float  #: The share of the intervals of rounds that hold the truth
    covered_weeks: float


def plan_of(way: str) -> Plan:
    """The plan of section 6, or the same with sampled answers."""
    plan = Plan.load(EXAMPLE)
    if way not in (ONE_APP, ALL_APPS):
        return plan
    metrics = tuple(replace(metric, flip=Flip(0)) for metric in plan.metrics)
    return replace(plan, metrics=metrics, answers=Answers(WEEK, 1 if way == ONE_APP else None))


def counts_of(way: str, people: Crowd, seed: int) -> dict[str, list[MeanCounts]]:
    """The counts of each app, round by round."""
    plan = plan_of(way)
    if way != PER_SLOT:
        (drawn,) = CrowdDraws(plan, people, seed).draw(1)
        return {name: tally.counts for name, tally in drawn.items()}  # type: ignore[misc]
    counts: dict[str, list[Any]] = {app.metric: [None] * people.rounds for app in APPS}
    for slot in range(ROUNDS_PER_DAY):
        own = replace(people, rounds=people.rounds // ROUNDS_PER_DAY, values=_only(people, slot))
        draws = CrowdDraws(plan, own, seed + slot)
        draws.block = CrowdDraws(plan, people, seed).block  # the same people, in the same blocks
        (drawn,) = draws.draw(1)
        for name, tally in drawn.items():
            counts[name][slot::ROUNDS_PER_DAY] = tally.counts
    return counts


def _only(people: Crowd, slot: int) -> Any:
    """The values of one time of day: a joint limit is one of each round, so it stays what it was."""
    return lambda part: {name: column[slot::ROUNDS_PER_DAY] for name, column in people.values(part).items()}


def precision(way: str, people: Crowd, truth: dict[str, NDArray[np.float64]], seed: int) -> Precision:
    """Estimate every round and every week of every app."""
    plan = plan_of(way)
    rounds = []
    weeks = []
    for name, counts in counts_of(way, people, seed).items():
        metric = plan.by_name[name]
        for place, of_round in enumerate(counts):
            one = estimate(metric, of_round, CONFIDENCE)
            rounds.append((one.half_width, one.lower <= truth[name][place] <= one.upper))
        for start in range(0, people.rounds, WEEK):
            true = float(truth[name][start : start + WEEK].mean())
            week = counts[start : start + WEEK]
            # Times of day with memos of their own are averaged by themselves; half-widths add, to be safe.
            parts = (
                [week[slot::ROUNDS_PER_DAY] for slot in range(ROUNDS_PER_DAY)] if way == PER_SLOT else [week]
            )
            if plan.answers.sampled:  # a window, whose counts add up
                parts = [[reduce(add, week)]]
            averages = [average(metric, part, CONFIDENCE) for part in parts]
            error = float(np.mean([one.value for one in averages])) - true
            half = float(np.mean([one.half_width for one in averages]))
            weeks.append((half, error**2, abs(error) <= half))
    (width, covered), (week_width, square, covered_weeks) = np.mean(rounds, axis=0), np.mean(weeks, axis=0)
    return Precision(
        way,
        people.devices,
        float(width),
        float(week_width),
        float(np.sqrt(square)),
        float(covered),
        float(covered_weeks),
    )


def truths(plan: Plan, people: Crowd) -> dict[str, NDArray[np.float64]]:
    """The mean of each app in each round, over all devices."""
    total = {name: np.zeros(people.rounds) for name in plan.by_name}

    def look(part: slice, raw: Any, inside: Any) -> None:
        for name, metric in plan.by_name.items():
            total[name] += law_of(metric).truth(inside[name].T, people.copies(part))[:, 0]

    CrowdDraws(plan, people, 0).draw(0, look)
    return {name: of / people.devices for name, of in total.items()}


# A habit: one time of day at which an app fills the whole round, every day


def habit_guessed(way: str, days: int = WEEKS * 7) -> float:
    """
    How often the best guess at a device's time of day is right, from all that it sends about one app: exact.

    A device uses the app for the whole of one of four equally likely rounds a day, the same each day, and not
    otherwise.
    """
    if way in (ONE_APP, ALL_APPS):
        return _habit_guessed_from_samples(1 / len(APPS) if way == ONE_APP else 1.0)
    slots = range(ROUNDS_PER_DAY)
    never, always = (threshold / 2**64 for threshold in DEPLOYED.cell_thresholds)
    flip = FLIP.threshold / 2**64
    heard = [binom.pmf(np.arange(days + 1), days, flip), binom.pmf(np.arange(days + 1), days, 1 - flip)]
    joint = np.zeros((ROUNDS_PER_DAY,) + (days + 1,) * ROUNDS_PER_DAY)
    if way == PER_SLOT:
        laws = [(1 - share) * heard[0] + share * heard[1] for share in (never, always)]
        for habit in slots:
            joint[habit] = _outer([laws[slot == habit] for slot in slots])
    else:
        for habit, idle, busy in product(slots, (0, 1), (0, 1)):
            chance = (never if idle else 1 - never) * (always if busy else 1 - always)
            joint[habit] += chance * _outer([heard[busy if slot == habit else idle] for slot in slots])
    return float(joint.max(axis=0).sum()) / ROUNDS_PER_DAY


def _habit_guessed_from_samples(asked: float) -> float:
    """The same from a report per window, which asks about the app with probability `asked`."""
    slots = range(ROUNDS_PER_DAY)
    never, always = (threshold / 2**64 for threshold in DEPLOYED.cell_thresholds)
    laws = []  # per habit: the chance of each round and bit, and of a report about another app
    for habit in slots:
        ones = [always if slot == habit else never for slot in slots]
        answers = [asked / 4 * chance for one in ones for chance in (1 - one, one)]
        laws.append([*answers, 1 - asked])
    likely = np.array(laws)
    months = [
        np.prod([likely[:, seen] for seen in month], axis=0).max()
        for month in product(range(likely.shape[1]), repeat=WEEKS)
    ]
    return float(sum(months)) / ROUNDS_PER_DAY


def habit_guessed_in_a_year(way: str, devices: int = 200_000) -> float:
    """The same for sampled answers of 52 weeks, by simulating devices: within 0.4 points, at five deviations."""
    draw = np.random.default_rng(52)
    never, always = (threshold / 2**64 for threshold in DEPLOYED.cell_thresholds)
    answers = draw.binomial(52, 1 / len(APPS) if way == ONE_APP else 1.0, devices)
    per_slot = draw.multinomial(answers, np.full(ROUNDS_PER_DAY, 1 / ROUNDS_PER_DAY))  # slot 0 is the habit
    ones = draw.binomial(per_slot, np.array([always] + [never] * (ROUNDS_PER_DAY - 1)))
    lead = 2 * ones - per_slot  # the logarithm of the odds is a multiple of it
    first = lead == lead.max(axis=1, keepdims=True)
    return float((first[:, 0] / first.sum(axis=1)).mean())


def _outer(laws: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The joint law of independent counts."""
    return np.asarray(np.einsum("a,b,c,d->abcd", *laws))


def losses(way: str) -> dict[str, float]:
    """What all apps together cost a device: in a round or window, kept still for four weeks, and whatever it does."""
    memos = ROUNDS_PER_DAY if way == PER_SLOT else 1  # each over its own rounds; their losses add
    card = privacy_card(plan_of(way), WEEK * WEEKS // memos)
    constant = card.any_history if card.window is not None else memos * card.constant
    return {"once": card.round, "constant": constant, "any_history": memos * card.any_history}


def figures(individuals: int = 4000, seed: int = 2017, sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Everything that the page says."""
    plan = Plan.load(EXAMPLE)
    rounds = WEEK * WEEKS
    table = []
    for place, devices in enumerate(sizes):
        people = crowd(plan, individuals, rounds, seed, devices)
        truth = truths(plan, people)
        table += [asdict(precision(way, people, truth, seed + 10 * place)) for way in WAYS]
    return {
        "individuals": individuals,
        "rounds": rounds,
        "apps": len(APPS),
        "range": SIX_HOURS,
        "precision": table,
        "habit_guessed": {way: habit_guessed(way) for way in WAYS},
        "habit_guessed_in_a_year": {way: habit_guessed_in_a_year(way) for way in (ONE_APP, ALL_APPS)},
        "losses": {way: losses(way) for way in WAYS},
    }


@drawing
def picture(found: dict[str, Any]) -> Figure:
    """Precision against machines, and how often a habit is guessed."""
    figure, (left, right) = panels(2, width=5.2, height=3.6)
    for place, way in enumerate(WAYS):
        rows = [row for row in found["precision"] if row["way"] == way]
        sizes = [row["devices"] for row in rows]
        if way != PER_SLOT:  # a round is told as well as with one memo
            left.plot(
                sizes, [row["round"] for row in rows], "--", color=COLOURS[place], marker="o", markersize=3
            )
        left.plot(
            sizes, [row["week"] for row in rows], color=COLOURS[place], marker="o", markersize=3, label=way
        )
    left.set(
        xscale="log", yscale="log", xlabel="machines", ylabel="half-width, seconds of 6 hours",
        title="A week (solid) and one round (dashed)",
    )  # fmt: skip
    left.legend(loc="lower left", fontsize=7)
    guessed = [100 * found["habit_guessed"][way] for way in WAYS]
    bars = right.barh(range(len(WAYS)), guessed, color=COLOURS[: len(WAYS)])
    right.bar_label(bars, [f"{share:.0f} %" for share in guessed], padding=3)
    right.axvline(25, color="black", linestyle=":", label="blind guess")
    right.set_yticks(range(len(WAYS)), [way.replace(", ", ",\n") for way in WAYS])
    right.invert_yaxis()
    right.set(xlim=(0, 100), xlabel="% of devices guessed right", title="A daily habit, after four weeks")
    right.legend(loc="lower right", fontsize=7)
    return figure


def main(folder: Path) -> None:
    """Write the figures and the picture."""
    found = figures()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "windows.json").write_text(json.dumps(found, indent=1) + "\n")
    save(picture(found), folder, "windows", kinds=("svg",))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
