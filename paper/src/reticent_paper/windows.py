"""
What Windows could have promised, at what precision, on how many machines: the figures of
docs/explanation/windows.md.

    python -m reticent_paper.windows docs/images          writes windows.json and windows.svg

Section 6 says that memoization is applied "across days". Read as one memo for all rounds, or as one memo for each
time of day; both are here, beside sampled answers: a bit about each app or about one of them, and the plan's sibling,
which asks for the app in front at one moment. The people, their apps and the plan are those of `paper.deployment`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, reduce
from itertools import product
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from reticent.mechanisms import Flip, SubsetSelection
from reticent.plan import Answers, Metric, Plan
from reticent_collector.counts import MeanCounts
from reticent_collector.estimates import average, clopper_pearson
from reticent_collector.plots import COLOURS, drawing, panels, save
from reticent_collector.privacy.card import privacy_card
from reticent_lab.crowd import Crowd, CrowdDraws, law_of
from reticent_paper.claims import ExperimentResult, Rows, Setting, picture, table
from reticent_paper.deployment import APPS, EXAMPLE, ROUNDS_PER_DAY, SIX_HOURS, crowd
from reticent_paper.losses import DEPLOYED, FLIP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (1_000_000, 10_000_000, 100_000_000, 1_500_000_000)
WEEK = 7 * ROUNDS_PER_DAY
WEEKS = 4
CONFIDENCE = 0.95
ONE_MEMO, PER_SLOT, ONE_APP, ALL_APPS, SPLIT, SAME_LOSS = WAYS = (
    "remembered, one memo",
    "remembered, a memo per time of day",
    "sampled weekly, one app",
    "sampled weekly, all apps",
    "sampled weekly, a split",
    "sampled weekly, a split, ε = 2.645",
)
SIBLING = EXAMPLE.with_name("windows-split.toml")  # The same seconds as a split
SPLITS = {SPLIT: "1", SAME_LOSS: "2.645"}
"""What a split loses in a window; the second is what a bit about each app loses."""


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


@cache
def plan_of(way: str) -> Plan:
    """The plan of section 6, the same with sampled answers, or its sibling."""
    if way in SPLITS:
        plan = Plan.load(SIBLING)
        [apps] = plan.metrics
        mechanism = SubsetSelection(SPLITS[way], apps.mechanism.buckets)  # type: ignore[arg-type]
        return replace(plan, metrics=(replace(apps, mechanism=mechanism),))
    plan = Plan.load(EXAMPLE)
    if way not in (ONE_APP, ALL_APPS):
        return plan
    metrics = tuple(replace(metric, flip=Flip(0)) for metric in plan.metrics)
    return replace(plan, metrics=metrics, answers=Answers(WEEK, 1 if way == ONE_APP else None))


def counts_of(way: str, people: Crowd, seed: int) -> dict[str, list[MeanCounts]]:
    """The counts of each app, round by round."""
    plan = plan_of(way)
    if way in SPLITS:
        draws = CrowdDraws(plan, replace(people, values=_as_parts(people, plan)), seed)
        draws.block = _block(people)
        (drawn,) = draws.draw(1)
        [of_split] = (tally.counts for tally in drawn.values())
        return {
            app.metric: [MeanCounts(one.reports[place], one.ones[place]) for one in of_split]  # type: ignore[index]
            for place, app in enumerate(APPS)
        }
    if way != PER_SLOT:
        (drawn,) = CrowdDraws(plan, people, seed).draw(1)
        return {name: tally.counts for name, tally in drawn.items()}  # type: ignore[misc]
    counts: dict[str, list[Any]] = {app.metric: [None] * people.rounds for app in APPS}
    for slot in range(ROUNDS_PER_DAY):
        own = replace(people, rounds=people.rounds // ROUNDS_PER_DAY, values=_only(people, slot))
        draws = CrowdDraws(plan, own, seed + slot)
        draws.block = _block(people)
        (drawn,) = draws.draw(1)
        for name, tally in drawn.items():
            counts[name][slot::ROUNDS_PER_DAY] = tally.counts
    return counts


def _block(people: Crowd) -> int:
    """How many individuals the deployment's plan has in a block: they are drawn by blocks, the same in all ways."""
    return CrowdDraws(Plan.load(EXAMPLE), people, 0).block


def _only(people: Crowd, slot: int) -> Any:
    """The values of one time of day: a joint limit is one of each round, so it stays what it was."""
    return lambda part: {name: column[slot::ROUNDS_PER_DAY] for name, column in people.values(part).items()}


def _as_parts(people: Crowd, plan: Plan) -> Any:
    """The values by the names of a split's parts, which are in the order of the apps."""

    def part(some: slice) -> dict[str, Any]:
        values = people.values(some)
        return {name: values[app.metric] for name, app in zip(plan.recorded, APPS, strict=True)}

    return part


def known(metric: Metric, counts: Sequence[MeanCounts]) -> tuple[float, float, float]:
    """What rounds tell of one app: the mean and its interval, before it is cut to the range."""
    if not metric.parts:
        figure = average(metric, counts, CONFIDENCE)
        return figure.value, *figure.uncut
    [one] = counts
    lower, upper = clopper_pearson(one.ones, one.reports, CONFIDENCE)
    shares = one.ones / one.reports, float(lower), float(upper)
    value, low, high = (metric.top * float(metric.channel.truth(share)) for share in shares)
    return value, low, high


def precision(way: str, people: Crowd, truth: dict[str, NDArray[np.float64]], seed: int) -> Precision:
    """Estimate every round and every week of every app."""
    plan = plan_of(way)
    rounds = []
    weeks = []
    for name, counts in counts_of(way, people, seed).items():
        metric = plan.by_name.get(name, plan.metrics[0])
        for place, of_round in enumerate(counts):
            _, lower, upper = known(metric, [of_round])
            rounds.append(((upper - lower) / 2, lower <= truth[name][place] <= upper))
        for start in range(0, people.rounds, WEEK):
            true = float(truth[name][start : start + WEEK].mean())
            week = counts[start : start + WEEK]
            # Times of day with memos of their own are averaged by themselves; half-widths add, to be safe.
            parts = (
                [week[slot::ROUNDS_PER_DAY] for slot in range(ROUNDS_PER_DAY)] if way == PER_SLOT else [week]
            )
            if plan.answers.sampled:  # a window, whose counts add up
                parts = [[reduce(add, week)]]
            averages = [known(metric, part) for part in parts]
            error = float(np.mean([value for value, _, _ in averages])) - true
            half = float(np.mean([(upper - lower) / 2 for _, lower, upper in averages]))
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
    if plan_of(way).answers.sampled:
        return _habit_guessed_from_samples(*_telling(way), days // 7)
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


def _telling(way: str) -> tuple[float, float]:
    """
    How often an answer of one round speaks for the app if it fills the round, and if it does not.

    It speaks against it as often, the other way round; all else tells nothing. A bit speaks if it is about the app. The
    set of a split speaks for the app if that is in it and the unused rest is not.
    """
    mechanism = plan_of(way).metrics[0].mechanism
    if not isinstance(mechanism, SubsetSelection):
        asked = 1 / len(APPS) if way == ONE_APP else 1.0
        never, always = (threshold / 2**64 for threshold in DEPLOYED.cell_thresholds)
        return asked * always, asked * never
    high, size, others = float(mechanism.channel(Flip(0)).high), mechanism.size, mechanism.bits - 1
    return high * (others + 1 - size) / others, (1 - high) * size / others


def _habit_guessed_from_samples(right: float, wrong: float, weeks: int) -> float:
    """The same from a report per window, whose answer about one round speaks for or against the app."""
    slots = range(ROUNDS_PER_DAY)
    laws = []  # per habit: the chance of each round and answer, and of one that tells nothing
    for habit in slots:
        speaking = [(right, wrong) if slot == habit else (wrong, right) for slot in slots]
        laws.append([*(chance / 4 for pair in speaking for chance in pair), 1 - right - wrong])
    likely = np.array(laws)
    months = [
        np.prod([likely[:, seen] for seen in month], axis=0).max()
        for month in product(range(likely.shape[1]), repeat=weeks)
    ]
    return float(sum(months)) / ROUNDS_PER_DAY


def habit_guessed_in_a_year(way: str, devices: int = 200_000) -> float:
    """The same for sampled answers of 52 weeks, by simulating devices: within 0.4 points, at five deviations."""
    draw = np.random.default_rng(52)
    right, wrong = _telling(way)
    speaking = right + wrong
    answers = draw.binomial(52, min(speaking, 1.0), devices)
    per_slot = draw.multinomial(answers, np.full(ROUNDS_PER_DAY, 1 / ROUNDS_PER_DAY))  # slot 0 is the habit
    ones = draw.binomial(per_slot, np.array([right] + [wrong] * (ROUNDS_PER_DAY - 1)) / speaking)
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
        "habit_guessed_in_a_year": {way: habit_guessed_in_a_year(way) for way in WAYS[2:]},
        "losses": {way: losses(way) for way in WAYS},
    }


@table("ways")
def side_by_side(found: Mapping[str, Any]) -> Rows:
    """The deployment and its sibling: half-widths at 95 % in seconds of six hours, mean over apps, and losses"""
    for row in found["precision"]:
        way = row["way"]
        yield {
            "way": way,
            "devices": row["devices"],
            "half-width, round (s)": row["round"],
            "half-width, week (s)": row["week"],
            "weeks covered": row["covered_weeks"],
            "loss, one report": found["losses"][way]["once"],
            "loss, constant, four weeks": found["losses"][way]["constant"],
            "loss, any history, four weeks": found["losses"][way]["any_history"],
            "habit guessed in four weeks": found["habit_guessed"][way],
        }


def run(setting: Setting) -> ExperimentResult:
    """All ways for two fleets, of fewer people than the page has."""
    devices = max(100_000, setting.fleets[1])  # so that every round has reports about every app
    found = figures(max(60, setting.fleets[0] // 600), setting.seed, (devices, 100 * devices))
    return ExperimentResult(
        "windows",
        "What Windows could have promised",
        "The plan of section 6, examples/windows-deployment.toml, beside its sibling, examples/windows-split.toml, and "
        "other ways to ask for the same seconds; docs/explanation/windows.md explains them.",
        (side_by_side(found),),
        (ways(found),),
    )


@picture("ways", "The deployment and its sibling, side by side")
def ways(found: Mapping[str, Any]) -> Figure:
    """Half-widths against machines, for a week and for one round, and how often a daily habit is guessed."""
    return compared(found)


@drawing
def compared(found: Mapping[str, Any]) -> Figure:
    """Precision against machines, and how often a habit is guessed."""
    figure, (left, right) = panels(2, width=5.2, height=3.6)
    for place, way in enumerate(WAYS):
        rows = [row for row in found["precision"] if row["way"] == way]
        sizes = [row["devices"] for row in rows]
        if way != PER_SLOT:  # a round is told as well as with one memo
            left.plot(
                sizes, [row["round"] for row in rows], "--", color=COLOURS[place], marker="o", markersize=3
            )
        left.plot(sizes, [row["week"] for row in rows], color=COLOURS[place], marker="o", markersize=3)
    left.set(
        xscale="log", yscale="log", xlabel="machines", ylabel="half-width, seconds of 6 hours",
        title="A week (solid) and one round (dashed), colours as beside",
    )  # fmt: skip
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
    save(compared(found), folder, "windows", kinds=("svg",))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
